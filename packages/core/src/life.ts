/**
 * A job's recorded life: one small entry per change of state, kept on the job itself, so that `explain` can tell the
 * whole story long after the events have been pruned.
 */
import type { Instant, Millis } from './clock.ts'
import type { Fragment, Job, JobState } from './job.ts'

export interface LifeEntry {
  readonly at: Instant
  readonly to: JobState
  readonly attempt?: number
  readonly worker?: string | null
  /** Limits of the attempt that starts here: length and source. */
  readonly timeout?: readonly [Millis, string]
  readonly grace?: readonly [Millis, string]
  /** Where the handler was asked to stop, if the attempt lived that long. */
  readonly soft?: Instant
  readonly backoff?: Millis
  /** Handed back by its worker: the attempt before does not count. */
  readonly back?: true
  /** Why, where the state alone does not tell. */
  readonly why?: string
}

/** Beyond this the oldest entries after the first are dropped. */
export const KEPT_ENTRIES = 200

/** The first entry. Every job has one, and as plain text it costs a quarter. */
export function beginLife(at: Instant, to: JobState): Fragment {
  return `{"at":${String(at)},"to":"${to}"}`
}

export function appendLife(life: Fragment, entry: LifeEntry): Fragment {
  const text = JSON.stringify(entry)
  if (life === '') return text
  const joined = `${life},${text}`
  if (joined.length < 20_000) return joined
  const entries = JSON.parse(`[${joined}]`) as LifeEntry[]
  if (entries.length <= KEPT_ENTRIES) return joined
  return [entries[0], ...entries.slice(-KEPT_ENTRIES + 1)].map((kept) => JSON.stringify(kept)).join(',')
}

export function readLife(job: Job): LifeEntry[] {
  return JSON.parse(`[${job.life}]`) as LifeEntry[]
}
