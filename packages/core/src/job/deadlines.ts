/**
 * The deadlines of a job and of its attempt. The wake loop, the claim, the retry, the answers to workers and the explanation
 * of a job all ask here, so they cannot disagree.
 *
 *   anchor ──────────── enqueue_ttl ──┤            (only until the first claim)
 *   anchor ─────────────────────────────────────────────────── total ──┤  (whatever the state)
 *                     claim ──── timeout ──┤soft ── grace ──┤hard
 *                     claim ─────────────────────────┤soft ── reserve ──┤  (where the total comes first)
 *                     sign of life ── heartbeat ──┤ stalled
 *                     sign of life ── visibility ────────┤ back to available
 *
 * The last two clocks are in liveness.ts. due.ts says which of all these comes first, lateness.ts how late a decision was.
 */
import type { Job } from './job.ts'
import { askedSource, type Limit } from './limits.ts'
import { instant, millis, seconds, type Instant, type Millis } from '../time/clock.ts'
import { after, before, earliest, elapsed, isDue } from '../time/sums.ts'

/** When the job's own total budget ends (without what a parent or workflow imposes). */
export function ownTotalAt(job: Job): Instant | null {
  return job.limits.total === null ? null : after(job.anchorAt, job.limits.total.ms)
}

/** When the job must be over, whatever its state: its own total, or the ceiling handed down to it. */
export function totalAt(job: Job): Instant | null {
  return earliest(ownTotalAt(job), job.ceiling?.at ?? null)
}

/** The total as a length with the source that won, for answers. */
export function effectiveTotal(job: Job): { ms: Millis; source: string; at: Instant } | null {
  const at = totalAt(job)
  if (at === null) return null
  const own = ownTotalAt(job)
  const source =
    own !== null && own <= at && job.limits.total !== null ? job.limits.total.source : (job.ceiling?.source ?? 'parent')
  return { ms: elapsed(job.anchorAt, at), source, at }
}

/** When a job that never started is too old to start. */
export function ttlAt(job: Job): Instant | null {
  return job.attempt === 0 && job.limits.ttl !== null ? after(job.anchorAt, job.limits.ttl.ms) : null
}

export function expiryAt(job: Job): Instant | null {
  return job.attempt === 0 ? job.expiresAt : null
}

/** Which limit a soft deadline comes from. */
export type SoftLimit = 'timeout' | 'total'

/**
 * When the handler is asked to stop, and by which limit: its timeout, or the total less a reserve in which to stop. The
 * reserve only brings the question forward; neither the total nor the hard deadline moves. On a tie the total is named,
 * as everywhere.
 */
export function softDeadline(job: Job): { at: Instant; limit: SoftLimit } | null {
  const { startedAt, hold } = job
  if (hold === null || startedAt === null) return null
  const timeoutAt = after(startedAt, hold.timeout.ms)
  const total = totalAt(job)
  if (total === null) return { at: timeoutAt, limit: 'timeout' }
  const reservedAt = instant(Math.max(startedAt, before(total, reserveFor(hold.grace, elapsed(startedAt, total)))))
  return reservedAt <= timeoutAt ? { at: reservedAt, limit: 'total' } : { at: timeoutAt, limit: 'timeout' }
}

/** The default of the specification (OJS timeouts §5.4): a job whose grace was set does not know its server's default. */
const USUAL_GRACE_MS = seconds(30)

/**
 * A grace that was set is kept free in full; a default one takes no more than a tenth of what the total leaves. A set
 * grace that would take all of it counts as the default, or the handler would be asked to stop as it starts.
 */
function reserveFor(grace: Limit, leftMs: Millis): Millis {
  const isSet = askedSource(grace) !== 'default'
  if (isSet && grace.ms < leftMs) return grace.ms
  return millis(Math.min(isSet ? USUAL_GRACE_MS : grace.ms, Math.floor(leftMs / 10)))
}

/** When the handler is asked to stop. */
export function softDeadlineAt(job: Job): Instant | null {
  return softDeadline(job)?.at ?? null
}

/** When the attempt ends by its own timeout and grace (the total may end it sooner). */
export function executionAt(job: Job): Instant | null {
  if (job.hold === null || job.startedAt === null) return null
  return after(after(job.startedAt, job.hold.timeout.ms), job.hold.grace.ms)
}

/** When the server takes the job away at the latest. Grace never extends a total. */
export function hardDeadlineAt(job: Job): Instant | null {
  return earliest(executionAt(job), totalAt(job))
}

/** What a total takes from an attempt. Lengths are counted from the claim. */
export interface TotalCut {
  /** When the handler is asked to stop. */
  readonly softMs: Millis
  /** When the server takes the job away. */
  readonly hardMs: Millis
  readonly source: string
}

/** How the total, its own or handed down, shortens the attempt that is running; null where timeout and grace are whole. */
export function totalCut(job: Job): TotalCut | null {
  const { startedAt } = job
  const [soft, hard, execution] = [softDeadline(job), hardDeadlineAt(job), executionAt(job)]
  const total = effectiveTotal(job)
  if (startedAt === null || soft === null || hard === null || execution === null || total === null) return null
  if (soft.limit === 'timeout' && hard === execution) return null
  return { softMs: elapsed(startedAt, soft.at), hardMs: elapsed(startedAt, hard), source: total.source }
}

/** Since when the attempt is in its grace; null before its soft deadline, and where it has no grace. */
export function graceSince(job: Job, now: Instant): Instant | null {
  const [soft, hard] = [softDeadlineAt(job), hardDeadlineAt(job)]
  return soft !== null && hard !== null && soft < hard && isDue(soft, now) ? soft : null
}

/**
 * Whether another attempt can still begin, and end, inside the total budget (OJS timeouts §9.1). A default timeout
 * counts as nothing, so that a short total still gets its retries (ADR 0017); a workflow's ceiling does not count here.
 */
export function fitsTotal(job: Job, now: Instant, delayMs: Millis): boolean {
  const ceiling = job.ceiling?.source === 'parent' ? job.ceiling.at : null
  const totalEndsAt = earliest(ownTotalAt(job), ceiling)
  if (totalEndsAt === null) return true
  const timeout = job.hold?.timeout ?? job.limits.timeout
  const startsAt = after(now, delayMs)
  const neededMs = askedSource(timeout) === 'default' ? millis(0) : timeout.ms
  return totalEndsAt > startsAt && totalEndsAt >= after(startsAt, neededMs)
}

/** When a job that failed starts again; null where its total comes first, and there is no further attempt. */
export function retryComesAt(job: Job): Instant | null {
  const { nextRetryAt } = job
  return nextRetryAt === null || isDue(totalAt(job), nextRetryAt) ? null : nextRetryAt
}

/** How long a report may have travelled. */
const TRAVEL_MS = millis(1_000)

/** What a timeout that a worker reports is about. */
export interface TimeoutReport {
  /** Whether it is a timeout: it came at the soft deadline, or no earlier than a worker may be. */
  readonly counts: boolean
  /** How long before the soft deadline it came, on the server's clock. */
  readonly earlyMs: Millis
  /** What the attempt was stopped by: its timeout, or the total less the reserve. */
  readonly limit: SoftLimit
  readonly limitMs: Millis
  readonly source: string
  readonly elapsedMs: Millis
}

/**
 * A worker counts from the moment it asked, so it is a little early: by no more than its request travelled, and never by
 * half of what it was given. What passed since it asked is not below the limit.
 */
export function timeoutReport(job: Job, now: Instant): TimeoutReport | null {
  const { startedAt, hold } = job
  const soft = softDeadline(job)
  if (startedAt === null || hold === null || soft === null) return null
  const lengthMs = elapsed(startedAt, soft.at)
  const earlyMs = elapsed(now, soft.at)
  return {
    counts: earlyMs <= Math.min(TRAVEL_MS, lengthMs / 2),
    earlyMs,
    limit: soft.limit,
    limitMs: lengthMs,
    source: soft.limit === 'timeout' ? hold.timeout.source : (effectiveTotal(job)?.source ?? hold.timeout.source),
    elapsedMs: millis(Math.max(elapsed(startedAt, now), lengthMs)),
  }
}
