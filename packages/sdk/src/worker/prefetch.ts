/**
 * How many jobs a worker takes beyond its slots, so that a slot need not wait for a call to the server.
 *
 * The buffer has room only while both hold: handlers end quickly, and the server has more jobs than it was asked for.
 * - The mean length of handlers says how many jobs the slots get through within `DRAIN_MS`. No more are buffered.
 * - An answer that brings all it was asked for doubles the buffer; one that brings fewer halves it. So a worker without a
 *   backlog takes no more than its free slots, and leaves the rest to other workers.
 *
 * How long one job may stay in the buffer is decided for each job by its own clocks (`bufferMs`).
 */
import { millis, type Millis } from '@curfew/core'
import type { Terms } from '../attempt/terms.ts'

/** The largest buffer by default is so many times the concurrency, within these bounds. */
const BUFFERED_PER_SLOT = 10
const MIN_DEFAULT = 250
const MAX_DEFAULT = 500
/** The slots should get through the whole buffer within this. */
const DRAIN_MS = 50
/** The first buffer of a worker with few slots. */
const FIRST = 8
/** How much the newest handler counts in the mean. */
const WEIGHT = 1 / 16
/** A job stays in the buffer for no more than this, and no more than this part of its shortest clock. */
const MAX_BUFFER_MS = 1_000
const PART_OF_CLOCK = 1 / 10
/** Longer times in the buffer are believed again step by step after a job with a short clock. */
const RELAX = 1.1

/** The largest buffer of a worker that does not set one. Isolates run long handlers: nothing is taken in advance for them. */
export function defaultPrefetch(concurrency: number, hasIsolates: boolean): number {
  if (hasIsolates) return 0
  return Math.max(MIN_DEFAULT, Math.min(MAX_DEFAULT, BUFFERED_PER_SLOT * concurrency))
}

/** How long a job with these terms may wait in the buffer. */
export function bufferMs({ startedAt, softAt, stallMs, visibilityMs }: Terms): Millis {
  const clockMs = Math.min(softAt - startedAt, stallMs ?? Infinity, visibilityMs ?? Infinity)
  return millis(Math.min(MAX_BUFFER_MS, clockMs * PART_OF_CLOCK))
}

export class Prefetch {
  readonly #concurrency: number
  /** The largest buffer. 0: none. */
  max = 0
  #grown = 0
  #meanMs: number | null = null
  /** The shortest time that jobs may wait here, of those seen lately. */
  #patienceMs = MAX_BUFFER_MS

  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** How many jobs may be held beyond those that run. */
  get depth(): number {
    const drainMs = Math.min(DRAIN_MS, this.#patienceMs / 2)
    if (this.#meanMs === null || this.#meanMs > drainMs) return 0
    const inTime = Math.floor((this.#concurrency * drainMs) / Math.max(this.#meanMs, 0.001))
    return Math.min(this.max, this.#grown, inTime)
  }

  /** A handler ended after so long. */
  ran(ms: number): void {
    this.#meanMs = this.#meanMs === null ? ms : this.#meanMs + (ms - this.#meanMs) * WEIGHT
  }

  /** A job arrived that may wait for so long. */
  arrived(ms: number): void {
    this.#patienceMs = Math.min(ms, this.#patienceMs * RELAX)
  }

  /** A call that asked for jobs was answered. */
  brought(asked: number, jobs: number): void {
    if (jobs >= asked) this.#grown = Math.min(this.max, Math.max(FIRST, this.#concurrency, this.#grown * 2))
    else this.#grown = Math.floor(this.#grown / 2)
  }

  /** A job waited for so long that it had to go back: the buffer was larger than the slots could empty. */
  waitedTooLong(): void {
    this.#grown = 0
  }
}
