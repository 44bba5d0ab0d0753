/**
 * The line: the one connection on which a server hears of the commits of others, servers and applications, and reads the database's clock once a
 * second. When it is lost it is sought again, ever more slowly, and then everybody hears that something may have been
 * missed.
 */
import type { Host, Timer } from '@curfew/core'
import type { News } from '../store.ts'
import type { DatabaseClock } from './clock.ts'
import type { Link } from './connection.ts'
import { INBOX_NEWS, newsFrom } from './news.ts'
import { CLOCK } from './statements.ts'
import type { Wire } from './wire.ts'

const SAMPLE_MS = 1_000
const SOONEST_MS = 50
const LATEST_MS = 5_000
/** Before the first decision: one sample may have been unlucky. On a busy machine more are taken, until one is good. */
const FIRST_SAMPLES = 5
const MOST_FIRST_SAMPLES = 25
const GOOD_MS = 5

export interface LineOptions {
  readonly link: Link
  readonly channel: string
  /** On which applications tell of what they have laid into the inbox. */
  readonly inboxChannel: string
  /** What this server calls itself on the line. */
  readonly me: string
  readonly host: Host
  readonly clock: DatabaseClock
}

export class Line {
  readonly #link: Link
  readonly #channel: string
  readonly #inboxChannel: string
  readonly #me: string
  readonly #host: Host
  readonly #clock: DatabaseClock
  readonly #listeners = new Set<(news: News | null) => void>()
  #wire: Wire | null = null
  #timer: Timer | null = null
  #backoffMs = SOONEST_MS
  #sampling: Promise<void> | null = null
  #busy = false
  #closed = false

  constructor({ link, channel, inboxChannel, me, host, clock }: LineOptions) {
    this.#link = link
    this.#channel = channel
    this.#inboxChannel = inboxChannel
    this.#me = me
    this.#host = host
    this.#clock = clock
  }

  async open(): Promise<void> {
    const wire = await this.#listen()
    for (let n = 0; n < FIRST_SAMPLES || (n < MOST_FIRST_SAMPLES && !this.#isWellKnown); n++) await this.#sampleOn(wire)
    this.#next(SAMPLE_MS)
  }

  follow(listener: (news: News | null) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Reads the clock now, if there is a line at all. */
  sample(): Promise<void> {
    const wire = this.#wire
    if (wire === null || wire.lost) return Promise.resolve()
    this.#sampling ??= this.#sampleOn(wire)
      .catch(() => {})
      .finally(() => (this.#sampling = null))
    return this.#sampling
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timer?.cancel()
    await this.#link.close()
  }

  async #listen(): Promise<Wire> {
    const wire = await this.#link.ready()
    wire.onNotification(({ channel, payload }) => {
      this.#hear(channel === this.#inboxChannel ? INBOX_NEWS : newsFrom(payload, this.#me))
    })
    wire.onLost(() => {
      // A tick that is under way will find out by itself.
      if (this.#wire === wire && !this.#busy) this.#next(0)
    })
    for (const channel of [this.#channel, this.#inboxChannel])
      await wire.query({ name: '', text: `LISTEN "${channel}"` })
    this.#wire = wire
    return wire
  }

  #hear(news: News | null): void {
    if (news !== null) for (const listener of [...this.#listeners]) listener(news)
  }

  async #sampleOn(wire: Wire): Promise<void> {
    const sentAt = this.#host.monotonicMs()
    const { rows } = await wire.query<readonly [number]>(CLOCK)
    this.#clock.sample(sentAt, rows[0]?.[0] ?? NaN, this.#host.monotonicMs())
  }

  get #isWellKnown(): boolean {
    return this.#clock.offset().errorMs <= GOOD_MS
  }

  #next(ms: number): void {
    if (this.#closed) return
    this.#timer?.cancel()
    this.#timer = this.#host.setTimer(ms, () => void this.#tick())
  }

  async #tick(): Promise<void> {
    this.#busy = true
    const wasLost = this.#wire === null || this.#wire.lost
    try {
      if (wasLost) {
        this.#wire = null
        await this.#listen()
        for (const listener of [...this.#listeners]) listener(null)
      }
      await this.sample()
      this.#backoffMs = SOONEST_MS
      this.#next(this.#wire?.lost === false ? SAMPLE_MS : 0)
    } catch {
      this.#next(this.#backoffMs)
      this.#backoffMs = Math.min(LATEST_MS, 2 * this.#backoffMs)
    } finally {
      this.#busy = false
    }
  }
}
