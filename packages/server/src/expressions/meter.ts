/**
 * What one evaluation has used so far. It is asked at every node of the expression and by every function, and it ends
 * the evaluation by throwing. Once it is over, whatever is still on its way (the other members of an array of which one
 * has failed, for instance) throws at its next step.
 *
 * Time is monotonic and looked at every few units of work. Where much of it is gone between two looks, the machine stood
 * still (a container that had used up its share, a host that was busy elsewhere), and the expression is not to blame: up
 * to a bound, that is not counted. Values are weighed: an expression can build, out of few
 * objects that contain each other many times, a tree that no function would ever be done with. So whatever is built is
 * weighed as a tree, and what was weighed is remembered. A value that is only picked out of another adds no weight.
 */
import {
  MAX_ALLOCATION,
  MAX_DEPTH,
  MAX_PENDING,
  MAX_STRING,
  MAX_WEIGHT,
  MAX_WORK,
  STEP,
  tooLarge,
  tooMuch,
} from './limits.ts'
import { ExpressionError } from '../engine/expressions.ts'

/** How much work is done between two looks at the clock: about 20 nodes. */
const LOOK_EVERY = 2_000

/** No piece of work between two looks takes as long, whatever the expression. */
const MAX_PIECE_MS = 40
/** So much of the time in which the machine stood still is not counted. */
export const MAX_STANDSTILL_MS = 100

/** Two numbers in one, because there is one for each array and object: weight, and depth below 512. */
const measure = (weight: number, depth: number): number => weight * 512 + depth
const weightOf = (measured: number): number => Math.floor(measured / 512)
const depthOf = (measured: number): number => measured % 512

export interface MeterTerms {
  readonly monotonicMs: () => number
  readonly deadlineMs: number
  /** The caller has no time beyond this, whatever used it. */
  readonly latestMs: number
  readonly budgetMs: number
}

export class Meter {
  readonly #terms: MeterTerms
  #work = 0
  #lookAt = LOOK_EVERY
  #lookedAtMs: number
  #standstillMs = 0
  #pending = 0
  #allocated = 0
  /** Thrown again and again once it is over: there may be thousands to end, and a new error costs what a step costs. */
  #over: ExpressionError | undefined
  #measured = new Map<object, number>()

  constructor(terms: MeterTerms) {
    this.#terms = terms
    this.#lookedAtMs = terms.monotonicMs()
  }

  /** Nothing of this evaluation goes on. */
  end(): void {
    this.#over ??= tooMuch('The evaluation is over.')
    this.#measured.clear()
  }

  /** A node of the expression is begun. */
  enter(): void {
    this.#pending += 1
    if (this.#pending > MAX_PENDING) this.#stop('The expression is nested too deeply while it runs.')
    this.work(STEP)
  }

  /** A node of the expression is done. */
  leave(): void {
    this.#pending -= 1
  }

  work(units: number): void {
    this.#work += units
    if (this.#work >= this.#lookAt || this.#over !== undefined) this.#look()
  }

  #look(): void {
    if (this.#over !== undefined) throw this.#over
    this.#lookAt = this.#work + LOOK_EVERY
    if (this.#work > MAX_WORK) this.#stop('The expression takes too many steps.')
    const { deadlineMs, latestMs, budgetMs } = this.#terms
    const nowMs = this.#terms.monotonicMs()
    const stoodStillMs = Math.max(0, nowMs - this.#lookedAtMs - MAX_PIECE_MS)
    this.#standstillMs = Math.min(MAX_STANDSTILL_MS, this.#standstillMs + stoodStillMs)
    this.#lookedAtMs = nowMs
    if (nowMs >= Math.min(latestMs, deadlineMs + this.#standstillMs))
      this.#stop(`The expression took longer than ${String(Math.round(budgetMs))} ms.`)
  }

  #stop(why: string): never {
    this.#over = tooMuch(why)
    throw this.#over
  }

  /** Something new of this size was built. */
  allocate(size: number): void {
    this.#allocated += size
    if (this.#allocated > MAX_ALLOCATION) throw tooLarge('The expression builds too much.')
    this.work(size >> 3)
  }

  /** To be asked before a string of this length is built. */
  text(length: number): void {
    if (length > MAX_STRING) throw tooLarge(`A string would be longer than ${String(MAX_STRING)} characters.`)
  }

  /** Something has been changed in place: what was measured may be wrong. */
  forget(): void {
    this.#measured.clear()
  }

  /** The weight of a value, which is refused if it is too heavy, too deep, or no number of JSON. */
  weigh(value: unknown, most = MAX_WEIGHT): number {
    const weight = weightOf(this.#measure(value, 0))
    if (weight > most) throw tooLarge('A value is too large.')
    return weight
  }

  depth(value: unknown): number {
    return depthOf(this.#measure(value, 0))
  }

  #measure(value: unknown, level: number): number {
    switch (typeof value) {
      case 'string':
        this.text(value.length)
        return measure(value.length + 2, 0)
      case 'number':
        if (!Number.isFinite(value)) throw new ExpressionError('JN_FUNCTION_ERROR', 'A number is out of range.')
        return measure(8, 0)
      case 'object':
        if (value !== null && !isFunction(value)) return this.#measureObject(value, level)
        return measure(5, 0)
      default:
        return measure(5, 0)
    }
  }

  #measureObject(value: object, level: number): number {
    const known = this.#measured.get(value)
    if (known !== undefined) return known
    // Its own cycles, if there were any, would end here too.
    if (level > MAX_DEPTH) throw tooLarge(`A value is nested more than ${String(MAX_DEPTH)} levels deep.`)
    let weight = 2
    let deepest = 0
    this.work(8)
    const add = (member: unknown, extra: number): void => {
      this.work(4)
      const measured = this.#measure(member, level + 1)
      weight += weightOf(measured) + extra
      deepest = Math.max(deepest, depthOf(measured))
      if (weight > MAX_WEIGHT) throw tooLarge('A value is too large.')
    }
    if (Array.isArray(value)) {
      for (const member of value as unknown[]) add(member, 1)
      this.allocate(value.length)
    } else {
      // Not all entries at once: an object may have a hundred thousand of them.
      for (const key of Object.keys(value)) add((value as Record<string, unknown>)[key], key.length + 4)
    }
    if (deepest >= MAX_DEPTH) throw tooLarge(`A value is nested more than ${String(MAX_DEPTH)} levels deep.`)
    const measured = measure(weight, deepest + 1)
    this.#measured.set(value, measured)
    return measured
  }
}

/** Lambdas and built-in functions are objects for JSONata; regular expressions and passed functions are functions. */
export function isFunction(value: unknown): boolean {
  if (typeof value === 'function') return true
  if (typeof value !== 'object' || value === null) return false
  const marks = value as { _jsonata_function?: unknown; _jsonata_lambda?: unknown }
  return marks._jsonata_function === true || marks._jsonata_lambda === true
}
