/** Bounds how many wrong tokens are compared with the one of the command line, which a person may have chosen. */
import type { Host } from '@curfew/core'

const MAX_AT_ONCE = 200
const PER_SECOND = 20

export class Guesses {
  readonly #host: Pick<Host, 'monotonicMs'>
  #left = MAX_AT_ONCE
  #refilledMs: number

  constructor(host: Pick<Host, 'monotonicMs'>) {
    this.#host = host
    this.#refilledMs = host.monotonicMs()
  }

  mayLook(): boolean {
    const nowMs = this.#host.monotonicMs()
    this.#left = Math.min(MAX_AT_ONCE, this.#left + ((nowMs - this.#refilledMs) * PER_SECOND) / 1_000)
    this.#refilledMs = nowMs
    return this.#left >= 1
  }

  wrong(): void {
    this.#left -= 1
  }
}
