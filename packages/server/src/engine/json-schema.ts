/**
 * Validates arguments against a schema, within a time. A schema and the arguments it meets come from outside, and between
 * them they can ask for any amount of work: a pattern that backtracks for ever, references that double at each step. So
 * the validator is interpreted (nothing of a schema ever becomes code), nothing is fetched, and the whole of it runs
 * under a watchdog that stops it wherever it is, in the middle of a regular expression if need be. A watchdog and not a
 * thread: it costs a tenth of a millisecond, and the answer is there within the transaction.
 */
import { Validator, type OutputUnit, type Schema as JsonSchema } from '@cfworker/json-schema'
import { createContext, Script } from 'node:vm'
import type { Mistake } from '@curfew/core'

/** Longer than any honest schema needs, and short enough for everybody else who waits. */
const MOST_MS = 50
/** How often a validation is begun that did not have the processor for the time it took. */
const MOST_TRIES = 4
const MOST_TOLD = 10

export type Validation =
  | { readonly kind: 'valid' }
  | { readonly kind: 'invalid'; readonly mistakes: readonly Mistake[] }
  /** It took too long, or went round in a circle. */
  | { readonly kind: 'undecided'; readonly mistakes: readonly Mistake[] }

export type CheckArgs = (args: unknown) => Validation

const cage = createContext({ run: () => {} }) as { run: () => unknown }
const script = new Script('run()')

/** What the process has had of the processor. */
function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** The schema must have been found fit to be registered (`core/json-schema.ts`). */
export function compileSchema(schema: unknown, usedMs = processorMs): CheckArgs {
  // It writes its own notes into what it is given.
  const own = typeof schema === 'boolean' ? schema : (structuredClone(schema) as JsonSchema)
  const validator = new Validator(own, '2020-12', false)
  /** Null: the watchdog spoke. */
  const validate = (args: unknown): Validation | null => {
    try {
      cage.run = () => validator.validate(args)
      const { valid, errors } = script.runInContext(cage, { timeout: MOST_MS }) as ReturnType<Validator['validate']>
      return valid ? { kind: 'valid' } : { kind: 'invalid', mistakes: mistakesOf(errors) }
    } catch (error) {
      if (isTimeout(error)) return null
      if (error instanceof RangeError) return UNDECIDED // the stack was used up
      throw error
    } finally {
      cage.run = () => {}
    }
  }
  return (args) => {
    for (let tries = 1; tries <= MOST_TRIES; tries += 1) {
      const beganMs = usedMs()
      const verdict = validate(args)
      if (verdict !== null) return verdict
      // The watchdog looks at the clock. Where the machine stood still, the arguments are not to blame.
      if (usedMs() - beganMs >= MOST_MS / 2) break
    }
    return UNDECIDED
  }
}

const UNDECIDED: Validation = {
  kind: 'undecided',
  mistakes: [
    { pointer: '', keyword: '', message: `to validate them takes longer than ${String(MOST_MS)} ms, or never ends` },
  ],
}

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
  return (precise.length === 0 ? errors : precise).slice(0, MOST_TOLD).map(({ instanceLocation, keyword, error }) => ({
    pointer: instanceLocation.replace(/^#/, ''),
    keyword,
    message: error,
  }))
}
