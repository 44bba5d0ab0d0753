/**
 * What an application holds: enqueue jobs, look at them, wait for them, listen to what happens.
 *
 * Every method rejects with an error of `errors.ts`. Calls that may be repeated are, see `connection.ts`; enqueues are
 * among them because each job has an id of its own before it is sent.
 */
import { setMaxListeners } from 'node:events'
import { MAX_IN_BATCH, type Explanation, type Plan } from '@curfew/core'
import { atIndex, postBatch, prepareAlike, sendTogether } from './batch.ts'
import type { EnqueueEntry } from '../job/entry.ts'
import { Annotations, auditLog, Tokens } from './access.ts'
import { Apis } from './apis.ts'
import { Bulk } from './bulk.ts'
import { Connection, type ConnectOptions } from './connection.ts'
import { Crons } from './crons.ts'
import { decodeOutput, type AnyJob, type Job } from '../job/define-job.ts'
import type { Duration } from '../durations.ts'
import { EnqueueLane } from './enqueue-lane.ts'
import {
  LastOptions,
  momentsOf,
  prepareOptions,
  toWire,
  type EnqueueOptions,
  type EnqueueRequest,
  type PreparedOptions,
  type WireJob,
} from '../job/enqueue-options.ts'
import { CurfewError, InputError, UnsupportedError } from '../errors.ts'
import { listen, type CurfewEvent, type EventFilter } from './events.ts'
import { matchInQuery, type JobMatch } from './job-filter.ts'
import { handleOf, type JobHandle } from './job-handle.ts'
import { Journeys } from './journeys.ts'
import { Limiters } from './limiters.ts'
import { changesOnWire, widelyKnown, type LimitChanges } from '../job/limits.ts'
import { throughLayers, type EnqueueMiddleware } from './middleware.ts'
import {
  DeadLetters,
  everyJob,
  get,
  JobTypes,
  part,
  Queues,
  retryJob,
  Workers,
  type Caller,
  type RetryChanges,
  type Signalled,
} from './operators.ts'
import { Pools } from './pools.ts'
import { isFine } from './refusal.ts'
import { waitForEnd, type WaitOptions } from './result.ts'
import { Schedules } from './schedules.ts'
import { Schemas } from './schemas.ts'
import { unlessAborted } from '../waiting.ts'
import { Webhooks } from './webhooks.ts'
import { Workflows } from './workflows.ts'
import type { AuditEntryView } from '../wire/access.ts'
import type { AtRiskView, CheckpointView, JobView, ProgressView, RetriesView } from '../wire/jobs.ts'
import type { HealthView, Manifest, StatsView, TenantStats } from '../wire/server.ts'

export type ClientOptions = ConnectOptions & {
  /** Around each enqueue, the first one outermost. */
  readonly middleware?: readonly EnqueueMiddleware[]
}

/** Which jobs are listed: all that is given must hold. Times are exclusive. */
export interface JobFilter extends JobMatch, Signalled {}

/** What may be changed while a job waits; `null` takes it away. */
export interface JobChanges extends LimitChanges {
  readonly priority?: number | null
  readonly delay?: Duration
  readonly scheduledAt?: Date | string | null
  readonly expiresAt?: Date | string | null
}

/** A job by its id, or as an enqueue gave it. */
export type JobRef = string | { readonly id: string }

export class Client {
  readonly connection: Connection
  readonly queues: Queues
  readonly deadLetter: DeadLetters
  readonly workers: Workers
  readonly jobTypes: JobTypes
  readonly crons: Crons
  readonly workflows: Workflows
  readonly journeys: Journeys
  readonly apis: Apis
  /** One action on many jobs. */
  readonly bulk: Bulk
  readonly limiters: Limiters
  readonly pools: Pools
  readonly schemas: Schemas
  readonly webhooks: Webhooks
  readonly tokens: Tokens
  /** Notes of operators, such as deploys. */
  readonly annotations: Annotations
  /** Schedules that journeys have made. */
  readonly schedules: Schedules
  readonly #caller: Caller
  readonly #lane: EnqueueLane
  readonly #lastOptions = new LastOptions()
  readonly #layers: EnqueueMiddleware[]
  readonly #closing = new AbortController()
  readonly #open = new Set<Promise<unknown>>()

  constructor({ middleware, ...options }: ClientOptions) {
    this.connection = new Connection(options)
    const caller: Caller = (this.#caller = { call: (call) => this.#opened(() => this.connection.call(call)) })
    this.queues = new Queues(caller)
    this.deadLetter = new DeadLetters(caller)
    this.workers = new Workers(caller)
    this.jobTypes = new JobTypes(caller)
    this.limiters = new Limiters(caller)
    this.pools = new Pools(caller)
    this.schemas = new Schemas(caller)
    this.webhooks = new Webhooks(caller)
    this.tokens = new Tokens(caller)
    this.annotations = new Annotations(caller)
    this.schedules = new Schedules(caller)
    this.crons = new Crons(caller, ({ options, ...request }) =>
      this.#prepared({ ...request, options: { ...options, id: this.connection.newId() } }),
    )
    this.workflows = new Workflows({
      connection: this.connection,
      opened: (run) => this.#opened(run),
      prepare: (request) => this.#prepared(request),
      closing: this.#closing.signal,
    })
    const opened = <T>(run: () => Promise<T>): Promise<T> => this.#opened(run)
    this.journeys = new Journeys({ connection: this.connection, opened, closing: this.#closing.signal })
    this.apis = new Apis(this.connection, opened)
    this.bulk = new Bulk(this.connection, opened)
    this.#lane = new EnqueueLane(this.connection)
    this.#layers = [...(middleware ?? [])]
    // As many listeners as there are waits and streams: no leak.
    setMaxListeners(0, this.#closing.signal)
  }

  /** Adds a layer around each enqueue, inside those that are there. */
  use(middleware: EnqueueMiddleware): this {
    this.#layers.push(middleware)
    return this
  }

  // ---- Enqueue ----

  /**
   * Enqueues a job. Calls of the same turn travel in one request; each has its own outcome. The promise resolves with the job as
   * the server stored it; the job has methods to wait for its result and to change it.
   */
  enqueue<Sent, Result>(
    job: Job<Sent, unknown, unknown, Result>,
    input: NoInfer<Sent>,
    options: EnqueueOptions = {},
  ): Promise<JobHandle<Result>> {
    return this.#opened(async () => {
      const id = options.id ?? this.connection.newId()
      const view = await throughLayers(this.#layers, { job, input, options: { ...options, id } }, async (request) => {
        const wire = await this.#prepared(request)
        const isOwnId = options.id === undefined && wire.id === id
        return this.#lane.add(wire, isOwnId, request.options.signal)
      })
      return handleOf<Result>(view, this, job)
    })
  }

  /** Enqueues many jobs, all or none: of one kind with the same options, or whatever `entry` makes. */
  enqueueMany<Sent>(
    job: Job<Sent, unknown, unknown, unknown>,
    inputs: readonly NoInfer<Sent>[],
    options?: Omit<EnqueueOptions, 'id'>,
  ): Promise<JobView[]>
  enqueueMany(entries: readonly EnqueueEntry[], options?: Signalled): Promise<JobView[]>
  enqueueMany(
    first: Job<unknown, unknown, unknown, unknown> | readonly EnqueueEntry[],
    second: readonly unknown[] | Signalled = {},
    third: Omit<EnqueueOptions, 'id'> = {},
  ): Promise<JobView[]> {
    return this.#opened(async () => {
      const { signal } = isEntries(first) ? (second as Signalled) : third
      const count = isEntries(first) ? first.length : (second as readonly unknown[]).length
      if (count > MAX_IN_BATCH)
        throw new InputError(
          `${String(MAX_IN_BATCH)} jobs at most fit into one batch, which is enqueued whole or not at all.`,
          {},
        )
      if (count === 0) return []
      if (!isEntries(first) && this.#layers.length === 0 && !('id' in third))
        return this.#enqueueAlike(first, second as readonly unknown[], third)
      const entries: readonly EnqueueEntry[] = isEntries(first)
        ? first
        : (second as readonly unknown[]).map((input) => ({ job: first, input, options: withoutSignal(third) }))
      const requests = entries.map(({ job, input, options }): EnqueueRequest => {
        const id = options?.id ?? this.connection.newId()
        return { job, input, options: { ...options, id } }
      })
      const areOwnIds = entries.every(({ options }) => options?.id === undefined)
      return sendTogether(
        requests,
        (request, innermost) => throughLayers(this.#layers, request, innermost),
        (request) => this.#prepared(request),
        (jobs) => postBatch(this.connection, jobs, areOwnIds, signal),
      )
    })
  }

  /** Without layers nothing can change one of them. */
  async #enqueueAlike(
    job: Job<unknown, unknown, unknown, unknown>,
    inputs: readonly unknown[],
    { signal, ...options }: Omit<EnqueueOptions, 'id'>,
  ): Promise<JobView[]> {
    const jobs = await prepareAlike(prepareFirst(job, options), inputs, () => this.connection.newId())
    const [first] = jobs
    if (first !== undefined) await this.#supported(first, signal)
    return [...(await postBatch(this.connection, jobs, true, signal))]
  }

  /** What an enqueue would mean: every limit, which one wins, which attempts fit. Nothing is stored. */
  plan<Sent>(
    job: Job<Sent, unknown, unknown, unknown>,
    input: NoInfer<Sent>,
    options: EnqueueOptions = {},
  ): Promise<Plan> {
    return this.#opened(async () => {
      const { json } = await toWire({ job, input, options: { ...options, id: this.connection.newId() } })
      const { signal } = options
      return this.connection.call<Plan>({ method: 'POST', path: '/ojs/v1/jobs/plan', json, idempotent: true, signal })
    })
  }

  // ---- One job ----

  get(job: JobRef, options: Signalled = {}): Promise<JobView> {
    return this.#opened(() => this.#jobAt(pathOf(job), options))
  }

  /**
   * The result, as soon as there is one; with `job`, checked and typed by its schema. Throws a JobFailedError when the
   * job ended without one, and a DeadlineError (kind `budget`) when the timeout is up first.
   */
  waitForResult<Result>(
    ref: JobRef,
    options: WaitOptions & { readonly job: Job<unknown, unknown, unknown, Result> },
  ): Promise<Result>
  waitForResult(ref: JobRef, options?: WaitOptions): Promise<unknown>
  waitForResult(
    ref: JobRef,
    options: WaitOptions & { readonly job?: Job<unknown, unknown, unknown, unknown> } = {},
  ): Promise<unknown> {
    return this.#opened(async () => {
      const { job, ...waiting } = options
      const result = await waitForEnd(this.connection, idOf(ref), waiting, this.#closing.signal)
      return job === undefined ? result : decodeOutput(job, result)
    })
  }

  /** Cancels a job, a running one too. One that is over already is refused with `conflict`. */
  cancel(job: JobRef, { signal }: Signalled = {}): Promise<JobView> {
    return this.#opened(async () => {
      const path = pathOf(job)
      const answer = await this.connection.send({ method: 'DELETE', path, idempotent: true, signal })
      if (isFine(answer.status)) return this.connection.read<{ job: JobView }>(answer).job
      const error = this.connection.refusal(answer)
      if (answer.tries === 1 || error.code !== 'conflict') throw error
      // The first try may have been heard.
      const found = await this.#jobAt(path, signal === undefined ? {} : { signal })
      if (found.state !== 'cancelled') throw error
      return found
    })
  }

  /** A second life for a job that was discarded or cancelled: attempts and clocks begin anew, limits are settled anew. */
  retry(job: JobRef, options: Signalled & { readonly changes?: RetryChanges } = {}): Promise<JobView> {
    return retryJob(this.#caller, `/ojs/v1/admin/jobs/${part(idOf(job))}/retry`, options)
  }

  /** The attempts that failed, oldest first, and the retry policy. */
  retries(job: JobRef, options: Signalled = {}): Promise<RetriesView> {
    return get<RetriesView>(this.#caller, `${pathOf(job)}/retries`, options)
  }

  /** What the handler reported last. */
  progress(job: JobRef, options: Signalled = {}): Promise<ProgressView> {
    return get<ProgressView>(this.#caller, `${pathOf(job)}/progress`, options)
  }

  /** What the latest attempt saved, steps included. Rejects with `not_found` where nothing is saved. */
  checkpoint(job: JobRef, options: Signalled = {}): Promise<CheckpointView> {
    return get<CheckpointView>(this.#caller, `${pathOf(job)}/checkpoint`, options)
  }

  /** The next attempt begins from the start: its steps run again, too. */
  async deleteCheckpoint(job: JobRef, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: `${pathOf(job)}/checkpoint`, idempotent: true, signal })
  }

  /** Why the job went as it did. */
  explain(job: JobRef, options: Signalled = {}): Promise<Explanation> {
    return this.#opened(() => get<Explanation>(this.connection, `${pathOf(job)}/explain`, options))
  }

  /** Changes limits, priority or moments of a job that waits; `null` takes away. */
  patch(job: JobRef, changes: JobChanges, { signal }: Signalled = {}): Promise<JobView> {
    return this.#opened(async () => {
      const { priority, delay, scheduledAt, expiresAt, ...limits } = changes
      const body = {
        ...widelyKnown(changesOnWire(limits)).wire,
        priority,
        ...momentsOf({ delay, scheduledAt, expiresAt }),
      }
      const call = { method: 'PATCH', path: pathOf(job), body, idempotent: true, signal } as const
      return (await this.connection.call<{ job: JobView }>(call)).job
    })
  }

  /** Lets a pending job go. */
  activate(job: JobRef, { signal }: Signalled = {}): Promise<JobView> {
    return this.#opened(async () => {
      const call = { method: 'POST', path: `${pathOf(job)}/activate`, idempotent: false, signal } as const
      return (await this.connection.call<{ job: JobView }>(call)).job
    })
  }

  // ---- Many jobs, and the server ----

  /** Jobs, newest first, fetched by and by. */
  list(filter: JobFilter = {}): AsyncGenerator<JobView, void, undefined> {
    return everyJob(this.#caller, '/ojs/v1/jobs', filter, matchInQuery(filter))
  }

  /** Jobs that will miss a deadline if everything goes on as it does, the nearest first. */
  atRisk({ queue, limit, ...options }: Signalled & { queue?: string; limit?: number } = {}): Promise<AtRiskView> {
    return get<AtRiskView>(this.#caller, '/ojs/v1/admin/at-risk', options, { queue, limit })
  }

  /** Totals of queues, jobs and workers. */
  stats(options: Signalled = {}): Promise<StatsView> {
    return get<StatsView>(this.#caller, '/ojs/v1/admin/stats', options)
  }

  /** How many jobs a tenant has, by state. */
  tenantStats(tenant: string, options: Signalled = {}): Promise<TenantStats> {
    return get<TenantStats>(this.#caller, `/ojs/v1/admin/tenants/${part(tenant)}/stats`, options)
  }

  /** What operators and administrators changed, newest first, fetched by and by; kept for 90 days. */
  audit(options: Signalled = {}): AsyncGenerator<AuditEntryView, void, undefined> {
    return auditLog(this.#caller, options)
  }

  /** What happens, as it happens. Ends with the signal, by `return()` (leaving the loop), or with the client. */
  events(filter: EventFilter = {}): AsyncIterableIterator<CurfewEvent> {
    return listen(this.connection, filter, this.#closing.signal)
  }

  /** How the server is; a server in trouble answers too. */
  health({ signal }: Signalled = {}): Promise<HealthView> {
    return this.#opened(async () => {
      const answer = await this.connection.send({ method: 'GET', path: '/ojs/v1/health', idempotent: false, signal })
      if (!isFine(answer.status) && answer.status !== 503) throw this.connection.refusal(answer)
      const health = this.connection.read<HealthView>(answer)
      if (typeof health.status !== 'string') throw this.connection.refusal(answer)
      return health
    })
  }

  manifest(): Promise<Manifest> {
    return this.#opened(() => this.connection.manifest())
  }

  /** Calls under way are finished; streams and waits for results end; new calls are refused. */
  async close(): Promise<void> {
    this.#closing.abort(closed())
    while (this.#open.size > 0) await Promise.allSettled([...this.#open])
    this.connection.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #prepared(request: EnqueueRequest): Promise<WireJob> {
    const wire = await toWire(request, this.#lastOptions)
    await this.#supported(wire, request.options.signal)
    return wire
  }

  async #supported(wire: WireJob, signal: AbortSignal | undefined): Promise<void> {
    if (wire.ours.length === 0) return
    if (await unlessAborted(this.connection.supports('limits'), signal)) return
    throw new UnsupportedError(`The server would ignore what this job asks for: ${wire.ours.join(', ')}.`, {
      options: wire.ours,
    })
  }

  async #jobAt(path: string, options: Signalled): Promise<JobView> {
    return (await get<{ job: JobView }>(this.connection, path, options)).job
  }

  /** Remembered until it is over, so that `close` can wait for it. */
  async #opened<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closing.signal.aborted) throw closed()
    const call = run()
    this.#open.add(call)
    try {
      return await call
    } finally {
      this.#open.delete(call)
    }
  }
}

function closed(): CurfewError {
  return new CurfewError('closed', 'The client is closed.')
}

function isEntries(
  given: Job<unknown, unknown, unknown, unknown> | readonly EnqueueEntry[],
): given is readonly EnqueueEntry[] {
  return Array.isArray(given)
}

/** What is wrong with the options is wrong with the first job, as where each is prepared by itself. */
function prepareFirst(job: AnyJob, options: Omit<EnqueueOptions, 'id'>): PreparedOptions {
  try {
    return prepareOptions(job, options)
  } catch (error) {
    throw atIndex(error, 0)
  }
}

function withoutSignal<T extends Signalled>({ signal: _, ...rest }: T): Omit<T, 'signal'> {
  return rest
}

function idOf(ref: JobRef): string {
  return typeof ref === 'string' ? ref : ref.id
}

function pathOf(ref: JobRef): string {
  return `/ojs/v1/jobs/${part(idOf(ref))}`
}
