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
  MAX_RUN_SIZE,
  remembersMoreThan,
  RUN_SCHEDULE,
  RunFault,
  runFailure,
  walk,
  type Ask,
  type Definition,
  type Run,
  type Walked,
  type WalkTerms,
} from '@curfew/core'
import type { JourneysContext } from './context.ts'
import { ExpressionError } from '../expressions.ts'
import type { Turns } from './turns.ts'
import { inPieces } from '../kernel/turns.ts'

/** After so much work what was thought out is saved, and its calls begin, although there is more to think out. */
const LONG_WALK_MS = 250

const NOTHING_DONE = { jobs: [], lostJobs: [], calls: [], schedules: [], compensate: false } as const

export class Thinking {
  readonly #context: JourneysContext
  readonly #turns: Turns

  constructor(context: JourneysContext, turns: Turns) {
    this.#context = context
    this.#turns = turns
  }

  async walk(
    run: Run,
    definition: Definition,
    terms: Omit<WalkTerms, 'now' | 'random' | 'config' | 'isLong'>,
  ): Promise<Walked> {
    const { random, host, settings, closing } = this.#context
    const now = (): Run['updatedAt'] => this.#context.now()
    const startedMs = host.monotonicMs()
    let waitedMs = 0
    const isLong = (): boolean => host.monotonicMs() - startedMs - waitedMs >= LONG_WALK_MS
    const steps = walk(run, definition, { ...terms, now, random, isLong, config: settings.platformConfig })
    let step = steps.next()
    let turns = 0
    while (step.done !== true) {
      const turn = this.#turns.next(turns)
      if (turn !== null) {
        const askedMs = host.monotonicMs()
        await turn
        waitedMs += host.monotonicMs() - askedMs
        turns += 1
        if (closing.aborted) return { ...NOTHING_DONE, run, isLate: false }
      }
      if (isDue(run.deadlineAt, now())) return { ...NOTHING_DONE, run, isLate: true }
      if (step.value.ask === 'turn') {
        step = steps.next()
        continue
      }
      try {
        step = steps.next(await this.#answer(step.value, run))
      } catch (error) {
        if (!(error instanceof RunFault)) throw error
        step = steps.throw(error)
      }
    }
    const walked = step.value
    if (!(await inPieces(host, remembersMoreThan(walked.run.root, MAX_RUN_SIZE)))) return walked
    const at = currentState(run.root).path
    const end = runFailure(at, 'RuntimeError', 'RUNTIME_TOO_LARGE', 'the run has more data than can be kept')
    const lostJobs = awaitedJobs(run.root)
    return { ...walked, run: endRun(run, end, now()), jobs: [], lostJobs, calls: [], schedules: [], compensate: false }
  }

  async #answer(asked: Exclude<Ask, { ask: 'turn' }>, { deadlineAt }: Run): Promise<unknown> {
    const { checkers, expressions } = this.#context
    if (asked.ask === 'misfit') return checkers.misfitOf(asked.schema, asked.value)?.[0]?.message ?? null
    if (asked.ask === 'scheduled') {
      const { id } = asked
      return (await this.#context.read((reads) => reads.doc(RUN_SCHEDULE.kind, id))) !== null
    }
    const { lang, expr } = asked.expression
    const terms = { budgetMs: budgetLeft(deadlineAt, this.#context.now()) }
    try {
      return asked.ask === 'holds'
        ? await expressions.holds(lang, expr, asked.document, terms)
        : await expressions.evaluate(lang, expr, asked.document, terms)
    } catch (error) {
      if (error instanceof ExpressionError) throw new RunFault(error.code, error.message, error)
      throw error
    }
  }
}
