/** `curfew journey simulate`: where the time of a run would go, from its definition and what one assumes of it. */
import { readFileSync } from 'node:fs'
import { clockFrom, mistakesIn, parseDuration, planJourney } from '@curfew/core'
import type { Assumptions, Millis, PlannedEnd, RunLimits, Taking } from '@curfew/core'
import { checksWith, judge } from '../engine/definition-verdict.ts'
import { openExpressions } from '../expressions/open-expressions.ts'
import { nodeHost, systemRandom } from '../host.ts'
import { SettingsError } from '../settings.ts'
import { planText } from './journey-chart.ts'
import { EXIT } from './journey-exit.ts'
import { readFlags, type Terminal } from './journey-flags.ts'

const USAGE =
  "curfew journey simulate FILE [--set 'STATE=2s']… [--choose STATE=NEXT[,NEXT…]]… [--run-default 1d] [--run-cap 7d] [--json]"

const ENDS: Readonly<Record<PlannedEnd['kind'], number>> = {
  Success: EXIT.fine,
  Fail: EXIT.failed,
  Timeout: EXIT.timedOut,
  Loop: EXIT.timedOut,
}

export async function simulate(args: readonly string[], terminal: Terminal): Promise<number> {
  const repeated = { type: 'string', multiple: true } as const
  const text = { type: 'string' } as const
  const options = {
    set: repeated,
    choose: repeated,
    'run-default': text,
    'run-cap': text,
    json: { type: 'boolean' },
  } as const
  const flags = readFlags(args, options, ['FILE'], USAGE)
  const file = flags.names[0] ?? '-'
  const limits: RunLimits = {
    defaultMs: lengthOf(flags.text('run-default') ?? '1d', '--run-default'),
    capMs: lengthOf(flags.text('run-cap') ?? '7d', '--run-cap'),
  }
  const assumptions: Assumptions = {
    takes: Object.fromEntries(flags.texts('set').map((given) => taking(given))),
    chooses: Object.fromEntries(flags.texts('choose').map((given) => choosing(given))),
  }
  const definition = await definitionIn(file, limits, terminal)
  if (definition === null) return EXIT.refused
  const mistakes = mistakesIn(definition, assumptions)
  if (mistakes.length > 0) throw new SettingsError(mistakes.join(' '))
  const plan = planJourney(definition, limits, assumptions, clockFrom(nodeHost).now())
  terminal.write(flags.has('json') ? JSON.stringify(plan, null, 2) : planText(plan, terminal))
  return ENDS[plan.end.kind]
}

async function definitionIn(file: string, limits: RunLimits, terminal: Terminal) {
  const random = systemRandom()
  const expressions = openExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random })
  try {
    const text = readFileSync(file === '-' ? 0 : file, 'utf8')
    const { definition, errors } = await judge(text, checksWith(expressions, limits), () => Promise.resolve())
    for (const { line, column, code, message } of errors)
      terminal.write(`${file}:${String(line)}:${String(column)}  ${code}  ${message}`)
    return definition
  } finally {
    await expressions.close()
  }
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

function lengthOf(text: string, of: string): Millis {
  const ms = parseDuration(text)
  if (ms === null)
    throw new SettingsError(`${of} must be a length such as 250ms, 30s or 1h30m, not ${JSON.stringify(text)}.`)
  return ms
}
