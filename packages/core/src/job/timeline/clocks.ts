/**
 * The clocks of a job that run now: since when, until when, and who set the limit. `nextFor` takes the first of them, the
 * timeline draws all of them, and `explain` lists them. What each clock does when it ends is decided elsewhere
 * (`lifecycle/`, by `nextDue`); the instants come from `deadlines.ts`, so the list cannot disagree with the wake loop.
 */
import { iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'
import { effectiveTotal, executionAt, expiryAt, hardDeadlineAt, softDeadline, ttlAt } from '../deadlines.ts'
import type { DueKind } from '../due.ts'
import {
  creditFor,
  deathAt,
  deathEndsIt,
  lastSignAt,
  stallAt,
  visibilityAt,
  visibilityClock,
  visibilitySource,
  type Liveness,
} from '../liveness.ts'
import { isTerminal, type Job } from '../job.ts'
import { readLife } from '../../wire/job/life.ts'

export const CLOCK_KINDS = [
  'total',
  'soft_deadline',
  'hard_deadline',
  'heartbeat',
  'worker_death',
  'visibility',
  'ttl',
  'expires_at',
  'scheduled_at',
  'retry',
] as const
export type ClockKind = (typeof CLOCK_KINDS)[number]

/** What `nextDue` calls it; a soft deadline is kept by the worker, and wakes no row. */
export const DUE_KINDS: Readonly<Record<ClockKind, DueKind | null>> = {
  total: 'total',
  soft_deadline: null,
  hard_deadline: 'execution',
  heartbeat: 'stalled',
  worker_death: 'worker_death',
  visibility: 'visibility',
  ttl: 'enqueue_ttl',
  expires_at: 'expires_at',
  scheduled_at: 'scheduled',
  retry: 'backoff',
}

/** A limit by its name on the wire, its length and who set it. */
export interface NamedLimit {
  readonly limit: string
  /** Absent where the limit is an instant. */
  readonly limitMs?: Millis
  readonly source: string
  /** Who had asked for more, where a cap overruled them. */
  readonly asked?: string
}

export interface JobClock extends NamedLimit {
  readonly kind: ClockKind
  readonly since: Instant
  readonly until: Instant
  /** A sign of life starts it anew. */
  readonly renewable: boolean
  /** How much of it is not counted, because no server was listening. */
  readonly creditedMs: Millis
  /** The clock that ends first in any case: this one can no longer strike. */
  readonly cutBy: string | null
}

/** Earliest first; on a tie in the order in which `nextDue` decides. Empty when the job is over. */
export function clocksOf(job: Job, life: Liveness, now: Instant): JobClock[] {
  if (isTerminal(job.state)) return []
  const clocks = job.state === 'active' ? clocksOfAttempt(job, life, now) : clocksOfWait(job)
  const total = effectiveTotal(job)
  const whole: JobClock[] =
    total === null
      ? []
      : [{ kind: 'total', ...limitNamed(totalName(total.source), total), ...fixed(job.anchorAt, total.at) }]
  return [...whole, ...clocks.map((clock) => cut(clock, total))].sort((a, b) => a.until - b.until)
}

/** A workflow's clamp is the total of its members, and is shown by its own name. */
export const totalName = (source: string): string => (source === 'workflow' ? 'workflow_timeout' : 'total_timeout')

const fixed = (
  since: Instant,
  until: Instant,
): Pick<JobClock, 'since' | 'until' | 'renewable' | 'creditedMs' | 'cutBy'> => ({
  since,
  until,
  renewable: false,
  creditedMs: millis(0),
  cutBy: null,
})

/** A total comes first on a tie. */
function cut(clock: JobClock, total: { readonly at: Instant; readonly source: string } | null): JobClock {
  return total !== null && isDue(total.at, clock.until) ? { ...clock, cutBy: totalName(total.source) } : clock
}

interface Given {
  readonly ms: Millis
  readonly source: string
  readonly asked?: string
}

function limitNamed(limit: string, given: Given | null | undefined): NamedLimit {
  if (given === null || given === undefined) return { limit, source: 'default' }
  const { ms, source, asked } = given
  return { limit, limitMs: ms, source, ...(asked === undefined ? {} : { asked }) }
}

function clocksOfAttempt(job: Job, life: Liveness, now: Instant): JobClock[] {
  const { hold, startedAt } = job
  if (hold === null || startedAt === null) return []
  const clocks: JobClock[] = []
  const asked: JobClock[] = []
  const soft = softDeadline(job)
  const hard = hardDeadlineAt(job)
  const execution = executionAt(job)
  // A soft deadline that is the hard one asks nothing of the handler.
  if (soft !== null && hard !== null && soft.at < hard && !isDue(soft.at, now)) {
    const total = effectiveTotal(job)
    const limit =
      soft.limit === 'total' ? limitNamed(totalName(total?.source ?? ''), total) : limitNamed('timeout', hold.timeout)
    asked.push({ kind: 'soft_deadline', ...limit, ...fixed(startedAt, soft.at) })
  }
  if (execution !== null) {
    // Where there is a grace, that is what ends here.
    const grace = soft !== null && hard !== null && soft.at < hard ? soft.at : null
    const limit = grace === null ? limitNamed('timeout', hold.timeout) : limitNamed('grace_period', hold.grace)
    clocks.push({ kind: 'hard_deadline', ...limit, ...fixed(grace ?? startedAt, execution) })
  }
  // Of two that end in the same instant the server's decision comes first: a soft deadline only asks.
  return [...clocks, ...livenessClocks(job, life, startedAt), ...asked]
}

function livenessClocks(job: Job, life: Liveness, startedAt: Instant): JobClock[] {
  const { hold } = job
  if (hold === null) return []
  const { worker, outages } = life
  const renewed = (
    since: Instant,
    until: Instant,
  ): Pick<JobClock, 'since' | 'until' | 'renewable' | 'creditedMs' | 'cutBy'> => ({
    ...fixed(since, until),
    renewable: true,
    creditedMs: creditFor(since, outages),
  })
  const clocks: JobClock[] = []
  const [stall, visibility] = [stallAt(job, life), visibilityAt(job, life)]
  if (stall !== null)
    clocks.push({
      kind: 'heartbeat',
      ...limitNamed('heartbeat_timeout', hold.heartbeat),
      ...renewed(lastSignAt(job, worker) ?? startedAt, stall),
    })
  if (worker !== null && worker.id === hold.workerId && deathEndsIt(job)) {
    const death = deathAt(worker, life)
    const given = { ms: life.workerTimeoutMs, source: 'default' }
    if (death !== null)
      clocks.push({
        kind: 'worker_death',
        ...limitNamed('worker_timeout', given),
        ...renewed(worker.lastSeenAt, death),
      })
  }
  if (visibility !== null) {
    const clock = visibilityClock(job, worker)
    const ms = clock?.ms ?? hold.visibleMs
    const given = { ...hold.visibility, ms, source: visibilitySource(job, ms) }
    clocks.push({
      kind: 'visibility',
      ...limitNamed('visibility_timeout', given),
      ...renewed(clock?.since ?? startedAt, visibility),
    })
  }
  return clocks
}

function clocksOfWait(job: Job): JobClock[] {
  const clocks: JobClock[] = []
  const [ttl, expiry] = [ttlAt(job), expiryAt(job)]
  if (ttl !== null)
    clocks.push({ kind: 'ttl', ...limitNamed('enqueue_ttl', job.limits.ttl), ...fixed(job.anchorAt, ttl) })
  if (expiry !== null)
    clocks.push({ kind: 'expires_at', limit: 'expires_at', source: 'publish', ...fixed(job.anchorAt, expiry) })
  if (job.state === 'scheduled' && job.scheduledAt !== null)
    clocks.push({
      kind: 'scheduled_at',
      limit: 'scheduled_at',
      // A worker may hand a job back until a moment.
      source: readLife(job).at(-1)?.back === true ? 'worker' : 'publish',
      ...fixed(enteredAt(job), job.scheduledAt),
    })
  if (job.state === 'retryable' && job.nextRetryAt !== null)
    clocks.push({
      kind: 'retry',
      limit: 'backoff',
      ...(job.retryDelayMs === null ? {} : { limitMs: job.retryDelayMs }),
      source: 'retry',
      ...fixed(enteredAt(job), job.nextRetryAt),
    })
  return clocks
}

/** When the job came into the state it is in. */
const enteredAt = (job: Job): Instant => readLife(job).at(-1)?.at ?? job.createdAt

// ---- On the wire ----

export interface ClockView {
  readonly kind: ClockKind
  readonly limit: string
  readonly limit_ms?: number
  readonly source: string
  /** Who had asked for more, where a cap overruled them. */
  readonly asked_by?: string
  readonly since: string
  readonly until: string
  readonly renewable: boolean
  readonly credited_ms?: number
  readonly cut_by?: string
}

export function clockView({
  kind,
  limit,
  limitMs,
  source,
  asked,
  since,
  until,
  renewable,
  creditedMs,
  cutBy,
}: JobClock): ClockView {
  return {
    kind,
    limit,
    ...(limitMs === undefined ? {} : { limit_ms: limitMs }),
    source,
    ...(asked === undefined ? {} : { asked_by: asked }),
    since: iso(since),
    until: iso(until),
    renewable,
    ...(creditedMs === 0 ? {} : { credited_ms: creditedMs }),
    ...(cutBy === null ? {} : { cut_by: cutBy }),
  }
}
