/** Which jobs are meant, by what they have in common: for lists, and for actions on many jobs. */
import type { Call } from './connection.ts'
import type { JobState } from '../wire/jobs.ts'

/** All that is given must hold. Times are exclusive. */
export interface JobMatch {
  readonly queue?: string
  readonly state?: JobState | readonly JobState[]
  readonly type?: string
  /** The type of the last error. */
  readonly errorType?: string
  /** The limit that the last error names. */
  readonly timeoutKind?: 'execution' | 'total' | 'enqueue_ttl' | 'stalled'
  readonly tag?: string
  /** The worker that holds the job, or made its last attempt. */
  readonly worker?: string
  readonly priority?: number
  /** These keys of `meta` with these values. */
  readonly meta?: Readonly<Record<string, unknown>>
  readonly createdAfter?: Date
  readonly createdBefore?: Date
  /** When it last became available. */
  readonly enqueuedAfter?: Date
  readonly enqueuedBefore?: Date
  /** When it was completed, cancelled or discarded. */
  readonly endedAfter?: Date
  readonly endedBefore?: Date
}

/** As the body of a request says it. */
export function matchOnWire(match: JobMatch): Record<string, unknown> {
  return {
    queue: match.queue,
    state: match.state,
    type: match.type,
    error_type: match.errorType,
    timeout_kind: match.timeoutKind,
    tag: match.tag,
    worker: match.worker,
    priority: match.priority,
    meta: match.meta,
    created_after: match.createdAfter?.toISOString(),
    created_before: match.createdBefore?.toISOString(),
    enqueued_after: match.enqueuedAfter?.toISOString(),
    enqueued_before: match.enqueuedBefore?.toISOString(),
    ended_after: match.endedAfter?.toISOString(),
    ended_before: match.endedBefore?.toISOString(),
  }
}

/** As the query of a list says it. */
export function matchInQuery(match: JobMatch): NonNullable<Call['query']> {
  const { state, meta } = match
  return {
    ...(matchOnWire(match) as NonNullable<Call['query']>),
    state: typeof state === 'string' ? state : state?.join(','),
    meta: meta === undefined ? undefined : JSON.stringify(meta),
  }
}
