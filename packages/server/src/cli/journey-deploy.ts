/** `curfew journey deploy`: judges definitions, and hands those that are right to a server. */
import { EXIT } from './journey-exit.ts'
import { judgeFile } from './journey-files.ts'
import { FILE_FLAGS, limitsOf, readFlags, SERVER_FLAGS, type Terminal } from './journey-flags.ts'
import { JourneyServer, refusal } from './journey-server.ts'
import { shown } from './journey-validate.ts'

interface DeployedView {
  readonly name: string
  readonly version: string
  readonly kind: string
  readonly effectiveMaxDurationSec: number
}

export async function deploy(args: readonly string[], terminal: Terminal): Promise<number> {
  const usage = 'curfew journey deploy FILE... [--root DIR] [--url URL] [--token TOKEN] [--json]'
  const flags = readFlags(args, { ...SERVER_FLAGS, ...FILE_FLAGS }, ['FILE...'], usage)
  const server = new JourneyServer(flags, terminal)
  let code: number = EXIT.fine
  for (const file of flags.names) {
    const judged = await judgeFile(file, limitsOf(flags), flags.text('root'))
    if (judged.definition === null) {
      terminal.write(shown(judged, terminal.colour))
      code = EXIT.refused
      continue
    }
    const answer = await server.ask('PUT', `/api/v1/definitions/${judged.definition.name}`, judged.source)
    if (answer.status !== 200 && answer.status !== 201) throw refusal(answer)
    const { kind, name, version, effectiveMaxDurationSec } = answer.body as DeployedView
    const became = answer.status === 201 ? 'deployed' : 'already deployed; now in force'
    const words = `${file}: ${kind} ${name} ${version} ${became}; a run may take ${String(effectiveMaxDurationSec)} s`
    terminal.write(flags.has('json') ? JSON.stringify(answer.body) : words)
  }
  return code
}
