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
 * Parts: `leases.ts` the attempts, `prefetch.ts` how many jobs are taken in advance, `calls.ts` the calls and reports,
 * `contact.ts` outages, `registration.ts` whether the server knows the worker, `lost-answers.ts` jobs that never arrived,
 * `leaving.ts` the stages of terminate. What an attempt may take is in `terms.ts`, what is reported of it in `report.ts`.
 */
import { after, earliest, isDue, millis, type Instant, type Millis, type Random } from '@curfew/core'
import type { StopOrder, WorkerState } from '../guard/protocol.ts'
import type { HandlerTerms } from './arrivals.ts'
import { Calls, NO_ROOM, type Room } from './calls.ts'
import { Contact } from './contact.ts'
import { Effects } from './effects.ts'
import { isUnbegun } from './held-attempt.ts'
import type { CallAnswer, Effect, Input, LeaseName, Orders, ServerFeatures } from './inputs.ts'
import { Leases } from './leases.ts'
import { Leaving } from './leaving.ts'
import { LostAnswers } from './lost-answers.ts'
import { defaultPrefetch, Prefetch } from './prefetch.ts'
import { Registration } from './registration.ts'

export interface SessionOptions {
  readonly concurrency: number
  /** The largest number of jobs taken beyond the slots; null: as `defaultPrefetch` says. */
  readonly prefetch: number | null
  /** How long running jobs are waited for when the server orders the worker to terminate. */
  readonly drainMs: Millis
  readonly handlers: ReadonlyMap<string, HandlerTerms>
  readonly random: Random
}

const MAX_WAIT_MS = 20_000

export class Session {
  readonly #options: SessionOptions
  readonly #effects = new Effects()
  readonly #calls: Calls
  readonly #contact: Contact
  readonly #registration: Registration
  readonly #leases: Leases
  readonly #lostAnswers: LostAnswers
  readonly #leaving: Leaving
  readonly #prefetch: Prefetch
  #state: WorkerState = 'running'
  /** Grows with each change of state. */
  #epoch = 0
  #hasBegun = false
  /** Heartbeats are sent. Without a guard nothing starts. */
  #hasGuard = true

  constructor(options: SessionOptions, now: Instant) {
    this.#options = options
    const { concurrency, handlers, random } = options
    const effects = this.#effects
    const calls = (this.#calls = new Calls(effects, random))
    this.#contact = new Contact(effects, random, now)
    this.#registration = new Registration(effects, this.#contact)
    this.#prefetch = new Prefetch(concurrency)
    this.#leases = new Leases(effects, concurrency, this.#prefetch, handlers, (report) => {
      calls.report(report)
    })
    this.#lostAnswers = new LostAnswers(effects, this.#leases, calls)
    this.#leaving = new Leaving(effects, this.#leases, calls, this.#registration)
  }

  get state(): WorkerState {
    return this.#state
  }

  /** How many slots are taken. */
  get active(): number {
    return this.#leases.table.slotsTaken
  }

  /** Attempts whose handlers may be running, abandoned ones included. */
  get running(): readonly string[] {
    return this.#leases.table.running().map(({ key }) => key)
  }

  /** Leases the worker still answers for. */
  get leases(): readonly LeaseName[] {
    return this.#leases.table.names()
  }

  get isLeaving(): boolean {
    return this.#leaving.hasBegun
  }

  get hasEnded(): boolean {
    return this.#leaving.hasEnded
  }

  /** When an attempt may have to stop because the server was not heard; null while nothing runs. */
  get fenceAt(): Instant | null {
    return earliest(this.#silenceAt, this.#leases.beatList.lapsesAt)
  }

  /** When every attempt must stop: the server takes the worker for dead soon after. */
  get #silenceAt(): Instant | null {
    if (this.#contact.isFenced || this.#leases.table.kept === 0 || this.#registration.isMissing) return null
    return this.#contact.warnAt
  }

  get wantsTurn(): boolean {
    return this.#effects.wantsTurn && !this.hasEnded
  }

  step(input: Input, now: Instant): readonly Effect[] {
    if (this.hasEnded) return []
    this.#hear(input, now)
    this.#leaving.goOn(now)
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
        this.#registration.done(input, now)
        return
      case 'register-failed':
        if (!this.#registration.failed(input, now)) this.#leaving.end()
        return
      case 'answered':
        this.#answered(input.call, input.answer, now)
        return
      case 'failed':
        this.#failed(input, now)
        return
      case 'beat':
        this.#contact.heard(input.sentAt, now)
        this.#leases.beatList.answered(input.sentAt, input.begun)
        this.#obey(input.orders, input.epoch, now)
        this.#lostAnswers.recover(input.unlisted, input.sentAt, now)
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
        const held = this.#leases.table.get(input.key)
        if (held !== undefined) held.signAt = now
        return
      }
      case 'lost': {
        const held = this.#leases.table.get(input.key)
        if (held !== undefined) this.#leases.stops.refused(held, now)
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
        this.#leaving.exits = true
        return
      case 'hurry':
        this.#leaving.hurry(now)
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
        this.#leaving.silenced()
        return
      case 'deregistered':
        this.#leaving.deregistered()
        return
      case 'guard-gone':
        this.#effects.log('error', {}, 'the thread that sends heartbeats ended by itself; running jobs are given up')
        this.#hasGuard = false
        this.#fence(now)
        this.#leaving.silenced()
        return
      case 'guard-back':
        this.#introduceToGuard()
    }
  }

  /** A new guard knows nothing yet. */
  #introduceToGuard(): void {
    this.#hasGuard = true
    this.#effects.wantsTurn = true
    this.#effects.do({ do: 'tell-guard', state: this.#state, epoch: this.#epoch })
    if (!this.#registration.isDone) return
    this.#registration.introduceToGuard()
    this.#leases.beatList.addAll()
  }

  // ---- Calls ----

  #pump(now: Instant): void {
    if (!this.#hasBegun || this.#leaving.hasSaidAll || this.#contact.isResting(now)) return
    if (!this.#leaving.hasBegun) this.#registration.askIfMissing(now)
    // Reports need a server, not a registration; jobs are asked for only by a worker that the server knows.
    if (!this.#registration.wasDone) return
    const mayAsk = this.#registration.isDone && this.#hasGuard
    this.#calls.pump(now, {
      state: this.#state,
      epoch: this.#epoch,
      room: mayAsk ? this.#room() : NO_ROOM,
      maxWaitMs: millis(Math.min(MAX_WAIT_MS, Math.floor(this.#contact.timeoutMs / 2))),
    })
  }

  #room(): Room {
    return { kept: this.#leases.table.kept, slots: this.#options.concurrency, depth: this.#prefetch.depth }
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
    if (this.#leases.table.buffer.size === 0) return
    // The worker was asleep, and nothing has told it yet.
    if (isDue(this.#silenceAt, now)) this.#fence(now)
    this.#leases.arrivals.startBuffered(now)
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
        this.#leases.outcomes.delivered(report, delivery)
      }
    })
    const before = this.#effects.size
    if (answer.orders !== null) this.#obey(answer.orders, call.epoch, now)
    const isOfUse = answer.jobs.length > 0 || this.#effects.size > before
    this.#calls.pace(call, answer, isOfUse, now)
    if (call.count > 0 && call.replacedAt === null) this.#prefetch.brought(call.count, answer.jobs.length)
    this.#leases.arrivals.take(answer.jobs, { asked: answer.asked, refusal: this.#refusalAt(now) }, now)
    if (!this.#calls.isAsking()) this.#leases.arrivals.forgetEnded()
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
      this.#leases.outcomes.delivered(refused.report, { kind: 'refused', code: refusal, message: reason })
  }

  /** The server was not heard for so long that it may hand these jobs to others. */
  #fence(now: Instant): void {
    this.#contact.fence()
    const jobs = this.#leases.table.kept
    if (jobs === 0) return
    this.#effects.log('warn', { jobs }, 'no contact with the server for too long; stopping all jobs')
    this.#leases.stops.loseAll(now)
  }

  // ---- Orders ----

  #obey({ state, stops, isForgotten }: Orders, epoch: number, now: Instant): void {
    for (const stop of stops) this.#obeyStop(stop, now)
    if (isForgotten && !this.#leaving.hasBegun) this.#registration.forgotten()
    if (state === 'terminate' && !this.#leaving.hasBegun) this.#beginLeaving(this.#options.drainMs, now)
    // An answer to an older word of the worker only repeats it; a standing order is repeated too.
    if (epoch !== this.#epoch) return
    if (state === 'quiet' && this.#state === 'running') this.#become('quiet')
    if (state === 'running' && this.#state === 'quiet' && this.#calls.server.orders) this.#become('running')
  }

  #obeyStop({ job_id: jobId, reason, x_lease: lease }: StopOrder, now: Instant): void {
    const meant = this.#leases.table.meant(jobId, lease)
    if (lease !== undefined) {
      this.#calls.noteOrder({ jobId, lease })
      if (meant.length === 0 && reason !== 'timeout' && this.#calls.isAsking())
        this.#leases.arrivals.noteEnded({ jobId, lease })
    }
    const { stops } = this.#leases
    for (const held of meant) {
      const { softStop, hardAt, graceMs } = held.terms
      if (isUnbegun(held) || reason === 'lost') stops.lose(held, now)
      else if (reason === 'timeout') stops.stop(held, softStop, hardAt)
      else stops.stop(held, { why: 'cancelled' }, after(now, graceMs))
    }
  }

  #become(state: WorkerState): void {
    this.#effects.log('info', { from: this.#state, to: state }, 'the worker changes its state')
    this.#state = state
    this.#epoch += 1
    this.#effects.wantsTurn = true
    this.#calls.hurry()
    this.#effects.do({ do: 'tell-guard', state, epoch: this.#epoch })
    if (state !== 'running')
      this.#leases.outcomes.handBackUnbegun('The worker stopped taking jobs before the job could begin.')
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
    const { asksAgainAt } = this.#registration
    if (asksAgainAt !== null && asksAgainAt > now) this.#effects.wakeBy(asksAgainAt)
    const leavingAt = this.#leaving.endsAt
    // A stage of leaving may outlast its time: then a handler is waited for, and not the clock.
    if (leavingAt !== null && leavingAt > now) this.#effects.wakeBy(leavingAt)
    this.#effects.wakeBy(earliest(this.#leases.nextDueAt(), this.#calls.nextDueAt(now)))
  }

  // ---- Leaving ----

  #beginLeaving(drainMs: Millis, now: Instant): void {
    const isFirst = !this.#leaving.hasBegun
    this.#leaving.begin(drainMs, now)
    if (isFirst) this.#become('terminate')
    this.#effects.wakeBy(this.#leaving.endsAt)
  }
}
