/** The events of a workflow and the error of one that failed, with the names their fields have on the wire. */
import type { NewEvent } from '../../events.ts'
import { iso, type Instant, type Millis } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import type { Lateness } from '../../job/lateness.ts'
import type { Json } from '../../job/job.ts'
import type { StepEnding } from '../../workflow/step-ending.ts'
import type { Workflow, WorkflowStep } from '../../workflow/workflow.ts'
import { workflowEvent } from '../events.ts'
import { lengths } from '../job/failure.ts'

export const workflowStarted = (workflow: Workflow, now: Instant): NewEvent =>
  workflowEvent('workflow.started', workflow, now, { total_steps: workflow.branch.count, total_jobs: workflow.jobs })

/** `error`: of a workflow that failed. */
export function workflowEnded(
  workflow: Workflow,
  state: 'completed' | 'failed' | 'cancelled',
  error: WorkflowError | null,
  now: Instant,
): NewEvent {
  const [first] = workflow.failures
  return workflowEvent(`workflow.${state}`, workflow, now, {
    total_steps: workflow.branch.count,
    duration_ms: elapsed(workflow.createdAt, now),
    ...(state === 'failed' && first !== undefined ? { failed_step_id: first.step, failed_job_id: first.jobId } : {}),
    ...(error === null ? {} : { error }),
  })
}

export function stepEnded(workflow: Workflow, step: WorkflowStep, ending: StepEnding, now: Instant): NewEvent {
  const { jobs, jobsCompleted, jobsFailed } = workflow
  const data = {
    ...named(step),
    ...(step.hook === null ? {} : { callback: step.hook }),
    duration_ms: ending.startedAt === null ? 0 : elapsed(ending.startedAt, now),
    steps_remaining: jobs - jobsCompleted - jobsFailed,
  }
  if (ending.ok) return workflowEvent('workflow.step_completed', workflow, now, data)
  const { code, message } = ending
  return workflowEvent('workflow.step_failed', workflow, now, { ...data, error: { code, message } })
}

export const callbackFired = (workflow: Workflow, step: WorkflowStep, now: Instant): NewEvent =>
  workflowEvent('workflow.callback_fired', workflow, now, { callback: step.hook, ...named(step) })

const named = ({ id, index, path, type, jobId }: WorkflowStep): Record<string, unknown> => ({
  step_id: id,
  step_index: index,
  step_path: path,
  step_type: type,
  job_id: jobId,
})

/** What a workflow that failed says in `error`. */
export type WorkflowError = Readonly<Record<string, unknown>>

/** OJS workflows §9.6 */
export const stepFailed = (workflow: Workflow, message: string): WorkflowError => ({
  type: 'step_failed',
  code: 'step_failed',
  message,
  ...failedSteps(workflow),
})

/** The deadline of the workflow passed. */
export function workflowTimeout(
  workflow: Workflow,
  deadlineAt: Instant,
  { overshootMs, lateMs, downtimeMs }: Lateness,
  now: Instant,
): WorkflowError {
  const { createdAt, limitSource } = workflow
  const limitMs: Millis = elapsed(createdAt, deadlineAt)
  return {
    type: 'workflow_timeout',
    code: 'workflow_timeout',
    message: `The workflow was not over within ${String(limitMs / 1000)} seconds.`,
    ...lengths(limitMs, elapsed(createdAt, now)),
    source: limitSource,
    deadline: iso(deadlineAt),
    overshoot_ms: overshootMs,
    late_ms: lateMs,
    downtime_ms: downtimeMs,
    occurred_at: iso(now),
    ...failedSteps(workflow),
  }
}

function failedSteps({ branch, failures }: Workflow): WorkflowError {
  const [first] = failures
  if (first === undefined) return {}
  return {
    failed_step_id: first.step,
    ...(branch.kind === 'chain' ? { failed_step_index: Number(first.path.split('/')[0]) } : {}),
    failed_job_ids: failures.map(({ jobId }) => jobId),
    errors: failures.map(({ step, path, jobId, code, message, attempt }) => ({
      job_id: jobId,
      step_id: step,
      path,
      code,
      message,
      attempt,
    })),
  }
}

/** The error of a step that its job could not be made for, or whose branch failed. */
export const stepError = (code: string, message: string): Json => JSON.stringify({ type: code, code, message })
