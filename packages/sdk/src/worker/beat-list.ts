/**
 * Which attempts the guard's heartbeats list, and when a reservation lapses because no answered heartbeat listed it.
 *
 * The session announces attempts to the guard in order, and the guard numbers them; the answer to a beat says how many of them it listed.
 */
import { earliest, type Instant } from '@curfew/core'
import type { Watched } from '../guard/protocol.ts'
import type { AttemptTable } from './attempt-table.ts'
import type { Effects } from './effects.ts'
import { isUnbegun, lapseOf, takesSlot, type HeldAttempt } from './held-attempt.ts'

export class BeatList {
  readonly #effects: Effects
  readonly #table: AttemptTable
  /** How many attempts were announced to the guard. */
  #watched = 0
  /** No reservation lapses before this. It may be earlier than the first that does: then it is looked for again. */
  #lapsesAt: Instant | null = null

  constructor(effects: Effects, table: AttemptTable) {
    this.#effects = effects
    this.#table = table
  }

  /** When a handler may have to stop because the reservation of its job lapses; null: not for now. */
  get lapsesAt(): Instant | null {
    return this.#lapsesAt
  }

  /** Beats list it from now on. */
  add(held: HeldAttempt): void {
    held.watchNumber = ++this.#watched
    this.#effects.do({ do: 'watch', watched: watchedOf(held) })
    this.#lapsesAt = earliest(this.#lapsesAt, lapseOf(held)?.warnAt ?? null)
    this.#effects.wakeBy(this.#lapsesAt)
  }

  /** A new guard learns what its beats have to list. */
  addAll(): void {
    this.#watched = 0
    for (const held of this.#table.all()) {
      held.watchNumber = 0
      if (!held.isLost && (takesSlot(held) || isUnbegun(held) || (held.isReported && !held.isHandedBack)))
        this.add(held)
    }
  }

  /** A heartbeat that was sent then has been answered. It listed the first `begun` attempts that were announced to the guard. */
  answered(sentAt: Instant, begun: number): void {
    for (const held of this.#table.all())
      if (held.watchNumber > 0 && held.watchNumber <= begun && sentAt > held.listedAt) held.listedAt = sentAt
    this.findNextLapse()
  }

  findNextLapse(): void {
    this.#lapsesAt = null
    for (const held of this.#table.all()) this.#lapsesAt = earliest(this.#lapsesAt, lapseOf(held)?.warnAt ?? null)
    this.#effects.wakeBy(this.#lapsesAt)
  }
}

function watchedOf({ key, hold, terms, facts, listedAt }: HeldAttempt): Watched {
  return {
    key,
    jobId: hold.jobId,
    lease: hold.lease,
    manual: facts.manual,
    stallMs: terms.stallMs,
    visibilityMs: terms.visibilityMs,
    listedAt,
    graceMs: terms.graceMs,
    hardAt: facts.isolated ? terms.killAt : terms.hardAt,
    softStop: terms.softStop,
  }
}
