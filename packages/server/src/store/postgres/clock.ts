/**
 * The database's clock, as this server knows it. Many servers decide about the same rows, so one clock must be the judge
 * of them all. It is not asked at each decision: a server measures how far it is from its own monotonic clock, and then
 * counts for itself.
 *
 *    sent ──────────── the database reads its clock ──────────── received        offset = clock − middle
 *         at the earliest here               at the latest here                  error  = half the way
 *
 * The best of the recent samples counts: the shortest way tells most, but grows stale as clocks drift apart. Small
 * corrections are spread, so that time neither leaps nor turns back.
 *
 * A clock that has leapt (an operator, a failover, a paused machine) is not believed at once: until the new time has
 * been confirmed for a while, no decision is made by either. If it then turns out that it went back, time stands still here
 * until the database has caught up.
 */
import { instant, type Host, type Instant } from '@curfew/core'
import type { SharedClock } from '../store.ts'

/** Samples older than this are forgotten. */
const RECENT_MS = 10_000
/** How far two clocks may run apart: two in ten thousand. */
const DRIFT = 0.000_2
/** How much faster or slower time may run while it is corrected. Faster is worse: limits that are set then end early. */
const FASTER = 0.02
const SLOWER = 0.05
/** More than this is a leap, not a correction. */
const LEAP_MS = 1_000
const CONFIRMED_BY = 5
const CONFIRMED_MS = 5_000
/** Without a good sample for so long, or with no better one than this, the time is unknown. */
export const STALE_MS = 15_000
export const MOST_ERROR_MS = 500

interface Sample {
  /** The database's clock minus our monotonic one. */
  readonly offset: number
  readonly error: number
  /** On the monotonic clock. */
  readonly at: number
}

export class DatabaseClock implements SharedClock {
  readonly #host: Host
  #samples: Sample[] = []
  /** What is added to monotonic time now, and when that was so. It moves towards the best sample. */
  #applied: { offset: number; at: number } | null = null
  #latest = 0
  /** Samples that agree with each other, and not with what we took for true. */
  #leap: Sample[] = []

  constructor(host: Host) {
    this.#host = host
  }

  /** What came of asking the database for its time. Instants are monotonic, but for the database's. */
  sample(sentAt: number, databaseMs: number, receivedAt: number): void {
    const found = {
      offset: databaseMs - (sentAt + receivedAt) / 2,
      error: (receivedAt - sentAt) / 2,
      at: receivedAt,
    }
    const trusted = this.#best()
    if (found.error > MOST_ERROR_MS && trusted !== null) return
    if (trusted !== null && disagree(found, trusted)) this.#doubt(found)
    else this.#accept(found)
  }

  now(): Instant {
    const monotonic = this.#host.monotonicMs()
    this.#latest = Math.max(this.#latest, monotonic + this.#offsetAt(monotonic))
    return instant(this.#latest)
  }

  offset(): { readonly ms: number; readonly errorMs: number } {
    const best = this.#best()
    if (best === null) return { ms: 0, errorMs: Infinity }
    const monotonic = this.#host.monotonicMs()
    return {
      ms: Math.round(this.#host.wallMs() - (monotonic + best.offset)),
      errorMs: Math.ceil(best.error + (monotonic - best.at) * DRIFT),
    }
  }

  distrust(): string | null {
    const best = this.#best()
    if (best === null) return "the database's clock has not been read yet"
    const first = this.#leap[0]
    if (first !== undefined) {
      const by = Math.round(first.offset - best.offset)
      return `the database's clock has jumped by ${String(by)} ms and is not confirmed yet`
    }
    const newest = this.#samples.at(-1)
    const silence = this.#host.monotonicMs() - (newest?.at ?? 0)
    if (silence > STALE_MS) return `the database's clock has not been read for ${String(Math.round(silence / 1_000))} s`
    if (best.error > MOST_ERROR_MS) return `the database's clock is only known to ${String(Math.round(best.error))} ms`
    return null
  }

  #accept(found: Sample): void {
    this.#leap = []
    this.#samples = [...this.#samples.filter(({ at }) => found.at - at <= RECENT_MS), found]
  }

  #doubt(found: Sample): void {
    const first = this.#leap[0]
    if (first !== undefined && disagree(found, first)) this.#leap = []
    this.#leap.push(found)
    const since = this.#leap[0]?.at ?? found.at
    if (this.#leap.length < CONFIRMED_BY || found.at - since < CONFIRMED_MS) return
    this.#samples = this.#leap
    this.#leap = []
    // Not spread: everybody else has gone there too. `now` takes care that it does not turn back.
    this.#applied = { offset: (this.#best() ?? found).offset, at: found.at }
  }

  #best(): Sample | null {
    const newest = this.#samples.at(-1)
    if (newest === undefined) return null
    let best = newest
    for (const sample of this.#samples) if (doubtOf(sample, newest.at) < doubtOf(best, newest.at)) best = sample
    return best
  }

  #offsetAt(monotonic: number): number {
    const best = this.#best()
    if (best === null) return 0
    // The first decision goes by the best sample there is. To be corrected to it later would make limits end early or late.
    const applied = this.#applied ?? { offset: best.offset, at: monotonic }
    const passed = Math.max(0, monotonic - applied.at)
    const by = Math.min(passed * FASTER, Math.max(-passed * SLOWER, best.offset - applied.offset))
    this.#applied = { offset: applied.offset + by, at: Math.max(applied.at, monotonic) }
    return applied.offset + by
  }
}

function doubtOf({ error, at }: Sample, now: number): number {
  return error + (now - at) * DRIFT
}

/** Whether two samples cannot both be true of one clock. */
function disagree(a: Sample, b: Sample): boolean {
  return Math.abs(a.offset - b.offset) > LEAP_MS + a.error + b.error
}
