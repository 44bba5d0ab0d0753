/**
 * A worker: takes jobs into its free slots, runs their handlers, reports how they ended, and leaves in order.
 *
 *   running ── quiet(), SIGTSTP, the server ──→ quiet ── resume(), SIGCONT ──→ running
 *      └───────── stop(), SIGTERM, the server ──┴──→ terminate ──→ drained, handed back, deregistered
 *
 * The lanes bring jobs and take reports; the attempts run them; the guard beats, and watches over isolates, from a
 * thread that a busy handler cannot block. Here is only what belongs to the worker as a whole: its states, and how it
 * begins and ends. Beats that fail change no state (OJS worker protocol §4.6); they end attempts, in time.
 */
import { hostname } from 'node:os'
import {
  after,
  instant,
  iso,
  isDue,
  millis,
  uuidV7,
  type Host,
  type Instant,
  type Millis,
  type Timer,
} from '@curfew/core'
import { Attempts } from './attempts.ts'
import { checkHandlers } from './check-handlers.ts'
import { Backoff } from './backoff.ts'
import { Client } from './client.ts'
import type { Connection, ConnectOptions } from './connection.ts'
import { exchangeCourier, singleCourier, type Courier, type Delivery } from './courier.ts'
import type { AnyHandlerFunction, HandlerFunction } from './define-handler.ts'
import type { Job } from './define-job.ts'
import { toMillis, type Duration } from './durations.ts'
import { InputError, RequestError } from './errors.ts'
import { beatBody, sendBeat } from './guard/beat.ts'
import type { BeatAnswer, GuardNews, WorkerFacts, WorkerState } from './guard/protocol.ts'
import { guardHere, guardInThread, type GuardHandle } from './guard/start.ts'
import { afterEverySleep } from './host.ts'
import { makeHandler, type HandlerOptions, type Registered } from './handlers.ts'
import { entryUrl } from './isolate/entry.ts'
import type { IsolateKind } from './isolate/isolate.ts'
import type { ErrorData } from './isolate/protocol.ts'
import { Lanes } from './lanes.ts'
import type { AttemptLimits } from './limits.ts'
import { stderrLog, type Log } from './log.ts'
import type { AttemptMiddleware } from './attempt-middleware.ts'
import { keyOf, type Report } from './report.ts'
import { serverCalls } from './server-calls.ts'
import { onSignals } from './signals.ts'
import { fenceAt, monotonicNow, type Asked } from './terms.ts'
import type { HandedJob } from './wire.ts'

export interface WorkerSettings {
  /** Read from left to right: the first has precedence. */
  readonly queues?: readonly string[]
  /** Jobs at the same time. */
  readonly concurrency?: number
  readonly labels?: readonly string[]
  /** Limits for every handler that does not bring its own, field by field. */
  readonly defaults?: AttemptLimits
  /** How long running jobs are waited for when the worker stops. */
  readonly drain?: Duration
  /** False: one call for each report, even where the server takes them together. */
  readonly exchange?: boolean
  /** `inline`: handlers run in this thread whatever they ask for, as a test or a debugger may want it. */
  readonly isolation?: 'inline'
  /** The name the server knows this worker by; a new one unless told. */
  readonly id?: string
}

export type WorkerOptions = ConnectOptions & WorkerSettings

/** What the server says of itself when a worker registers. */
interface Registration {
  readonly heartbeat_interval?: number
  readonly heartbeat_timeout?: number
}

const DRAIN_MS = 25_000
const LONGEST_POLL_MS = 20_000
const GUARD_REST_MS = 1_000
/** What handlers get to clean up in, once the worker will not wait any longer. */
const CLEAN_UP_MS = millis(2_000)
/** How long the last reports may take. */
const LAST_WORDS_MS = 5_000
/** Refusals of a result that leave the job as it was. */
const TOO_LARGE: readonly string[] = ['result_too_large', 'payload_too_large']
const GUARD_GONE: ErrorData = {
  name: 'IsolateError',
  code: 'guard_gone',
  message: 'The thread that watches over isolates ended by itself. Start the worker again.',
}
const USUAL_INTERVAL_S = 5
const USUAL_TIMEOUT_S = 30

export class Worker {
  readonly id: string
  readonly client: Client
  readonly #options: WorkerOptions
  readonly #connection: Connection
  readonly #host: Host
  readonly #log: Log
  readonly #concurrency: number
  readonly #queues: readonly string[]
  readonly #drainMs: Millis
  readonly #handlers = new Map<string, Registered>()
  readonly #middleware: AttemptMiddleware[] = []
  readonly #attempts: Attempts
  #facts: WorkerFacts
  #lanes: Lanes | null = null
  #guard: GuardHandle | null = null
  readonly #checking = new Map<number, (error: ErrorData | null) => void>()
  #checks = 0
  #isThreaded = false
  #fences = false
  #state: WorkerState = 'running'
  #resumedAt: Instant | null = null
  #isRegistered = false
  #intervalMs = millis(USUAL_INTERVAL_S * 1000)
  #timeoutMs = millis(USUAL_TIMEOUT_S * 1000)
  #contactAt: Instant = instant(0)
  #beatAt: Instant = instant(0)
  #endWatch: (() => void) | null = null
  #starting: Promise<void> | null = null
  #stopping: Promise<void> | null = null
  #leave: () => void = () => {}
  readonly #leaving: Promise<void>
  #hurry: () => void = () => {}
  readonly #hurried: Promise<void>
  #isSilent = false
  #terminated: () => void = () => {}
  readonly #termination: Promise<void>

  constructor(options: WorkerOptions) {
    this.#options = options
    this.client = new Client(options)
    this.#connection = this.client.connection
    this.#host = this.#connection.host
    this.#log = options.log ?? stderrLog
    this.#concurrency = options.concurrency ?? 10
    if (!Number.isInteger(this.#concurrency) || this.#concurrency < 1)
      throw new InputError('concurrency must be a whole number from 1 on.', { field: 'concurrency' })
    this.#queues = options.queues ?? ['default']
    if (this.#queues.length === 0) throw new InputError('A worker needs at least one queue.', { field: 'queues' })
    this.#drainMs = options.drain === undefined ? millis(DRAIN_MS) : toMillis(options.drain, 'drain')
    const startedAt = instant(this.#host.wallMs())
    this.id = options.id ?? uuidV7(startedAt, this.#connection.random)
    this.#facts = {
      worker_id: this.id,
      hostname: hostname(),
      pid: process.pid,
      queues: this.#queues,
      concurrency: this.#concurrency,
      labels: options.labels ?? [],
      started_at: iso(startedAt),
    }
    this.#attempts = new Attempts({
      host: this.#host,
      log: this.#log,
      handlers: this.#handlers,
      middleware: this.#middleware,
      order: (order) => this.#guard?.order(order),
      report: (report) => this.#lanes?.report(report),
      onFree: () => this.#lanes?.pump(),
      calls: serverCalls(this.#connection, this.client, this.id, () => this.#fences),
    })
    this.#leaving = new Promise((resolve) => (this.#leave = resolve))
    this.#hurried = new Promise((resolve) => (this.#hurry = resolve))
    this.#termination = new Promise((resolve) => (this.#terminated = resolve))
  }

  get state(): WorkerState {
    return this.#state
  }

  /** How many jobs are running. */
  get active(): number {
    return this.#attempts.size
  }

  /** Says how jobs of a type are done: by a function, or by a module that is loaded where the handler runs. */
  handle<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    run: HandlerFunction<Got, Returned>,
  ): this
  handle<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    options: HandlerOptions,
    run?: HandlerFunction<Got, Returned>,
  ): this
  handle<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    second: HandlerOptions | HandlerFunction<Got, Returned>,
    third?: HandlerFunction<Got, Returned>,
  ): this {
    const [options, run] = typeof second === 'function' ? [{}, second] : [second, third ?? null]
    const { defaults = {}, isolation } = this.#options
    const made = makeHandler(job, options, run as AnyHandlerFunction | null, defaults)
    const handler: Registered = isolation === undefined ? made : { ...made, isolation, memoryMb: null }
    const { type } = handler.job
    if (this.#starting !== null) throw new InputError(`The worker has started: say before how ${type} is done.`)
    if (this.#handlers.has(type)) throw new InputError(`There is a handler for ${type} already.`, { type })
    this.#handlers.set(type, handler)
    return this
  }

  /** Wraps every attempt; the first given is the outermost. */
  use(middleware: AttemptMiddleware): this {
    this.#middleware.push(middleware)
    return this
  }

  /** Registers, and begins to take jobs. Waits for a server that does not answer yet. */
  start(): Promise<void> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  /** Starts, obeys the signals of the system, and returns when the worker has ended. */
  async run(): Promise<void> {
    const forget = onSignals({
      SIGTERM: () => {
        if (this.#stopping === null) void this.stop()
        else this.#hurry()
      },
      SIGINT: () => {
        void this.stop({ drain: { ms: 0 } })
        this.#hurry()
      },
      SIGTSTP: () => {
        this.quiet()
      },
      SIGCONT: () => {
        this.resume()
      },
    })
    try {
      await this.start()
      await this.#termination
    } finally {
      forget()
    }
    // What was abandoned cannot be stopped, and would keep the process alive.
    if (this.#attempts.abandoned > 0) process.exit(0)
  }

  /** Takes no more jobs; goes on with those it has. */
  quiet(): void {
    if (this.#state !== 'running') return
    this.#become('quiet')
  }

  /** Takes jobs again. There is no way back from a stop. */
  resume(): void {
    if (this.#state !== 'quiet') return
    this.#resumedAt = monotonicNow(this.#host)
    this.#become('running')
    this.#lanes?.pump()
  }

  /** Waits for running jobs, hands back the rest, takes its leave. */
  stop(options: { readonly drain?: Duration } = {}): Promise<void> {
    const drainMs = options.drain === undefined ? this.#drainMs : toMillis(options.drain, 'drain')
    this.#stopping ??= this.#stop(drainMs)
    this.#leave()
    return this.#stopping
  }

  // ---- Beginning ----

  async #start(): Promise<void> {
    if (this.#handlers.size === 0) throw new InputError('A worker without a handler would fail every job it takes.')
    const supports = await this.#untilAnswered(() => this.#whatTheServerCan())
    if (supports === null) return
    this.#fences = supports.limits
    this.#guard = this.#startGuard()
    try {
      await checkHandlers(this.#handlers.values(), (kind) => this.#checkIsolate(kind))
    } catch (error) {
      // A stop ends the checks, too.
      if (this.#stopping !== null) return
      await this.#guard.close()
      throw error
    }
    const courier = this.#courier(supports)
    this.#lanes = new Lanes({
      host: this.#host,
      random: this.#connection.random,
      log: this.#log,
      courier,
      freeSlots: () => this.#concurrency - this.#attempts.size,
      mayFetch: () => this.#state === 'running' && this.#isRegistered,
      longestWaitMs: () => Math.min(LONGEST_POLL_MS, Math.floor(this.#timeoutMs / 2)),
      dueBeat: () => this.#dueBeat(),
      onJobs: (jobs, asked) => {
        this.#take(jobs, asked)
      },
      onDelivered: (report, delivery) => {
        this.#delivered(report, delivery)
      },
      onContact: (askedAt, beat) => {
        this.#contact(instant(askedAt))
        this.#guard?.order({ op: 'contact', askedAt, beat })
      },
      onBeat: (answer, askedAt) => {
        this.#obey(answer, instant(askedAt))
      },
    })
    try {
      await this.#untilAnswered(() => this.#register())
    } catch (error) {
      await this.#guard.close()
      throw error
    }
    this.#lanes.pump()
  }

  async #whatTheServerCan(): Promise<{ exchange: boolean; longPoll: boolean; limits: boolean }> {
    const [exchange, longPoll, limits] = [
      await this.#connection.supports('exchange'),
      await this.#connection.supports('long-poll'),
      await this.#connection.supports('limits'),
    ]
    return { exchange, longPoll, limits }
  }

  #courier({ exchange, longPoll }: { exchange: boolean; longPoll: boolean }): Courier {
    const route = { connection: this.#connection, host: this.#host, workerId: this.id, queues: this.#queues }
    if (exchange && this.#options.exchange !== false) return exchangeCourier(route)
    return singleCourier(route, longPoll, this.#fences)
  }

  /** In a thread of its own, unless time or the network are handed in: those do not cross. */
  #startGuard(): GuardHandle {
    const options = this.#options
    const tell = (news: GuardNews): void => {
      this.#hear(news)
    }
    this.#isThreaded = 'url' in options && options.fetch === undefined && options.host === undefined
    if ('url' in options && this.#isThreaded) {
      const data = { url: options.url, token: options.token ?? null, fences: this.#fences, facts: this.#facts }
      return guardInThread(entryUrl('guard/thread'), data, { host: this.#host, log: this.#log }, tell)
    }
    const beat = (body: Record<string, unknown>, timeoutMs: number): Promise<BeatAnswer> =>
      sendBeat(this.#connection, body, timeoutMs)
    return guardHere({ host: this.#host, log: this.#log, facts: this.#facts, fences: this.#fences, beat }, tell)
  }

  /** Also keeps the isolate warm: the first job of a kind should not pay for its start. */
  #checkIsolate(kind: IsolateKind): Promise<ErrorData | null> {
    const id = (this.#checks += 1)
    return new Promise((resolve) => {
      this.#checking.set(id, resolve)
      this.#guard?.order({ op: 'check', id, kind })
    })
  }

  #checked(id: number, error: ErrorData | null): void {
    this.#checking.get(id)?.(error)
    this.#checking.delete(id)
  }

  async #register(): Promise<void> {
    const askedAt = monotonicNow(this.#host)
    const limits = [...this.#handlers].map(([type, { wire }]) => [type, wire] as const)
    const handlers = Object.fromEntries(limits.filter(([, wire]) => Object.keys(wire).length > 0))
    let answer: Registration = {}
    try {
      answer = await this.#connection.call<Registration>({
        method: 'POST',
        path: '/ojs/v1/workers/register',
        idempotent: true,
        body: { ...this.#facts, ...(this.#fences ? { handlers } : {}) },
      })
    } catch (error) {
      // Registration is not part of every server; beats introduce the worker there.
      if (!(error instanceof RequestError) || ![404, 405, 501].includes(error.status)) throw error
    }
    this.#intervalMs = millis((answer.heartbeat_interval ?? USUAL_INTERVAL_S) * 1000)
    this.#timeoutMs = millis((answer.heartbeat_timeout ?? USUAL_TIMEOUT_S) * 1000)
    this.#isRegistered = true
    this.#contact(askedAt)
    this.#beatAt = askedAt
    this.#tellGuard(askedAt)
  }

  /** Tries until somebody answers; a refusal is an answer. Null: the worker was stopped meanwhile. */
  async #untilAnswered<T>(ask: () => Promise<T>): Promise<T | null> {
    const backoff = new Backoff(this.#connection.random)
    while (this.#stopping === null) {
      try {
        return await ask()
      } catch (error) {
        if (error instanceof RequestError && error.status < 500 && error.status !== 429) throw error
        const waitMs = backoff.next()
        const reason = error instanceof Error ? error.message : String(error)
        this.#log.warn({ reason, rest_ms: waitMs }, 'the server does not answer; the worker waits for it')
        await Promise.race([this.#sleep(waitMs), this.#leaving])
      }
    }
    return null
  }

  // ---- Jobs and reports ----

  #take(jobs: readonly HandedJob[], asked: Asked): void {
    // An answer that hung for so long came with a lease that is over: nothing starts with an empty budget.
    const isStale = isDue(fenceAt(this.#contactAt, this.#timeoutMs).warnAt, monotonicNow(this.#host))
    const arrived = isStale || this.#state === 'terminate' ? [] : jobs.map((job) => this.#attempts.arrive(job, asked))
    this.#guard?.flush()
    for (const [index, job] of jobs.entries()) {
      const begins = arrived[index]
      if (begins === null) continue
      if (this.#state === 'terminate') this.#handBack(job, 'The worker was shutting down when the job arrived.')
      else if (begins === undefined) this.#handBack(job, 'The answer that brought the job took too long to arrive.')
      else this.#attempts.begin(begins)
    }
    this.#watchSleep()
  }

  /** It came at a time when it could not be begun. */
  #handBack(job: HandedJob, message: string): void {
    const hold = { jobId: job.id, attempt: job.attempt, lease: job.x_lease ?? null }
    this.#lanes?.report({ kind: 'nack', hold, requeue: true, error: { type: 'shutdown', code: 'shutdown', message } })
  }

  #delivered({ hold, kind }: Report, delivery: Delivery & { kind: 'done' | 'refused' }): void {
    if (kind === 'ack' && delivery.kind === 'refused' && TOO_LARGE.includes(delivery.code)) {
      // The job is still ours: a result that cannot be stored fails it, and would fail it again.
      const error = { type: delivery.code, code: delivery.code, message: delivery.message, retryable: false }
      this.#lanes?.report({ kind: 'nack', hold, requeue: false, error })
      return
    }
    this.#guard?.order({ op: 'end', key: keyOf(hold) })
    if (delivery.kind === 'done') return
    this.#log.warn(
      { job_id: hold.jobId, attempt: hold.attempt, report: kind, code: delivery.code, reason: delivery.message },
      'the server had decided on this attempt already; its report was refused',
    )
  }

  // ---- The guard's news ----

  #hear(news: GuardNews): void {
    switch (news.op) {
      case 'beat':
        if (this.#isSilent) this.#log.info({}, 'the server answers beats again')
        this.#isSilent = false
        this.#contact(instant(news.askedAt))
        this.#beatAt = instant(Math.max(this.#beatAt, news.askedAt))
        this.#obey(news.answer, instant(news.askedAt))
        return
      case 'silence':
        if (!this.#isSilent) this.#log.warn({ reason: news.message }, 'a beat was not answered; trying again in time')
        this.#isSilent = true
        return
      case 'fence':
        this.#fence()
        return
      case 'checked':
        this.#checked(news.id, news.error)
        return
      case 'call':
      case 'ended':
        this.#attempts.hear(news)
        return
      case 'gone':
        for (const id of [...this.#checking.keys()]) this.#checked(id, GUARD_GONE)
        void this.#replaceGuard()
        return
      case 'closed':
    }
  }

  /** Without a guard there are no beats: its jobs are given up, and a new one takes over. */
  async #replaceGuard(): Promise<void> {
    this.#log.error({}, 'the thread that beats for this worker ended by itself; its jobs are given up')
    this.#fence()
    await this.#sleep(GUARD_REST_MS)
    if (this.#stopping !== null) return
    this.#guard = this.#startGuard()
    checkHandlers(this.#handlers.values(), (kind) => this.#checkIsolate(kind)).catch((error: unknown) => {
      this.#log.warn({ reason: String(error) }, 'isolates could not be started in advance')
    })
    this.#guard.order({ op: 'state', state: this.#state })
    this.#tellGuard(this.#contactAt)
  }

  #tellGuard(askedAt: Instant): void {
    this.#guard?.order({ op: 'registered', intervalMs: this.#intervalMs, timeoutMs: this.#timeoutMs, askedAt })
  }

  #obey({ state, x_cancel_jobs: stops = [], x_reregister: isForgotten }: BeatAnswer, askedAt: Instant): void {
    for (const stop of stops) this.#attempts.obey(stop)
    if (isForgotten === true && this.#stopping === null) {
      this.#log.warn({}, 'the server does not know this worker any more; registering again')
      this.#untilAnswered(() => this.#register()).catch((error: unknown) => {
        this.#log.error({ reason: String(error) }, 'the server refuses to register this worker again')
      })
    }
    // What was said before it was resumed may only repeat its own word; an order will be repeated.
    if (state === 'quiet' && (this.#resumedAt === null || askedAt > this.#resumedAt)) this.quiet()
    if (state === 'terminate') void this.stop()
  }

  /** A beat for the next exchange to take along, if the last one is a while ago. Signs of handlers go with the guard. */
  #dueBeat(): Record<string, unknown> | null {
    const now = monotonicNow(this.#host)
    const watched = this.#attempts.watched()
    if (now - this.#beatAt < this.#intervalMs / 2 || watched.some(({ manual }) => manual)) return null
    this.#beatAt = now
    const { worker_id: _id, ...beat } = beatBody(this.#facts, this.#state, watched, new Set(), now, this.#fences)
    return beat
  }

  // ---- The fence ----

  #contact(askedAt: Instant): void {
    if (askedAt > this.#contactAt) this.#contactAt = askedAt
  }

  /** Nothing was heard of the server for so long that it may give these jobs to others. */
  #fence(): void {
    if (this.#attempts.size === 0) return
    this.#log.warn({ jobs: this.#attempts.size }, 'the server has not been heard for too long; stopping what runs')
    const now = monotonicNow(this.#host)
    this.#attempts.stopAll({ why: 'lost' }, ({ terms }) => after(now, terms.graceMs))
  }

  /** A thread that was asleep (SIGSTOP, a suspended machine) must learn of it before its handlers go on. */
  #watchSleep(): void {
    if (this.#endWatch !== null || !this.#isThreaded || !this.#attempts.hasInline) return
    this.#endWatch = afterEverySleep(() => {
      if (isDue(fenceAt(this.#contactAt, this.#timeoutMs).warnAt, monotonicNow(this.#host))) this.#fence()
      if (this.#attempts.size > 0) return
      this.#endWatch?.()
      this.#endWatch = null
    })
  }

  // ---- Ending ----

  #become(state: WorkerState): void {
    this.#log.info({ from: this.#state, to: state }, 'the worker changes its state')
    this.#state = state
    this.#guard?.order({ op: 'state', state })
  }

  async #stop(drainMs: Millis): Promise<void> {
    this.#become('terminate')
    const [attempts, lanes] = [this.#attempts, this.#lanes]
    await Promise.race([attempts.emptied(), this.#sleep(drainMs), this.#hurried])
    if (attempts.size > 0) {
      const giveUpAt = after(monotonicNow(this.#host), CLEAN_UP_MS)
      attempts.stopAll({ why: 'shutdown' }, () => giveUpAt)
      await attempts.emptied()
    }
    if (lanes !== null) await Promise.race([lanes.emptied(), this.#sleep(LAST_WORDS_MS)])
    lanes?.close()
    await this.#deregister()
    await this.#guard?.close()
    this.#endWatch?.()
    await this.client.close()
    for (const timer of this.#sleeping) timer.cancel()
    this.#log.info({ worker_id: this.id }, 'the worker has ended')
    this.#terminated()
  }

  async #deregister(): Promise<void> {
    if (!this.#isRegistered) return
    try {
      await this.#connection.call({
        method: 'POST',
        path: '/ojs/v1/workers/deregister',
        body: { worker_id: this.id },
        idempotent: false,
        timeoutMs: CLEAN_UP_MS,
      })
    } catch (error) {
      this.#log.debug({ reason: String(error) }, 'the worker could not take its leave')
    }
  }

  readonly #sleeping = new Set<Timer>()

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#host.setTimer(ms, () => {
        this.#sleeping.delete(timer)
        resolve()
      })
      this.#sleeping.add(timer)
    })
  }
}
