/**
 * The world's scheduler: events in virtual time, in one order. Between two instants everything that was promised comes
 * true; then the observers look at what happened. The servers' own timers lie on the same clock and fire at their own
 * instants, so nothing is skipped on the way.
 *
 * Events of one instant are sometimes let loose together, so that the server meets them in one turn (one transaction),
 * and sometimes one after the other.
 */
import { FakeClock } from '@curfew/core'
import { idle } from '../harness.ts'
import type { Chance } from './chance.ts'
import { insist } from './violation.ts'

/** More turns than this in one millisecond are a circle. */
const MAX_TURNS = 2_000

interface Event {
  readonly at: number
  readonly order: number
  readonly alone: boolean
  readonly run: () => void
}

export class World {
  readonly clock = new FakeClock()
  readonly #chance: Chance
  readonly #watch: () => Promise<void>
  #events: Event[] = []
  #order = 0
  #stirred = false
  #lastTurnAt = 0
  #standing = 0
  /** Turns so far. */
  steps = 0

  constructor(chance: Chance, watch: () => Promise<void>) {
    this.#chance = chance
    this.#watch = watch
  }

  /** Milliseconds on the world's own clock, which never jumps. */
  get now(): number {
    return this.clock.monotonicMs()
  }

  /** `alone`: in a turn of its own. Returns how to call it off. */
  after(ms: number, run: () => void, alone = false): () => void {
    const event: Event = { at: this.now + Math.max(0, Math.round(ms)), order: this.#order++, alone, run }
    let place = this.#events.length
    while (place > 0 && isLater(this.#events[place - 1], event)) place -= 1
    this.#events.splice(place, 0, event)
    return () => {
      const index = this.#events.indexOf(event)
      if (index >= 0) this.#events.splice(index, 1)
    }
  }

  /** Something was asked of a server, so there will be something to see. */
  stir(): void {
    this.#stirred = true
  }

  /** Forgets everything that was to come; the servers' timers stay. */
  hush(): void {
    this.#events = []
  }

  async runUntil(at: number): Promise<void> {
    for (;;) {
      const timer = this.clock.nextTimerAt()
      const next = Math.min(this.#events[0]?.at ?? Infinity, timer ?? Infinity)
      if (next > at) break
      this.clock.advance(Math.max(0, next - this.now))
      const [first] = this.#events
      const isMet = first !== undefined && first.at <= this.now
      if (timer === next) this.stir()
      if (this.#stirred && (!isMet || first.alone || this.#chance.happens(0.4))) await this.#turn()
      for (let met = 0; this.#events[0] !== undefined && this.#events[0].at <= this.now; met += 1) {
        if (met > 0 && (this.#events[0].alone || this.#chance.happens(0.3))) break
        const event = this.#events.shift()
        event?.run()
        if (event?.alone === true) break
      }
      if (this.#stirred) await this.#turn()
    }
    this.clock.advance(at - this.now)
    await this.#turn()
  }

  async #turn(): Promise<void> {
    this.#stirred = false
    this.steps += 1
    this.#standing = this.#lastTurnAt === this.now ? this.#standing + 1 : 0
    this.#lastTurnAt = this.now
    insist(
      'liveness',
      this.#standing < MAX_TURNS,
      () => `time stands still at ${String(this.now)}: a timer fires for ever`,
    )
    await idle()
    await this.#watch()
  }
}

function isLater(a: Event | undefined, b: Event): boolean {
  return a !== undefined && (a.at > b.at || (a.at === b.at && a.order > b.order))
}
