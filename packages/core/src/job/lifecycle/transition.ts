/**
 * What may happen to a job. Each function of this folder takes the job as it is and gives a Transition: the job as it will
 * be and the events that report it, to be saved together. Nothing here reads a clock or touches a store.
 *
 *   admit.ts    admit            → scheduled | pending | available
 *               release          scheduled, pending, retryable → available
 *               putOff, drop     available → scheduled, discarded    turned away by a limiter
 *               makeRoom         available → discarded               the queue is full
 *   start.ts    start            available → active                  the lease grows, the attempt counts
 *   report.ts   complete         active → completed
 *               fail             active → retryable | available | discarded
 *                                (retryable without a retry: its worker stopped because the total runs out, which then
 *                                ends it)
 *               interrupt        active → available                  handed back, not counted
 *               snooze           active → scheduled                  handed back until a moment, not counted
 *   expire.ts   expire           whatever is due: see nextDue in due.ts
 *   change.ts   cancel           any state that is not terminal → cancelled
 *               retryByHand      discarded, cancelled → available    attempts and anchor begin anew, the lease does not
 *               changeLimits     limits, priority and moments of a job that waits
 *
 * fence.ts decides whether a report is about the attempt that is running. ending.ts holds what the ends of an attempt share,
 * whether a worker or a deadline brings them. This file holds the types and the parts that all of them use.
 */
import { OjsError } from '../../errors.ts'
import type { NewEvent } from '../../events.ts'
import { graceSince } from '../deadlines.ts'
import { wakeAtOf } from '../due.ts'
import { ROW_ALONE, type Liveness } from '../liveness.ts'
import type { Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import { appendLife } from '../../wire/job/life.ts'
import type { LimitSettings } from '../limits.ts'
import type { Notice } from '../worker.ts'
import type { Instant, Millis, Random } from '../../time/clock.ts'

/** How long finished jobs are kept. */
export interface Retention {
  readonly completedMs: Millis
  readonly cancelledMs: Millis
  readonly discardedMs: Millis
  readonly deadLetterMs: Millis
}

/** The queue's retention, where it has one, comes before the server's. */
export function keptFor({ limits: { kept } }: Job, retention: Retention): Retention {
  return kept === undefined ? retention : { ...retention, ...kept }
}

/** What a decision knows besides the job. One command has one `now`. */
export interface Moment {
  readonly now: Instant
  /** When this server came up: no overshoot is counted from before it. */
  readonly upAt: Instant
  readonly random: Random
  readonly limits: LimitSettings
  readonly retention: Retention
}

export type LimitKind =
  | 'execution'
  | 'total'
  | 'enqueue_ttl'
  | 'expires_at'
  | 'stalled'
  | 'visibility'
  | 'worker_death'
  | 'workflow'
  | 'run'
  | 'wait'
  | 'timer'

export interface Transition {
  /** Null when the job is new. */
  readonly before: Job | null
  /** Null when the row is removed. */
  readonly job: Job | null
  readonly events: readonly NewEvent[]
  /** For the worker that held the job. */
  readonly notice?: { readonly workerId: string; readonly notice: Notice }
  /** Limits that ran out, and how late that was decided (null: foreseen, or reported by the worker). */
  readonly expired?: readonly { readonly kind: LimitKind; readonly overshootMs: Millis | null }[]
}

/** The same with the job surely there. */
export type Step = Transition & { readonly job: Job }

/** Arms the row: `wakeAt` follows from the job alone. */
export function armed(job: Job): Job {
  return { ...job, wakeAt: wakeAtOf(job) }
}

export function moved(job: Job, entry: LifeEntry, changes: Partial<Job>): Job {
  return armed({ ...job, ...changes, state: entry.to, life: appendLife(job.life, entry) })
}

/** An earlier `wakeAt` is kept: it will find the renewed clock when it comes, and costs no index change now. */
export function rearmedLazily(before: Job, next: Job, life: Liveness = ROW_ALONE): Job {
  const wakeAt = wakeAtOf(next, life)
  return {
    ...next,
    wakeAt: before.wakeAt !== null && wakeAt !== null && before.wakeAt <= wakeAt ? before.wakeAt : wakeAt,
  }
}

/** The attempt is over, and its reservation ends. `reported`: by an accepted ACK or FAIL of its holder. */
export function over(job: Job, reported: boolean): Pick<Job, 'hold' | 'closedBy'> {
  return {
    hold: null,
    closedBy: reported
      ? { workerId: job.hold?.workerId ?? null, attempt: job.attempt, lease: job.lease }
      : job.closedBy,
  }
}

/** Where the handler was asked to stop, when the attempt lived beyond it: the grace it used. */
export function softMark(job: Job, now: Instant): { soft?: Instant } {
  const soft = graceSince(job, now)
  return soft !== null && soft < now ? { soft } : {}
}

export function noticeTo(
  job: Job,
  reason: Notice['reason'],
  now: Instant,
): { notice?: { workerId: string; notice: Notice } } {
  const workerId = job.hold?.workerId ?? null
  return workerId === null ? {} : { notice: { workerId, notice: { jobId: job.id, lease: job.lease, reason, at: now } } }
}

export function inWords(ms: Millis): string {
  const inSeconds = ms / 1000
  return `${String(inSeconds)} second${inSeconds === 1 ? '' : 's'}`
}

export function wrongState(job: Job, expected: string, what: string): OjsError {
  return new OjsError('conflict', `A job that is ${job.state} cannot be ${what}.`, {
    details: { job_id: job.id, current_state: job.state, expected_state: expected },
  })
}
