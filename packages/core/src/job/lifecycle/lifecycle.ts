/**
 * What may happen to a job. Each function takes the job as it is and gives a Transition: the job as it will be and the
 * events that tell of it, to be saved together. Nothing here reads a clock or touches a store.
 *
 *   admit            → scheduled | pending | available
 *   release          scheduled, pending, retryable → available
 *   start            available → active                  the lease grows, the attempt counts
 *   putOff, drop     available → scheduled, discarded    turned away by a limiter
 *   complete         active → completed
 *   fail             active → retryable | available | discarded
 *                    (retryable without a retry: its worker stopped because the total runs out, which then ends it)
 *   interrupt        active → available                  handed back, not counted
 *   cancel           anything not terminal → cancelled
 *   makeRoom         available → discarded               the queue is full
 *   expire           whatever is due: see deadlines.nextDue
 *   retryByHand      discarded, cancelled → available    attempts and anchor begin anew, the lease does not
 */
import { iso, millis, type Instant, type Millis, type Random } from '../../time/clock.ts'
import { after, elapsed, isDue } from '../../time/sums.ts'
import {
  effectiveTotal,
  fitsTotal,
  graceSince,
  lastSignAt,
  latenessOf,
  nextDue,
  ROW_ALONE,
  totalAt,
  totalCut,
  visibilityClock,
  visibilitySource,
  wakeAtOf,
  type Due,
  type Lateness,
  type Liveness,
  type Outage,
} from '../deadlines.ts'
import { broken, OjsError } from '../../errors.ts'
import { jobEvent, type EventType, type NewEvent } from '../../events.ts'
import {
  classOf,
  failureText,
  handBack,
  lengths,
  limitFailure,
  readTimeoutReport,
  reportedFailure,
  reportedTimeout,
  withFailure,
  withHandBack,
  type Failure,
  type LimitEnding,
  type ReportedError,
} from '../failures.ts'
import { isTerminal, TAIL, type Hold, type Job, type JobState, type Json, type Progress } from '../job.ts'
import { appendLife, beginLife, type LifeEntry } from '../life.ts'
import { settleAtClaim, type Claimant, type Limits, type LimitSettings } from '../limits.ts'
import {
  isNonRetryable,
  isSpent,
  LAPSED,
  STALLED,
  TIMED_OUT,
  verdictOn,
  type FailureFacts,
  type NoRetry,
} from '../retry.ts'
import type { Notice, Worker } from '../worker.ts'

/** How long finished jobs are kept. */
export interface Retention {
  readonly completedMs: Millis
  readonly cancelledMs: Millis
  readonly discardedMs: Millis
  readonly deadLetterMs: Millis
}

/** The queue's word, where it has one, comes before the server's. */
function keptFor({ limits: { kept } }: Job, retention: Retention): Retention {
  return kept === undefined ? retention : { ...retention, ...kept }
}

/** What a decision may know of the world. One command, one now. */
export interface Moment {
  readonly now: Instant
  /** When this server came up: no overshoot is counted from before it. */
  readonly upAt: Instant
  readonly random: Random
  readonly limits: LimitSettings
  readonly retention: Retention
}

export type LimitKind =
  | 'execution'
  | 'total'
  | 'enqueue_ttl'
  | 'expires_at'
  | 'stalled'
  | 'visibility'
  | 'worker_death'
  | 'workflow'
  | 'run'
  | 'wait'
  | 'timer'

export interface Transition {
  /** Null when the job is new. */
  readonly before: Job | null
  /** Null when the row is removed. */
  readonly job: Job | null
  readonly events: readonly NewEvent[]
  /** What the worker that held the job must be told. */
  readonly notice?: { readonly workerId: string; readonly notice: Notice }
  /** Limits that ran out, and how late that was decided (null: foreseen, or reported by the worker). */
  readonly expired?: readonly { readonly kind: LimitKind; readonly overshootMs: Millis | null }[]
}

/** The same with the job surely there. */
export type Step = Transition & { readonly job: Job }

// ---- Beginning ----

/** A new job as the envelope describes it, with its limits settled. */
export type NewJob = Pick<
  Job,
  | 'id'
  | 'type'
  | 'queue'
  | 'priority'
  | 'retry'
  | 'limits'
  | 'ceiling'
  | 'parent'
  | 'owner'
  | 'uniqueKey'
  | 'limitKey'
  | 'tenant'
  | 'scheduledAt'
  | 'expiresAt'
  | 'resultTtlMs'
  | 'traceId'
  | 'body'
  | 'given'
> & { readonly pending: boolean }

/** Field by field, not by spreading: an object this wide is built an order of magnitude faster from one literal. */
export function admit(asked: NewJob, { now }: Moment): Step {
  const state: JobState = asked.pending
    ? 'pending'
    : asked.scheduledAt !== null && asked.scheduledAt > now
      ? 'scheduled'
      : 'available'
  const job: Job & { wakeAt: Instant | null } = {
    id: asked.id,
    type: asked.type,
    queue: asked.queue,
    priority: asked.priority,
    state,
    seq: TAIL,
    attempt: 0,
    lease: 0,
    interruptions: 0,
    retry: asked.retry,
    limits: asked.limits,
    ceiling: asked.ceiling,
    parent: asked.parent,
    owner: asked.owner,
    uniqueKey: asked.uniqueKey,
    limitKey: asked.limitKey,
    tenant: asked.tenant,
    hold: null,
    closedBy: null,
    createdAt: now,
    anchorAt: now,
    limitsSetAt: now,
    scheduledAt: asked.scheduledAt,
    expiresAt: asked.expiresAt,
    enqueuedAt: state === 'available' ? now : null,
    activatedAt: null,
    startedAt: null,
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    reenqueuedAt: null,
    nextRetryAt: null,
    retryDelayMs: null,
    resultTtlMs: asked.resultTtlMs,
    purgeAt: null,
    error: null,
    errors: '',
    errorCount: 0,
    result: null,
    progress: null,
    checkpointSeq: 0,
    deadLetter: false,
    cancelReason: null,
    traceId: asked.traceId,
    body: asked.body,
    given: asked.given,
    life: beginLife(now, state),
    wakeAt: null,
    version: 0,
  }
  job.wakeAt = wakeAtOf(job)
  const events = state === 'available' ? [enqueued(job, now)] : state === 'scheduled' ? scheduledEvent(job, now) : []
  return { before: null, job, events }
}

/** Its time has come, its backoff is over, or it was activated. It joins the tail of its priority band. */
export function release(job: Job, { now }: Moment, changes: Partial<Job> = {}): Step {
  const ready = moved(job, { at: now, to: 'available' }, { enqueuedAt: now, seq: TAIL, nextRetryAt: null, ...changes })
  return { before: job, job: ready, events: [enqueued(ready, now)] }
}

/** By somebody's hand: its backoff is over now. Its attempts go on counting. */
export function retryNow(job: Job, moment: Moment): Step {
  if (job.state !== 'retryable') throw wrongState(job, 'retryable', 'retried now')
  if (isSpent(job))
    throw new OjsError('conflict', 'The job has used all of its attempts and waits for its total timeout to end it.', {
      details: { job_id: job.id, current_state: job.state, max_attempts: job.retry.maxAttempts },
      hint: 'Retry the job when it has ended: that gives it new attempts and a new total.',
    })
  return release(job, moment)
}

export function activate(job: Job, moment: Moment): Step {
  if (job.state !== 'pending') throw wrongState(job, 'pending', 'activated')
  return release(job, moment, { activatedAt: moment.now })
}

export interface Claim extends Claimant {
  readonly workerId: string | null
}

export function start(job: Job, claim: Claim, moment: Moment): Step {
  const { now } = moment
  if (job.state !== 'available' || isDue(wakeAtOf(job), now)) {
    throw broken(`job ${job.id} is ${job.state} (wakes at ${String(job.wakeAt)}) and cannot start at ${String(now)}`)
  }
  const limits = settleAtClaim(job.limits, claim, moment.limits)
  const attempt = job.attempt + 1
  const hold: Hold = {
    workerId: claim.workerId,
    known: claim.known,
    ...limits,
    signAt: now,
    visibleFrom: now,
    visibleMs: limits.visibility.ms,
  }
  const active = moved(
    job,
    {
      at: now,
      to: 'active',
      attempt,
      worker: claim.workerId,
      timeout: [limits.timeout.whole ?? limits.timeout.ms, limits.timeout.source],
      grace: [limits.grace.ms, limits.grace.source],
      ...cutFor(job, hold, now),
    },
    { attempt, lease: job.lease + 1, startedAt: now, closedBy: null, progress: null, hold },
  )
  return {
    before: job,
    job: active,
    events: [jobEvent('job.started', active, now, { worker_id: claim.workerId, attempt })],
  }
}

/** What a total takes from the attempt that starts now: the total may be changed later, and `explain` tells it as it was. */
function cutFor(job: Job, hold: Hold, now: Instant): Pick<LifeEntry, 'cut'> {
  // Most jobs have no total.
  if (totalAt(job) === null) return {}
  const cut = totalCut({ ...job, startedAt: now, hold })
  return cut === null ? {} : { cut: [cut.softMs, cut.hardMs, cut.source] }
}

/** Its limiter turns it away until then, and it did not want to wait in line. It joins the tail when its time comes. */
export function putOff(job: Job, until: Instant, given: string, { now }: Moment): Step {
  const later = moved(
    job,
    { at: now, to: 'scheduled', why: 'rate_limited' },
    { scheduledAt: until, given, enqueuedAt: null },
  )
  return { before: job, job: later, events: scheduledEvent(later, now) }
}

/** Its limiter turns it away, and it would rather not run than run late. Never dead-lettered: nothing went wrong. */
export function drop(job: Job, key: string, moment: Moment): Step {
  const error = {
    type: 'rate_limited',
    message: 'The limiter of the job was spent when its turn came',
    details: { key },
  }
  const failure = reportedFailure(job, error, false, moment.now)
  const gone = discarded(withFailure(job, failure), job, false, moment)
  return { before: job, job: gone, events: discardEvents(gone, failure, moment.now) }
}

// ---- The fence ----

/** What a report carries to prove that it speaks for the attempt that is running. */
export interface Fence {
  readonly workerId?: string | undefined
  readonly attempt?: number | undefined
  readonly lease?: number | undefined
}

export type StaleReason = 'not_active' | 'not_owner' | 'stale_attempt'

export function staleReason(job: Job, fence: Fence, requireOwner = false): StaleReason | null {
  if (job.hold === null) return 'not_active'
  if (fence.workerId === undefined ? requireOwner : isForeign(job.hold, fence.workerId)) return 'not_owner'
  if (fence.attempt !== undefined && fence.attempt !== job.attempt) return 'stale_attempt'
  if (fence.lease !== undefined && fence.lease !== job.lease) return 'stale_attempt'
  return null
}

/** An anonymous reservation belongs to whoever speaks for it. */
const isForeign = ({ workerId }: Hold, asker: string): boolean => workerId !== null && workerId !== asker

/**
 * Whether a report repeats the one by which this very worker ended this very attempt: its answer was lost, and the worker
 * sent it again. Only a lease proves that; the next claim ends it.
 */
export function repeatsReport(job: Job, fence: Fence, verb: 'ack' | 'nack'): boolean {
  const { hold, closedBy, state } = job
  if (hold !== null || closedBy === null || fence.lease === undefined || fence.workerId === undefined) return false
  if (fence.attempt !== undefined && fence.attempt !== closedBy.attempt) return false
  return (
    fence.lease === closedBy.lease &&
    fence.workerId === closedBy.workerId &&
    (verb === 'ack') === (state === 'completed')
  )
}

const STALE_TEXT: Readonly<Record<StaleReason, string>> = {
  not_active: 'The job is not active: its attempt is over, and this report came too late or was a repeat.',
  not_owner: 'The job is held by another worker; only the holder may report on it.',
  stale_attempt: 'The report is about an earlier attempt; the job has been handed out again since.',
}

/** What is wrong with a report that is not about an earlier attempt; null for one that is. */
function aheadText(job: Job, { attempt, lease }: Fence): string | null {
  // After a retry by hand attempts are counted anew, leases never are: the lease is the surer word.
  if (lease !== undefined && lease < job.lease) return null
  if (attempt !== undefined && attempt > job.attempt)
    return `The report is about attempt ${String(attempt)}; the one that is running is attempt ${String(job.attempt)}.`
  return lease !== undefined && lease > job.lease ? 'The report carries a lease that has not been given yet.' : null
}

export function staleError(job: Job, reason: StaleReason, fence: Fence): OjsError {
  const ahead = reason === 'stale_attempt' ? aheadText(job, fence) : null
  return new OjsError('conflict', ahead ?? STALE_TEXT[reason], {
    details: {
      job_id: job.id,
      current_state: job.state,
      expected_state: 'active',
      reason,
      ...(reason === 'not_active' && job.closedBy !== null
        ? {
            completed_by: {
              worker_id: job.closedBy.workerId,
              attempt: job.closedBy.attempt,
              x_lease: job.closedBy.lease,
            },
          }
        : {}),
    },
    hint:
      ahead === null
        ? 'Drop this result; the server has already decided about that attempt.'
        : 'Send attempt and x_lease as they came with the job.',
  })
}

// ---- Endings a worker brings ----

export function complete(job: Job, result: Json | null, { now, retention }: Moment): Step {
  const { hold, closedBy } = over(job, true)
  const done = moved(
    job,
    { at: now, to: 'completed', ...softMark(job, now) },
    {
      hold,
      closedBy,
      completedAt: now,
      result,
      error: null,
      progress: job.progress === null ? null : { ...job.progress, value: 1, updatedAt: now },
      purgeAt: after(now, job.resultTtlMs ?? keptFor(job, retention).completedMs),
    },
  )
  const event = jobEvent('job.completed', done, now, {
    attempt: job.attempt,
    duration_ms: durationMs(job, now),
  })
  return { before: job, job: done, events: [result === null ? event : { ...event, more: `"result":${result}` }] }
}

/** A worker reports that its attempt failed. */
export function fail(job: Job, error: ReportedError, moment: Moment): Step {
  const { now } = moment
  const report = readTimeoutReport(job, error, now)
  // Long before its deadline it is the worker's word for an ordinary failure.
  const timeout = report?.counts === true ? report : null
  const isTimeout = timeout !== null
  const names = [error.type, error.code, classOf(error.details)].filter((name) => name !== undefined)
  const retryable = error.retryable ?? !names.some((name) => isNonRetryable(job.retry, name))
  const failure = isTimeout
    ? reportedTimeout(job, error, timeout, retryable, now)
    : reportedFailure(job, error, retryable, now)
  const facts: FailureFacts = { names, retryable: error.retryable, word: error.code, isTimeout, lapsed: false }
  const lead = isTimeout ? [timeoutEvent('job.timeout', job, failure, now)] : []
  const step = endAttempt(job, failure, facts, moment, lead, true, timeout?.limit === 'total')
  return isTimeout ? { ...step, expired: [{ kind: 'execution', overshootMs: null }, ...(step.expired ?? [])] } : step
}

/** Handed back (`requeue`): straight to the tail, and the attempt is refunded. The history says why; it is no failure. */
export function interrupt(job: Job, error: ReportedError | null, moment: Moment): Step {
  const { now } = moment
  if (!fitsTotal(job, now, millis(0))) {
    const lastError = error === null ? null : reportedFailure(job, error, true, now)
    return outOfTime(
      job,
      { ...job, ...over(job, true) },
      lastError,
      moment,
      [],
      job.retry.onExhaustion === 'dead_letter',
    )
  }
  const failure = handBack(job, error, now)
  const back = moved(
    withHandBack(job, failure),
    { at: now, to: 'available', back: true, why: failure.type, ...softMark(job, now) },
    { ...over(job, true), interruptions: job.interruptions + 1, enqueuedAt: now, seq: TAIL },
  )
  const interrupted = jobEvent('job.interrupted', back, now, {
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    interruptions: back.interruptions,
    error: { type: failure.type, code: failure.code, message: failure.message },
  })
  return { before: job, job: back, events: [interrupted, enqueued(back, now)] }
}

/** The worker left (deregistered) with the job still in hand: like its death, but by its own will. */
export function abandon(job: Job, moment: Moment): Step {
  const error: ReportedError = { type: 'shutdown', message: 'The worker deregistered before the job was finished.' }
  const failure = reportedFailure(job, error, true, moment.now)
  return endAttempt(job, failure, LAPSED, moment, [], false)
}

/** Why jobs are cancelled: each is told in `cancel_reason`, in `job.cancelled` and in `explain`. */
export const CANCEL_REASONS = [
  'request',
  'bulk',
  'replaced',
  'overlap',
  'workflow_cancelled',
  'workflow_timeout',
  'journey_cancelled',
  'journey_went_on',
  'subscription_deleted',
] as const
export type CancelReason = (typeof CANCEL_REASONS)[number]

export interface Cancellation {
  readonly reason: CancelReason
  /** Who did it, where there is a name. */
  readonly by?: string
}

export function cancel(job: Job, { now, retention }: Moment, { reason, by }: Cancellation, late?: Lateness): Step {
  if (isTerminal(job.state)) throw wrongState(job, 'not terminal', 'cancelled')
  const cancelled = moved(
    job,
    {
      at: now,
      to: 'cancelled',
      ...softMark(job, now),
      why: reason,
      ...(by === undefined ? {} : { by }),
      ...(late === undefined ? {} : { late }),
    },
    {
      ...over(job, false),
      cancelledAt: now,
      cancelReason: reason,
      nextRetryAt: null,
      purgeAt: after(now, keptFor(job, retention).cancelledMs),
    },
  )
  const total = late === undefined ? null : effectiveTotal(job)
  const event = jobEvent('job.cancelled', cancelled, now, {
    ...(by === undefined ? {} : { cancelled_by: by }),
    reason,
    ...(late === undefined || total === null
      ? {}
      : {
          ...lengths(total.ms, elapsed(job.anchorAt, now)),
          source: total.source,
          deadline: iso(total.at),
          overshoot_ms: late.overshootMs,
          late_ms: late.lateMs,
          downtime_ms: late.downtimeMs,
          attempt: job.attempt,
          worker_id: job.hold?.workerId ?? null,
        }),
  })
  return { before: job, job: cancelled, events: [event], ...told(job, 'cancelled', now) }
}

/** It waited longest, and makes room for another (OJS backpressure §5.3). Never dead-lettered: nothing went wrong with it. */
export function makeRoom(job: Job, moment: Moment): Step {
  const { now } = moment
  if (job.state !== 'available') throw broken(`job ${job.id} is ${job.state} and cannot make room`)
  const error = { type: 'queue_full', message: 'The queue was full: the oldest job made room for a new one' }
  const failure = reportedFailure(job, error, false, now)
  const dropped = discarded(withFailure(job, failure), job, false, moment)
  return {
    before: job,
    job: dropped,
    events: [jobEvent('backpressure.dropped', dropped, now), ...discardEvents(dropped, failure, now)],
  }
}

// ---- Endings time brings ----

/** What is due for this job now; a renewed clock is re-armed; null when there is nothing to do. */
export function expire(job: Job, life: Liveness, moment: Moment): Transition | null {
  const due = nextDue(job, life)
  if (due === null || !isDue(due.at, moment.now)) {
    const wakeAt = wakeAtOf(job, life)
    return wakeAt === job.wakeAt ? null : { before: job, job: { ...job, wakeAt }, events: [] }
  }
  switch (due.kind) {
    case 'scheduled':
      return release(job, moment)
    case 'backoff':
      // It waited for a total that was moved later: that gives no attempts beyond those it had.
      return isSpent(job) ? giveUp(job, moment) : release(job, moment)
    case 'purge':
      return {
        before: job,
        job: null,
        events: job.deadLetter ? [jobEvent('dead_letter.pruned', job, moment.now)] : [],
      }
    case 'total':
      return endByTotal(job, due, life.outages, moment)
    case 'enqueue_ttl':
    case 'expires_at':
      return endUnstarted(job, due, life.outages, moment)
    case 'execution':
    case 'stalled':
    case 'visibility':
    case 'worker_death':
      return endByLimit(job, due, life, moment)
  }
}

function endByLimit(job: Job, due: Due, life: Liveness, moment: Moment): Step {
  const { hold, startedAt } = job
  if (hold === null || startedAt === null) throw broken(`job ${job.id} is active without a reservation`)
  const setAt = startedAt
  const base = { deadlineAt: due.at, setAt }
  const named = (ending: Omit<LimitEnding, 'retryable' | 'deadlineAt' | 'setAt'>): Failure =>
    limitFailure(
      job,
      // Lapses (they have no kind) are retried whatever the list says (ADR 0017).
      { ...ending, ...base, retryable: ending.kind === undefined || !isNonRetryable(job.retry, ending.type) },
      { upAt: moment.upAt, outages: life.outages },
      moment.now,
    )
  const ended = (
    failure: Failure,
    facts: FailureFacts,
    lead: NewEvent[],
    reason: Notice['reason'],
    kind: LimitKind,
  ): Step => {
    const step = endAttempt(job, failure, facts, moment, lead, false)
    const expired = [{ kind, overshootMs: millis(failure.overshoot_ms ?? 0) }, ...(step.expired ?? [])]
    return { ...step, ...told(job, reason, moment.now), expired }
  }
  switch (due.kind) {
    case 'execution': {
      const failure = named({
        type: 'timeout',
        kind: 'execution',
        message: `Job execution exceeded timeout of ${inWords(hold.timeout.ms)}`,
        limitMs: hold.timeout.ms,
        source: hold.timeout.source,
        since: startedAt,
      })
      return ended(failure, TIMED_OUT, [timeoutEvent('job.timeout', job, failure, moment.now)], 'timeout', 'execution')
    }
    case 'stalled': {
      const limit = hold.heartbeat
      if (limit === null) throw broken(`job ${job.id} stalled without a heartbeat limit`)
      const failure = named({
        type: 'stalled',
        kind: 'stalled',
        message: `No sign of life from the attempt for ${inWords(limit.ms)}`,
        limitMs: limit.ms,
        source: limit.source,
        since: lastSignAt(job, life.worker) ?? startedAt,
        isLiveness: true,
      })
      return ended(failure, STALLED, [stalledEvent(job, failure, 'heartbeat_timeout', moment.now)], 'lost', 'stalled')
    }
    case 'worker_death': {
      const failure = named({
        type: 'worker_death',
        message: `The worker was silent for ${inWords(life.workerTimeoutMs)} and was declared dead`,
        limitMs: life.workerTimeoutMs,
        source: 'default',
        since: life.worker?.lastSeenAt ?? startedAt,
        isLiveness: true,
      })
      return ended(failure, LAPSED, [stalledEvent(job, failure, 'worker_death', moment.now)], 'lost', 'worker_death')
    }
    default: {
      const clock = visibilityClock(job, life.worker)
      const limitMs = clock?.ms ?? hold.visibleMs
      const failure = named({
        type: 'visibility_timeout',
        message: `The reservation lapsed: neither a result nor a sign of life for ${inWords(limitMs)}`,
        limitMs,
        source: visibilitySource(job, limitMs),
        since: clock?.since ?? startedAt,
        isLiveness: true,
      })
      return ended(
        failure,
        LAPSED,
        [stalledEvent(job, failure, 'visibility_timeout', moment.now)],
        'lost',
        'visibility',
      )
    }
  }
}

/** The whole job is out of time, whatever it was doing. A workflow's clamp cancels; every other total discards. */
function endByTotal(job: Job, due: Due, outages: readonly Outage[], moment: Moment): Step {
  const total = effectiveTotal(job)
  if (total === null) throw broken(`job ${job.id} ran out of a total it does not have`)
  if (total.source === 'workflow') {
    const late = latenessOf(due.at, job.limitsSetAt, moment.upAt, outages, moment.now)
    const step = cancel(job, moment, { reason: 'workflow_timeout' }, late)
    return { ...step, ...told(job, 'timeout', moment.now) }
  }
  const failure = limitFailure(
    job,
    {
      type: 'total_timeout',
      kind: 'total',
      message: `Job exceeded its total timeout of ${inWords(total.ms)}`,
      limitMs: total.ms,
      source: total.source,
      since: job.anchorAt,
      deadlineAt: due.at,
      setAt: job.limitsSetAt,
      retryable: false,
      ...(job.error === null ? {} : { details: { last_error: JSON.parse(job.error) as unknown } }),
    },
    { upAt: moment.upAt, outages },
    moment.now,
  )
  const deadLetter = job.retry.onExhaustion === 'dead_letter'
  const ended = discarded(withFailure({ ...job, ...over(job, false) }, failure), job, deadLetter, moment)
  const events = [timeoutEvent('job.total_timeout', job, failure, moment.now)]
  if (job.state === 'active') events.push(failedEvent(job, failure, moment.now))
  events.push(...discardEvents(ended, failure, moment.now))
  return {
    before: job,
    job: ended,
    events,
    ...told(job, 'timeout', moment.now),
    expired: [{ kind: 'total', overshootMs: millis(failure.overshoot_ms ?? 0) }],
  }
}

/** Too old to start. Never dead-lettered: no attempt was made. */
function endUnstarted(job: Job, due: Due, outages: readonly Outage[], moment: Moment): Step {
  const { now } = moment
  const isTtl = due.kind === 'enqueue_ttl'
  const ttlMs = elapsed(job.anchorAt, due.at)
  const failure = limitFailure(
    job,
    {
      type: isTtl ? 'enqueue_ttl_expired' : 'expired',
      ...(isTtl ? { kind: 'enqueue_ttl' as const } : {}),
      message: isTtl
        ? `Job was not started within its enqueue TTL of ${inWords(ttlMs)}`
        : 'Job was not started before its expires_at',
      limitMs: isTtl ? ttlMs : null,
      source: isTtl ? (job.limits.ttl?.source ?? 'publish') : 'publish',
      since: job.anchorAt,
      deadlineAt: due.at,
      setAt: job.limitsSetAt,
      retryable: false,
    },
    { upAt: moment.upAt, outages },
    now,
  )
  const ended = discarded(withFailure(job, failure), job, false, moment)
  const expired = jobEvent('job.expired', ended, now, {
    created_at: iso(job.createdAt),
    expired_at: iso(due.at),
    ttl_ms: ttlMs,
    elapsed_ms: elapsed(job.anchorAt, now),
    source: failure.source,
    overshoot_ms: failure.overshoot_ms,
    late_ms: failure.late_ms,
    downtime_ms: failure.downtime_ms,
    worker_id: null,
  })
  return {
    before: job,
    job: ended,
    events: [
      ...(isTtl ? [timeoutEvent('job.ttl_expired', ended, failure, now)] : []),
      expired,
      ...discardEvents(ended, failure, now),
    ],
    expired: [{ kind: isTtl ? 'enqueue_ttl' : 'expires_at', overshootMs: millis(failure.overshoot_ms ?? 0) }],
  }
}

// ---- A second life ----

export interface SecondLife {
  readonly limits: Limits
  readonly given: string
  readonly priority: number
}

/** By an operator's hand: limits settled anew, clocks from now, history and lease kept. */
export function retryByHand(job: Job, { limits, given, priority }: SecondLife, { now }: Moment): Step {
  if (job.state !== 'discarded' && job.state !== 'cancelled')
    throw wrongState(job, 'discarded or cancelled', 'retried by hand')
  const again = moved(
    job,
    { at: now, to: 'available', why: 'retried by hand' },
    {
      limits,
      given,
      priority,
      ceiling: null,
      owner: null,
      expiresAt: null,
      attempt: 0,
      interruptions: 0,
      seq: TAIL,
      anchorAt: now,
      limitsSetAt: now,
      enqueuedAt: now,
      reenqueuedAt: now,
      completedAt: null,
      discardedAt: null,
      cancelledAt: null,
      cancelReason: null,
      closedBy: null,
      error: null,
      progress: null,
      retryDelayMs: null,
      nextRetryAt: null,
      deadLetter: false,
      purgeAt: null,
    },
  )
  const events = [enqueued(again, now)]
  if (job.deadLetter) events.unshift(jobEvent('dead_letter.retried', again, now))
  return { before: job, job: again, events }
}

export interface NewLimits {
  readonly limits: Limits
  readonly given: string
  readonly priority: number
  readonly scheduledAt: Instant | null
  readonly expiresAt: Instant | null
}

const PATCHABLE: readonly JobState[] = ['scheduled', 'available', 'pending', 'retryable']

/** Limits, priority and moments of a job that is waiting. Takes effect at once: the caller settles what is due now. */
export function changeLimits(job: Job, changes: NewLimits, moment: Moment): Step {
  if (!PATCHABLE.includes(job.state)) throw wrongState(job, PATCHABLE.join(', '), 'changed')
  const { now } = moment
  const isMoved = changes.scheduledAt !== job.scheduledAt
  const rescheduled = job.state === 'scheduled' || (job.state === 'available' && isMoved)
  const state: JobState = !rescheduled
    ? job.state
    : changes.scheduledAt !== null && changes.scheduledAt > now
      ? 'scheduled'
      : 'available'
  // A job that waits for its retry does not start before the moment it was moved to.
  const nextRetryAt = isMoved ? latest(job.nextRetryAt, changes.scheduledAt) : job.nextRetryAt
  const changed: Job = { ...job, ...changes, nextRetryAt, limitsSetAt: now }
  const event = jobEvent('job.limits_changed', changed, now)
  if (state === job.state) {
    const kept = armed(changed)
    const isOver = isDue(totalAt(kept), now)
    // It waits for its total already, and ends with that.
    const isHeld = job.nextRetryAt !== null && isDue(totalAt(job), job.nextRetryAt)
    if (
      !isOver &&
      !isHeld &&
      kept.state === 'retryable' &&
      kept.nextRetryAt !== null &&
      !fitsTotal(kept, kept.nextRetryAt, millis(0))
    ) {
      const lastError = kept.error === null ? null : (JSON.parse(kept.error) as Failure)
      const step = outOfTime(kept, kept, null, moment, [event], job.retry.onExhaustion === 'dead_letter', lastError)
      return { ...step, before: job }
    }
    return { before: job, job: kept, events: [event] }
  }
  if (state === 'available') {
    const step = release(changed, moment)
    return { before: job, job: step.job, events: [event, ...step.events] }
  }
  const later = moved(changed, { at: now, to: 'scheduled' }, { enqueuedAt: null })
  return { before: job, job: later, events: [event, ...scheduledEvent(later, now)] }
}

/** Only a job that has a moment of its own can be put off. */
function latest(own: Instant | null, moved: Instant | null): Instant | null {
  return own !== null && moved !== null && moved > own ? moved : own
}

// ---- Signs of life ----

/** Progress and checkpoints prove that the handler lives: both clocks begin anew. */
export function signOfLife(job: Job, now: Instant): Job {
  if (job.hold === null) return job
  const hold = { ...job.hold, signAt: now, visibleFrom: now, visibleMs: job.hold.visibility.ms }
  return rearmedLazily(job, { ...job, hold })
}

/** The worker no longer lists (or no longer vouches for) the job: what its last beat said is kept on the job's row. */
export function absorbBeat(job: Job, worker: Worker): Job {
  const signAt = lastSignAt(job, worker)
  const visible = visibilityClock(job, worker)
  if (job.hold === null || signAt === null || visible === null) return job
  const hold = { ...job.hold, signAt, visibleFrom: visible.since, visibleMs: visible.ms }
  return rearmedLazily(job, { ...job, hold })
}

export interface ProgressReport {
  readonly value: number | null
  readonly message: string | null
  readonly data: Json | null
}

/** Numbers are clamped to 0…1 and never go back; message and data replace what was there. */
export function reportProgress(job: Job, report: ProgressReport, now: Instant): Step {
  const known = job.progress
  const clamped = report.value === null ? null : Math.min(1, Math.max(0, report.value))
  const value = clamped === null ? (known?.value ?? null) : Math.max(clamped, known?.value ?? 0)
  const tell = known === null || now - known.toldAt >= 1000
  const progress: Progress = {
    value,
    message: report.message ?? known?.message ?? null,
    data: report.data ?? known?.data ?? null,
    updatedAt: now,
    toldAt: tell ? now : known.toldAt,
  }
  const next = { ...signOfLife(job, now), progress }
  const event = jobEvent('job.progress', next, now, {
    worker_id: job.hold?.workerId ?? null,
    attempt: job.attempt,
    progress_percent: value === null ? null : value * 100,
    progress_message: progress.message,
  })
  return { before: job, job: next, events: tell ? [event] : [] }
}

// ---- Shared parts ----

/** Arms the row: `wakeAt` follows from the job alone. */
function armed(job: Job): Job {
  return { ...job, wakeAt: wakeAtOf(job) }
}

function moved(job: Job, entry: LifeEntry, changes: Partial<Job>): Job {
  return armed({ ...job, ...changes, state: entry.to, life: appendLife(job.life, entry) })
}

/** A beat may also bring a deadline nearer (a shorter reservation): then the row must be woken earlier. */
export function wokenInTime(job: Job, life: Liveness): Job {
  return rearmedLazily(job, job, life)
}

/** An earlier `wakeAt` is kept: it will find the renewed clock when it comes, and costs no index change now. */
function rearmedLazily(before: Job, next: Job, life: Liveness = ROW_ALONE): Job {
  const wakeAt = wakeAtOf(next, life)
  return {
    ...next,
    wakeAt: before.wakeAt !== null && wakeAt !== null && before.wakeAt <= wakeAt ? before.wakeAt : wakeAt,
  }
}

/** The attempt is over: nobody holds the job. `reported`: by an accepted ACK or FAIL of its holder. */
function over(job: Job, reported: boolean): Pick<Job, 'hold' | 'closedBy'> {
  return {
    hold: null,
    closedBy: reported
      ? { workerId: job.hold?.workerId ?? null, attempt: job.attempt, lease: job.lease }
      : job.closedBy,
  }
}

function endAttempt(
  job: Job,
  failure: Failure,
  facts: FailureFacts,
  moment: Moment,
  lead: NewEvent[],
  reported: boolean,
  stoppedByTotal = false,
): Step {
  const { now } = moment
  const verdict = verdictOn(job, facts, now, moment.random)
  const ended = withFailure({ ...job, ...over(job, reported) }, failure)
  const events = [...lead, failedEvent(job, failure, now)]
  if (stoppedByTotal && verdict.kind !== 'retry') {
    const because = verdict.kind === 'discard' ? verdict.because : 'total_timeout'
    const held = heldUntilTotal(job, ended, { why: failure.type, ...noRetry(job, because) }, now)
    if (held !== null)
      return { before: job, job: held, events: [...events, retryingEvent(held, failure, null, now, because)] }
  }
  if (verdict.kind === 'out-of-time') return outOfTime(job, ended, failure, moment, events, verdict.deadLetter, failure)
  if (verdict.kind === 'discard') {
    const gone = discarded(ended, job, verdict.deadLetter, moment, noRetry(job, verdict.because))
    return { before: job, job: gone, events: [...events, ...discardEvents(gone, failure, now, verdict.because)] }
  }
  const isEarly = failure.timeout_kind === undefined && failure.early_ms !== undefined
  const why = {
    why: failure.type,
    ...softMark(job, now),
    ...(isEarly ? { early: millis(failure.early_ms) } : {}),
  }
  if (facts.lapsed) {
    const back = moved(ended, { at: now, to: 'available', ...why }, { enqueuedAt: now, seq: TAIL, nextRetryAt: null })
    return { before: job, job: back, events: [...events, retryingEvent(back, failure, now, now), enqueued(back, now)] }
  }
  const nextRetryAt = after(now, verdict.delayMs)
  const waiting = moved(
    ended,
    { at: now, to: 'retryable', backoff: verdict.delayMs, ...why },
    { nextRetryAt, retryDelayMs: verdict.delayMs },
  )
  return { before: job, job: waiting, events: [...events, retryingEvent(waiting, failure, nextRetryAt, now)] }
}

type NotTriedAgain = Pick<LifeEntry, 'noRetry'>

function noRetry({ hold }: Job, because: NoRetry): NotTriedAgain {
  return { noRetry: because === 'x_on_timeout' && hold !== null ? [because, hold.onTimeout.source] : [because] }
}

/**
 * A worker that stops because the total is running out is early by the reserve, or by its clock. That ends its attempt; the
 * job is ended by the total alone, when it comes.
 */
function heldUntilTotal(job: Job, ended: Job, why: Pick<LifeEntry, 'why' | 'noRetry'>, now: Instant): Job | null {
  const nextRetryAt = totalAt(job)
  if (nextRetryAt === null || isDue(nextRetryAt, now)) return null
  return moved(ended, { at: now, to: 'retryable', ...why, ...softMark(job, now) }, { nextRetryAt, retryDelayMs: null })
}

/** No attempt is left, and nothing to wait for: its last failure ends it. */
function giveUp(job: Job, moment: Moment): Step {
  const gone = discarded(job, job, job.retry.onExhaustion === 'dead_letter', moment, noRetry(job, 'max_attempts'))
  const failure = JSON.parse(job.error ?? 'null') as Failure | null
  if (failure === null) throw broken(`job ${job.id} has used its attempts without a failure`)
  return { before: job, job: gone, events: discardEvents(gone, failure, moment.now, 'max_attempts') }
}

/** Another attempt could not end inside the total: given up now instead of then. */
function outOfTime(
  job: Job,
  ended: Job,
  failure: Failure | null,
  moment: Moment,
  events: NewEvent[],
  deadLetter: boolean,
  lastError: Failure | null = failure,
): Step {
  const { now } = moment
  // A workflow's ceiling takes no part in the fit test, so it cannot be the limit that was missed.
  const total = effectiveTotal(job.ceiling?.source === 'workflow' ? { ...job, ceiling: null } : job)
  if (total === null) throw broken(`job ${job.id} does not fit a total it does not have`)
  const base = limitFailure(
    job,
    {
      type: 'total_timeout',
      kind: 'total',
      message: `Another attempt could not end within the total timeout of ${inWords(total.ms)}`,
      limitMs: total.ms,
      source: total.source,
      since: job.anchorAt,
      deadlineAt: total.at,
      setAt: job.limitsSetAt,
      retryable: false,
      details: {
        predicted: true,
        ...(lastError === null ? {} : { last_error: JSON.parse(failureText(lastError)) as unknown }),
      },
    },
    { upAt: moment.upAt, outages: [] },
    now,
  )
  const { deadline: _deadline, overshoot_ms: _overshoot, late_ms: _late, downtime_ms: _downtime, ...foreseen } = base
  const gone = discarded(withFailure(ended, foreseen), job, deadLetter, moment, noRetry(job, 'total_timeout'))
  return {
    before: job,
    job: gone,
    events: [
      ...events,
      timeoutEvent('job.total_timeout', job, foreseen, now),
      ...discardEvents(gone, foreseen, now, 'total_timeout'),
    ],
    expired: [{ kind: 'total', overshootMs: null }],
  }
}

function discarded(
  ended: Job,
  before: Job,
  deadLetter: boolean,
  { now, retention }: Moment,
  why: NotTriedAgain = {},
): Job {
  const kept = keptFor(ended, retention)
  const likeCompleted = why.noRetry?.[0] === 'x_on_timeout'
  const keptMs = deadLetter ? kept.deadLetterMs : likeCompleted ? kept.completedMs : kept.discardedMs
  return moved(
    ended,
    { at: now, to: 'discarded', ...softMark(before, now), ...why },
    {
      discardedAt: now,
      completedAt: before.attempt > 0 ? now : null,
      nextRetryAt: null,
      deadLetter,
      purgeAt: after(now, keptMs),
    },
  )
}

function discardEvents(job: Job, failure: Failure, now: Instant, because?: NoRetry): NewEvent[] {
  const data = {
    total_attempts: job.attempt,
    last_error: brief(failure),
    ...(because === undefined ? {} : { no_retry: because }),
  }
  const events = [jobEvent('job.discarded', job, now, data)]
  if (job.deadLetter) events.push(jobEvent('dead_letter.added', job, now, { last_error: brief(failure) }))
  return events
}

/** Where the handler was asked to stop, when the attempt lived beyond it: the grace it used. */
function softMark(job: Job, now: Instant): { soft?: Instant } {
  const soft = graceSince(job, now)
  return soft !== null && soft < now ? { soft } : {}
}

function told(job: Job, reason: Notice['reason'], now: Instant): { notice?: { workerId: string; notice: Notice } } {
  const workerId = job.hold?.workerId ?? null
  return workerId === null ? {} : { notice: { workerId, notice: { jobId: job.id, lease: job.lease, reason, at: now } } }
}

const scheduledEvent = (job: Job, now: Instant): NewEvent[] =>
  job.scheduledAt === null ? [] : [jobEvent('job.scheduled', job, now, { scheduled_at: iso(job.scheduledAt) })]

const enqueued = (job: Job, now: Instant): NewEvent => jobEvent('job.enqueued', job, now, { priority: job.priority })

const durationMs = (job: Job, now: Instant): Millis =>
  job.startedAt === null ? millis(0) : elapsed(job.startedAt, now)

/** JSON leaves out what is undefined: failures that no limit caused have none of its fields. */
const brief = (failure: Failure): Record<string, unknown> => ({
  code: failure.code,
  type: failure.type,
  message: failure.message,
  retryable: failure.retryable,
  timeout_kind: failure.timeout_kind,
  limit_ms: failure.limit_ms,
  elapsed_ms: failure.elapsed_ms,
  excused_ms: failure.excused_ms,
  source: failure.source,
  overshoot_ms: failure.overshoot_ms,
})

function failedEvent(job: Job, failure: Failure, now: Instant): NewEvent {
  return jobEvent('job.failed', job, now, {
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    error: brief(failure),
    duration_ms: durationMs(job, now),
  })
}

/** `nextAt` null: no retry is planned, and the total ends the job; `because` says why. */
function retryingEvent(job: Job, failure: Failure, nextAt: Instant | null, now: Instant, because?: NoRetry): NewEvent {
  return jobEvent('job.retrying', job, now, {
    attempt: job.attempt,
    max_attempts: job.retry.maxAttempts,
    next_retry_at: nextAt === null ? null : iso(nextAt),
    no_retry: because,
    error: brief(failure),
  })
}

/** `job`: as it was before the decision, so that the event names the worker that held it. */
function timeoutEvent(type: EventType, job: Job, failure: Failure, now: Instant, more: object = {}): NewEvent {
  return jobEvent(type, job, now, {
    timeout_kind: failure.timeout_kind,
    limit_seconds: failure.limit_seconds,
    limit_ms: failure.limit_ms,
    elapsed_seconds: failure.elapsed_seconds,
    elapsed_ms: failure.elapsed_ms,
    excused_ms: failure.excused_ms,
    source: failure.source,
    overshoot_ms: failure.overshoot_ms,
    late_ms: failure.late_ms,
    downtime_ms: failure.downtime_ms,
    attempt: job.attempt,
    worker_id: job.hold?.workerId ?? null,
    ...more,
  })
}

/** Every way in which an attempt falls silent: one event to alert on, with its cause (ADR 0047). */
function stalledEvent(
  job: Job,
  failure: Failure,
  cause: 'heartbeat_timeout' | 'worker_death' | 'visibility_timeout',
  now: Instant,
): NewEvent {
  return timeoutEvent('job.stalled', job, failure, now, { timeout_kind: 'stalled', cause })
}

function inWords(ms: Millis): string {
  const inSeconds = ms / 1000
  return `${String(inSeconds)} second${inSeconds === 1 ? '' : 's'}`
}

function wrongState(job: Job, expected: string, what: string): OjsError {
  return new OjsError('conflict', `A job that is ${job.state} cannot be ${what}.`, {
    details: { job_id: job.id, current_state: job.state, expected_state: expected },
  })
}
