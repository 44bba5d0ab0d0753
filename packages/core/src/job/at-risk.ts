/**
 * At risk: jobs that will miss a deadline at the pace of the recent past, listed before they do. An estimate, made of
 * figures that are shown with it:
 *
 *   expected start = now + (jobs ahead + 1) / starts per second, as observed in the queue's recent past
 *   latest start   = the TTL or `expires_at`; or the total deadline less what attempts of this type lately took
 *
 * A job is at risk when the first is not before the second. It is also when it waits for a moment (its schedule, its
 * backoff) that lies behind its limit: that is certain, not an estimate. Not foreseen: that an attempt runs into its own
 * timeout, that it fails and must be tried again, that limiters hold jobs back, or that workers come and go.
 */
import { effectiveTotal, expiryAt, ttlAt } from './deadlines.ts'
import type { Job } from './job.ts'
import { millis, type Instant, type Millis } from '../time/clock.ts'
import { after, before, timeBetween, elapsed } from '../time/sums.ts'

/** How far back the pace is observed. */
export const PACE_WINDOW_MS = millis(60_000)
const MIN_WINDOW_MS = 1_000

/** How fast a queue started jobs. */
export interface Pace {
  readonly starts: number
  readonly windowMs: Millis
}

/** `since`: from where on every start is known. */
export function paceOf(startedAt: readonly Instant[], since: Instant, now: Instant): Pace {
  const windowMs = Math.min(PACE_WINDOW_MS, Math.max(MIN_WINDOW_MS, elapsed(since, now)))
  return { starts: startedAt.filter((at) => timeBetween(at, now) <= windowMs).length, windowMs: millis(windowMs) }
}

/** From one start to the next; null when there was none: then every wait counts as too long. */
export function gapOf({ starts, windowMs }: Pace): number | null {
  return starts === 0 ? null : windowMs / starts
}

export interface LatestStart {
  readonly at: Instant
  readonly limit: 'enqueue_ttl' | 'expires_at' | 'total'
  readonly source: string
  readonly deadlineAt: Instant
}

/** Until when it must start for its deadlines to be kept; null when it has none. `typicalMs`: what an attempt takes. */
export function latestStartOf(job: Job, typicalMs: Millis): LatestStart | null {
  const [ttl, expiry, total] = [ttlAt(job), expiryAt(job), effectiveTotal(job)]
  const limits: LatestStart[] = []
  if (ttl !== null)
    limits.push({ at: ttl, limit: 'enqueue_ttl', source: job.limits.ttl?.source ?? 'publish', deadlineAt: ttl })
  if (expiry !== null) limits.push({ at: expiry, limit: 'expires_at', source: 'publish', deadlineAt: expiry })
  if (total !== null) {
    const at = before(total.at, typicalMs)
    limits.push({ at, limit: 'total', source: total.source, deadlineAt: total.at })
  }
  return limits.sort((a, b) => a.at - b.at)[0] ?? null
}

export interface Risk {
  readonly job: Job
  readonly latest: LatestStart
  /** Null: nothing has started lately. */
  readonly expectedAt: Instant | null
  /** Null: it waits for a moment, not in line. */
  readonly ahead: number | null
}

/** A job in line, with so many before it. Null when it will be in time. */
export function riskInLine(
  job: Job,
  ahead: number,
  gapMs: number | null,
  typicalMs: Millis,
  now: Instant,
): Risk | null {
  const latest = latestStartOf(job, typicalMs)
  if (latest === null) return null
  const expectedAt = gapMs === null ? null : after(now, millis(Math.ceil((ahead + 1) * gapMs)))
  return expectedAt !== null && expectedAt < latest.at ? null : { job, latest, expectedAt, ahead }
}

/** A job that waits for a moment of its own. Null when that comes in time, or it waits for none. */
export function riskOfMoment(job: Job, typicalMs: Millis): Risk | null {
  const moment = job.state === 'scheduled' ? job.scheduledAt : job.state === 'retryable' ? job.nextRetryAt : null
  const latest = latestStartOf(job, typicalMs)
  if (moment === null || latest === null || moment < latest.at) return null
  return { job, latest, expectedAt: moment, ahead: null }
}
