/** Why an attempt, or a job, ends badly: a limit that ran out, or what a worker reports. wire/job/failure.ts writes it down. */
import { timeoutReport, type TimeoutReport } from './deadlines.ts'
import type { Job, Json } from './job.ts'
import type { Outage } from './liveness.ts'
import type { Instant, Millis } from '../time/clock.ts'

export const TIMEOUT_KINDS = ['execution', 'total', 'enqueue_ttl', 'stalled'] as const
export type TimeoutKind = (typeof TIMEOUT_KINDS)[number]

export interface LimitEnding {
  readonly type: string
  readonly kind?: TimeoutKind
  readonly message: string
  readonly limitMs: Millis | null
  readonly source: string
  /** Where the clock that ran out had started. */
  readonly since: Instant
  readonly deadlineAt: Instant
  readonly setAt: Instant
  /** A liveness clock does not count the time in which no server was listening. */
  readonly isLiveness?: true
  readonly retryable: boolean
  readonly details?: Record<string, unknown>
}

/** When the server came up, and when none was at work. */
export interface Uptime {
  readonly upAt: Instant
  readonly outages: readonly Outage[]
}

/** What a worker reported with FAIL, made whole: type and code always exist (OJS leaves one of them out). */
export interface ReportedError {
  readonly type?: string
  readonly code?: string
  readonly message: string
  readonly retryable?: boolean
  /** When the handler wants to be tried again: a moment, or a length from now on (`+PT30S`). */
  readonly retryAt?: string
  readonly details?: unknown
  readonly detailsText?: Json
  readonly backtrace?: readonly string[]
}

const TIMEOUT_NAMES: readonly (string | undefined)[] = ['timeout', 'total_timeout']

const isTimeoutReport = ({ type, code }: ReportedError): boolean =>
  TIMEOUT_NAMES.includes(type) || TIMEOUT_NAMES.includes(code)

/** What is known of the deadline that a worker says has passed; null for every other report. */
export function readTimeoutReport(job: Job, error: ReportedError, now: Instant): TimeoutReport | null {
  return isTimeoutReport(error) ? timeoutReport(job, now) : null
}

export const HANDED_BACK: ReportedError = {
  type: 'interrupted',
  message: 'The worker handed the job back and gave no reason.',
}
