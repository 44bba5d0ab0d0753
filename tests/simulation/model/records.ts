/** What the model knows of jobs and workers, and its own sums on time. */
import type { JobState } from '@curfew/core'
import type { Asked, AttemptLimits, JobLimits } from './limits.ts'

export interface RetryPolicy {
  readonly maxAttempts: number
  readonly initialMs: number
  readonly maxMs: number
  readonly coefficient: number
  readonly jitter: boolean
  readonly strategy: string
  readonly nonRetryable: readonly string[]
  readonly deadLetter: boolean
}

/** A clock that a sign of life winds up again. */
export interface Renewable {
  since: number
  ms: number
}

/** A time in which no worker could be heard: no server was up, or it could not store anything. */
export interface Silence {
  readonly from: number
  readonly to: number
}

export interface Hold extends AttemptLimits {
  readonly workerId: string | null
  readonly startedAt: number
  readonly sign: Renewable | null
  readonly visible: Renewable
}

/** What the row must say about how the last attempt, or the job, ended. */
export interface Ending {
  readonly type: string
  /** Null for what a worker reported and what was foreseen. */
  readonly deadlineAt: number | null
  readonly overshootMs: number
}

export interface ModelJob {
  readonly id: string
  readonly token: string
  readonly type: string
  readonly queue: string
  readonly retry: RetryPolicy
  readonly resultTtlMs: number | null
  priority: number
  asked: Asked
  limits: JobLimits
  /** A parent's deadline. */
  ceilingAt: number | null
  scheduledAt: number | null
  expiresAt: number | null
  state: JobState
  attempt: number
  lease: number
  interruptions: number
  anchorAt: number
  limitsSetAt: number
  enqueuedAt: number
  retryAt: number | null
  hold: Hold | null
  closedBy: { workerId: string | null; attempt: number; lease: number } | null
  ending: Ending | null
  /** The history of the job, oldest first: whether each entry tells of a failure or of a hand-back. */
  errors: ('failure' | 'hand-back')[]
  deadLetter: boolean
  purgeAt: number | null
  result: unknown
  checkpoint: { sequence: number; state: string } | null
}

export interface ModelWorker {
  readonly id: string
  known: boolean
  state: 'running' | 'quiet' | 'terminate'
  directive: 'continue' | 'resume' | 'quiet' | 'terminate'
  alive: Renewable
  beatSeq: number | null
  handlers: Readonly<Record<string, Asked>>
}

export type DueKind =
  | 'total'
  | 'execution'
  | 'stalled'
  | 'worker_death'
  | 'visibility'
  | 'enqueue_ttl'
  | 'expires_at'
  | 'scheduled'
  | 'backoff'
  | 'purge'

export interface Due {
  readonly kind: DueKind
  readonly at: number
}

const least = (...instants: (number | null)[]): number | null => {
  const known = instants.filter((at) => at !== null)
  return known.length === 0 ? null : Math.min(...known)
}

export const isOver = ({ state }: ModelJob): boolean =>
  state === 'completed' || state === 'cancelled' || state === 'discarded'

export function totalAt(job: ModelJob): number | null {
  return least(job.limits.total === null ? null : job.anchorAt + job.limits.total.ms, job.ceilingAt)
}

export function ttlAt(job: ModelJob): number | null {
  return job.attempt > 0 || job.limits.ttl === null ? null : job.anchorAt + job.limits.ttl.ms
}

export function expiryAt(job: ModelJob): number | null {
  return job.attempt > 0 ? null : job.expiresAt
}

/** When the handler is asked to stop, and why then: a part of what the total leaves is kept for stopping. */
export function softStop({ hold, ...job }: ModelJob): { at: number; limit: 'timeout' | 'total' } | null {
  if (hold === null) return null
  const [timeoutAt, endsAt] = [hold.startedAt + hold.timeout.ms, totalAt({ hold, ...job })]
  if (endsAt === null) return { at: timeoutAt, limit: 'timeout' }
  const leftMs = endsAt - hold.startedAt
  const tenth = Math.floor(leftMs / 10)
  const most = hold.grace.said === 'default' ? hold.grace.ms : 30_000
  const isKept = hold.grace.said !== 'default' && hold.grace.ms < leftMs
  const keptMs = isKept ? hold.grace.ms : most > tenth ? tenth : most
  const at = Math.max(hold.startedAt, endsAt - keptMs)
  return at > timeoutAt ? { at: timeoutAt, limit: 'timeout' } : { at, limit: 'total' }
}

export const softAt = (job: ModelJob): number | null => softStop(job)?.at ?? null

/** Whether a timeout that is reported now is one: at the soft deadline, or as early as a worker may be. */
export function isTimely(job: ModelJob, now: number): boolean {
  const soft = softStop(job)
  if (soft === null || job.hold === null) return false
  const givenMs = soft.at - job.hold.startedAt
  return soft.at - now <= (givenMs < 2_000 ? givenMs / 2 : 1_000)
}

export function hardAt(job: ModelJob): number | null {
  return job.hold === null ? null : least(executionAt(job.hold), totalAt(job))
}

export const executionAt = ({ startedAt, timeout, grace }: Hold): number => startedAt + timeout.ms + grace.ms

/** Silence of ours is not held against anyone. Timeouts, totals and TTLs do not ask here. What two share counts once. */
export function runsOutAt({ since, ms }: Renewable, silences: readonly Silence[]): number {
  let [creditMs, heardAt] = [0, since]
  for (const { from, to } of silences) {
    creditMs += Math.max(0, to - Math.max(from, heardAt))
    heardAt = Math.max(heardAt, to)
  }
  return since + ms + creditMs
}

/** Wound up by a sign of life; of two in the same instant, the longer counts. */
export function wind(clock: Renewable | null, now: number, ms?: number): void {
  if (clock === null) return
  if (ms !== undefined) clock.ms = clock.since === now ? Math.max(clock.ms, ms) : ms
  clock.since = now
}

/** A stall clock that was set explicitly is not preempted by the worker's death. */
export const diesWithWorker = ({ heartbeat }: Hold): boolean => heartbeat === null || heartbeat.said === 'default'

/** The next automatic transition of the job; on a tie the first of this list. */
export function nextDue(job: ModelJob, deathAt: number | null, silences: readonly Silence[]): Due | null {
  const { hold } = job
  const dues: [DueKind, number | null][] = isOver(job)
    ? [['purge', job.purgeAt]]
    : hold !== null
      ? [
          ['total', totalAt(job)],
          ['execution', executionAt(hold)],
          ['stalled', hold.sign === null ? null : runsOutAt(hold.sign, silences)],
          ['worker_death', diesWithWorker(hold) ? deathAt : null],
          ['visibility', runsOutAt(hold.visible, silences)],
        ]
      : [
          ['total', totalAt(job)],
          ['enqueue_ttl', ttlAt(job)],
          ['expires_at', expiryAt(job)],
          ['scheduled', job.state === 'scheduled' ? job.scheduledAt : null],
          ['backoff', job.state === 'retryable' ? job.retryAt : null],
        ]
  let first: Due | null = null
  for (const [kind, at] of dues) if (at !== null && (first === null || at < first.at)) first = { kind, at }
  return first
}

/** Whether another attempt could begin, and end, inside the total. */
export function fits(job: ModelJob, now: number, delayMs: number): boolean {
  const endsAt = totalAt(job)
  if (endsAt === null) return true
  const timeout = job.hold?.timeout ?? job.limits.timeout
  const neededMs = timeout.said === 'default' ? 0 : timeout.ms
  return endsAt > now + delayMs && endsAt >= now + delayMs + neededMs
}

/** Protocol §6: the least and the most the backoff after the n-th failure can be. */
export function backoffRange(policy: RetryPolicy, n: number): readonly [least: number, most: number] {
  const { initialMs, coefficient, strategy, maxMs } = policy
  const raw =
    strategy === 'linear'
      ? initialMs * n
      : strategy === 'exponential'
        ? initialMs * coefficient ** (n - 1)
        : strategy === 'polynomial'
          ? initialMs * n ** coefficient
          : initialMs
  const delay = Math.min(raw, maxMs)
  if (!policy.jitter) return [Math.round(delay), Math.round(delay)]
  return [Math.round(delay * 0.5), Math.round(Math.min(delay * 1.5, maxMs))]
}
