/**
 * A host whose time is turned by hand. Timers fire in the order of their instants while the clock moves, deferred work
 * runs when the code under test has nothing else to do (a microtask), so that no test has to sleep.
 */
import { instant, NEVER_IDLE, type Clock, type Host, type Instant, type IsIdle, type Timer } from './clock.ts'

interface Armed {
  readonly at: number
  readonly order: number
  readonly fire: () => void
  readonly isIdle: IsIdle
}

export class FakeClock implements Host, Clock {
  #ms: number
  #wallShiftMs = 0
  #order = 0
  #timers = new Set<Armed>()

  constructor(startMs = Date.UTC(2026, 0, 1, 12)) {
    this.#ms = startMs
  }

  now(): Instant {
    return instant(this.#ms)
  }

  wallMs(): number {
    return this.#ms + this.#wallShiftMs
  }

  monotonicMs(): number {
    return this.#ms
  }

  /** The wall clock jumps (NTP, an operator); monotonic time does not. */
  stepWall(byMs: number): void {
    this.#wallShiftMs += byMs
  }

  setTimer(ms: number, fire: () => void, isIdle: IsIdle = NEVER_IDLE): Timer {
    const armed: Armed = { at: this.#ms + Math.max(0, ms), order: this.#order++, fire, isIdle }
    this.#timers.add(armed)
    return { cancel: () => void this.#timers.delete(armed) }
  }

  defer(run: () => void): void {
    void Promise.resolve().then(run)
  }

  /** When the next timer would fire, if any is armed. */
  nextTimerAt(): Instant | null {
    return instantOf(this.#next())
  }

  /** When the next timer would fire that is not idle, if there is one. */
  nextBusyTimerAt(): Instant | null {
    return instantOf(this.#next(({ isIdle }) => !isIdle()))
  }

  /** Moves time forward and fires nothing: `fireNext` fires what is overdue then. */
  leapTo(at: Instant): void {
    this.#ms = Math.max(this.#ms, at)
  }

  /** Fires the first timer that is due, at the instant that is now; false when none is. */
  fireNext(): boolean {
    const next = this.#next()
    if (next === null || next.at > this.#ms) return false
    this.#timers.delete(next)
    next.fire()
    return true
  }

  /** Moves time forward, firing what falls due on the way, each at its own instant. */
  advance(byMs: number): void {
    const target = this.#ms + byMs
    for (let next = this.#next(); next !== null && next.at <= target; next = this.#next()) {
      this.#timers.delete(next)
      this.#ms = Math.max(this.#ms, next.at)
      next.fire()
    }
    this.#ms = target
  }

  #next(isMeant: (timer: Armed) => boolean = () => true): Armed | null {
    let first: Armed | null = null
    for (const timer of this.#timers) {
      if (!isMeant(timer)) continue
      if (first === null || timer.at < first.at || (timer.at === first.at && timer.order < first.order)) first = timer
    }
    return first
  }
}

/** A timer between two milliseconds fires at the later one. */
function instantOf(timer: Armed | null): Instant | null {
  return timer === null ? null : instant(Math.ceil(timer.at))
}
