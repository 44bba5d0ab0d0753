/**
 * What happens to a job next if no signal arrives: no result, no sign of life, no request. Read from the clocks that also
 * wake the row (`deadlines.nextDue`) and from the rule that also decides about retries (`verdictOn`), so that what is
 * announced here is what comes.
 */
import { iso, type Instant, type Millis } from '../time/clock.ts'
import { isDue } from '../time/sums.ts'
import { effectiveTotal, graceSince, hardDeadlineAt, softDeadline } from './deadlines.ts'
import { nextDue, type Due } from './due.ts'
import { visibilityClock, visibilitySource, type Liveness } from './liveness.ts'
import { isTerminal, type Job } from './job.ts'
import { LAPSED, STALLED, TIMED_OUT, verdictOn, type FailureFacts } from './retry.ts'

export type NextKind =
  | 'scheduled_at'
  | 'retry'
  | 'soft_deadline'
  | 'hard_deadline'
  | 'heartbeat'
  | 'worker_death'
  | 'visibility'
  | 'ttl'
  | 'expires_at'
  | 'total'

/** What follows. `retry_or_discard`: whether another attempt fits into the total depends on the jitter of its backoff. */
export type Consequence = 'available' | 'grace' | 'retry' | 'retry_or_discard' | 'discard' | 'cancel'

export interface Next {
  readonly kind: NextKind
  readonly at: string
  /** The limit by its name on the wire. */
  readonly limit: string
  /** Absent where the limit is an instant. */
  readonly limit_ms?: number
  readonly source: string
  readonly then: Consequence
}

/** Null when nothing is pending: the job has ended, or waits for a signal alone. */
export function nextFor(job: Job, life: Liveness, now: Instant): Next | null {
  if (isTerminal(job.state)) return null
  const due = nextDue(job, life)
  const soft = softDeadline(job)
  const hard = hardDeadlineAt(job)
  // A soft deadline that is the hard one asks nothing of the handler.
  const isAhead = soft !== null && hard !== null && soft.at < hard && !isDue(soft.at, now)
  if (isAhead && (due === null || soft.at < due.at)) return softNext(job, soft)
  return due === null ? null : dueNext(job, due, life, now)
}

function softNext(job: Job, { at, limit }: NonNullable<ReturnType<typeof softDeadline>>): Next {
  const named = limit === 'total' ? totalLimit(job) : lengthOf('timeout', job.hold?.timeout)
  return { kind: 'soft_deadline', at: iso(at), ...named, then: 'grace' }
}

function dueNext(job: Job, due: Due, life: Liveness, now: Instant): Next | null {
  const at = iso(due.at)
  switch (due.kind) {
    case 'total': {
      const named = totalLimit(job)
      return { kind: 'total', at, ...named, then: named.source === 'workflow' ? 'cancel' : 'discard' }
    }
    case 'execution': {
      const inGrace = graceSince(job, now) !== null
      const named = inGrace ? lengthOf('grace_period', job.hold?.grace) : lengthOf('timeout', job.hold?.timeout)
      return { kind: 'hard_deadline', at, ...named, then: verdict(job, TIMED_OUT, due.at) }
    }
    case 'stalled':
      return {
        kind: 'heartbeat',
        at,
        ...lengthOf('heartbeat_timeout', job.hold?.heartbeat),
        then: verdict(job, STALLED, due.at),
      }
    case 'worker_death':
      return {
        kind: 'worker_death',
        at,
        limit: 'worker_timeout',
        limit_ms: life.workerTimeoutMs,
        source: 'default',
        then: verdict(job, LAPSED, due.at),
      }
    case 'visibility': {
      const ms = visibilityClock(job, life.worker)?.ms ?? job.limits.visibility?.ms
      const named = ms === undefined ? { source: 'default' } : { limit_ms: ms, source: visibilitySource(job, ms) }
      return { kind: 'visibility', at, limit: 'visibility_timeout', ...named, then: verdict(job, LAPSED, due.at) }
    }
    case 'enqueue_ttl':
      return { kind: 'ttl', at, ...lengthOf('enqueue_ttl', job.limits.ttl), then: 'discard' }
    case 'expires_at':
      return { kind: 'expires_at', at, limit: 'expires_at', source: 'publish', then: 'discard' }
    case 'scheduled':
      return { kind: 'scheduled_at', at, limit: 'scheduled_at', source: 'publish', then: 'available' }
    case 'backoff':
      return {
        kind: 'retry',
        at,
        limit: 'backoff',
        ...(job.retryDelayMs === null ? {} : { limit_ms: job.retryDelayMs }),
        source: 'retry',
        then: 'available',
      }
    case 'purge':
      return null
  }
}

type Named = Pick<Next, 'limit' | 'limit_ms' | 'source'>

function lengthOf(limit: string, given: { readonly ms: Millis; readonly source: string } | null | undefined): Named {
  return given === null || given === undefined
    ? { limit, source: 'default' }
    : { limit, limit_ms: given.ms, source: given.source }
}

/** A workflow's clamp is the total of its members, and is told by its own name. */
export const totalName = (source: string): string => (source === 'workflow' ? 'workflow_timeout' : 'total_timeout')

function totalLimit(job: Job): Named {
  const total = effectiveTotal(job)
  return lengthOf(totalName(total?.source ?? ''), total)
}

const ALMOST_ONE = 1 - Number.EPSILON

function verdict(job: Job, facts: FailureFacts, at: Instant): Consequence {
  const back: Consequence = facts.lapsed ? 'available' : 'retry'
  const [least, most] = [verdictOn(job, facts, at, () => 0), verdictOn(job, facts, at, () => ALMOST_ONE)]
  if (least.kind !== 'retry') return 'discard'
  return most.kind === 'retry' ? back : 'retry_or_discard'
}
