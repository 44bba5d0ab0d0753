/** A handler that cannot be loaded is found when its worker starts, not when its first job fails. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runNode, within } from '../server-process.ts'
import { Crew } from './crew.ts'

const CASES = (['thread', 'process'] as const).flatMap((isolation) => [
  { isolation, module: './missing.mjs', why: 'the file does not exist' },
  { isolation, module: './nothing.mjs', why: 'there is no default export' },
  { isolation, module: './nothing.mjs', exportName: 'absent', why: 'there is no such export' },
  { isolation, module: './nothing.mjs', exportName: 'other', why: null },
])

test('start() rejects and names the module', async () => {
  const { server } = await Crew.open()
  const script = fileURLToPath(new URL('./modules/start.mjs', import.meta.url))
  const child = runNode(script, { CASES: JSON.stringify({ url: server.url, cases: CASES }) })
  await within('every start has ended', child.exited)
  const outcomes = JSON.parse(child.output.stdout) as { started: boolean; message: string }[]
  const seen = CASES.map(({ isolation, module, why }, index) => {
    const { started = false, message = '' } = outcomes[index] ?? {}
    const names = message.includes(module.slice(2)) ? 'names the module' : `says "${message}"`
    return `${isolation}, ${why ?? 'it can be loaded'}: ${started ? 'started' : names}`
  })
  expect(seen).toEqual(
    CASES.map(({ isolation, why }) =>
      why === null ? `${isolation}, it can be loaded: started` : `${isolation}, ${why}: names the module`,
    ),
  )
})
