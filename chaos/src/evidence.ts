/** All that is known after a run: what clients saw, what the server says of it, and what was done to whom. */
import type { Call } from './journal.ts'

export interface JobError {
  readonly type: string
  readonly timeout_kind?: string
  readonly limit_ms?: number
  readonly elapsed_ms?: number
  readonly interrupted?: boolean
  readonly details?: { readonly predicted?: boolean }
}

export interface JobRecord {
  readonly id: string
  readonly queue: string
  readonly state: string
  readonly attempt: number
  readonly max_attempts: number
  readonly created_at: string
  readonly completed_at?: string
  readonly discarded_at?: string
  readonly cancelled_at?: string
  readonly total_timeout_ms?: number
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: JobError
  readonly errors?: readonly JobError[]
}

export interface Span {
  readonly kind: string
  readonly from: string
  readonly to?: string
  readonly effective_ms?: number
}

export interface Explained {
  readonly spans: readonly Span[]
  readonly text: string
}

export interface RunRecord {
  readonly phase: string
  readonly startedAt: string
  readonly endedAt?: string | null
  readonly deadlineAt: string
}

export interface StoredEvent {
  readonly type: string
  readonly subject: string
  readonly time: string
}

/** A time in which no server could decide anything; wall clock. */
export interface Outage {
  readonly from: number
  readonly to: number
}

/** A worker process stood still, or ended; the machine's monotonic clock. */
export interface Absence {
  readonly who: string
  readonly from: number
  readonly to: number
  /** It says nothing about handlers that ended by themselves. */
  readonly onlyUnended?: boolean
}

export interface Evidence {
  readonly calls: readonly Call[]
  /** By id; null: the server does not know it. */
  readonly jobs: ReadonlyMap<string, JobRecord | null>
  readonly explained: ReadonlyMap<string, Explained>
  readonly runs: ReadonlyMap<string, RunRecord | null>
  readonly events: readonly StoredEvent[]
  readonly outages: readonly Outage[]
  readonly absences: readonly Absence[]
  /** Silence after which a worker is dead. */
  readonly workerTimeoutMs: number
  /** How late a decision may be seen, beside outages. */
  readonly lateMs: number
}

export interface HandedOut {
  readonly id: string
  readonly lease: number
  readonly attempt: number
  readonly limits: Readonly<Record<string, number>>
  readonly checkpoint: { readonly state?: { readonly text?: string } } | null
}

/** One job in one answer to a fetch. */
export interface HandOut extends HandedOut {
  readonly who: string
  readonly sentAt: number
  readonly answeredAt: number
}
