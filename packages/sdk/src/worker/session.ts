/**
 * The state of a worker and of its attempts, in one place. A session hears one input at a time and answers with what is to
 * be done. It never waits, reads no clock and calls nothing, so every race is an order of inputs.
 *
 *   begin ─→ registering ─→ running ⇄ quiet            quiet(), resume(), signals, the operator's orders
 *                              └────────┴─→ terminate
 *   terminate:  drain ─→ clean-up ─→ last-reports ─→ silence ─→ deregister ─→ ended
 *
 * Invariants
 * - Attempts are keyed by lease. A newer lease of a job stops the older one, and starts when its handler is over.
 * - No handler starts while the state is not `running`: what arrives then or waits for a slot is handed back, which uses no
 *   try.
 * - One call is always open for jobs and orders; it asks for no jobs when no slot is free. Reports use other calls, two at once
 *   at most.
 * - While the worker is not running, a hand-back waits until no call that asks for jobs is open: it could come back by it.
 * - Nothing is sent after the deregistration; beats end before it.
 * - Every lease is reported, handed back, or known to be lost.
 *
 * Parts: `leases.ts` the attempts, `prefetch.ts` how many jobs are taken in advance, `calls.ts` the calls and reports, `contact.ts` outages. What an attempt may take is in
 * `terms.ts`, what is reported of it in `report.ts`.
 */
import { after, earliest, instant, isDue, millis, type Instant, type Millis, type Random } from '@curfew/core'
import type { StopOrder, WorkerState } from '../guard/protocol.ts'
import { keyOf } from '../report.ts'
import { Calls, LATE_ANSWER_MS, NO_ROOM, type Room } from './calls.ts'
import { Contact } from './contact.ts'
import { Effects } from './effects.ts'
import { isUnbegun, takesSlot } from './held.ts'
import type { CallAnswer, Effect, Input, LeaseName, Orders, ServerFeatures, Unlisted } from './inputs.ts'
import { handBackReport, Leases, LOST, type HandlerTerms } from './leases.ts'
import { defaultPrefetch, Prefetch } from './prefetch.ts'

export interface SessionOptions {
  readonly concurrency: number
  /** The largest number of jobs taken beyond the slots; null: as `defaultPrefetch` says. */
  readonly prefetch: number | null
  /** How long running jobs are waited for when the server orders the worker to terminate. */
  readonly drainMs: Millis
  readonly handlers: ReadonlyMap<string, HandlerTerms>
  readonly random: Random
}

const DEFAULT_INTERVAL_MS = millis(5_000)
const MAX_WAIT_MS = 20_000
/** What handlers get to clean up in, once the worker waits for them no longer. */
const CLEAN_UP_MS = millis(2_000)
/** How long the last reports may take. */
const LAST_REPORTS_MS = millis(5_000)
/** Rest after the server refused to register the worker again. */
const REGISTER_REST_MS = millis(5_000)
/** A job that is not known is handed back when a beat names it that was sent this long after it was first read of. */
const SECOND_LOOK_MS = millis(500)

type Stage = 'drain' | 'clean-up' | 'last-reports' | 'silence' | 'deregister' | 'ended'

interface Leaving {
  stage: Stage
  drainAt: Instant
  stageEndsAt: Instant | null
  isDeregistering: boolean
}

export class Session {
  readonly #options: SessionOptions
  readonly #effects = new Effects()
  readonly #calls: Calls
  readonly #contact: Contact
  readonly #leases: Leases
  readonly #prefetch: Prefetch
  #state: WorkerState = 'running'
  /** Grows with each change of state. */
  #epoch = 0
  #registration: 'none' | 'asking' | 'done' = 'none'
  #hasBegun = false
  #isStarted = false
  /** A registration was sent: the server may know this worker. */
  #mayBeKnown = false
  /** The server has known this worker: reports may be sent. */
  #wasRegistered = false
  #registersAgainAt: Instant | null = null
  #isRefusalLogged = false
  /** The process ends with the worker. */
  #exits = false
  /** Heartbeats are sent. Without a guard nothing starts. */
  #hasGuard = true
  /** Jobs that the server takes for held here and that are not known, with when that was first read. */
  #unknown = new Map<string, Instant>()
  #intervalMs = DEFAULT_INTERVAL_MS
  #leaving: Leaving | null = null

  constructor(options: SessionOptions, now: Instant) {
    this.#options = options
    this.#calls = new Calls(this.#effects, options.random)
    this.#contact = new Contact(this.#effects, options.random, now)
    this.#prefetch = new Prefetch(options.concurrency)
    const { concurrency, handlers } = options
    this.#leases = new Leases(this.#effects, concurrency, this.#prefetch, handlers, (report) => {
      this.#calls.report(report)
    })
  }

  get state(): WorkerState {
    return this.#state
  }

  /** How many slots are taken. */
  get active(): number {
    return this.#leases.slotsTaken
  }

  /** How many jobs run, or wait for a slot or for an older attempt. */
  get #kept(): number {
    return this.#leases.slotsTaken + this.#leases.buffered + this.#leases.waiting
  }

  /** Attempts whose handlers may be running, abandoned ones included. */
  get running(): readonly string[] {
    return this.#leases.running().map(({ key }) => key)
  }

  /** Leases the worker still answers for. */
  get leases(): readonly LeaseName[] {
    return this.#leases.names()
  }

  get isLeaving(): boolean {
    return this.#leaving !== null
  }

  get hasEnded(): boolean {
    return this.#leaving?.stage === 'ended'
  }

  /** When an attempt may have to stop because the server was not heard; null while nothing runs. */
  get fenceAt(): Instant | null {
    return earliest(this.#silenceAt, this.#leases.lapsesAt)
  }

  /** When every attempt must stop: the server takes the worker for dead soon after. */
  get #silenceAt(): Instant | null {
    if (this.#contact.isFenced || this.#kept === 0 || this.#registration === 'none') return null
    return this.#contact.warnAt
  }

  get wantsTurn(): boolean {
    return this.#effects.wantsTurn && !this.hasEnded
  }

  step(input: Input, now: Instant): readonly Effect[] {
    if (this.hasEnded) return []
    this.#hear(input, now)
    this.#leave(now)
    if (input.in === 'due') this.#armAgain(now)
    return this.#effects.take()
  }

  #hear(input: Input, now: Instant): void {
    switch (input.in) {
      case 'begin':
        this.#calls.server = input.server
        this.#prefetch.max = this.#maxPrefetch(input.server)
        this.#hasBegun = true
        this.#effects.wantsTurn = true
        return
      case 'registered':
        this.#registered(input, now)
        return
      case 'register-failed':
        this.#registerFailed(input, now)
        return
      case 'answered':
        this.#answered(input.call, input.answer, now)
        return
      case 'failed':
        this.#failed(input, now)
        return
      case 'beat':
        this.#contact.heard(input.sentAt, now)
        this.#leases.listed(input.sentAt, input.begun)
        this.#obey(input.orders, input.epoch, now)
        this.#recoverLostAnswers(input.unlisted, input.sentAt, now)
        return
      case 'beat-failed':
        this.#contact.failed(input.reason, now)
        return
      case 'fence':
        this.#fence(now)
        return
      case 'settled':
        this.#leases.settled(input.key, input.ending, now)
        return
      case 'sign': {
        const held = this.#leases.get(input.key)
        if (held !== undefined) held.signAt = now
        return
      }
      case 'lost': {
        const held = this.#leases.get(input.key)
        if (held !== undefined) this.#leases.stop(held, LOST, after(now, held.terms.graceMs))
        return
      }
      case 'quiet':
        if (this.#state === 'running') this.#become('quiet')
        return
      case 'resume':
        if (this.#state === 'quiet') this.#become('running')
        return
      case 'stop':
        this.#beginLeaving(input.drainMs, now)
        return
      case 'owns-process':
        this.#exits = true
        return
      case 'hurry':
        if (this.#leaving?.stage === 'drain') this.#leaving.drainAt = now
        return
      case 'due':
        this.#due(now)
        return
      case 'turn':
        this.#effects.wantsTurn = false
        this.#pump(now)
        this.#startBuffered(now)
        return
      case 'silenced':
        if (this.#leaving?.stage === 'silence') this.#enterStage(this.#leaving, 'deregister', null)
        return
      case 'deregistered':
        if (this.#leaving?.stage === 'deregister') this.#enterStage(this.#leaving, 'ended', null)
        return
      case 'guard-gone':
        this.#effects.log('error', {}, 'the thread that sends heartbeats ended by itself; running jobs are given up')
        this.#hasGuard = false
        this.#fence(now)
        if (this.#leaving?.stage === 'silence') this.#enterStage(this.#leaving, 'deregister', null)
        return
      case 'guard-back':
        this.#introduceToGuard()
    }
  }

  // ---- Registration ----

  #registered({ askedAt, intervalMs, timeoutMs }: Input & { in: 'registered' }, now: Instant): void {
    this.#registration = 'done'
    this.#wasRegistered = true
    this.#isRefusalLogged = false
    this.#intervalMs = intervalMs
    this.#contact.timeoutMs = timeoutMs
    this.#effects.do({ do: 'registered', intervalMs, timeoutMs, askedAt })
    this.#contact.heard(askedAt, now)
    this.#started(null)
    this.#effects.wantsTurn = true
  }

  #registerFailed({ reason, isRefused }: Input & { in: 'register-failed' }, now: Instant): void {
    this.#registration = 'none'
    if (isRefused && !this.#isStarted) {
      this.#started(reason)
      this.#leaving = { stage: 'ended', drainAt: now, stageEndsAt: null, isDeregistering: false }
      return
    }
    if (!isRefused) {
      this.#contact.rest(reason, now)
      return
    }
    if (!this.#isRefusalLogged)
      this.#effects.log('error', { reason }, 'the server refuses to register this worker again; it takes no more jobs')
    this.#isRefusalLogged = true
    this.#registersAgainAt = after(now, REGISTER_REST_MS)
    this.#effects.wakeBy(this.#registersAgainAt)
  }

  #started(refusal: string | null): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#effects.do({ do: 'started', refusal })
  }

  /** A new guard knows nothing yet. */
  #introduceToGuard(): void {
    this.#hasGuard = true
    this.#effects.wantsTurn = true
    this.#effects.do({ do: 'tell-guard', state: this.#state, epoch: this.#epoch })
    if (this.#registration !== 'done') return
    const { timeoutMs, at: askedAt } = this.#contact
    this.#effects.do({ do: 'registered', intervalMs: this.#intervalMs, timeoutMs, askedAt })
    this.#leases.watchAll()
  }

  // ---- Calls ----

  #pump(now: Instant): void {
    if (!this.#hasBegun || this.#hasSaidAll || this.#contact.isResting(now)) return
    const mayRegister = this.#registersAgainAt === null || isDue(this.#registersAgainAt, now)
    if (this.#registration === 'none' && this.#leaving === null && mayRegister) {
      this.#registration = 'asking'
      this.#mayBeKnown = true
      this.#registersAgainAt = null
      this.#effects.do({ do: 'register' })
    }
    // Reports need a server, not a registration; jobs are asked for only by a worker that the server knows.
    if (!this.#wasRegistered) return
    const mayAsk = this.#registration === 'done' && this.#hasGuard
    this.#calls.pump(now, {
      state: this.#state,
      epoch: this.#epoch,
      room: mayAsk ? this.#room() : NO_ROOM,
      maxWaitMs: millis(Math.min(MAX_WAIT_MS, Math.floor(this.#contact.timeoutMs / 2))),
    })
  }

  #room(): Room {
    const { concurrency } = this.#options
    return { kept: this.#kept, slots: concurrency, depth: this.#prefetch.depth }
  }

  /** Only a server that understands leases takes a job back without using a try. */
  #maxPrefetch({ orders }: ServerFeatures): number {
    const { concurrency, prefetch, handlers } = this.#options
    if (!orders) return 0
    return (
      prefetch ??
      defaultPrefetch(
        concurrency,
        [...handlers.values()].some(({ isolated }) => isolated),
      )
    )
  }

  /** In the next turn of the loop, not in this one: handlers that never wait must not keep all else from being heard. */
  #startBuffered(now: Instant): void {
    if (this.#leases.buffered === 0) return
    // The worker was asleep, and nothing has told it yet.
    if (isDue(this.#silenceAt, now)) this.#fence(now)
    this.#leases.startBuffered(now)
  }

  /** The worker takes its leave: no call follows. */
  get #hasSaidAll(): boolean {
    const stage = this.#leaving?.stage
    return stage === 'silence' || stage === 'deregister' || stage === 'ended'
  }

  #answered(id: number, answer: CallAnswer, now: Instant): void {
    const call = this.#calls.answered(id)
    // It was given up: what it brought is handed back by the server, or named by the answer to a beat.
    if (call === null) return
    if (answer.failure === null) {
      const askedAt = after(call.sentAt, answer.asked.waitedMs)
      this.#contact.heard(askedAt, now)
      this.#effects.do({ do: 'contact', askedAt })
    } else this.#contact.rest(answer.failure, now)
    call.reports.forEach((report, index) => {
      const delivery = answer.deliveries[index] ?? { kind: 'unsent', reason: 'The answer leaves out a report.' }
      if (delivery.kind === 'unsent') this.#calls.notStored(report, now)
      else {
        this.#calls.stored()
        this.#leases.delivered(report, delivery)
      }
    })
    const before = this.#effects.size
    if (answer.orders !== null) this.#obey(answer.orders, call.epoch, now)
    const isOfUse = answer.jobs.length > 0 || this.#effects.size > before
    this.#calls.pace(call, answer, isOfUse, now)
    if (call.count > 0 && call.replacedAt === null) this.#prefetch.brought(call.count, answer.jobs.length)
    this.#leases.take(answer.jobs, { asked: answer.asked, refusal: this.#refusalAt(now) }, now)
    if (!this.#calls.isAsking()) this.#leases.forgetEnded()
    this.#effects.wakeBy(this.#silenceAt)
  }

  /** Why a job that arrives now is not started; null: it is. */
  #refusalAt(now: Instant): string | null {
    if (this.#state !== 'running')
      return `The worker was ${this.#state === 'quiet' ? 'quiet' : 'shutting down'} when the job arrived.`
    if (!this.#hasGuard) return 'The worker could not send heartbeats when the job arrived.'
    // An answer that hung for so long came with a lease that is over: nothing starts with an empty budget.
    return isDue(this.#contact.warnAt, now) ? 'The answer that brought the job took too long to arrive.' : null
  }

  #failed({ call: id, reason, refusal }: Input & { in: 'failed' }, now: Instant): void {
    if (refusal === null) {
      if (this.#calls.failed(id) !== null) this.#contact.rest(reason, now)
      return
    }
    const refused = this.#calls.refused(id)
    if (refused === null) return
    if (!refused.hadReports) this.#contact.rest(reason, now)
    if (refused.report !== null)
      this.#leases.delivered(refused.report, { kind: 'refused', code: refusal, message: reason })
  }

  /**
   * The server takes these for held here, but they are not known: the answer that brought them was lost, or is late, or they
   * were reported while the beat was answered. Those that a later beat names again are handed back; if the answer comes after
   * all, its job is not started.
   */
  #recoverLostAnswers(unlisted: readonly Unlisted[], sentAt: Instant, now: Instant): void {
    const before = this.#unknown
    this.#unknown = new Map()
    for (const { jobId, lease, heldMs } of unlisted) {
      const key = keyOf({ jobId, attempt: 0, lease })
      if (this.#leases.has(key)) continue
      const firstAt = before.get(key)
      if (firstAt === undefined || sentAt < after(firstAt, SECOND_LOOK_MS)) {
        this.#unknown.set(key, firstAt ?? now)
        this.#effects.do({ do: 'beat', inMs: LATE_ANSWER_MS })
        continue
      }
      // The claim was at this moment or before it, on the worker's own clock.
      const bringers = this.#calls.bringersAt(instant(now - heldMs))
      const fields = { job_id: jobId, lease }
      this.#effects.log('warn', fields, 'the answer that brought this job was lost; handing the job back')
      this.#leases.handBackUnknown({ jobId, lease }, now)
      for (const call of bringers) this.#calls.hangUp(call)
    }
  }

  /** The server was not heard for so long that it may hand these jobs to others. */
  #fence(now: Instant): void {
    this.#contact.fence()
    const jobs = this.#kept
    if (jobs === 0) return
    this.#effects.log('warn', { jobs }, 'no contact with the server for too long; stopping all jobs')
    this.#leases.loseAll(now)
  }

  // ---- Orders ----

  #obey({ state, stops, isForgotten }: Orders, epoch: number, now: Instant): void {
    for (const stop of stops) this.#obeyStop(stop, now)
    if (isForgotten && this.#leaving === null && this.#registration === 'done') {
      this.#effects.log('warn', {}, 'the server does not know this worker any more; registering again')
      this.#registration = 'none'
      this.#effects.wantsTurn = true
    }
    if (state === 'terminate' && this.#leaving === null) this.#beginLeaving(this.#options.drainMs, now)
    // An answer to an older word of the worker only repeats it; a standing order is repeated too.
    if (epoch !== this.#epoch) return
    if (state === 'quiet' && this.#state === 'running') this.#become('quiet')
    if (state === 'running' && this.#state === 'quiet' && this.#calls.server.orders) this.#become('running')
  }

  #obeyStop({ job_id: jobId, reason, x_lease: lease }: StopOrder, now: Instant): void {
    const meant = this.#leases.meant(jobId, lease)
    if (lease !== undefined) {
      this.#calls.noteOrder({ jobId, lease })
      if (meant.length === 0 && reason !== 'timeout' && this.#calls.isAsking()) this.#leases.noteEnded({ jobId, lease })
    }
    for (const held of meant) {
      const { softStop, hardAt, graceMs } = held.terms
      if (isUnbegun(held) || reason === 'lost') this.#leases.lose(held, now)
      else if (reason === 'timeout') this.#leases.stop(held, softStop, hardAt)
      else this.#leases.stop(held, { why: 'cancelled' }, after(now, graceMs))
    }
  }

  #become(state: WorkerState): void {
    this.#effects.log('info', { from: this.#state, to: state }, 'the worker changes its state')
    this.#state = state
    this.#epoch += 1
    this.#effects.wantsTurn = true
    this.#calls.hurry()
    this.#effects.do({ do: 'tell-guard', state, epoch: this.#epoch })
    if (state !== 'running') this.#leases.handBackUnbegun('The worker stopped taking jobs before the job could begin.')
  }

  // ---- Time ----

  #due(now: Instant): void {
    this.#effects.wantsTurn = true
    if (isDue(this.#silenceAt, now)) this.#fence(now)
    this.#leases.due(now)
    this.#calls.due(now)
  }

  #armAgain(now: Instant): void {
    this.#effects.awake()
    this.#effects.wakeBy(earliest(this.#silenceAt, this.#contact.restsUntil(now)))
    if (this.#registersAgainAt !== null && this.#registersAgainAt > now) this.#effects.wakeBy(this.#registersAgainAt)
    const leavingAt = this.#leavingAt()
    // A stage of leaving may outlast its time: then a handler is waited for, and not the clock.
    if (leavingAt !== null && leavingAt > now) this.#effects.wakeBy(leavingAt)
    this.#effects.wakeBy(earliest(this.#leases.nextDueAt(), this.#calls.nextDueAt(now)))
  }

  // ---- Leaving ----

  #beginLeaving(drainMs: Millis, now: Instant): void {
    const drainAt = after(now, drainMs)
    if (this.#leaving === null) {
      this.#leaving = { stage: 'drain', drainAt, stageEndsAt: null, isDeregistering: false }
      this.#become('terminate')
    } else {
      // Asked to stop again, it waits no longer than the shorter of both.
      this.#leaving.drainAt = earliest(this.#leaving.drainAt, drainAt) ?? drainAt
    }
    this.#effects.wakeBy(this.#leavingAt())
  }

  #leavingAt(): Instant | null {
    return this.#leaving?.stage === 'drain' ? this.#leaving.drainAt : (this.#leaving?.stageEndsAt ?? null)
  }

  #enterStage(leaving: Leaving, stage: Stage, endsAt: Instant | null): void {
    leaving.stage = stage
    leaving.stageEndsAt = endsAt
    this.#effects.wakeBy(endsAt)
  }

  /** Goes through the stages of leaving as far as it can. */
  #leave(now: Instant): void {
    const leaving = this.#leaving
    if (leaving === null) return
    for (let before: Stage | null = null; before !== leaving.stage;) {
      before = leaving.stage
      this.#leaveStage(leaving, now)
    }
  }

  #leaveStage(leaving: Leaving, now: Instant): void {
    switch (leaving.stage) {
      case 'drain':
        if (this.#leases.slotsTaken === 0) this.#sayLastWords(leaving, now)
        else if (isDue(leaving.drainAt, now)) {
          const endsAt = after(now, CLEAN_UP_MS)
          this.#enterStage(leaving, 'clean-up', endsAt)
          this.#leases.shutDown(endsAt)
        }
        return
      case 'clean-up':
        if (this.#leases.slotsTaken === 0) this.#sayLastWords(leaving, now)
        else if (this.#exits && isDue(leaving.stageEndsAt, now)) this.#exit(leaving, now)
        return
      case 'last-reports':
        if (this.#hasMoreToSay() && !isDue(leaving.stageEndsAt, now)) return
        this.#calls.hangUpAll()
        this.#enterStage(leaving, 'silence', null)
        this.#effects.do({ do: 'silence' })
        return
      case 'silence':
        return
      case 'deregister':
        if (leaving.isDeregistering) return
        leaving.isDeregistering = true
        if (!this.#mayBeKnown) this.#enterStage(leaving, 'ended', null)
        else this.#effects.do({ do: 'deregister', leases: this.#leases.begun(), seq: this.#calls.nextSeq(now) })
        return
      case 'ended':
        this.#effects.log('info', {}, 'the worker has ended')
        this.#effects.do({ do: 'ended' })
    }
  }

  #sayLastWords(leaving: Leaving, now: Instant): void {
    this.#enterStage(leaving, 'last-reports', after(now, LAST_REPORTS_MS))
    this.#calls.isLastWord = true
  }

  #hasMoreToSay(): boolean {
    return this.#wasRegistered ? !this.#calls.isDone : this.#registration === 'asking'
  }

  /** Only inline handlers that ignore their signal are left: they stop with the process, and their jobs go back. */
  #exit(leaving: Leaving, now: Instant): void {
    const running = this.#leases.running()
    if (running.some(({ facts }) => facts.isolated)) return
    const message = 'The worker shut down before the job was done.'
    const handBacks = running.filter(takesSlot).map(({ hold }) => handBackReport(hold, 'shutdown', message))
    this.#calls.isLastWord = true
    this.#calls.hangUpAll()
    const reports = [...this.#calls.takeUnsent(), ...handBacks]
    this.#effects.do({ do: 'exit', reports, leases: [], seq: this.#calls.nextSeq(now) })
    this.#enterStage(leaving, 'silence', null)
  }
}
