/** Jobs on a schedule: entries are registered by name, again with every start of the application if it likes. */
import type { AnyJob, Job } from '../job/define-job.ts'
import type { EnqueueOptions, WireJob } from '../job/enqueue-options.ts'
import { everyPage, get, part, type Caller, type Signalled } from './operators.ts'
import type { CronView } from '../wire/cron.ts'
import type { JobView } from '../wire/jobs.ts'

/** What becomes of a firing while a job of the same entry is not over. */
export type OverlapPolicy = 'skip' | 'allow' | 'cancel_previous' | 'enqueue'

/** Everything an enqueue may say, except what belongs to one job only. */
export type CronJobOptions = Omit<EnqueueOptions, 'id' | 'signal'>

export interface CronEntry<Sent> {
  /** Five fields, six with seconds in front, a macro such as `@daily`, or `@every 90s`. */
  readonly cron: string
  /** A name of the IANA database; `UTC` unless it is given. */
  readonly timezone?: string
  readonly job: Job<Sent, unknown, unknown, unknown>
  readonly input: NoInfer<Sent>
  readonly options?: CronJobOptions
  /** `skip` unless it is given. */
  readonly overlap?: OverlapPolicy
  /** Left out: on when it is new, and otherwise as it is. */
  readonly enabled?: boolean
  readonly description?: string
}

/** What one can say of an entry without naming its job. */
export interface CronChanges {
  readonly cron?: string
  readonly timezone?: string
  readonly overlap?: OverlapPolicy
  readonly enabled?: boolean
  readonly description?: string | null
}

interface Answer {
  readonly cron?: CronView
  readonly cron_job?: CronView
}

/** Checks an enqueue and writes it down. */
type Prepare = (request: { job: AnyJob; input: unknown; options: EnqueueOptions }) => Promise<WireJob>

export class Crons {
  readonly #caller: Caller
  readonly #prepare: Prepare

  constructor(caller: Caller, prepare: Prepare) {
    this.#caller = caller
    this.#prepare = prepare
  }

  /** Makes the entry, or changes the one with this name. The same schedule keeps its next run. */
  async upsert<Sent>(name: string, entry: CronEntry<Sent>, { signal }: Signalled = {}): Promise<CronView> {
    const { job, input, options = {}, ...said } = entry
    const { template } = await this.#prepare({ job, input, options })
    const own = JSON.stringify({ name, ...onWire(said) })
    const json = `${own.slice(0, -1)},"job_template":${template}}`
    const call = { method: 'POST', path: '/ojs/v1/cron', json, idempotent: true, signal } as const
    return entryOf(await this.#caller.call<Answer>(call))
  }

  /** By name; with `enabled` only those that are on, or off. */
  list(options: Signalled & { readonly enabled?: boolean } = {}): Promise<CronView[]> {
    const { enabled } = options
    return everyPage<CronView>(this.#caller, '/ojs/v1/cron', 'cron_jobs', options, { enabled })
  }

  async get(name: string, options: Signalled = {}): Promise<CronView> {
    return entryOf(await get<Answer>(this.#caller, pathOf(name), options))
  }

  /** The next instants at which it fires, or would if it was on. */
  async next(name: string, { count, ...options }: Signalled & { readonly count?: number } = {}): Promise<Date[]> {
    const path = `${pathOf(name)}/next`
    const { next_run_times: times } = await get<{ next_run_times: string[] }>(this.#caller, path, options, { count })
    return times.map((time) => new Date(time))
  }

  /** What it has fired, newest first. */
  async history(
    name: string,
    { limit, ...options }: Signalled & { readonly limit?: number } = {},
  ): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const path = `${pathOf(name)}/history`
    type History = { readonly executions: readonly Readonly<Record<string, unknown>>[] }
    return (await get<History>(this.#caller, path, options, { limit })).executions
  }

  async patch(name: string, changes: CronChanges, { signal }: Signalled = {}): Promise<CronView> {
    const call = { method: 'PATCH', path: pathOf(name), body: onWire(changes), idempotent: true, signal } as const
    return entryOf(await this.#caller.call<Answer>(call))
  }

  enable(name: string, options: Signalled = {}): Promise<CronView> {
    return this.patch(name, { enabled: true }, options)
  }

  /** It fires no more, and stays so when it is registered again. Jobs it has fired go on. */
  disable(name: string, options: Signalled = {}): Promise<CronView> {
    return this.patch(name, { enabled: false }, options)
  }

  async delete(name: string, { signal }: Signalled = {}): Promise<void> {
    await this.#caller.call({ method: 'DELETE', path: pathOf(name), idempotent: false, signal })
  }

  /** Fires it now, beside its schedule. Null: the policy is `enqueue`, and it fires when the job before it has ended. */
  async trigger(name: string, { signal }: Signalled = {}): Promise<JobView | null> {
    const path = `${pathOf(name)}/trigger`
    const answer = await this.#caller.call<{ job?: JobView }>({ method: 'POST', path, idempotent: false, signal })
    return answer.job ?? null
  }
}

function onWire({ cron, overlap, ...rest }: CronChanges): Record<string, unknown> {
  return { expression: cron, overlap_policy: overlap, ...rest }
}

/** Either dialect; a server has one of them at least. */
function entryOf({ cron, cron_job: other }: Answer): CronView {
  return (cron ?? other) as CronView
}

function pathOf(name: string): string {
  return `/ojs/v1/cron/${part(name)}`
}
