/**
 * Hindsight: why a job went as it did, from its recorded life. Spans of waiting, attempts, backoff and grace against
 * their limits, every ending with its cause, and the same once more in plain words.
 */
import { iso, type Instant } from './clock.ts'
import type { Failure } from './failures.ts'
import type { Job } from './job.ts'
import { isTerminal } from './job.ts'
import { readLife, type LifeEntry } from './life.ts'
import { limitsView, type LimitsView } from './render.ts'
import { effectiveTotal, executionAt, graceSince, hardDeadlineAt, type Liveness } from './deadlines.ts'

export interface Span {
  readonly kind: 'waiting' | 'attempt' | 'backoff' | 'grace'
  readonly from: string
  readonly to?: string
  readonly attempt?: number
  readonly limit?: string
  readonly source?: string
  readonly worker_id?: string | null
}

export interface Ending {
  readonly attempt: number
  readonly type: string
  readonly timeout_kind?: string
  readonly limit_seconds?: number
  readonly elapsed_seconds?: number
  readonly deadline?: string
  readonly overshoot_ms?: number
  readonly source?: string
  /** The worker stopped because the total was running out. */
  readonly soft_limit?: 'total'
  /** The worker gave the job back (`requeue`). */
  readonly handed_back?: true
  /** False where the attempt does not count against `max_attempts`. */
  readonly counted?: false
  /** The limit had not come: another attempt could not have ended within it. */
  readonly predicted?: true
  readonly cause?: unknown
  readonly stack?: unknown
}

export interface Explanation {
  readonly job_id: string
  readonly state: string
  readonly limits: LimitsView
  readonly spans: readonly Span[]
  readonly endings: readonly Ending[]
  readonly text: string
}

export function explain(job: Job, life: Liveness, now: Instant): Explanation {
  const entries = readLife(job)
  let started = false
  const spans = entries.flatMap((entry, index) => {
    if (entry.to === 'active') started = true
    if (entry.why === 'retried by hand' && entry.back !== true) started = false
    return spansOf(job, entry, entries[index + 1], started, now)
  })
  const endings = endingsOf(job)
  return {
    job_id: job.id,
    state: job.state,
    limits: limitsView(job, life),
    spans,
    endings,
    text: inWords(job, entries, endings, now),
  }
}

function spansOf(job: Job, entry: LifeEntry, next: LifeEntry | undefined, started: boolean, now: Instant): Span[] {
  const to = next === undefined ? {} : { to: iso(next.at) }
  switch (entry.to) {
    case 'active': {
      const [ms, source] = entry.timeout ?? [0, 'default']
      const attempt = entry.attempt ?? 0
      const span: Span = {
        kind: 'attempt',
        from: iso(entry.at),
        ...to,
        attempt,
        limit: `timeout ${seconds(ms)}`,
        source,
        worker_id: entry.worker ?? null,
      }
      const softAt = next === undefined ? graceSince(job, now) : (next.soft ?? null)
      if (softAt === null) return [span]
      const [graceMs, graceSource] = entry.grace ?? [0, 'default']
      const soft = iso(softAt)
      return [
        { ...span, to: soft },
        { kind: 'grace', from: soft, ...to, attempt, limit: `grace_period ${seconds(graceMs)}`, source: graceSource },
      ]
    }
    case 'retryable':
      return [
        {
          kind: 'backoff',
          from: iso(entry.at),
          ...to,
          limit: `backoff ${seconds(entry.backoff ?? 0)}`,
          source: 'retry',
        },
      ]
    case 'scheduled':
    case 'available':
    case 'pending':
      return [{ kind: 'waiting', from: iso(entry.at), ...to, ...waitingLimit(job, started) }]
    default:
      return []
  }
}

/** TTL binds until the first start; the total, its own or handed down, always. */
function waitingLimit(job: Job, hasStarted: boolean): { limit?: string; source?: string } {
  const { ttl } = job.limits
  if (ttl !== null && !hasStarted) return { limit: `enqueue_ttl ${seconds(ttl.ms)}`, source: ttl.source }
  const total = effectiveTotal(job)
  return total === null ? {} : { limit: `total_timeout ${seconds(total.ms)}`, source: total.source }
}

function endingsOf(job: Job): Ending[] {
  const endings = (JSON.parse(`[${job.errors}]`) as Failure[]).map((failure): Ending => {
    const details = isRecord(failure.details) ? failure.details : {}
    const { last_error: cause, stack } = details
    // A worker may write what it likes into its details, but no kind.
    const isPredicted = failure.timeout_kind === 'total' && details['predicted'] === true
    return {
      attempt: failure.attempt,
      type: failure.type,
      ...(failure.timeout_kind === undefined ? {} : { timeout_kind: failure.timeout_kind }),
      ...(failure.limit_seconds === undefined ? {} : { limit_seconds: failure.limit_seconds }),
      ...(failure.elapsed_seconds === undefined ? {} : { elapsed_seconds: failure.elapsed_seconds }),
      ...(failure.deadline === undefined ? {} : { deadline: failure.deadline }),
      ...(failure.overshoot_ms === undefined ? {} : { overshoot_ms: failure.overshoot_ms }),
      ...(failure.source === undefined ? {} : { source: failure.source }),
      ...(failure.soft_limit === undefined ? {} : { soft_limit: failure.soft_limit }),
      ...(failure.interrupted === true ? { handed_back: true, counted: false } : {}),
      ...(isPredicted ? { predicted: true } : {}),
      cause: cause ?? { type: failure.type, message: failure.message },
      ...(stack === undefined ? (failure.backtrace === undefined ? {} : { stack: failure.backtrace }) : { stack }),
    }
  })
  if (job.state === 'completed') endings.push({ attempt: job.attempt, type: 'completed' })
  if (job.state === 'cancelled') {
    endings.push({
      attempt: job.attempt,
      type: 'cancelled',
      ...(job.cancelReason === null ? {} : { cause: job.cancelReason }),
    })
  }
  return endings
}

function inWords(job: Job, entries: readonly LifeEntry[], endings: readonly Ending[], now: Instant): string {
  const lines = entries.map((entry, index) => `${iso(entry.at)}  ${sentence(entry, entries[index - 1])}`)
  const last = endings.at(-1)
  if (isTerminal(job.state) && last !== undefined && last.type !== 'completed') {
    const late = last.overshoot_ms === undefined ? '' : `, decided ${String(last.overshoot_ms)} ms after the deadline`
    const limit =
      last.limit_seconds === undefined
        ? ''
        : ` (limit ${String(last.limit_seconds)} s from ${last.source ?? 'default'}, ${String(last.elapsed_seconds)} s passed${late})`
    lines.push(
      last.predicted === true
        ? `Ended ${job.state}: ${last.type}, predicted: another attempt could not have ended within the total${limit}.${whatCameBefore(last)}`
        : `Ended ${job.state}: ${last.type}${limit}.`,
    )
  } else if (job.state === 'completed') lines.push(`Ended completed, in attempt ${String(job.attempt)}.`)
  else lines.push(`Now ${job.state}${whatIsToCome(job, now)}.`)
  return lines.join('\n')
}

const LONGEST_MESSAGE = 200

/** The failure after which another attempt would have been needed; nothing where the job was only handed back. */
function whatCameBefore({ type, cause }: Ending): string {
  if (!isRecord(cause) || typeof cause['type'] !== 'string' || cause['type'] === type) return ''
  const message = typeof cause['message'] === 'string' ? cause['message'] : ''
  const short = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message
  return ` Before that: ${cause['type']}${short === '' ? '' : ` (${JSON.stringify(short)})`}.`
}

function whatIsToCome(job: Job, now: Instant): string {
  const { wakeAt } = job
  const next = wakeAt === null ? '' : `; something will happen at ${iso(wakeAt)} if nobody speaks`
  const [soft, hard, execution] = [graceSince(job, now), hardDeadlineAt(job), executionAt(job)]
  if (soft === null || hard === null || execution === null) return next
  const cut = hard < execution ? ', where total_timeout cuts it off' : ''
  const sooner = wakeAt !== null && wakeAt < hard ? next : ''
  return `: attempt ${String(job.attempt)} is in its grace, since ${iso(soft)}, until ${iso(hard)}${cut}${sooner}`
}

function sentence(entry: LifeEntry, before: LifeEntry | undefined): string {
  const why = entry.why === undefined ? '' : ` (${entry.why})`
  switch (entry.to) {
    case 'active':
      return `attempt ${String(entry.attempt ?? 0)} started${entry.worker === null || entry.worker === undefined ? '' : ` by ${JSON.stringify(entry.worker)}`}, may run ${seconds(entry.timeout?.[0] ?? 0)} (${entry.timeout?.[1] ?? 'default'})`
    case 'retryable':
      return `failed${why}, next attempt in ${seconds(entry.backoff ?? 0)}`
    case 'available':
      if (entry.back === true)
        return `handed back${why}, attempt ${String(before?.attempt ?? 0)} is not counted; available again`
      return `${before === undefined ? 'enqueued' : 'available'}${why}`
    case 'scheduled':
      return 'scheduled'
    case 'pending':
      return 'pending, waits to be activated'
    default:
      return `${entry.to}${why}`
  }
}

const seconds = (ms: number): string => `${String(ms / 1000)} s`
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
