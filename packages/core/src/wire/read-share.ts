/** How many entries of a list are read before the reader lets others go first. */
const ENTRIES_AT_ONCE = 100
/** And how much text they have, unless one entry has more. */
export const CHARS_AT_ONCE = 16 * 1024

/** Counts what was read of a list, and says when its reader should yield. */
export class ReadShare {
  #entries = 0
  #chars = 0

  add(chars: number): void {
    this.#entries += 1
    this.#chars += chars
  }

  /** Asked before each entry; begins the next share where this one is used up. */
  isUsedUp(): boolean {
    if (this.#entries < ENTRIES_AT_ONCE && this.#chars < CHARS_AT_ONCE) return false
    this.#entries = 0
    this.#chars = 0
    return true
  }
}
