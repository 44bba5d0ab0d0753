/** What time does to a job. `nextDue` says which limit ran out; this file says what becomes of the job. */
import { broken } from '../../errors.ts'
import type { NewEvent } from '../../events.ts'
import { jobEvent } from '../../wire/events.ts'
import { effectiveTotal } from '../deadlines.ts'
import { nextDue, wakeAtOf, type Due } from '../due.ts'
import { latenessOf } from '../lateness.ts'
import { lastSignAt, visibilityClock, visibilitySource, type Liveness, type Outage } from '../liveness.ts'
import type { LimitEnding } from '../failures.ts'
import { lastError, overshootIn, limitFailure, withFailure, type Failure } from '../../wire/job/failure.ts'
import type { Job } from '../job.ts'
import { release } from './admit.ts'
import { cancel } from './change.ts'
import { discarded, endAttempt, giveUp } from './ending.ts'
import { inWords, over, noticeTo, type LimitKind, type Moment, type Step, type Transition } from './transition.ts'
import { isNonRetryable, isSpent, LAPSED, STALLED, TIMED_OUT, type FailureFacts } from '../retry.ts'
import type { Notice } from '../worker.ts'
import { elapsed, isDue } from '../../time/sums.ts'
import { expiredEvent, discardEvents, failedEvent, stalledEvent, timeoutEvent } from '../../wire/job/job-events.ts'

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
    const expired = [{ kind, overshootMs: overshootIn(failure) }, ...(step.expired ?? [])]
    return { ...step, ...noticeTo(job, reason, moment.now), expired }
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
    return { ...step, ...noticeTo(job, 'timeout', moment.now) }
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
      ...(job.error === null ? {} : { details: lastError(job.error) }),
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
    ...noticeTo(job, 'timeout', moment.now),
    expired: [{ kind: 'total', overshootMs: overshootIn(failure) }],
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
  return {
    before: job,
    job: ended,
    events: [
      ...(isTtl ? [timeoutEvent('job.ttl_expired', ended, failure, now)] : []),
      expiredEvent(job, ended, due.at, failure, now),
      ...discardEvents(ended, failure, now),
    ],
    expired: [{ kind: isTtl ? 'enqueue_ttl' : 'expires_at', overshootMs: overshootIn(failure) }],
  }
}
