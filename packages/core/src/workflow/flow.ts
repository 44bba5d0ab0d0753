/**
 * What follows in a workflow: how it begins, what a member's end leads to, and how the whole ends.
 *
 *   a job ends ─→ its step ─→ its branch counts it ─┬─→ the next one starts        (chain, DAG)
 *                                                   ├─→ the callbacks start        (batch)
 *                                                   └─→ the branch is over ─→ the branch above counts it ─→ …
 *
 * Nothing here reads a store or makes a job. A walk asks for what it needs (`Wish`): to see steps it was not given, or
 * to have a job made; the engine grants the wish and resumes the walk. So the rule stays in one piece, and touches no
 * more of the tree than it asks for.
 *
 * The deadline of a workflow is decided before anything else (`expire`). A workflow that is over stays as it is: members
 * that end later are written down on their own step and lead to nothing.
 */
import { range, StepsInHand, type Walk } from './steps-in-hand.ts'
import { broken, OjsError } from '../errors.ts'
import type { NewEvent } from '../events.ts'
import { latenessOf } from '../job/lateness.ts'
import type { Moment } from '../job/lifecycle/transition.ts'
import type { Instant, Millis } from '../time/clock.ts'
import {
  callbackFired,
  stepEnded,
  stepError,
  stepFailed,
  workflowEnded,
  workflowStarted,
  workflowTimeout,
  type WorkflowError,
} from '../wire/workflow/workflow-events.ts'
import { after, isDue } from '../time/sums.ts'
import { appended, NO_RESULTS, type Results } from './results.ts'
import { CANCELLED, closed, type StepEnding } from './step-ending.ts'
import {
  isWorkflowOver,
  type Branch,
  type Hook,
  type StepFailure,
  type Workflow,
  type WorkflowStep,
} from './workflow.ts'

/** The error of a workflow names so many of its failures. */
const KEPT_FAILURES = 10
const MAX_MESSAGE_LENGTH = 500

export class Flow {
  readonly #hand: StepsInHand
  readonly #moment: Moment
  readonly events: NewEvent[] = []
  /** How late the workflow's own deadline was decided, when it was. */
  overshootMs: Millis | null = null

  constructor(workflow: Workflow, steps: Iterable<WorkflowStep>, moment: Moment) {
    this.#hand = new StepsInHand(workflow, steps)
    this.#moment = moment
  }

  get workflow(): Workflow {
    return this.#hand.workflow
  }

  /** Steps that changed. */
  touched(): WorkflowStep[] {
    return this.#hand.touched()
  }

  has(number: number): boolean {
    return this.#hand.has(number)
  }

  /** Every step that is in hand, by number. */
  steps(): WorkflowStep[] {
    return this.#hand.all()
  }

  /** The numbers on the way from the root to a step. */
  lineage(number: number): readonly number[] {
    return this.#hand.lineage(number)
  }

  /** A step that was asked for. What is known already may have been decided about since. */
  show(step: WorkflowStep): void {
    this.#hand.show(step)
  }

  // ---- The whole ----

  *begin(): Walk {
    this.events.push(workflowStarted(this.#hand.workflow, this.#moment.now))
    yield* this.#beginBranch(0, NO_RESULTS)
  }

  /** Ends the workflow if its time is up. Its members end by the same deadline, each on its own row. */
  expire(): boolean {
    const { state, deadlineAt, createdAt } = this.#hand.workflow
    const { now, upAt } = this.#moment
    if (state !== 'running' || deadlineAt === null || !isDue(deadlineAt, now)) return false
    // Outages after the start of the server are known to members alone.
    const late = latenessOf(deadlineAt, createdAt, upAt, [], now)
    this.overshootMs = late.overshootMs
    this.#end('failed', workflowTimeout(this.#hand.workflow, deadlineAt, late, now))
    return true
  }

  /** By an operator. `running`: members that are active and run on. */
  cancel(running: number): void {
    const { id, state, jobs, jobsCompleted, jobsFailed } = this.#hand.workflow
    if (state !== 'running') {
      throw new OjsError('conflict', `The workflow is ${state} already and cannot be cancelled.`, {
        details: { workflow_id: id, current_state: state, expected_state: 'running' },
      })
    }
    const jobsCancelled = Math.max(0, jobs - jobsCompleted - jobsFailed - running)
    this.#hand.workflow = { ...this.#hand.workflow, jobsCancelled }
    this.#end('cancelled', null)
  }

  /** A member has ended. Counted once: its step leaves `started` and never comes back. */
  *ended(number: number, ending: StepEnding): Walk {
    const step = this.#hand.step(number)
    if (step.state !== 'started') return
    if (!isWorkflowOver(this.#hand.workflow)) yield* this.#over(step, ending)
    // Cancelled members of a workflow that is over need no word of their own.
    else if (ending.ok || ending.error !== CANCELLED) this.#hand.put(closed(step, ending, this.#moment.now))
  }

  // ---- Starting ----

  *#beginBranch(number: number, given: Results): Walk {
    const branch = this.#hand.branch(number)
    const children = range(branch.first, branch.kind === 'chain' ? 1 : branch.count)
    yield* this.#hand.see(children)
    const ready = children.filter((child) => this.#hand.step(child).missing === 0)
    // Counted before any of them starts: the first to fail must not end the branch before the last has begun.
    this.#hand.setBranch(number, { ...branch, open: ready.length })
    for (const child of ready) yield* this.#start(child, given, NO_RESULTS)
  }

  /** `given` is what its jobs see; `before` is what the next step of a chain will see as well. */
  *#start(number: number, given: Results, before: Results): Walk {
    const step = this.#hand.step(number)
    const started: WorkflowStep = {
      ...step,
      state: 'started',
      template: null,
      before: before.list,
      omitted: before.omitted,
    }
    if (step.branch !== null) {
      this.#hand.put({ ...started, startedAt: this.#moment.now })
      yield* this.#beginBranch(number, given)
      return
    }
    const made = yield { kind: 'make', step, results: given }
    if (made === undefined) throw broken(`the job of step ${String(number)} was neither made nor refused`)
    if ('jobId' in made) {
      this.#hand.put({ ...started, jobId: made.jobId })
      if (step.hook !== null)
        this.events.push(callbackFired(this.#hand.workflow, this.#hand.step(number), this.#moment.now))
      return
    }
    const { code, message } = made.refused
    this.#hand.put(started)
    yield* this.#over(started, {
      ok: false,
      error: stepError(code, message),
      code,
      message,
      attempt: 0,
      startedAt: null,
    })
  }

  // ---- Ending ----

  *#over(step: WorkflowStep, ending: StepEnding): Walk {
    this.#hand.put(closed(step, ending, this.#moment.now))
    this.#count(step, ending)
    this.events.push(stepEnded(this.#hand.workflow, this.#hand.step(step.number), ending, this.#moment.now))
    const branch = this.#hand.branch(step.up)
    const counted: Branch = {
      ...branch,
      open: branch.open - 1,
      completed: branch.completed + (ending.ok && step.hook === null ? 1 : 0),
      failed: branch.failed + (!ending.ok && step.hook === null ? 1 : 0),
      hooksFailed: branch.hooksFailed + (!ending.ok && step.hook !== null ? 1 : 0),
    }
    this.#hand.setBranch(step.up, counted)
    switch (branch.kind) {
      case 'chain':
        return yield* this.#afterLink(step, ending.ok)
      case 'group':
        if (counted.open === 0) yield* this.#endBranch(step.up, counted.failed === 0)
        return
      case 'batch':
        if (counted.open > 0) return
        if (counted.calling) yield* this.#endBranch(step.up, counted.hooksFailed === 0)
        else yield* this.#call(step.up)
        return
      case 'dag':
        return yield* this.#afterDependency(step, ending.ok)
    }
  }

  *#afterLink(step: WorkflowStep, ok: boolean): Walk {
    const branch = this.#hand.branch(step.up)
    if (!ok) return yield* this.#endBranch(step.up, false)
    if (step.index === branch.count - 1) return yield* this.#endBranch(step.up, true)
    const result = yield* this.#hand.resultOf(step.number)
    const before = appended({ list: step.before, omitted: step.omitted }, step.index, result)
    yield* this.#hand.see([step.number + 1])
    this.#hand.setBranch(step.up, { ...branch, open: 1 })
    yield* this.#start(step.number + 1, before, before)
  }

  /** All jobs of a batch are over: `on_complete` always, and one of the others. OJS workflows §6.4 */
  *#call(number: number): Walk {
    const branch = this.#hand.branch(number)
    const ok = branch.failed === 0
    const isCalled = (hook: Hook): boolean => hook === 'on_complete' || (hook === 'on_success') === ok
    const called = branch.hooks.flatMap((hook, place) => (isCalled(hook) ? [branch.first + branch.count + place] : []))
    if (called.length === 0) return yield* this.#endBranch(number, ok)
    const results = yield* this.#hand.resultsOf(range(branch.first, branch.count))
    yield* this.#hand.see(called)
    this.#hand.setBranch(number, { ...branch, calling: true, open: called.length })
    for (const hook of called) yield* this.#start(hook, results, NO_RESULTS)
  }

  /** Steps that waited only for this one start. What depends on a failure never does; everything else goes on. */
  *#afterDependency(step: WorkflowStep, ok: boolean): Walk {
    const ready: number[] = []
    if (ok) {
      yield* this.#hand.see(step.next)
      for (const number of step.next) {
        const dependent = this.#hand.step(number)
        this.#hand.put({ ...dependent, missing: dependent.missing - 1 })
        if (dependent.missing === 1) ready.push(number)
      }
    }
    const branch = this.#hand.branch(step.up)
    this.#hand.setBranch(step.up, { ...branch, open: branch.open + ready.length })
    if (branch.open + ready.length === 0) return yield* this.#endBranch(step.up, branch.failed === 0)
    for (const number of ready)
      yield* this.#start(number, yield* this.#hand.resultsOf(this.#hand.step(number).after), NO_RESULTS)
  }

  *#endBranch(number: number, ok: boolean): Walk {
    if (number === 0) {
      this.#end(ok ? 'completed' : 'failed', ok ? null : this.#failure())
      return
    }
    const step = this.#hand.step(number)
    if (ok) return yield* this.#over(step, { ok, result: null, startedAt: step.startedAt })
    const { kind, count, failed, hooksFailed } = this.#hand.branch(number)
    const message = hooksFailed > 0 ? `A callback of the ${kind} failed.` : inWords(kind, failed, count)
    const code = 'step_failed'
    const error = stepError(code, message)
    yield* this.#over(step, { ok, error, code, message, attempt: 0, startedAt: step.startedAt })
  }

  #end(state: 'completed' | 'failed' | 'cancelled', error: WorkflowError | null): void {
    const { now, retention } = this.#moment
    const keptMs = { completed: retention.completedMs, failed: retention.discardedMs, cancelled: retention.cancelledMs }
    this.#hand.workflow = {
      ...this.#hand.workflow,
      state,
      endedAt: now,
      error: error === null ? null : JSON.stringify(error),
      purgeAt: after(now, keptMs[state]),
    }
    this.events.push(workflowEnded(this.#hand.workflow, state, error, now))
  }

  /** Members are counted, and the first failures remembered. A callback's failure is remembered too. */
  #count(step: WorkflowStep, ending: StepEnding): void {
    if (step.branch !== null) return
    const { jobsCompleted, jobsFailed, failures } = this.#hand.workflow
    const isMember = step.hook === null
    if (ending.ok) {
      if (isMember) this.#hand.workflow = { ...this.#hand.workflow, jobsCompleted: jobsCompleted + 1 }
      return
    }
    const failure: StepFailure = {
      step: step.id,
      path: step.path,
      jobId: step.jobId,
      code: ending.code,
      message: ending.message.slice(0, MAX_MESSAGE_LENGTH),
      attempt: ending.attempt,
    }
    this.#hand.workflow = {
      ...this.#hand.workflow,
      jobsFailed: jobsFailed + (isMember ? 1 : 0),
      failures: failures.length < KEPT_FAILURES ? [...failures, failure] : failures,
    }
  }

  #failure(): WorkflowError {
    const { branch } = this.#hand.workflow
    const message =
      branch.hooksFailed > 0 ? 'A callback of the batch failed.' : inWords(branch.kind, branch.failed, branch.count)
    return stepFailed(this.#hand.workflow, message)
  }
}

function inWords(kind: string, failed: number, count: number): string {
  return kind === 'chain'
    ? 'A step of the chain failed; those after it were not started.'
    : `${String(failed)} of ${String(count)} ${kind === 'dag' ? 'steps' : 'jobs'} of the ${kind} failed.`
}

/** The workflow's own deadline: what it asked for, or what it inherits, whichever comes first. */
export function workflowDeadline(
  createdAt: Instant,
  limitMs: Millis | null,
  inherited: Instant | null,
): Pick<Workflow, 'deadlineAt' | 'limitSource'> {
  const own = limitMs === null ? null : after(createdAt, limitMs)
  if (inherited !== null && (own === null || inherited < own)) return { deadlineAt: inherited, limitSource: 'parent' }
  return { deadlineAt: own, limitSource: 'publish' }
}
