/**
 * One evaluation at a time. An evaluation never waits for anything, it only takes turns with itself, so two of them side
 * by side would take as long, and the longer would use up the other's time. After a few milliseconds the others of the
 * process get their turn first: timers fire and requests are read, however many expressions are waiting.
 */
import type { Host } from '@curfew/core'

const TURN_MS = 10

export class Lane {
  readonly #host: Host
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #turnSince: number | undefined

  constructor(host: Host) {
    this.#host = host
  }

  /** Runs `task` when those before it are done. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    const before = this.#last
    this.#waiting += 1
    const mine = this.#waiting === 1 ? this.#inTurn(task) : before.then(() => this.#inTurn(task))
    this.#last = mine.catch(() => undefined)
    try {
      return await mine
    } finally {
      this.#waiting -= 1
    }
  }

  async #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const nowMs = this.#host.monotonicMs()
    if (this.#turnSince === undefined) {
      this.#turnSince = nowMs
      this.#host.defer(() => (this.#turnSince = undefined))
    } else if (nowMs - this.#turnSince >= TURN_MS) {
      await new Promise<void>((resolve) => {
        this.#host.defer(resolve)
      })
      this.#turnSince = this.#host.monotonicMs()
      this.#host.defer(() => (this.#turnSince = undefined))
    }
    return task()
  }
}
