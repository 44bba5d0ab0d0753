/** Counts received bytes that were not processed yet, over all connections, against one bound. */
export class HeldBytes {
  readonly #max: number
  #held = 0

  constructor(max: number) {
    this.#max = max
  }

  get bytes(): number {
    return this.#held
  }

  get isFull(): boolean {
    return this.#held >= this.#max
  }

  /** False, and nothing is counted, where it would exceed the bound. */
  take(bytes: number): boolean {
    if (this.#held + bytes > this.#max) return false
    this.#held += bytes
    return true
  }

  /** Counts what is there already, even beyond the bound; a negative number gives it back. */
  change(bytes: number): void {
    this.#held += bytes
  }
}
