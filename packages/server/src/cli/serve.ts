/** `curfew serve`: opens the server, says where it listens, and stops in order. */
import type { Logger } from 'pino'
import { mayHoldTokens, nameOf, placeOf } from '../open-store.ts'
import { secretsInEnvironment } from '../secrets.ts'
import { mayListen, serverOn } from '../server.ts'
import type { Settings } from '../settings.ts'

export interface Serving {
  readonly address: string
  stop(): Promise<void>
}

export async function serve(settings: Settings, log: Logger): Promise<Serving> {
  const at = { host: String(settings['host']), port: Number(settings['port']) }
  // A start that is refused makes no data file.
  mayListen(at.host, (settings['token'] ?? null) !== null || mayHoldTokens(settings))
  const server = await serverOn(settings, { log, secrets: secretsInEnvironment(process.env) })
  const { address } = await server.listen(at).catch(async (error: unknown) => {
    await server.close()
    throw error
  })
  const place = placeOf(settings)
  log.info(
    {
      address,
      data: nameOf(place),
      ...(place.kind === 'file' ? { durability: settings['durability'] } : {}),
      conformance: settings['conformance'] === true,
      clock: settings['clock'],
    },
    'serving',
  )
  return { address, stop: () => server.close() }
}
