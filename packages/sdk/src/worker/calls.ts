/**
 * The calls of a worker that are under way, and the reports that wait to be sent.
 *
 * One call is always open for jobs and orders (where the server has orders); it asks for no jobs when no slot is free. Reports
 * travel by other calls, which take along a question for jobs when the open call asks for none. One of these is under way at a
 * time. A worker that takes jobs in advance may send a second one, if that asks for jobs: its slots can empty the buffer in less
 * time than one call takes.
 */
import { after, earliest, elapsed, isDue, millis, type Instant, type Millis, type Random } from '@curfew/core'
import type { WorkerState } from '../guard/protocol.ts'
import type { Report } from '../attempt/report.ts'
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
  readonly room: Room
  /** How long the server may hold a call open. */
  readonly maxWaitMs: Millis
}

/** What the worker has room for. */
export interface Room {
  /** Jobs that run or wait for a slot. */
  readonly kept: number
  readonly slots: number
  /** How many jobs may wait for a slot. */
  readonly depth: number
}

export const NO_ROOM: Room = { kept: 0, slots: 0, depth: 0 }

const MAX_REPORTS = 500
/** Calls with reports that are under way at once, of a worker with jobs in reserve. */
const MAX_REPORTING = 2
/** The server hands out no more at once. */
const MAX_JOBS = 1_000
/** Orders acknowledged by one call. */
const MAX_HEARD = 1_000
/** So many answers in a row may come early with orders that change nothing; then the next call waits. */
const MAX_EARLY = 3
/** Rest of reports that the server could not store, doubled each time. */
const FIRST_REST_MS = 250
const MAX_REST_MS = 5_000
const MAX_DOUBLINGS = 10
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
  /** By lease: an order may be repeated before it could be acknowledged. */
  readonly #heard = new Map<string, LeaseName>()
  #idleUntil: Instant | null = null
  #early = 0
  #unstored = 0
  #reportsRestUntil: Instant | null = null

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
    if (this.server.orders) this.#heard.set(heardKey(name), name)
  }

  /** The server answered, but could not store this report. */
  notStored(report: Report, now: Instant): void {
    this.#outbox.push(report)
    if (this.#reportsRestUntil !== null && this.#reportsRestUntil > now) return
    const restMs = Math.min(MAX_REST_MS, FIRST_REST_MS * 2 ** this.#unstored)
    this.#unstored = Math.min(this.#unstored + 1, MAX_DOUBLINGS)
    this.#reportsRestUntil = after(now, millis(restMs * (0.5 + this.#random() / 2)))
    this.#effects.wakeBy(this.#reportsRestUntil)
  }

  /** The server stores reports again. */
  stored(): void {
    this.#unstored = 0
    this.#reportsRestUntil = null
  }

  /** Every report was answered, and no call may bring jobs. */
  get isDone(): boolean {
    return this.#outbox.length === 0 && this.#reporting() === 0 && !this.isAsking()
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
    const underWay = this.#reporting()
    if (underWay >= (situation.room.depth > 0 ? MAX_REPORTING : 1)) return
    if (this.#reportsRestUntil !== null && !isDue(this.#reportsRestUntil, now)) return
    // The open call asks for jobs already, unless it was opened when no slot was free.
    const count = !this.server.orders || this.#waiting()?.count === 0 ? this.#wanted(situation) : 0
    // Reports alone can wait for the answer to those on their way: one call then takes them all.
    if (underWay > 0 && count === 0) return
    const reports = this.#takeReports(situation.state)
    if (reports.length === 0) return
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
      // With jobs in reserve the next reports may as well ask.
      const isReserve = situation.room.depth > 0 && this.#reporting() > 0
      const asksTooLittle = open.count === 0 && wanted > 0 && !isReserve
      if (!orders || !(isOutdated || asksTooLittle)) return
      open.replacedAt = now
      this.#effects.wakeBy(after(now, REPLACED_PATIENCE_MS))
    }
    const listen = orders ? { state: situation.state, heard: this.#takeHeard() } : null
    this.#send({ reports: [], count: wanted, waitMs: waits ? situation.maxWaitMs : 0, listen }, now, situation.epoch)
  }

  #takeHeard(): LeaseName[] {
    const heard = [...this.#heard.values()].slice(0, MAX_HEARD)
    for (const name of heard) this.#heard.delete(heardKey(name))
    return heard
  }

  #send(call: Omit<Call, 'id' | 'seq'>, now: Instant, epoch: number): void {
    const [id, seq] = [++this.#lastId, this.nextSeq(now)]
    const open: OpenCall = { ...call, id, seq, sentAt: now, epoch, replacedAt: null }
    this.#open.set(open.id, open)
    this.#effects.do({ do: 'call', call: open })
  }

  // ---- Answers ----

  /** The call, which is over now; null for one that was given up. */
  answered(id: number): OpenCall | null {
    const call = this.#close(id)
    if (call !== null) this.#maxReports = MAX_REPORTS
    return call
  }

  /**
   * A server that does not wait and gives nothing would be asked without end. `isOfUse`: the answer brought jobs, or orders
   * that changed something.
   */
  pace(call: OpenCall, { orders, failure }: CallAnswer, isOfUse: boolean, now: Instant): void {
    if (call.reports.length > 0 || call.replacedAt !== null) return
    const isEarly = elapsed(call.sentAt, now) < call.waitMs / 2 + 1
    this.#early = isEarly && !isOfUse && failure === null ? this.#early + 1 : 0
    if (this.#early > 0 && (orders === null || this.#early > MAX_EARLY)) this.#idleFor(now)
  }

  /** Its reports are sent again. */
  failed(id: number): OpenCall | null {
    const call = this.#close(id)
    if (call === null) return null
    this.#outbox.unshift(...call.reports)
    this.#lost(call)
    return call
  }

  /**
   * The server refuses the body. What it does not take together it may take one by one: gives the report that it refuses
   * alone, and null when there is another try.
   */
  refused(id: number): { readonly report: Report | null; readonly hadReports: boolean } | null {
    const call = this.#close(id)
    if (call === null) return null
    this.#lost(call)
    const [only] = call.reports
    if (only !== undefined && call.reports.length === 1) return { report: only, hadReports: true }
    this.#outbox.unshift(...call.reports)
    this.#maxReports = 1
    return { report: null, hadReports: only !== undefined }
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
    let next: Instant | null = null
    for (const at of [this.#idleUntil, this.#reportsRestUntil]) if (at !== null && at > now) next = earliest(next, at)
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
    for (const name of listen?.heard ?? []) this.#heard.set(heardKey(name), name)
    if (count > 0 && !this.isLastWord) this.#effects.do({ do: 'beat', inMs: LATE_ANSWER_MS })
  }

  #idleFor(now: Instant): void {
    this.#idleUntil = after(now, millis(IDLE_MS * (0.75 + this.#random() / 2)))
    this.#effects.wakeBy(this.#idleUntil)
  }

  /** How many calls with reports are under way. */
  #reporting(): number {
    let calls = 0
    for (const { reports } of this.#open.values()) if (reports.length > 0) calls += 1
    return calls
  }

  /** The call that waits for jobs and orders, if one is open and not replaced. */
  #waiting(): OpenCall | null {
    for (const call of this.#open.values()) if (call.reports.length === 0 && call.replacedAt === null) return call
    return null
  }

  /**
   * How many jobs to ask for besides those that are kept or asked for. While no slot is free it asks only when the buffer is
   * half empty: then one call brings many.
   */
  #wanted({ state, room: { kept, slots, depth } }: Situation): number {
    if (state !== 'running') return 0
    let taken = kept
    for (const { count } of this.#open.values()) taken += count
    const size = slots + depth
    if (taken >= slots && taken > size / 2) return 0
    return Math.min(MAX_JOBS, size - taken)
  }
}

const heardKey = ({ jobId, lease }: LeaseName): string => `${jobId}#${String(lease)}`

const isHandBack = (report: Report): boolean => report.kind === 'nack' && report.requeue
