/**
 * Which jobs are meant: one filter for lists and for bulk actions (OJS bulk operations §6.1, admin API §8, dead letter
 * §6.2). `matches` says what it means; a store only finds the candidates. wire/job-filter.ts reads filters.
 */
import type { TimeoutKind } from './failures.ts'
import type { Job, JobState } from './job.ts'
import type { LifeEntry } from './life.ts'
import { readLife } from '../wire/job/life.ts'
import type { Instant } from '../time/clock.ts'
import { errorKeys, hasMeta, keyOf, tagKeys } from '../wire/job/job-keys.ts'

export interface JobFilter {
  readonly queue: string | null
  readonly type: string | null
  /** Empty: any. */
  readonly states: readonly JobState[]
  readonly tenant: string | null
  readonly priority: number | null
  /** Of the last error. */
  readonly errorType: string | null
  readonly timeoutKind: TimeoutKind | null
  /** One of the job's tags. */
  readonly tag: string | null
  /** The worker that holds the job, or made its last attempt. */
  readonly worker: string | null
  /** JSON texts by key: all of them must be in the metadata of a job. No store has an index of it. */
  readonly meta: Readonly<Record<string, string>>
  readonly deadOnly: boolean
  readonly enqueued: Between
  readonly created: Between
  readonly ended: Between
}

/** Both exclusive. */
export interface Between {
  readonly after: Instant | null
  readonly before: Instant | null
}

const ANY_TIME: Between = { after: null, before: null }

export const ANY_JOB: JobFilter = {
  queue: null,
  type: null,
  states: [],
  tenant: null,
  priority: null,
  errorType: null,
  timeoutKind: null,
  tag: null,
  worker: null,
  meta: {},
  deadOnly: false,
  enqueued: ANY_TIME,
  created: ANY_TIME,
  ended: ANY_TIME,
}

/** Whether the filter has no condition: then it means all jobs. */
export function meansAll(filter: JobFilter): boolean {
  return (
    filter.states.length === 0 &&
    filter.queue === null &&
    filter.type === null &&
    filter.priority === null &&
    filter.errorType === null &&
    filter.timeoutKind === null &&
    filter.tag === null &&
    filter.worker === null &&
    !hasMetaFilter(filter) &&
    isAnyTime(filter.enqueued) &&
    isAnyTime(filter.created) &&
    isAnyTime(filter.ended)
  )
}

export const isAnyTime = ({ after, before }: Between): boolean => after === null && before === null
export const hasMetaFilter = ({ meta }: JobFilter): boolean => Object.keys(meta).length > 0

export function matches(filter: JobFilter, job: Job): boolean {
  return (
    (filter.states.length === 0 || filter.states.includes(job.state)) &&
    (filter.queue === null || job.queue === filter.queue) &&
    (filter.type === null || job.type === filter.type) &&
    (filter.tenant === null || job.tenant === filter.tenant) &&
    (filter.priority === null || job.priority === filter.priority) &&
    (!filter.deadOnly || job.deadLetter) &&
    isBetween(job.enqueuedAt, filter.enqueued) &&
    isBetween(job.createdAt, filter.created) &&
    isBetween(endedAt(job), filter.ended) &&
    (filter.errorType === null || errorKeys(job).type === keyOf(filter.errorType)) &&
    (filter.timeoutKind === null || errorKeys(job).kind === filter.timeoutKind) &&
    (filter.worker === null || lastWorker(job) === filter.worker) &&
    (filter.tag === null || tagKeys(job).includes(keyOf(filter.tag))) &&
    hasMeta(job, filter.meta)
  )
}

/** What never happened lies at no time. */
function isBetween(at: Instant | null, between: Between): boolean {
  const { after, before } = between
  if (isAnyTime(between)) return true
  return at !== null && (after === null || at > after) && (before === null || at < before)
}

/** When it was completed, cancelled or discarded: at most one of them is set. */
export const endedAt = ({ completedAt, cancelledAt, discardedAt }: Job): Instant | null =>
  completedAt ?? cancelledAt ?? discardedAt

/** Who holds it, or held it last; null: an attempt without a worker's id, or none at all. */
export function lastWorker(job: Pick<Job, 'hold' | 'closedBy' | 'lease' | 'life'>): string | null {
  if (job.hold !== null) return job.hold.workerId
  if (job.closedBy !== null) return job.closedBy.workerId
  if (job.lease === 0) return null
  const entries: readonly (LifeEntry | null)[] = readLife(job)
  return entries.findLast((entry) => entry?.to === 'active')?.worker ?? null
}

/**
 * Newest first: by id, unless the filter asks for times, and then by these. The order depends on the filter alone, so
 * that a cursor always fits.
 */
export type JobOrder = 'id' | 'created' | 'ended'

export function orderOf({ created, ended }: JobFilter): JobOrder {
  return !isAnyTime(ended) ? 'ended' : !isAnyTime(created) ? 'created' : 'id'
}

/** A place in a list: what is listed after this job. */
export interface JobCursor {
  readonly id: string
  /** Null in a list by id. */
  readonly at: Instant | null
}

export function placeIn(filter: JobFilter, job: Job): JobCursor {
  const order = orderOf(filter)
  return { id: job.id, at: order === 'id' ? null : order === 'created' ? job.createdAt : endedAt(job) }
}
