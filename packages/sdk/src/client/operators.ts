/** What operators do: queues, dead letters, workers and the policies of types. */
import type { Call } from './connection.ts'
import type { AnyJob } from '../job/define-job.ts'
import { InputError } from '../errors.ts'
import { matchInQuery, matchOnWire, type JobMatch } from './job-filter.ts'
import { changesOnWire, limitsOnWire, type LimitChanges, type Limits } from '../job/limits.ts'
import { configOnWire, type QueueConfig } from './queue-config.ts'
import { queueLimitOnWire, type QueueLimit } from '../job/rate-limit.ts'
import type { BulkOutcome, BulkPlan } from '../wire/bulk.ts'
import type { DeadLetterStats, JobView, Pagination } from '../wire/jobs.ts'
import type { LimiterView, QueueConfigView, QueueStats, QueueView, TypePolicyView } from '../wire/queues.ts'
import type { DirectiveView, WorkerHealthView, WorkerView } from '../wire/workers.ts'

export interface Signalled {
  readonly signal?: AbortSignal
}

/** As many as a server gives at once. */
const PAGE = 200

/** Sends a call to the server. */
export interface Caller {
  call<T>(call: Call): Promise<T>
}

export function get<T>(
  caller: Caller,
  path: string,
  { signal }: Signalled,
  query: NonNullable<Call['query']> = {},
): Promise<T> {
  return caller.call<T>({ method: 'GET', path, query, idempotent: true, signal })
}

export class Queues {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  list(options: Signalled = {}): Promise<QueueView[]> {
    return everyPage<QueueView>(this.#caller, '/ojs/v1/queues', 'queues', options)
  }

  async get(name: string, options: Signalled = {}): Promise<QueueView> {
    return (await get<{ queue: QueueView }>(this.#caller, `/ojs/v1/queues/${part(name)}`, options)).queue
  }

  stats(name: string, options: Signalled = {}): Promise<QueueStats> {
    return get<QueueStats>(this.#caller, `/ojs/v1/queues/${part(name)}/stats`, options)
  }

  /** Nothing more of it is handed out; what runs goes on. */
  pause(name: string, options: Signalled = {}): Promise<QueueView> {
    return this.#tell(name, 'pause', options)
  }

  /** It takes no more jobs; those it has are handed out. */
  drain(name: string, options: Signalled = {}): Promise<QueueView> {
    return this.#tell(name, 'drain', options)
  }

  /** Ends a pause, and a drain. */
  resume(name: string, options: Signalled = {}): Promise<QueueView> {
    return this.#tell(name, 'resume', options)
  }

  async config(name: string, options: Signalled = {}): Promise<QueueConfigView> {
    const path = `/ojs/v1/admin/queues/${part(name)}`
    return (await get<{ config: QueueConfigView }>(this.#caller, path, options)).config
  }

  /** Changes the configuration, key by key, and gives the whole of it. Stored jobs keep what they were given. */
  async configure(name: string, config: QueueConfig, { signal }: Signalled = {}): Promise<QueueConfigView> {
    const path = `/ojs/v1/admin/queues/${part(name)}/config`
    const call = { method: 'PUT', path, body: configOnWire(config), idempotent: true, signal } as const
    return (await this.#caller.call<{ config: QueueConfigView }>(call)).config
  }

  /** The limiter of the queue as it stands now. */
  limiter(name: string, options: Signalled = {}): Promise<LimiterView> {
    return get<LimiterView>(this.#caller, `/ojs/v1/admin/queues/${part(name)}/rate-limit`, options)
  }

  /** Replaces the limiter of the queue; `null` lifts it. */
  async limit(name: string, limit: QueueLimit | null, { signal }: Signalled = {}): Promise<void> {
    const path = `/ojs/v1/admin/queues/${part(name)}/rate-limit`
    const body = limit === null ? {} : queueLimitOnWire(limit)
    await this.#caller.call({ method: 'PUT', path, body, idempotent: true, signal })
  }

  async #tell(name: string, word: 'pause' | 'drain' | 'resume', { signal }: Signalled): Promise<QueueView> {
    const path = `/ojs/v1/queues/${part(name)}/${word}`
    return (await this.#caller.call<{ queue: QueueView }>({ method: 'POST', path, idempotent: true, signal })).queue
  }
}

/** Dead letters are discarded jobs: everything but the state tells them apart. */
export type DeadLetterFilter = Omit<JobMatch, 'state'>

/** Limits and priority of a job that is retried by hand; `null` takes away. */
export interface RetryChanges extends LimitChanges {
  readonly priority?: number | null
}

/** Which dead letters are meant by an action on many. */
export interface DeadLettersMeant extends DeadLetterFilter {
  readonly ids?: readonly string[]
  /** Dead since, and before. */
  readonly since?: Date
  readonly until?: Date
  /** At most so many. */
  readonly limit?: number
  /** Said where nothing else is: all dead letters are meant. */
  readonly all?: true
}

export class DeadLetters {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  /**
   * Each once, newest first. The server counts pages from the newest, so what is retried or deleted meanwhile moves the
   * rest up: as long as something moved, the list is gone through again for what was missed.
   */
  async *list(filter: DeadLetterFilter & Signalled = {}): AsyncGenerator<JobView, void, undefined> {
    const { signal: _, queue, type, ...others } = filter
    if (Object.keys(others).length > 0) {
      yield* everyJob(this.#caller, '/ojs/v1/dead-letter', filter, matchInQuery(filter))
      return
    }
    const seen = new Set<string>()
    for (let hasMoved = true; hasMoved;) {
      hasMoved = false
      let total: number | undefined
      for (let offset = 0, hasMore = true; hasMore; offset += PAGE) {
        const query = { queue, type, limit: PAGE, offset }
        const page = await get<{ jobs: JobView[]; pagination?: Pagination }>(
          this.#caller,
          '/ojs/v1/dead-letter',
          filter,
          query,
        )
        hasMoved ||= total !== undefined && total !== page.pagination?.total
        total = page.pagination?.total
        hasMore = page.pagination?.has_more === true && page.jobs.length > 0
        for (const job of page.jobs) {
          if (seen.has(job.id)) continue
          seen.add(job.id)
          yield job
        }
      }
    }
  }

  async get(id: string, options: Signalled = {}): Promise<JobView> {
    return (await get<{ job: JobView }>(this.#caller, `/ojs/v1/dead-letter/${part(id)}`, options)).job
  }

  /** Retries the job: attempts and clocks start again. */
  async retry(id: string, options: Signalled & { readonly changes?: RetryChanges } = {}): Promise<JobView> {
    return retryJob(this.#caller, `/ojs/v1/dead-letter/${part(id)}/retry`, options)
  }

  /** Those named by ids, or all that have in common what is said; a chunk at a time, on the server. */
  retryMany(meant: DeadLettersMeant & Signalled = {}): Promise<BulkOutcome> {
    const { signal } = meant
    const body = bodyOf(meant)
    return this.#caller.call({ method: 'POST', path: '/ojs/v1/dead-letter/retry', body, idempotent: false, signal })
  }

  /** Removes many, for good: those named by ids, or all that have in common what is said. */
  async deleteMany(meant: DeadLettersMeant & Signalled): Promise<BulkOutcome> {
    const { signal } = meant
    // The server always wants to be told so. Here something must be said of which ones are meant.
    const isSaid = Object.keys(meant).some((key) => key !== 'signal' && key !== 'limit')
    if (!isSaid) throw new InputError('Name the dead letters with ids, filter or all, one of them.', { field: 'ids' })
    const body = { ...bodyOf(meant), confirm: true }
    return this.#caller.call({ method: 'DELETE', path: '/ojs/v1/dead-letter', body, idempotent: false, signal })
  }

  /** What `retryMany` or `deleteMany` would do. Nothing is changed. */
  plan(action: 'retry' | 'delete', meant: DeadLettersMeant & Signalled): Promise<BulkPlan> {
    const { signal } = meant
    const body = { ...bodyOf(meant), dry_run: true }
    const [method, path] =
      action === 'retry'
        ? (['POST', '/ojs/v1/dead-letter/retry'] as const)
        : (['DELETE', '/ojs/v1/dead-letter'] as const)
    return this.#caller.call({ method, path, body, idempotent: true, signal })
  }

  /** The job itself goes, for good. */
  async delete(id: string, { signal }: Signalled = {}): Promise<void> {
    const path = `/ojs/v1/dead-letter/${part(id)}`
    await this.#caller.call({ method: 'DELETE', path, idempotent: false, signal })
  }

  stats(options: Signalled = {}): Promise<DeadLetterStats> {
    return get<DeadLetterStats>(this.#caller, '/ojs/v1/dead-letter/stats', options)
  }
}

function bodyOf(meant: DeadLettersMeant & Signalled): Record<string, unknown> {
  const { ids, since, until, limit, all } = meant
  const filter = { ...matchOnWire(meant), since: since?.toISOString(), until: until?.toISOString() }
  return { job_ids: ids, filter, limit, confirm: all }
}

/** A second life for a job that is over: attempts and clocks begin anew. */
export async function retryJob(
  caller: Caller,
  path: string,
  { signal, changes = {} }: Signalled & { readonly changes?: RetryChanges },
): Promise<JobView> {
  const { priority, ...limits } = changes
  const body = { override: { ...changesOnWire(limits), priority } }
  return (await caller.call<{ job: JobView }>({ method: 'POST', path, body, idempotent: false, signal })).job
}

/** Jobs, page by page: each page names where the next one begins. */
export async function* everyJob(
  caller: Caller,
  path: string,
  options: Signalled,
  filter: NonNullable<Call['query']>,
): AsyncGenerator<JobView, void, undefined> {
  for (let cursor: string | undefined; ;) {
    const query = { ...filter, cursor, limit: PAGE }
    const page = await get<{ jobs: JobView[]; pagination?: Pagination }>(caller, path, options, query)
    yield* page.jobs
    cursor = page.pagination?.next_cursor
    if (cursor === undefined) return
  }
}

export class Workers {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  list(options: Signalled = {}): Promise<WorkerView[]> {
    return everyPage<WorkerView>(this.#caller, '/ojs/v1/workers', 'workers', options)
  }

  async get(id: string, options: Signalled = {}): Promise<WorkerView> {
    return (await get<{ worker: WorkerView }>(this.#caller, `/ojs/v1/workers/${part(id)}`, options)).worker
  }

  /** Whether the server counts on it. */
  health(id: string, options: Signalled = {}): Promise<WorkerHealthView> {
    return get<WorkerHealthView>(this.#caller, `/ojs/v1/workers/${part(id)}/health`, options)
  }

  /** Removes the record of a worker that is gone. */
  async delete(id: string, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: `/ojs/v1/admin/workers/${part(id)}`, idempotent: false, signal })
  }

  /** It finishes what it has and fetches nothing more. */
  quiet(id: string, options: Signalled = {}): Promise<DirectiveView> {
    return this.#direct(id, 'quiet', options)
  }

  resume(id: string, options: Signalled = {}): Promise<DirectiveView> {
    return this.#direct(id, 'resume', options)
  }

  /** The worker finishes its jobs and exits. This cannot be undone. */
  terminate(id: string, options: Signalled = {}): Promise<DirectiveView> {
    return this.#direct(id, 'terminate', options)
  }

  #direct(id: string, word: 'quiet' | 'resume' | 'terminate', { signal }: Signalled): Promise<DirectiveView> {
    const path = `/ojs/v1/admin/workers/${part(id)}/${word}`
    return this.#caller.call<DirectiveView>({ method: 'POST', path, idempotent: true, signal })
  }
}

/** Limits for every job of a type, below what a publish or a handler says; and caps, above everything. */
export interface TypePolicy extends Limits {
  /** Whether jobs are held to the schema of their type: see docs/schemas.md. */
  readonly validation?: 'strict' | 'warn' | 'off'
  readonly caps?: Omit<Limits, 'onTimeout'>
}

export class JobTypes {
  readonly #caller: Caller

  constructor(caller: Caller) {
    this.#caller = caller
  }

  async list(options: Signalled = {}): Promise<TypePolicyView[]> {
    return (await get<{ items: TypePolicyView[] }>(this.#caller, '/api/v1/job-types', options)).items
  }

  get(type: string | AnyJob, options: Signalled = {}): Promise<TypePolicyView> {
    return get<TypePolicyView>(this.#caller, pathOf(type), options)
  }

  /** Replaces what was there. Jobs that are stored keep what they were given. */
  async set(
    type: string | AnyJob,
    { caps, validation, ...limits }: TypePolicy,
    { signal }: Signalled = {},
  ): Promise<TypePolicyView> {
    const body = { ...limitsOnWire(limits), validation, ...(caps === undefined ? {} : { caps: limitsOnWire(caps) }) }
    return this.#caller.call({ method: 'PUT', path: pathOf(type), body, idempotent: true, signal })
  }

  async delete(type: string | AnyJob, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: pathOf(type), idempotent: false, signal })
  }
}

export async function everyPage<T>(
  caller: Caller,
  path: string,
  key: string,
  options: Signalled,
  filter: NonNullable<Call['query']> = {},
): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const query = { ...filter, limit: PAGE, offset: all.length }
    const page = await get<Record<string, unknown>>(caller, path, options, query)
    const items = (page[key] ?? []) as T[]
    all.push(...items)
    if ((page['pagination'] as Pagination | undefined)?.has_more !== true || items.length === 0) return all
  }
}

function pathOf(type: string | AnyJob): string {
  return `/api/v1/job-types/${part(typeof type === 'string' ? type : type.type)}`
}

export function part(text: string): string {
  return encodeURIComponent(text)
}
