/**
 * The calls of a worker that are under way, and the reports that wait to be sent.
 *
 * One call is always open for jobs and orders (where the server has orders); it asks for no jobs when no slot is free. Reports
 * travel by other calls, one at a time, which take along a question for jobs when the open call asks for none.
 */
import { after, earliest, elapsed, isDue, millis, type Instant, type Millis, type Random } from '@curfew/core'
import type { WorkerState } from '../guard/protocol.ts'
import type { Report } from '../report.ts'
import type { Effects } from './effects.ts'
import type { Call, CallAnswer, LeaseName, ServerFeatures } from './inputs.ts'

export interface OpenCall extends Call {
  readonly sentAt: Instant
  /** The change of the worker's state that it was sent after. */
  readonly epoch: number
  /** When a newer call took its place. */
  replacedAt: Instant | null
}

/** What the worker is like when calls are decided on. */
export interface Situation {
  readonly state: WorkerState
  readonly epoch: number
  readonly freeSlots: number
  /** How long the server may hold a call open. */
  readonly maxWaitMs: Millis
}

const MAX_REPORTS = 500
/** Where an empty answer comes at once, the next question waits. */
const IDLE_MS = 1_000
/** A call that was replaced is answered at once; if not, it is hung up. */
const REPLACED_PATIENCE_MS = millis(2_000)
/** An answer with jobs that takes longer than this is taken for lost. */
export const LATE_ANSWER_MS = millis(1_000)

export class Calls {
  readonly #effects: Effects
  readonly #random: Random
  server: ServerFeatures = { orders: false, waits: false }
  /** The worker takes its leave: what a lost call may have brought is the server's to hand back. */
  isLastWord = false
  readonly #open = new Map<number, OpenCall>()
  #lastId = 0
  #lastSeq = 0
  #outbox: Report[] = []
  #maxReports = MAX_REPORTS
  #heard: LeaseName[] = []
  #idleUntil: Instant | null = null

  constructor(effects: Effects, random: Random) {
    this.#effects = effects
    this.#random = random
  }

  // ---- Reports and orders ----

  report(report: Report): void {
    this.#outbox.push(report)
    this.#effects.wantsTurn = true
  }

  /** This order was received: the next open call says so. */
  noteOrder(name: LeaseName): void {
    if (this.server.orders) this.#heard.push(name)
  }

  /** Every report was answered, and no call may bring jobs. */
  get isDone(): boolean {
    return this.#outbox.length === 0 && !this.#isReporting() && !this.isAsking()
  }

  /** Reports that were not sent yet; they are the caller's now. */
  takeUnsent(): Report[] {
    return this.#outbox.splice(0)
  }

  // ---- Sending ----

  /** Decides which calls to send now. */
  pump(now: Instant, situation: Situation): void {
    this.#sendReports(now, situation)
    this.#keepOneOpen(now, situation)
  }

  nextSeq(now: Instant): number {
    this.#lastSeq = Math.max(this.#lastSeq + 1, Math.floor(now))
    return this.#lastSeq
  }

  /** The worker's state changed: the next call need not wait. */
  hurry(): void {
    this.#idleUntil = null
  }

  #sendReports(now: Instant, situation: Situation): void {
    if (this.#isReporting()) return
    const reports = this.#takeReports(situation.state)
    if (reports.length === 0) return
    // The open call asks for jobs already, unless it was opened when no slot was free.
    const count = !this.server.orders || this.#waiting()?.count === 0 ? this.#wanted(situation) : 0
    this.#send({ reports, count, waitMs: 0, listen: null }, now, situation.epoch)
  }

  /** While the worker is not running, a hand-back waits until no call asks for jobs: it could come back by that call. */
  #takeReports(state: WorkerState): Report[] {
    if (state === 'running' || !this.isAsking()) return this.#outbox.splice(0, this.#maxReports)
    const ready = this.#outbox.filter((report) => !isHandBack(report)).slice(0, this.#maxReports)
    this.#outbox = this.#outbox.filter((report) => !ready.includes(report))
    return ready
  }

  #keepOneOpen(now: Instant, situation: Situation): void {
    const { orders, waits } = this.server
    const wanted = this.#wanted(situation)
    const open = this.#waiting()
    if (open === null) {
      if (wanted === 0 && !orders) return
      if (this.#idleUntil !== null && !isDue(this.#idleUntil, now)) return
      this.#idleUntil = null
    } else {
      const isOutdated = open.epoch !== situation.epoch
      const asksTooLittle = open.count === 0 && wanted > 0
      if (!orders || !(isOutdated || asksTooLittle)) return
      open.replacedAt = now
      this.#effects.wakeBy(after(now, REPLACED_PATIENCE_MS))
    }
    const listen = orders ? { state: situation.state, seq: this.nextSeq(now), heard: this.#heard.splice(0) } : null
    this.#send({ reports: [], count: wanted, waitMs: waits ? situation.maxWaitMs : 0, listen }, now, situation.epoch)
  }

  #send(call: Omit<Call, 'id'>, now: Instant, epoch: number): void {
    const open: OpenCall = { ...call, id: ++this.#lastId, sentAt: now, epoch, replacedAt: null }
    this.#open.set(open.id, open)
    this.#effects.do({ do: 'call', call: open })
  }

  // ---- Answers ----

  /** The call, which is over now; null for one that was given up. */
  answered(id: number, answer: CallAnswer, now: Instant): OpenCall | null {
    const call = this.#close(id)
    if (call === null) return null
    this.#maxReports = MAX_REPORTS
    const isEmpty = answer.jobs.length === 0 && answer.orders === null && answer.failure === null
    const isEarly = elapsed(call.sentAt, now) < call.waitMs / 2 + 1
    // A server that gives nothing and does not wait would be asked without end.
    if (call.reports.length === 0 && call.replacedAt === null && isEmpty && isEarly) this.#idleFor(now)
    return call
  }

  /** Its reports are sent again. */
  failed(id: number): OpenCall | null {
    const call = this.#close(id)
    if (call === null) return null
    this.#outbox.unshift(...call.reports)
    this.#lost(call)
    return call
  }

  /** What the server cannot take together it may take one by one. Gives the only report of a call that is too large. */
  tooLarge(id: number): Report | null {
    const call = this.#close(id)
    if (call === null) return null
    this.#lost(call)
    const [only] = call.reports
    if (only !== undefined && call.reports.length === 1) return only
    this.#outbox.unshift(...call.reports)
    this.#maxReports = 1
    return null
  }

  /** Calls that asked for jobs at that moment: they may bring what was claimed then. */
  bringersAt(claimedBy: Instant): OpenCall[] {
    return [...this.#open.values()].filter(({ count, sentAt }) => count > 0 && sentAt <= claimedBy)
  }

  hangUp(call: OpenCall): void {
    if (this.#close(call.id) === null) return
    this.#outbox.unshift(...call.reports)
    this.#effects.do({ do: 'hang-up', call: call.id })
    this.#lost(call)
  }

  hangUpAll(): void {
    for (const call of [...this.#open.values()]) this.hangUp(call)
  }

  /** An open call may bring jobs. */
  isAsking(): boolean {
    for (const { count } of this.#open.values()) if (count > 0) return true
    return false
  }

  // ---- Time ----

  due(now: Instant): void {
    for (const call of [...this.#open.values()])
      if (call.replacedAt !== null && isDue(after(call.replacedAt, REPLACED_PATIENCE_MS), now)) this.hangUp(call)
  }

  nextDueAt(now: Instant): Instant | null {
    let next = this.#idleUntil !== null && this.#idleUntil > now ? this.#idleUntil : null
    for (const { replacedAt } of this.#open.values())
      if (replacedAt !== null) next = earliest(next, after(replacedAt, REPLACED_PATIENCE_MS))
    return next
  }

  // ---- Shared parts ----

  #close(id: number): OpenCall | null {
    const call = this.#open.get(id)
    if (call === undefined) return null
    this.#open.delete(id)
    this.#effects.wantsTurn = true
    return call
  }

  /** Orders that it acknowledged are acknowledged again; jobs that it may have brought are found by the next beat. */
  #lost({ listen, count }: OpenCall): void {
    if (listen !== null) this.#heard = [...listen.heard, ...this.#heard]
    if (count > 0 && !this.isLastWord) this.#effects.do({ do: 'beat', inMs: LATE_ANSWER_MS })
  }

  #idleFor(now: Instant): void {
    this.#idleUntil = after(now, millis(IDLE_MS * (0.75 + this.#random() / 2)))
    this.#effects.wakeBy(this.#idleUntil)
  }

  #isReporting(): boolean {
    for (const { reports } of this.#open.values()) if (reports.length > 0) return true
    return false
  }

  /** The call that waits for jobs and orders, if one is open and not replaced. */
  #waiting(): OpenCall | null {
    for (const call of this.#open.values()) if (call.reports.length === 0 && call.replacedAt === null) return call
    return null
  }

  /** How many jobs could be run besides those that run or are asked for. */
  #wanted({ state, freeSlots }: Situation): number {
    if (state !== 'running') return 0
    let asked = 0
    for (const { count } of this.#open.values()) asked += count
    return Math.max(0, freeSlots - asked)
  }
}

const isHandBack = (report: Report): boolean => report.kind === 'nack' && report.requeue
