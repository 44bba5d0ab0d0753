/**
 * A workflow as it is shown: once nested as `workflow`, once flat, for clients that read the one or the other.
 *
 * A step's document says `waiting` or `started`; what that means by now follows from what is around it: its job may be
 * waiting or active, its branch may have ended without it, what it depends on may have failed. So nothing has to be
 * written to the thousand steps that will never run.
 */
import { iso, type Instant } from '../time/clock.ts'
import { isTerminal, type Fragment, type Job, type Json } from '../job/job.ts'
import { isWorkflowOver, type Branch, type WorkflowStep, type Workflow } from './workflow.ts'

export type ShownState = 'waiting' | 'pending' | 'active' | 'completed' | 'failed' | 'cancelled'

/** The steps of a workflow by number from 1, and the jobs of those that have started, as far as they are still there. */
export interface Tree {
  readonly workflow: Workflow
  readonly steps: readonly WorkflowStep[]
  readonly jobs: ReadonlyMap<string, Job>
}

/** How many steps are written before others may go first. */
const WRITTEN_AT_ONCE = 250

/** The object twice, in one answer. `extra` goes into both. Yields between pieces of work. */
export function* renderWorkflow(tree: Tree, extra: Fragment = ''): Generator<void, Json> {
  const text = yield* objectOf(tree, extra)
  return `{"workflow":${text},${text.slice(1)}`
}

/** Without its steps, as in lists. */
export function renderSummary(workflow: Workflow, startedAt: Instant | null = null): Json {
  return `{${headOf(workflow)},${tailOf(workflow, startedAt)}}`
}

/** What a cancel adds. */
export function cancelFields({ endedAt, jobsCancelled, jobsCompleted }: Workflow): Fragment {
  return (
    `"cancelled_at":${instantText(endedAt)},"steps_cancelled":${String(jobsCancelled)},` +
    `"steps_already_completed":${String(jobsCompleted)}`
  )
}

function* objectOf(tree: Tree, extra: Fragment): Generator<void, Json> {
  const { workflow, steps } = tree
  const states = shownStates(tree)
  const inside = new Map<number, { steps: Json[]; hooks: string[] }>()
  let startedAt: Instant | null = null
  // From the last to the first: the children of a branch are written before it is.
  for (let at = steps.length - 1; at >= 0; at -= 1) {
    const step = steps[at]
    if (step === undefined) continue
    if (at > 0 && at % WRITTEN_AT_ONCE === 0) yield
    const text = stepText(step, states.get(step.number) ?? 'waiting', tree, inside.get(step.number))
    const siblings = inside.get(step.up) ?? { steps: [], hooks: [] }
    inside.set(step.up, siblings)
    if (step.hook === null) siblings.steps.push(text)
    else siblings.hooks.push(`"${step.hook}":${text}`)
    const began = step.branch === null ? (step.startedAt ?? jobOf(step, tree)?.startedAt ?? null) : null
    if (began !== null && (startedAt === null || began < startedAt)) startedAt = began
  }
  const parts = [headOf(workflow), ...childrenOf(inside.get(0)), tailOf(workflow, startedAt)]
  if (extra !== '') parts.push(extra)
  return `{${parts.join(',')}}`
}

function headOf({ id, branch, name, state, jobs, jobsCompleted }: Workflow): Fragment {
  return (
    `"id":"${id}","type":"${branch.kind}","name":${JSON.stringify(name)},"state":"${state}",` +
    `"steps_total":${String(branch.count)},"steps_completed":${String(branch.completed)},` +
    `"jobs_total":${String(jobs)},"jobs_completed":${String(jobsCompleted)}`
  )
}

function tailOf(workflow: Workflow, startedAt: Instant | null): Fragment {
  const { limitMs, deadlineAt, error, createdAt, endedAt, parent, purgeAt, more, state } = workflow
  const parts: string[] = []
  if (limitMs !== null) {
    if (limitMs % 1000 === 0) parts.push(`"workflow_timeout":${String(limitMs / 1000)}`)
    parts.push(`"workflow_timeout_ms":${String(limitMs)}`)
  }
  if (deadlineAt !== null) parts.push(`"x_deadline":${instantText(deadlineAt)}`)
  if (parent !== null) parts.push(`"x_parent":{"${parent.kind}_id":${JSON.stringify(parent.id)}}`)
  if (error !== null) parts.push(`"error":${error}`)
  parts.push(`"created_at":${instantText(createdAt)}`)
  if (endedAt !== null)
    parts.push(`"${state === 'cancelled' ? 'cancelled_at' : 'completed_at'}":${instantText(endedAt)}`)
  if (purgeAt !== null) parts.push(`"x_purge_at":${instantText(purgeAt)}`)
  if (more !== '') parts.push(more)
  parts.push(`"metadata":${metadataOf(workflow, startedAt)}`)
  return parts.join(',')
}

/** OJS workflows §3.3 */
function metadataOf(workflow: Workflow, startedAt: Instant | null): Json {
  const { createdAt, endedAt, jobs, jobsCompleted, jobsFailed, state } = workflow
  return JSON.stringify({
    created_at: iso(createdAt),
    ...(startedAt === null ? {} : { started_at: iso(startedAt) }),
    ...(endedAt === null ? {} : { [state === 'cancelled' ? 'cancelled_at' : 'completed_at']: iso(endedAt) }),
    job_count: jobs,
    completed_count: jobsCompleted,
    failed_count: jobsFailed,
  })
}

function childrenOf(inside: { steps: Json[]; hooks: string[] } | undefined): Fragment[] {
  if (inside === undefined) return []
  const parts = [`"steps":[${inside.steps.reverse().join(',')}]`]
  if (inside.hooks.length > 0) parts.push(`"callbacks":{${inside.hooks.reverse().join(',')}}`)
  return parts
}

function stepText(
  step: WorkflowStep,
  state: ShownState,
  tree: Tree,
  inside: { steps: Json[]; hooks: string[] } | undefined,
): Json {
  const job = jobOf(step, tree)
  const began = step.startedAt ?? job?.startedAt ?? null
  const ended = step.endedAt ?? (job !== null && isTerminal(job.state) ? endOf(job) : null)
  const parts = [
    `"id":${JSON.stringify(step.id)},"index":${String(step.index)},"type":${JSON.stringify(step.type)}`,
    `"state":"${state}","job_id":${JSON.stringify(step.jobId)}`,
    `"depends_on":${JSON.stringify(step.after.map((number) => tree.steps[number - 1]?.id ?? ''))}`,
  ]
  if (step.name !== null) parts.push(`"name":${JSON.stringify(step.name)}`)
  if (step.branch !== null) {
    const { count, completed } = step.branch
    parts.push(`"steps_total":${String(count)},"steps_completed":${String(completed)}`, ...childrenOf(inside))
  }
  if (began !== null) parts.push(`"started_at":${instantText(began)}`)
  if (ended !== null) parts.push(`"completed_at":${instantText(ended)}`)
  if (step.result !== null) parts.push(`"result":${step.result}`)
  if (step.error !== null) parts.push(`"error":${step.error}`)
  return `{${parts.join(',')}}`
}

/** What each step's state means by now. Branches come before their children, so one pass is enough. */
export function shownStates(tree: Tree): Map<number, ShownState> {
  const { workflow, steps } = tree
  const states = new Map<number, ShownState>()
  const open = (number: number): boolean => {
    const state = number === 0 ? (isWorkflowOver(workflow) ? 'cancelled' : 'active') : states.get(number)
    return state === 'active' || state === 'waiting' || state === 'pending'
  }
  for (const step of steps) states.set(step.number, shownState(step, tree, open(step.up)))
  cancelDependents(steps, states)
  return states
}

function shownState(step: WorkflowStep, tree: Tree, isOpen: boolean): ShownState {
  if (step.state === 'completed' || step.state === 'failed') return step.state
  if (step.state === 'waiting') return isOpen ? 'waiting' : 'cancelled'
  if (step.branch !== null) return isOpen ? 'active' : 'cancelled'
  const job = jobOf(step, tree)
  switch (job?.state) {
    case undefined:
      return isOpen ? 'pending' : 'cancelled'
    case 'active':
    case 'completed':
    case 'cancelled':
      return job?.state ?? 'pending'
    case 'discarded':
      return 'failed'
    default:
      return 'pending'
  }
}

/** What waits, at any remove, for a step of a DAG that failed will never start. */
function cancelDependents(steps: readonly WorkflowStep[], states: Map<number, ShownState>): void {
  const failed = steps.filter(({ number, next }) => next.length > 0 && isLost(states.get(number)))
  const lost = failed.map(({ number }) => number)
  for (let number = lost.pop(); number !== undefined; number = lost.pop()) {
    for (const dependent of steps[number - 1]?.next ?? []) {
      if (states.get(dependent) !== 'waiting') continue
      states.set(dependent, 'cancelled')
      lost.push(dependent)
    }
  }
}

const isLost = (state: ShownState | undefined): boolean => state === 'failed' || state === 'cancelled'

// ---- Progress ----

/** Between 0 and 1. A chain: what is done and how far the current step is; a group: the mean; a batch: how many are over. */
export function workflowProgress({ workflow, steps, jobs }: Tree): number {
  const shares = new Map<number, number>()
  const shareOf = ({ kind, first, count }: Branch): number => {
    let sum = 0
    for (let number = first; number < first + count; number += 1) {
      const share = shares.get(number) ?? 0
      sum += kind === 'batch' ? Math.floor(share) : share
    }
    return sum / count
  }
  for (let at = steps.length - 1; at >= 0; at -= 1) {
    const step = steps[at]
    if (step === undefined) continue
    shares.set(step.number, isDone(step) ? 1 : step.branch !== null ? shareOf(step.branch) : partOf(step, jobs))
  }
  return workflow.state === 'completed' ? 1 : shareOf(workflow.branch)
}

const isDone = ({ state }: WorkflowStep): boolean => state === 'completed' || state === 'failed'

function partOf({ jobId }: WorkflowStep, jobs: ReadonlyMap<string, Job>): number {
  return jobId === null ? 0 : (jobs.get(jobId)?.progress?.value ?? 0)
}

export function renderWorkflowProgress(tree: Tree, now: Instant): Json {
  const { workflow } = tree
  const { id, state, branch, jobs, jobsCompleted, jobsFailed, deadlineAt } = workflow
  return JSON.stringify({
    workflow_id: id,
    type: branch.kind,
    state,
    progress: workflowProgress(tree),
    steps_total: branch.count,
    steps_completed: branch.completed,
    jobs_total: jobs,
    jobs_completed: jobsCompleted,
    jobs_failed: jobsFailed,
    ...(deadlineAt === null || isWorkflowOver(workflow) ? {} : { remaining_ms: Math.max(0, deadlineAt - now) }),
  })
}

function jobOf({ jobId }: WorkflowStep, { jobs }: Tree): Job | null {
  return jobId === null ? null : (jobs.get(jobId) ?? null)
}

const endOf = (job: Job): Instant | null => job.completedAt ?? job.cancelledAt ?? job.discardedAt

const instantText = (at: Instant | null): Json => (at === null ? 'null' : `"${iso(at)}"`)
