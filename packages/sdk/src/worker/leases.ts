/**
 * The leases a worker holds, each with its attempt: from the answer that brought it to the answer to its report. Here an
 * attempt is driven by its handler's end and by time; the parts do the rest:
 *
 *   arrivals.ts   a job arrives, waits for a slot or an older attempt, and its handler starts
 *   stops.ts      a handler must stop
 *   outcomes.ts   what the server hears of it
 *   beat-list.ts  which attempts heartbeats list, and which reservations lapse
 *   attempt-table.ts holds them all, held-attempt.ts is one of them
 */
import { earliest, elapsed, isDue, type Instant } from '@curfew/core'
import type { AnyEnding, Report } from '../attempt/report.ts'
import { Arrivals, type HandlerTerms } from './arrivals.ts'
import { AttemptTable } from './attempt-table.ts'
import { BeatList } from './beat-list.ts'
import type { Effects } from './effects.ts'
import { lapseOf, nextDueAt, stallAt, type HeldAttempt } from './held-attempt.ts'
import { Outcomes } from './outcomes.ts'
import type { Prefetch } from './prefetch.ts'
import { Stops } from './stops.ts'

export class Leases {
  readonly table: AttemptTable
  readonly outcomes: Outcomes
  readonly stops: Stops
  readonly beatList: BeatList
  readonly arrivals: Arrivals
  readonly #prefetch: Prefetch

  constructor(
    effects: Effects,
    concurrency: number,
    prefetch: Prefetch,
    handlers: ReadonlyMap<string, HandlerTerms>,
    send: (report: Report) => void,
  ) {
    this.#prefetch = prefetch
    const table = (this.table = new AttemptTable(effects))
    const outcomes = (this.outcomes = new Outcomes(effects, table, send))
    const stops = (this.stops = new Stops(effects, table, outcomes))
    const beatList = (this.beatList = new BeatList(effects, table))
    this.arrivals = new Arrivals({ effects, table, outcomes, stops, beatList, prefetch, concurrency, handlers })
  }

  /** A handler has ended. */
  settled(key: string, ending: AnyEnding, now: Instant): void {
    const held = this.table.get(key)
    if (held === undefined || held.step === 'over') return
    this.#prefetch.ran(elapsed(held.begunAt, now))
    this.stops.settledAt(held, now)
    this.outcomes.ended(held, ending, now)
    this.arrivals.startWaiting(held.hold.jobId, now)
  }

  // ---- Time ----

  due(now: Instant): void {
    if (isDue(this.beatList.lapsesAt, now)) this.#dueLapses(now)
    for (const held of this.table.snapshot()) if (isDue(nextDueAt(held), now)) this.#dueFor(held, now)
  }

  nextDueAt(): Instant | null {
    let next: Instant | null = null
    for (const held of this.table.all()) next = earliest(next, nextDueAt(held))
    return earliest(next, this.beatList.lapsesAt)
  }

  #dueLapses(now: Instant): void {
    for (const held of this.table.snapshot()) {
      const lapse = lapseOf(held)
      if (lapse === null || !isDue(lapse.warnAt, now)) continue
      if (held.step === 'running') this.stops.lapse(held, lapse.fenceAt, now)
      else this.stops.loseUnbegun(held)
    }
    this.beatList.findNextLapse()
  }

  #dueFor(held: HeldAttempt, now: Instant): void {
    const { terms } = held
    if (held.step === 'buffered') {
      this.arrivals.waitedTooLong(held)
      return
    }
    if (held.step === 'waiting') {
      if (isDue(terms.softAt, now)) this.outcomes.neverStarted(held)
      else this.outcomes.handBack(held, 'An earlier attempt of the job is still running in this worker.')
      return
    }
    if (held.stop === null && isDue(terms.softAt, now)) this.stops.stop(held, terms.softStop, terms.hardAt)
    else if (held.stop === null && isDue(stallAt(held), now)) this.stops.stall(held, now)
    if (isDue(held.giveUpAt, now)) this.outcomes.abandon(held, now)
  }
}
