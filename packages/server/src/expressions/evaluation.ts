/**
 * One evaluation, and how JSONata is made to serve it: the frame it begins with is furnished before anything is evaluated.
 * A compiled expression itself keeps nothing of an evaluation, so what is left of one that failed can never meet the next.
 */
import { MAX_ITEMS } from './limits.ts'
import type { Meter } from './meter.ts'
import type { Base } from './natives.ts'
import { regexEngine } from './regex.ts'

export interface Evaluation {
  readonly meter: Meter
  readonly nowMs: number
  readonly random: () => number
  /** Objects made by $clone: the only ones a transform may change. */
  readonly cloned: WeakSet<object>
}

const GUARD = Symbol('the evaluation a frame belongs to')

type Furnished = Base & { [GUARD]?: Evaluation }

export const isFurnished = (base: Base): boolean => (base as Furnished)[GUARD] !== undefined

export function evaluationOf(base: Base): Evaluation {
  const evaluation = (base as Furnished)[GUARD]
  if (evaluation === undefined) throw new Error('a function was called outside an evaluation')
  return evaluation
}

export function furnish(base: Base, evaluation: Evaluation): void {
  const { meter } = evaluation
  ;(base as Furnished)[GUARD] = evaluation
  // It was the wall clock; $toMillis fills in from it what a picture leaves out.
  base.timestamp = new Date(evaluation.nowMs)
  base.RegexEngine = regexEngine(meter)
  base.options = { sequence: MAX_ITEMS }
  base.createSequence = sequences(meter)
}

type Sequence = unknown[] & { sequence?: true }

/** The lists JSONata collects results in. They are lists with a mark, and with limits. */
function sequences(meter: Meter): Base['createSequence'] {
  function push(this: Sequence, ...items: unknown[]): number {
    meter.work(1)
    if (this.length + items.length > MAX_ITEMS) throw Object.assign(new Error(), { code: 'D2015' })
    return Array.prototype.push.apply(this, items)
  }
  return (...first) => {
    meter.work(1)
    const sequence: Sequence = []
    sequence.push = push
    sequence.sequence = true
    if (first.length === 1) sequence.push(first[0])
    return sequence
  }
}
