/** `curfew journey simulate`: where the time of a run would go, from its definition and what one assumes of it. */
import { clockFrom, mistakesIn, planJourney } from '@curfew/core'
import type { Assumptions, PlannedEnd, RunLimits, Taking } from '@curfew/core'
import { nodeHost } from '../host.ts'
import { SettingsError } from '../settings.ts'
import { planText } from './journey-chart.ts'
import { EXIT } from './frame/exit.ts'
import { judgeFile } from './journey-files.ts'
import type { Call } from './frame/command.ts'
import { lengthOf, limitsOf, type Terminal } from './frame/flags.ts'
import { shown } from './journey-validate.ts'

const ENDS: Readonly<Record<PlannedEnd['kind'], number>> = {
  Success: EXIT.fine,
  Fail: EXIT.failed,
  Timeout: EXIT.timedOut,
  Loop: EXIT.timedOut,
}

export async function simulate({ flags, terminal }: Call): Promise<number> {
  const file = flags.names[0] ?? '-'
  const limits = limitsOf(flags)
  const assumptions: Assumptions = {
    takes: Object.fromEntries(flags.texts('set').map((given) => taking(given))),
    chooses: Object.fromEntries(flags.texts('choose').map((given) => choosing(given))),
  }
  const definition = await definitionIn(file, limits, flags.text('root'), terminal)
  if (definition === null) return EXIT.refused
  const mistakes = mistakesIn(definition, assumptions)
  if (mistakes.length > 0) throw new SettingsError(mistakes.join(' '))
  const plan = planJourney(definition, limits, assumptions, clockFrom(nodeHost).now())
  terminal.write(flags.has('json') ? JSON.stringify(plan, null, 2) : planText(plan, terminal))
  return ENDS[plan.end.kind]
}

async function definitionIn(file: string, limits: RunLimits, root: string | undefined, terminal: Terminal) {
  const judged = await judgeFile(file, limits, root)
  if (judged.definition === null) terminal.write(shown(judged, terminal.colour))
  return judged.definition
}

/** `callA=2s`, `callA=forever`, `*=forever`. */
function taking(given: string): [string, Taking] {
  const [name, value] = halves(given, '--set')
  return [name, value === 'forever' ? value : lengthOf(value, `--set ${name}`)]
}

/** `pick=again,again,done`: visit by visit. */
function choosing(given: string): [string, readonly string[]] {
  const [name, value] = halves(given, '--choose')
  return [name, value.split(',')]
}

function halves(given: string, flag: string): [string, string] {
  const at = given.indexOf('=')
  if (at < 1 || at === given.length - 1)
    throw new SettingsError(
      `${flag} needs a state and a value, as in ${flag} 'callA=2s', not ${JSON.stringify(given)}.`,
    )
  return [given.slice(0, at), given.slice(at + 1)]
}
