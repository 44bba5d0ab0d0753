/**
 * The leases a worker holds, each with its attempt: from the answer that brought it to the answer to its report.
 *
 * - A newer lease of a job stops the older attempt, and its handler begins when the older one is over.
 * - The first reason to stop is the one the handler's signal gives; that the lease is lost counts for more in what is reported.
 * - A handler that runs inline can only be asked to stop. Given up, it is `abandoned`: its lease is kept until it ends.
 * - A job for which no slot is free waits in the buffer, in the order of arrival. It starts within `bufferMs` of its arrival
 *   or is handed back, which uses no try.
 */
import { after, earliest, elapsed, instant, isDue, millis, type Instant } from '@curfew/core'
import type { Watched } from '../guard/protocol.ts'
import type { Stop } from '../isolate/protocol.ts'
import type { AttemptLimits } from '../limits.ts'
import { keyOf, reportOf, type AnyEnding, type Hold, type Report } from '../report.ts'
import { termsOf, type Asked, type Terms } from '../terms.ts'
import type { HandedJob } from '../wire.ts'
import type { Effects } from './effects.ts'
import {
  bufferedMs,
  bufferUntil,
  giveUpAt,
  isUnbegun,
  lapseOf,
  leaseName,
  mayRun,
  newHeld,
  nextDueAt,
  stallAt,
  stoppedBy,
  takesSlot,
  type Held,
} from './held.ts'
import type { Delivery, HandlerFacts, LeaseName } from './inputs.ts'
import type { Prefetch } from './prefetch.ts'

export interface HandlerTerms extends HandlerFacts {
  readonly limits: AttemptLimits
}

/** What decides whether a job that arrives is started. */
export interface Arrival {
  readonly asked: Asked
  /** Why nothing may start now; null: it may. */
  readonly refusal: string | null
}

/** How long a newer attempt waits for the older one of its job to end. */
const STEP_ASIDE_MS = millis(5_000)
/** What an isolate of the older attempt gets to clean up in, within its grace. */
const REPLACED_GRACE_MS = 500
/** Refusals that say that the attempt is over. After any other refusal the job is still held. */
const IS_OVER: readonly string[] = ['conflict', 'not_found']
const UNREPORTABLE = 'report_refused'
/** So many leases that an order named before their jobs arrived are remembered. */
const MAX_ORDERED = 1_000

export const LOST: Stop = { why: 'lost' }
const REPLACED: Stop = { why: 'lost', message: 'The server has handed the job out again.' }

export class Leases {
  readonly #effects: Effects
  readonly #concurrency: number
  readonly #prefetch: Prefetch
  readonly #handlers: ReadonlyMap<string, HandlerTerms>
  readonly #send: (report: Report) => void
  readonly #held = new Map<string, Held>()
  /** By job: more than one only while an older attempt steps aside. */
  readonly #byJob = new Map<string, readonly Held[]>()
  #slotsTaken = 0
  #waiting = 0
  /** In the order of arrival. */
  readonly #buffer = new Set<Held>()
  /** Leases that were cancelled or lost before the answer that brings them was read. */
  readonly #ordered = new Set<string>()
  /** How many attempts the guard was told of. */
  #watched = 0
  /** No reservation lapses before this. It may be earlier than the first that does: then it is looked for again. */
  #lapsesAt: Instant | null = null

  constructor(
    effects: Effects,
    concurrency: number,
    prefetch: Prefetch,
    handlers: ReadonlyMap<string, HandlerTerms>,
    send: (report: Report) => void,
  ) {
    this.#effects = effects
    this.#concurrency = concurrency
    this.#prefetch = prefetch
    this.#handlers = handlers
    this.#send = send
  }

  /** How many handlers run. */
  get slotsTaken(): number {
    return this.#slotsTaken
  }

  /** How many jobs wait for a slot. */
  get buffered(): number {
    return this.#buffer.size
  }

  /** How many jobs wait for an older attempt of theirs to end. */
  get waiting(): number {
    return this.#waiting
  }

  /** When a handler may have to stop because the reservation of its job lapses; null: not for now. */
  get lapsesAt(): Instant | null {
    return this.#lapsesAt
  }

  has(key: string): boolean {
    return this.#held.has(key)
  }

  /** Leases the worker still answers for. */
  names(): LeaseName[] {
    return [...this.#held.values()].map(leaseName)
  }

  /** Attempts whose handlers may be running, abandoned ones included. */
  running(): Held[] {
    return [...this.#held.values()].filter(mayRun)
  }

  /**
   * Attempts that were begun here and not ended: the server must not take them for untouched. What is handed back is not
   * among them: if the report did not arrive, the deregistration hands it back.
   */
  begun(): LeaseName[] {
    const begun = [...this.#held.values()].filter((held) => mayRun(held) || (held.isReported && !held.isHandedBack))
    return begun.map(leaseName)
  }

  // ---- Arriving ----

  take(jobs: readonly HandedJob[], arrival: Arrival, now: Instant): void {
    for (const job of jobs) {
      const held = this.#arrive(job, arrival, now)
      if (held === null) continue
      this.#buffer.add(held)
      this.#prefetch.arrived(held.giveUpAt - now)
    }
    if (this.#buffer.size === 0) return
    // Beats must list a job before a handler can block this thread.
    this.#effects.do({ do: 'flush-guard' })
    this.startBuffered(now)
    for (const held of this.#buffer) this.#effects.wakeBy(held.giveUpAt)
  }

  /** Starts what waits for a slot, as far as slots are free. */
  startBuffered(now: Instant): void {
    for (const held of this.#buffer) {
      if (this.#slotsTaken >= this.#concurrency) return
      if (hasLapsed(held, now)) this.#loseUnbegun(held)
      else if (isDue(held.giveUpAt, now)) this.#waitedTooLong(held)
      else this.#start(held, now)
    }
  }

  /** Null: it is not started now. */
  #arrive(job: HandedJob, { asked, refusal }: Arrival, now: Instant): Held | null {
    const hold: Hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    const key = keyOf(hold)
    if (this.#held.has(key)) return null // handed back before its answer came
    if (this.#ordered.delete(key)) return null // the server has ended it already
    const others = this.#byJob.get(job.id) ?? NO_OTHERS
    if (others.some(({ hold: { lease } }) => (lease ?? 0) > (hold.lease ?? 0))) return null // replaced on its way
    const handler = this.#handlers.get(job.type)
    const terms = termsOf(job, asked, handler?.limits ?? {})
    const held = this.#hold(newHeld(key, hold, job, terms, handler ?? NO_HANDLER, now))
    for (const older of others) this.#lose(older, REPLACED, after(now, STEP_ASIDE_MS), now)
    if (handler === undefined) {
      const error = { type: 'handler_not_found', message: `This worker has no handler for ${job.type}.` }
      this.#notBegun(held, { kind: 'nack', hold, requeue: false, error })
      return null
    }
    if (refusal !== null) {
      this.handBack(held, refusal)
      return null
    }
    if (isDue(terms.softAt, now)) {
      this.#neverStarted(held)
      return null
    }
    // An answer that was so long on its way brings a reservation that is over.
    if (hasLapsed(held, now)) {
      this.#loseUnbegun(held)
      return null
    }
    this.#watch(held)
    if (!others.some(mayRun)) return held
    this.#setHandler(held, 'waiting')
    held.giveUpAt = earliest(terms.softAt, after(now, STEP_ASIDE_MS)) ?? terms.softAt
    this.#effects.wakeBy(nextDueAt(held))
    return null
  }

  #start(held: Held, now: Instant): void {
    this.#setHandler(held, 'running')
    held.giveUpAt = giveUpAt(held.facts, held.terms.hardAt)
    held.begunAt = now
    this.#effects.wakeBy(nextDueAt(held))
    this.#effects.do({ do: 'start', key: held.key, job: held.job, terms: held.terms })
  }

  /** The handler of an older attempt is over: what waited for it begins. */
  #startWaiting(jobId: string, now: Instant): void {
    let waiting: Held | null = null
    for (const held of this.#byJob.get(jobId) ?? NO_OTHERS) {
      if (mayRun(held)) return
      if (held.handler === 'waiting') waiting = held
    }
    if (waiting === null) return
    if (isDue(waiting.terms.softAt, now)) {
      this.#neverStarted(waiting)
      return
    }
    if (hasLapsed(waiting, now)) {
      this.#loseUnbegun(waiting)
      return
    }
    if (this.#slotsTaken < this.#concurrency) {
      waiting.signAt = now
      this.#effects.do({ do: 'flush-guard' })
      this.#start(waiting, now)
    } else {
      // The older attempt was given up before it ended, and another job has taken its slot.
      this.#setHandler(waiting, 'buffered')
      waiting.giveUpAt = bufferUntil(waiting.terms, now)
      this.#buffer.add(waiting)
      this.#effects.wakeBy(waiting.giveUpAt)
    }
  }

  /** Hands back a job that was not begun. It uses no try. */
  handBack(held: Held, message: string): void {
    this.#notBegun(held, handBackReport(held.hold, 'shutdown', message))
  }

  handBackUnbegun(message: string): void {
    for (const held of [...this.#held.values()]) if (isUnbegun(held)) this.handBack(held, message)
  }

  #waitedTooLong(held: Held): void {
    this.#prefetch.waitedTooLong()
    this.handBack(held, 'No slot of the worker was free for the job soon enough.')
  }

  /** A job that never arrived, though the server takes it for held here. */
  handBackUnknown({ jobId, lease }: LeaseName, now: Instant): void {
    const hold: Hold = { jobId, attempt: 0, lease }
    const job = { id: jobId } as HandedJob
    const held = this.#hold(newHeld(keyOf(hold), hold, job, NO_TERMS, NO_HANDLER, now))
    const message = 'The answer that handed out the job did not arrive.'
    this.#notBegun(held, handBackReport(hold, 'lost_answer', message))
  }

  #notBegun(held: Held, report: Report): void {
    this.#setHandler(held, 'over')
    this.#report(held, report)
  }

  #neverStarted(held: Held): void {
    const { hold, terms } = held
    this.#setHandler(held, 'over')
    const error = { name: 'Error', message: 'The job arrived when its time was up; it was not started.' }
    this.#close(held, reportOf(hold, terms, terms.softStop, { kind: 'threw', error }, terms.softAt))
  }

  // ---- Stopping ----

  /** An order named a lease that is not here yet: when its job arrives, it is not started. */
  noteEnded({ jobId, lease }: LeaseName): void {
    if (this.#ordered.size < MAX_ORDERED) this.#ordered.add(keyOf({ jobId, attempt: 0, lease }))
  }

  /** No answer is on its way that could bring jobs. */
  forgetEnded(): void {
    this.#ordered.clear()
  }

  /** A new guard learns what its beats have to list. */
  watchAll(): void {
    this.#watched = 0
    for (const held of this.#held.values()) {
      held.watchNumber = 0
      if (!held.isLost && (takesSlot(held) || isUnbegun(held) || (held.isReported && !held.isHandedBack)))
        this.#watch(held)
    }
  }

  /** Beats list it from now on. */
  #watch(held: Held): void {
    held.watchNumber = ++this.#watched
    this.#effects.do({ do: 'watch', watched: watchedOf(held) })
    this.#lapsesAt = earliest(this.#lapsesAt, lapseOf(held)?.warnAt ?? null)
    this.#effects.wakeBy(this.#lapsesAt)
  }

  #findNextLapse(): void {
    this.#lapsesAt = null
    for (const held of this.#held.values()) this.#lapsesAt = earliest(this.#lapsesAt, lapseOf(held)?.warnAt ?? null)
    this.#effects.wakeBy(this.#lapsesAt)
  }

  /** The attempts that an order is about. */
  meant(jobId: string, lease: number | undefined): readonly Held[] {
    const held = this.#byJob.get(jobId) ?? NO_OTHERS
    return lease === undefined ? held : held.filter(({ hold }) => hold.lease === lease)
  }

  get(key: string): Held | undefined {
    return this.#held.get(key)
  }

  /**
   * Asks the handler to stop by `endsAt`. It is given up at `waitsUntil`, which may be later: an inline handler cannot be
   * ended. Neither is later than the hard deadline.
   */
  stop(held: Held, stop: Stop, endsAt: Instant, waitsUntil = endsAt): void {
    const wasLost = held.isLost
    if (stop.why === 'lost') this.#disown(held)
    if (held.handler !== 'running') return
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

  /** The server does not count on this lease any more. */
  lose(held: Held, now: Instant): void {
    this.#lose(held, LOST, after(now, held.terms.graceMs), now)
  }

  #lose(held: Held, stop: Stop, endsAt: Instant, now: Instant): void {
    if (isUnbegun(held)) {
      this.#disown(held)
      this.#setHandler(held, 'over')
      this.#close(held, null)
      return
    }
    // Isolates of a job that runs anew are killed soon: the newer attempt waits for them.
    const soon = after(now, millis(Math.min(held.terms.graceMs, REPLACED_GRACE_MS)))
    this.stop(held, stop, held.facts.isolated && stop === REPLACED ? soon : endsAt)
  }

  loseAll(now: Instant): void {
    for (const held of [...this.#held.values()]) {
      // What waits is not handed back: the older attempt of its job may still run.
      if (takesSlot(held) || held.handler === 'waiting') this.lose(held, now)
      else if (held.handler === 'buffered') this.#loseUnbegun(held)
    }
  }

  /** It never began, so nothing of it can be running when it goes back. */
  #loseUnbegun(held: Held): void {
    this.#disown(held)
    const message = 'The worker lost contact with the server before the job could begin.'
    this.#notBegun(held, handBackReport(held.hold, 'lost_lease', message))
  }

  /** No beat may list what is lost: it may run elsewhere, or here anew. */
  #disown(held: Held): void {
    if (held.isLost) return
    held.isLost = true
    this.#effects.do({ do: 'unwatch', key: held.key })
  }

  /** The worker waits no longer. What can be killed is killed; an inline handler is waited for until it ends. */
  shutDown(endsAt: Instant): void {
    this.handBackUnbegun('The worker shut down before the job could begin.')
    for (const held of [...this.#held.values()])
      this.stop(held, { why: 'shutdown' }, endsAt, held.facts.isolated ? endsAt : held.terms.hardAt)
  }

  // ---- Ending ----

  settled(key: string, ending: AnyEnding, now: Instant): void {
    const held = this.#held.get(key)
    if (held === undefined || held.handler === 'over') return
    const wasAbandoned = held.handler === 'abandoned'
    this.#prefetch.ran(elapsed(held.begunAt, now))
    this.#setHandler(held, 'over')
    if (wasAbandoned) this.#lateEnding(held, ending, now)
    else this.#close(held, reportOf(held.hold, held.terms, stoppedBy(held), ending, now, bufferedMs(held)))
    this.#startWaiting(held.hold.jobId, now)
  }

  /** A handler that was given up has ended after all: what the server may still wait for is handed back. */
  #lateEnding(held: Held, ending: AnyEnding, now: Instant): void {
    const { hold, terms, stop } = held
    this.#effects.log(
      'warn',
      { job_id: hold.jobId, attempt: hold.attempt, outcome: ending.kind, late_ms: elapsed(terms.hardAt, now) },
      'abandoned handler finished; result discarded',
    )
    if (held.isReported) return
    const isOpen = (held.isLost || stop?.why === 'shutdown') && !isDue(terms.hardAt, now)
    if (!isOpen) this.#forget(held)
    else this.#report(held, handBackReport(hold, 'lost_lease', 'The handler stopped after the worker had given it up.'))
  }

  /** The handler is over, or given up: what is said of it. Null: nothing. */
  #close(held: Held, report: Report | null): void {
    if (report !== null) {
      this.#report(held, report)
      return
    }
    const { hold } = held
    const stopped = stoppedBy(held)?.why ?? null
    const fields = { job_id: hold.jobId, attempt: hold.attempt, stopped }
    this.#effects.log('info', fields, 'an attempt ended without a report: its outcome no longer counts')
    if (held.handler === 'over') this.#forget(held)
    else this.#effects.do({ do: 'unwatch', key: held.key })
  }

  #report(held: Held, report: Report): void {
    held.isReported = true
    held.isHandedBack = report.kind === 'nack' && report.requeue
    this.#send(report)
  }

  /** The server answered a report. */
  delivered(report: Report, delivery: Delivery & { kind: 'done' | 'refused' }): void {
    const { hold, kind } = report
    if (delivery.kind === 'refused' && !IS_OVER.includes(delivery.code) && this.#reportOtherwise(report, delivery))
      return
    const held = this.#held.get(keyOf(hold))
    if (held !== undefined) {
      held.isReported = false
      if (held.handler === 'over') this.#forget(held)
      else this.#effects.do({ do: 'unwatch', key: held.key })
    }
    if (delivery.kind === 'done' || held?.isLost === true) return
    this.#effects.log(
      'warn',
      { job_id: hold.jobId, attempt: hold.attempt, report: kind, code: delivery.code, reason: delivery.message },
      'the server had closed this attempt already; its report was refused',
    )
  }

  /** The server refuses what the report says, and the job is still held: it fails with the reason for that. */
  #reportOtherwise({ kind, hold, ...report }: Report, { code, message }: Delivery & { kind: 'refused' }): boolean {
    if ('error' in report && report.error.code === UNREPORTABLE) return false
    // A result that cannot be stored would not be the next time; what a failure says may be another thing.
    const type = kind === 'ack' ? code : UNREPORTABLE
    const retryable = kind === 'ack' ? { retryable: false } : {}
    const error = { type, code: UNREPORTABLE, message: message.slice(0, 500), ...retryable }
    this.#send({ kind: 'nack', hold, requeue: false, error })
    return true
  }

  // ---- Time ----

  /** A heartbeat that was sent then has been answered. It listed the first `begun` attempts that the guard was told of. */
  listed(sentAt: Instant, begun: number): void {
    for (const held of this.#held.values())
      if (held.watchNumber > 0 && held.watchNumber <= begun && sentAt > held.listedAt) held.listedAt = sentAt
    this.#findNextLapse()
  }

  due(now: Instant): void {
    if (isDue(this.#lapsesAt, now)) this.#dueLapses(now)
    for (const held of [...this.#held.values()]) if (isDue(nextDueAt(held), now)) this.#dueFor(held, now)
  }

  nextDueAt(): Instant | null {
    let next: Instant | null = null
    for (const held of this.#held.values()) next = earliest(next, nextDueAt(held))
    return earliest(next, this.#lapsesAt)
  }

  #dueLapses(now: Instant): void {
    for (const held of [...this.#held.values()]) {
      const lapse = lapseOf(held)
      if (lapse === null || !isDue(lapse.warnAt, now)) continue
      if (held.handler === 'running') this.#lapse(held, lapse.fenceAt, now)
      else this.#loseUnbegun(held)
    }
    this.#findNextLapse()
  }

  #dueFor(held: Held, now: Instant): void {
    const { terms } = held
    if (held.handler === 'buffered') {
      this.#waitedTooLong(held)
      return
    }
    if (held.handler === 'waiting') {
      if (isDue(terms.softAt, now)) this.#neverStarted(held)
      else this.handBack(held, 'An earlier attempt of the job is still running in this worker.')
      return
    }
    if (held.stop === null && isDue(terms.softAt, now)) this.stop(held, terms.softStop, terms.hardAt)
    else if (held.stop === null && isDue(stallAt(held), now)) this.#stall(held, now)
    if (isDue(held.giveUpAt, now)) this.#abandon(held, now)
  }

  /** It gave no sign of life in time: the server has given it up by now. */
  #stall(held: Held, now: Instant): void {
    const { stallMs, graceMs } = held.terms
    const stop: Stop = { why: 'deadline', kind: 'stalled', limitMs: stallMs ?? 0, source: 'server' }
    this.#effects.do({ do: 'unwatch', key: held.key })
    this.stop(held, stop, after(now, graceMs))
  }

  /** No heartbeat was answered in time: the server is about to hand the job to another worker. */
  #lapse(held: Held, lapsesAt: Instant, now: Instant): void {
    const { hold, listedAt } = held
    const fields = { job_id: hold.jobId, attempt: hold.attempt, silent_ms: Math.round(elapsed(listedAt, now)) }
    this.#effects.log('warn', fields, 'no heartbeat for the job was answered in time; stopping its handler')
    this.stop(held, LOST, lapsesAt)
  }

  /** The handler did not stop in time. Nothing it does from here on counts. */
  #abandon(held: Held, now: Instant): void {
    this.#setHandler(held, 'abandoned')
    this.#effects.do({ do: 'abandon', key: held.key })
    this.#close(held, reportOf(held.hold, held.terms, stoppedBy(held), { kind: 'abandoned' }, now, bufferedMs(held)))
  }

  // ---- Shared parts ----

  #hold(held: Held): Held {
    this.#held.set(held.key, held)
    const same = this.#byJob.get(held.hold.jobId)
    this.#byJob.set(held.hold.jobId, same === undefined ? [held] : [...same, held])
    return held
  }

  #setHandler(held: Held, handler: Held['handler']): void {
    if (takesSlot(held)) this.#slotsTaken -= 1
    if (held.handler === 'waiting') this.#waiting -= 1
    if (held.handler === 'buffered') this.#buffer.delete(held)
    held.handler = handler
    if (takesSlot(held)) this.#slotsTaken += 1
    if (handler === 'waiting') this.#waiting += 1
    this.#effects.wantsTurn = true
  }

  #forget(held: Held): void {
    this.#held.delete(held.key)
    const same = this.#byJob.get(held.hold.jobId) ?? NO_OTHERS
    if (same.length <= 1) this.#byJob.delete(held.hold.jobId)
    else {
      const others = same.filter((other) => other !== held)
      this.#byJob.set(held.hold.jobId, others)
    }
    this.#effects.do({ do: 'unwatch', key: held.key })
  }
}

export function handBackReport(hold: Hold, type: string, message: string): Report {
  return { kind: 'nack', hold, requeue: true, error: { type, code: type, message } }
}

/** The server may be about to hand its job to another worker: it must not begin. */
const hasLapsed = (held: Held, now: Instant): boolean => isDue(lapseOf(held)?.warnAt ?? null, now)

const NO_OTHERS: readonly Held[] = []

const NO_HANDLER: HandlerFacts = { isolated: false, manual: false }

/** Of a job that is only handed back. */
export const NO_TERMS: Terms = {
  startedAt: instant(0),
  softAt: instant(Infinity),
  hardAt: instant(Infinity),
  killAt: instant(Infinity),
  graceMs: millis(0),
  stallMs: null,
  visibilityMs: null,
  softStop: { why: 'deadline', kind: 'execution', limitMs: 0, source: 'default' },
}

function watchedOf({ key, hold, terms, facts, listedAt }: Held): Watched {
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
