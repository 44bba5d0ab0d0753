/**
 * The Job record: everything the rules need to know of a job, and nothing about how it is stored or sent.
 *
 *   scheduled ─┐                      ┌→ completed
 *   pending ───┼→ available → active ─┼→ retryable → available …
 *              │        ↑        │    ├→ cancelled   (from every state that is not terminal)
 *              │        └────────┘    └→ discarded
 *
 * What a client sent and we only give back (`body`, `given`) is kept as JSON text and never parsed on the hot path, and
 * so are failures and results. Fields ending in `At` are instants, in `Ms` lengths.
 */
import type { Instant, Millis } from '../time/clock.ts'
import type { Limit, Limits, OnTimeout } from './limits.ts'
import type { JobLog } from './log.ts'
import type { RetryPolicy } from './retry.ts'

export const JOB_STATES = [
  'scheduled',
  'available',
  'pending',
  'active',
  'completed',
  'retryable',
  'cancelled',
  'discarded',
] as const
export type JobState = (typeof JOB_STATES)[number]

export const TERMINAL_STATES: readonly JobState[] = ['completed', 'cancelled', 'discarded']
export const isTerminal = (state: JobState): boolean => TERMINAL_STATES.includes(state)

/** A JSON value as text. */
export type Json = string
/** The inside of a JSON object or array as text, without its brackets: `"a":1,"b":2` or `{…},{…}`. Empty when empty. */
export type Fragment = string

/** Asks the store for the next place at the tail of the queue. */
export const TAIL = -1

/** The reservation of the attempt that is running: who holds the job, and the limits in force for this attempt. */
export interface Hold {
  readonly workerId: string | null
  /** Whether the worker had registered or beaten when it claimed: grace and the default stall clock depend on it. */
  readonly known: boolean
  readonly timeout: Limit
  readonly grace: Limit
  /** Null when this attempt is not judged by its heartbeats. */
  readonly heartbeat: Limit | null
  readonly visibility: Limit
  readonly onTimeout: OnTimeout
  /** When the stall clock was last reset, as far as the job's own row knows (beats are on the worker's row). */
  readonly signAt: Instant
  /** When the visibility clock was last reset, and to what length. */
  readonly visibleFrom: Instant
  readonly visibleMs: Millis
  /** Where the worker found the handler stuck, if it said so. */
  readonly stack?: readonly string[]
  /** The number of the newest checkpoint of this attempt, if its worker numbers them. */
  readonly saved?: number
}

/** Who ended the last attempt with an accepted ACK or FAIL; cleared by the next claim. */
export interface Closer {
  readonly workerId: string | null
  readonly attempt: number
  readonly lease: number
}

export interface Progress {
  readonly value: number | null
  readonly message: string | null
  readonly data: Json | null
  readonly updatedAt: Instant
  /** When `job.progress` was last emitted: at most one a second. */
  readonly toldAt: Instant
}

/** A deadline handed down from outside the job: a parent job, a run, a workflow. */
export interface Ceiling {
  readonly at: Instant
  readonly source: 'parent' | 'workflow'
}

export interface Parent {
  readonly kind: 'job' | 'journey' | 'workflow'
  readonly id: string
}

/**
 * What made a job and is notified when it ends: the workflow it is a step of, the cron entry that fired it, the run
 * that awaits it, the subscription it delivers to. What must follow is saved in the transaction that ends the job.
 */
export interface Owner {
  readonly kind: 'workflow' | 'cron' | 'journey' | 'webhook'
  readonly id: string
  /** Which of the owner's steps it is. */
  readonly step: string | null
}

export interface Job {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly priority: number
  readonly state: JobState
  /** Place within its priority band; `TAIL` until the store has assigned one. */
  readonly seq: number

  /** Claims since the last manual retry. */
  readonly attempt: number
  /** The fence: grows with every claim and is never reset. */
  readonly lease: number
  /** Hand-backs that did not use up an attempt. */
  readonly interruptions: number
  readonly retry: RetryPolicy
  readonly limits: Limits
  readonly ceiling: Ceiling | null
  readonly parent: Parent | null
  readonly owner: Owner | null
  /** The fingerprint by which a job that asked to be unique is found. */
  readonly uniqueKey: string | null
  /** The limiter whose turn it waits for, besides that of its queue. */
  readonly limitKey: string | null
  readonly tenant: string | null
  readonly hold: Hold | null
  readonly closedBy: Closer | null

  readonly createdAt: Instant
  /** Where the total and TTL clocks start: `createdAt`, or the last manual retry. */
  readonly anchorAt: Instant
  /** When the limits were last set (creation, PATCH, manual retry): no overshoot is counted from before it. */
  readonly limitsSetAt: Instant
  readonly scheduledAt: Instant | null
  readonly expiresAt: Instant | null
  readonly enqueuedAt: Instant | null
  readonly activatedAt: Instant | null
  readonly startedAt: Instant | null
  readonly completedAt: Instant | null
  readonly cancelledAt: Instant | null
  readonly discardedAt: Instant | null
  readonly reenqueuedAt: Instant | null
  readonly nextRetryAt: Instant | null
  readonly retryDelayMs: Millis | null
  readonly resultTtlMs: Millis | null
  readonly purgeAt: Instant | null

  /** The latest failure, and all of them (oldest first, capped), as JSON text. */
  readonly error: Json | null
  readonly errors: Fragment
  readonly errorCount: number
  readonly result: Json | null
  readonly progress: Progress | null
  /** Only of a job that logged something. */
  readonly log?: JobLog
  /** Sequence of the stored checkpoint; 0 when there is none. */
  readonly checkpointSeq: number
  readonly deadLetter: boolean
  readonly cancelReason: string | null
  readonly traceId: string | null

  /** What the client sent: `body` never changes, `given` (limits and moments as written) does with PATCH. */
  readonly body: Fragment
  readonly given: Fragment
  /** What happened to it, oldest first: see `life.ts`. */
  readonly life: Fragment

  /** When the row must be looked at: never later than its next automatic transition. */
  readonly wakeAt: Instant | null
  /** Grows with every save; the store refuses to save over a version it did not read. */
  readonly version: number
}

/** One record per job: what the attempt that was cut off had saved. */
export interface Checkpoint {
  readonly jobId: string
  readonly sequence: number
  readonly state: Json
  readonly stepIndex: number | null
  readonly metadata: Json | null
  readonly createdAt: Instant
}
