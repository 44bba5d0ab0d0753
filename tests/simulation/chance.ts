/** Chance that can be repeated. Everything a run decides comes from one seed; each part that needs chance gets a fork of it. */
import { seededRandom, type Random } from '@curfew/core'

export class Chance {
  readonly unit: Random

  constructor(seed: number) {
    this.unit = seededRandom(seed)
  }

  /** A chance of its own, so that one actor's draws do not shift another's. */
  fork(): Chance {
    return new Chance(Math.floor(this.unit() * 2 ** 32))
  }

  happens(probability: number): boolean {
    return this.unit() < probability
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.unit() * (most - least + 1))
  }

  /** A length on a coarse grid, so that limits, beats and answers often fall into the same millisecond. */
  length(leastMs: number, mostMs: number, gridMs = 250): number {
    return Math.max(1, Math.round(this.between(leastMs, mostMs) / gridMs) * gridMs)
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.between(0, items.length - 1)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }

  weighted<T>(choices: readonly (readonly [weight: number, choice: T])[]): T {
    let left = this.unit() * choices.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, choice] of choices) {
      left -= weight
      if (left < 0) return choice
    }
    return this.pick(choices)[1]
  }
}
