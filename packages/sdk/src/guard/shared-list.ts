/**
 * The attempts that beats list, in memory that a worker shares with the thread of its guard. Most attempts begin and end
 * between two beats: they are written here and taken away again, and the thread of the guard need not wake for them.
 *
 *   worker (`ListWriter`)   takes a free slot, writes the attempt into it, then sets its mark; clears the mark at the end
 *   guard (`ListReader`)    reads all slots when it sends a beat
 *
 * A slot that changes while it is read is passed over: its attempt has just ended, or has just begun. The slot that was free
 * for the longest time is taken first, so no slot is written again soon after it was cleared.
 *
 * The header counts the attempts that the worker has announced to the guard, here and by messages. An answered beat vouches for the first so
 * many of them (`beat-list.ts`), so `begun` is read before the slots are, and an attempt is written before it is counted.
 */
import { keyOf } from '../attempt/report.ts'

/** An attempt as a beat lists it. */
export interface Listed {
  readonly key: string
  readonly jobId: string
  readonly lease: number
}

/** Each with a mark, the length of the id, the lease and the id. Attempts beyond these go by messages. */
const SLOTS = 1_024
const MAX_ID = 48
const SLOT_BYTES = 16 + MAX_ID
const HEADER_BYTES = 16
const BYTES = HEADER_BYTES + SLOTS * SLOT_BYTES
/** Places in the header. */
const BEGUN = 0
const POSTED = 1
const USED = 2

interface Memory {
  readonly words: Int32Array
  readonly leases: Float64Array
  readonly bytes: Uint8Array
}

const memoryIn = (buffer: SharedArrayBuffer): Memory => ({
  words: new Int32Array(buffer),
  leases: new Float64Array(buffer),
  bytes: new Uint8Array(buffer),
})

const startOf = (slot: number): number => HEADER_BYTES + slot * SLOT_BYTES

export class ListWriter {
  readonly buffer = new SharedArrayBuffer(BYTES)
  readonly #memory = memoryIn(this.buffer)
  readonly #slots = new Map<string, number>()
  /** A ring of the free slots, from the one that was free for the longest time on. */
  readonly #free = Int32Array.from({ length: SLOTS }, (_, slot) => slot)
  #firstFree = 0
  #begun: number
  #posted = 0
  #used = 0

  /** `begun`: how many attempts there were before. */
  constructor(begun = 0) {
    this.#begun = begun
    Atomics.store(this.#memory.words, BEGUN, begun)
  }

  /** False: it does not fit, and goes by a message. */
  add({ key, jobId, lease }: Listed): boolean {
    if (this.#slots.size === SLOTS || jobId.length > MAX_ID || this.#slots.has(key)) return false
    const slot = this.#free[this.#firstFree] ?? 0
    const { words, leases, bytes } = this.#memory
    const start = startOf(slot)
    for (let at = 0; at < jobId.length; at += 1) {
      const code = jobId.charCodeAt(at)
      if (code > 127) return false
      bytes[start + 16 + at] = code
    }
    words[start / 4 + 1] = jobId.length
    leases[start / 8 + 1] = lease
    this.#firstFree = (this.#firstFree + 1) % SLOTS
    this.#slots.set(key, slot)
    if (slot >= this.#used) {
      this.#used = slot + 1
      Atomics.store(words, USED, this.#used)
    }
    this.#begun += 1
    Atomics.store(words, start / 4, markOf(this.#begun))
    Atomics.store(words, BEGUN, this.#begun)
    return true
  }

  has(key: string): boolean {
    return this.#slots.has(key)
  }

  /** False: it is not in the list. */
  remove(key: string): boolean {
    const slot = this.#slots.get(key)
    if (slot === undefined) return false
    Atomics.store(this.#memory.words, startOf(slot) / 4, 0)
    this.#free[(this.#firstFree + SLOTS - this.#slots.size) % SLOTS] = slot
    this.#slots.delete(key)
    return true
  }

  /** An attempt goes to the guard by a message. `isNew`: it is not in the list. */
  posts(isNew: boolean): void {
    this.#posted += 1
    Atomics.store(this.#memory.words, POSTED, this.#posted)
    if (!isNew) return
    this.#begun += 1
    Atomics.store(this.#memory.words, BEGUN, this.#begun)
  }
}

/** A mark for the attempt with this number. None is 0, which marks a free slot. */
const markOf = (begun: number): number => begun | 0 || 1

export class ListReader {
  readonly #memory: Memory
  #begun: number
  #complete: number

  /** `begun`: how many attempts there were before. */
  constructor(buffer: SharedArrayBuffer, begun = 0) {
    this.#memory = memoryIn(buffer)
    this.#begun = begun
    this.#complete = begun
  }

  /**
   * The guard knows the first so many of the announced attempts, so far as they have not ended. `received`: how many
   * messages about attempts it has read.
   */
  begun(received: number): number {
    const { words } = this.#memory
    // The memory holds the lowest 32 bits. Between two looks fewer than 2³¹ attempts begin, so the difference is exact.
    this.#begun += (Atomics.load(words, BEGUN) - this.#begun) | 0
    if (Atomics.load(words, POSTED) === (received | 0)) this.#complete = this.#begun
    return this.#complete
  }

  read(): Listed[] {
    const { words, leases, bytes } = this.#memory
    const listed: Listed[] = []
    const used = Atomics.load(words, USED)
    for (let slot = 0; slot < used; slot += 1) {
      const start = startOf(slot)
      const mark = Atomics.load(words, start / 4)
      if (mark === 0) continue
      const lease = leases[start / 8 + 1] ?? 0
      const jobId = String.fromCharCode(...bytes.subarray(start + 16, start + 16 + (words[start / 4 + 1] ?? 0)))
      if (Atomics.load(words, start / 4) !== mark) continue
      listed.push({ key: keyOf({ jobId, attempt: 0, lease }), jobId, lease })
    }
    return listed
  }
}
