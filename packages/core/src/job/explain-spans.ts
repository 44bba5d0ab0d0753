/** The spans of a job's life: what it did from when to when, and which limit bounded it. */
import { effectiveTotal, graceSince } from './deadlines.ts'
import { seconds } from './explain-words.ts'
import type { Job } from './job.ts'
import type { LifeEntry } from './life.ts'
import { totalName } from './next.ts'
import { iso, type Instant, type Millis } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'

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

export function spansOf(
  job: Job,
  entry: LifeEntry,
  next: LifeEntry | undefined,
  started: boolean,
  now: Instant,
): Span[] {
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
export function boundsOf({ timeout, grace, cut }: LifeEntry): { timeout: Bound; grace: Bound } {
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

export const NONE = 0 as Millis
const UNKNOWN: readonly [Millis, string] = [NONE, 'default']
export const elapsedBetween = (fromMs: Millis, toMs: Millis): Millis => Math.max(0, toMs - fromMs) as Millis

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
