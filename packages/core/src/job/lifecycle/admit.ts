/** How a job enters its queue, and how it leaves the queue without having started. */
import { broken, OjsError } from '../../errors.ts'
import { jobEvent } from '../../wire/events.ts'
import { wakeAtOf } from '../due.ts'
import { reportedFailure, withFailure } from '../../wire/job/failure.ts'
import { TAIL, type Job, type JobState } from '../job.ts'
import { beginLife } from '../../wire/job/life.ts'
import { discarded } from './ending.ts'
import { moved, wrongState, type Moment, type Step } from './transition.ts'
import { isSpent } from '../retry.ts'
import type { Instant } from '../../time/clock.ts'
import { discardEvents, enqueued, scheduledEvent } from '../../wire/job/job-events.ts'

/** A new job as the envelope describes it, with its limits settled. */
export type NewJob = Pick<
  Job,
  | 'id'
  | 'type'
  | 'queue'
  | 'priority'
  | 'retry'
  | 'limits'
  | 'ceiling'
  | 'parent'
  | 'owner'
  | 'uniqueKey'
  | 'limitKey'
  | 'tenant'
  | 'scheduledAt'
  | 'expiresAt'
  | 'resultTtlMs'
  | 'traceId'
  | 'body'
  | 'given'
> & { readonly pending: boolean }

/** Field by field, not by spreading: an object this wide is built an order of magnitude faster from one literal. */
export function admit(asked: NewJob, { now }: Moment): Step {
  const state: JobState = asked.pending
    ? 'pending'
    : asked.scheduledAt !== null && asked.scheduledAt > now
      ? 'scheduled'
      : 'available'
  const job: Job & { wakeAt: Instant | null } = {
    id: asked.id,
    type: asked.type,
    queue: asked.queue,
    priority: asked.priority,
    state,
    seq: TAIL,
    attempt: 0,
    lease: 0,
    interruptions: 0,
    retry: asked.retry,
    limits: asked.limits,
    ceiling: asked.ceiling,
    parent: asked.parent,
    owner: asked.owner,
    uniqueKey: asked.uniqueKey,
    limitKey: asked.limitKey,
    tenant: asked.tenant,
    hold: null,
    closedBy: null,
    createdAt: now,
    anchorAt: now,
    limitsSetAt: now,
    scheduledAt: asked.scheduledAt,
    expiresAt: asked.expiresAt,
    enqueuedAt: state === 'available' ? now : null,
    activatedAt: null,
    startedAt: null,
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    reenqueuedAt: null,
    nextRetryAt: null,
    retryDelayMs: null,
    resultTtlMs: asked.resultTtlMs,
    purgeAt: null,
    error: null,
    errors: '',
    errorCount: 0,
    result: null,
    progress: null,
    checkpointSeq: 0,
    deadLetter: false,
    cancelReason: null,
    traceId: asked.traceId,
    body: asked.body,
    given: asked.given,
    life: beginLife(now, state),
    wakeAt: null,
    version: 0,
  }
  job.wakeAt = wakeAtOf(job)
  const events = state === 'available' ? [enqueued(job, now)] : state === 'scheduled' ? scheduledEvent(job, now) : []
  return { before: null, job, events }
}

/** Its time has come, its backoff is over, or it was activated. It joins the tail of its priority band. */
export function release(job: Job, { now }: Moment, changes: Partial<Job> = {}): Step {
  const ready = moved(job, { at: now, to: 'available' }, { enqueuedAt: now, seq: TAIL, nextRetryAt: null, ...changes })
  return { before: job, job: ready, events: [enqueued(ready, now)] }
}

/** By an operator: its backoff is over now. Its attempts go on counting. */
export function retryNow(job: Job, moment: Moment): Step {
  if (job.state !== 'retryable') throw wrongState(job, 'retryable', 'retried now')
  if (isSpent(job))
    throw new OjsError('conflict', 'The job has used all of its attempts and waits for its total timeout to end it.', {
      details: { job_id: job.id, current_state: job.state, max_attempts: job.retry.maxAttempts },
      hint: 'Retry the job when it has ended: that gives it new attempts and a new total.',
    })
  return release(job, moment)
}

export function activate(job: Job, moment: Moment): Step {
  if (job.state !== 'pending') throw wrongState(job, 'pending', 'activated')
  return release(job, moment, { activatedAt: moment.now })
}

/** Its limiter turns it away until then, and the job asked to be rescheduled. It joins the tail when its time comes. */
export function putOff(job: Job, until: Instant, given: string, { now }: Moment): Step {
  const later = moved(
    job,
    { at: now, to: 'scheduled', why: 'rate_limited' },
    { scheduledAt: until, given, enqueuedAt: null },
  )
  return { before: job, job: later, events: scheduledEvent(later, now) }
}

/** Its limiter turns it away, and the job asked to be dropped then. Never dead-lettered: nothing went wrong. */
export function drop(job: Job, key: string, moment: Moment): Step {
  const error = {
    type: 'rate_limited',
    message: 'The limiter of the job was spent when its turn came',
    details: { key },
  }
  const failure = reportedFailure(job, error, false, moment.now)
  const gone = discarded(withFailure(job, failure), job, false, moment)
  return { before: job, job: gone, events: discardEvents(gone, failure, moment.now) }
}

/** It waited longest, and makes room for another (OJS backpressure §5.3). Never dead-lettered: nothing went wrong with it. */
export function makeRoom(job: Job, moment: Moment): Step {
  const { now } = moment
  if (job.state !== 'available') throw broken(`job ${job.id} is ${job.state} and cannot make room`)
  const error = { type: 'queue_full', message: 'The queue was full: the oldest job made room for a new one' }
  const failure = reportedFailure(job, error, false, now)
  const dropped = discarded(withFailure(job, failure), job, false, moment)
  return {
    before: job,
    job: dropped,
    events: [jobEvent('backpressure.dropped', dropped, now), ...discardEvents(dropped, failure, now)],
  }
}
