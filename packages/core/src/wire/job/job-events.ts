/** The events of a job's life, with the names their fields have on the wire. */
import type { EventType, NewEvent } from '../../events.ts'
import { jobEvent } from '../events.ts'
import type { Failure } from './failure.ts'
import type { Job } from '../../job/job.ts'
import type { NoRetry } from '../../job/retry.ts'
import { iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'

export function discardEvents(job: Job, failure: Failure, now: Instant, because?: NoRetry): NewEvent[] {
  const data = {
    total_attempts: job.attempt,
    last_error: brief(failure),
    ...(because === undefined ? {} : { no_retry: because }),
  }
  const events = [jobEvent('job.discarded', job, now, data)]
  if (job.deadLetter) events.push(jobEvent('dead_letter.added', job, now, { last_error: brief(failure) }))
  return events
}

export const scheduledEvent = (job: Job, now: Instant): NewEvent[] =>
  job.scheduledAt === null ? [] : [jobEvent('job.scheduled', job, now, { scheduled_at: iso(job.scheduledAt) })]

export const enqueued = (job: Job, now: Instant): NewEvent =>
  jobEvent('job.enqueued', job, now, { priority: job.priority })

export const durationMs = (job: Job, now: Instant): Millis =>
  job.startedAt === null ? millis(0) : elapsed(job.startedAt, now)

/** JSON leaves out what is undefined: failures that no limit caused have none of its fields. */
const brief = (failure: Failure): Record<string, unknown> => ({
  code: failure.code,
  type: failure.type,
  message: failure.message,
  retryable: failure.retryable,
  timeout_kind: failure.timeout_kind,
  limit_ms: failure.limit_ms,
  elapsed_ms: failure.elapsed_ms,
  excused_ms: failure.excused_ms,
  source: failure.source,
  overshoot_ms: failure.overshoot_ms,
})

export function failedEvent(job: Job, failure: Failure, now: Instant): NewEvent {
  return jobEvent('job.failed', job, now, {
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    error: brief(failure),
    duration_ms: durationMs(job, now),
  })
}

/** `nextAt` null: no retry is planned, and the total ends the job; `because` says why. */
export function retryingEvent(
  job: Job,
  failure: Failure,
  nextAt: Instant | null,
  now: Instant,
  because?: NoRetry,
): NewEvent {
  return jobEvent('job.retrying', job, now, {
    attempt: job.attempt,
    max_attempts: job.retry.maxAttempts,
    next_retry_at: nextAt === null ? null : iso(nextAt),
    no_retry: because,
    error: brief(failure),
  })
}

/** `job`: as it was before the decision, so that the event names the worker that held it. */
export function timeoutEvent(type: EventType, job: Job, failure: Failure, now: Instant, more: object = {}): NewEvent {
  return jobEvent(type, job, now, {
    timeout_kind: failure.timeout_kind,
    limit_seconds: failure.limit_seconds,
    limit_ms: failure.limit_ms,
    elapsed_seconds: failure.elapsed_seconds,
    elapsed_ms: failure.elapsed_ms,
    excused_ms: failure.excused_ms,
    source: failure.source,
    overshoot_ms: failure.overshoot_ms,
    late_ms: failure.late_ms,
    downtime_ms: failure.downtime_ms,
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    ...more,
  })
}

/** Every way in which an attempt falls silent: one event to alert on, with its cause (ADR 0047). */
export function stalledEvent(
  job: Job,
  failure: Failure,
  cause: 'heartbeat_timeout' | 'worker_death' | 'visibility_timeout',
  now: Instant,
): NewEvent {
  return timeoutEvent('job.stalled', job, failure, now, { timeout_kind: 'stalled', cause })
}
