/** What a worker reports: results, failures, hand-backs, progress and heartbeats. */
import { OjsError } from '../../errors.ts'
import { effectiveTotal, fitsTotal } from '../deadlines.ts'
import { lastSignAt, visibilityClock, type Liveness } from '../liveness.ts'
import { readTimeoutReport, type ReportedError } from '../failures.ts'
import { classOf, handBack, reportedFailure, reportedTimeout, withHandBack } from '../../wire/job/failure.ts'
import { TAIL, type Job, type Json, type Progress } from '../job.ts'
import { endAttempt, outOfTime } from './ending.ts'
import { inWords, keptFor, moved, over, rearmedLazily, softMark, type Moment, type Step } from './transition.ts'
import { isNonRetryable, LAPSED, type FailureFacts } from '../retry.ts'
import type { Worker } from '../worker.ts'
import { iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { parseMoment } from '../../time/durations.ts'
import { after, elapsed, isDue } from '../../time/sums.ts'
import {
  completedEvent,
  enqueued,
  interruptedEvent,
  progressEvent,
  scheduledEvent,
  timeoutEvent,
} from '../../wire/job/job-events.ts'

export function complete(job: Job, result: Json | null, { now, retention }: Moment): Step {
  const { hold, closedBy } = over(job, true)
  const done = moved(
    job,
    { at: now, to: 'completed', ...softMark(job, now) },
    {
      hold,
      closedBy,
      completedAt: now,
      result,
      error: null,
      progress: job.progress === null ? null : { ...job.progress, value: 1, updatedAt: now },
      purgeAt: after(now, job.resultTtlMs ?? keptFor(job, retention).completedMs),
    },
  )
  return { before: job, job: done, events: [completedEvent(job, done, now)] }
}

/** A worker reports that its attempt failed. */
export function fail(job: Job, error: ReportedError, moment: Moment): Step {
  const { now } = moment
  const report = readTimeoutReport(job, error, now)
  // Long before its deadline, a reported timeout counts as an ordinary failure.
  const timeout = report?.counts === true ? report : null
  const isTimeout = timeout !== null
  const names = [error.type, error.code, classOf(error.details)].filter((name) => name !== undefined)
  const retryable = error.retryable ?? !names.some((name) => isNonRetryable(job.retry, name))
  const failure = isTimeout
    ? reportedTimeout(job, error, timeout, retryable, now)
    : reportedFailure(job, error, retryable, now)
  const facts: FailureFacts = {
    names,
    retryable: error.retryable,
    word: error.code,
    isTimeout,
    lapsed: false,
    retryAfterMs: retryAfterMs(error, now),
  }
  const lead = isTimeout ? [timeoutEvent('job.timeout', job, failure, now)] : []
  const step = endAttempt(job, failure, facts, moment, lead, true, timeout?.limit === 'total')
  return isTimeout ? { ...step, expired: [{ kind: 'execution', overshootMs: null }, ...(step.expired ?? [])] } : step
}

/**
 * Handed back until then (`x_not_before`): the attempt is refunded, and the job is scheduled. Its total goes on counting, so
 * a moment that is not before the end of the total is refused. A moment that has come means `interrupt`.
 */
export function snooze(job: Job, error: ReportedError | null, until: Instant, given: string, moment: Moment): Step {
  const { now } = moment
  if (isDue(until, now)) return interrupt(job, error, moment)
  const total = effectiveTotal(job)
  if (total !== null && isDue(total.at, until)) throw beyondTotal(job, total, until)
  const failure = handBack(job, error, now)
  const later = moved(
    withHandBack(job, failure),
    { at: now, to: 'scheduled', back: true, why: failure.type, ...softMark(job, now) },
    { ...over(job, true), interruptions: job.interruptions + 1, scheduledAt: until, given, enqueuedAt: null },
  )
  return {
    before: job,
    job: later,
    events: [interruptedEvent(job, later, failure, now), ...scheduledEvent(later, now)],
  }
}

function beyondTotal(job: Job, total: { readonly ms: Millis; readonly at: Instant }, until: Instant): OjsError {
  return new OjsError(
    'validation_error',
    `x_not_before must be before the total deadline of the job: the total timeout of ${inWords(total.ms)} would end it first.`,
    {
      details: { field: 'x_not_before', job_id: job.id, x_not_before: iso(until), total_deadline: iso(total.at) },
      hint: 'Fail the attempt instead, or give the job a longer total_timeout. The job is still active.',
    },
  )
}

/** A moment that has passed means at once. */
function retryAfterMs({ retryAt }: ReportedError, now: Instant): Millis | undefined {
  const moment = retryAt === undefined ? null : parseMoment(retryAt, now, false)
  return moment === null ? undefined : elapsed(now, moment.at)
}

/** Handed back (`requeue`): straight to the tail, and the attempt is refunded. The history says why; `error` stays. */
export function interrupt(job: Job, error: ReportedError | null, moment: Moment): Step {
  const { now } = moment
  if (!fitsTotal(job, now, millis(0))) {
    const lastError = error === null ? null : reportedFailure(job, error, true, now)
    return outOfTime(
      job,
      { ...job, ...over(job, true) },
      lastError,
      moment,
      [],
      job.retry.onExhaustion === 'dead_letter',
    )
  }
  const failure = handBack(job, error, now)
  const back = moved(
    withHandBack(job, failure),
    { at: now, to: 'available', back: true, why: failure.type, ...softMark(job, now) },
    { ...over(job, true), interruptions: job.interruptions + 1, enqueuedAt: now, seq: TAIL },
  )
  return { before: job, job: back, events: [interruptedEvent(job, back, failure, now), enqueued(back, now)] }
}

/** The worker left (deregistered) with the job still in hand: like its death, but by its own will. */
export function abandon(job: Job, moment: Moment): Step {
  const error: ReportedError = { type: 'shutdown', message: 'The worker deregistered before the job was finished.' }
  const failure = reportedFailure(job, error, true, moment.now)
  return endAttempt(job, failure, LAPSED, moment, [], false)
}

/** Progress and checkpoints prove that the handler lives: both clocks begin anew. */
export function signOfLife(job: Job, now: Instant): Job {
  if (job.hold === null) return job
  const hold = { ...job.hold, signAt: now, visibleFrom: now, visibleMs: job.hold.visibility.ms }
  return rearmedLazily(job, { ...job, hold })
}

/** The worker no longer lists (or no longer vouches for) the job: what its last beat said is kept on the job's row. */
export function absorbBeat(job: Job, worker: Worker): Job {
  const signAt = lastSignAt(job, worker)
  const visible = visibilityClock(job, worker)
  if (job.hold === null || signAt === null || visible === null) return job
  const hold = { ...job.hold, signAt, visibleFrom: visible.since, visibleMs: visible.ms }
  return rearmedLazily(job, { ...job, hold })
}

export interface ProgressReport {
  readonly value: number | null
  readonly message: string | null
  readonly data: Json | null
}

/** Numbers are clamped to 0…1 and never go back; message and data replace what was there. */
export function reportProgress(job: Job, report: ProgressReport, now: Instant): Step {
  const known = job.progress
  const clamped = report.value === null ? null : Math.min(1, Math.max(0, report.value))
  const value = clamped === null ? (known?.value ?? null) : Math.max(clamped, known?.value ?? 0)
  const tell = known === null || now - known.toldAt >= 1000
  const progress: Progress = {
    value,
    message: report.message ?? known?.message ?? null,
    data: report.data ?? known?.data ?? null,
    updatedAt: now,
    toldAt: tell ? now : known.toldAt,
  }
  const next = { ...signOfLife(job, now), progress }
  return { before: job, job: next, events: tell ? [progressEvent(next, progress, now)] : [] }
}

/** A beat may also bring a deadline nearer (a shorter reservation): then the row must be woken earlier. */
export function wokenInTime(job: Job, life: Liveness): Job {
  return rearmedLazily(job, job, life)
}
