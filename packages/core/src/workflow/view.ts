/**
 * What the state of each step means by now, and how far a workflow is.
 *
 * A step's document says `waiting` or `started`; what that means by now follows from what is around it: its job may be
 * waiting or active, its branch may have ended without it, what it depends on may have failed. So nothing has to be
 * written to the thousand steps that will never run.
 */
import type { Job } from '../job/job.ts'
import { isWorkflowOver, type Branch, type Workflow, type WorkflowStep } from './workflow.ts'

export type ShownState = 'waiting' | 'pending' | 'active' | 'completed' | 'failed' | 'cancelled'

/** The steps of a workflow by number from 1, and the jobs of those that have started, as far as they are still there. */
export interface Tree {
  readonly workflow: Workflow
  readonly steps: readonly WorkflowStep[]
  readonly jobs: ReadonlyMap<string, Job>
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

export function jobOf({ jobId }: WorkflowStep, { jobs }: Tree): Job | null {
  return jobId === null ? null : (jobs.get(jobId) ?? null)
}
