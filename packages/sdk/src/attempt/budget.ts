/** A time that something may take: its signal is aborted when it is over, and the promise rejects, whether or not it listens. */
import { leftUntil, type Host, type Timer } from '@curfew/core'
import { DeadlineError } from '../errors.ts'
import { timerAt } from './timer-at.ts'
import { onAbort } from '../waiting.ts'

/** While a budget runs in the grace, the end of the attempt is read again this often: it may have moved nearer. */
const REREAD_MS = 50

export class Budget {
  readonly #host: Host
  readonly #own = new AbortController()
  readonly #startedAt: number
  #endsAt: number
  #reason: Error
  #timer: Timer
  #reread: Timer | null = null

  /** `reason`: what it says when it is over. */
  constructor(host: Host, endsAt: number, reason: Error) {
    this.#host = host
    this.#startedAt = host.monotonicMs()
    this.#endsAt = endsAt
    this.#reason = reason
    this.#timer = this.#arm()
  }

  /** Ends it with the grace, if that is nearer; the end of the grace may move nearer while it runs. */
  endWith(graceEndsAt: () => number): void {
    const endsAt = graceEndsAt()
    if (endsAt < this.#endsAt) {
      this.#endsAt = endsAt
      this.#reason = new DeadlineError('grace', Math.floor(leftUntil(endsAt, this.#startedAt)), 'gracePeriod')
      this.#timer.cancel()
      this.#timer = this.#arm()
    }
    this.#reread = this.#host.setTimer(REREAD_MS, () => {
      this.endWith(graceEndsAt)
    })
  }

  /** Ends it with the signal, if that comes first. */
  async runUntil<T>(
    signal: AbortSignal,
    reasonFor: (stopped: Error) => Error,
    run: (signal: AbortSignal) => T | Promise<T>,
  ): Promise<T> {
    const unhook = onAbort([signal], () => {
      this.abort(reasonFor(signal.reason as Error))
    })
    try {
      return await this.run(run)
    } finally {
      unhook()
    }
  }

  abort(reason: unknown): void {
    this.#own.abort(reason)
  }

  async run<T>(run: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    const { signal } = this.#own
    try {
      const stopped = new Promise<never>((_, reject) => {
        onAbort([signal], () => {
          // The reason is always one of our own errors.
          reject(signal.reason as Error)
        })
      })
      const result = await Promise.race([(async () => run(signal))(), stopped])
      // A busy `run` lets no timer fire: late is late all the same.
      if (leftUntil(this.#endsAt, this.#host.monotonicMs()) === 0) this.abort(this.#reason)
      if (signal.aborted) throw signal.reason
      return result
    } finally {
      this.#timer.cancel()
      this.#reread?.cancel()
    }
  }

  #arm(): Timer {
    return timerAt(this.#host, this.#endsAt, () => {
      this.abort(this.#reason)
    })
  }
}
