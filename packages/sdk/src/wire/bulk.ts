/** Actions on many jobs, field by field as the server writes them. */
import type { JobState } from './jobs.ts'

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
