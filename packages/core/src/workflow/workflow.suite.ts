/** For tests: a workflow whose documents lie in a map, whose jobs end when they are told to. */
import { drained, NOON, moment, later } from '../builders.suite.ts'
import type { Instant } from '../time/clock.ts'
import { OjsError } from '../errors.ts'
import type { Fields } from '../wire/shape.ts'
import { Flow } from './flow.ts'
import type { Made, Walk } from './steps-in-hand.ts'
import type { StepEnding } from './step-ending.ts'
import { readWorkflow, type WorkflowRequest } from '../wire/workflow/workflow-request.ts'
import { workflowDeadline } from './flow.ts'
import type { Workflow, WorkflowStep } from './workflow.ts'

export function asked(body: unknown): WorkflowRequest {
  const text = JSON.stringify(body)
  return drained(readWorkflow(text, JSON.parse(text), NOON))
}

export function refusalOf(body: unknown): { code: string; field: unknown; message: string } {
  try {
    asked(body)
  } catch (error) {
    if (error instanceof OjsError) return { code: error.code, field: error.details['field'], message: error.message }
    throw error
  }
  throw new Error('nothing was refused')
}

export const job = (type: string, more: Fields = {}): Fields => ({ type, args: [], ...more })

export function aWorkflow(request: WorkflowRequest, changes: Partial<Workflow> = {}): Workflow {
  return {
    id: '019539a4-b68c-7def-8000-1a2b3c4d5e6f',
    name: request.name,
    state: 'running',
    branch: request.branch,
    steps: request.steps.length,
    jobs: request.jobs,
    jobsCompleted: 0,
    jobsFailed: 0,
    createdAt: NOON,
    endedAt: null,
    ...workflowDeadline(NOON, request.limitMs, null),
    limitMs: request.limitMs,
    parent: null,
    tenant: null,
    failures: [],
    error: null,
    jobsCancelled: 0,
    more: request.more,
    purgeAt: null,
    ...changes,
  }
}

export const OK: StepEnding = { ok: true, result: null, startedAt: null }
export const FAILED: StepEnding = {
  ok: false,
  error: '{"code":"boom"}',
  code: 'boom',
  message: 'It broke.',
  attempt: 1,
  startedAt: null,
}

/** What was started: which step, and the results it was given. */
export interface Started {
  readonly path: string
  readonly results: string
}

export class Stage {
  workflow: Workflow
  readonly steps: Map<number, WorkflowStep>
  readonly started: Started[] = []
  readonly events: string[] = []
  readonly refused = new Set<string>()
  /** Documents that were looked at since the last call. */
  looked = 0
  now: Instant = NOON

  constructor(body: unknown) {
    const request = asked(body)
    this.workflow = aWorkflow(request)
    this.steps = new Map(request.steps.map((step) => [step.number, step]))
    this.#walk([...this.steps.values()], (flow) => flow.begin())
  }

  /** Paths of jobs that run. */
  running(): string[] {
    return [...this.steps.values()]
      .filter(({ state, branch }) => state === 'started' && branch === null)
      .map((s) => s.path)
  }

  end(path: string, ending: StepEnding = OK): this {
    const step = [...this.steps.values()].find((one) => one.path === path)
    if (step === undefined) throw new Error(`no step ${path}`)
    const above: WorkflowStep[] = [step]
    for (let up = step.up; up !== 0; up = this.step(up).up) above.push(this.step(up))
    this.#walk(above, (flow) => flow.ended(step.number, ending))
    return this
  }

  done(path: string, result: unknown = null): this {
    return this.end(path, { ok: true, result: JSON.stringify(result), startedAt: null })
  }

  fail(path: string): this {
    return this.end(path, FAILED)
  }

  expire(): boolean {
    const flow = new Flow(this.workflow, [], moment(this.now))
    const expired = flow.expire()
    this.workflow = flow.workflow
    return expired
  }

  advance(ms: number): this {
    this.now = later(this.now, ms)
    return this
  }

  step(number: number): WorkflowStep {
    const step = this.steps.get(number)
    if (step === undefined) throw new Error(`no step ${String(number)}`)
    return step
  }

  #walk(known: readonly WorkflowStep[], begin: (flow: Flow) => Walk): void {
    const flow = new Flow(this.workflow, known, moment(this.now))
    this.looked = known.length
    const walk = begin(flow)
    let made: Made | undefined
    for (let wish = walk.next(); wish.done !== true; wish = walk.next(made)) {
      made = undefined
      if (wish.value.kind === 'see') {
        this.looked += wish.value.numbers.length
        for (const number of wish.value.numbers) flow.show(this.step(number))
        continue
      }
      const { step, results } = wish.value
      if (this.refused.has(step.path)) made = { refused: new OjsError('queue_paused', 'The queue takes nothing.') }
      else {
        this.started.push({ path: step.path, results: `[${results.list}]` })
        made = { jobId: `job-${step.path}` }
      }
    }
    // What is stored is what JSON gives back.
    this.workflow = JSON.parse(JSON.stringify(flow.workflow)) as Workflow
    for (const step of flow.touched()) this.steps.set(step.number, JSON.parse(JSON.stringify(step)) as WorkflowStep)
    this.events.push(...flow.events.map(({ type }) => type))
  }
}
