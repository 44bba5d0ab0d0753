/**
 * JSONata behind a guard. Three things surround an evaluation:
 *
 *   before   the text is limited, parsed, and its tree inspected (`syntax.ts`)
 *   within   hooks at every node count, look at the clock and weigh (`meter.ts`); functions go through `calls.ts`, and the
 *            frame of the evaluation makes the lists and the regular expressions (`evaluation.ts`)
 *   after    the result is copied into plain JSON (`plain.ts`)
 */
import { ExpressionError } from '../engine/expressions.ts'
import { guarded, type Body } from './calls.ts'
import { evaluationOf, furnish, isFurnished, type Evaluation } from './evaluation.ts'
import { expressionError } from './failure.ts'
import {
  MAX_BRACKETS,
  MAX_COMPARED,
  MAX_DOTS,
  MAX_PARENTS,
  MAX_STRING,
  MAX_TEXT,
  type EvaluationLimits,
} from './limits.ts'
import { LIST_FUNCTIONS } from './list-functions.ts'
import { isFunction, Meter } from './meter.ts'
import { ENTRY, EXIT, FUNCTIONS, parse, type EntryHook, type ExitHook, type Jsonata } from './natives.ts'
import { copied, ownDocument, plainResult } from './plain.ts'
import { inspect, MARKS, marksOf } from './syntax.ts'
import { TEXT_FUNCTIONS } from './text-functions.ts'
import { TIME_FUNCTIONS } from './time-functions.ts'

const BODIES: Readonly<Record<string, Body>> = { ...TEXT_FUNCTIONS, ...LIST_FUNCTIONS, ...TIME_FUNCTIONS }

/** All an evaluation takes from outside. */
export interface EvaluationTerms {
  readonly monotonicMs: () => number
  /** When it must be done, by that clock. */
  readonly deadlineMs: number
  /** When it must be done even if the machine stood still. */
  readonly latestMs: number
  readonly budgetMs: number
  readonly nowMs: number
  readonly random: () => number
  readonly limits: EvaluationLimits
}

const DEFINITIONS = FUNCTIONS.map((name) => [name, guarded(name, BODIES[name])] as const)

export class CompiledExpression {
  readonly #expression: Jsonata
  readonly #literals: ReadonlySet<string>
  /** Of its tree. */
  readonly nodes: number
  #beginning: Evaluation | undefined

  constructor(text: string) {
    try {
      checkText(text)
      this.#expression = parse(text)
      const { literals, nodes } = inspect(this.#expression.ast())
      this.#literals = literals
      this.nodes = nodes
    } catch (error) {
      const failure = expressionError(error)
      // The parser knows no time: the one limit it can reach is that of the stack.
      if (failure.code !== 'JN_MAX_EVAL_TIME_EXCEEDED') throw failure
      throw new ExpressionError('JN_PARSE_ERROR', 'The expression is nested too deeply.', failure.position, failure)
    }
    for (const [name, definition] of DEFINITIONS) this.#expression.assign(name, definition)
    this.#expression.assign(ENTRY, this.#enter)
    this.#expression.assign(EXIT, leave)
  }

  async evaluate(document: unknown, terms: EvaluationTerms): Promise<unknown> {
    const meter = new Meter(terms)
    try {
      const input = ownDocument(document, meter)
      // The first node is entered before `evaluate` is back: there its frame is furnished.
      this.#beginning = { meter, nowMs: terms.nowMs, random: terms.random, cloned: new WeakSet() }
      const value = await this.#expression.evaluate(input)
      return plainResult(value, meter, terms.limits)
    } catch (error) {
      throw expressionError(error, this.#literals)
    } finally {
      // Whatever is still on its way ends at its next step.
      meter.end()
    }
  }

  readonly #enter: EntryHook = (_node, _input, { base }) => {
    if (this.#beginning !== undefined && !isFurnished(base)) furnish(base, this.#beginning)
    this.#beginning = undefined
    evaluationOf(base).meter.enter()
  }
}

const leave: ExitHook = (node, _input, { base }, result) => {
  const { meter, cloned } = evaluationOf(base)
  meter.leave()
  meter.work(1)
  const marks = marksOf(node)
  if (marks === 0) return
  if ((marks & MARKS.weigh) !== 0) {
    const weight = meter.weigh(result)
    if (typeof result === 'string') meter.allocate(weight)
  }
  if ((marks & MARKS.concatenated) !== 0) meter.weigh(result, MAX_STRING)
  if ((marks & MARKS.compared) !== 0 && typeof result === 'object') meter.weigh(result, MAX_COMPARED)
  // A real function under the name `then` would make a promise of an object, and `toJSON` be called by others.
  if ((marks & MARKS.member) !== 0 && typeof result === 'function')
    throw new ExpressionError('JN_TYPE_MISMATCH', 'A regular expression or passed function cannot be a member.')
  if ((marks & MARKS.pattern) !== 0) checkFound(result, cloned)
  if ((marks & MARKS.update) !== 0) detach(result, meter)
}

/** Before the parser: some texts take it quadratic time, and it cannot be interrupted. */
function checkText(text: string): void {
  const refused = (what: string): ExpressionError => new ExpressionError('JN_PARSE_ERROR', `The expression ${what}.`)
  if (text.length > MAX_TEXT) throw refused(`is longer than ${String(MAX_TEXT)} characters`)
  const limited = { '.': MAX_DOTS, '[': MAX_BRACKETS, '%': MAX_PARENTS }
  const counts = new Map<string, number>()
  for (const char of text) if (char in limited) counts.set(char, (counts.get(char) ?? 0) + 1)
  for (const [char, most] of Object.entries(limited)) {
    if ((counts.get(char) ?? 0) > most) throw refused(`has the character ${char} more than ${String(most)} times`)
  }
}

/** A transform writes into what its pattern finds: that must be objects of the copy it was given, and never a function. */
function checkFound(found: unknown, cloned: WeakSet<object>): void {
  for (const item of Array.isArray(found) ? (found as unknown[]) : [found]) {
    if (Array.isArray(item) || isFunction(item))
      throw new ExpressionError('JN_TYPE_MISMATCH', 'A transform can only change objects.')
    if (typeof item === 'object' && item !== null && !cloned.has(item))
      throw new ExpressionError('JN_TYPE_MISMATCH', 'A transform can only change the copy of what it was given.')
  }
}

/** What a transform writes is copied, so that no object ever comes to contain itself. */
function detach(update: unknown, meter: Meter): void {
  meter.forget()
  if (typeof update !== 'object' || update === null || Array.isArray(update) || isFunction(update)) return
  meter.allocate(4 * meter.weigh(update))
  const members = update as Record<string, unknown>
  for (const key of Object.keys(members)) {
    if (key === '__proto__') throw new ExpressionError('JN_UNSUPPORTED_SYNTAX', 'A transform cannot write __proto__.')
    members[key] = copied(members[key], { meter, functions: 'refused' })
  }
  meter.forget()
}
