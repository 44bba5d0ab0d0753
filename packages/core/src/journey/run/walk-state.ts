/** What a walk knows, what it has come to so far, and how far it may still go before others have their turn. */
import { configFor } from '../config.ts'
import type { Definition, Expression } from '../definition.ts'
import { RunFault } from '../faults.ts'
import { MAX_STEPS, MAX_STEPS_WITHOUT_REST, PASSED_PER_TURN, STEPS_PER_SAVE, STEPS_PER_TURN } from '../limits.ts'
import { moved } from './frames.ts'
import { awaitedJobs } from './life.ts'
import type { Data, End, Frame, Run } from './run.ts'
import { surveyOf } from './survey.ts'
import { Trail } from './trail.ts'
import { documentFor, write } from './values.ts'
import type { Walk, WalkTerms, WantedCall, WantedJob, WantedSchedule } from './walk-terms.ts'
import { writtenBetween } from './written.ts'

export class WalkState {
  readonly run: Run
  readonly definition: Definition
  readonly terms: WalkTerms
  readonly jobs = new Map<string, WantedJob>()
  readonly calls = new Map<number, WantedCall>()
  /** Awaited jobs of earlier walks that are not needed any more. */
  readonly lost = new Set<string>()
  readonly schedules: WantedSchedule[] = []
  readonly trail: Trail
  attributes: Run['attributes']
  visits: number
  /** The deadline of the run has passed: no further state is entered. */
  isLate = false
  readonly #config: Data
  /** Branches of the run, those that are over included. */
  #width: number
  /** How many branches it has had during this walk. */
  #widest: number
  #entered = 0
  /** Until the next turn of others. */
  #untilTurn = STEPS_PER_TURN
  #passed = 0
  #isFull = false

  constructor(run: Run, definition: Definition, terms: WalkTerms) {
    this.run = run
    this.definition = definition
    this.terms = terms
    this.attributes = run.attributes
    this.trail = new Trail(run.trail)
    this.visits = run.visits
    this.#config = configFor(definition.config, terms.config)
    this.#width = surveyOf(run.root).width
    this.#widest = this.#width
  }

  /** A state is about to be entered: the number of this visit. */
  countEntry(): number {
    this.#entered += 1
    this.#untilTurn -= 1
    this.visits += 1
    return this.visits
  }

  /** How many branches the run has once this one is forked. */
  widthWith(branches: number): number {
    return this.#width - 1 + branches
  }

  widen(width: number): void {
    this.#width = width
    this.#widest = Math.max(this.#widest, width)
  }

  /** The frame becomes one branch again. */
  narrow(frame: Frame): void {
    this.#width -= surveyOf(frame).width - 1
  }

  /** Others have their turn next, however little was done since the last one. */
  endTurn(): void {
    this.#untilTurn = 0
  }

  /** Once it has come far enough it enters no further state: what it came to is saved first. */
  isToBeSaved(): boolean {
    this.#isFull ||=
      this.#entered >= STEPS_PER_SAVE &&
      (this.#entered >= STEPS_PER_SAVE + this.#widest || this.terms.isLong?.() === true)
    return this.#isFull
  }

  checkSteps(steps: number): void {
    if (this.visits > MAX_STEPS)
      throw new RunFault('RUNTIME_TOO_MANY_STEPS', `the run has entered more than ${String(MAX_STEPS)} states`)
    if (steps > MAX_STEPS_WITHOUT_REST)
      throw new RunFault(
        'RUNTIME_TOO_MANY_STEPS',
        `more than ${String(MAX_STEPS_WITHOUT_REST)} states were entered without waiting for anything: a loop needs a timer, a call, a job or a wait`,
      )
  }

  /** After so much others have their turn, whether or not there was anything to ask. */
  isTurnOver(): boolean {
    this.#passed += 1
    if (this.#untilTurn > 0 && this.#passed < PASSED_PER_TURN) return false
    this.#untilTurn = STEPS_PER_TURN
    this.#passed = 0
    return true
  }

  leave(frame: Frame, next: string, context: Data = frame.context, note: string | null = null): Frame {
    this.trail.left(frame, this.terms.now(), note, writtenBetween(frame.context, context))
    return moved(frame, next, context, this.terms.server)
  }

  /** Whatever it still waited for is lost. */
  over(frame: Frame, end: End): Frame {
    this.lose(frame)
    this.narrow(frame)
    this.trail.left(frame, this.terms.now())
    return { ...frame, rest: { kind: 'over', end } }
  }

  lose(frame: Frame): void {
    for (const jobId of awaitedJobs(frame)) {
      if (!this.jobs.delete(jobId)) this.lost.add(jobId)
    }
  }

  *value(expression: Expression, frame: Frame, more?: Data): Walk<unknown> {
    return yield { ask: 'value', expression, document: this.#document(frame, more) }
  }

  *holds(expression: Expression, frame: Frame, more?: Data): Walk<boolean> {
    return (yield { ask: 'holds', expression, document: this.#document(frame, more) }) === true
  }

  #document(frame: Frame, more?: Data): Data {
    return documentFor(this.run, frame, this.#config, more)
  }

  written(frame: Frame, target: Parameters<typeof write>[0], value: unknown): Data {
    const { context, attributes } = write(target, value, { context: frame.context, attributes: this.attributes })
    this.attributes = attributes
    return context
  }
}
