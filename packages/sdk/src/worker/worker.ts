/**
 * A worker: takes jobs into its free slots, runs their handlers, reports how they ended, and leaves in order.
 *
 * All state is in the session (`session.ts`). This class is the shell around it: it carries out what the session wants
 * done, with the network (`server-link.ts`), the guard (`guard-link.ts`), the handlers (`runner.ts`) and the system's
 * signals. What came of it goes back to the session as an input (`session-driver.ts`).
 */
import { instant, isDue, millis, uuidV7, type Host, type Millis } from '@curfew/core'
import type { AttemptMiddleware } from './attempt-middleware.ts'
import { Client } from '../client/client.ts'
import type { Connection } from '../client/connection.ts'
import type { AnyHandlerFunction, HandlerFunction } from '../attempt/define-handler.ts'
import type { Job } from '../job/define-job.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import type { WorkerState } from '../guard/protocol.ts'
import { makeHandler, type HandlerOptions, type Registered } from './handlers.ts'
import { afterEverySleep } from '../host.ts'
import { JobLogs } from '../attempt/job-log.ts'
import { stderrLog, type Log } from '../log.ts'
import { serverCalls } from './server-calls.ts'
import { onSignals } from './signals.ts'
import type { StepProbe } from '../attempt/steps.ts'
import { deferred } from '../waiting.ts'
import type { HandlerTerms } from './arrivals.ts'
import { batchOf, Batches, type BatchFunction, type BatchOptions } from './batches.ts'
import { WorkerNews, type WorkerEvents, type WorkerListener } from './events.ts'
import { GuardLink } from './guard-link.ts'
import type { Effect } from './inputs.ts'
import { reachServer } from './reach-server.ts'
import { Runner } from './runner.ts'
import { ServerLink } from './server-link.ts'
import { Session } from './session.ts'
import { SessionDriver, type MakeSession, type SessionLike } from './session-driver.ts'
import { checkSettings, workerFacts, type CheckedSettings, type WorkerOptions } from './worker-settings.ts'

export type { MakeSession, SessionLike } from './session-driver.ts'
export type { WorkerOptions, WorkerSettings } from './worker-settings.ts'

/** How long the process stands still for its last words. */
const LAST_WORDS_MS = 4_000

export class Worker {
  /** Workers whose `run()` owns this process: it ends with the last of them. */
  static readonly #runs = new Set<Worker>()
  readonly id: string
  readonly client: Client
  readonly #options: WorkerOptions
  readonly #settings: CheckedSettings
  readonly #connection: Connection
  readonly #host: Host
  readonly #log: Log
  readonly #handlers = new Map<string, Registered>()
  readonly #facts = new Map<string, HandlerTerms>()
  readonly #middleware: AttemptMiddleware[] = []
  readonly #session: SessionLike
  readonly #driver: SessionDriver
  readonly #runner: Runner
  readonly #news: WorkerNews
  readonly #logs: JobLogs
  readonly #server: ServerLink
  readonly #guard: GuardLink
  #endWatch: (() => void) | null = null
  #starting: Promise<void> | null = null
  readonly #started = deferred<undefined>()
  /** Aborted when the worker begins to leave. */
  readonly #leaving = new AbortController()
  readonly #ended = deferred<undefined>()

  /** `probe`: the test kit looks at every step. */
  constructor(options: WorkerOptions, makeSession: MakeSession = (...args) => new Session(...args), probe?: StepProbe) {
    this.#options = options
    this.client = new Client(options)
    const connection = (this.#connection = this.client.connection)
    const host = (this.#host = connection.host)
    const log = (this.#log = options.log ?? stderrLog)
    const settings = (this.#settings = checkSettings(options))
    const startedAt = instant(host.wallMs())
    this.id = options.id ?? uuidV7(startedAt, connection.random)
    const facts = workerFacts(this.id, settings, options.labels, startedAt)
    const { concurrency, prefetch, drainMs } = settings
    const { random } = connection
    const session = { concurrency, prefetch, drainMs, handlers: this.#facts, random }
    this.#session = makeSession(session, instant(host.monotonicMs()))
    this.#driver = new SessionDriver(this.#session, {
      host,
      carryOut: (effect) => {
        this.#carryOut(effect)
      },
      catchUp: () => {
        this.#guard.catchUp()
      },
    })
    const hear = this.#driver.hear.bind(this.#driver)
    const fences = (): boolean => this.#server.fences
    const handlers = this.#handlers
    this.#news = new WorkerNews(host, log)
    const logs = (this.#logs = new JobLogs({
      logged: (key, lines) => {
        this.#guard.order({ op: 'log', key, lines })
        // A handler may block this thread next: the line must be with the guard by then.
        this.#guard.flush()
      },
      stored: (key, before) => {
        this.#guard.order({ op: 'log-stored', key, before })
      },
    }))
    this.#server = new ServerLink({
      ...{ connection, host, log, facts, handlers, hear },
      onDelivered: (report, delivery) => {
        this.#news.delivered(report, delivery)
      },
      onRefused: (error) => {
        this.#started.reject(error)
      },
    })
    const runner = (this.#runner = new Runner({
      host,
      random,
      ...(probe === undefined ? {} : { probe }),
      handlers,
      middleware: this.#middleware,
      order: (order) => {
        this.#guard.order(order)
      },
      hear: (input) => {
        if (input.in === 'settled') this.#news.settled(input.key)
        hear(input)
      },
      calls: serverCalls(connection, this.client, this.id, fences, logs),
    }))
    const leaving = this.#leaving.signal
    const ports = { options, connection, host, log, logs, facts, handlers, runner, hear, fences, leaving }
    this.#guard = new GuardLink(ports)
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
    runOrModule: HandlerFunction<Got, NoInfer<Returned>> | HandlerOptions,
  ): this
  handle<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    options: HandlerOptions,
    run: HandlerFunction<Got, NoInfer<Returned>>,
  ): this
  // The overloads differ in their number of arguments, so that the compiler reports a mistake against one of them only.
  handle<Sent, Got, Returned, Result>(
    job: Job<Sent, Got, Returned, Result> | string,
    second: HandlerFunction<Got, NoInfer<Returned>> | HandlerOptions,
    third?: HandlerFunction<Got, NoInfer<Returned>>,
  ): this {
    const [options, run] = typeof second === 'function' ? [{}, second] : [second, third ?? null]
    const { defaults = {}, isolation } = this.#options
    const made = makeHandler(job, options, run as AnyHandlerFunction | null, defaults)
    const handler: Registered = isolation === undefined ? made : { ...made, isolation, memoryMb: null }
    const { type } = handler.job
    if (this.#starting !== null)
      throw new InputError(`The worker has started: add the handler of ${type} before start().`)
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
    run: BatchFunction<Got, NoInfer<Returned>>,
  ): this {
    const { size, waitMs, handler } = batchOf(options, this.#settings.concurrency)
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
        if (this.#session.isLeaving) this.#driver.hear({ in: 'hurry' })
        this.#stop(this.#settings.drainMs)
      },
      SIGINT: () => {
        this.#stop(millis(0))
        this.#driver.hear({ in: 'hurry' })
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
    this.#driver.hear({ in: 'quiet' })
  }

  /** Takes jobs again. There is no way back from a stop. */
  resume(): void {
    this.#driver.hear({ in: 'resume' })
  }

  /** Waits for running jobs, hands back the rest, deregisters. */
  stop(options: { readonly drain?: Duration } = {}): Promise<void> {
    this.#stop(options.drain === undefined ? this.#settings.drainMs : toMillis(options.drain, 'drain'))
    return this.#ended.promise
  }

  /** The process is this worker and nothing else, and can be ended from the guard's thread. */
  get #ownsProcess(): boolean {
    return Worker.#runs.has(this) && this.#guard.isThreaded
  }

  #stop(drainMs: Millis): void {
    this.#driver.hear({ in: 'stop', drainMs })
  }

  // ---- Beginning ----

  async #start(): Promise<void> {
    if (this.#handlers.size === 0) throw new InputError('A worker without a handler would fail every job it takes.')
    const reached = await reachServer({
      connection: this.#connection,
      host: this.#host,
      log: this.#log,
      logs: this.#logs,
      workerId: this.id,
      queues: this.#settings.queues,
      exchange: this.#options.exchange !== false,
      leaving: this.#leaving.signal,
    })
    if (reached === null || this.#session.isLeaving) return
    this.#server.opened(reached)
    if (!(await this.#guard.open()) || this.#session.isLeaving) return
    if (this.#ownsProcess) this.#driver.hear({ in: 'owns-process' })
    this.#driver.hear({ in: 'begin', server: reached.transport.features })
    await this.#started.promise
  }

  // ---- What the session wants done ----

  #carryOut(effect: Exclude<Effect, { do: 'wake' }>): void {
    switch (effect.do) {
      case 'register':
        void this.#server.register()
        return
      case 'call':
        void this.#server.call(effect.call)
        return
      case 'hang-up':
        this.#server.hangUp(effect.call)
        return
      case 'watch':
        this.#guard.order({ op: 'begin', attempt: effect.watched })
        return
      case 'unwatch':
        this.#guard.order({ op: 'end', key: effect.key })
        // A lost attempt is unwatched while its handler runs, and once more when it is over.
        if (this.#runner.has(effect.key)) return
        this.#news.forgotten(effect.key)
        this.#logs.forget(effect.key)
        return
      case 'flush-guard':
        this.#guard.flush()
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
        if (effect.state === 'terminate') this.#leaving.abort()
        this.#guard.order({ op: 'state', state: effect.state, epoch: effect.epoch })
        this.#news.became(effect.state)
        return
      case 'registered': {
        const { intervalMs, timeoutMs, askedAt } = effect
        this.#guard.order({ op: 'registered', intervalMs, timeoutMs, askedAt })
        return
      }
      case 'contact':
        this.#guard.order({ op: 'contact', askedAt: effect.askedAt })
        return
      case 'beat':
        this.#guard.order({ op: 'beat', inMs: effect.inMs })
        return
      case 'silence':
        if (this.#guard.isThere) this.#guard.order({ op: 'silence' })
        else this.#driver.hear({ in: 'silenced' })
        return
      case 'deregister':
        void this.#server.deregister(effect.leases, effect.seq)
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

  /** A thread that was asleep (SIGSTOP, a suspended machine) must find out before its handlers go on. */
  #watchSleep(): void {
    if (this.#endWatch !== null || !this.#guard.isThreaded || !this.#runner.hasInline) return
    this.#endWatch = afterEverySleep(() => {
      const { fenceAt } = this.#session
      if (isDue(fenceAt, this.#driver.now())) this.#driver.judge('due')
      if (this.#session.active > 0) return
      this.#endWatch?.()
      this.#endWatch = null
    })
  }

  // ---- Ending ----

  async #end(): Promise<void> {
    this.#leaving.abort()
    this.#driver.close()
    this.#endWatch?.()
    await this.#guard.close()
    await this.client.close()
    this.#started.resolve(undefined)
    this.#ended.resolve(undefined)
  }

  /**
   * Only inline handlers that ignore their signal are left, and the process ends with the worker. This thread stands still
   * from here on, so no handler runs another line while the guard hands the jobs back and deregisters.
   */
  #exit({ reports, leases, seq }: Effect & { do: 'exit' }): void {
    if (!this.#guard.isThere) process.exit(0)
    const done = new Int32Array(new SharedArrayBuffer(4))
    this.#guard.order({ op: 'leave', calls: this.#server.lastCalls(reports, leases, seq), done })
    this.#guard.flush()
    // Where other workers run in this process, it cannot end with this one.
    if (Worker.#runs.size > 1) {
      void this.#end()
      return
    }
    Atomics.wait(done, 0, 0, LAST_WORDS_MS)
    process.exit(0)
  }
}
