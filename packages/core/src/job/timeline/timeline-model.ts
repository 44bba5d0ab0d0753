/** The model of a job's time: what it is made from, and lanes with spans and marks for pictures. */
import type { Instant, Millis } from '../../time/clock.ts'
import type { Job } from '../job.ts'
import type { Liveness } from '../liveness.ts'
import type { StepSpan } from '../step.ts'
import type { ClockKind, JobClock, NamedLimit } from './clocks.ts'
import type { Foresight } from './foresee.ts'
import type { SpanKind } from './spans.ts'

// ---- What it is made from ----

/** A report that came when its attempt was over; it was refused. */
export interface LateResult {
  readonly at: Instant
  readonly verb: string
  readonly workerId: string | null
}

/** What one server remembers of a job besides its record. It forgets that when it stops. */
export interface Signs {
  /** From where on the server would know. */
  readonly since: Instant
  readonly beats: readonly Instant[]
  readonly late: readonly LateResult[]
}

export interface QueueFacts {
  readonly name: string
  readonly pausedAt: Instant | null
  readonly drainingAt: Instant | null
}

export interface TimelineInput {
  readonly job: Job
  readonly life: Liveness
  readonly signs: Signs | null
  readonly checkpointAt: Instant | null
  /** The durable steps that are stored; absent in the answer of a server that does not tell them. */
  readonly steps?: readonly StepSpan[]
  readonly queue: QueueFacts | null
  /** The job is kept from being handed out. */
  readonly isHeld: boolean
}

// ---- What it gives ----

export interface TimelineSpan {
  /** `fuse`: from the last sign of life to the stall. `reserved`: until the reservation lapses. */
  readonly kind: SpanKind | 'overshoot' | 'fuse' | 'reserved' | 'step' | 'sleep'
  readonly from: Instant
  readonly to: Instant
  /** It has not come yet. A span that runs now is cut in two at `now`. */
  readonly isFuture: boolean
  readonly attempt?: number
  /** Of a durable step. */
  readonly name?: string
  /** The edge is not sharp: the jitter of a backoff may move it until then. */
  readonly latestTo?: Instant
  /** Of an overshoot: what is charged to the decision, and how much of it no server was at work. */
  readonly overshootMs?: Millis
  readonly downtimeMs?: Millis
}

export type MarkKind =
  ClockKind | 'created' | 'started' | 'asked_to_stop' | 'ended' | 'late_result' | 'beat' | 'progress' | 'checkpoint'

export interface Mark {
  readonly kind: MarkKind
  readonly at: Instant
  readonly isFuture: boolean
  /** Of a limit: its name, length and source. */
  readonly limit?: NamedLimit
  /** It could not strike, because this limit came first: drawn as a ghost. */
  readonly cutBy?: string
  /** How an attempt or the job ended, or what was reported too late. */
  readonly text?: string
  readonly attempt?: number
}

export interface Lane {
  readonly kind: 'life' | 'attempt' | 'steps' | 'signs' | 'reservation'
  readonly name: string
  readonly attempt?: number
  readonly worker?: string | null
  /** No worker has it yet. */
  readonly isForeseen: boolean
  readonly from: Instant
  readonly to: Instant
  readonly spans: readonly TimelineSpan[]
  readonly marks: readonly Mark[]
  /** Limits far beyond the axis, nearest first. */
  readonly edges: readonly Mark[]
}

/** A time that concerns all lanes. `away`: no server was listening. `paused`: the queue hands out nothing. */
export interface Band {
  readonly kind: 'away' | 'paused'
  readonly from: Instant
  readonly to: Instant
}

/** A stretch of the axis in which nothing happens: drawn short, with its length. */
export interface Fold {
  readonly from: Instant
  readonly to: Instant
}

export interface Timeline {
  readonly jobId: string
  readonly now: Instant
  readonly from: Instant
  readonly to: Instant
  readonly lanes: readonly Lane[]
  readonly bands: readonly Band[]
  readonly folds: readonly Fold[]
  readonly clocks: readonly JobClock[]
  /** What happens if no signal arrives. */
  readonly next: Foresight
  /** State, attempt and worker in a line. */
  readonly headline: string
  /** The next step, with times from now. */
  readonly sentence: string
  /** Attempts that were left out because only the last ones are shown. */
  readonly hiddenAttempts: number
}

// ---- Lanes ----

/** A lane before it is laid on the axis. */
export type Drawn = Omit<Lane, 'from' | 'to' | 'edges'>
