/**
 * Calls whose result is no longer needed are aborted here, a few at a time. What is due is decided first: when the time
 * of many runs is up at once, closing their sockets takes longer than ending the runs, and must not make them late.
 */
import type { JourneysContext } from './context.ts'
import type { Turns } from './turns.ts'

/** Calls are broken off after this time, whether or not the store could decide by then. */
const MAX_WAIT_MS = 250

export class Aborts {
  readonly #context: JourneysContext
  readonly #turns: Turns
  #waiting: (() => void)[] = []
  #isDraining = false

  constructor(context: JourneysContext, turns: Turns) {
    this.#context = context
    this.#turns = turns
  }

  readonly add = (abort: () => void): void => {
    this.#waiting.push(abort)
    if (this.#isDraining) return
    this.#isDraining = true
    void this.#drain()
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#settled()
      const aborts = this.#waiting
      this.#waiting = []
      for (const abort of aborts) {
        const turn = this.#turns.next()
        if (turn !== null) await turn
        abort()
      }
    }
    this.#isDraining = false
  }

  /** What is due has been decided, or it takes too long. */
  async #settled(): Promise<void> {
    let stop = (): void => {}
    const late = new Promise<void>((resolve) => {
      const timer = this.#context.host.setTimer(MAX_WAIT_MS, resolve)
      stop = () => {
        timer.cancel()
      }
    })
    await Promise.race([this.#context.settled().catch(() => {}), late])
    stop()
  }
}
