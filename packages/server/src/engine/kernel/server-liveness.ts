/**
 * The signs of life of the servers, and the times in which none gave any. A server that stands by its data says so on
 * the data's own row; when that is older than it could be with a server at work, no server was listening meanwhile, for
 * whatever reason: no server ran, the process stood still, the store could not serve. Such a time is an outage, and is
 * not held against anybody's liveness. It is noted in the transaction that first judges by it.
 */
import { after, elapsed, instant, isDue, millis, type Instant, type Outage } from '@curfew/core'
import type { Changes, Life } from '../../store/store.ts'

const STAMP_EVERY_MS = millis(1_000)
/** A server with something to watch stamps at least this often. */
const STAMP_AT_LATEST_MS = millis(4_000)
/** One that has not for so long stood still. */
const STOOD_STILL_MS = millis(10_000)
/** Where many servers share the data they stamp every second, and a start does not mean that there was an outage. */
const UNSTAMPED_MS = millis(4_000)
const KEPT_OUTAGES = 100

export interface Judged {
  readonly outages: readonly Outage[]
  /** Set when it is time for a sign of life. */
  readonly stamp: { readonly outages: Changes['outages'] } | null
}

export class ServerLiveness {
  readonly #shared: boolean
  readonly #standsStill: boolean
  #starting = true
  #troubledSince: Instant | null = null
  #seenAlive: Instant | null = null

  /** `standsStill`: time passes only when the clock is turned by hand, and then no server was away. */
  constructor(shared: boolean, standsStill: boolean) {
    this.#shared = shared
    this.#standsStill = standsStill
  }

  /** The store cannot serve, since now or earlier. */
  troubled(now: Instant): void {
    this.#troubledSince ??= now
  }

  /** The transaction that judged by this was committed. */
  kept(life: Life): void {
    this.#seenAlive = life.aliveAt
    this.#starting = false
    this.#troubledSince = null
  }

  /** `watching`: there is something whose liveness was being judged, so that signs were due. */
  judge({ aliveAt, outages }: Life, now: Instant, watching: boolean): Judged {
    const from = this.#silentSince(aliveAt, now, watching)
    if (from !== null && from < now) {
      const after = [...outages, { from, to: now }].slice(-KEPT_OUTAGES)
      return { outages: after, stamp: { outages: { before: outages, after } } }
    }
    const isTime = this.#starting || aliveAt === null || isDue(after(aliveAt, STAMP_EVERY_MS), now)
    return { outages, stamp: isTime ? { outages: null } : null }
  }

  /** How long the loop may sleep before the next sign of life is due. */
  sleepMs(now: Instant): number {
    return elapsed(now, after(this.#seenAlive ?? now, this.#shared ? STAMP_EVERY_MS : STAMP_AT_LATEST_MS))
  }

  #silentSince(aliveAt: Instant | null, now: Instant, watching: boolean): Instant | null {
    if (aliveAt === null) return null
    if (this.#shared && !this.#standsStill) return elapsed(aliveAt, now) > UNSTAMPED_MS ? aliveAt : null
    if (this.#starting) return aliveAt
    if (this.#troubledSince !== null) return instant(Math.max(aliveAt, this.#troubledSince))
    return watching && !this.#standsStill && elapsed(aliveAt, now) > STOOD_STILL_MS ? aliveAt : null
  }
}
