/** `curfew journey deploy`: judges definitions, and hands those that are right to a server. */
import { EXIT } from './frame/exit.ts'
import { judgeFile } from './journey-files.ts'
import type { Call } from './frame/command.ts'
import { limitsOf } from './frame/flags.ts'
import { Remote, refusal } from './frame/remote.ts'
import { shown } from './journey-validate.ts'

interface DeployedView {
  readonly name: string
  readonly version: string
  readonly kind: string
  readonly effectiveMaxDurationSec: number
}

export async function deploy({ flags, terminal }: Call): Promise<number> {
  const server = new Remote(flags, terminal)
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
