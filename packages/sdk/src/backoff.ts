/** How long to leave a server alone that did not answer: longer each time, and never all workers at once. */
import { millis, type Millis, type Random } from '@curfew/core'

const FIRST_MS = 250
const LONGEST_MS = 15_000

export class Backoff {
  readonly #random: Random
  #failures = 0

  constructor(random: Random) {
    this.#random = random
  }

  get isTroubled(): boolean {
    return this.#failures > 0
  }

  next(): Millis {
    const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures)
    this.#failures += 1
    return millis(Math.round(longest * (0.5 + this.#random() / 2)))
  }

  reset(): void {
    this.#failures = 0
  }
}
