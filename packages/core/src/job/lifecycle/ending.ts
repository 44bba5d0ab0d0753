/** The end of an attempt that did not complete: it is tried again, or the job is discarded. */
import { broken } from '../../errors.ts'
import type { NewEvent } from '../../events.ts'
import { effectiveTotal, totalAt } from '../deadlines.ts'
import {
  earlyMsIn,
  failureText,
  foreseen,
  lastError,
  limitFailure,
  readFailure,
  withFailure,
  type Failure,
} from '../../wire/job/failure.ts'
import { TAIL, type Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import { inWords, keptFor, moved, over, softMark, type Moment, type Step } from './transition.ts'
import { verdictOn, type FailureFacts, type NoRetry } from '../retry.ts'
import type { Instant } from '../../time/clock.ts'
import { after, isDue } from '../../time/sums.ts'
import { discardEvents, enqueued, failedEvent, retryingEvent, timeoutEvent } from '../../wire/job/job-events.ts'

export function endAttempt(
  job: Job,
  failure: Failure,
  facts: FailureFacts,
  moment: Moment,
  lead: NewEvent[],
  reported: boolean,
  stoppedByTotal = false,
): Step {
  const { now } = moment
  const verdict = verdictOn(job, facts, now, moment.random)
  const ended = withFailure({ ...job, ...over(job, reported) }, failure)
  const events = [...lead, failedEvent(job, failure, now)]
  if (stoppedByTotal && verdict.kind !== 'retry') {
    const because = verdict.kind === 'discard' ? verdict.because : 'total_timeout'
    const held = heldUntilTotal(job, ended, { why: failure.type, ...noRetry(job, because) }, now)
    if (held !== null)
      return { before: job, job: held, events: [...events, retryingEvent(held, failure, null, now, because)] }
  }
  if (verdict.kind === 'out-of-time') return outOfTime(job, ended, failure, moment, events, verdict.deadLetter, failure)
  if (verdict.kind === 'discard') {
    const gone = discarded(ended, job, verdict.deadLetter, moment, noRetry(job, verdict.because))
    return { before: job, job: gone, events: [...events, ...discardEvents(gone, failure, now, verdict.because)] }
  }
  const earlyMs = earlyMsIn(failure)
  const why = {
    why: failure.type,
    ...softMark(job, now),
    ...(earlyMs === null ? {} : { early: earlyMs }),
  }
  if (facts.lapsed) {
    const back = moved(ended, { at: now, to: 'available', ...why }, { enqueuedAt: now, seq: TAIL, nextRetryAt: null })
    return { before: job, job: back, events: [...events, retryingEvent(back, failure, now, now), enqueued(back, now)] }
  }
  const nextRetryAt = after(now, verdict.delayMs)
  const waiting = moved(
    ended,
    { at: now, to: 'retryable', backoff: verdict.delayMs, ...why },
    { nextRetryAt, retryDelayMs: verdict.delayMs },
  )
  return { before: job, job: waiting, events: [...events, retryingEvent(waiting, failure, nextRetryAt, now)] }
}

type NotTriedAgain = Pick<LifeEntry, 'noRetry'>

function noRetry({ hold }: Job, because: NoRetry): NotTriedAgain {
  return { noRetry: because === 'x_on_timeout' && hold !== null ? [because, hold.onTimeout.source] : [because] }
}

/**
 * A worker that stops because the total is running out is early by the reserve, or by its clock. That ends its attempt; the
 * job is ended by the total alone, when it comes.
 */
function heldUntilTotal(job: Job, ended: Job, why: Pick<LifeEntry, 'why' | 'noRetry'>, now: Instant): Job | null {
  const nextRetryAt = totalAt(job)
  if (nextRetryAt === null || isDue(nextRetryAt, now)) return null
  return moved(ended, { at: now, to: 'retryable', ...why, ...softMark(job, now) }, { nextRetryAt, retryDelayMs: null })
}

/** No attempt is left, and nothing to wait for: its last failure ends it. */
export function giveUp(job: Job, moment: Moment): Step {
  const gone = discarded(job, job, job.retry.onExhaustion === 'dead_letter', moment, noRetry(job, 'max_attempts'))
  if (job.error === null) throw broken(`job ${job.id} has used its attempts without a failure`)
  const events = discardEvents(gone, readFailure(job.error), moment.now, 'max_attempts')
  return { before: job, job: gone, events }
}

/** Another attempt could not end inside the total: given up now instead of then. */
export function outOfTime(
  job: Job,
  ended: Job,
  failure: Failure | null,
  moment: Moment,
  events: NewEvent[],
  deadLetter: boolean,
  cause: Failure | null = failure,
): Step {
  const { now } = moment
  // A workflow's ceiling takes no part in the fit test, so it cannot be the limit that was missed.
  const total = effectiveTotal(job.ceiling?.source === 'workflow' ? { ...job, ceiling: null } : job)
  if (total === null) throw broken(`job ${job.id} does not fit a total it does not have`)
  const base = limitFailure(
    job,
    {
      type: 'total_timeout',
      kind: 'total',
      message: `Another attempt could not end within the total timeout of ${inWords(total.ms)}`,
      limitMs: total.ms,
      source: total.source,
      since: job.anchorAt,
      deadlineAt: total.at,
      setAt: job.limitsSetAt,
      retryable: false,
      details: {
        predicted: true,
        ...(cause === null ? {} : lastError(failureText(cause))),
      },
    },
    { upAt: moment.upAt, outages: [] },
    now,
  )
  const predicted = foreseen(base)
  const gone = discarded(withFailure(ended, predicted), job, deadLetter, moment, noRetry(job, 'total_timeout'))
  return {
    before: job,
    job: gone,
    events: [
      ...events,
      timeoutEvent('job.total_timeout', job, predicted, now),
      ...discardEvents(gone, predicted, now, 'total_timeout'),
    ],
    expired: [{ kind: 'total', overshootMs: null }],
  }
}

export function discarded(
  ended: Job,
  before: Job,
  deadLetter: boolean,
  { now, retention }: Moment,
  why: NotTriedAgain = {},
): Job {
  const kept = keptFor(ended, retention)
  const likeCompleted = why.noRetry?.[0] === 'x_on_timeout'
  const keptMs = deadLetter ? kept.deadLetterMs : likeCompleted ? kept.completedMs : kept.discardedMs
  return moved(
    ended,
    { at: now, to: 'discarded', ...softMark(before, now), ...why },
    {
      discardedAt: now,
      completedAt: before.attempt > 0 ? now : null,
      nextRetryAt: null,
      deadLetter,
      purgeAt: after(now, keptMs),
    },
  )
}
