/**
 * What must happen to a job: the model's own lifecycle, after the specification (docs/timeouts.md). What the rules leave to
 * chance (how long a jittered backoff is) is looked up in what was saved, and must lie where the rules allow it.
 */
import type { Job } from '@curfew/core'
import type { EngineSettings } from '../../../packages/server/src/engine/kernel/context.ts'
import { insist, type Invariant } from '../violation.ts'
import { backoffRange, fits, totalAt, type Due, type DueKind, type ModelJob } from './records.ts'

/** What a rule may know beyond the job: the instant, and what was saved in it. */
export interface Moment {
  readonly now: number
  /** When the server came up. */
  readonly upAt: number
  /** The disk refused to serve lately, so decisions may come late. */
  readonly tardy: boolean
  readonly settings: EngineSettings
  /** The job as it was last saved in this instant. */
  saved(id: string): Job | null | undefined
  /** A rule was applied: by this promise the row is judged. */
  readonly applied: (job: ModelJob, rule: Invariant) => void
  /** The holder must be told to stop. */
  told(job: ModelJob, reason: 'timeout' | 'cancelled' | 'lost'): void
}

/** How an attempt failed. */
export interface Failure {
  readonly type: string
  readonly names: readonly string[]
  readonly isTimeout?: boolean
  /** The worker stopped because the total was running out: only the total ends the job. */
  readonly byTotal?: boolean
  /** The reservation lapsed: straight back, without backoff. */
  readonly lapsed?: boolean
  readonly retryable?: boolean | undefined
  readonly word?: string | undefined
  readonly deadlineAt?: number
  readonly reported?: boolean
}

export function release(job: ModelJob, now: number): void {
  job.state = 'available'
  job.enqueuedAt = now
  job.retryAt = null
}

export function complete(job: ModelJob, result: unknown, { now, settings, applied }: Moment): void {
  close(job, true)
  job.state = 'completed'
  job.result = result
  job.ending = null
  job.purgeAt = now + (job.resultTtlMs ?? settings.retention.completedMs)
  applied(job, 'stale')
}

export function cancel(job: ModelJob, moment: Moment): void {
  moment.told(job, 'cancelled')
  close(job, false)
  job.state = 'cancelled'
  job.retryAt = null
  job.purgeAt = moment.now + moment.settings.retention.cancelledMs
  moment.applied(job, 'oneEnding')
}

/** Handed back: the attempt is refunded, unless the total leaves no time for another. */
export function handBack(job: ModelJob, moment: Moment): void {
  moment.applied(job, 'attempts')
  if (!fits(job, moment.now, 0)) {
    close(job, true)
    giveUpAhead(job, moment)
    return
  }
  close(job, true)
  // The latest five are remembered.
  if (job.errors.filter((entry) => entry === 'hand-back').length === 5) {
    job.errors.splice(job.errors.indexOf('hand-back'), 1)
  }
  remember(job, 'hand-back')
  job.interruptions += 1
  release(job, moment.now)
}

export function endAttempt(job: ModelJob, failure: Failure, moment: Moment): void {
  const { now } = moment
  const { retry, hold } = job
  const used = job.attempt - job.interruptions
  const discardsTimeouts = failure.isTimeout === true && hold?.onTimeout === 'discard'
  const listed = failure.lapsed !== true && failure.names.some((name) => matches(retry.nonRetryable, name))
  const [leastMs, mostMs] = failure.lapsed === true ? [0, 0] : backoffRange(retry, Math.max(1, used))
  const [surelyFits, mayFit] = [fits(job, now, mostMs), fits(job, now, leastMs)]
  moment.applied(job, failure.deadlineAt === undefined ? 'retry' : 'attemptDeadline')
  record(job, failure.type, failure.deadlineAt ?? null, hold?.startedAt ?? now, moment)
  close(job, failure.reported === true)

  const saved = moment.saved(job.id)
  const endsAt = totalAt(job)
  if (failure.byTotal === true && endsAt !== null && endsAt > now) {
    const isFinal =
      discardsTimeouts ||
      ['DISCARD', 'DEAD_LETTER'].includes(failure.word ?? '') ||
      failure.retryable === false ||
      listed
    const isSpent = used >= Math.max(1, retry.maxAttempts)
    if (isFinal || isSpent || !mayFit || (!surelyFits && saved?.retryDelayMs === null)) {
      job.state = 'retryable'
      job.retryAt = endsAt
      return
    }
  }
  if (discardsTimeouts) return discard(job, false, moment, true)
  if (failure.word === 'DISCARD') return discard(job, false, moment)
  if (failure.word === 'DEAD_LETTER') return discard(job, true, moment)
  if (failure.retryable === false || listed) return discard(job, retry.deadLetter, moment)
  if (used >= Math.max(1, retry.maxAttempts)) {
    moment.applied(job, 'attempts')
    return discard(job, retry.deadLetter, moment)
  }
  const gaveUp = !mayFit || (!surelyFits && saved?.state === 'discarded')
  if (gaveUp) return giveUpAhead(job, moment)
  if (failure.lapsed === true) return release(job, now)
  const delayMs = saved?.retryDelayMs ?? -1
  insist('retry', delayMs >= leastMs && delayMs <= mostMs, () => {
    return `${job.id} backs off ${String(delayMs)} ms; the policy says ${String(leastMs)} to ${String(mostMs)}`
  })
  job.state = 'retryable'
  job.retryAt = now + delayMs
}

/** Another attempt could not end inside the total: given up now instead of then. */
export function giveUpAhead(job: ModelJob, moment: Moment): void {
  moment.applied(job, 'total')
  record(job, 'total_timeout', null, moment.now, moment)
  discard(job, job.retry.deadLetter, moment)
}

/** Lets time do to the job whatever is due, one thing after the other. False when the job is gone. */
export function settle(job: ModelJob, nextDue: () => Due | null, moment: Moment): boolean {
  for (;;) {
    const due = nextDue()
    if (due === null || due.at > moment.now) return true
    if (due.kind === 'purge') return false
    expire(job, due, moment)
  }
}

const ATTEMPT_ENDINGS: Readonly<Partial<Record<DueKind, Failure>>> = {
  execution: { type: 'timeout', names: ['timeout'], isTimeout: true },
  stalled: { type: 'stalled', names: ['stalled'] },
  visibility: { type: 'visibility_timeout', names: [], lapsed: true },
  worker_death: { type: 'worker_death', names: [], lapsed: true },
}

function expire(job: ModelJob, due: Due, moment: Moment): void {
  const ending = ATTEMPT_ENDINGS[due.kind]
  if (ending !== undefined) {
    moment.told(job, due.kind === 'execution' ? 'timeout' : 'lost')
    return endAttempt(job, { ...ending, deadlineAt: due.at }, moment)
  }
  if (due.kind === 'scheduled' || due.kind === 'backoff') {
    punctual(job, due.kind, due.at, job.limitsSetAt, moment)
    moment.applied(job, 'wake')
    return release(job, moment.now)
  }
  const isTotal = due.kind === 'total'
  moment.applied(job, isTotal ? 'total' : 'ttl')
  if (isTotal) moment.told(job, 'timeout')
  const type = isTotal ? 'total_timeout' : due.kind === 'enqueue_ttl' ? 'enqueue_ttl_expired' : 'expired'
  record(job, type, due.at, job.limitsSetAt, moment)
  close(job, false)
  discard(job, isTotal && job.retry.deadLetter, moment)
}

function discard(job: ModelJob, deadLetter: boolean, { now, settings: { retention } }: Moment, soon = false): void {
  job.state = 'discarded'
  job.retryAt = null
  job.deadLetter = deadLetter
  job.purgeAt = now + (deadLetter ? retention.deadLetterMs : soon ? retention.completedMs : retention.discardedMs)
}

const KEPT_ERRORS = 25

function record(job: ModelJob, type: string, deadlineAt: number | null, setAt: number, moment: Moment): void {
  const overshootMs = deadlineAt === null ? 0 : punctual(job, type, deadlineAt, setAt, moment)
  job.ending = { type, deadlineAt, overshootMs }
  remember(job, 'failure')
}

function remember(job: ModelJob, entry: ModelJob['errors'][number]): void {
  job.errors.push(entry)
  if (job.errors.length > KEPT_ERRORS) job.errors.shift()
}

/** Decided at its own instant, or when the limit was set, or when the server came up. */
function punctual(
  job: ModelJob,
  what: string,
  deadlineAt: number,
  setAt: number,
  { now, upAt, tardy }: Moment,
): number {
  const overshootMs = Math.max(0, now - Math.max(deadlineAt, setAt, upAt))
  insist('overshoot', tardy || overshootMs === 0, () => {
    return `${job.id}: ${what} was due at ${String(deadlineAt)} and decided at ${String(now)}, ${String(overshootMs)} ms late`
  })
  return overshootMs
}

function close(job: ModelJob, reported: boolean): void {
  if (reported) job.closedBy = { workerId: job.hold?.workerId ?? null, attempt: job.attempt, lease: job.lease }
  job.hold = null
}

function matches(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith('.*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern))
}
