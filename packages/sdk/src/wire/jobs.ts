/** Jobs, field by field as the server writes them. */
import type { LimitsView, LogView } from '@curfew/core'

export type JobState =
  'scheduled' | 'available' | 'pending' | 'active' | 'completed' | 'retryable' | 'cancelled' | 'discarded'

export interface JobErrorView {
  readonly type: string
  readonly code?: string
  readonly message: string
  readonly retryable?: boolean
  readonly attempt?: number
  readonly timeout_kind?: string
  readonly limit_seconds?: number
  readonly limit_ms?: number
  readonly elapsed_seconds?: number
  readonly elapsed_ms?: number
  readonly details?: unknown
  readonly backtrace?: readonly string[]
  readonly [field: string]: unknown
}

/** A job as the server tells it. Servers may add fields. */
export interface JobView {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly args: readonly unknown[]
  readonly meta?: Readonly<Record<string, unknown>>
  readonly state: JobState
  readonly attempt: number
  readonly max_attempts?: number
  readonly priority?: number
  readonly created_at?: string
  readonly started_at?: string
  readonly completed_at?: string
  readonly result?: unknown
  readonly error?: JobErrorView
  readonly errors?: readonly JobErrorView[]
  readonly worker_id?: string
  readonly timeout?: number
  readonly timeout_ms?: number
  readonly x_limits?: LimitsView
  readonly x_interruptions?: number
  /** What its handlers logged; only in the answer to `get`. */
  readonly x_log?: LogView
  readonly x_warnings?: readonly string[]
  /** Only in the answer to an enqueue: the job was there already, and nothing was enqueued (`unique`). */
  readonly deduplicated?: boolean
  readonly [field: string]: unknown
}

/** A job as it is handed to a worker. */
export interface HandedJob extends JobView {
  readonly x_lease?: number
  readonly workflow_id?: string
  readonly parent_results?: readonly unknown[]
  readonly last_checkpoint?: unknown
}

/** The attempts of a job that failed, oldest first, and its retry policy. */
export interface RetriesView {
  readonly job_id: string
  readonly state: JobState
  readonly attempt: number
  readonly max_attempts: number
  readonly policy: Readonly<Record<string, unknown>>
  readonly retries: readonly Readonly<Record<string, unknown>>[]
}

export interface ProgressView {
  readonly job_id: string
  readonly state: JobState
  /** Between 0 and 1. */
  readonly progress: number | null
  readonly message: string | null
  readonly data: unknown
  readonly updated_at: string | null
  readonly [field: string]: unknown
}

export interface CheckpointView {
  readonly job_id: string
  /** What the next attempt goes on from. Steps are stored in it, too: see docs/steps.md. */
  readonly state: unknown
  readonly sequence: number
  readonly created_at: string
  readonly [field: string]: unknown
}

/** A job that will miss a deadline if everything goes on as it does. */
export interface JobAtRisk {
  readonly job_id: string
  readonly type: string
  readonly queue: string
  readonly state: JobState
  readonly deadline: string
  readonly limit: string
  readonly latest_start: string
  readonly expected_start: string | null
  readonly late_by_ms: number | null
  readonly [field: string]: unknown
}

export interface AtRiskView {
  readonly items: readonly JobAtRisk[]
  /** The figures the estimate is made of. */
  readonly queues: readonly Readonly<Record<string, unknown>>[]
  /** Whether every waiting job was looked at; `examined` of a queue says how many of its jobs were. */
  readonly complete: boolean
  readonly computed_at: string
}

export interface DeadLetterStats {
  readonly total: number
  readonly by_queue: Readonly<Record<string, number>>
}

export interface Pagination {
  readonly total?: number
  readonly has_more?: boolean
  readonly next_cursor?: string
}
