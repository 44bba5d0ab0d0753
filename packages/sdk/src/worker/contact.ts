/**
 * Whether the server answers: how long it was not heard, and how long it is left alone after a failure.
 *
 * An outage is logged when it begins and when it ends. The first answer to any call ends the rest of all calls.
 */
import { after, elapsed, millis, type Instant, type Millis, type Random } from '@curfew/core'
import { fenceAt } from '../attempt/terms.ts'
import type { Effects } from './effects.ts'

const DEFAULT_TIMEOUT_MS = millis(30_000)
/** Rest after a failed call: doubled each time, with jitter. Short, because the first report after an outage waits for it. */
const FIRST_REST_MS = 100
const MAX_REST_MS = 1_000
const MAX_DOUBLINGS = 10

interface Outage {
  readonly since: Instant
  failures: number
  retryAt: Instant
}

export class Contact {
  readonly #effects: Effects
  readonly #random: Random
  /** Silence after which the server takes the worker for dead. */
  timeoutMs: Millis = DEFAULT_TIMEOUT_MS
  /** The sending of the latest call that was answered. */
  #at: Instant
  #isFenced = false
  #outage: Outage | null = null

  constructor(effects: Effects, random: Random, now: Instant) {
    this.#effects = effects
    this.#random = random
    this.#at = now
  }

  get at(): Instant {
    return this.#at
  }

  /** When every attempt must stop because the server may hand its job to another worker. */
  get warnAt(): Instant {
    return fenceAt(this.#at, this.timeoutMs).warnAt
  }

  get isFenced(): boolean {
    return this.#isFenced
  }

  fence(): void {
    this.#isFenced = true
  }

  /** A call was answered that was sent at `askedAt`, or that the server still held then. */
  heard(askedAt: Instant, now: Instant): void {
    if (askedAt > this.#at) this.#at = askedAt
    this.#isFenced = false
    if (this.#outage === null) return
    this.#effects.log('warn', { silent_ms: Math.round(elapsed(this.#outage.since, now)) }, 'the server answers again')
    this.#outage = null
    this.#effects.wantsTurn = true
  }

  /** A call was not answered. */
  failed(reason: string, now: Instant): void {
    this.#outageOf(reason, now)
  }

  /** A call was not answered, and the next one waits for a moment. */
  rest(reason: string, now: Instant): void {
    const outage = this.#outageOf(reason, now)
    const restMs = Math.min(MAX_REST_MS, FIRST_REST_MS * 2 ** outage.failures)
    outage.failures = Math.min(outage.failures + 1, MAX_DOUBLINGS)
    outage.retryAt = after(now, millis(restMs * (0.5 + this.#random() / 2)))
    this.#effects.wakeBy(outage.retryAt)
  }

  isResting(now: Instant): boolean {
    return this.#outage !== null && now < this.#outage.retryAt
  }

  /** When the rest is over; null while there is none. */
  restsUntil(now: Instant): Instant | null {
    return this.isResting(now) ? (this.#outage?.retryAt ?? null) : null
  }

  #outageOf(reason: string, now: Instant): Outage {
    if (this.#outage === null) {
      this.#outage = { since: now, failures: 0, retryAt: now }
      this.#effects.log('warn', { reason }, 'calls to the server fail; the worker keeps trying')
    }
    return this.#outage
  }
}
