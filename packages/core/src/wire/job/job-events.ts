/** The events of a job's life, with the names their fields have on the wire. */
import type { EventType, NewEvent } from '../../events.ts'
import { jobEvent } from '../events.ts'
import { lengths, type Failure } from './failure.ts'
import { effectiveTotal } from '../../job/deadlines.ts'
import type { Job, Progress } from '../../job/job.ts'
import type { Lateness } from '../../job/lateness.ts'
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

const durationMs = (job: Job, now: Instant): Millis =>
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

export const startedEvent = (job: Job, now: Instant): NewEvent =>
  jobEvent('job.started', job, now, { worker_id: job.hold?.workerId ?? null, attempt: job.attempt })

/** `job`: as it was before. The result stays as its worker wrote it. */
export function completedEvent(job: Job, done: Job, now: Instant): NewEvent {
  const event = jobEvent('job.completed', done, now, { attempt: job.attempt, duration_ms: durationMs(job, now) })
  return done.result === null ? event : { ...event, more: `"result":${done.result}` }
}

/** `job`: as it was before, so that the event names the worker that handed it back. */
export function interruptedEvent(job: Job, back: Job, { type, code, message }: Failure, now: Instant): NewEvent {
  return jobEvent('job.interrupted', back, now, {
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    interruptions: back.interruptions,
    error: { type, code, message },
  })
}

export function progressEvent(job: Job, { value, message }: Progress, now: Instant): NewEvent {
  return jobEvent('job.progress', job, now, {
    worker_id: job.hold?.workerId ?? null,
    attempt: job.attempt,
    progress_percent: value === null ? null : value * 100,
    progress_message: message,
  })
}

/** `late`: how late the deadline of its workflow ended the job, where that did. */
export function cancelledEvent(
  job: Job,
  cancelled: Job,
  { reason, by }: { readonly reason: string; readonly by?: string },
  late: Lateness | undefined,
  now: Instant,
): NewEvent {
  const total = late === undefined ? null : effectiveTotal(job)
  return jobEvent('job.cancelled', cancelled, now, {
    ...(by === undefined ? {} : { cancelled_by: by }),
    reason,
    ...(late === undefined || total === null
      ? {}
      : {
          ...lengths(total.ms, elapsed(job.anchorAt, now)),
          source: total.source,
          deadline: iso(total.at),
          overshoot_ms: late.overshootMs,
          late_ms: late.lateMs,
          downtime_ms: late.downtimeMs,
          attempt: job.attempt,
          worker_id: job.hold?.workerId ?? null,
        }),
  })
}

/** The job was too old to start. */
export function expiredEvent(job: Job, ended: Job, expiredAt: Instant, failure: Failure, now: Instant): NewEvent {
  return jobEvent('job.expired', ended, now, {
    created_at: iso(job.createdAt),
    expired_at: iso(expiredAt),
    ttl_ms: elapsed(job.anchorAt, expiredAt),
    elapsed_ms: elapsed(job.anchorAt, now),
    source: failure.source,
    overshoot_ms: failure.overshoot_ms,
    late_ms: failure.late_ms,
    downtime_ms: failure.downtime_ms,
    worker_id: null,
  })
}
