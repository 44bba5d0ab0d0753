/**
 * The two lanes between a worker and the server.
 *
 *   turn   reports, sent as soon as there are any, with a call for as many jobs as slots are free
 *   poll   a call that waits for work, while there is nothing to report
 *
 * What is asked for counts as taken until the answer is there, so both lanes together never bring more than fits.
 * Reports that did not arrive are sent again, until the server has answered each of them.
 */
import { setMaxListeners } from 'node:events'
import { after, type Host, type Random, type Timer } from '@curfew/core'
import { Backoff } from './backoff.ts'
import type { Courier, Delivery, Return } from './courier.ts'
import { RequestError } from './errors.ts'
import type { BeatAnswer } from './guard/protocol.ts'
import type { Log } from './log.ts'
import type { Report } from './report.ts'
import { monotonicNow, type Asked } from './terms.ts'
import type { HandedJob } from './wire.ts'

export interface LanePorts {
  readonly host: Host
  readonly random: Random
  readonly log: Log
  readonly courier: Courier
  /** How many more jobs could be run now, were none asked for. */
  readonly freeSlots: () => number
  readonly mayFetch: () => boolean
  /** How long a poll may wait: while one is open, the server takes its worker for alive. */
  readonly longestWaitMs: () => number
  /** A beat to take along, if one is due. */
  readonly dueBeat: () => Record<string, unknown> | null
  readonly onJobs: (jobs: readonly HandedJob[], asked: Asked) => void
  readonly onDelivered: (report: Report, delivery: Delivery & { kind: 'done' | 'refused' }) => void
  /** The server answered a call that was sent then, or that it still had in its hands then. */
  readonly onContact: (askedAt: number, withBeat: boolean) => void
  readonly onBeat: (answer: BeatAnswer, askedAt: number) => void
}

/** Where an empty answer comes at once, the next question waits. */
const IDLE_MS = 1_000
const MOST_REPORTS = 500

export class Lanes {
  readonly #ports: LanePorts
  readonly #backoff: Backoff
  #outbox: Report[] = []
  #mostReports = MOST_REPORTS
  #asked = 0
  #onTheWay = 0
  #isTurning = false
  #isPolling = false
  #isScheduled = false
  #rest: Timer | null = null
  #idle: Timer | null = null
  #closed = false
  #emptied: (() => void)[] = []
  readonly #ended = new AbortController()

  constructor(ports: LanePorts) {
    this.#ports = ports
    this.#backoff = new Backoff(ports.random)
    // As many listeners as there are calls under way: no leak.
    setMaxListeners(0, this.#ended.signal)
  }

  report(report: Report): void {
    this.#outbox.push(report)
    this.pump()
  }

  /** Something changed: looks whether there is anything to send, once all of this turn has happened. */
  pump(): void {
    if (this.#isScheduled || this.#closed) return
    this.#isScheduled = true
    this.#ports.host.defer(() => {
      this.#isScheduled = false
      this.#go()
    })
  }

  /** Until every report has been answered. */
  emptied(): Promise<void> {
    if (this.#outbox.length + this.#onTheWay === 0) return Promise.resolve()
    return new Promise((resolve) => this.#emptied.push(resolve))
  }

  /** Sends nothing any more. */
  close(): void {
    this.#closed = true
    this.#rest?.cancel()
    this.#idle?.cancel()
    this.#ended.abort()
  }

  #go(): void {
    if (this.#closed || this.#rest !== null || this.#isTurning) return
    if (this.#outbox.length > 0) void this.#turn()
    else if (!this.#isPolling && this.#idle === null && this.#free() > 0) void this.#poll()
  }

  #free(): number {
    return this.#ports.mayFetch() ? Math.max(0, this.#ports.freeSlots() - this.#asked) : 0
  }

  async #turn(): Promise<void> {
    const reports = this.#outbox.splice(0, this.#mostReports)
    const count = this.#free()
    this.#isTurning = true
    this.#onTheWay = reports.length
    try {
      const back = await this.#travel(reports, count, 0)
      reports.forEach((report, index) => {
        const delivery = back.deliveries[index] ?? { kind: 'unsent', error: null }
        if (delivery.kind === 'unsent') this.#outbox.push(report)
        else this.#ports.onDelivered(report, delivery)
      })
      if (back.deliveries.some(({ kind }) => kind === 'unsent')) this.#restAfter('a report was not answered')
      this.#mostReports = MOST_REPORTS
    } catch (error) {
      this.#sendAgain(reports, error)
    } finally {
      this.#isTurning = false
      this.#onTheWay = 0
      this.#goOn()
    }
  }

  /** What the server cannot take together it may take one by one; what it cannot take alone, it never will. */
  #sendAgain(reports: readonly Report[], error: unknown): void {
    const isTooLarge = error instanceof RequestError && error.status === 413
    const [only] = reports
    if (isTooLarge && only !== undefined && reports.length === 1) {
      this.#ports.onDelivered(only, { kind: 'refused', code: error.code, message: error.message })
      return
    }
    this.#outbox.unshift(...reports)
    if (isTooLarge) this.#mostReports = 1
    else this.#restAfter(error)
  }

  async #poll(): Promise<void> {
    const { host, courier, longestWaitMs } = this.#ports
    const waitMs = courier.waits ? longestWaitMs() : 0
    const beganAt = monotonicNow(host)
    this.#isPolling = true
    try {
      const { jobs } = await this.#travel([], this.#free(), waitMs)
      // A server that gives nothing and does not wait would be asked without end.
      if (jobs.length === 0 && monotonicNow(host) - beganAt < waitMs / 2 + 1) this.#idleFor(IDLE_MS)
    } catch (error) {
      this.#restAfter(error)
    } finally {
      this.#isPolling = false
      this.#goOn()
    }
  }

  async #travel(reports: readonly Report[], count: number, waitMs: number): Promise<Return> {
    const { host, courier, dueBeat, onContact, onBeat, onJobs } = this.#ports
    this.#asked += count
    try {
      const beat = courier.takesBeats ? dueBeat() : null
      const sentAt = monotonicNow(host)
      const back = await courier.travel({
        reports,
        ask: count === 0 ? null : { count, waitMs },
        beat,
        signal: this.#ended.signal,
      })
      if (back.failure !== null) {
        if (reports.length === 0) throw asError(back.failure)
        this.#restAfter(back.failure)
        return back
      }
      this.#backoff.reset()
      onContact(after(sentAt, back.asked.waitedMs), back.beat !== null)
      if (back.beat !== null) onBeat(back.beat, sentAt)
      if (back.jobs.length > 0) onJobs(back.jobs, back.asked)
      return back
    } finally {
      this.#asked -= count
    }
  }

  #goOn(): void {
    if (this.#outbox.length + this.#onTheWay === 0) for (const resolve of this.#emptied.splice(0)) resolve()
    this.pump()
  }

  #restAfter(error: unknown): void {
    const restMs = this.#backoff.next()
    const message = error instanceof Error ? error.message : String(error)
    if (this.#closed) return
    this.#ports.log.warn({ reason: message, rest_ms: restMs }, 'the server does not answer; trying again')
    this.#rest?.cancel()
    this.#rest = this.#ports.host.setTimer(restMs, () => {
      this.#rest = null
      this.pump()
    })
  }

  #idleFor(ms: number): void {
    if (this.#closed) return
    this.#idle?.cancel()
    this.#idle = this.#ports.host.setTimer(ms * (0.75 + this.#ports.random() / 2), () => {
      this.#idle = null
      this.pump()
    })
  }
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
