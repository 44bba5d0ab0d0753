/**
 * Every deadline of a job. The wake loop, the claim, the retry, the answers to workers and the explanation of a job all ask
 * here, so they cannot disagree.
 *
 *   anchor ──────────── enqueue_ttl ──┤            (only until the first claim)
 *   anchor ─────────────────────────────────────────────────── total ──┤  (whatever the state)
 *                     claim ──── timeout ──┤soft ── grace ──┤hard
 *                     claim ─────────────────────────┤soft ── reserve ──┤  (where the total comes first)
 *                     sign of life ── heartbeat ──┤ stalled
 *                     sign of life ── visibility ────────┤ back to available
 *
 * Liveness clocks (stall, visibility, death) are renewable. A beat is written on the worker's row only; a job's clocks
 * are derived from it when its own `wakeAt` comes due. The server's own outages are not held against anyone's liveness:
 * `creditFor` gives back the time no server was listening. Timeouts, totals and TTLs are never credited.
 */
import { instant, millis, seconds, type Instant, type Millis } from '../time/clock.ts'
import { after, before, earliest, elapsed, isDue } from '../time/sums.ts'
import { isTerminal, speakerFor, type Job } from './job.ts'
import type { Limit, LimitSource } from './limits.ts'
import type { Beat, Worker } from './worker.ts'

// ---- The whole life ----

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

// ---- One attempt ----

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
  const isSet = speakerFor(grace) !== 'default'
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

// ---- Liveness ----

/** A time in which no server was listening. */
export interface Outage {
  readonly from: Instant
  readonly to: Instant
}

/** What liveness is judged by: the worker's row, the outages, and how long silence may last. */
export interface Liveness {
  readonly worker: Worker | null
  readonly outages: readonly Outage[]
  readonly workerTimeoutMs: Millis
}

/** How much of the time since a clock was last reset no server was listening. */
export function creditFor(since: Instant, outages: readonly Outage[]): Millis {
  let credit = 0
  let counted: number = since
  // Oldest first; what two outages share counts once.
  for (const { from, to } of outages) {
    credit += Math.max(0, to - Math.max(from, counted))
    counted = Math.max(counted, to)
  }
  return millis(credit)
}

function beatFor(job: Job, worker: Worker | null): Beat | null {
  if (worker === null || job.hold === null || worker.beat === null || job.startedAt === null) return null
  // A beat from before this claim speaks of an earlier attempt.
  if (worker.id !== job.hold.workerId || worker.beat.at < job.startedAt) return null
  const lease = worker.beat.leases[job.id]
  return lease === undefined || lease === job.lease ? worker.beat : null
}

/** When the stall clock was last reset. */
export function lastSignAt(job: Job, worker: Worker | null): Instant | null {
  if (job.hold === null) return null
  const beat = beatFor(job, worker)
  const covered = beat !== null && beat.jobs.has(job.id) && (beat.proofs === null || beat.proofs.has(job.id))
  return covered && beat.at > job.hold.signAt ? beat.at : job.hold.signAt
}

/** Null when nobody judges this attempt by its heartbeats. */
export function stallAt(job: Job, { worker, outages }: Liveness): Instant | null {
  const since = lastSignAt(job, worker)
  if (since === null || job.hold === null || job.hold.heartbeat === null) return null
  return after(after(since, job.hold.heartbeat.ms), creditFor(since, outages))
}

/** How long a beat extends the reservation: what it asked for, within the cap, or else the job's own visibility. */
export function extensionFor(job: Job, askedMs: Millis | null): Millis {
  if (askedMs === null) return job.hold?.visibility.ms ?? millis(0)
  return millis(Math.min(askedMs, job.limits.caps.visibility ?? askedMs))
}

/**
 * When the visibility clock was last reset, and to what length. Of a beat and a sign of the job itself in the very same
 * millisecond nobody can tell which was last: the longer counts.
 */
export function visibilityClock(job: Job, worker: Worker | null): { since: Instant; ms: Millis } | null {
  if (job.hold === null) return null
  const own = { since: job.hold.visibleFrom, ms: job.hold.visibleMs }
  const beat = beatFor(job, worker)
  if (beat === null || !beat.jobs.has(job.id) || beat.at < own.since) return own
  const beaten = { since: beat.at, ms: extensionFor(job, beat.visibilityMs) }
  return beaten.since === own.since && beaten.ms < own.ms ? own : beaten
}

/**
 * Who gave the visibility clock this length. Only a beat makes it another than the job's own: that is its worker's word,
 * or the cap that cut it.
 */
export function visibilitySource({ hold, limits }: Job, ms: Millis): LimitSource {
  if (hold !== null && hold.visibility.ms === ms) return hold.visibility.source
  return limits.caps.visibility === ms ? 'cap' : 'handler'
}

export function visibilityAt(job: Job, { worker, outages }: Liveness): Instant | null {
  const clock = visibilityClock(job, worker)
  return clock === null ? null : after(after(clock.since, clock.ms), creditFor(clock.since, outages))
}

/** When a silent worker is declared dead. Workers that never introduced themselves are not judged. */
export function deathAt(worker: Worker, { outages, workerTimeoutMs }: Omit<Liveness, 'worker'>): Instant | null {
  if (!worker.known || worker.diedAt !== null) return null
  return after(after(worker.lastSeenAt, workerTimeoutMs), creditFor(worker.lastSeenAt, outages))
}

/** A job whose stall clock somebody chose is left to that clock alone (ADR 0017). */
export function deathEndsIt({ hold }: Job): boolean {
  return hold !== null && (hold.heartbeat === null || speakerFor(hold.heartbeat) === 'default')
}

// ---- What is due first ----

export type DueKind =
  | 'scheduled'
  | 'backoff'
  | 'total'
  | 'execution'
  | 'stalled'
  | 'worker_death'
  | 'visibility'
  | 'enqueue_ttl'
  | 'expires_at'
  | 'purge'

export interface Due {
  readonly kind: DueKind
  readonly at: Instant
}

/** Nothing known of any worker or outage: what the job's own row says. */
export const ROW_ALONE: Liveness = { worker: null, outages: [], workerTimeoutMs: millis(0) }

/**
 * The next thing that happens to this job if nobody speaks. Earliest first; on a tie the order of this list decides,
 * which is the order of the specification (total, execution, stalled, worker death, visibility), and a limit comes
 * before a start: nothing starts with an empty budget.
 */
export function nextDue(job: Job, life: Liveness = ROW_ALONE): Due | null {
  return firstDue(job, life, true)
}

function firstDue(job: Job, life: Liveness, withDeath: boolean): Due | null {
  let first: Due | null = null
  const consider = (kind: DueKind, at: Instant | null): void => {
    if (at !== null && (first === null || at < first.at)) first = { kind, at }
  }
  if (isTerminal(job.state)) {
    consider('purge', job.purgeAt)
    return first
  }
  consider('total', totalAt(job))
  if (job.state === 'active') {
    consider('execution', executionAt(job))
    consider('stalled', stallAt(job, life))
    if (withDeath && life.worker !== null && life.worker.id === job.hold?.workerId && deathEndsIt(job)) {
      consider('worker_death', deathAt(life.worker, life))
    }
    consider('visibility', visibilityAt(job, life))
    return first
  }
  consider('enqueue_ttl', ttlAt(job))
  consider('expires_at', expiryAt(job))
  if (job.state === 'scheduled') consider('scheduled', job.scheduledAt)
  if (job.state === 'retryable') consider('backoff', job.nextRetryAt)
  return first
}

/**
 * The row's `wakeAt`: never later than what is really due; a renewed clock is found out, and re-armed, when it comes.
 * A worker's death is on the worker's own row.
 */
export function wakeAtOf(job: Job, life: Liveness = ROW_ALONE): Instant | null {
  return firstDue(job, life, false)?.at ?? null
}

/** How late a decision was, in three figures. */
export interface Lateness {
  /** What is charged to the decision: see `overshootOf`. */
  readonly overshootMs: Millis
  /** What really passed since the deadline, or since it was set. */
  readonly lateMs: Millis
  /** How much of that no server was at work. */
  readonly downtimeMs: Millis
}

export function latenessOf(
  deadlineAt: Instant,
  setAt: Instant,
  upAt: Instant,
  outages: readonly Outage[],
  now: Instant,
): Lateness {
  const since = instant(Math.max(deadlineAt, setAt))
  return {
    overshootMs: overshootOf(deadlineAt, setAt, upAt, now),
    lateMs: elapsed(since, now),
    downtimeMs: downtimeIn(since, upAt, outages, now),
  }
}

/**
 * A server that is up decides at the deadline, so one that was left undecided until this server came up was left by a
 * server that was down. Later outages are times in which this server stood still, or could not reach its store.
 */
function downtimeIn(since: Instant, upAt: Instant, outages: readonly Outage[], now: Instant): Millis {
  const startedUpAt = instant(Math.min(Math.max(since, upAt), now))
  const later = outages.filter(({ from, to }) => from >= upAt && from < now && to <= now)
  return millis(elapsed(since, startedUpAt) + creditFor(startedUpAt, later))
}

/** How late a decision was: not counted from before the deadline was set, nor from before the server was up. */
export function overshootOf(deadlineAt: Instant, setAt: Instant, upAt: Instant, now: Instant): Millis {
  return elapsed(instant(Math.max(deadlineAt, setAt, upAt)), now)
}

// ---- Retries ----

/**
 * Whether another attempt can still begin, and end, inside the total budget (OJS timeouts §9.1). A timeout nobody chose
 * counts as nothing, so that a short total still gets its retries (ADR 0017); a workflow's ceiling does not count here.
 */
export function fitsTotal(job: Job, now: Instant, delayMs: Millis): boolean {
  const ceiling = job.ceiling?.source === 'parent' ? job.ceiling.at : null
  const totalEndsAt = earliest(ownTotalAt(job), ceiling)
  if (totalEndsAt === null) return true
  const timeout = job.hold?.timeout ?? job.limits.timeout
  const startsAt = after(now, delayMs)
  const neededMs = speakerFor(timeout) === 'default' ? millis(0) : timeout.ms
  return totalEndsAt > startsAt && totalEndsAt >= after(startsAt, neededMs)
}

/** When a job that failed starts again; null where its total comes first, and there is no further attempt. */
export function retryComesAt(job: Job): Instant | null {
  const { nextRetryAt } = job
  return nextRetryAt === null || isDue(totalAt(job), nextRetryAt) ? null : nextRetryAt
}

// ---- Calls of a run ----

/** What is left until a deadline; 0 when it has come. */
export function budgetLeft(deadlineAt: Instant, now: Instant): Millis {
  return elapsed(now, deadlineAt)
}

/** When a call that begins now must be over: its own timeout, within the run that makes it. */
export function callEndsAt(begunAt: Instant, timeoutMs: Millis, deadlineAt: Instant): Instant {
  return instant(Math.min(after(begunAt, timeoutMs), deadlineAt))
}

/** Whether a rest of this length ends while there is still something left to use. */
export function restFits(deadlineAt: Instant, now: Instant, restMs: Millis): boolean {
  return !isDue(deadlineAt, after(now, restMs))
}

// ---- Workers ----

/** Workers that only ever fetched are forgotten after an hour of silence; the dead are remembered for one. */
export const FORGET_AFTER_MS = seconds(3600)

export function workerWakeAt(worker: Worker, life: Omit<Liveness, 'worker'>): Instant {
  if (worker.diedAt !== null) return after(worker.diedAt, FORGET_AFTER_MS)
  return deathAt(worker, life) ?? after(worker.lastSeenAt, FORGET_AFTER_MS)
}

// ---- Runs of journeys ----

/** How long runs may take, whatever their definitions say. */
export interface RunLimits {
  readonly defaultMs: Millis
  readonly capMs: Millis
}

export interface RunBudget {
  readonly deadlineAt: Instant
  readonly limitMs: Millis
  readonly limitedBy: 'spec' | 'platform-default' | 'platform-cap' | 'parent'
}

/** Every run has a deadline: what its author allows, or the default, within the cap and what is left of its parent. */
export function runBudget(
  startedAt: Instant,
  askedMs: Millis | null,
  { defaultMs, capMs }: RunLimits,
  inheritedAt: Instant | null,
): RunBudget {
  const wantedMs = askedMs ?? defaultMs
  const isCapped = capMs < wantedMs
  const limitMs = isCapped ? capMs : wantedMs
  const ownAt = after(startedAt, limitMs)
  if (inheritedAt !== null && inheritedAt < ownAt)
    return { deadlineAt: inheritedAt, limitMs: elapsed(startedAt, inheritedAt), limitedBy: 'parent' }
  const limitedBy = isCapped ? 'platform-cap' : askedMs === null ? 'platform-default' : 'spec'
  return { deadlineAt: ownAt, limitMs, limitedBy }
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
