/**
 * Validates arguments against a schema, within a time. A schema and the arguments it meets come from outside, and between
 * them they can ask for any amount of work: a pattern that backtracks for ever, references that double at each step. So
 * the validator is interpreted (nothing of a schema ever becomes code), nothing is fetched, and the whole of it runs
 * under a watchdog that stops it wherever it is, in the middle of a regular expression if need be. A watchdog and not a
 * thread: it costs a tenth of a millisecond, and the answer is there within the transaction. The transaction is that of
 * many, and one schema may be asked about many jobs: what it takes is booked on an account, and when that is empty its
 * arguments are hardly looked at any more.
 */
import { Validator, type OutputUnit, type Schema as JsonSchema } from '@cfworker/json-schema'
import { createContext, Script } from 'node:vm'
import type { Mistake, Stopwatch } from '@curfew/core'
import type { TimeAccount } from './time-accounts.ts'

/** Longer than any honest schema needs, and short enough for everybody else who waits. */
const MAX_MS = 50
/** How often a validation is begun that did not have the processor for the time it took. */
const MAX_TRIES = 4
const MAX_TOLD = 10
/** The time of a validation that is charged to no account. Honest ones need some microseconds for each value. */
const FAIR_MS = 1
const FAIR_CHARACTERS_PER_MS = 4_096

export type Validation =
  | { readonly kind: 'valid' }
  | { readonly kind: 'invalid'; readonly mistakes: readonly Mistake[] }
  /** It took too long, or went round in a circle; or others of its kind did, and it was not looked at for long. */
  | { readonly kind: 'undecided'; readonly mistakes: readonly Mistake[] }

/** `length`: how long the arguments are, as text. */
export type CheckArgs = (args: unknown, length?: number) => Validation

const cage = createContext({ run: () => {} }) as { run: () => unknown }
const script = new Script('run()')

/** Runs the work, and throws when it takes longer. */
type Within = (work: () => unknown, ms: number) => unknown

const watchdog: Within = (work, timeout) => {
  try {
    cage.run = work
    return script.runInContext(cage, { timeout }) as unknown
  } finally {
    cage.run = () => {}
  }
}

export interface CheckTerms {
  readonly stopwatch: Stopwatch
  /** Who pays for it. */
  readonly account: TimeAccount
  /** Tests whose clocks stand still leave the watchdog out: it looks at the machine's clock. */
  readonly within?: Within
}

/** The schema must have been found fit to be registered (`core/schema/json-schema.ts`). */
export function compileSchema(schema: unknown, { stopwatch, account, within = watchdog }: CheckTerms): CheckArgs {
  // It writes its own notes into what it is given.
  const own = typeof schema === 'boolean' ? schema : (structuredClone(schema) as JsonSchema)
  const validator = new Validator(own, '2020-12', false)
  /** Null: the watchdog spoke. */
  const validate = (args: unknown, timeout: number): Validation | null => {
    try {
      const { valid, errors } = within(() => validator.validate(args), timeout) as ReturnType<Validator['validate']>
      return valid ? { kind: 'valid' } : { kind: 'invalid', mistakes: mistakesOf(errors) }
    } catch (error) {
      if (isTimeout(error)) return null
      if (error instanceof RangeError) return TOO_LONG // the stack was used up
      throw error
    }
  }
  return (args, length = 0) => {
    const fairMs = FAIR_MS + length / FAIR_CHARACTERS_PER_MS
    const mostMs = account.grantMs(MAX_MS, fairMs)
    if (mostMs === 0) return TOO_MUCH
    for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
      const workedMs = stopwatch()
      const verdict = validate(args, Math.max(1, Math.round(mostMs)))
      const tookMs = workedMs()
      const isDecided = verdict !== null && verdict !== TOO_LONG
      account.book(isDecided ? tookMs - fairMs : tookMs)
      if (verdict !== null) return verdict
      // The watchdog looks at the clock. Where the machine stood still, the arguments are not to blame.
      if (tookMs >= mostMs / 2) break
    }
    return mostMs < MAX_MS ? TOO_MUCH : TOO_LONG
  }
}

/** Makes a schema ready at the cost of its account: a large one takes some time too, and may be forgotten again soon. */
export function compileAtCost(schema: unknown, terms: CheckTerms): CheckArgs | null {
  if (terms.account.grantMs(MAX_MS, FAIR_MS) === 0) return null
  const workedMs = terms.stopwatch()
  const check = compileSchema(schema, terms)
  terms.account.book(workedMs() - FAIR_MS)
  return check
}

const undecided = (message: string): Validation => ({
  kind: 'undecided',
  mistakes: [{ pointer: '', keyword: '', message }],
})
const TOO_LONG = undecided(`validation takes longer than ${String(MAX_MS)} ms, or does not end`)
export const TOO_MUCH = undecided(
  'they could not be validated, because the schemas of this type have taken too much time lately. Try again later, or mend the schema',
)

const isTimeout = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'

/** Keywords that only say that something below them is wrong. */
const ABOVE = new Set([
  'properties',
  'patternProperties',
  'items',
  'prefixItems',
  'allOf',
  '$ref',
  'if',
  'dependentSchemas',
])

function mistakesOf(errors: readonly OutputUnit[]): Mistake[] {
  const precise = errors.filter(({ keyword }) => !ABOVE.has(keyword))
  return (precise.length === 0 ? errors : precise).slice(0, MAX_TOLD).map(({ instanceLocation, keyword, error }) => ({
    pointer: instanceLocation.replace(/^#/, ''),
    keyword,
    message: error,
  }))
}
