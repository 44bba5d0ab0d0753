/**
 * Work on runs in small pieces. What takes long (a walk through many states, thousands of calls to begin or to abort) asks
 * here before each piece: while the current turn lasts it may go on at once, afterwards it waits in line. Each turn of the
 * event loop takes on one of those that wait, so however many there are, sockets and timers are served in between.
 *
 * Work that has had many turns waits in a line of its own, and rests before each further turn for as long as the last one
 * took: wide runs together have half of the event loop at most, and a short run beside them does not wait for them. If the
 * rest ends late, the loop is busy with other work (often with what the turns before have begun), and it rests again.
 */
import type { Host } from '@curfew/core'

/** No piece of work on runs lasts longer, apart from its last step. */
const TURN_MS = 2
/** A rest is never longer: a turn that took longer was held up by the machine. */
const MAX_REST_MS = 4
/** A rest that ends later than this ended late; it is repeated until so much time has passed: a busy server goes on too. */
const LATE_MS = 2
const MAX_RESTING_MS = 8
/** After so many turns work is long. */
export const SHORT_TURNS = 4

export class Turns {
  readonly #host: Host
  readonly #rests: boolean
  readonly #short: (() => void)[] = []
  readonly #long: (() => void)[] = []
  #beganMs = 0
  #endsMs = 0
  #isShortScheduled = false
  #isLongScheduled = false

  /** `rests`: false where a clock is turned by hand, whose owner waits until nothing is under way. */
  constructor(host: Host, rests = true) {
    this.#host = host
    this.#rests = rests
  }

  /** Null: go on at once. `taken`: how many turns this work has had. */
  next(taken = 0): Promise<void> | null {
    const isIdle = this.#short.length === 0 && this.#long.length === 0
    if (isIdle && this.#host.monotonicMs() < this.#endsMs) return null
    return this.later(taken)
  }

  /** For work whose larger part follows after the piece itself, as with a call that begins: never before the next turn. */
  later(taken = 0): Promise<void> {
    return new Promise((resolve) => {
      if (taken < SHORT_TURNS) {
        this.#short.push(resolve)
        this.#scheduleShort()
      } else {
        this.#long.push(resolve)
        this.#scheduleLong()
      }
    })
  }

  #scheduleShort(): void {
    if (this.#isShortScheduled || this.#short.length === 0) return
    this.#isShortScheduled = true
    this.#host.defer(() => {
      this.#isShortScheduled = false
      this.#begin(this.#short)
      this.#scheduleShort()
    })
  }

  #scheduleLong(): void {
    if (this.#isLongScheduled || this.#long.length === 0) return
    this.#isLongScheduled = true
    const begin = (): void => {
      this.#isLongScheduled = false
      this.#begin(this.#long)
      this.#scheduleLong()
    }
    const tookMs = this.#host.monotonicMs() - this.#beganMs
    if (tookMs > 0 && this.#rests) this.#rest(tookMs, this.#host.monotonicMs() + MAX_RESTING_MS, begin)
    else this.#host.defer(begin)
  }

  #rest(ms: number, latestMs: number, then: () => void): void {
    const restMs = Math.min(MAX_REST_MS, ms)
    const endsMs = this.#host.monotonicMs() + restMs
    this.#host.setTimer(restMs, () => {
      const nowMs = this.#host.monotonicMs()
      if (nowMs - endsMs > LATE_MS && nowMs < latestMs) this.#rest(nowMs - endsMs, latestMs, then)
      else then()
    })
  }

  #begin(line: (() => void)[]): void {
    this.#beganMs = this.#host.monotonicMs()
    this.#endsMs = this.#beganMs + TURN_MS
    line.shift()?.()
  }
}
