/** Workflows and their steps, field by field as the server writes them. */

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
