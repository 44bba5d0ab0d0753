/** What makes two jobs the same work, as applications write it. */
import { formatIsoDuration } from '@curfew/core'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import type { JobState } from '../wire/jobs.ts'

export interface UniquePolicy {
  /** What is compared, besides the type; `['args']` unless said otherwise. */
  readonly keys?: readonly ('type' | 'queue' | 'args' | 'meta')[]
  /** Only these fields of the input (or of its first entry, if it is a list). */
  readonly argsKeys?: readonly string[]
  /** Only these fields of `meta`; `keys` must name `meta`. */
  readonly metaKeys?: readonly string[]
  /** For how long after a job was created another counts as the same; as long as its state is among `states`, unless given. */
  readonly period?: Duration
  /** States in which a job stands in the way of another; all that are not over, unless said otherwise. */
  readonly states?: readonly JobState[]
  /**
   * What happens to the second. `reject`: it is refused (`duplicate`). `ignore`: the answer is the job that is there, with
   * `deduplicated: true`. `replace`: the one that waits is cancelled for it; `replace_except_schedule`: and it takes over
   * the moment the other one was scheduled for.
   */
  readonly onConflict?: 'reject' | 'ignore' | 'replace' | 'replace_except_schedule'
}

const KNOWN = new Set(['keys', 'argsKeys', 'metaKeys', 'period', 'states', 'onConflict'])

/** `true`: all arguments count, and the second is refused. */
export function uniqueOnWire(unique: UniquePolicy | boolean | undefined): Record<string, unknown> | undefined {
  if (unique === undefined || unique === false) return undefined
  if (unique === true) return {}
  for (const name of Object.keys(unique))
    if (!KNOWN.has(name)) throw new InputError(`unique has no option ${name}.`, { field: `unique.${name}` })
  const { keys, argsKeys, metaKeys, period, states, onConflict } = unique
  return {
    keys,
    args_keys: argsKeys,
    meta_keys: metaKeys,
    period: period === undefined ? undefined : formatIsoDuration(toMillis(period, 'unique.period')),
    states,
    on_conflict: onConflict,
  }
}
