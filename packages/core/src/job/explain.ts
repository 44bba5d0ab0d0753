/**
 * Hindsight: why a job went as it did, from its recorded life. Spans of waiting, attempts, backoff and grace against
 * their limits, every ending with its cause, what happens next, and the same once more in plain words.
 */
import { iso, type Instant, type Millis } from '../time/clock.ts'
import { lengths, limitOf, type Failure, type TimeoutKind } from './failures.ts'
import { heldInWords, type HeldBy } from './held-by.ts'
import type { Job } from './job.ts'
import { isTerminal } from './job.ts'
import { readLife, type LifeEntry } from './life.ts'
import { causeInWords, earlyInWords, lateness, noRetryInWords, seconds, sourceInWords } from './explain-words.ts'
import type { CancelReason } from './lifecycle/change.ts'
import { nextFor, totalName, type Next } from './next.ts'
import { nextInWords } from './next-words.ts'
import { limitsView, type LimitsView } from '../wire/render.ts'
import { elapsed } from '../time/sums.ts'
import { effectiveTotal, executionAt, graceSince, hardDeadlineAt } from './deadlines.ts'
import type { Liveness } from './liveness.ts'
import type { NoRetry } from './retry.ts'

export interface Span {
  readonly kind: 'waiting' | 'attempt' | 'backoff' | 'grace'
  readonly from: string
  readonly to?: string
  readonly attempt?: number
  /** The limit by name and length, as it was set. */
  readonly limit?: string
  readonly limit_ms?: number
  readonly source?: string
  /** How long the span may last, counted from its beginning. */
  readonly effective_ms?: number
  /** The limit that leaves less than `limit_ms`, and who set it. */
  readonly clamped_by?: string
  readonly clamp_source?: string
  readonly worker_id?: string | null
}

export interface Ending {
  readonly attempt: number
  readonly type: string
  readonly timeout_kind?: TimeoutKind
  readonly limit_seconds?: number
  readonly limit_ms?: number
  readonly elapsed_seconds?: number
  readonly elapsed_ms?: number
  readonly deadline?: string
  /** What is charged to the decision. */
  readonly overshoot_ms?: number
  /** What really passed after the deadline, and how much of it no server was at work. */
  readonly late_ms?: number
  readonly downtime_ms?: number
  /** Of a liveness clock: how much of `elapsed_ms` is not counted, because no server was listening. */
  readonly excused_ms?: number
  /** How long before the soft deadline the worker reported its timeout. */
  readonly early_ms?: number
  readonly source?: string
  /** The worker stopped because the total was running out. */
  readonly soft_limit?: 'total'
  /** The worker gave the job back (`requeue`). */
  readonly handed_back?: true
  /** False where the attempt does not count against `max_attempts`. */
  readonly counted?: false
  /** The limit had not come: another attempt could not have ended within it. */
  readonly predicted?: true
  /** Of the last ending: why the job was not tried again. */
  readonly no_retry?: NoRetry
  readonly cause?: unknown
  readonly cancelled_by?: string
  readonly stack?: unknown
}

export interface Explanation {
  readonly job_id: string
  readonly state: string
  readonly limits: LimitsView
  readonly spans: readonly Span[]
  readonly endings: readonly Ending[]
  /** What happens next if no signal arrives; null when nothing is pending. */
  readonly next: Next | null
  /** What keeps an available job from being handed out; null where a worker that asks gets it when its turn comes. */
  readonly held_by: HeldBy | null
  readonly text: string
}

export function explain(job: Job, life: Liveness, now: Instant, heldBy: HeldBy | null = null): Explanation {
  const entries = readLife(job)
  let started = false
  const spans = entries.flatMap((entry, index) => {
    if (entry.to === 'active') started = true
    if (entry.why === 'retried by hand' && entry.back !== true) started = false
    return spansOf(job, entry, entries[index + 1], started, now)
  })
  const endings = endingsOf(job, entries)
  const next = nextFor(job, life, now)
  return {
    job_id: job.id,
    state: job.state,
    limits: limitsView(job, life),
    spans,
    endings,
    next,
    held_by: heldBy,
    text: inWords(job, entries, endings, () => nowInWords(job, next, heldBy, now)),
  }
}

// ---- Spans ----

function spansOf(job: Job, entry: LifeEntry, next: LifeEntry | undefined, started: boolean, now: Instant): Span[] {
  const to = next === undefined ? {} : { to: iso(next.at) }
  switch (entry.to) {
    case 'active': {
      const attempt = entry.attempt ?? 0
      const { timeout, grace } = boundsOf(entry)
      const span: Span = {
        kind: 'attempt',
        from: iso(entry.at),
        ...to,
        attempt,
        ...timeout,
        worker_id: entry.worker ?? null,
      }
      const softAt = next === undefined ? graceSince(job, now) : (next.soft ?? null)
      if (softAt === null) return [span]
      const soft = iso(softAt)
      return [
        { ...span, to: soft },
        { kind: 'grace', from: soft, ...to, attempt, ...grace },
      ]
    }
    case 'retryable':
      if (entry.backoff === undefined)
        return [{ kind: 'waiting', from: iso(entry.at), ...to, ...totalBound(job, entry) }]
      return [{ kind: 'backoff', from: iso(entry.at), ...to, ...bound('backoff', entry.backoff, 'retry') }]
    case 'scheduled':
    case 'available':
    case 'pending':
      return [{ kind: 'waiting', from: iso(entry.at), ...to, ...waitingBound(job, entry, started) }]
    default:
      return []
  }
}

type Bound = Pick<Span, 'limit' | 'limit_ms' | 'source' | 'effective_ms' | 'clamped_by' | 'clamp_source'>

function bound(name: string, ms: Millis, source: string): Bound {
  return { limit: `${name} ${seconds(ms)}`, limit_ms: ms, source, effective_ms: ms }
}

function clamped(of: Bound, effectiveMs: Millis, by: string, source: string): Bound {
  return (of.limit_ms ?? 0) <= effectiveMs
    ? of
    : { ...of, effective_ms: effectiveMs, clamped_by: by, clamp_source: source }
}

/** What bounded an attempt and its grace, as it was at the claim. */
function boundsOf({ timeout, grace, cut }: LifeEntry): { timeout: Bound; grace: Bound } {
  const own = {
    timeout: bound('timeout', ...(timeout ?? UNKNOWN)),
    grace: bound('grace_period', ...(grace ?? UNKNOWN)),
  }
  if (cut === undefined) return own
  const [softMs, hardMs, source] = cut
  const name = totalName(source)
  return {
    timeout: clamped(own.timeout, hardMs, name, source),
    grace: clamped(own.grace, elapsedBetween(softMs, hardMs), name, source),
  }
}

const NONE = 0 as Millis
const UNKNOWN: readonly [Millis, string] = [NONE, 'default']
const elapsedBetween = (fromMs: Millis, toMs: Millis): Millis => Math.max(0, toMs - fromMs) as Millis

/** TTL binds until the first start; the total, its own or handed down, always. The effective length counts from here. */
function waitingBound(job: Job, entry: LifeEntry, hasStarted: boolean): Bound {
  const { ttl } = job.limits
  if (ttl === null || hasStarted) return totalBound(job, entry)
  const own = bound('enqueue_ttl', ttl.ms, ttl.source)
  const total = effectiveTotal(job)
  // Limits of an earlier life are not known any more.
  if (total === null || entry.at < job.anchorAt) return own
  return clamped(own, elapsed(entry.at, total.at), totalName(total.source), total.source)
}

function totalBound(job: Job, entry: LifeEntry): Bound {
  const total = effectiveTotal(job)
  if (total === null) return {}
  const own = bound(totalName(total.source), total.ms, total.source)
  return entry.at < job.anchorAt ? own : { ...own, effective_ms: elapsed(entry.at, total.at) }
}

// ---- Endings ----

/** Taken over from the failure as they were recorded when it was decided. */
const RECORDED = [
  'timeout_kind',
  'limit_seconds',
  'limit_ms',
  'elapsed_seconds',
  'elapsed_ms',
  'deadline',
  'overshoot_ms',
  'late_ms',
  'downtime_ms',
  'excused_ms',
  'early_ms',
  'source',
  'soft_limit',
] as const satisfies readonly (keyof Failure & keyof Ending)[]

function recorded(failure: Failure): Pick<Ending, (typeof RECORDED)[number]> {
  return Object.fromEntries(RECORDED.flatMap((key) => (failure[key] === undefined ? [] : [[key, failure[key]]])))
}

function endingsOf(job: Job, entries: readonly LifeEntry[]): Ending[] {
  const endings = (JSON.parse(`[${job.errors}]`) as Failure[]).map((failure): Ending => {
    const details = isRecord(failure.details) ? failure.details : {}
    const { last_error: cause, stack } = details
    // A worker may write what it likes into its details, but no kind.
    const isPredicted = failure.timeout_kind === 'total' && details['predicted'] === true
    return {
      attempt: failure.attempt,
      type: failure.type,
      ...recorded(failure),
      ...(failure.interrupted === true ? { handed_back: true, counted: false } : {}),
      ...(isPredicted ? { predicted: true } : {}),
      cause: cause ?? { type: failure.type, message: failure.message },
      ...(stack === undefined ? (failure.backtrace === undefined ? {} : { stack: failure.backtrace }) : { stack }),
    }
  })
  const last = entries.at(-1)
  if (job.state === 'completed') endings.push({ attempt: job.attempt, type: 'completed' })
  if (job.state === 'cancelled') endings.push(cancellation(job, last))
  const final = endings.at(-1)
  if (job.state === 'discarded' && final !== undefined && last?.noRetry !== undefined)
    endings[endings.length - 1] = { ...final, no_retry: last.noRetry[0] }
  return endings
}

function cancellation(job: Job, entry: LifeEntry | undefined): Ending {
  const { cancelReason, cancelledAt } = job
  const total = cancelReason === 'workflow_timeout' ? effectiveTotal(job) : null
  const late = entry?.late
  return {
    attempt: job.attempt,
    type: 'cancelled',
    ...(total === null || cancelledAt === null
      ? {}
      : {
          ...lengths(total.ms, elapsed(job.anchorAt, cancelledAt)),
          deadline: iso(total.at),
          source: total.source,
        }),
    ...(late === undefined
      ? {}
      : { overshoot_ms: late.overshootMs, late_ms: late.lateMs, downtime_ms: late.downtimeMs }),
    ...(cancelReason === null ? {} : { cause: cancelReason }),
    ...(entry?.by === undefined ? {} : { cancelled_by: entry.by }),
  }
}

// ---- In words ----

function inWords(job: Job, entries: readonly LifeEntry[], endings: readonly Ending[], nowTold: () => string): string {
  const lines = entries.map((entry, index) => `${iso(entry.at)}  ${sentence(entry, entries[index - 1])}`)
  lines.push(isTerminal(job.state) ? endInWords(job, endings.at(-1), entries) : nowTold())
  return lines.join('\n')
}

function endInWords(job: Job, last: Ending | undefined, entries: readonly LifeEntry[]): string {
  if (job.state === 'completed') return `Ended completed, in attempt ${String(job.attempt)}.`
  if (last === undefined) return `Ended ${job.state}.`
  if (job.state === 'cancelled') return `Ended cancelled: ${cancelInWords(job, last)}.`
  const what =
    last.predicted === true
      ? `${last.type}, predicted: another attempt could not have ended within the total`
      : last.type
  const entry = entries.at(-1)
  const retry =
    last.predicted === true || entry?.noRetry === undefined ? '' : ` ${noRetryInWords(job, ...entry.noRetry)}`
  return `Ended discarded: ${what}${limitInWords(last, graceBefore(last, entries))}.${last.predicted === true ? whatCameBefore(last) : ''}${retry}`
}

function cancelInWords(job: Job, { cancelled_by: by, ...ending }: Ending): string {
  const reason = job.cancelReason as CancelReason | null
  if (reason === null) return 'the reason was not recorded'
  return `${causeInWords(reason, by)}${limitInWords(ending)}`
}

/** The grace that passed before the server ended the last attempt by its timeout. */
function graceBefore({ timeout_kind: kind, deadline }: Ending, entries: readonly LifeEntry[]): Millis {
  // A timeout that the worker reported has no deadline: it came within the grace, or before it.
  if (kind !== 'execution' || deadline === undefined) return NONE
  return entries.findLast(({ to }) => to === 'active')?.grace?.[0] ?? NONE
}

function limitInWords(ending: Ending, graceMs = NONE): string {
  // Earlier versions wrote seconds only.
  const {
    limit_ms: limitMs = inMillis(ending.limit_seconds),
    elapsed_ms: elapsedMs = inMillis(ending.elapsed_seconds),
  } = ending
  if (limitMs === undefined || elapsedMs === undefined) {
    if (ending.deadline !== undefined) return ` (${lateness(ending)})`
    return ending.early_ms === undefined ? '' : ` (${earlyInWords(ending.early_ms)})`
  }
  const source = `${ending.soft_limit === 'total' ? 'total_timeout, ' : ''}${sourceInWords(ending.source ?? 'default')}`
  const name =
    ending.type === 'cancelled'
      ? `workflow_timeout ${seconds(limitMs)}`
      : `${limitOf(ending) ?? 'limit'} ${seconds(limitMs)} (${source})${graceMs === 0 ? '' : ` and grace ${seconds(graceMs)}`}`
  const late = ending.overshoot_ms === undefined ? '' : `, ${lateness(ending)}`
  return ` (${name}, ${seconds(elapsedMs)} passed${excuseInWords(ending)}${late})`
}

const excuseInWords = ({ excused_ms: ms }: Ending): string =>
  ms === undefined ? '' : `, of which ${seconds(ms)} are not counted because no server was listening`

const inMillis = (inSeconds: number | undefined): number | undefined =>
  inSeconds === undefined ? undefined : inSeconds * 1000

const LONGEST_MESSAGE = 200

/** The failure after which another attempt would have been needed; nothing where the job was only handed back. */
function whatCameBefore({ type, cause }: Ending): string {
  if (!isRecord(cause) || typeof cause['type'] !== 'string') return ''
  const { early_ms: earlyMs, timeout_kind: kind } = cause
  const early = typeof earlyMs === 'number' && kind === undefined ? `, ${earlyInWords(earlyMs)}` : ''
  if (cause['type'] === type && early === '') return ''
  const message = typeof cause['message'] === 'string' ? cause['message'] : ''
  const short = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message
  return ` Before that: ${cause['type']}${short === '' ? '' : ` (${JSON.stringify(short)})`}${early}.`
}

function nowInWords(job: Job, next: Next | null, heldBy: HeldBy | null, now: Instant): string {
  const held = heldBy === null ? '' : `: ${heldInWords(heldBy)}`
  return `Now ${job.state}${graceInWords(job, now)}${held}; ${nextInWords(job.state, next, heldBy !== null)}.`
}

function graceInWords(job: Job, now: Instant): string {
  const [soft, hard, execution] = [graceSince(job, now), hardDeadlineAt(job), executionAt(job)]
  if (soft === null || hard === null || execution === null) return ''
  const cut = hard < execution ? ', where total_timeout cuts it off' : ''
  return `: attempt ${String(job.attempt)} is in its grace, since ${iso(soft)}, until ${iso(hard)}${cut}`
}

function sentence(entry: LifeEntry, before: LifeEntry | undefined): string {
  const why =
    entry.why === undefined ? '' : ` (${entry.why}${entry.early === undefined ? '' : `, ${earlyInWords(entry.early)}`})`
  switch (entry.to) {
    case 'active': {
      const worker = entry.worker === null || entry.worker === undefined ? '' : ` by ${JSON.stringify(entry.worker)}`
      return `attempt ${String(entry.attempt ?? 0)} started${worker}, ${mayRun(entry)}`
    }
    case 'retryable':
      return entry.backoff === undefined
        ? `failed${why}, no further attempt; waits for its total_timeout`
        : `failed${why}, next attempt in ${seconds(entry.backoff)}`
    case 'available':
      if (entry.back === true)
        return `handed back${why}, attempt ${String(before?.attempt ?? 0)} is not counted; available again`
      return `${before === undefined ? 'enqueued' : 'available'}${why}`
    case 'scheduled':
      return `scheduled${why}`
    case 'pending':
      return 'pending, waits to be activated'
    default:
      return `${entry.to}${why}`
  }
}

/** How long an attempt may run, and what leaves no more. */
function mayRun(entry: LifeEntry): string {
  const { timeout } = boundsOf(entry)
  const own = `timeout ${seconds(timeout.limit_ms ?? 0)} (${sourceInWords(timeout.source ?? 'default')})`
  const ms = timeout.effective_ms ?? 0
  const cutBy = (source: string): string => `${totalName(source)} (${sourceInWords(source)})`
  const length =
    timeout.clamped_by === undefined
      ? `may run ${seconds(ms)} (${sourceInWords(timeout.source ?? 'default')})`
      : `may run ${seconds(ms)}: ${cutBy(timeout.clamp_source ?? '')} leaves ${seconds(ms)} of ${own}`
  if (entry.cut === undefined) return length
  const [softMs, hardMs, source] = entry.cut
  const kept = elapsedBetween(softMs, hardMs)
  return softMs >= ms || kept === 0
    ? length
    : `${length}; asked to stop after ${seconds(softMs)}: ${cutBy(source)} keeps the last ${seconds(kept)} for that`
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
