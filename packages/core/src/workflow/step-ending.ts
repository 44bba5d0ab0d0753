/** How a step of a workflow ended. */
import type { Job, Json } from '../job/job.ts'
import type { Instant } from '../time/clock.ts'
import { readFailure, type Failure } from '../wire/job/failure.ts'
import { stepError } from '../wire/workflow/workflow-events.ts'
import type { WorkflowStep } from './workflow.ts'

/** How a step ended. A member that was cancelled or discarded has failed. */
export type StepEnding =
  | { readonly ok: true; readonly result: Json | null; readonly startedAt: Instant | null }
  | {
      readonly ok: false
      readonly error: Json | null
      readonly code: string
      readonly message: string
      readonly attempt: number
      readonly startedAt: Instant | null
    }

export function endingOf(job: Job): StepEnding {
  const { startedAt } = job
  if (job.state === 'completed') return { ok: true, result: job.result, startedAt }
  const failure: Partial<Failure> = job.error === null ? {} : readFailure(job.error)
  const { attempt } = job
  if (job.state === 'discarded') {
    const { code = 'discarded', message = 'The job was discarded.' } = failure
    return { ok: false, error: job.error, code, message, attempt, startedAt }
  }
  if (job.state === 'cancelled') {
    return { ok: false, error: CANCELLED, code: 'cancelled', message: 'The job was cancelled.', attempt, startedAt }
  }
  return { ok: false, error: REMOVED, code: 'removed', message: 'The job was removed.', attempt, startedAt }
}

export const CANCELLED = stepError('cancelled', 'The job was cancelled.')
const REMOVED = stepError('removed', 'The job was removed.')

export function closed(step: WorkflowStep, ending: StepEnding, now: Instant): WorkflowStep {
  return {
    ...step,
    state: ending.ok ? 'completed' : 'failed',
    startedAt: step.startedAt ?? ending.startedAt,
    endedAt: now,
    result: ending.ok ? ending.result : null,
    error: ending.ok ? null : ending.error,
    before: '',
  }
}
