/**
 * Expressions evaluated in the process of the server: the default. It can be blocked for as long as one evaluation may
 * take, and no longer, whatever the expression; what makes that true is in `jsonata.ts`.
 */
import type { Clock, Host, Random } from '@curfew/core'
import { ExpressionError, type EvaluationTerms, type Expressions } from '../engine/expressions.ts'
import { CompiledExpressions } from './compiled.ts'
import { CompiledExpression } from './jsonata.ts'
import { checkedText, checkLanguage, truth } from './languages.ts'
import { Lane } from './lane.ts'
import { checkedLimits, tooMuch, type EvaluationLimits } from './limits.ts'
import { MAX_STANDSTILL_MS } from './meter.ts'

export interface ExpressionPorts {
  readonly host: Host
  readonly clock: Clock
  readonly random: Random
}

export class InProcessExpressions implements Expressions {
  readonly #ports: ExpressionPorts
  readonly #limits: EvaluationLimits
  readonly #lane: Lane
  readonly #compiled = new CompiledExpressions()
  #isClosed = false

  constructor(ports: ExpressionPorts, limits: Partial<EvaluationLimits> = {}) {
    this.#ports = ports
    this.#limits = checkedLimits(limits)
    this.#lane = new Lane(ports.host)
  }

  async check(lang: unknown, text: unknown): Promise<void> {
    checkLanguage(lang)
    const expression = checkedText(text)
    await this.#lane.run(async () => {
      this.#compile(expression)
    })
  }

  async evaluate(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<unknown> {
    checkLanguage(lang)
    const expression = checkedText(text)
    const giveUpAtMs = this.#ports.host.monotonicMs() + terms.budgetMs
    return this.#lane.run(async () => {
      if (this.#isClosed) throw new ExpressionError('JN_ENGINE_INTERNAL_ERROR', 'The server is closing.')
      return this.#within(this.#compile(expression), document, giveUpAtMs)
    })
  }

  async holds(lang: string, text: string, document: unknown, terms: EvaluationTerms): Promise<boolean> {
    return truth(await this.evaluate(lang, text, document, terms))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#lane.run(async () => {
      this.#compiled.clear()
    })
  }

  /** Its time begins now, unless the caller's time ends before. */
  async #within(compiled: CompiledExpression, document: unknown, giveUpAtMs: number): Promise<unknown> {
    const { host, clock, random } = this.#ports
    const startedMs = host.monotonicMs()
    const deadlineMs = Math.min(startedMs + this.#limits.maxEvalMs, giveUpAtMs)
    const budgetMs = deadlineMs - startedMs
    if (!(budgetMs > 0)) throw tooMuch('There is no time left for the expression.')
    const evaluated = compiled.evaluate(document, {
      ...{ monotonicMs: () => host.monotonicMs(), deadlineMs, latestMs: giveUpAtMs, budgetMs },
      ...{ nowMs: clock.now(), random, limits: this.#limits },
    })
    return this.#unlessStuck(evaluated, budgetMs)
  }

  /** An evaluation that waited for anything would wait for ever. There is no known way to write one; this is the net. */
  #unlessStuck(evaluated: Promise<unknown>, budgetMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = this.#ports.host.setTimer(budgetMs + MAX_STANDSTILL_MS + 1, () => {
        reject(tooMuch(`The expression took longer than ${String(Math.round(budgetMs))} ms.`))
      })
      void evaluated.then(resolve, reject).finally(() => {
        timer.cancel()
      })
    })
  }

  #compile(text: string): CompiledExpression {
    return this.#compiled.get(text) ?? this.#compiled.keep(text, new CompiledExpression(text))
  }
}
