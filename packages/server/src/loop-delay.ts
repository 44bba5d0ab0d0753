/**
 * How late this process comes to what it has to do. A timer tells: by how much it fires after its time. While the event
 * loop is busy it fires a hundred times a second; while there is nothing to do its rests double, up to a second, so that
 * an idle server sleeps.
 */
import { ALWAYS_IDLE, type Host, type Timer } from '@curfew/core'

const SHORTEST_REST_MS = 10
const MAX_REST_MS = 1_000
/** From this share of the time on the event loop counts as busy. */
const BUSY = 0.02

/** A histogram of nanoseconds. */
export interface Delays {
  readonly count: number
  record(ns: number): void
  percentile(percentile: number): number
  reset(): void
}

export class LoopDelay {
  readonly #host: Pick<Host, 'monotonicMs' | 'setTimer'>
  /** The share of the time since the last call in which the event loop worked. */
  readonly #utilization: () => number
  readonly #delays: Delays
  #timer: Timer | null = null
  #restMs = SHORTEST_REST_MS

  constructor(host: Pick<Host, 'monotonicMs' | 'setTimer'>, delays: Delays, utilization: () => number) {
    this.#host = host
    this.#delays = delays
    this.#utilization = utilization
    this.#rest()
  }

  /** Since the last reset. */
  seconds(quantile: number): number {
    return this.#delays.count === 0 ? 0 : this.#delays.percentile(quantile * 100) / 1e9
  }

  reset(): void {
    this.#delays.reset()
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #rest(): void {
    const dueMs = this.#host.monotonicMs() + this.#restMs
    const wake = (): void => {
      this.#delays.record(Math.max(1, Math.round((this.#host.monotonicMs() - dueMs) * 1e6)))
      const isBusy = this.#utilization() >= BUSY
      this.#restMs = isBusy ? SHORTEST_REST_MS : Math.min(MAX_REST_MS, 2 * this.#restMs)
      this.#rest()
    }
    this.#timer = this.#host.setTimer(this.#restMs, wake, ALWAYS_IDLE)
  }
}
