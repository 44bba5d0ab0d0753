/**
 * One worker as the test kit sees it: its own view of the common clock, and its own line to the server. It can be put to
 * sleep, cut off, or killed, as a process can; what it waits for then comes late, or never.
 */
import type { FakeClock, Host, IsIdle, Timer } from '@curfew/core'
import { NetworkError } from '../errors.ts'
import type { InProcessServer, TransportRequest, TransportResponse } from '../client/transport.ts'

/** A call that waits for work. */
const POLL = /^\/ojs\/v1\/workers\/(exchange|fetch)$/

export class Party implements Host, InProcessServer {
  readonly #clock: FakeClock
  readonly #server: InProcessServer
  readonly #onCall: () => void
  readonly #isIdle: IsIdle
  #skewMs = 0
  #isAsleep = false
  #isDead = false
  #isCutOff = false
  /** How to hang up on each open call, and what it asks for. */
  readonly #lines = new Map<() => void, string>()
  /** What happens when it wakes up, in its order. */
  #missed: (() => void)[] = []

  /** `isIdle`: it runs nothing, and only waits for work. */
  constructor(clock: FakeClock, server: InProcessServer, onCall: () => void, isIdle: IsIdle) {
    this.#clock = clock
    this.#server = server
    this.#onCall = onCall
    this.#isIdle = isIdle
  }

  /** Its timers are housekeeping only: a worker that polls for work and does nothing else, or one that is dead. */
  readonly isAtRest: IsIdle = () => {
    if (this.#isDead) return true
    if (this.#isAsleep || this.#isCutOff || this.#lines.size === 0 || !this.#isIdle()) return false
    return [...this.#lines.values()].every((url) => POLL.test(url))
  }

  /** Something is between it and the server that time alone will change, and not by its timers alone. */
  get isWaiting(): boolean {
    return !this.isAtRest() && (this.#isAsleep || this.#isCutOff || this.#lines.size > 0)
  }

  // ---- Its clock ----

  wallMs(): number {
    return this.#clock.wallMs() + this.#skewMs
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs()
  }

  setTimer(ms: number, fire: () => void, isIdle = this.isAtRest): Timer {
    let isCancelled = false
    const late = (): void => {
      this.#whenAwake(() => {
        if (!isCancelled) fire()
      })
    }
    const timer = this.#clock.setTimer(ms, late, isIdle)
    return {
      cancel: () => {
        isCancelled = true
        timer.cancel()
      },
    }
  }

  defer(run: () => void): void {
    this.#clock.defer(() => {
      this.#whenAwake(run)
    })
  }

  #whenAwake(run: () => void): void {
    if (this.#isDead) return
    if (this.#isAsleep) this.#missed.push(run)
    else run()
  }

  // ---- Its line to the server ----

  readonly handler = async (request: TransportRequest): Promise<TransportResponse> => {
    this.#onCall()
    if (this.#isDead) return new Promise(() => {})
    if (this.#isCutOff) throw cutOff()
    const response = await this.#connected(request)
    this.#onCall()
    return new Promise((resolve) => {
      this.#whenAwake(() => {
        resolve(response)
      })
    })
  }

  /** The call ends with its answer, or with the line. */
  #connected(request: TransportRequest): Promise<TransportResponse> {
    return new Promise((resolve, reject) => {
      const controller = new AbortController()
      const leave = (): void => {
        controller.abort(request.signal.reason)
      }
      const hangUp = (): void => {
        controller.abort()
        reject(cutOff())
      }
      request.signal.addEventListener('abort', leave, { once: true })
      this.#lines.set(hangUp, request.url)
      this.#server
        .handler({ ...request, signal: controller.signal })
        .then(resolve, reject)
        .finally(() => {
          this.#lines.delete(hangUp)
          request.signal.removeEventListener('abort', leave)
        })
    })
  }

  // ---- What can happen to it ----

  sleep(): void {
    this.#isAsleep = true
  }

  wake(): void {
    this.#isAsleep = false
    for (const run of this.#missed.splice(0)) run()
  }

  cutOff(): void {
    this.#isCutOff = true
    for (const hangUp of [...this.#lines.keys()]) hangUp()
  }

  heal(): void {
    this.#isCutOff = false
  }

  /** As by kill -9: nothing it would have done happens, and its connections are gone. */
  die(): void {
    this.#isDead = true
    this.#missed = []
    for (const hangUp of [...this.#lines.keys()]) hangUp()
  }

  skew(byMs: number): void {
    this.#skewMs += byMs
  }
}

function cutOff(): NetworkError {
  return new NetworkError('The test kit has cut this worker off.')
}
