/** Spans and marks in lanes: what was, what is cut at now, which limits struck. */
import { instant, type Instant, iso, millis } from '../../time/clock.ts'
import { before, elapsed } from '../../time/sums.ts'
import type { Failure } from '../../wire/job/failure.ts'
import { readLife } from '../../wire/job/life.ts'
import { effectiveTotal } from '../deadlines.ts'
import { isTerminal, type Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import type { JobClock } from './clocks.ts'
import type { LifeSpan, SpanKind } from './spans.ts'
import type { Mark, MarkKind, TimelineSpan } from './timeline-model.ts'

/** The recorded life, read once. */
export interface Past {
  readonly entries: readonly LifeEntry[]
  readonly spans: readonly LifeSpan[]
  readonly failures: Failures
}

export const ahead = (kind: TimelineSpan['kind'], from: Instant, to: Instant, attempt?: number): TimelineSpan => ({
  kind,
  from,
  to,
  isFuture: true,
  ...(attempt === undefined ? {} : { attempt }),
})

export function cutAtNow(kind: TimelineSpan['kind'], from: Instant, to: Instant, now: Instant): TimelineSpan[] {
  const middle = instant(Math.min(Math.max(from, now), to))
  return [
    { kind, from, to: middle, isFuture: false },
    { kind, from: middle, to, isFuture: true },
  ].filter((span) => span.to > span.from)
}

/** A span that a limit ended is cut at the deadline: the time after it is the overshoot. */
export function pastSpans(
  kind: SpanKind,
  from: Instant,
  to: Instant,
  attempt: number | undefined,
  failures: Failures,
): TimelineSpan[] {
  const of = attempt === undefined ? {} : { attempt }
  const whole: TimelineSpan = { kind, from, to, isFuture: false, ...of }
  const failure = failures.get(to)?.find(({ deadline }) => deadline !== undefined)
  if (failure?.deadline === undefined) return [whole]
  const deadline = instant(Math.max(from, Date.parse(failure.deadline)))
  if (deadline >= to) return [whole]
  const late: TimelineSpan = {
    kind: 'overshoot',
    from: deadline,
    to,
    isFuture: false,
    ...of,
    overshootMs: millis(failure.overshoot_ms ?? elapsed(deadline, to)),
    downtimeMs: millis(failure.downtime_ms ?? 0),
  }
  return deadline > from ? [{ ...whole, to: deadline }, late] : [late]
}

/** What an ending by a limit tells. */
type Ended = Pick<
  Failure,
  'type' | 'timeout_kind' | 'limit_ms' | 'source' | 'deadline' | 'overshoot_ms' | 'downtime_ms'
>

export type Failures = ReadonlyMap<number, readonly Ended[]>

/** The failures that are kept, by the instant at which they were decided; one instant may bring two. */
export function failuresOf(job: Job): Failures {
  const failures = new Map<number, Ended[]>()
  const add = (at: number, failure: Ended): void => void failures.set(at, [...(failures.get(at) ?? []), failure])
  for (const failure of JSON.parse(`[${job.errors}]`) as Failure[]) add(Date.parse(failure.occurred_at), failure)
  // A workflow's deadline cancels, which is not a failure of the job.
  const last = readLife(job).at(-1)
  const total = effectiveTotal(job)
  if (last?.late !== undefined && total !== null)
    add(last.at, {
      type: 'workflow_timeout',
      limit_ms: total.ms,
      source: total.source,
      deadline: iso(before(last.at, last.late.lateMs)),
      overshoot_ms: last.late.overshootMs,
      downtime_ms: last.late.downtimeMs,
    })
  return failures
}

export function limitMark(clock: JobClock, now: Instant): Mark {
  const { kind, until, limit, limitMs, source, asked, cutBy } = clock
  return {
    kind,
    at: until,
    isFuture: until > now,
    limit: { limit, ...(limitMs === undefined ? {} : { limitMs }), source, ...(asked === undefined ? {} : { asked }) },
    ...(cutBy === null ? {} : { cutBy }),
  }
}

const STRUCK: Readonly<Record<string, readonly [MarkKind, string]>> = {
  execution: ['hard_deadline', 'timeout'],
  total: ['total', 'total_timeout'],
  enqueue_ttl: ['ttl', 'enqueue_ttl'],
  stalled: ['heartbeat', 'heartbeat_timeout'],
  worker_death: ['worker_death', 'worker_timeout'],
  visibility_timeout: ['visibility', 'visibility_timeout'],
  expired: ['expires_at', 'expires_at'],
  workflow_timeout: ['total', 'workflow_timeout'],
}

/** The deadlines at which limits ended it. One that had passed before the job came is drawn at its beginning. */
export function struckLimits(job: Job, failures: readonly Ended[] = []): Mark[] {
  return failures.flatMap((failure): Mark[] => {
    const struck = STRUCK[failure.timeout_kind ?? failure.type]
    if (failure.deadline === undefined || failure.source === undefined || struck === undefined) return []
    const [kind, limit] = struck
    const length = failure.limit_ms === undefined ? {} : { limitMs: millis(failure.limit_ms) }
    const at = instant(Math.max(job.createdAt, Date.parse(failure.deadline)))
    return [{ kind, at, isFuture: false, limit: { limit, ...length, source: failure.source } }]
  })
}

export function endingText(job: Job, { to, why }: LifeEntry, failures: readonly Ended[] = []): string {
  if (to === 'completed') return 'completed'
  if (to === 'cancelled') return `cancelled (${why ?? job.cancelReason ?? 'no reason recorded'})`
  const what = failures.at(-1)?.type ?? why ?? to
  return isTerminal(to) ? `discarded (${what})` : what
}

export const inOrder = (marks: readonly Mark[]): Mark[] => [...marks].sort((a, b) => a.at - b.at)
