/** What operators and clients change: cancellations, retries by hand, new limits. */
import { jobEvent } from '../../wire/events.ts'
import { fitsTotal, totalAt } from '../deadlines.ts'
import type { Lateness } from '../lateness.ts'
import { readFailure } from '../../wire/job/failure.ts'
import { isTerminal, TAIL, type Job, type JobState } from '../job.ts'
import { release } from './admit.ts'
import { outOfTime } from './ending.ts'
import { armed, keptFor, moved, over, softMark, noticeTo, wrongState, type Moment, type Step } from './transition.ts'
import type { Limits } from '../limits.ts'
import { millis, type Instant } from '../../time/clock.ts'
import { after, isDue } from '../../time/sums.ts'
import { cancelledEvent, enqueued, scheduledEvent } from '../../wire/job/job-events.ts'

/** Why jobs are cancelled: shown in `cancel_reason`, in `job.cancelled` and in `explain`. */
export const CANCEL_REASONS = [
  'request',
  'bulk',
  'replaced',
  'overlap',
  'workflow_cancelled',
  'workflow_timeout',
  'journey_cancelled',
  'journey_went_on',
  'subscription_deleted',
] as const
export type CancelReason = (typeof CANCEL_REASONS)[number]

export interface Cancellation {
  readonly reason: CancelReason
  /** Who did it, where there is a name. */
  readonly by?: string
}

export function cancel(job: Job, { now, retention }: Moment, cause: Cancellation, late?: Lateness): Step {
  const { reason, by } = cause
  if (isTerminal(job.state)) throw wrongState(job, 'not terminal', 'cancelled')
  const cancelled = moved(
    job,
    {
      at: now,
      to: 'cancelled',
      ...softMark(job, now),
      why: reason,
      ...(by === undefined ? {} : { by }),
      ...(late === undefined ? {} : { late }),
    },
    {
      ...over(job, false),
      cancelledAt: now,
      cancelReason: reason,
      nextRetryAt: null,
      purgeAt: after(now, keptFor(job, retention).cancelledMs),
    },
  )
  return {
    before: job,
    job: cancelled,
    events: [cancelledEvent(job, cancelled, cause, late, now)],
    ...noticeTo(job, 'cancelled', now),
  }
}

export interface SecondLife {
  readonly limits: Limits
  readonly given: string
  readonly priority: number
}

/** By an operator: limits settled anew, clocks from now, history and lease kept. */
export function retryByHand(job: Job, { limits, given, priority }: SecondLife, { now }: Moment): Step {
  if (job.state !== 'discarded' && job.state !== 'cancelled')
    throw wrongState(job, 'discarded or cancelled', 'retried by hand')
  const again = moved(
    job,
    { at: now, to: 'available', why: 'retried by hand' },
    {
      limits,
      given,
      priority,
      ceiling: null,
      owner: null,
      expiresAt: null,
      attempt: 0,
      interruptions: 0,
      seq: TAIL,
      anchorAt: now,
      limitsSetAt: now,
      enqueuedAt: now,
      reenqueuedAt: now,
      completedAt: null,
      discardedAt: null,
      cancelledAt: null,
      cancelReason: null,
      closedBy: null,
      error: null,
      progress: null,
      retryDelayMs: null,
      nextRetryAt: null,
      deadLetter: false,
      purgeAt: null,
    },
  )
  const events = [enqueued(again, now)]
  if (job.deadLetter) events.unshift(jobEvent('dead_letter.retried', again, now))
  return { before: job, job: again, events }
}

export interface NewLimits {
  readonly limits: Limits
  readonly given: string
  readonly priority: number
  readonly scheduledAt: Instant | null
  readonly expiresAt: Instant | null
}

const PATCHABLE: readonly JobState[] = ['scheduled', 'available', 'pending', 'retryable']

/** Limits, priority and moments of a job that is waiting. Takes effect at once: the caller settles what is due now. */
export function changeLimits(job: Job, changes: NewLimits, moment: Moment): Step {
  if (!PATCHABLE.includes(job.state)) throw wrongState(job, PATCHABLE.join(', '), 'changed')
  const { now } = moment
  const isMoved = changes.scheduledAt !== job.scheduledAt
  const rescheduled = job.state === 'scheduled' || (job.state === 'available' && isMoved)
  const state: JobState = !rescheduled
    ? job.state
    : changes.scheduledAt !== null && changes.scheduledAt > now
      ? 'scheduled'
      : 'available'
  // A job that waits for its retry does not start before the moment it was moved to.
  const nextRetryAt = isMoved ? latest(job.nextRetryAt, changes.scheduledAt) : job.nextRetryAt
  const changed: Job = { ...job, ...changes, nextRetryAt, limitsSetAt: now }
  const event = jobEvent('job.limits_changed', changed, now)
  if (state === job.state) {
    const kept = armed(changed)
    const isOver = isDue(totalAt(kept), now)
    // It waits for its total already, and ends with that.
    const isHeld = job.nextRetryAt !== null && isDue(totalAt(job), job.nextRetryAt)
    if (
      !isOver &&
      !isHeld &&
      kept.state === 'retryable' &&
      kept.nextRetryAt !== null &&
      !fitsTotal(kept, kept.nextRetryAt, millis(0))
    ) {
      const lastError = kept.error === null ? null : readFailure(kept.error)
      const step = outOfTime(kept, kept, null, moment, [event], job.retry.onExhaustion === 'dead_letter', lastError)
      return { ...step, before: job }
    }
    return { before: job, job: kept, events: [event] }
  }
  if (state === 'available') {
    const step = release(changed, moment)
    return { before: job, job: step.job, events: [event, ...step.events] }
  }
  const later = moved(changed, { at: now, to: 'scheduled' }, { enqueuedAt: null })
  return { before: job, job: later, events: [event, ...scheduledEvent(later, now)] }
}

/** Only a job that has a moment of its own can be put off. */
function latest(own: Instant | null, moved: Instant | null): Instant | null {
  return own !== null && moved !== null && moved > own ? moved : own
}
