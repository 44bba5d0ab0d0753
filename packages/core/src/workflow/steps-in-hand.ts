/** The steps of a workflow that a flow has in hand: it sees the others when it asks for them. */
import { broken, type OjsError } from '../errors.ts'
import type { Json } from '../job/job.ts'
import { within, type Results } from './results.ts'
import type { Branch, Workflow, WorkflowStep } from './workflow.ts'

export type Wish =
  | { readonly kind: 'see'; readonly numbers: readonly number[] }
  | { readonly kind: 'make'; readonly step: WorkflowStep; readonly results: Results }

/** A job was made, or refused. */
export type Made = { readonly jobId: string } | { readonly refused: OjsError }

export type Walk = Generator<Wish, void, Made | undefined>

export class StepsInHand {
  workflow: Workflow
  readonly #steps: Map<number, WorkflowStep>
  readonly #touched = new Set<number>()

  constructor(workflow: Workflow, steps: Iterable<WorkflowStep>) {
    this.workflow = workflow
    this.#steps = new Map(Array.from(steps, (step) => [step.number, step]))
  }

  /** Steps that changed. */
  touched(): WorkflowStep[] {
    return [...this.#touched].map((number) => this.step(number))
  }

  has(number: number): boolean {
    return this.#steps.has(number)
  }

  /** Every step that is in hand, by number. */
  all(): WorkflowStep[] {
    return [...this.#steps.values()].sort((a, b) => a.number - b.number)
  }

  /** The numbers on the way from the root to a step. */
  lineage(number: number): readonly number[] {
    const line: number[] = []
    for (let at = number; at !== 0; at = this.step(at).up) line.push(at)
    return line.reverse()
  }

  /** A step that was asked for. What is known already may have been decided about since. */
  show(step: WorkflowStep): void {
    if (!this.#steps.has(step.number)) this.#steps.set(step.number, step)
  }

  /** A job's own; a chain's last one; of everything else an array, with null for what has none. */
  *resultOf(number: number): Generator<Wish, Json, Made | undefined> {
    const step = this.step(number)
    if (step.state !== 'completed') return 'null'
    if (step.branch === null) return step.result ?? 'null'
    const { kind, first, count } = step.branch
    if (kind !== 'chain') return `[${(yield* this.resultsOf(range(first, count))).list}]`
    const last = first + count - 1
    yield* this.see([last])
    return yield* this.resultOf(last)
  }

  *resultsOf(numbers: readonly number[]): Generator<Wish, Results, Made | undefined> {
    yield* this.see(numbers)
    const results: Json[] = []
    for (const number of numbers) results.push(yield* this.resultOf(number))
    return within(results)
  }

  *see(numbers: readonly number[]): Walk {
    const unknown = numbers.filter((number) => !this.#steps.has(number))
    if (unknown.length > 0) yield { kind: 'see', numbers: unknown }
  }

  step(number: number): WorkflowStep {
    const step = this.#steps.get(number)
    if (step === undefined) throw broken(`step ${String(number)} of workflow ${this.workflow.id} was not shown`)
    return step
  }

  put(step: WorkflowStep): void {
    this.#steps.set(step.number, step)
    this.#touched.add(step.number)
  }

  branch(number: number): Branch {
    const branch = number === 0 ? this.workflow.branch : this.step(number).branch
    if (branch === null) throw broken(`step ${String(number)} of workflow ${this.workflow.id} is not a branch`)
    return branch
  }

  setBranch(number: number, branch: Branch): void {
    if (number === 0) this.workflow = { ...this.workflow, branch }
    else this.put({ ...this.step(number), branch })
  }
}

export const range = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => first + index)
