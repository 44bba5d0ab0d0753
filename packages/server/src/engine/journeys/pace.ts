/**
 * How fast a run is taken on. A run enters so many states per second (core/journey/limits.ts), a second's worth of them
 * at once. And since every save of a wide run writes all of its branches, the answers of its calls are heard together:
 * not before a while after the last save that grows with its branches, unless nothing more can be answered.
 */
import { stepRate } from '@curfew/core'

/** Runs with fewer branches hear each answer at once. */
const WIDE = 64
/** Of each branch; saving one takes about a hundredth of it. */
const REST_PER_BRANCH_MS = 0.05
const IN_ADVANCE_MS = 1_000

export class Pace {
  /** When the states that were entered are paid for, at the rate of the run. */
  #paidAtMs = 0
  #savedAtMs = 0

  /** A step was saved. */
  saved(steps: number, branches: number, nowMs: number): void {
    this.#paidAtMs = Math.max(this.#paidAtMs, nowMs) + (1_000 * steps) / stepRate(branches)
    this.#savedAtMs = nowMs
  }

  /** How long to wait before the next state is entered. */
  untilStepMs(nowMs: number): number {
    return Math.max(0, this.#paidAtMs - IN_ADVANCE_MS - nowMs)
  }

  /** How long to wait for more answers. */
  untilAnswersMs(branches: number, nowMs: number): number {
    return branches <= WIDE ? 0 : Math.max(0, this.#savedAtMs + branches * REST_PER_BRANCH_MS - nowMs)
  }
}
