/**
 * Attempts that must stop: at a deadline, by an order, because the lease is lost, or because the worker leaves.
 *
 * - The first reason to stop is the one the handler's signal gives; that the lease is lost counts for more in what is reported.
 * - A handler that runs inline can only be asked to stop. Given up, it is `abandoned`: its lease is kept until it ends.
 */
import { after, earliest, elapsed, isDue, millis, type Instant } from '@curfew/core'
import type { Stop } from '../attempt/facts.ts'
import type { AttemptTable } from './attempt-table.ts'
import type { Effects } from './effects.ts'
import { giveUpAt, isUnbegun, takesSlot, type HeldAttempt } from './held-attempt.ts'
import type { Outcomes } from './outcomes.ts'

/** How long a newer attempt waits for the older one of its job to end. */
export const STEP_ASIDE_MS = millis(5_000)
/** What an isolate of the older attempt gets to clean up in, within its grace. */
const REPLACED_GRACE_MS = 500

const LOST: Stop = { why: 'lost' }
const REPLACED: Stop = { why: 'lost', message: 'The server has handed the job out again.' }

export class Stops {
  readonly #effects: Effects
  readonly #table: AttemptTable
  readonly #outcomes: Outcomes

  constructor(effects: Effects, table: AttemptTable, outcomes: Outcomes) {
    this.#effects = effects
    this.#table = table
    this.#outcomes = outcomes
  }

  /**
   * Asks the handler to stop by `endsAt`. It is given up at `waitsUntil`, which may be later: an inline handler cannot be
   * ended. Neither is later than the hard deadline.
   */
  stop(held: HeldAttempt, stop: Stop, endsAt: Instant, waitsUntil = endsAt): void {
    const wasLost = held.isLost
    if (stop.why === 'lost') this.#disown(held)
    if (held.step !== 'running') return
    const lastAt = earliest(endsAt, held.terms.hardAt) ?? endsAt
    const gaveUpAt = giveUpAt(held.facts, earliest(waitsUntil, held.terms.hardAt) ?? waitsUntil)
    const isFirst = held.stop === null
    const isNearer = gaveUpAt < held.giveUpAt
    if (isFirst) held.stop = stop
    if (isNearer) held.giveUpAt = gaveUpAt
    this.#effects.wakeBy(held.giveUpAt)
    if (!isFirst && !isNearer && held.isLost === wasLost) return
    const isLost = held.isLost || (held.stop?.why === 'deadline' && held.stop.kind === 'stalled')
    this.#effects.do({ do: 'abort', key: held.key, stop: held.stop ?? stop, endsAt: lastAt, isLost })
  }

  /**
   * Its handler has ended. A timer of the handler's own, such as that of a step, may fire before the session looks at the time:
   * what passed at the soft deadline is the limit of the attempt, even if the handler noticed it first.
   */
  settledAt(held: HeldAttempt, now: Instant): void {
    if (held.step === 'running' && held.stop === null && isDue(held.terms.softAt, now)) held.stop = held.terms.softStop
  }

  /** It gave no sign of life in time: the server has given it up by now. */
  stall(held: HeldAttempt, now: Instant): void {
    const { stallMs, graceMs } = held.terms
    const stop: Stop = { why: 'deadline', kind: 'stalled', limitMs: stallMs ?? 0, source: 'server' }
    this.#effects.do({ do: 'unwatch', key: held.key })
    this.stop(held, stop, after(now, graceMs))
  }

  /** No heartbeat was answered in time: the server is about to hand the job to another worker. */
  lapse(held: HeldAttempt, lapsesAt: Instant, now: Instant): void {
    const { hold, listedAt } = held
    const fields = { job_id: hold.jobId, attempt: hold.attempt, silent_ms: Math.round(elapsed(listedAt, now)) }
    this.#effects.log('warn', fields, 'no heartbeat for the job was answered in time; stopping its handler')
    this.stop(held, LOST, lapsesAt)
  }

  /** The server refused a call of this attempt: its handler may clean up. */
  refused(held: HeldAttempt, now: Instant): void {
    this.stop(held, LOST, after(now, held.terms.graceMs))
  }

  /** The server does not count on this lease any more. */
  lose(held: HeldAttempt, now: Instant): void {
    this.#lose(held, LOST, after(now, held.terms.graceMs), now)
  }

  /** The server has handed the job out again, to this worker. */
  replace(held: HeldAttempt, now: Instant): void {
    this.#lose(held, REPLACED, after(now, STEP_ASIDE_MS), now)
  }

  #lose(held: HeldAttempt, stop: Stop, endsAt: Instant, now: Instant): void {
    if (isUnbegun(held)) {
      this.#disown(held)
      this.#table.enter(held, 'over')
      this.#outcomes.close(held, null)
      return
    }
    // Isolates of a job that runs anew are killed soon: the newer attempt waits for them.
    const soon = after(now, millis(Math.min(held.terms.graceMs, REPLACED_GRACE_MS)))
    this.stop(held, stop, held.facts.isolated && stop === REPLACED ? soon : endsAt)
  }

  loseAll(now: Instant): void {
    for (const held of this.#table.snapshot()) {
      // What waits is not handed back: the older attempt of its job may still run.
      if (takesSlot(held) || held.step === 'waiting') this.lose(held, now)
      else if (held.step === 'buffered') this.loseUnbegun(held)
    }
  }

  /** It never began, so nothing of it can be running when it goes back. */
  loseUnbegun(held: HeldAttempt): void {
    this.#disown(held)
    this.#outcomes.handBack(held, 'The worker lost contact with the server before the job could begin.', 'lost_lease')
  }

  /** No beat may list what is lost: it may run elsewhere, or here anew. */
  #disown(held: HeldAttempt): void {
    if (held.isLost) return
    held.isLost = true
    this.#effects.do({ do: 'unwatch', key: held.key })
  }

  /** The worker waits no longer. What can be killed is killed; an inline handler is waited for until it ends. */
  shutDown(endsAt: Instant): void {
    this.#outcomes.handBackUnbegun('The worker shut down before the job could begin.')
    for (const held of this.#table.snapshot())
      this.stop(held, { why: 'shutdown' }, endsAt, held.facts.isolated ? endsAt : held.terms.hardAt)
  }
}
