/** The recorded life of a job as spans of time, each against the limit that bounded it. `explain` and the timeline show them. */
import { millis, type Instant, type Millis } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import { effectiveTotal, graceSince } from '../deadlines.ts'
import type { Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import { readLife } from '../../wire/job/life.ts'
import { totalName } from './clocks.ts'

export type SpanKind = 'waiting' | 'attempt' | 'backoff' | 'grace'

/** What bounded a span. */
export interface SpanBound {
  readonly limit: string
  /** As it was set. */
  readonly ms: Millis
  readonly source: string
  /** How long the span may last, counted from its beginning. */
  readonly effectiveMs: Millis
  /** The limit that leaves less than `ms`, and who set it. */
  readonly clampedBy?: string
  readonly clampSource?: string
}

export interface LifeSpan {
  readonly kind: SpanKind
  readonly from: Instant
  /** Null: it is not over. */
  readonly to: Instant | null
  readonly attempt?: number
  readonly worker?: string | null
  readonly bound: SpanBound | null
}

export function lifeSpans(job: Job, now: Instant): LifeSpan[] {
  const entries = readLife(job)
  let started = false
  return entries.flatMap((entry, index) => {
    if (entry.to === 'active') started = true
    if (entry.why === 'retried by hand' && entry.back !== true) started = false
    return spansOf(job, entry, entries[index + 1], started, now)
  })
}

function spansOf(job: Job, entry: LifeEntry, next: LifeEntry | undefined, started: boolean, now: Instant): LifeSpan[] {
  const [from, to] = [entry.at, next?.at ?? null]
  switch (entry.to) {
    case 'active': {
      const attempt = entry.attempt ?? 0
      const { timeout, grace } = attemptBounds(entry)
      const span: LifeSpan = { kind: 'attempt', from, to, attempt, worker: entry.worker ?? null, bound: timeout }
      const softAt = next === undefined ? graceSince(job, now) : (next.soft ?? null)
      if (softAt === null) return [span]
      return [
        { ...span, to: softAt },
        { kind: 'grace', from: softAt, to, attempt, bound: grace },
      ]
    }
    case 'retryable':
      if (entry.backoff === undefined) return [{ kind: 'waiting', from, to, bound: totalBound(job, entry) }]
      return [{ kind: 'backoff', from, to, bound: bound('backoff', entry.backoff, 'retry') }]
    case 'scheduled':
    case 'available':
    case 'pending':
      return [{ kind: 'waiting', from, to, bound: waitingBound(job, entry, started) }]
    default:
      return []
  }
}

function bound(limit: string, ms: Millis, source: string): SpanBound {
  return { limit, ms, source, effectiveMs: ms }
}

function clamped(of: SpanBound, effectiveMs: Millis, by: string, source: string): SpanBound {
  return of.ms <= effectiveMs ? of : { ...of, effectiveMs, clampedBy: by, clampSource: source }
}

/** What bounded an attempt and its grace, as it was at the claim. */
export function attemptBounds({ timeout, grace, cut }: LifeEntry): { timeout: SpanBound; grace: SpanBound } {
  const own = {
    timeout: bound('timeout', ...(timeout ?? UNKNOWN)),
    grace: bound('grace_period', ...(grace ?? UNKNOWN)),
  }
  if (cut === undefined) return own
  const [softMs, hardMs, source] = cut
  const name = totalName(source)
  return {
    timeout: clamped(own.timeout, hardMs, name, source),
    grace: clamped(own.grace, millis(Math.max(0, hardMs - softMs)), name, source),
  }
}

const UNKNOWN: readonly [Millis, string] = [millis(0), 'default']

/** TTL binds until the first start; the total, its own or handed down, always. The effective length counts from here. */
function waitingBound(job: Job, entry: LifeEntry, hasStarted: boolean): SpanBound | null {
  const { ttl } = job.limits
  if (ttl === null || hasStarted) return totalBound(job, entry)
  const own = bound('enqueue_ttl', ttl.ms, ttl.source)
  const total = effectiveTotal(job)
  // Limits of an earlier life are not known any more.
  if (total === null || entry.at < job.anchorAt) return own
  return clamped(own, elapsed(entry.at, total.at), totalName(total.source), total.source)
}

function totalBound(job: Job, entry: LifeEntry): SpanBound | null {
  const total = effectiveTotal(job)
  if (total === null) return null
  const own = bound(totalName(total.source), total.ms, total.source)
  return entry.at < job.anchorAt ? own : { ...own, effectiveMs: elapsed(entry.at, total.at) }
}
