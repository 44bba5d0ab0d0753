/**
 * A walk, thought out: core asks what expressions give and whether values fit, and is answered here, outside any
 * transaction and within what is left of the run.
 */
import {
  awaitedJobs,
  budgetLeft,
  currentState,
  endRun,
  isDue,
  RunFault,
  runFailure,
  walk,
  type Ask,
  type Definition,
  type Run,
  type Walked,
  type WalkTerms,
} from '@curfew/core'
import type { Engine } from './engine.ts'
import { ExpressionError } from './expressions.ts'

/** A run with more to remember than this has gone wrong. */
const LARGEST_RUN = 4_194_304
/** Others have a turn at least this often, however much there is to evaluate. */
const TURN_MS = 8

export class Thinking {
  readonly #engine: Engine
  #turnEndsAt = 0

  constructor(engine: Engine) {
    this.#engine = engine
  }

  async walk(run: Run, definition: Definition, terms: Omit<WalkTerms, 'now' | 'random'>): Promise<Walked> {
    const { random } = this.#engine
    const now = (): Run['updatedAt'] => this.#engine.now()
    const steps = walk(run, definition, { ...terms, now, random })
    let step = steps.next()
    while (step.done !== true) {
      await this.#turn()
      if (isDue(run.deadlineAt, now()))
        return { run, jobs: [], lostJobs: [], calls: [], compensate: false, isLate: true }
      try {
        step = steps.next(await this.#answer(step.value, run))
      } catch (error) {
        if (!(error instanceof RunFault)) throw error
        step = steps.throw(error)
      }
    }
    const walked = step.value
    if (JSON.stringify(walked.run).length <= LARGEST_RUN) return walked
    const at = currentState(run.root).path
    const end = runFailure(at, 'RuntimeError', 'RUNTIME_TOO_LARGE', 'the run has more data than can be kept')
    const lostJobs = awaitedJobs(run.root)
    return { ...walked, run: endRun(run, end, now()), jobs: [], lostJobs, calls: [], compensate: false }
  }

  async #answer(asked: Ask, { deadlineAt }: Run): Promise<unknown> {
    const { checkers, expressions } = this.#engine
    if (asked.ask === 'misfit') return checkers.misfitOf(asked.schema, asked.value)?.[0]?.message ?? null
    const { lang, expr } = asked.expression
    const terms = { budgetMs: budgetLeft(deadlineAt, this.#engine.now()) }
    try {
      return asked.ask === 'holds'
        ? await expressions.holds(lang, expr, asked.document, terms)
        : await expressions.evaluate(lang, expr, asked.document, terms)
    } catch (error) {
      if (error instanceof ExpressionError) throw new RunFault(error.code, error.message, error)
      throw error
    }
  }

  /** Sockets and timers have their turn, however many expressions wait. */
  async #turn(): Promise<void> {
    const { host } = this.#engine
    if (host.monotonicMs() < this.#turnEndsAt) return
    await new Promise<void>((resolve) => {
      host.defer(resolve)
    })
    this.#turnEndsAt = host.monotonicMs() + TURN_MS
  }
}
