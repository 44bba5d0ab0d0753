/**
 * The Worker record. One row per worker process, written once per beat however many jobs it runs: the liveness clocks
 * of those jobs are derived from `beat` when they come due (`liveness.ts`).
 */
import type { Instant, Millis } from '../time/clock.ts'
import { after, isDue } from '../time/sums.ts'
import type { AskedLimits } from './limits.ts'

export const WORKER_STATES = ['running', 'quiet', 'terminate'] as const
export type WorkerState = (typeof WORKER_STATES)[number]

/**
 * What an operator asked of a worker. `resume`: the worker may have heard a `quiet` that is lifted, and has not reported
 * `running` since. `left`: it deregistered; its row is kept only to tell calls that come late (`isGhost`).
 */
export const DIRECTIVES = ['continue', 'resume', 'quiet', 'terminate', 'left'] as const
export type Directive = (typeof DIRECTIVES)[number]

/** The state a worker should be in, by what an operator asked of it and by what it reports itself. */
export function desiredState(directive: Directive, reported: WorkerState): WorkerState {
  if (directive === 'continue') return reported
  if (directive === 'resume') return reported === 'quiet' ? 'running' : reported
  return furtherState(directive === 'left' ? 'terminate' : directive, reported)
}

/** The one further along running → quiet → terminate: a worker is never pushed back. */
export function furtherState(a: WorkerState, b: WorkerState): WorkerState {
  return WORKER_STATES.indexOf(a) > WORKER_STATES.indexOf(b) ? a : b
}

/** A worker that reports `running` has obeyed a `resume`. */
export const directiveAfter = (directive: Directive, reported: WorkerState): Directive =>
  directive === 'resume' && reported === 'running' ? 'continue' : directive

/** As operators see it. */
export const shownDirective = (directive: Directive): Exclude<Directive, 'resume'> =>
  directive === 'resume' ? 'continue' : directive

export const hasLeft = ({ directive }: Pick<Worker, 'directive'>): boolean => directive === 'left'

/**
 * Whether a call was sent before the worker deregistered: its number is not above that of the deregistration or, where
 * one of both has none, it comes within the time after which a silent worker counts as dead.
 */
export function isGhost(worker: Worker, seq: number | null, workerTimeoutMs: Millis, now: Instant): boolean {
  if (!hasLeft(worker) || worker.diedAt === null) return false
  if (seq !== null && worker.beatSeq !== null) return seq <= worker.beatSeq
  return !isDue(after(worker.diedAt, workerTimeoutMs), now)
}

/** The last beat: which jobs it listed, and whose stall clocks it resets. */
export interface Beat {
  readonly at: Instant
  readonly jobs: ReadonlySet<string>
  /** Null: every listed job; otherwise only these are proven not to be stuck (`x_beats`). */
  readonly proofs: ReadonlySet<string> | null
  readonly leases: Readonly<Record<string, number>>
  /** The extension this beat asked for; null = each job's own visibility. */
  readonly visibilityMs: Millis | null
}

/** Why a worker should stop a job: sent with the answers to its beats until it has acknowledged it. */
export interface Notice {
  readonly jobId: string
  readonly lease: number
  readonly reason: 'timeout' | 'cancelled' | 'lost'
  readonly at: Instant
}

export interface Worker {
  readonly id: string
  readonly hostname: string | null
  readonly pid: number | null
  readonly queues: readonly string[]
  readonly concurrency: number | null
  readonly labels: readonly string[]
  /** As the worker wrote it. */
  readonly startedAt: string | null
  readonly state: WorkerState
  /** It reported `drain`: treated as quiet, shown as `drain`. */
  readonly draining: boolean
  readonly directive: Directive
  readonly registered: boolean
  /** It registered or has beaten: it is judged by its silence, and can be sent a soft signal. */
  readonly known: boolean
  readonly createdAt: Instant
  readonly lastSeenAt: Instant
  readonly lastBeatAt: Instant | null
  /** Number of jobs it says it runs. */
  readonly activeJobs: number
  readonly beat: Beat | null
  readonly beatSeq: number | null
  readonly handlers: Readonly<Record<string, AskedLimits>>
  /** When it was declared dead, or deregistered. */
  readonly diedAt: Instant | null
  readonly wakeAt: Instant | null
  readonly version: number
}
