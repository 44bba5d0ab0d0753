/**
 * Jobs that arrive, until their handlers start or they go back untouched.
 *
 * - A newer lease of a job stops the older attempt, and its handler begins when the older one is over.
 * - A job for which no slot is free waits in the buffer, in the order of arrival. It starts within `bufferMs` of its arrival
 *   or is handed back, which uses no try.
 */
import { after, earliest, elapsed, isDue, type Instant } from '@curfew/core'
import type { AttemptLimits } from '../job/limits.ts'
import { keyOf, type Hold } from '../attempt/report.ts'
import { termsOf, type Asked } from '../attempt/terms.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { AttemptTable } from './attempt-table.ts'
import type { BeatList } from './beat-list.ts'
import type { Effects } from './effects.ts'
import {
  bufferUntil,
  giveUpAt,
  hasLapsed,
  mayRun,
  newAttempt,
  nextDueAt,
  NO_HANDLER,
  type HeldAttempt,
} from './held-attempt.ts'
import type { HandlerFacts, LeaseName } from './inputs.ts'
import type { Outcomes } from './outcomes.ts'
import type { Prefetch } from './prefetch.ts'
import { STEP_ASIDE_MS, type Stops } from './stops.ts'

export interface HandlerTerms extends HandlerFacts {
  readonly limits: AttemptLimits
}

/** What decides whether a job that arrives is started. */
export interface Arrival {
  readonly asked: Asked
  /** Why nothing may start now; null: it may. */
  readonly refusal: string | null
}

/** So many leases that an order named before their jobs arrived are remembered. */
const MAX_ORDERED = 1_000

/** What arrivals are decided with. */
export interface ArrivalParts {
  readonly effects: Effects
  readonly table: AttemptTable
  readonly outcomes: Outcomes
  readonly stops: Stops
  readonly beatList: BeatList
  readonly prefetch: Prefetch
  readonly concurrency: number
  readonly handlers: ReadonlyMap<string, HandlerTerms>
}

export class Arrivals {
  readonly #parts: ArrivalParts
  /** Leases that were cancelled or lost before the answer that brings them was read. */
  readonly #ordered = new Set<string>()

  constructor(parts: ArrivalParts) {
    this.#parts = parts
  }

  take(jobs: readonly HandedJob[], arrival: Arrival, now: Instant): void {
    const { table, prefetch, effects } = this.#parts
    for (const job of jobs) {
      const held = this.#arrive(job, arrival, now)
      if (held === null) continue
      table.enterBuffer(held)
      prefetch.arrived(elapsed(now, held.giveUpAt))
    }
    if (table.buffer.size === 0) return
    // Beats must list a job before a handler can block this thread.
    effects.do({ do: 'flush-guard' })
    this.startBuffered(now)
    for (const held of table.buffer) effects.wakeBy(held.giveUpAt)
  }

  /** Starts what waits for a slot, as far as slots are free. */
  startBuffered(now: Instant): void {
    const { table, stops } = this.#parts
    for (const held of table.buffer) {
      if (!this.#hasSlot) return
      if (hasLapsed(held, now)) stops.loseUnbegun(held)
      else if (isDue(held.giveUpAt, now)) this.waitedTooLong(held)
      else this.#start(held, now)
    }
  }

  get #hasSlot(): boolean {
    return this.#parts.table.slotsTaken < this.#parts.concurrency
  }

  /** Null: it is not started now. */
  #arrive(job: HandedJob, { asked, refusal }: Arrival, now: Instant): HeldAttempt | null {
    const { table, outcomes, stops, handlers } = this.#parts
    const hold: Hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    const key = keyOf(hold)
    if (table.has(key)) return null // handed back before its answer came
    if (this.#ordered.delete(key)) return null // the server has ended it already
    const others = table.ofJob(job.id)
    if (others.some(({ hold: { lease } }) => (lease ?? 0) > (hold.lease ?? 0))) return null // replaced on its way
    const handler = handlers.get(job.type)
    const terms = termsOf(job, asked, handler?.limits ?? {})
    const held = table.add(newAttempt(key, hold, job, terms, handler ?? NO_HANDLER, now))
    for (const older of others) stops.replace(older, now)
    if (handler === undefined) {
      const error = { type: 'handler_not_found', message: `This worker has no handler for ${job.type}.` }
      outcomes.notBegun(held, { kind: 'nack', hold, requeue: false, error })
      return null
    }
    if (refusal !== null) {
      outcomes.handBack(held, refusal)
      return null
    }
    if (!this.#mayBegin(held, now)) return null
    this.#parts.beatList.add(held)
    if (!others.some(mayRun)) return held
    this.#waitForOlder(held, now)
    return null
  }

  /** False: its time is up, or an answer that was so long on its way brought a reservation that is over. */
  #mayBegin(held: HeldAttempt, now: Instant): boolean {
    if (isDue(held.terms.softAt, now)) this.#parts.outcomes.neverStarted(held)
    else if (hasLapsed(held, now)) this.#parts.stops.loseUnbegun(held)
    else return true
    return false
  }

  #waitForOlder(held: HeldAttempt, now: Instant): void {
    this.#parts.table.enter(held, 'waiting')
    held.giveUpAt = earliest(held.terms.softAt, after(now, STEP_ASIDE_MS)) ?? held.terms.softAt
    this.#parts.effects.wakeBy(nextDueAt(held))
  }

  #start(held: HeldAttempt, now: Instant): void {
    const { table, effects } = this.#parts
    const { job } = held
    if (job === null) throw new Error(`the attempt ${held.key} was started twice`)
    held.job = null
    table.enter(held, 'running')
    held.giveUpAt = giveUpAt(held.facts, held.terms.hardAt)
    held.begunAt = now
    effects.wakeBy(nextDueAt(held))
    effects.do({ do: 'start', key: held.key, job, terms: held.terms })
  }

  /** The handler of an older attempt is over: what waited for it begins. */
  startWaiting(jobId: string, now: Instant): void {
    const { table, effects } = this.#parts
    let waiting: HeldAttempt | null = null
    for (const held of table.ofJob(jobId)) {
      if (mayRun(held)) return
      if (held.step === 'waiting') waiting = held
    }
    if (waiting === null || !this.#mayBegin(waiting, now)) return
    if (this.#hasSlot) {
      waiting.signAt = now
      effects.do({ do: 'flush-guard' })
      this.#start(waiting, now)
    } else {
      // The older attempt was given up before it ended, and another job has taken its slot.
      waiting.giveUpAt = bufferUntil(waiting.terms, now)
      table.enterBuffer(waiting)
      effects.wakeBy(waiting.giveUpAt)
    }
  }

  /** No slot was free soon enough: the buffer was too large. */
  waitedTooLong(held: HeldAttempt): void {
    this.#parts.prefetch.waitedTooLong()
    this.#parts.outcomes.handBack(held, 'No slot of the worker was free for the job soon enough.')
  }

  // ---- Orders that overtake the job they name ----

  /** An order named a lease that is not here yet: when its job arrives, it is not started. */
  noteEnded({ jobId, lease }: LeaseName): void {
    if (this.#ordered.size < MAX_ORDERED) this.#ordered.add(keyOf({ jobId, attempt: 0, lease }))
  }

  /** No answer is on its way that could bring jobs. */
  forgetEnded(): void {
    this.#ordered.clear()
  }
}
