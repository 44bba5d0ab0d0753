/** The attempts of a job that failed, from its recorded life and its errors: when each began, how it ended, what came next. */
import { iso } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import type { Failure } from './failure.ts'
import type { Job, JobState } from '../../job/job.ts'
import type { LifeEntry } from '../../job/life.ts'
import { readLife } from './life.ts'
import { writeRetryPolicy } from './retry.ts'

export interface FailedAttempt {
  readonly attempt: number
  /** The state the job was in after it. */
  readonly state: JobState
  readonly error: string | null
  readonly error_type: string | null
  readonly started_at: string
  readonly failed_at: string
  readonly next_retry_at: string | null
  /** False where the attempt does not count against `max_attempts`. */
  readonly counted?: false
}

export interface RetryHistory {
  readonly job_id: string
  readonly state: JobState
  readonly attempt: number
  readonly max_attempts: number
  readonly policy: Readonly<Record<string, unknown>>
  readonly retries: readonly FailedAttempt[]
}

const FAILED: ReadonlySet<JobState> = new Set(['retryable', 'available', 'discarded'])

export function retryHistory(job: Job): RetryHistory {
  const entries = readLife(job)
  const errors = JSON.parse(`[${job.errors}]`) as Failure[]
  return {
    job_id: job.id,
    state: job.state,
    attempt: job.attempt,
    max_attempts: job.retry.maxAttempts,
    policy: writeRetryPolicy(job.retry),
    retries: entries.flatMap((entry, index) => failedAttempt(job, entry, entries[index + 1], errors)),
  }
}

function failedAttempt(
  { attempt: latest, nextRetryAt }: Job,
  start: LifeEntry,
  end: LifeEntry | undefined,
  errors: readonly Failure[],
): FailedAttempt[] {
  if (start.to !== 'active' || end === undefined || !FAILED.has(end.to)) return []
  const attempt = start.attempt ?? 0
  const failedAt = iso(end.at)
  // Only the latest errors are kept: of an older attempt the instants are all that is left.
  const error = errors.find(({ attempt: of, occurred_at: at }) => of === attempt && at === failedAt)
  // The moment of a retry that is still to come may have been changed since.
  const planned = end.backoff === undefined ? null : after(end.at, end.backoff)
  const next = attempt === latest ? (nextRetryAt ?? planned) : planned
  return [
    {
      attempt,
      state: end.to,
      error: error?.message ?? null,
      error_type: error?.type ?? null,
      started_at: iso(start.at),
      failed_at: failedAt,
      next_retry_at: next === null ? null : iso(next),
      ...(end.back === true ? { counted: false as const } : {}),
    },
  ]
}
