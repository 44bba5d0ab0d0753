/**
 * Slots that were read before, packed. Reading a day of series takes milliseconds; parsing its documents takes a hundred times
 * as long, and a board asks again and again. A document is known by its version, so one that was saved anew is parsed anew.
 * What was not read for longest leaves first.
 */
import { packedSize, packTally, readDoc, type Doc, type PackedTally, type Slot } from '@curfew/core'

/** So many numbers are held: some 30 MB. */
const MAX_SIZE = 2_000_000

interface Held {
  readonly version: number
  readonly tally: PackedTally
  readonly size: number
}

export class SlotCache {
  readonly #maxSize: number
  readonly #held = new Map<string, Held>()
  #size = 0

  constructor(maxSize = MAX_SIZE) {
    this.#maxSize = maxSize
  }

  /** Null: it must be parsed. */
  known(doc: Doc): PackedTally | null {
    const key = keyOf(doc)
    const held = this.#held.get(key)
    if (held?.version !== doc.version) return null
    this.#held.delete(key)
    this.#held.set(key, held)
    return held.tally
  }

  parsed(doc: Doc): PackedTally {
    const key = keyOf(doc)
    const tally = packTally(readDoc<Slot>(doc).tally)
    const size = packedSize(tally)
    this.#drop(key)
    this.#held.set(key, { version: doc.version, tally, size })
    this.#size += size
    for (const oldest of this.#held.keys()) {
      if (this.#size <= this.#maxSize) break
      this.#drop(oldest)
    }
    return tally
  }

  clear(): void {
    this.#held.clear()
    this.#size = 0
  }

  #drop(key: string): void {
    const held = this.#held.get(key)
    if (held === undefined) return
    this.#held.delete(key)
    this.#size -= held.size
  }
}

const keyOf = ({ kind, id }: Doc): string => `${kind} ${id}`
