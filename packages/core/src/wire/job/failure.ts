/**
 * Failures: what is written into `error` and `errors[]` when an attempt, or a job, ends badly.
 *
 * Every ending names its limit: which one, how long it was, how much passed, where it came from, and what it cut off.
 * Times are decision times. `late_ms` says how long after `deadline` the decision came, `downtime_ms` how much of that no
 * server was at work, and `overshoot_ms` what is charged to the decision. `excused_ms` says how much of what passed before
 * `deadline` a liveness clock does not count, because no server was listening.
 */
import type { TimeoutReport } from '../../job/deadlines.ts'
import {
  HANDED_BACK,
  readTimeoutReport,
  type LimitEnding,
  type ReportedError,
  type TimeoutKind,
  type Uptime,
} from '../../job/failures.ts'
import type { Job, Json } from '../../job/job.ts'
import { latenessOf } from '../../job/lateness.ts'
import { creditFor, type Outage } from '../../job/liveness.ts'
import { iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import { elementsOf } from '../json/json-text.ts'

export interface Failure {
  readonly type: string
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly timeout_kind?: TimeoutKind
  readonly limit_seconds?: number
  readonly limit_ms?: number
  readonly elapsed_seconds?: number
  readonly elapsed_ms?: number
  readonly source?: string
  /** Only of a hand-back: the attempt was interrupted and does not count. */
  readonly interrupted?: true
  /** Only of a report: the handler stopped because its total was running out, not because of its timeout. */
  readonly soft_limit?: 'total'
  readonly deadline?: string
  readonly overshoot_ms?: number
  readonly late_ms?: number
  readonly downtime_ms?: number
  /** Only of a liveness clock, and only above 0: how much of `elapsed_ms` no server was listening. It is not counted. */
  readonly excused_ms?: number
  /** Only of a timeout that a worker reported: how long before the soft deadline the report came. */
  readonly early_ms?: number
  readonly details?: unknown
  /** `details` as the worker wrote it, to be kept like that. */
  readonly detailsText?: Json
  readonly backtrace?: readonly string[]
  readonly attempt: number
  readonly occurred_at: string
  readonly timestamp: string
}

/** Whole seconds stay whole (and what passed is rounded down); finer limits keep their fraction. */
export function inSeconds(ms: Millis, limitMs: Millis): number {
  return limitMs % 1000 === 0 ? Math.floor(ms / 1000) : ms / 1000
}

export interface Lengths {
  readonly limit_seconds: number
  readonly limit_ms: number
  readonly elapsed_seconds: number
  readonly elapsed_ms: number
}

export function lengths(limitMs: Millis, elapsedMs: Millis): Lengths {
  return {
    limit_seconds: inSeconds(limitMs, limitMs),
    limit_ms: limitMs,
    elapsed_seconds: inSeconds(elapsedMs, limitMs),
    elapsed_ms: elapsedMs,
  }
}

export function limitFailure(job: Job, ending: LimitEnding, { upAt, outages }: Uptime, now: Instant): Failure {
  const stamp = iso(now)
  const { overshootMs, lateMs, downtimeMs } = latenessOf(ending.deadlineAt, ending.setAt, upAt, outages, now)
  return {
    type: ending.type,
    code: ending.type,
    message: ending.message,
    retryable: ending.retryable,
    ...(ending.kind === undefined ? {} : { timeout_kind: ending.kind }),
    ...(ending.limitMs === null ? {} : lengths(ending.limitMs, elapsed(ending.since, now))),
    source: ending.source,
    deadline: iso(ending.deadlineAt),
    overshoot_ms: overshootMs,
    late_ms: lateMs,
    downtime_ms: downtimeMs,
    ...excusedFor(ending, outages),
    ...(ending.details === undefined ? {} : { details: ending.details }),
    ...stackAt(job, ending),
    attempt: job.attempt,
    occurred_at: stamp,
    timestamp: stamp,
  }
}

function excusedFor(ending: LimitEnding, outages: readonly Outage[]): Pick<Failure, 'excused_ms'> {
  const excusedMs = ending.isLiveness === true ? creditFor(ending.since, outages) : 0
  return excusedMs === 0 ? {} : { excused_ms: excusedMs }
}

/** An attempt that ran out of time shows where its handler was, if the worker has reported it. */
function stackAt({ hold }: Job, { kind }: LimitEnding): { readonly backtrace?: readonly string[] } {
  const isOutOfTime = kind === 'execution' || kind === 'total'
  return isOutOfTime && hold?.stack !== undefined ? { backtrace: hold.stack } : {}
}

export function reportedFailure(job: Job, error: ReportedError, retryable: boolean, now: Instant): Failure {
  const errorClass = classOf(error.details)
  const type = error.type ?? errorClass ?? error.code ?? 'error'
  const stamp = iso(now)
  const report = readTimeoutReport(job, error, now)
  return {
    type,
    code: error.code ?? type,
    message: error.message,
    retryable,
    ...(report?.counts === true && report.limit === 'total' ? { soft_limit: 'total' } : {}),
    ...(report === null || report.earlyMs === 0 ? {} : { early_ms: report.earlyMs }),
    ...(error.details === undefined ? {} : { details: error.details }),
    ...(error.detailsText === undefined ? {} : { detailsText: error.detailsText }),
    ...(error.backtrace === undefined ? {} : { backtrace: error.backtrace }),
    attempt: job.attempt,
    occurred_at: stamp,
    timestamp: stamp,
  }
}

/** A timeout the worker noticed itself: the server fills in which limit it was (its values replace the worker's). */
export function reportedTimeout(
  job: Job,
  error: ReportedError,
  { limitMs, elapsedMs, source }: TimeoutReport,
  retryable: boolean,
  now: Instant,
): Failure {
  const { detailsText: _asWritten, ...failure } = reportedFailure(job, error, retryable, now)
  const details =
    typeof error.details === 'object' && error.details !== null && !Array.isArray(error.details) ? error.details : {}
  return {
    ...failure,
    type: 'timeout',
    timeout_kind: 'execution',
    ...lengths(limitMs, elapsedMs),
    source,
    details: { ...details, reported: true },
  }
}

const LIMITS_BY_TYPE: Readonly<Record<string, string>> = {
  worker_death: 'worker_timeout',
  visibility_timeout: 'visibility_timeout',
  expired: 'expires_at',
}
const LIMITS_BY_KIND: Readonly<Record<TimeoutKind, string>> = {
  execution: 'timeout',
  total: 'total_timeout',
  enqueue_ttl: 'enqueue_ttl',
  stalled: 'heartbeat_timeout',
}

/** The limit that a failure is about, by its name on the wire; null where none caused it. */
export function limitOf({ type, timeout_kind: kind, source }: Partial<Failure>): string | null {
  // Only the server names a source.
  if (source === undefined) return null
  return kind === undefined ? (LIMITS_BY_TYPE[type ?? ''] ?? null) : LIMITS_BY_KIND[kind]
}

export function classOf(details: unknown): string | undefined {
  if (typeof details !== 'object' || details === null) return undefined
  const errorClass = (details as Record<string, unknown>)['error_class']
  return typeof errorClass === 'string' ? errorClass : undefined
}

/** What is noted of an attempt that was handed back: why, and that it does not count. */
export function handBack(job: Job, error: ReportedError | null, now: Instant): Failure {
  return { ...reportedFailure(job, error ?? HANDED_BACK, true, now), interrupted: true }
}

/** The history keeps the latest of these. */
export const KEPT_ERRORS = 25

/** Of which so many may be hand-backs: there is no limit to their number, and they must not push out the failures. */
export const KEPT_HAND_BACKS = 5

/** A failure as text. */
export function failureText({ detailsText, ...failure }: Failure): Json {
  if (detailsText === undefined) return JSON.stringify(failure)
  const { details: _parsed, ...rest } = failure
  return `${JSON.stringify(rest).slice(0, -1)},"details":${detailsText}}`
}

/** Appends to `errors[]` and makes it the current `error`. */
export function withFailure(job: Job, failure: Failure): Job {
  const text = failureText(failure)
  return { ...job, error: text, ...appended(job, text, false) }
}

/** Appends to `errors[]`. A hand-back is not what went wrong last: the current `error` stays. */
export function withHandBack(job: Job, failure: Failure): Job {
  return { ...job, ...appended(job, failureText(failure), true) }
}

type History = Pick<Job, 'errors' | 'errorCount'>

function appended({ errors, errorCount }: History, text: Json, isHandBack: boolean): History {
  if (errorCount === 0) return { errors: text, errorCount: 1 }
  if (errorCount < (isHandBack ? KEPT_HAND_BACKS : KEPT_ERRORS))
    return { errors: `${errors},${text}`, errorCount: errorCount + 1 }
  const entries = elementsOf(`[${errors}]`)
  if (isHandBack && entries.filter(tellsOfHandBack).length >= KEPT_HAND_BACKS)
    entries.splice(entries.findIndex(tellsOfHandBack), 1)
  const kept = [...entries, text].slice(-KEPT_ERRORS)
  return { errors: kept.join(','), errorCount: kept.length }
}

const tellsOfHandBack = (entry: Json): boolean => (JSON.parse(entry) as Failure).interrupted === true

export const readFailure = (text: Json): Failure => JSON.parse(text) as Failure

/** What is charged to the decision that ended the attempt. */
export const overshootIn = ({ overshoot_ms: ms }: Failure): Millis => millis(ms ?? 0)

/** How long before the soft deadline a timeout was reported that counts as an ordinary failure; null for all others. */
export function earlyMsIn({ timeout_kind: kind, early_ms: ms }: Failure): Millis | null {
  return kind === undefined && ms !== undefined ? millis(ms) : null
}

/** For `details`: the failure before this one. */
export const lastError = (text: Json): Record<string, unknown> => ({ last_error: JSON.parse(text) as unknown })

/** The failure of a limit that is foreseen, and so is decided before its deadline. */
export function foreseen(failure: Failure): Failure {
  const { deadline: _deadline, overshoot_ms: _overshoot, late_ms: _late, downtime_ms: _downtime, ...rest } = failure
  return rest
}

/** Whether the worker stopped because the total was running out, in this failure or in the one it is recorded with. */
export function isStoppedByTotal(text: Json): boolean {
  const { details, ...own } = JSON.parse(text) as Reported
  // A retry that would not have fitted is recorded as the end of the total budget.
  const reported = details?.predicted === true ? (details.last_error ?? own) : own
  return reported.soft_limit === 'total'
}

interface Reported {
  readonly soft_limit?: unknown
  readonly details?: { readonly predicted?: unknown; readonly last_error?: Reported }
}
