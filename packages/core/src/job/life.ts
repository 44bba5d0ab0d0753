/**
 * A job's recorded life: one small entry per change of state, kept on the job itself, so that `explain` can tell the
 * whole story long after the events have been pruned.
 */
import type { JobState } from './job.ts'
import type { Lateness } from './lateness.ts'
import type { NoRetry } from './retry.ts'
import type { Instant, Millis } from '../time/clock.ts'

export interface LifeEntry {
  readonly at: Instant
  readonly to: JobState
  readonly attempt?: number
  readonly worker?: string | null
  /** Limits of the attempt that starts here, as they were set: length and source. */
  readonly timeout?: readonly [Millis, string]
  readonly grace?: readonly [Millis, string]
  /** What a total took from the attempt: when it is asked to stop, when it is over, whose total. Absent: nothing. */
  readonly cut?: readonly [Millis, Millis, string]
  /** Where the handler was asked to stop, if the attempt lived that long. */
  readonly soft?: Instant
  readonly backoff?: Millis
  /** Handed back by its worker: the attempt before does not count. */
  readonly back?: true
  /** Why, where the state alone does not tell. */
  readonly why?: string
  /** How long before the soft deadline a timeout was reported that counts as an ordinary failure. */
  readonly early?: Millis
  /** Who cancelled it, where there is a name: the job that replaced it. */
  readonly by?: string
  /** Why it is not tried again, and who set that, where it is a setting with a source. */
  readonly noRetry?: readonly [NoRetry, string?]
  /** How late a workflow's deadline ended it. */
  readonly late?: Lateness
}

/** Beyond this the oldest entries after the first are dropped. */
export const KEPT_ENTRIES = 200
