/**
 * Which names become labels of metrics. Callers choose the names of queues and types, so without a bound they choose how
 * long the text of the metrics is. The first names that are seen keep series of their own for as long as the server runs;
 * everything after them is counted together. First, not largest: a counter that has begun goes on, and never falls back
 * because another name became larger.
 */
export const MAX_SERIES = 200
/** The label of everything that has no series of its own. */
export const OTHER = 'other'

export class Series {
  readonly #known = new Set<string>()
  readonly #max: number

  constructor(max = MAX_SERIES) {
    this.#max = max
  }

  /** The label for this name. */
  of(name: string): string {
    return this.#knows(name) ? name : OTHER
  }

  /** The labels for two names that go together; either both are named or neither is. */
  pair(first: string, second: string): readonly [string, string] {
    return this.#knows(`${first} ${second}`) ? [first, second] : OTHERS
  }

  #knows(key: string): boolean {
    if (this.#known.has(key)) return true
    if (this.#known.size >= this.#max) return false
    this.#known.add(key)
    return true
  }
}

const OTHERS = [OTHER, OTHER] as const
