/**
 * A workflow is a tree. Its inner nodes are branches (chain, group, batch, DAG), its leaves are jobs:
 *
 *   chain ── extract                    chain   one after the other
 *         ├─ group ── to csv            group   all at once; over when all are
 *         │        └─ to pdf            batch   a group, and callbacks that hear how it went
 *         └─ load                       dag     each as soon as what it depends on has succeeded
 *
 * The root is the workflow's own document. Every other node is a step with a document of its own, numbered level by
 * level, so that the children of a branch are neighbours: those of one branch are `first` to `first + count - 1`, and a
 * batch's callbacks follow them. A branch keeps counts, not lists: when a member ends, only its step, the branches above
 * it and what starts next are touched, however many members there are.
 *
 * `workflow-request.ts` reads what was asked for, `workflow/flow.ts` says what follows, `workflow/view.ts` shows it.
 */
import type { Instant, Millis } from '../time/clock.ts'
import { docKind, type DocKind } from '../doc.ts'
import type { Fragment, Json, Parent } from '../job/job.ts'

export const WORKFLOW_STATES = ['running', 'completed', 'failed', 'cancelled'] as const
export type WorkflowState = (typeof WORKFLOW_STATES)[number]

export const BRANCH_KINDS = ['chain', 'group', 'batch', 'dag'] as const
export type BranchKind = (typeof BRANCH_KINDS)[number]

/** A batch's callbacks, in the order in which they are enqueued. */
export const HOOKS = ['on_complete', 'on_success', 'on_failure'] as const
export type Hook = (typeof HOOKS)[number]

/** What a branch knows of its children. */
export interface Branch {
  readonly kind: BranchKind
  /** Number of the first child. */
  readonly first: number
  readonly count: number
  /** Callbacks that were asked for; numbered after the children, in this order. */
  readonly hooks: readonly Hook[]
  /** Children (or, once `calling`, callbacks) that have started and are not over. */
  readonly open: number
  readonly completed: number
  readonly failed: number
  /** The children of a batch are over and its callbacks run. */
  readonly calling: boolean
  readonly hooksFailed: number
}

/** `started`: its job is enqueued, or its branch has begun. What never starts stays `waiting`; the view tells why. */
export type StepState = 'waiting' | 'started' | 'completed' | 'failed'

export interface WorkflowStep {
  readonly number: number
  /** The branch it belongs to; 0 is the workflow itself. */
  readonly up: number
  /** Its place in the list it was given in. */
  readonly index: number
  /** Every index on the way from the root to it, as in `1/0`; a callback by its name. */
  readonly path: string
  /** What the client calls it, or `step-<index>`. */
  readonly id: string
  readonly hook: Hook | null
  /** The job's type, or the kind of branch. */
  readonly type: string
  readonly name: string | null
  readonly state: StepState
  /** Null: it is a job. */
  readonly branch: Branch | null

  /** The enqueue request as text, until its job is made. */
  readonly template: Json | null
  readonly jobId: string | null

  /** In a DAG: steps it depends on in the order they were named, steps that depend on it, and how many it waits for. */
  readonly after: readonly number[]
  readonly next: readonly number[]
  readonly missing: number

  /** In a chain, while it runs: the results of the steps before it, and how many of them had to be left out. */
  readonly before: Fragment
  readonly omitted: number

  readonly startedAt: Instant | null
  readonly endedAt: Instant | null
  readonly result: Json | null
  readonly error: Json | null
}

/** One of the first failures, for the error of the whole. */
export interface StepFailure {
  readonly step: string
  readonly path: string
  readonly jobId: string | null
  readonly code: string
  readonly message: string
  readonly attempt: number
}

export interface Workflow {
  readonly id: string
  readonly name: string | null
  readonly state: WorkflowState
  readonly branch: Branch
  /** How many step documents there are. */
  readonly steps: number

  /** Jobs that are members, at every depth; callbacks are none. */
  readonly jobs: number
  readonly jobsCompleted: number
  readonly jobsFailed: number

  readonly createdAt: Instant
  readonly endedAt: Instant | null
  /** When it must be over, whatever its steps do. */
  readonly deadlineAt: Instant | null
  /** The length that was asked for. */
  readonly limitMs: Millis | null
  /** Whose deadline it is: its own, or the one it inherited. */
  readonly limitSource: 'publish' | 'parent'
  readonly parent: Parent | null
  readonly tenant: string | null

  readonly failures: readonly StepFailure[]
  readonly error: Json | null
  /** Members that a cancel kept from running. */
  readonly jobsCancelled: number
  /** What else the client sent, to be given back. */
  readonly more: Fragment
  readonly purgeAt: Instant | null
}

export const WORKFLOW: DocKind<Workflow> = docKind('workflow', ({ state, deadlineAt, purgeAt }) =>
  state === 'running' ? deadlineAt : purgeAt,
)
export const STEP: DocKind<WorkflowStep> = docKind('step')

/** Steps sort by their number. */
export const stepDocId = (workflowId: string, number: number): string =>
  `${workflowId}/${String(number).padStart(5, '0')}`

export const isWorkflowOver = ({ state }: Workflow): boolean => state !== 'running'

export const NO_BRANCH_YET = { open: 0, completed: 0, failed: 0, calling: false, hooksFailed: 0 } as const
