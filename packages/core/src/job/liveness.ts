/**
 * Liveness clocks: stall, visibility and the death of a worker. A sign of life renews them.
 *
 * A beat is written on the worker's row only; a job's clocks are derived from it when its own `wakeAt` comes due. Outages of
 * the server do not count against a worker: `creditFor` gives back the time in which no server was listening. Timeouts,
 * totals and TTLs are never credited.
 */
import type { Job } from './job.ts'
import { askedSource, type LimitSource } from './limits.ts'
import type { Beat, Worker } from './worker.ts'
import { millis, seconds, type Instant, type Millis } from '../time/clock.ts'
import { after } from '../time/sums.ts'

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

/** Null when this attempt is not judged by its heartbeats. */
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
 * When the visibility clock was last reset, and to what length. The order of a beat and a sign of
 * the job itself within one millisecond is not known: the longer counts.
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
 * Who gave the visibility clock this length. Only a beat makes it another than the job's own: then it was set by the worker,
 * or by the cap that cut it.
 */
export function visibilitySource({ hold, limits }: Job, ms: Millis): LimitSource {
  if (hold !== null && hold.visibility.ms === ms) return hold.visibility.source
  return limits.caps.visibility === ms ? 'cap' : 'handler'
}

export function visibilityAt(job: Job, { worker, outages }: Liveness): Instant | null {
  const clock = visibilityClock(job, worker)
  return clock === null ? null : after(after(clock.since, clock.ms), creditFor(clock.since, outages))
}

/** When a silent worker is declared dead. Workers that never registered nor beat are not judged. */
export function deathAt(worker: Worker, { outages, workerTimeoutMs }: Omit<Liveness, 'worker'>): Instant | null {
  if (!worker.known || worker.diedAt !== null) return null
  return after(after(worker.lastSeenAt, workerTimeoutMs), creditFor(worker.lastSeenAt, outages))
}

/** A job whose stall clock was set is judged by that clock alone (ADR 0017). */
export function deathEndsIt({ hold }: Job): boolean {
  return hold !== null && (hold.heartbeat === null || askedSource(hold.heartbeat) === 'default')
}

/** Nothing known of any worker or outage: what the job's own row says. */
export const ROW_ALONE: Liveness = { worker: null, outages: [], workerTimeoutMs: millis(0) }

/** Rows of workers that only ever fetched are removed after an hour of silence, those of dead workers after one as well. */
export const FORGET_AFTER_MS = seconds(3600)

export function workerWakeAt(worker: Worker, life: Omit<Liveness, 'worker'>): Instant {
  if (worker.diedAt !== null) return after(worker.diedAt, FORGET_AFTER_MS)
  return deathAt(worker, life) ?? after(worker.lastSeenAt, FORGET_AFTER_MS)
}
