/** The JSON the SDK reads, field by field as the server writes it. */
import type { LimitsView, LogView, Role } from '@curfew/core'

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

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

export type WorkflowState = 'pending' | 'running' | 'completed' | 'failed' | 'cancelled'
export type WorkflowStepState = 'waiting' | 'pending' | 'active' | 'completed' | 'failed' | 'cancelled'

/** A step of a workflow: a job, or a list with steps of its own. */
export interface WorkflowStepView {
  readonly id: string
  readonly index: number
  /** The type of its job, or the kind of list. */
  readonly type: string
  readonly state: WorkflowStepState
  readonly job_id: string | null
  readonly depends_on?: readonly string[]
  readonly started_at?: string
  readonly completed_at?: string
  readonly result?: unknown
  readonly error?: Readonly<Record<string, unknown>>
  readonly steps?: readonly WorkflowStepView[]
  readonly callbacks?: Readonly<Record<string, WorkflowStepView>>
  readonly [field: string]: unknown
}

export interface WorkflowView {
  readonly id: string
  readonly type: string
  readonly name: string | null
  readonly state: WorkflowState
  readonly steps_total: number
  readonly steps_completed: number
  readonly jobs_total: number
  readonly jobs_completed: number
  /** Not in lists. */
  readonly steps?: readonly WorkflowStepView[]
  readonly callbacks?: Readonly<Record<string, WorkflowStepView>>
  readonly error?: Readonly<Record<string, unknown>>
  readonly created_at: string
  readonly completed_at?: string
  readonly x_deadline?: string
  readonly [field: string]: unknown
}

export interface WorkflowProgressView {
  readonly workflow_id: string
  readonly state: WorkflowState
  /** Between 0 and 1. */
  readonly progress: number
  readonly jobs_total: number
  readonly jobs_completed: number
  readonly jobs_failed: number
  readonly remaining_ms?: number
  readonly [field: string]: unknown
}

/** What a server says about itself. */
export interface Manifest {
  readonly specversion?: string
  readonly implementation?: { readonly name: string; readonly version?: string; readonly [field: string]: unknown }
  readonly conformance_level?: number
  readonly extensions: readonly string[]
  readonly capabilities: Readonly<Record<string, boolean>>
  readonly [field: string]: unknown
}

export interface Pagination {
  readonly total?: number
  readonly has_more?: boolean
  readonly next_cursor?: string
}

export interface QueueView {
  readonly name: string
  readonly status: 'active' | 'paused' | 'draining'
  readonly paused: boolean
  readonly counts?: Readonly<Record<JobState, number>>
  readonly created_at?: string
  readonly paused_at?: string
  /** Of a queue that drains: whether nothing is left in it that is not over. */
  readonly drained?: boolean
  readonly [field: string]: unknown
}

/** How many jobs of each state, and how fast they went lately. */
export interface QueueStats extends Readonly<Partial<Record<JobState, number>>> {
  readonly name: string
  readonly paused: boolean
  readonly stats?: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

export interface WorkerView {
  readonly worker_id: string
  readonly state: string
  readonly directive: string | null
  readonly queues: readonly string[]
  readonly active_jobs: number
  readonly last_heartbeat_at: string | null
  readonly [field: string]: unknown
}

export interface WorkerHealthView {
  readonly worker_id: string
  readonly state: string
  readonly healthy: boolean
  readonly active_jobs: number
  readonly [field: string]: unknown
}

/** What was told to a worker; it hears it with its next beat. */
export interface DirectiveView {
  readonly worker_id: string
  readonly directive: string
  readonly state: string
}

export interface TypePolicyView {
  readonly type: string
  readonly caps?: Readonly<Record<string, number>>
  readonly updated_at: string
  readonly [field: string]: unknown
}

/** A cron entry: its schedule, its job, and how far it has come. */
export interface CronView {
  readonly name: string
  readonly expression?: string
  readonly cron?: string
  readonly timezone: string
  readonly overlap_policy: string
  readonly enabled: boolean
  readonly description?: string | null
  readonly type: string
  readonly args: readonly unknown[]
  readonly next_run_at: string | null
  readonly last_run_at: string | null
  readonly run_count: number
  readonly created_at: string
  readonly [field: string]: unknown
}

export interface DeadLetterStats {
  readonly total: number
  readonly by_queue: Readonly<Record<string, number>>
}

export interface BulkOutcome {
  readonly matched: number
  readonly succeeded: number
  readonly failed: number
  readonly errors: readonly { readonly job_id: string; readonly code: string }[]
}

export type BulkAction = 'cancel' | 'retry' | 'delete'

export interface BulkItem {
  readonly index: number
  readonly job_id: string
  readonly status: string
  /** Why it was skipped. */
  readonly code?: string
  readonly reason?: string
  readonly [field: string]: unknown
}

/** What an action on many jobs did. Counts are exact; `items` lists the first 1 000. */
export interface BulkReport {
  readonly matched: number
  readonly done: number
  readonly skipped: number
  readonly items: readonly BulkItem[]
}

/** What an action on many jobs would do. `job_ids` lists the first 1 000 of those it would act on. */
export interface BulkPlan {
  readonly action: string
  readonly matched: number
  readonly would_act_on: number
  readonly skipped: number
  readonly by_state: Readonly<Partial<Record<JobState, number>>>
  readonly by_queue: Readonly<Record<string, number>>
  readonly job_ids: readonly string[]
  readonly [field: string]: unknown
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

/** A limiter: its terms, who holds it, who waits, and when its window opens. */
export interface LimiterView {
  readonly key?: string
  readonly queue?: string
  readonly concurrency: Readonly<Record<string, unknown>> | null
  readonly active: number
  readonly waiting: number
  readonly window: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

/** The configuration of a queue, by the names of the wire. */
export type QueueConfigView = Readonly<Record<string, unknown>>

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

export interface PoolView {
  readonly name: string
  readonly strategy: string
  readonly queues: readonly string[]
  readonly created_at: string
  readonly updated_at: string
  readonly [field: string]: unknown
}

export interface SchemaView {
  readonly type: string
  readonly version: string | number
  readonly uri: string
  readonly schema?: unknown
  readonly created_at: string
  readonly [field: string]: unknown
}

export interface SchemaVersionView extends SchemaView {
  readonly is_latest: boolean
}

export interface SubscriptionView {
  readonly id: string
  readonly url: string
  readonly events: readonly string[]
  readonly active: boolean
  /** In seconds. */
  readonly timeout: number
  /** Only in the answer to the call that made it. */
  readonly secret?: string
  readonly [field: string]: unknown
}

export interface DeliveryView {
  readonly id: string
  readonly subscription_id: string
  readonly event_id: string
  readonly event_type: string
  readonly status: string
  readonly attempts: number
  readonly created_at: string
  readonly [field: string]: unknown
}

export interface WebhookTestView {
  readonly success: boolean
  readonly response_time_ms: number
  readonly [field: string]: unknown
}

/** Totals of queues, jobs and workers. */
export interface StatsView {
  readonly queues: number
  readonly workers: number
  readonly jobs: Readonly<Record<JobState, number>>
  readonly uptime_seconds: number
  readonly [field: string]: unknown
}

export interface HealthView {
  readonly status: string
  readonly server_time?: string
  readonly uptime_seconds?: number
  readonly backend?: Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

export type TokenRole = Role

/** A token by its name; never its text. */
export interface TokenView {
  readonly name: string
  readonly roles: readonly TokenRole[]
  readonly state: 'valid' | 'revoked'
  /** How its newest text begins. */
  readonly prefix: string | null
  /** Two while a rotation overlaps. */
  readonly valid_secrets: number
  readonly old_secret_until: string | null
  readonly created_at: string
  readonly created_by: string | null
  readonly rotated_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  readonly [field: string]: unknown
}

export interface IssuedTokenView extends TokenView {
  /** The token itself, which is shown once. */
  readonly token: string
}

/** A change that an operator or administrator made. */
export interface AuditEntryView {
  readonly id: string
  readonly time: string
  /** The name of the token. */
  readonly token: string
  readonly via: 'bearer' | 'session'
  readonly action: string
  readonly method: string
  readonly path: string
  readonly object: Readonly<Record<string, string>>
  readonly request_id: string
  readonly [field: string]: unknown
}

/** A note of an operator, such as a deploy. */
export interface AnnotationView {
  readonly id: string
  /** When it happened. */
  readonly time: string
  readonly text: string
  /** The name of the token that noted it. */
  readonly by: string | null
  readonly [field: string]: unknown
}

/** How many jobs a tenant has, by state. */
export interface TenantStats {
  readonly tenant_id: string
  readonly total_jobs: number
  readonly jobs: Readonly<Record<JobState, number>>
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

export interface ErrorBody {
  readonly error?: {
    readonly code?: string
    readonly message?: string
    readonly retryable?: boolean
    readonly details?: Readonly<Record<string, unknown>>
    readonly hint?: string
    readonly request_id?: string
  }
}
