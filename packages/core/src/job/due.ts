/** Which deadline of a job comes first: the only judge of what time does to it. */
import { executionAt, expiryAt, totalAt, ttlAt } from './deadlines.ts'
import { isTerminal, type Job } from './job.ts'
import { deathAt, deathEndsIt, ROW_ALONE, stallAt, visibilityAt, type Liveness } from './liveness.ts'
import type { Instant } from '../time/clock.ts'

export type DueKind =
  | 'scheduled'
  | 'backoff'
  | 'total'
  | 'execution'
  | 'stalled'
  | 'worker_death'
  | 'visibility'
  | 'enqueue_ttl'
  | 'expires_at'
  | 'purge'

export interface Due {
  readonly kind: DueKind
  readonly at: Instant
}

/**
 * The next automatic transition of this job. Earliest first; on a tie the order of this list decides,
 * which is the order of the specification (total, execution, stalled, worker death, visibility), and a limit comes
 * before a start: nothing starts with an empty budget.
 */
export function nextDue(job: Job, life: Liveness = ROW_ALONE): Due | null {
  return firstDue(job, life, true)
}

function firstDue(job: Job, life: Liveness, withDeath: boolean): Due | null {
  let first: Due | null = null
  const consider = (kind: DueKind, at: Instant | null): void => {
    if (at !== null && (first === null || at < first.at)) first = { kind, at }
  }
  if (isTerminal(job.state)) {
    consider('purge', job.purgeAt)
    return first
  }
  consider('total', totalAt(job))
  if (job.state === 'active') {
    consider('execution', executionAt(job))
    consider('stalled', stallAt(job, life))
    if (withDeath && life.worker !== null && life.worker.id === job.hold?.workerId && deathEndsIt(job)) {
      consider('worker_death', deathAt(life.worker, life))
    }
    consider('visibility', visibilityAt(job, life))
    return first
  }
  consider('enqueue_ttl', ttlAt(job))
  consider('expires_at', expiryAt(job))
  if (job.state === 'scheduled') consider('scheduled', job.scheduledAt)
  if (job.state === 'retryable') consider('backoff', job.nextRetryAt)
  return first
}

/**
 * The row's `wakeAt`: never later than what is really due; a renewed clock is found out, and re-armed, when it comes.
 * A worker's death is on the worker's own row.
 */
export function wakeAtOf(job: Job, life: Liveness = ROW_ALONE): Instant | null {
  return firstDue(job, life, false)?.at ?? null
}
