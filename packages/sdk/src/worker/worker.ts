/**
 * A worker: takes jobs into its free slots, runs their handlers, reports how they ended, and leaves in order.
 *
 * All state is in the session (`session.ts`). This class is the shell around it: it carries out what the session wants
 * done, with the network (`transport.ts`), the guard thread, the handlers (`runner.ts`) and the system's signals, and
 * tells the session what came of it.
 */
import { hostname } from 'node:os'
import { instant, iso, millis, uuidV7, type Host, type Instant, type Millis, type Timer } from '@curfew/core'
import type { AttemptMiddleware } from '../attempt-middleware.ts'
import { checkHandlers } from '../check-handlers.ts'
import { Client } from '../client.ts'
import type { Connection, ConnectOptions } from '../connection.ts'
import type { AnyHandlerFunction, HandlerFunction } from '../define-handler.ts'
import type { Job } from '../define-job.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError, RequestError } from '../errors.ts'
import { sendBeat, sendLast } from '../guard/beat.ts'
import type { BeatAnswer, GuardNews, LastCall, WorkerFacts, WorkerState } from '../guard/protocol.ts'
import { guardHere, guardInThread, type GuardHandle } from '../guard/start.ts'
import { makeHandler, type HandlerOptions, type Registered } from '../handlers.ts'
import { afterEverySleep } from '../host.ts'
import { entryUrl } from '../isolate/entry.ts'
import type { IsolateKind } from '../isolate/isolate.ts'
import type { ErrorData } from '../isolate/protocol.ts'
import type { AttemptLimits } from '../limits.ts'
import { stderrLog, type Log } from '../log.ts'
import { serverCalls } from '../server-calls.ts'
import type { StepProbe } from '../steps.ts'
import { onSignals } from '../signals.ts'
import { monotonicNow } from '../terms.ts'
import { backoffMs, deferred } from '../waiting.ts'
import { batchOf, Batches, type BatchFunction, type BatchOptions } from './batches.ts'
import { WorkerNews, type WorkerEvents, type WorkerListener } from './events.ts'
import type { Call, Effect, Input, LeaseName } from './inputs.ts'
import { Runner } from './runner.ts'
import type { HandlerTerms } from './leases.ts'
import { Session } from './session.ts'
import { exchangeTransport, ordersOf, singleTransport, type WorkerTransport } from './transport.ts'

export interface WorkerSettings {
  /** Read from left to right: the first has precedence. */
  readonly queues?: readonly string[]
  /** Jobs at the same time. */
  readonly concurrency?: number
  /**
   * The largest number of jobs to take beyond `concurrency`, so that no slot waits for the server. How many are taken
   * follows from how long handlers run and whether there is a backlog; handlers of more than 50 ms: none. 0: never any.
   * By default ten times the concurrency, at least 250 and at most 500; 0 with handlers in threads or processes.
   */
  readonly prefetch?: number
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

/** The part of a session that a simulation may replace. */
export type SessionLike = Pick<Session, 'step' | 'state' | 'active' | 'running' | 'fenceAt' | 'wantsTurn' | 'isLeaving'>

/** How a session is made; a simulation makes one with a planted fault. */
export type MakeSession = (...args: ConstructorParameters<typeof Session>) => SessionLike

/** What the server says of itself when a worker registers. Whole seconds, and exact where it says milliseconds. */
interface Registration {
  readonly heartbeat_interval?: number
  readonly heartbeat_timeout?: number
  readonly heartbeat_interval_ms?: number
  readonly heartbeat_timeout_ms?: number
  readonly x_warnings?: readonly string[]
}

const DRAIN_MS = 25_000
const MAX_PREFETCH = 1_000
const GUARD_REST_MS = 1_000
const DEREGISTER_MS = 2_000
/** How long the process stands still for its last words. */
const LAST_WORDS_MS = 4_000
const GUARD_GONE: ErrorData = {
  name: 'IsolateError',
  code: 'guard_gone',
  message: 'The thread that watches over isolates ended by itself. Start the worker again.',
}
const DEFAULT_INTERVAL_S = 5
const DEFAULT_TIMEOUT_S = 30

export class Worker {
  /** Workers whose `run()` owns this process: it ends with the last of them. */
  static readonly #runs = new Set<Worker>()
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
  readonly #facts = new Map<string, HandlerTerms>()
  readonly #middleware: AttemptMiddleware[] = []
  readonly #session: SessionLike
  readonly #runner: Runner
  readonly #news: WorkerNews
  readonly #who: WorkerFacts
  #transport: WorkerTransport | null = null
  #guard: GuardHandle | null = null
  readonly #checking = new Map<number, (error: ErrorData | null) => void>()
  #checks = 0
  /** The guard has a thread of its own. */
  #isThreaded = false
  #fences = false
  readonly #inputs: Input[] = []
  #isStepping = false
  #hasTurn = false
  #wake: Timer | null = null
  readonly #calls = new Map<number, AbortController>()
  #endWatch: (() => void) | null = null
  #starting: Promise<void> | null = null
  readonly #started = deferred<undefined>()
  readonly #leaving = deferred<undefined>()
  readonly #ended = deferred<undefined>()

  /** `probe`: the test kit looks at every step. */
  constructor(options: WorkerOptions, makeSession: MakeSession = (...args) => new Session(...args), probe?: StepProbe) {
    this.#options = options
    this.client = new Client(options)
    this.#connection = this.client.connection
    this.#host = this.#connection.host
    this.#log = options.log ?? stderrLog
    this.#concurrency = options.concurrency ?? 10
    if (!Number.isInteger(this.#concurrency) || this.#concurrency < 1)
      throw new InputError('concurrency must be a whole number from 1 on.', { field: 'concurrency' })
    const { prefetch = null } = options
    if (prefetch !== null && !(Number.isInteger(prefetch) && prefetch >= 0 && prefetch <= MAX_PREFETCH))
      throw new InputError(`prefetch must be a whole number from 0 to ${String(MAX_PREFETCH)}.`, { field: 'prefetch' })
    this.#queues = options.queues ?? ['default']
    if (this.#queues.length === 0) throw new InputError('A worker needs at least one queue.', { field: 'queues' })
    this.#drainMs = options.drain === undefined ? millis(DRAIN_MS) : toMillis(options.drain, 'drain')
    const startedAt = instant(this.#host.wallMs())
    this.id = options.id ?? uuidV7(startedAt, this.#connection.random)
    this.#who = {
      worker_id: this.id,
      hostname: hostname(),
      pid: process.pid,
      queues: this.#queues,
      concurrency: this.#concurrency,
      labels: options.labels ?? [],
      started_at: iso(startedAt),
    }
    this.#session = makeSession(
      {
        concurrency: this.#concurrency,
        prefetch,
        drainMs: this.#drainMs,
        handlers: this.#facts,
        random: this.#connection.random,
      },
      this.#now(),
    )
    this.#news = new WorkerNews(this.#host, this.#log)
    this.#runner = new Runner({
      host: this.#host,
      random: this.#connection.random,
      ...(probe === undefined ? {} : { probe }),
      handlers: this.#handlers,
      middleware: this.#middleware,
      order: (order) => this.#guard?.order(order),
      hear: (input) => {
        if (input.in === 'settled') this.#news.settled(input.key)
        this.#hear(input)
      },
      calls: serverCalls(this.#connection, this.client, this.id, () => this.#fences),
    })
    this.#started.promise.catch(() => {})
  }

  get state(): WorkerState {
    return this.#session.state
  }

  /** How many jobs are running. */
  get active(): number {
    return this.#session.active
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
    const { limits, isManual } = handler
    this.#facts.set(type, { isolated: handler.isolation !== 'inline', manual: isManual, limits })
    return this
  }

  /**
   * Says how jobs of a type are done many at a time: `run` gets those that arrived together, up to `size`, and gives a result
   * for each, in their order. Each job has its own deadlines, report and retries. It takes a slot each, so `concurrency` must
   * be `size` at least.
   */
  handleBatch<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    options: BatchOptions,
    run: BatchFunction<Got, Returned>,
  ): this {
    const { size, waitMs, handler } = batchOf(options, this.#concurrency)
    const batches = new Batches<Got, Returned>(this.#host, size, waitMs, run)
    return this.handle(job, handler, (ctx, input) => batches.add(ctx, input))
  }

  /** Hears of attempts that begin after this. What a listener throws is logged, and harms nothing. */
  on<Name extends keyof WorkerEvents>(event: Name, listener: WorkerListener<Name>): this {
    this.#news.on(event, listener)
    return this
  }

  off<Name extends keyof WorkerEvents>(event: Name, listener: WorkerListener<Name>): this {
    this.#news.off(event, listener)
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
        if (this.#session.isLeaving) this.#hear({ in: 'hurry' })
        this.#stop(this.#drainMs)
      },
      SIGINT: () => {
        this.#stop(millis(0))
        this.#hear({ in: 'hurry' })
      },
      SIGTSTP: () => {
        this.quiet()
      },
      SIGCONT: () => {
        this.resume()
      },
    })
    Worker.#runs.add(this)
    try {
      await this.start()
      await this.#ended.promise
    } finally {
      forget()
      Worker.#runs.delete(this)
    }
    // What was abandoned cannot be stopped, and would keep the process alive.
    if (this.#session.running.length > 0 && Worker.#runs.size === 0) process.exit(0)
  }

  /** Takes no more jobs; goes on with those it has. */
  quiet(): void {
    this.#hear({ in: 'quiet' })
  }

  /** Takes jobs again. There is no way back from a stop. */
  resume(): void {
    this.#hear({ in: 'resume' })
  }

  /** Waits for running jobs, hands back the rest, deregisters. */
  stop(options: { readonly drain?: Duration } = {}): Promise<void> {
    this.#stop(options.drain === undefined ? this.#drainMs : toMillis(options.drain, 'drain'))
    return this.#ended.promise
  }

  /** The process is this worker and nothing else, and can be ended from the guard's thread. */
  get #ownsProcess(): boolean {
    return Worker.#runs.has(this) && this.#isThreaded
  }

  #stop(drainMs: Millis): void {
    this.#hear({ in: 'stop', drainMs })
    this.#leaving.resolve(undefined)
  }

  // ---- Beginning ----

  async #start(): Promise<void> {
    if (this.#handlers.size === 0) throw new InputError('A worker without a handler would fail every job it takes.')
    const transport = await this.#untilAnswered(() => this.#findTransport())
    if (transport === null || this.#session.isLeaving) return
    this.#transport = transport
    this.#guard = this.#startGuard()
    if (!(await this.#canRunHandlers()) || this.#session.isLeaving) return
    if (this.#ownsProcess) this.#hear({ in: 'owns-process' })
    this.#hear({ in: 'begin', server: transport.features })
    await this.#started.promise
  }

  /** What the server can do decides how calls travel. */
  async #findTransport(): Promise<WorkerTransport> {
    const [exchange, longPoll, limits, orders] = [
      await this.#connection.supports('exchange'),
      await this.#connection.supports('long-poll'),
      await this.#connection.supports('limits'),
      await this.#connection.supports('orders'),
    ]
    this.#fences = limits
    const route = { connection: this.#connection, host: this.#host, workerId: this.id, queues: this.#queues }
    if (exchange && this.#options.exchange !== false) return exchangeTransport(route, orders)
    return singleTransport(route, longPoll, limits)
  }

  /** Tries until the server answers; a refusal is an answer. Null: the worker was stopped meanwhile. */
  async #untilAnswered<T>(ask: () => Promise<T>): Promise<T | null> {
    for (let failures = 0; !this.#session.isLeaving;) {
      try {
        const answer = await Promise.race([ask(), this.#leaving.promise])
        if (answer === undefined) return null
        if (failures > 0) this.#log.warn({}, 'the server answers; the worker starts')
        return answer
      } catch (error) {
        if (isFinal(error)) throw error
        failures += 1
        if (failures === 1)
          this.#log.warn({ reason: reasonOf(error) }, 'the server does not answer; the worker keeps trying')
        await Promise.race([
          this.#sleep(backoffMs(failures, this.#connection.random, 250, 2_000)),
          this.#leaving.promise,
        ])
      }
    }
    return null
  }

  /** In a thread of its own, unless time or the network are handed in: those do not cross. */
  #startGuard(): GuardHandle {
    const options = this.#options
    const tell = (news: GuardNews): void => {
      this.#hearGuard(news)
    }
    this.#isThreaded = 'url' in options && options.fetch === undefined && options.host === undefined
    if ('url' in options && this.#isThreaded) {
      const data = { url: options.url, token: options.token ?? null, fences: this.#fences, facts: this.#who }
      return guardInThread(entryUrl('guard/thread'), data, { host: this.#host, log: this.#log }, tell)
    }
    const ports = {
      host: this.#host,
      log: this.#log,
      facts: this.#who,
      fences: this.#fences,
      beat: (body: Record<string, unknown>, timeoutMs: number): Promise<BeatAnswer> =>
        sendBeat(this.#connection, body, timeoutMs),
      call: (call: LastCall): Promise<void> => sendLast(this.#connection, call),
    }
    return guardHere(ports, tell)
  }

  /** False: the worker was stopped meanwhile. Rejects when a handler cannot be loaded: nothing is registered then. */
  async #canRunHandlers(): Promise<boolean> {
    try {
      await this.#checkHandlers()
      return true
    } catch (error) {
      if (this.#session.isLeaving) return false // a stop ends the checks, too
      const guard = this.#guard
      this.#guard = null
      await guard?.close()
      throw error
    }
  }

  /** Loads every handler where it will run. Isolates stay warm: the first job of a kind should not pay for its start. */
  #checkHandlers(): Promise<void> {
    return checkHandlers(this.#handlers.values(), (kind) => this.#checkIsolate(kind))
  }

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

  // ---- The session ----

  #now(): Instant {
    return monotonicNow(this.#host)
  }

  /** One input at a time, in the order in which they came. */
  #hear(input: Input): void {
    this.#inputs.push(input)
    if (this.#isStepping) return
    this.#isStepping = true
    try {
      for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift())
        for (const effect of this.#session.step(next, this.#now())) this.#carryOut(effect)
    } finally {
      this.#isStepping = false
    }
    if (!this.#session.wantsTurn || this.#hasTurn) return
    this.#hasTurn = true
    this.#host.defer(() => {
      this.#hasTurn = false
      this.#judge('turn')
    })
  }

  /** What the guard has heard from the server comes first: otherwise time would be judged by what was known before. */
  #judge(input: 'turn' | 'due'): void {
    this.#guard?.catchUp()
    this.#hear({ in: input })
  }

  #carryOut(effect: Effect): void {
    switch (effect.do) {
      case 'register':
        void this.#register()
        return
      case 'call':
        void this.#call(effect.call)
        return
      case 'hang-up':
        this.#calls.get(effect.call)?.abort(new Error('The worker gave this call up.'))
        return
      case 'watch':
        this.#guard?.order({ op: 'begin', attempt: effect.watched })
        return
      case 'unwatch':
        this.#guard?.order({ op: 'end', key: effect.key })
        // A lost attempt is unwatched while its handler runs, and once more when it is over.
        if (!this.#runner.has(effect.key)) this.#news.forgotten(effect.key)
        return
      case 'flush-guard':
        this.#guard?.flush()
        return
      case 'start':
        this.#news.started(effect.key, effect.job)
        this.#runner.start(effect.key, effect.job, effect.terms)
        this.#watchSleep()
        return
      case 'abort':
        this.#runner.abort(effect.key, effect.stop, effect.endsAt, effect.isLost)
        this.#news.aborted(effect)
        return
      case 'abandon':
        this.#runner.abandon(effect.key)
        return
      case 'tell-guard':
        this.#guard?.order({ op: 'state', state: effect.state, epoch: effect.epoch })
        this.#news.became(effect.state)
        return
      case 'registered': {
        const { intervalMs, timeoutMs, askedAt } = effect
        this.#guard?.order({ op: 'registered', intervalMs, timeoutMs, askedAt })
        return
      }
      case 'contact':
        this.#guard?.order({ op: 'contact', askedAt: effect.askedAt })
        return
      case 'beat':
        this.#guard?.order({ op: 'beat', inMs: effect.inMs })
        return
      case 'silence':
        if (this.#guard === null) this.#hear({ in: 'silenced' })
        else this.#guard.order({ op: 'silence' })
        return
      case 'deregister':
        void this.#deregister(effect.leases, effect.seq)
        return
      case 'wake':
        this.#wakeAt(effect.at)
        return
      case 'log':
        this.#log[effect.level](effect.fields, effect.message)
        return
      case 'started':
        if (effect.refusal === null) this.#started.resolve(undefined)
        return
      case 'exit':
        this.#exit(effect)
        return
      case 'ended':
        void this.#end()
    }
  }

  #wakeAt(at: Instant): void {
    this.#wake?.cancel()
    this.#wake = this.#host.setTimer(Math.max(0, at - this.#now()), () => {
      this.#wake = null
      this.#judge('due')
    })
  }

  // ---- The network ----

  async #register(): Promise<void> {
    const askedAt = this.#now()
    const limits = [...this.#handlers].map(([type, { wire }]) => [type, wire] as const)
    const handlers = Object.fromEntries(limits.filter(([, wire]) => Object.keys(wire).length > 0))
    try {
      const answer = await this.#connection.call<Registration>({
        method: 'POST',
        path: '/ojs/v1/workers/register',
        idempotent: false,
        body: { ...this.#who, ...(this.#fences ? { handlers } : {}) },
      })
      // The SDK beats often enough by itself: of interest to who looks for it.
      for (const warning of answer.x_warnings ?? []) this.#log.info({}, warning)
      this.#registered(answer, askedAt)
    } catch (error) {
      // Registration is not part of every server; beats introduce the worker there.
      if (error instanceof RequestError && [404, 405, 501].includes(error.status)) this.#registered({}, askedAt)
      else {
        if (isFinal(error)) this.#started.reject(error)
        this.#hear({ in: 'register-failed', reason: reasonOf(error), isRefused: isFinal(error) })
      }
    }
  }

  #registered(answer: Registration, askedAt: Instant): void {
    const intervalMs = answer.heartbeat_interval_ms ?? (answer.heartbeat_interval ?? DEFAULT_INTERVAL_S) * 1000
    const timeoutMs = answer.heartbeat_timeout_ms ?? (answer.heartbeat_timeout ?? DEFAULT_TIMEOUT_S) * 1000
    this.#hear({ in: 'registered', askedAt, intervalMs: millis(intervalMs), timeoutMs: millis(timeoutMs) })
  }

  async #call(call: Call): Promise<void> {
    const transport = this.#transport
    if (transport === null) return
    const controller = new AbortController()
    this.#calls.set(call.id, controller)
    try {
      const answer = await transport.carry(call, controller.signal)
      call.reports.forEach((report, index) => {
        const delivery = answer.deliveries[index]
        if (delivery !== undefined) this.#news.delivered(report, delivery)
      })
      this.#hear({ in: 'answered', call: call.id, answer })
    } catch (error) {
      const isRefused = error instanceof RequestError && [400, 413, 422].includes(error.status)
      this.#hear({ in: 'failed', call: call.id, reason: reasonOf(error), refusal: isRefused ? error.code : null })
    } finally {
      this.#calls.delete(call.id)
    }
  }

  async #deregister(leases: readonly LeaseName[], seq: number): Promise<void> {
    const { path, body } = this.#farewell(leases, seq)
    const controller = new AbortController()
    const timer = this.#host.setTimer(2 * DEREGISTER_MS, () => {
      controller.abort(new Error('The server did not answer in time.'))
    })
    const call = { method: 'POST', path, body, idempotent: true, timeoutMs: DEREGISTER_MS } as const
    try {
      await this.#connection.call({ ...call, signal: controller.signal })
    } catch (error) {
      this.#log.debug({ reason: reasonOf(error) }, 'the worker could not deregister')
    } finally {
      timer.cancel()
    }
    this.#hear({ in: 'deregistered' })
  }

  #farewell(leases: readonly LeaseName[], seq: number): LastCall {
    const begun = Object.fromEntries(leases.map(({ jobId, lease }) => [jobId, lease]))
    const knowsLeases = this.#transport?.features.orders === true
    return {
      path: '/ojs/v1/workers/deregister',
      body: { worker_id: this.id, ...(knowsLeases ? { x_leases: begun, seq } : {}) },
    }
  }

  // ---- The guard ----

  #hearGuard(news: GuardNews): void {
    switch (news.op) {
      case 'beat': {
        const { askedAt, epoch, begun, answer } = news
        const unlisted = (answer.x_unlisted ?? []).map(({ job_id: jobId, x_lease: lease, held_ms: heldMs }) => ({
          jobId,
          lease,
          heldMs,
        }))
        this.#hear({ in: 'beat', sentAt: instant(askedAt), epoch, begun, orders: ordersOf(answer), unlisted })
        return
      }
      case 'beat-failed':
        this.#hear({ in: 'beat-failed', reason: news.message })
        return
      case 'silenced':
        this.#hear({ in: 'silenced' })
        return
      case 'fence':
        this.#hear({ in: 'fence' })
        return
      case 'checked':
        this.#checked(news.id, news.error)
        return
      case 'call':
      case 'ended':
        this.#runner.hear(news)
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
    this.#guard = null
    this.#hear({ in: 'guard-gone' })
    this.#runner.loseIsolates()
    await Promise.race([this.#sleep(GUARD_REST_MS), this.#leaving.promise])
    if (this.#session.isLeaving) return
    this.#guard = this.#startGuard()
    this.#checkHandlers().catch((error: unknown) => {
      this.#log.warn({ reason: reasonOf(error) }, 'isolates could not be started in advance')
    })
    this.#hear({ in: 'guard-back' })
  }

  /** A thread that was asleep (SIGSTOP, a suspended machine) must find out before its handlers go on. */
  #watchSleep(): void {
    if (this.#endWatch !== null || !this.#isThreaded || !this.#runner.hasInline) return
    this.#endWatch = afterEverySleep(() => {
      const { fenceAt } = this.#session
      if (fenceAt !== null && this.#now() >= fenceAt) this.#judge('due')
      if (this.#session.active > 0) return
      this.#endWatch?.()
      this.#endWatch = null
    })
  }

  // ---- Ending ----

  async #end(): Promise<void> {
    this.#wake?.cancel()
    this.#endWatch?.()
    await this.#guard?.close()
    await this.client.close()
    for (const timer of this.#sleeping) timer.cancel()
    this.#started.resolve(undefined)
    this.#ended.resolve(undefined)
  }

  /**
   * Only inline handlers that ignore their signal are left, and the process ends with the worker. This thread stands still
   * from here on, so no handler runs another line while the guard hands the jobs back and deregisters.
   */
  #exit({ reports, leases, seq }: Effect & { do: 'exit' }): void {
    if (this.#guard === null) process.exit(0)
    const done = new Int32Array(new SharedArrayBuffer(4))
    const calls = [...(this.#transport?.lastCalls(reports) ?? []), this.#farewell(leases, seq)]
    this.#guard.order({ op: 'leave', calls, done })
    this.#guard.flush()
    // Where other workers run in this process, it cannot end with this one.
    if (Worker.#runs.size > 1) {
      void this.#end()
      return
    }
    Atomics.wait(done, 0, 0, LAST_WORDS_MS)
    process.exit(0)
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

/** The server answered, and will not change its mind. */
function isFinal(error: unknown): boolean {
  return error instanceof RequestError && error.status < 500 && error.status !== 429
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
