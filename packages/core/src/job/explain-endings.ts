/** How the attempts of a job, and the job itself, ended. */
import { effectiveTotal } from './deadlines.ts'
import type { TimeoutKind } from './failures.ts'
import { lengths, type Failure } from '../wire/job/failure.ts'
import type { Job } from './job.ts'
import type { LifeEntry } from './life.ts'
import type { NoRetry } from './retry.ts'
import { iso } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'

export interface Ending {
  readonly attempt: number
  readonly type: string
  readonly timeout_kind?: TimeoutKind
  readonly limit_seconds?: number
  readonly limit_ms?: number
  readonly elapsed_seconds?: number
  readonly elapsed_ms?: number
  readonly deadline?: string
  /** What is charged to the decision. */
  readonly overshoot_ms?: number
  /** What really passed after the deadline, and how much of it no server was at work. */
  readonly late_ms?: number
  readonly downtime_ms?: number
  /** Of a liveness clock: how much of `elapsed_ms` is not counted, because no server was listening. */
  readonly excused_ms?: number
  /** How long before the soft deadline the worker reported its timeout. */
  readonly early_ms?: number
  readonly source?: string
  /** The worker stopped because the total was running out. */
  readonly soft_limit?: 'total'
  /** The worker gave the job back (`requeue`). */
  readonly handed_back?: true
  /** False where the attempt does not count against `max_attempts`. */
  readonly counted?: false
  /** The limit had not come: another attempt could not have ended within it. */
  readonly predicted?: true
  /** Of the last ending: why the job was not tried again. */
  readonly no_retry?: NoRetry
  readonly cause?: unknown
  readonly cancelled_by?: string
  readonly stack?: unknown
}

/** Taken over from the failure as they were recorded when it was decided. */
const RECORDED = [
  'timeout_kind',
  'limit_seconds',
  'limit_ms',
  'elapsed_seconds',
  'elapsed_ms',
  'deadline',
  'overshoot_ms',
  'late_ms',
  'downtime_ms',
  'excused_ms',
  'early_ms',
  'source',
  'soft_limit',
] as const satisfies readonly (keyof Failure & keyof Ending)[]

function recorded(failure: Failure): Pick<Ending, (typeof RECORDED)[number]> {
  return Object.fromEntries(RECORDED.flatMap((key) => (failure[key] === undefined ? [] : [[key, failure[key]]])))
}

export function endingsOf(job: Job, entries: readonly LifeEntry[]): Ending[] {
  const endings = (JSON.parse(`[${job.errors}]`) as Failure[]).map((failure): Ending => {
    const details = isRecord(failure.details) ? failure.details : {}
    const { last_error: cause, stack } = details
    // A worker may write what it likes into its details, but no kind.
    const isPredicted = failure.timeout_kind === 'total' && details['predicted'] === true
    return {
      attempt: failure.attempt,
      type: failure.type,
      ...recorded(failure),
      ...(failure.interrupted === true ? { handed_back: true, counted: false } : {}),
      ...(isPredicted ? { predicted: true } : {}),
      cause: cause ?? { type: failure.type, message: failure.message },
      ...(stack === undefined ? (failure.backtrace === undefined ? {} : { stack: failure.backtrace }) : { stack }),
    }
  })
  const last = entries.at(-1)
  if (job.state === 'completed') endings.push({ attempt: job.attempt, type: 'completed' })
  if (job.state === 'cancelled') endings.push(cancellation(job, last))
  const final = endings.at(-1)
  if (job.state === 'discarded' && final !== undefined && last?.noRetry !== undefined)
    endings[endings.length - 1] = { ...final, no_retry: last.noRetry[0] }
  return endings
}

function cancellation(job: Job, entry: LifeEntry | undefined): Ending {
  const { cancelReason, cancelledAt } = job
  const total = cancelReason === 'workflow_timeout' ? effectiveTotal(job) : null
  const late = entry?.late
  return {
    attempt: job.attempt,
    type: 'cancelled',
    ...(total === null || cancelledAt === null
      ? {}
      : {
          ...lengths(total.ms, elapsed(job.anchorAt, cancelledAt)),
          deadline: iso(total.at),
          source: total.source,
        }),
    ...(late === undefined
      ? {}
      : { overshoot_ms: late.overshootMs, late_ms: late.lateMs, downtime_ms: late.downtimeMs }),
    ...(cancelReason === null ? {} : { cause: cancelReason }),
    ...(entry?.by === undefined ? {} : { cancelled_by: entry.by }),
  }
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
