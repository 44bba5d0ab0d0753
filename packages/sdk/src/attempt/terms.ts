/**
 * Until when an attempt may run, counted on this machine's monotonic clock.
 *
 * The server says lengths, from its answer on. They are counted from the moment the worker asked, plus the time the
 * server says it let the worker wait: the answer left the server no earlier than that, so a slow answer never stretches
 * a deadline.
 */
import { after, instant, millis, minutes, seconds, type Instant, type LimitsView, type Millis } from '@curfew/core'
import type { AttemptLimits } from '../job/limits.ts'
import { toMillis } from '../durations.ts'
import type { Stop } from './facts.ts'
import type { HandedJob } from '../wire/jobs.ts'

/** When an answer is counted from. */
export interface Asked {
  readonly at: Instant
  readonly waitedMs: Millis
}

export interface Terms {
  readonly startedAt: Instant
  readonly softAt: Instant
  /** What the signal says at `softAt`. */
  readonly softStop: Stop & { why: 'deadline' }
  readonly hardAt: Instant
  /** When what can be killed is killed: early enough for its failure to arrive before the server decides by itself. */
  readonly killAt: Instant
  readonly graceMs: Millis
  /** Silence that counts as a stall; null: the server does not judge by it. */
  readonly stallMs: Millis | null
  /** How long the reservation lasts after the last beat that listed it; null: the server did not say. */
  readonly visibilityMs: Millis | null
}

export function termsOf(job: HandedJob, asked: Asked, handler: AttemptLimits): Terms {
  const startedAt = after(asked.at, asked.waitedMs)
  const limits = job.x_limits
  if (limits?.soft_ms === undefined || limits.hard_ms === undefined) return ownTerms(job, startedAt, handler)
  const { soft_limit: softLimit } = limits
  const isTotal = softLimit === undefined ? endsAtTotal(limits) : softLimit === 'total'
  return {
    startedAt,
    softAt: after(startedAt, millis(limits.soft_ms)),
    hardAt: after(startedAt, millis(limits.hard_ms)),
    killAt: after(startedAt, millis(limits.hard_ms - killLeadMs(limits.hard_ms - limits.soft_ms))),
    graceMs: millis(limits.grace_ms ?? 0),
    stallMs: limits.heartbeat_timeout_ms === undefined ? null : millis(limits.heartbeat_timeout_ms),
    visibilityMs: limits.visibility_ms === undefined ? null : millis(limits.visibility_ms),
    softStop: isTotal
      ? deadline('total', limits.total_ms ?? limits.timeout_ms, limits.sources['total'])
      : deadline('execution', limits.timeout_ms, limits.sources['timeout']),
  }
}

/** What an older server says of it. */
function endsAtTotal({ total_deadline: total, soft_deadline: soft }: LimitsView): boolean {
  return total !== undefined && soft === total
}

/** A server that does not tell its limits: what the job asks for, then the handler, then what the specification says. */
function ownTerms(job: HandedJob, startedAt: Instant, handler: AttemptLimits): Terms {
  const [timeoutMs, source] = firstOf(
    [lengthOn(job, 'timeout'), 'publish'],
    [handler.timeout === undefined ? null : toMillis(handler.timeout, 'timeout'), 'handler'],
    [minutes(30), 'default'],
  )
  const [graceMs] = firstOf(
    [lengthOn(job, 'grace_period'), 'publish'],
    [handler.gracePeriod === undefined ? null : toMillis(handler.gracePeriod, 'gracePeriod'), 'handler'],
    [seconds(30), 'default'],
  )
  const softAt = after(startedAt, timeoutMs)
  return {
    startedAt,
    softAt,
    hardAt: after(softAt, graceMs),
    killAt: after(softAt, millis(graceMs - killLeadMs(graceMs))),
    graceMs,
    stallMs: null,
    visibilityMs: null,
    softStop: deadline('execution', timeoutMs, source),
  }
}

/** A twentieth of the grace, a quarter of a second at most. */
function killLeadMs(graceMs: number): number {
  return Math.min(250, graceMs / 20)
}

function deadline(kind: 'execution' | 'total', limitMs: number, source = 'default'): Terms['softStop'] {
  return { why: 'deadline', kind, limitMs, source }
}

function lengthOn(job: HandedJob, name: string): Millis | null {
  const [ms, inSeconds] = [job[`${name}_ms`], job[name]]
  if (typeof ms === 'number' && ms > 0) return millis(ms)
  return typeof inSeconds === 'number' ? seconds(inSeconds) : null
}

function firstOf(...given: readonly (readonly [Millis | null, string])[]): readonly [Millis, string] {
  for (const [ms, source] of given) if (ms !== null) return [ms, source]
  return [minutes(30), 'default']
}

/**
 * When a worker that hears nothing must have stopped everything: the server counts its silence from the arrival of the
 * last good call, which is later than its sending. `warnAt` leaves handlers a moment to stop by themselves.
 */
export function fenceAt(contactAt: Instant, workerTimeoutMs: Millis): { warnAt: Instant; fenceAt: Instant } {
  const margin = Math.min(1_000, workerTimeoutMs / 10)
  return {
    warnAt: after(contactAt, millis(workerTimeoutMs - margin)),
    fenceAt: after(contactAt, workerTimeoutMs),
  }
}

/** The clocks of a reservation. */
export interface Reservation {
  /** Only signs from the handler prove that it lives. */
  readonly manual: boolean
  readonly stallMs: number | null
  readonly visibilityMs: number | null
}

/** The shortest clock that beats which list the attempt renew; Infinity: it has none. */
export function beatenClockMs({ manual, stallMs, visibilityMs }: Reservation): number {
  return Math.min(manual ? Infinity : (stallMs ?? Infinity), visibilityMs ?? Infinity)
}

/**
 * When the server may hand the job to another worker because no beat has arrived that lists it, counted from the sending of
 * the last one that was answered; and a moment before, when its handler must be asked to stop. Null: the job has no such clock.
 */
export function lapseAt(reservation: Reservation, listedAt: Instant): { warnAt: Instant; fenceAt: Instant } | null {
  const clockMs = beatenClockMs(reservation)
  return clockMs === Infinity ? null : fenceAt(listedAt, millis(clockMs))
}

export function monotonicNow(host: { monotonicMs(): number }): Instant {
  return instant(host.monotonicMs())
}
