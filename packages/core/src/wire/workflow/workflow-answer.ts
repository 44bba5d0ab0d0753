/** A workflow as clients see it: once nested as `workflow`, once flat, for clients that read the one or the other. */
import { isTerminal, type Fragment, type Job, type Json } from '../../job/job.ts'
import { iso, type Instant } from '../../time/clock.ts'
import { jobOf, shownStates, workflowProgress, type ShownState, type Tree } from '../../workflow/view.ts'
import { isWorkflowOver, type Workflow, type WorkflowStep } from '../../workflow/workflow.ts'

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

const endOf = (job: Job): Instant | null => job.completedAt ?? job.cancelledAt ?? job.discardedAt

const instantText = (at: Instant | null): Json => (at === null ? 'null' : `"${iso(at)}"`)
