/** What the server answers, as far as the board looks at it. */
import type { FailureAnswer as Failure, JobAnswer as Job } from '@curfew/core'

export const STATES = [
  'available',
  'active',
  'scheduled',
  'pending',
  'retryable',
  'completed',
  'discarded',
  'cancelled',
] as const
export type State = (typeof STATES)[number]

export const TIMEOUT_KINDS = ['execution', 'total', 'enqueue_ttl', 'stalled'] as const

export type Counts = Readonly<Record<State, number>>

export type {
  EventAnswer as EventView,
  FailureAnswer as Failure,
  JobAnswer as Job,
  NoteAnswer as Note,
} from '@curfew/core'

export interface Pagination {
  readonly total?: number
  readonly total_exact?: boolean
  readonly limit: number
  readonly offset?: number
  readonly has_more: boolean
  readonly next_cursor?: string
}

export interface JobList {
  readonly jobs: readonly Job[]
  readonly pagination: Pagination
}

/** One line of a search. */
export interface FoundJob {
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly state: State
  readonly created_at: string
  readonly scheduled_at: string | null
  readonly started_at: string | null
  readonly next_retry_at: string | null
  readonly ended_at: string | null
  readonly error: Readonly<{ type: string } & Record<FoundErrorField, string | number | null>> | null
  readonly limits: { readonly timeout_ms: number; readonly grace_ms: number; readonly total_ms: number | null }
  readonly deadlines: { readonly total: string | null }
}
type FoundErrorField = 'message' | 'timeout_kind' | 'limit_ms' | 'elapsed_ms' | 'source'

/** What a search found, and how far it looked. */
export interface FoundJobs {
  readonly items: readonly FoundJob[]
  readonly total: number | null
  readonly total_exact: boolean
  readonly examined: number
  readonly looked_back_to: string | null
  readonly complete: boolean
  readonly next_cursor: string | null
}

export interface QueueView {
  readonly name: string
  readonly status: string
  readonly paused: boolean
  readonly paused_at?: string
  readonly counts: Counts
}

export interface QueueStats {
  readonly depth: number
  readonly max_depth: number | null
  readonly completed_last_hour: number
  readonly failed_last_hour: number
  readonly avg_duration_ms: number | null
  readonly avg_wait_ms: number | null
  readonly throughput_per_second: number
}

export interface WorkerView {
  readonly worker_id: string
  /** Null of a worker that has not registered. */
  readonly hostname: string | null
  readonly pid: number | null
  readonly queues: readonly string[]
  readonly concurrency: number | null
  readonly labels: readonly string[]
  readonly state: string
  readonly directive: string
  readonly active_jobs: number
  readonly active_job_ids: readonly string[]
  readonly started_at: string | null
  readonly last_heartbeat_at: string | null
  readonly last_seen_at: string
  readonly registered: boolean
}

export interface Risk {
  readonly job_id: string
  readonly type: string
  readonly queue: string
  readonly latest_start: string
  readonly expected_start: string | null
  readonly late_by_ms: number | null
  readonly deadline: string
  readonly limit: string
  readonly source: string
  readonly jobs_ahead: number
}

export interface AtRisk {
  readonly items: readonly Risk[]
  readonly queues: readonly {
    readonly queue: string
    readonly paused: boolean
    readonly waiting: number
    readonly starts_per_second: number
    readonly window_ms: number
  }[]
  readonly complete: boolean
  readonly computed_at: string
}

export interface Stats {
  readonly queues: number
  readonly workers: number
  readonly jobs: Counts
  readonly throughput: { readonly processed_per_minute: number; readonly failed_per_minute: number }
  readonly uptime_seconds: number
}

export interface Manifest {
  readonly implementation: { readonly version: string }
  readonly backend: string
  readonly x_timeout_defaults: Readonly<Record<string, number>>
}

export interface Health {
  readonly status: string
  readonly server_version: string
  readonly server_time: string
  readonly clock_offset_ms: number
  readonly uptime_seconds: number
  readonly backend: {
    readonly type: string
    readonly status: string
    readonly latency_ms?: number
    readonly reason?: string
  }
}

export interface ExplainSpan {
  readonly kind: string
  readonly from: string
  readonly to?: string
  readonly attempt?: number
  readonly limit?: string
  readonly limit_ms?: number
  readonly source?: string
  readonly effective_ms?: number
  readonly worker_id?: string
}

export interface Explanation {
  readonly state: State
  readonly spans: readonly ExplainSpan[]
  readonly endings: readonly Failure[]
  readonly next: {
    readonly kind: string
    readonly at: string
    readonly limit: string
    readonly source: string
    readonly then: string
  } | null
  readonly held_by: unknown
  readonly text: string
}

/** Deadlines of the next minutes. */
export interface ForecastView {
  readonly total: number
  readonly at_risk: number
  readonly minutes: readonly {
    readonly deadlines: Readonly<Record<string, number>>
    readonly at_risk: number
  }[]
  readonly complete: boolean
  readonly looked_until: string
}
