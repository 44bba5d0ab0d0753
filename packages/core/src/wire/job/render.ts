/**
 * The OJS envelope, outwards. A job is written as text: the server's own fields are put together here, and what the
 * client sent is laid in between as it was written, without being parsed.
 *
 * `x_limits` goes with every job: the effective lengths, where each came from, and the deadlines that follow. To
 * workers we also send lengths counted from this very answer (`soft_ms`, `hard_ms`, `beat_ms`), so that a worker needs
 * no clock that agrees with ours.
 */
import { iso, type Instant, type Millis } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import {
  effectiveTotal,
  hardDeadlineAt,
  retryComesAt,
  softDeadline,
  totalAt,
  ttlAt,
  type SoftLimit,
} from '../../job/deadlines.ts'
import { ROW_ALONE, stallAt, visibilityAt, type Liveness } from '../../job/liveness.ts'
import { limitOf, type Failure } from './failure.ts'
import type { Checkpoint, Fragment, Hold, Job, Json, Progress } from '../../job/job.ts'
import { isTerminal } from '../../job/job.ts'
import { membersOf } from '../json/json-text.ts'
import { readLife } from './life.ts'
import { askedSource, type Limit, type Limits } from '../../job/limits.ts'

export interface LimitsView {
  readonly timeout_ms: number
  readonly grace_ms?: number
  readonly heartbeat_timeout_ms?: number
  readonly visibility_ms?: number
  readonly total_ms?: number
  readonly enqueue_ttl_ms?: number
  readonly on_timeout: string
  readonly soft_deadline?: string
  /** Which limit the soft deadline comes from. */
  readonly soft_limit?: SoftLimit
  readonly hard_deadline?: string
  readonly visibility_deadline?: string
  readonly total_deadline?: string
  readonly ttl_deadline?: string
  readonly sources: Readonly<Record<string, string>>
  /** The limit that ended the job; absent where none did. */
  readonly ended_by?: EndedBy
  readonly soft_ms?: number
  readonly hard_ms?: number
  readonly beat_ms?: number
}

export interface EndedBy {
  readonly limit: string
  readonly limit_ms?: number
  readonly source: string
  /** Absent where the end was predicted. */
  readonly deadline?: string
  readonly predicted?: true
}

/** A length with its source, as far as it is shown. */
type Shown = { readonly ms: number; readonly source: string } | null

interface LastAttempt {
  readonly timeout?: Shown
  readonly grace?: Shown
  readonly heartbeat?: Shown
  readonly visibility?: Shown
}

/** What a job was ended by, and the limits that were in force then: a handler or a heartbeat may have set them. */
function endOf(job: Job): { readonly endedBy: EndedBy | null; readonly last: LastAttempt } {
  if (job.state === 'cancelled' && job.cancelReason === 'workflow_timeout') {
    const total = effectiveTotal(job)
    if (total === null) return { endedBy: null, last: {} }
    const { ms, source, at } = total
    return { endedBy: { limit: 'workflow_timeout', limit_ms: ms, source, deadline: iso(at) }, last: {} }
  }
  if (job.state !== 'discarded' || job.error === null) return { endedBy: null, last: {} }
  const { limits } = job
  const failure = JSON.parse(job.error) as Failure
  const limit = limitOf(failure)
  const { source, limit_ms: ms, deadline } = failure
  if (limit === null || source === undefined) return { endedBy: null, last: {} }
  const isPredicted = failure.timeout_kind === 'total' && deadline === undefined
  const endedBy: EndedBy = {
    limit,
    ...(ms === undefined ? {} : { limit_ms: ms }),
    source,
    ...(deadline === undefined ? {} : { deadline }),
    ...(isPredicted ? { predicted: true } : {}),
  }
  const struck = ms === undefined ? null : { ms, source }
  const { timeout, grace } = readLife(job).findLast(({ to }) => to === 'active') ?? {}
  return {
    endedBy,
    last: {
      ...(job.attempt === 0 || timeout === undefined
        ? {}
        : { timeout: { ms: Math.min(timeout[0], limits.total?.ms ?? Infinity), source: timeout[1] } }),
      ...(job.attempt === 0 || grace === undefined ? {} : { grace: { ms: grace[0], source: grace[1] } }),
      ...(limit === 'heartbeat_timeout' ? { heartbeat: struck } : {}),
      ...(limit === 'visibility_timeout' ? { visibility: struck } : {}),
    },
  }
}

export function limitsView(job: Job, life: Liveness = ROW_ALONE, answeredAt: Instant | null = null): LimitsView {
  const { limits, hold } = job
  const total = effectiveTotal(job)
  const soft = softDeadline(job)
  const { endedBy, last } = endOf(job)
  const timeout = hold?.timeout ?? last.timeout ?? limits.timeout
  const onTimeout = hold?.onTimeout ?? limits.onTimeout
  // Before a claim, what depends on the worker is left out unless it was set.
  const grace = hold?.grace ?? last.grace ?? (askedSource(limits.grace) === 'default' ? null : limits.grace)
  const heartbeat =
    hold !== null
      ? hold.heartbeat
      : (last.heartbeat ?? (askedSource(limits.heartbeat) === 'default' ? null : limits.heartbeat))
  const visibility = hold?.visibility ?? last.visibility ?? limits.visibility
  const at = (key: string, deadline: Instant | null): Record<string, string> =>
    deadline === null ? {} : { [key]: iso(deadline) }
  const left = (key: string, deadline: Instant | null): Record<string, Millis> =>
    deadline === null || answeredAt === null ? {} : { [key]: elapsed(answeredAt, deadline) }
  return {
    timeout_ms: timeout.ms,
    ...(grace === null ? {} : { grace_ms: grace.ms }),
    ...(heartbeat === null ? {} : { heartbeat_timeout_ms: heartbeat.ms }),
    ...(visibility === null ? {} : { visibility_ms: visibility.ms }),
    ...(total === null ? {} : { total_ms: total.ms }),
    ...(limits.ttl === null ? {} : { enqueue_ttl_ms: limits.ttl.ms }),
    on_timeout: onTimeout.mode,
    ...(soft === null ? {} : { soft_deadline: iso(soft.at), soft_limit: soft.limit }),
    ...(hold === null ? {} : at('hard_deadline', hardDeadlineAt(job))),
    ...at('visibility_deadline', visibilityAt(job, life)),
    ...at('total_deadline', totalAt(job)),
    ...(isTerminal(job.state) ? {} : at('ttl_deadline', ttlAt(job))),
    sources: {
      timeout: timeout.source,
      ...(grace === null ? {} : { grace: grace.source }),
      ...(heartbeat === null ? {} : { heartbeat: heartbeat.source }),
      ...(visibility === null ? {} : { visibility: visibility.source }),
      ...(total === null ? {} : { total: total.source }),
      ...(limits.ttl === null ? {} : { ttl: limits.ttl.source }),
      on_timeout: onTimeout.source,
    },
    ...(endedBy === null ? {} : { ended_by: endedBy }),
    ...(hold === null
      ? {}
      : {
          ...left('soft_ms', soft?.at ?? null),
          ...left('hard_ms', hardDeadlineAt(job)),
          ...left('beat_ms', stallAt(job, life)),
        }),
  }
}

const TIMELESS = new WeakMap<Limits, Json>()

/** While a job is not held and no clock of its own runs, its limits alone say it all, and equal ones are one record. */
function limitsText(job: Job, life: Liveness): Json {
  const { limits, hold, ceiling } = job
  const mayTellItsEnd = job.state === 'discarded' && job.error !== null
  if (hold !== null || ceiling !== null || limits.total !== null || limits.ttl !== null || mayTellItsEnd)
    return JSON.stringify(limitsView(job, life))
  const known = TIMELESS.get(limits)
  if (known !== undefined) return known
  const text = JSON.stringify(limitsView(job))
  TIMELESS.set(limits, text)
  return text
}

/** A job as one JSON object in text. `extra` is laid in at the end. */
export function renderJob(job: Job, life: Liveness = ROW_ALONE, extra: Fragment = ''): Json {
  return write(job, job.given, limitsText(job, life), extra)
}

/**
 * The limits of the jobs of one answer, as text. Jobs that are handed out together mostly have the same limits and clocks: then
 * the text of the job before is used again.
 */
export class HandedOutLimits {
  readonly #answeredAt: Instant
  #last: { readonly job: Job; readonly text: Json } | null = null

  /** Lengths count from this moment. */
  constructor(answeredAt: Instant) {
    this.#answeredAt = answeredAt
  }

  textOf(job: Job): Json {
    if (this.#last !== null && haveSameLimits(this.#last.job, job)) return this.#last.text
    const text = JSON.stringify(limitsView(job, ROW_ALONE, this.#answeredAt))
    this.#last = { job, text }
    return text
  }
}

/** Whether `limitsView` gives the same for both, as far as attempts that are running are concerned. */
function haveSameLimits(a: Job, b: Job): boolean {
  if (a.hold === null || b.hold === null || a.state !== 'active' || b.state !== 'active') return false
  if (a.startedAt !== b.startedAt || a.attempt !== b.attempt) return false
  const isAnchored = a.limits.total !== null || a.limits.ttl !== null || a.ceiling !== null
  if (isAnchored && a.anchorAt !== b.anchorAt) return false
  return (
    isSameLimit(a.limits.total, b.limits.total) &&
    isSameLimit(a.limits.ttl, b.limits.ttl) &&
    a.ceiling?.at === b.ceiling?.at &&
    a.ceiling?.source === b.ceiling?.source &&
    haveSameTerms(a.hold, b.hold)
  )
}

function haveSameTerms(a: Hold, b: Hold): boolean {
  return (
    isSameLimit(a.timeout, b.timeout) &&
    isSameLimit(a.grace, b.grace) &&
    isSameLimit(a.heartbeat, b.heartbeat) &&
    isSameLimit(a.visibility, b.visibility) &&
    a.onTimeout.mode === b.onTimeout.mode &&
    a.onTimeout.source === b.onTimeout.source &&
    a.signAt === b.signAt &&
    a.visibleFrom === b.visibleFrom &&
    a.visibleMs === b.visibleMs
  )
}

function isSameLimit(a: Limit | null, b: Limit | null): boolean {
  if (a === b) return true
  if (a === null || b === null) return false
  return a.ms === b.ms && a.source === b.source && a.asked === b.asked && a.whole === b.whole
}

export interface HandedOut {
  readonly limits: HandedOutLimits
  readonly checkpoint: Checkpoint | null
  /** The request carried `visibility_timeout_ms`: an official SDK that takes `timeout` for milliseconds. */
  readonly withoutSeconds: boolean
}

/** A job as it is handed to a worker. */
export function renderHandedOut(job: Job, { limits, checkpoint, withoutSeconds }: HandedOut): Json {
  const extra = [`"x_lease":${String(job.lease)}`]
  if (checkpoint !== null) {
    extra.push(`"last_checkpoint":${checkpoint.state}`)
    extra.push(`"checkpoint":{"state":${checkpoint.state},"sequence":${String(checkpoint.sequence)}}`)
  }
  const given = withoutSeconds ? inMillis(job.given) : job.given
  return write(job, given, limits.textOf(job), extra.join(','))
}

export function renderProgress(job: Job): Json {
  const { progress } = job
  return (
    `{"job_id":"${job.id}","state":"${job.state}","progress":${JSON.stringify(progress?.value ?? null)},` +
    `"message":${JSON.stringify(progress?.message ?? null)},"data":${progress?.data ?? 'null'},` +
    `"updated_at":${progress === null ? 'null' : JSON.stringify(iso(progress.updatedAt))}}`
  )
}

const MEMBERSHIP: ReadonlySet<string> = new Set(['workflow_id', 'workflow_step', 'x_workflow_path'])

/** A job that was retried by hand is not a step of a workflow any more, whatever was written into its body. */
function bodyOf({ body, owner, reenqueuedAt }: Job): Fragment {
  if (reenqueuedAt === null || owner !== null || !body.includes('"workflow_id"')) return body
  const kept = [...membersOf(`{${body}}`)].filter(([key]) => !MEMBERSHIP.has(key))
  return kept.map(([, { rawKey, value }]) => `${rawKey}:${value}`).join(',')
}

function write(job: Job, given: Fragment, limits: Json, extra: Fragment): Json {
  let out =
    `{"specversion":"1.0","id":"${job.id}","type":"${job.type}","queue":"${job.queue}",${bodyOf(job)},` +
    `"priority":${String(job.priority)},"state":"${job.state}","attempt":${String(job.attempt)},` +
    `"max_attempts":${String(job.retry.maxAttempts)},"created_at":"${iso(job.createdAt)}"`
  if (given !== '') out += `,${given}`
  if (job.enqueuedAt !== null) out += `,"enqueued_at":"${iso(job.enqueuedAt)}"`
  if (job.activatedAt !== null) out += `,"activated_at":"${iso(job.activatedAt)}"`
  if (job.startedAt !== null) out += `,"started_at":"${iso(job.startedAt)}"`
  if (job.completedAt !== null) out += `,"completed_at":"${iso(job.completedAt)}"`
  if (job.cancelledAt !== null) out += `,"cancelled_at":"${iso(job.cancelledAt)}"`
  if (job.cancelReason !== null) out += `,"cancel_reason":${JSON.stringify(job.cancelReason)}`
  if (job.discardedAt !== null) out += `,"discarded_at":"${iso(job.discardedAt)}"`
  if (job.reenqueuedAt !== null) out += `,"re_enqueued_at":"${iso(job.reenqueuedAt)}"`
  if (job.retryDelayMs !== null) out += `,"retry_delay_ms":${String(job.retryDelayMs)}`
  const retryAt = retryComesAt(job)
  if (retryAt !== null) out += `,"next_retry_at":"${iso(retryAt)}"`
  if (job.hold !== null && job.hold.workerId !== null) out += `,"worker_id":${JSON.stringify(job.hold.workerId)}`
  if (job.error !== null) out += `,"error":${job.error}`
  if (job.errors !== '') out += `,"errors":[${job.errors}]`
  if (job.result !== null) out += `,"result":${job.result}`
  if (job.progress !== null) out += progressFields(job.progress)
  if (job.interruptions > 0) out += `,"x_interruptions":${String(job.interruptions)}`
  if (job.purgeAt !== null) out += `,"x_purge_at":"${iso(job.purgeAt)}"`
  out += `,"x_limits":${limits}`
  if (extra !== '') out += `,${extra}`
  return `${out}}`
}

function progressFields({ value, message, data }: Progress): Fragment {
  const parts = [`,"progress":${JSON.stringify(value)}`]
  if (message !== null) parts.push(`"progress_message":${JSON.stringify(message)}`)
  if (data !== null) parts.push(`"progress_data":${data}`)
  return parts.join(',')
}

function inMillis(given: Fragment): Fragment {
  if (!given.includes('"timeout":')) return given
  const fields = JSON.parse(`{${given}}`) as Record<string, unknown>
  const { timeout, ...rest } = fields
  return JSON.stringify({ ...rest, timeout_ms: Number(timeout) * 1000 }).slice(1, -1)
}
