/**
 * The state of a worker and of its attempts, in one place. A session hears one input at a time and answers with what is to
 * be done. It never waits, reads no clock and calls nothing, so every race is an order of inputs.
 *
 *   begin ─→ registering ─→ running ⇄ quiet            quiet(), resume(), signals, the operator's orders
 *                              └────────┴─→ terminate
 *   terminate:  drain ─→ clean up ─→ last reports ─→ silence ─→ deregister ─→ ended
 *
 * Invariants
 * - Attempts are keyed by lease. A newer lease of a job stops the older one, and starts when its handler is over.
 * - No handler starts while the state is not `running`: what arrives then is handed back, which uses no try.
 * - One call is always open for jobs and orders; it asks for no jobs when no slot is free. Reports use other calls.
 * - While the worker is not running, a hand-back waits until no call that asks for jobs is open: it could come back by it.
 * - Nothing is sent after the deregistration; beats end before it.
 * - Every lease is reported, handed back, or known to be lost.
 *
 * What an attempt may take is in `terms.ts`, what is reported of it in `report.ts`.
 */
import { after, earliest, elapsed, instant, isDue, millis, type Instant, type Millis, type Random } from '@curfew/core'
import type { StopOrder, Watched, WorkerState } from '../guard/protocol.ts'
import type { Stop } from '../isolate/protocol.ts'
import { keyOf, reportOf, type AnyEnding, type Hold, type Report } from '../report.ts'
import { fenceAt, termsOf, type Terms } from '../terms.ts'
import type { AttemptLimits } from '../limits.ts'
import type { HandedJob } from '../wire.ts'
import { giveUpAt, leaseName, mayRun, newHeld, nextDueAt, stallAt, stoppedBy, takesSlot, type Held } from './held.ts'
import type {
  Call,
  CallAnswer,
  Delivery,
  Effect,
  HandlerFacts,
  Input,
  LeaseName,
  Orders,
  ServerFeatures,
  Unlisted,
} from './inputs.ts'

export interface HandlerTerms extends HandlerFacts {
  readonly limits: AttemptLimits
}

export interface SessionOptions {
  readonly concurrency: number
  /** How long running jobs are waited for when the server orders the worker to terminate. */
  readonly drainMs: Millis
  readonly handlers: ReadonlyMap<string, HandlerTerms>
  readonly random: Random
}

const DEFAULT_INTERVAL_MS = millis(5_000)
const DEFAULT_TIMEOUT_MS = millis(30_000)
const MAX_POLL_MS = 20_000
const MAX_REPORTS = 500
/** Where an empty answer comes at once, the next question waits. */
const IDLE_MS = millis(1_000)
/** Rest after a failed call: doubled each time, with jitter. Short, because the first report after an outage waits for it. */
const FIRST_REST_MS = 100
const MAX_REST_MS = 1_000
/** A call that was replaced is answered at once; if not, it is hung up. */
const REPLACED_PATIENCE_MS = millis(2_000)
/** What handlers get to clean up in, once the worker waits for them no longer. */
const CLEAN_UP_MS = millis(2_000)
/** How long the last reports may take. */
const LAST_REPORTS_MS = millis(5_000)
/** How long a newer attempt waits for the older one of its job to end. */
const STEP_ASIDE_MS = millis(5_000)
/** An answer with jobs that takes longer than this is taken for lost. */
const LATE_ANSWER_MS = millis(1_000)
/** Refusals of a result that leave the job as it was. */
const TOO_LARGE: readonly string[] = ['result_too_large', 'payload_too_large']

const LOST: Stop = { why: 'lost' }
const REPLACED: Stop = { why: 'lost', message: 'The server has handed the job out again.' }

interface OpenCall extends Call {
  readonly sentAt: Instant
  readonly epoch: number
  /** When a newer call took its place. */
  replacedAt: Instant | null
}

type Stage = 'drain' | 'clean-up' | 'last-reports' | 'silence' | 'deregister' | 'ended'

interface Leaving {
  stage: Stage
  drainAt: Instant
  stageEndsAt: Instant | null
  exits: boolean
  isDeregistering: boolean
}

interface Trouble {
  readonly since: Instant
  failures: number
  retryAt: Instant
}

export class Session {
  readonly #options: SessionOptions
  #server: ServerFeatures = { orders: false, waits: false }
  #state: WorkerState = 'running'
  /** Grows with each change of state. */
  #epoch = 0
  #registration: 'none' | 'asking' | 'done' = 'none'
  #isStarted = false
  #hasBegun = false
  #intervalMs = DEFAULT_INTERVAL_MS
  #timeoutMs = DEFAULT_TIMEOUT_MS
  /** The sending of the latest call that was answered. */
  #contactAt: Instant
  #isFenced = false
  readonly #held = new Map<string, Held>()
  /** Leases by job: more than one only while an older attempt steps aside. */
  readonly #byJob = new Map<string, Set<Held>>()
  #slotsTaken = 0
  readonly #calls = new Map<number, OpenCall>()
  #lastCall = 0
  #lastSeq = 0
  #outbox: Report[] = []
  #maxReports = MAX_REPORTS
  #heard: LeaseName[] = []
  #trouble: Trouble | null = null
  #idleUntil: Instant | null = null
  #leaving: Leaving | null = null
  #wakeAt: Instant | null = null
  #wantsTurn = false
  #out: Effect[] = []

  constructor(options: SessionOptions, now: Instant) {
    this.#options = options
    this.#contactAt = now
  }

  get state(): WorkerState {
    return this.#state
  }

  /** How many jobs run, or wait to run. */
  get active(): number {
    return this.#slotsTaken
  }

  /** How many handlers may be running, abandoned ones included. */
  get running(): readonly string[] {
    return [...this.#held.values()].filter(mayRun).map(({ key }) => key)
  }

  /** Leases the worker still answers for. */
  get leases(): readonly LeaseName[] {
    return [...this.#held.values()].map(leaseName)
  }

  get hasEnded(): boolean {
    return this.#leaving?.stage === 'ended'
  }

  get isLeaving(): boolean {
    return this.#leaving !== null
  }

  /** When every attempt must stop because the server was not heard; null while nothing runs. */
  get fenceAt(): Instant | null {
    if (this.#isFenced || this.#slotsTaken === 0 || this.#registration === 'none') return null
    return fenceAt(this.#contactAt, this.#timeoutMs).warnAt
  }

  /** Calls are decided on once per turn of the event loop: what arrives together travels together. */
  get wantsTurn(): boolean {
    return this.#wantsTurn
  }

  step(input: Input, now: Instant): readonly Effect[] {
    this.#out = []
    if (!this.hasEnded) {
      this.#hear(input, now)
      this.#leave(now)
      if (input.in === 'due') this.#armAgain(now)
    }
    return this.#out
  }

  #hear(input: Input, now: Instant): void {
    switch (input.in) {
      case 'begin':
        this.#server = input.server
        this.#hasBegun = true
        this.#wantsTurn = true
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
        this.#failed(input.call, input.reason, input.tooLarge, now)
        return
      case 'beat':
        this.#heardServer(input.sentAt, now)
        this.#obey(input.orders, input.epoch, now)
        this.#recoverLostAnswers(input.unlisted, now)
        return
      case 'beat-failed':
        this.#noteTrouble(input.reason, now)
        return
      case 'fence':
        this.#fence(now)
        return
      case 'settled':
        this.#settled(input.key, input.ending, now)
        return
      case 'sign': {
        const held = this.#held.get(input.key)
        if (held !== undefined) held.signAt = now
        return
      }
      case 'lost': {
        const held = this.#held.get(input.key)
        if (held !== undefined) this.#stop(held, LOST, after(now, held.terms.graceMs))
        return
      }
      case 'quiet':
        if (this.#state === 'running') this.#become('quiet')
        return
      case 'resume':
        if (this.#state === 'quiet') this.#become('running')
        return
      case 'stop':
        this.#beginLeaving(input.drainMs, input.exits, now)
        return
      case 'hurry':
        if (this.#leaving?.stage === 'drain') this.#leaving.drainAt = now
        return
      case 'due':
        this.#due(now)
        return
      case 'turn':
        this.#wantsTurn = false
        this.#pump(now)
        return
      case 'silenced':
        if (this.#leaving?.stage === 'silence') this.#enterStage('deregister', null)
        return
      case 'deregistered':
        if (this.#leaving?.stage === 'deregister') this.#enterStage('ended', null)
        return
      case 'guard-gone':
        this.#log('error', {}, 'the thread that sends heartbeats ended by itself; running jobs are given up')
        this.#fence(now)
        return
      case 'guard-back':
        this.#toldGuardAgain()
    }
  }

  // ---- Registration ----

  #registered(input: Input & { in: 'registered' }, now: Instant): void {
    this.#registration = 'done'
    this.#intervalMs = input.intervalMs
    this.#timeoutMs = input.timeoutMs
    this.#do({
      do: 'registered',
      intervalMs: input.intervalMs,
      timeoutMs: input.timeoutMs,
      askedAt: input.askedAt,
    })
    this.#contact(input.askedAt, now)
    this.#started(null)
    this.#wantsTurn = true
  }

  #registerFailed({ reason, isRefused }: Input & { in: 'register-failed' }, now: Instant): void {
    this.#registration = 'none'
    if (!isRefused) {
      this.#rest(reason, now)
      return
    }
    if (this.#isStarted) {
      this.#log('error', { reason }, 'the server refuses to register this worker again')
      this.#rest(reason, now)
      return
    }
    this.#started(reason)
    this.#leaving = { stage: 'ended', drainAt: now, stageEndsAt: null, exits: false, isDeregistering: false }
  }

  #started(refusal: string | null): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#do({ do: 'started', refusal })
  }

  #toldGuardAgain(): void {
    this.#do({ do: 'tell-guard', state: this.#state, epoch: this.#epoch })
    if (this.#registration === 'done')
      this.#do({
        do: 'registered',
        intervalMs: this.#intervalMs,
        timeoutMs: this.#timeoutMs,
        askedAt: this.#contactAt,
      })
  }

  // ---- Calls ----

  /** Decides which calls to send now. */
  #pump(now: Instant): void {
    if (!this.#hasBegun || this.#hasSaidAll) return
    if (this.#trouble !== null && !isDue(this.#trouble.retryAt, now)) return
    if (this.#registration === 'none' && this.#leaving === null) {
      this.#registration = 'asking'
      this.#do({ do: 'register' })
    }
    if (this.#registration !== 'done') return
    this.#sendReports(now)
    this.#keepCallOpen(now)
  }

  /** Nothing is taken any more, and what is held is being reported. */
  get #isSayingLastWords(): boolean {
    return this.#leaving?.stage === 'last-reports' || this.#hasSaidAll
  }

  /** The worker takes its leave: no call follows. */
  get #hasSaidAll(): boolean {
    const stage = this.#leaving?.stage
    return stage === 'silence' || stage === 'deregister' || stage === 'ended'
  }

  #sendReports(now: Instant): void {
    for (const { reports } of this.#calls.values()) if (reports.length > 0) return
    const reports = this.#takeReports()
    if (reports.length === 0) return
    // The open call asks for jobs already, unless it was opened when no slot was free.
    const count = this.#openCall()?.count === 0 || !this.#server.orders ? this.#wanted() : 0
    this.#send({ reports, count, waitMs: 0, listen: null }, now)
  }

  #takeReports(): Report[] {
    const waits = this.#state !== 'running' && this.#isAsking()
    if (!waits) return this.#outbox.splice(0, this.#maxReports)
    const ready = this.#outbox.filter((report) => !isHandBack(report)).slice(0, this.#maxReports)
    this.#outbox = this.#outbox.filter((report) => !ready.includes(report))
    return ready
  }

  #keepCallOpen(now: Instant): void {
    const wanted = this.#wanted()
    const open = this.#openCall()
    const waitMs = this.#server.waits ? Math.min(MAX_POLL_MS, Math.floor(this.#timeoutMs / 2)) : 0
    if (open === null) {
      if (wanted === 0 && !this.#server.orders) return
      if (this.#idleUntil !== null && !isDue(this.#idleUntil, now)) return
      this.#idleUntil = null
    } else {
      const isOutdated = this.#server.orders && open.epoch !== this.#epoch
      const isNeeded = this.#server.orders && open.count === 0 && wanted > 0
      if (!isOutdated && !isNeeded) return
      open.replacedAt = now
      this.#wakeBy(after(now, REPLACED_PATIENCE_MS))
    }
    const listen = this.#server.orders
      ? { state: this.#state, seq: this.#nextSeq(now), heard: this.#heard.splice(0) }
      : null
    this.#send({ reports: [], count: wanted, waitMs, listen }, now)
  }

  #send(call: Omit<Call, 'id'>, now: Instant): void {
    const open: OpenCall = { ...call, id: ++this.#lastCall, sentAt: now, epoch: this.#epoch, replacedAt: null }
    this.#calls.set(open.id, open)
    this.#do({ do: 'call', call: open })
  }

  /** The call that waits for jobs and orders, if one is open and not replaced. */
  #openCall(): OpenCall | null {
    for (const call of this.#calls.values()) if (call.reports.length === 0 && call.replacedAt === null) return call
    return null
  }

  /** An open call may bring jobs. */
  #isAsking(): boolean {
    for (const { count } of this.#calls.values()) if (count > 0) return true
    return false
  }

  /** How many jobs could be run besides those that run or are asked for. */
  #wanted(): number {
    if (this.#state !== 'running') return 0
    let asked = 0
    for (const { count } of this.#calls.values()) asked += count
    return Math.max(0, this.#options.concurrency - this.#slotsTaken - asked)
  }

  #nextSeq(now: Instant): number {
    this.#lastSeq = Math.max(this.#lastSeq + 1, Math.floor(now))
    return this.#lastSeq
  }

  #answered(id: number, answer: CallAnswer, now: Instant): void {
    const call = this.#calls.get(id)
    if (call === undefined) return // it was given up; what it brought is handed back by the server, or named by a beat
    this.#calls.delete(id)
    this.#wantsTurn = true
    if (answer.failure === null) this.#contact(after(call.sentAt, answer.asked.waitedMs), now)
    else this.#rest(answer.failure, now)
    this.#maxReports = MAX_REPORTS
    this.#delivered(call.reports, answer.deliveries, now)
    if (answer.orders !== null) this.#obey(answer.orders, call.epoch, now)
    this.#take(answer.jobs, answer.asked, now)
    const isEmpty = answer.jobs.length === 0 && answer.orders === null && answer.failure === null
    const isEarly = elapsed(call.sentAt, now) < call.waitMs / 2 + 1
    // A server that gives nothing and does not wait would be asked without end.
    if (call.reports.length === 0 && call.replacedAt === null && isEmpty && isEarly) this.#idleFor(now)
  }

  #idleFor(now: Instant): void {
    this.#idleUntil = after(now, millis(IDLE_MS * (0.75 + this.#options.random() / 2)))
    this.#wakeBy(this.#idleUntil)
  }

  #failed(id: number, reason: string, tooLarge: string | null, now: Instant): void {
    const call = this.#calls.get(id)
    if (call === undefined) return
    this.#calls.delete(id)
    this.#wantsTurn = true
    if (call.listen !== null) this.#heard = [...call.listen.heard, ...this.#heard]
    // Jobs that it may have brought are found by the next beat.
    if (call.count > 0 && !this.#isSayingLastWords) this.#do({ do: 'beat', inMs: LATE_ANSWER_MS })
    if (tooLarge === null || call.reports.length === 0) {
      this.#outbox.unshift(...call.reports)
      this.#rest(reason, now)
      return
    }
    const [only] = call.reports
    if (only !== undefined && call.reports.length === 1)
      this.#deliver(only, { kind: 'refused', code: tooLarge, message: reason })
    else {
      // What the server cannot take together it may take one by one.
      this.#outbox.unshift(...call.reports)
      this.#maxReports = 1
    }
  }

  #hangUp(call: OpenCall): void {
    this.#calls.delete(call.id)
    this.#wantsTurn = true
    if (call.listen !== null) this.#heard = [...call.listen.heard, ...this.#heard]
    this.#do({ do: 'hang-up', call: call.id })
    if (call.count > 0 && !this.#isSayingLastWords) this.#do({ do: 'beat', inMs: LATE_ANSWER_MS })
  }

  // ---- Outages ----

  /** A call was answered that was sent at `askedAt`, or that the server still held then. The guard counts on it too. */
  #contact(askedAt: Instant, now: Instant): void {
    this.#do({ do: 'contact', askedAt })
    this.#heardServer(askedAt, now)
  }

  #heardServer(askedAt: Instant, now: Instant): void {
    if (askedAt > this.#contactAt) this.#contactAt = askedAt
    this.#isFenced = false
    if (this.#trouble === null) return
    this.#log('warn', { silent_ms: Math.round(elapsed(this.#trouble.since, now)) }, 'the server answers again')
    this.#trouble = null
    this.#wantsTurn = true
  }

  #noteTrouble(reason: string, now: Instant): Trouble {
    if (this.#trouble === null) {
      this.#trouble = { since: now, failures: 0, retryAt: now }
      this.#log('warn', { reason }, 'the server does not answer; the worker keeps trying')
    }
    return this.#trouble
  }

  /** Leaves the server alone for a moment. The first answer to anything ends the rest of everything. */
  #rest(reason: string, now: Instant): void {
    const trouble = this.#noteTrouble(reason, now)
    const restMs = Math.min(MAX_REST_MS, FIRST_REST_MS * 2 ** trouble.failures)
    trouble.failures = Math.min(trouble.failures + 1, 10)
    trouble.retryAt = after(now, millis(restMs * (0.5 + this.#options.random() / 2)))
    this.#wakeBy(trouble.retryAt)
  }

  /** The server was not heard for so long that it may hand these jobs to others. */
  #fence(now: Instant): void {
    this.#isFenced = true
    if (this.#slotsTaken === 0) return
    this.#log('warn', { jobs: this.#slotsTaken }, 'no contact with the server for too long; stopping all jobs')
    for (const held of [...this.#held.values()])
      if (takesSlot(held)) this.#lose(held, LOST, after(now, held.terms.graceMs), now)
  }

  // ---- Jobs ----

  #take(jobs: readonly HandedJob[], asked: { at: Instant; waitedMs: Millis }, now: Instant): void {
    const starting: Held[] = []
    for (const job of jobs) {
      const held = this.#arrive(job, asked, now)
      if (held !== null) starting.push(held)
    }
    if (starting.length === 0) return
    // Beats must list a job before its handler can block this thread.
    this.#do({ do: 'flush-guard' })
    for (const held of starting) this.#start(held)
  }

  /** Null: it is not started now. */
  #arrive(job: HandedJob, asked: { at: Instant; waitedMs: Millis }, now: Instant): Held | null {
    const hold: Hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    const key = keyOf(hold)
    if (this.#held.has(key)) return null // handed back before its answer came
    const others = [...(this.#byJob.get(job.id) ?? [])]
    if (others.some(({ hold: { lease } }) => (lease ?? 0) > (hold.lease ?? 0))) return null // replaced on its way
    const handler = this.#options.handlers.get(job.type)
    const terms = termsOf(job, asked, handler?.limits ?? {})
    const held = this.#hold(newHeld(key, hold, job, terms, handler ?? { isolated: false, manual: false }, now))
    for (const older of others) this.#stepAside(older, now)
    if (handler === undefined) {
      this.#reject(held, `This worker has no handler for ${job.type}.`)
      return null
    }
    if (this.#state !== 'running') {
      this.#handBack(
        held,
        `The worker was ${this.#state === 'quiet' ? 'quiet' : 'shutting down'} when the job arrived.`,
      )
      return null
    }
    // An answer that hung for so long came with a lease that is over: nothing starts with an empty budget.
    if (isDue(fenceAt(this.#contactAt, this.#timeoutMs).warnAt, now)) {
      this.#handBack(held, 'The answer that brought the job took too long to arrive.')
      return null
    }
    if (isDue(terms.softAt, now)) {
      this.#neverStarted(held)
      return null
    }
    this.#do({ do: 'watch', watched: watchedOf(held) })
    if (!others.some(mayRun)) return held
    held.handler = 'waiting'
    held.giveUpAt = earliest(terms.softAt, after(now, STEP_ASIDE_MS)) ?? terms.softAt
    this.#wakeBy(held.giveUpAt)
    return null
  }

  /** A newer lease of the same job arrived: this one is not the server's any more. */
  #stepAside(older: Held, now: Instant): void {
    this.#lose(older, REPLACED, after(now, STEP_ASIDE_MS), now)
  }

  #start(held: Held): void {
    this.#wakeBy(nextDueAt(held))
    this.#wakeBy(this.fenceAt)
    this.#do({ do: 'start', key: held.key, job: held.job, terms: held.terms })
  }

  /** The handler of an older attempt is over: what waited for it goes on. */
  #startWaiting(jobId: string, now: Instant): void {
    const same = [...(this.#byJob.get(jobId) ?? [])]
    if (same.some(mayRun)) return
    for (const held of same) {
      if (held.handler !== 'waiting') continue
      if (isDue(held.terms.softAt, now)) {
        this.#neverStarted(held)
        continue
      }
      this.#setHandler(held, 'running')
      held.giveUpAt = giveUpAt(held.facts, held.terms.hardAt)
      held.signAt = now
      this.#do({ do: 'flush-guard' })
      this.#start(held)
      return
    }
  }

  #reject(held: Held, message: string): void {
    this.#setHandler(held, 'over')
    this.#report(held, { kind: 'nack', hold: held.hold, requeue: false, error: { type: 'handler_not_found', message } })
  }

  /** Hands back a job that was not begun. It uses no try. */
  #handBack(held: Held, message: string): void {
    this.#setHandler(held, 'over')
    this.#report(held, handBack(held.hold, 'shutdown', message))
  }

  #neverStarted(held: Held): void {
    const { hold, terms } = held
    this.#setHandler(held, 'over')
    const error = { name: 'Error', message: 'The job arrived when its time was up; it was not started.' }
    this.#close(held, reportOf(hold, terms, terms.softStop, { kind: 'threw', error }, terms.softAt))
  }

  /** Asks the handler to stop; it is waited for until `endsAt`, and never past the hard deadline. */
  #stop(held: Held, stop: Stop, endsAt: Instant): void {
    if (stop.why === 'lost') this.#disown(held)
    if (held.handler !== 'running') return
    const lastAt = earliest(endsAt, held.terms.hardAt) ?? endsAt
    const gaveUpAt = giveUpAt(held.facts, lastAt)
    const isFirst = held.stop === null
    const isNearer = gaveUpAt < held.giveUpAt
    if (isFirst) held.stop = stop
    if (isNearer) held.giveUpAt = gaveUpAt
    if (isFirst || isNearer) this.#do({ do: 'abort', key: held.key, stop: held.stop ?? stop, endsAt: lastAt })
    this.#wakeBy(held.giveUpAt)
  }

  /** No beat may list what is lost: it may run elsewhere, or here anew. */
  #disown(held: Held): void {
    if (held.isLost) return
    held.isLost = true
    this.#do({ do: 'unwatch', key: held.key })
  }

  /** The server does not count on this lease any more. */
  #lose(held: Held, stop: Stop, endsAt: Instant, now: Instant): void {
    if (held.handler === 'waiting') {
      this.#disown(held)
      this.#setHandler(held, 'over')
      this.#close(held, null)
      return
    }
    // Isolates of a job that runs anew are killed at once: the newer attempt waits for them.
    this.#stop(held, stop, held.facts.isolated && stop === REPLACED ? now : endsAt)
  }

  #settled(key: string, ending: AnyEnding, now: Instant): void {
    const held = this.#held.get(key)
    if (held === undefined || held.handler === 'over') return
    const wasAbandoned = held.handler === 'abandoned'
    this.#setHandler(held, 'over')
    if (wasAbandoned) this.#lateEnding(held, ending, now)
    else this.#close(held, reportOf(held.hold, held.terms, stoppedBy(held), ending, now))
    this.#startWaiting(held.hold.jobId, now)
  }

  /** A handler that was given up has ended after all: what the server may still wait for is handed back. */
  #lateEnding(held: Held, ending: AnyEnding, now: Instant): void {
    const { hold, terms, stop } = held
    this.#log(
      'warn',
      { job_id: hold.jobId, attempt: hold.attempt, outcome: ending.kind, late_ms: elapsed(terms.hardAt, now) },
      'abandoned handler finished; result discarded',
    )
    if (held.isReported) return
    const isOpen = (held.isLost || stop?.why === 'shutdown') && !isDue(terms.hardAt, now)
    if (!isOpen) this.#forget(held)
    else this.#report(held, handBack(hold, 'lost_lease', 'The handler stopped after the worker had given it up.'))
  }

  /** The handler is over, or given up: what is said of it. Null: nothing. */
  #close(held: Held, report: Report | null): void {
    if (report !== null) {
      this.#report(held, report)
      return
    }
    const { hold, stop } = held
    if (stop !== null)
      this.#log(
        'info',
        { job_id: hold.jobId, attempt: hold.attempt, stopped: stoppedBy(held)?.why ?? null },
        'an attempt ended after the server had closed it; nothing is reported',
      )
    if (held.handler === 'over') this.#forget(held)
    else this.#do({ do: 'unwatch', key: held.key })
  }

  #report(held: Held, report: Report): void {
    held.isReported = true
    this.#outbox.push(report)
    this.#wantsTurn = true
  }

  #delivered(reports: readonly Report[], deliveries: readonly Delivery[], now: Instant): void {
    let unsent: string | null = null
    reports.forEach((report, index) => {
      const delivery = deliveries[index] ?? { kind: 'unsent', reason: 'The answer leaves out a report.' }
      if (delivery.kind !== 'unsent') {
        this.#deliver(report, delivery)
        return
      }
      unsent = delivery.reason
      this.#outbox.push(report)
    })
    if (unsent !== null) this.#rest(unsent, now)
  }

  #deliver(report: Report, delivery: Delivery & { kind: 'done' | 'refused' }): void {
    const { hold, kind } = report
    if (kind === 'ack' && delivery.kind === 'refused' && TOO_LARGE.includes(delivery.code)) {
      // The job is still held: a result that cannot be stored fails it, and would fail it again.
      const error = { type: delivery.code, code: delivery.code, message: delivery.message, retryable: false }
      this.#outbox.push({ kind: 'nack', hold, requeue: false, error })
      this.#wantsTurn = true
      return
    }
    const held = this.#held.get(keyOf(hold))
    if (held !== undefined) {
      held.isReported = false
      if (held.handler === 'over') this.#forget(held)
      else this.#do({ do: 'unwatch', key: held.key })
    }
    if (delivery.kind === 'refused' && held?.isLost !== true)
      this.#log(
        'warn',
        { job_id: hold.jobId, attempt: hold.attempt, report: kind, code: delivery.code, reason: delivery.message },
        'the server had closed this attempt already; its report was refused',
      )
  }

  // ---- Held leases ----

  #hold(held: Held): Held {
    this.#held.set(held.key, held)
    this.#slotsTaken += 1
    const same = this.#byJob.get(held.hold.jobId)
    if (same === undefined) this.#byJob.set(held.hold.jobId, new Set([held]))
    else same.add(held)
    return held
  }

  #setHandler(held: Held, handler: Held['handler']): void {
    if (takesSlot(held)) this.#slotsTaken -= 1
    held.handler = handler
    if (takesSlot(held)) this.#slotsTaken += 1
    this.#wantsTurn = true
  }

  #forget(held: Held): void {
    this.#held.delete(held.key)
    const same = this.#byJob.get(held.hold.jobId)
    same?.delete(held)
    if (same?.size === 0) this.#byJob.delete(held.hold.jobId)
    this.#do({ do: 'unwatch', key: held.key })
  }

  /**
   * The server takes these for held here, but they are not known: the answer that brought them was lost, or is late. They
   * are handed back; if the answer comes after all, its job is not started.
   */
  #recoverLostAnswers(unlisted: readonly Unlisted[], now: Instant): void {
    for (const { jobId, lease, heldMs } of unlisted) {
      const hold: Hold = { jobId, attempt: 0, lease }
      const key = keyOf(hold)
      if (this.#held.has(key)) continue
      // The claim was at this moment or before it, on the worker's own clock.
      const claimedBy = instant(now - heldMs)
      const bringers = [...this.#calls.values()].filter(({ count, sentAt }) => count > 0 && sentAt <= claimedBy)
      if (bringers.length > 0 && heldMs < LATE_ANSWER_MS) {
        this.#do({ do: 'beat', inMs: LATE_ANSWER_MS })
        continue
      }
      this.#log('warn', { job_id: jobId, lease }, 'the answer that brought this job was lost; handing the job back')
      const job = { id: jobId } as HandedJob
      const terms = NO_TERMS
      const held = this.#hold(newHeld(key, hold, job, terms, { isolated: false, manual: false }, now))
      this.#setHandler(held, 'over')
      this.#report(held, handBack(hold, 'lost_answer', 'The answer that handed out the job did not arrive.'))
      for (const call of bringers) this.#hangUp(call)
    }
  }

  // ---- Orders ----

  #obey({ state, stops, isForgotten }: Orders, epoch: number, now: Instant): void {
    for (const stop of stops) this.#obeyStop(stop, now)
    if (isForgotten && this.#leaving === null && this.#registration === 'done') {
      this.#log('warn', {}, 'the server does not know this worker any more; registering again')
      this.#registration = 'none'
      this.#wantsTurn = true
    }
    if (state === 'terminate') this.#beginLeaving(this.#options.drainMs, false, now)
    // An answer to an older word of the worker only repeats it; a standing order is repeated too.
    if (epoch !== this.#epoch) return
    if (state === 'quiet' && this.#state === 'running') this.#become('quiet')
    if (state === 'running' && this.#state === 'quiet' && this.#server.orders) this.#become('running')
  }

  #obeyStop({ job_id: jobId, reason, x_lease: lease }: StopOrder, now: Instant): void {
    if (lease !== undefined && this.#server.orders) this.#heard.push({ jobId, lease })
    for (const held of [...(this.#byJob.get(jobId) ?? [])]) {
      if (lease !== undefined && held.hold.lease !== lease) continue
      const { softStop, hardAt, graceMs } = held.terms
      if (held.handler === 'waiting' || reason === 'lost') this.#lose(held, LOST, after(now, graceMs), now)
      else if (reason === 'timeout') this.#stop(held, softStop, hardAt)
      else this.#stop(held, { why: 'cancelled' }, after(now, graceMs))
    }
  }

  #become(state: WorkerState): void {
    this.#log('info', { from: this.#state, to: state }, 'the worker changes its state')
    this.#state = state
    this.#epoch += 1
    this.#wantsTurn = true
    this.#idleUntil = null
    this.#do({ do: 'tell-guard', state, epoch: this.#epoch })
    if (state === 'running') return
    for (const held of [...this.#held.values()])
      if (held.handler === 'waiting') this.#handBack(held, 'The worker stopped taking jobs before the job could begin.')
  }

  // ---- Time ----

  #due(now: Instant): void {
    this.#wantsTurn = true
    const fence = this.fenceAt
    if (isDue(fence, now)) this.#fence(now)
    for (const held of [...this.#held.values()]) if (isDue(nextDueAt(held), now)) this.#dueFor(held, now)
    for (const call of [...this.#calls.values()])
      if (call.replacedAt !== null && isDue(after(call.replacedAt, REPLACED_PATIENCE_MS), now)) this.#hangUp(call)
  }

  #dueFor(held: Held, now: Instant): void {
    const { terms } = held
    if (held.handler === 'waiting') {
      if (isDue(terms.softAt, now)) this.#neverStarted(held)
      else this.#handBack(held, 'An earlier attempt of the job is still running in this worker.')
      return
    }
    if (held.stop === null && isDue(terms.softAt, now)) this.#stop(held, terms.softStop, terms.hardAt)
    else if (held.stop === null && isDue(stallAt(held), now)) this.#stall(held, now)
    if (isDue(held.giveUpAt, now)) this.#abandon(held, now)
  }

  /** It gave no sign of life in time: the server has given it up by now. */
  #stall(held: Held, now: Instant): void {
    const { stallMs, graceMs } = held.terms
    const stop: Stop = { why: 'deadline', kind: 'stalled', limitMs: stallMs ?? 0, source: 'server' }
    this.#stop(held, stop, after(now, graceMs))
    this.#disown(held)
  }

  /** The handler did not stop in time. Nothing it does from here on counts. */
  #abandon(held: Held, now: Instant): void {
    this.#setHandler(held, 'abandoned')
    this.#do({ do: 'abandon', key: held.key })
    this.#close(held, reportOf(held.hold, held.terms, stoppedBy(held), { kind: 'abandoned' }, now))
  }

  /** Asks to be woken by then; an earlier wake-up stays, and finds out by itself what is next. */
  #wakeBy(at: Instant | null): void {
    if (at === null || (this.#wakeAt !== null && this.#wakeAt <= at)) return
    this.#wakeAt = at
    this.#do({ do: 'wake', at })
  }

  #armAgain(now: Instant): void {
    this.#wakeAt = null
    this.#wakeBy(earliest(this.fenceAt, this.#leavingAt()))
    for (const at of [this.#idleUntil, this.#trouble?.retryAt ?? null]) if (at !== null && at > now) this.#wakeBy(at)
    for (const held of this.#held.values()) this.#wakeBy(nextDueAt(held))
    for (const { replacedAt } of this.#calls.values())
      if (replacedAt !== null) this.#wakeBy(after(replacedAt, REPLACED_PATIENCE_MS))
  }

  // ---- Leaving ----

  #beginLeaving(drainMs: Millis, exits: boolean, now: Instant): void {
    if (this.#leaving !== null) {
      this.#leaving.exits ||= exits
      // Asked to stop again, it waits no longer than the shorter of both.
      this.#leaving.drainAt = earliest(this.#leaving.drainAt, after(now, drainMs)) ?? now
      if (this.#leaving.stage === 'drain') this.#wakeBy(this.#leaving.drainAt)
      return
    }
    this.#leaving = { stage: 'drain', drainAt: after(now, drainMs), stageEndsAt: null, exits, isDeregistering: false }
    this.#wakeBy(this.#leaving.drainAt)
    this.#become('terminate')
  }

  #leavingAt(): Instant | null {
    const leaving = this.#leaving
    if (leaving === null) return null
    return leaving.stage === 'drain' ? leaving.drainAt : leaving.stageEndsAt
  }

  #enterStage(stage: Stage, endsAt: Instant | null): void {
    const leaving = this.#leaving
    if (leaving === null) return
    leaving.stage = stage
    leaving.stageEndsAt = endsAt
    this.#wakeBy(endsAt)
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
        if (this.#slotsTaken === 0) this.#enterStage('last-reports', after(now, LAST_REPORTS_MS))
        else if (isDue(leaving.drainAt, now)) this.#cleanUp(now)
        return
      case 'clean-up':
        if (this.#slotsTaken === 0) this.#enterStage('last-reports', after(now, LAST_REPORTS_MS))
        else if (leaving.exits && isDue(leaving.stageEndsAt, now)) this.#exit(now)
        return
      case 'last-reports': {
        const isDone = this.#outbox.length === 0 && !this.#isReporting() && !this.#isAsking()
        const isOpen = this.#registration === 'asking' || (this.#registration === 'done' && !isDone)
        if (isOpen && !isDue(leaving.stageEndsAt, now)) return
        for (const call of [...this.#calls.values()]) this.#hangUp(call)
        this.#enterStage('silence', null)
        this.#do({ do: 'silence' })
        return
      }
      case 'deregister':
        if (leaving.isDeregistering) return
        leaving.isDeregistering = true
        if (this.#registration === 'done')
          this.#do({ do: 'deregister', leases: this.#begunLeases(), seq: this.#nextSeq(now) })
        else this.#enterStage('ended', null)
        return
      case 'ended':
        this.#log('info', {}, 'the worker has ended')
        this.#do({ do: 'ended' })
        return
      case 'silence':
    }
  }

  /** The worker waits no longer. What can be killed is killed; an inline handler is waited for until it ends. */
  #cleanUp(now: Instant): void {
    const endsAt = after(now, CLEAN_UP_MS)
    this.#enterStage('clean-up', endsAt)
    for (const held of [...this.#held.values()]) {
      if (held.handler === 'waiting') this.#handBack(held, 'The worker shut down before the job could begin.')
      else this.#stop(held, { why: 'shutdown' }, held.facts.isolated ? endsAt : held.terms.hardAt)
    }
  }

  #isReporting(): boolean {
    for (const { reports } of this.#calls.values()) if (reports.length > 0) return true
    return false
  }

  /** Attempts that were begun here and not ended: the server must not take them for untouched. */
  #begunLeases(): LeaseName[] {
    const begun = [...this.#held.values()].filter((held) => mayRun(held) || held.isReported)
    return begun.map(leaseName)
  }

  /** Only inline handlers that ignore their signal are left: they stop with the process, and their jobs go back. */
  #exit(now: Instant): void {
    const stubborn = [...this.#held.values()].filter(mayRun)
    if (stubborn.some(({ facts }) => facts.isolated)) return
    const message = 'The worker shut down before the job was done.'
    const reports = [
      ...this.#outbox.splice(0),
      ...stubborn.filter(takesSlot).map(({ hold }) => handBack(hold, 'shutdown', message)),
    ]
    for (const call of [...this.#calls.values()]) this.#hangUp(call)
    this.#do({ do: 'exit', reports, leases: [], seq: this.#nextSeq(now) })
    this.#enterStage('silence', null)
  }

  // ---- Shared parts ----

  #do(effect: Effect): void {
    this.#out.push(effect)
  }

  #log(level: 'info' | 'warn' | 'error', fields: object, message: string): void {
    this.#do({ do: 'log', level, fields, message })
  }
}

const isHandBack = (report: Report): boolean => report.kind === 'nack' && report.requeue

function handBack(hold: Hold, type: string, message: string): Report {
  return { kind: 'nack', hold, requeue: true, error: { type, code: type, message } }
}

/** Of a job that is only handed back. */
const NO_TERMS: Terms = {
  startedAt: instant(0),
  softAt: instant(Infinity),
  hardAt: instant(Infinity),
  killAt: instant(Infinity),
  graceMs: millis(0),
  stallMs: null,
  visibilityMs: null,
  softStop: { why: 'deadline', kind: 'execution', limitMs: 0, source: 'default' },
}

function watchedOf({ key, hold, terms, facts }: Held): Watched {
  return {
    key,
    jobId: hold.jobId,
    lease: hold.lease,
    manual: facts.manual,
    stallMs: terms.stallMs,
    visibilityMs: terms.visibilityMs,
    graceMs: terms.graceMs,
    hardAt: facts.isolated ? terms.killAt : terms.hardAt,
    softStop: terms.softStop,
  }
}
