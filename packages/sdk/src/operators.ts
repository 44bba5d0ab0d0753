/** What operators do: queues, dead letters, workers and the policies of types. */
import type { Call } from './connection.ts'
import type { AnyJob } from './define-job.ts'
import { limitsOnWire, type Limits } from './limits.ts'
import type {
  BulkOutcome,
  DeadLetterStats,
  DirectiveView,
  JobView,
  Pagination,
  QueueStats,
  QueueView,
  TypePolicyView,
  WorkerView,
} from './wire.ts'

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

  async #tell(name: string, word: 'pause' | 'drain' | 'resume', { signal }: Signalled): Promise<QueueView> {
    const path = `/ojs/v1/queues/${part(name)}/${word}`
    return (await this.#caller.call<{ queue: QueueView }>({ method: 'POST', path, idempotent: true, signal })).queue
  }
}

export interface DeadLetterFilter {
  readonly queue?: string
  readonly type?: string
}

/** Which dead letters are meant by a retry of many. */
export interface DeadLettersMeant extends DeadLetterFilter {
  readonly ids?: readonly string[]
  /** The type of the last error. */
  readonly errorType?: string
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
    const { queue, type } = filter
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
  async retry(id: string, { signal }: Signalled = {}): Promise<JobView> {
    const path = `/ojs/v1/dead-letter/${part(id)}/retry`
    return (await this.#caller.call<{ job: JobView }>({ method: 'POST', path, idempotent: false, signal })).job
  }

  /** Those named by ids, or all that have in common what is said; a chunk at a time, on the server. */
  retryMany(meant: DeadLettersMeant & Signalled = {}): Promise<BulkOutcome> {
    const { ids, queue, type, errorType, since, until, limit, all, signal } = meant
    const filter = {
      queue,
      type,
      error_type: errorType,
      since: since?.toISOString(),
      until: until?.toISOString(),
    }
    const body = { job_ids: ids, filter, limit, confirm: all }
    return this.#caller.call({ method: 'POST', path: '/ojs/v1/dead-letter/retry', body, idempotent: false, signal })
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
    { caps, ...limits }: TypePolicy,
    { signal }: Signalled = {},
  ): Promise<TypePolicyView> {
    const body = { ...limitsOnWire(limits), ...(caps === undefined ? {} : { caps: limitsOnWire(caps) }) }
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
