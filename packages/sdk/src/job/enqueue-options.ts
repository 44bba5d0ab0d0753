/** What an enqueue says, and how it goes onto the wire: the job's own options first, the publish laid over, per field. */
import { isUuidV7 } from '@curfew/core'
import { encodeInput, type AnyJob } from './define-job.ts'
import { formatDelay, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import { limitsOnWire, widelyKnown, type Limits } from './limits.ts'
import { copyOf, isCopyOf } from '../plain-copy.ts'
import { jsonText } from '../plain-json.ts'
import { rateLimitOnWire, type RateLimit } from './rate-limit.ts'
import { retryOnWire, type RetryPolicy } from './retry.ts'
import { uniqueOnWire, type UniquePolicy } from './unique.ts'

/** Whom a job, a workflow or a run belongs to. */
export type ParentRef = { readonly jobId: string } | { readonly workflowId: string } | { readonly journeyId: string }

export interface EnqueueOptions extends Limits {
  readonly queue?: string
  /** −100 to 100; higher first. */
  readonly priority?: number
  readonly retry?: RetryPolicy
  /** Not beside another job for the same work. `true`: of the same type with the same input; `false`: whatever the job says. */
  readonly unique?: UniquePolicy | boolean
  /** The limiter it starts under. */
  readonly rateLimit?: RateLimit
  /** Start no sooner than this long after the server got it. */
  readonly delay?: Duration
  /** Start no sooner than this: a Date, or RFC 3339 with a zone. */
  readonly scheduledAt?: Date | string
  /** Do not start at or after this. */
  readonly expiresAt?: Date | string
  readonly meta?: Readonly<Record<string, unknown>>
  readonly tags?: readonly string[]
  /** A UUIDv7 in lower case; the client makes one unless it is given. */
  readonly id?: string
  readonly parent?: ParentRef
  /** End no later than the parent. */
  readonly inheritDeadline?: boolean
  /** Wait for `activate`. */
  readonly pending?: boolean
  readonly signal?: AbortSignal
}

/** An enqueue on its way: what middleware sees, and may change. */
export interface EnqueueRequest {
  readonly job: AnyJob
  readonly input: unknown
  readonly options: EnqueueOptions & { readonly id: string }
}

/** An enqueue as it goes onto the wire. */
export interface WireJob {
  readonly id: string
  readonly type: string
  readonly args: readonly unknown[]
  /** The whole request as JSON text. */
  readonly json: string
  /** The same without the id: what every job of a schedule has in common. */
  readonly template: string
  /** Options that only a server of ours understands. */
  readonly ours: readonly string[]
}

const KNOWN = new Set(
  (
    'timeout gracePeriod heartbeatTimeout onTimeout totalTimeout enqueueTtl visibilityTimeout ' +
    'queue priority retry unique rateLimit delay scheduledAt expiresAt meta tags id parent inheritDeadline pending signal'
  ).split(' '),
)

/** What an enqueue says besides its id and its input: the same text for every job with the same options. */
export interface PreparedOptions {
  readonly job: AnyJob
  /** Everything before the arguments, and everything after them. */
  readonly before: string
  readonly after: string
  /** Options that only a server of ours understands. */
  readonly ours: readonly string[]
}

export async function toWire(
  { job, input, options }: EnqueueRequest,
  last: LastOptions = new LastOptions(),
): Promise<WireJob> {
  refuseUnknown(options)
  const args = await encodeInput(job, input)
  if (!isUuidV7(options.id)) throw new InputError('id must be a UUIDv7 in lower case.', { field: 'id' })
  return wireJob(last.prepare(job, options), options.id, args)
}

/**
 * The options of the last enqueue as they were prepared. Most programs enqueue one kind of job with the same options again and
 * again: these are compared by content with a copy, so an options object that was changed since is prepared anew.
 */
export class LastOptions {
  #last: { readonly job: AnyJob; readonly said: unknown; readonly prepared: PreparedOptions } | null = null

  prepare(job: AnyJob, { id: _, signal: __, ...options }: EnqueueOptions): PreparedOptions {
    const { queue, priority, limits, retry, unique } = job.options
    const said = { options, defaults: { queue, priority, limits, retry, unique } }
    if (this.#last?.job === job && isCopyOf(said, this.#last.said)) return this.#last.prepared
    const prepared = prepareOptions(job, options)
    this.#last = { job, said: copyOf(said), prepared }
    return prepared
  }
}

/** `id` is a UUIDv7. */
export function wireJob({ job, before, after, ours }: PreparedOptions, id: string, args: readonly unknown[]): WireJob {
  const template = `${before}${jsonText(args, `The input of ${job.type}`)}${after}`
  return { id, type: job.type, args, json: `{"id":"${id}",${template}`, template: `{${template}`, ours }
}

export function prepareOptions(job: AnyJob, options: Omit<EnqueueOptions, 'id'>): PreparedOptions {
  refuseUnknown(options)
  const { parent, inheritDeadline } = options
  if (inheritDeadline === true && parent === undefined)
    throw new InputError('inheritDeadline needs a parent to inherit from.', { field: 'inheritDeadline' })
  const limits = widelyKnown(limitsOnWire({ ...job.options.limits, ...given(options) }))
  const { x_on_timeout: onTimeout, ...lengths } = limits.wire
  const retry = { ...job.options.retry, ...given(options.retry ?? {}) }
  const said = {
    queue: options.queue ?? job.options.queue,
    priority: options.priority ?? job.options.priority,
    ...lengths,
    ...momentsOf(options),
    retry: Object.keys(retry).length === 0 ? undefined : retryOnWire(retry),
    unique: uniqueOnWire(options.unique ?? job.options.unique),
    rate_limit: options.rateLimit === undefined ? undefined : rateLimitOnWire(options.rateLimit),
    tags: options.tags,
    pending: options.pending,
  }
  const members = [
    options.meta === undefined ? '' : `,"meta":${jsonText(options.meta, `The meta of ${job.type}`)}`,
    Object.values(said).every((value) => value === undefined) ? '' : `,${member('options', said)}`,
    onTimeout === undefined ? '' : `,${member('x_on_timeout', onTimeout)}`,
    parent === undefined ? '' : `,${member('x_parent', parentOnWire(parent))}`,
    inheritDeadline === true ? ',"x_inherit_deadline":true' : '',
  ]
  return {
    job,
    before: `${member('type', job.type)},"args":`,
    after: `${members.join('')}}`,
    ours: [
      ...limits.ours,
      ...(parent === undefined ? [] : ['parent']),
      ...(inheritDeadline === true ? ['inheritDeadline'] : []),
    ],
  }
}

function refuseUnknown(options: EnqueueOptions): void {
  for (const name of Object.keys(options)) {
    if (!KNOWN.has(name)) throw new InputError(`An enqueue has no option ${name}.`, { field: name })
  }
}

export function parentOnWire(parent: ParentRef): Readonly<Record<string, string>> {
  if ('jobId' in parent) return { job_id: parent.jobId }
  return 'workflowId' in parent ? { workflow_id: parent.workflowId } : { journey_id: parent.journeyId }
}

/** When it may start, and until when. A delay stays a delay: the clocks of client and server need not agree. */
export function momentsOf(options: {
  readonly delay?: Duration | undefined
  readonly scheduledAt?: Date | string | null | undefined
  readonly expiresAt?: Date | string | null | undefined
}): { scheduled_at?: string | null | undefined; expires_at?: string | null | undefined } {
  const { delay, scheduledAt, expiresAt } = options
  if (delay !== undefined && scheduledAt !== undefined)
    throw new InputError('delay and scheduledAt mean the same: give one of them.', { field: 'delay' })
  return {
    scheduled_at: delay === undefined ? moment(scheduledAt, 'scheduledAt') : formatDelay(delay, 'delay'),
    expires_at: moment(expiresAt, 'expiresAt'),
  }
}

function moment(given: Date | string | null | undefined, name: string): string | null | undefined {
  if (!(given instanceof Date)) return given
  if (Number.isNaN(given.getTime())) throw new InputError(`${name} is not a valid date.`, { field: name })
  return given.toISOString()
}

function member(name: string, value: unknown): string {
  return `"${name}":${JSON.stringify(value)}`
}

/** Undefined is not said: it takes nothing away from what lies below. */
function given<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>
}
