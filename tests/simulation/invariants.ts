/** The promises, each as a check on what was saved or shown. What must be true comes from the model. */
import { isTerminal, type Job, type JobState } from '@curfew/core'
import type { Change } from '../../packages/server/src/store/store.ts'
import type { Fields } from './calls.ts'
import type { Model } from './model/model.ts'
import { executionAt, hardAt, runsOutAt, softAt, softStop, totalAt, ttlAt, type ModelJob } from './model/records.ts'
import { insist, type Invariant } from './violation.ts'

// ---- On every change of a row ----

const WAYS: Readonly<Record<JobState, readonly JobState[]>> = {
  scheduled: ['available', 'cancelled', 'discarded'],
  pending: ['available', 'cancelled', 'discarded'],
  available: ['active', 'scheduled', 'cancelled', 'discarded'],
  active: ['completed', 'retryable', 'available', 'cancelled', 'discarded'],
  retryable: ['available', 'cancelled', 'discarded'],
  completed: [],
  cancelled: ['available'],
  discarded: ['available'],
}

/** One turn may take several steps at once. */
function leadsTo(from: JobState, to: JobState): boolean {
  if (from === to) return true
  const next = WAYS[from]
  return (
    next.includes(to) || (!isTerminal(from) && next.some((state) => !isTerminal(state) && WAYS[state].includes(to)))
  )
}

export function checkChange({ before, after }: Change<Job>, now: number): void {
  if (after === null) {
    insist('oneEnding', before !== null && isTerminal(before.state) && (before.purgeAt ?? Infinity) <= now, () => {
      return `${String(before?.id)} was removed at ${String(now)} while ${String(before?.state)} (kept until ${String(before?.purgeAt)})`
    })
    return
  }
  const { id } = after
  insist('oneLease', (after.state === 'active') === (after.hold !== null), () => {
    return `${id} is ${after.state} and ${after.hold === null ? 'no worker' : String(after.hold.workerId)} holds it`
  })
  insist('attempts', after.attempt - after.interruptions <= Math.max(1, after.retry.maxAttempts), () => {
    return `${id} is at attempt ${String(after.attempt)}, ${String(after.interruptions)} refunded, of ${String(after.retry.maxAttempts)}`
  })
  if (before === null) return
  if (isTerminal(before.state)) checkTerminal(before, after, now)
  insist('cause', leadsTo(before.state, after.state), () => `${id} went from ${before.state} to ${after.state}`)
  const claims = after.lease - before.lease
  const mayClaim = before.state !== 'active' || after.state !== 'active'
  insist(
    'oneLease',
    claims === 0 ? after.state !== 'active' || before.state === 'active' : claims === 1 && mayClaim,
    () => {
      return `${id} went from ${before.state} (lease ${String(before.lease)}) to ${after.state} (lease ${String(after.lease)})`
    },
  )
}

/** Only an operator's hand gives a second life. */
function checkTerminal(before: Job, after: Job, now: number): void {
  const again = !isTerminal(after.state) && after.reenqueuedAt === now
  const strip = ({ wakeAt: _wakeAt, seq: _seq, version: _version, ...rest }: Job): string => JSON.stringify(rest)
  insist('oneEnding', again || strip(before) === strip(after), () => {
    return `${before.id} was ${before.state} and changed: ${strip(before)} → ${strip(after)}`
  })
}

// ---- The row against the model ----

export function checkRow(model: Model, id: string, row: Job | undefined): void {
  const job = model.jobs.get(id)
  const rule = model.rules.get(id) ?? 'cause'
  if (job === undefined || row === undefined) {
    insist(rule === 'cause' ? 'durable' : rule, job === undefined && row === undefined, () => {
      return row === undefined
        ? `${id} is not stored and should be ${String(job?.state)}`
        : `${id} is stored as ${row.state} and should not be`
    })
    return
  }
  const error =
    row.error === null ? null : (JSON.parse(row.error) as { type: string; deadline?: string; overshoot_ms?: number })
  const differs = (promise: Invariant, what: string, expected: unknown, found: unknown): void => {
    insist(promise, JSON.stringify(expected ?? null) === JSON.stringify(found ?? null), () => {
      const why = error === null ? '' : ` (error ${error.type}, deadline ${String(error.deadline)})`
      return `${id} at ${String(model.now)}: ${what} is ${JSON.stringify(found ?? null)}${why} and should be ${JSON.stringify(expected ?? null)}${job.ending === null ? '' : ` (ending ${job.ending.type})`}`
    })
  }
  differs(rule, 'state', job.state, row.state)
  differs('oneLease', 'lease', job.lease, row.lease)
  differs('oneLease', 'holder', job.hold?.workerId, row.hold?.workerId)
  differs('attempts', 'attempt', job.attempt, row.attempt)
  differs('attempts', 'interruptions', job.interruptions, row.interruptions)
  if (job.state !== 'completed') differs('reason', 'error type', job.ending?.type, error?.type)
  if (job.ending !== null && job.ending.deadlineAt !== null && job.state !== 'completed') {
    differs('reason', 'deadline of the error', new Date(job.ending.deadlineAt).toISOString(), error?.deadline)
    differs('overshoot', 'overshoot', job.ending.overshootMs, error?.overshoot_ms)
  }
  differs('reason', 'number of errors', job.errors.length, row.errorCount)
  differs('reason', 'history', job.errors, historyOf(row))
  differs('retry', 'dead letter', job.deadLetter, row.deadLetter)
  differs('retry', 'next retry', job.retryAt, row.nextRetryAt)
  differs('oneEnding', 'purge', job.purgeAt, row.purgeAt)
  differs('stale', 'closed by', job.closedBy, row.closedBy)
  differs('durable', 'checkpoint', job.checkpoint?.sequence ?? 0, row.checkpointSeq)
  if (job.state === 'completed') differs('durable', 'result', JSON.stringify(job.result), row.result)
  differs('limits', 'priority', job.priority, row.priority)
  checkLimits(job, row, differs)
  checkWake(model, job, row)
}

function historyOf({ errors }: Job): ModelJob['errors'] {
  const entries = JSON.parse(`[${errors}]`) as { interrupted?: true }[]
  return entries.map(({ interrupted }) => (interrupted === true ? 'hand-back' : 'failure'))
}

type Differs = (promise: Invariant, what: string, expected: unknown, found: unknown) => void

function checkLimits(job: ModelJob, row: Job, differs: Differs): void {
  const length = (limit: { ms: number; source: string } | null): unknown =>
    limit === null ? null : [limit.ms, limit.source]
  differs('limits', 'total', length(job.limits.total), length(row.limits.total))
  differs('limits', 'enqueue_ttl', length(job.limits.ttl), length(row.limits.ttl))
  differs('limits', 'timeout', length(job.limits.timeout), length(row.limits.timeout))
  differs('limits', 'anchor', job.anchorAt, row.anchorAt)
  differs('limits', 'scheduled_at', job.scheduledAt, row.scheduledAt)
  differs('limits', 'expires_at', job.expiresAt, row.expiresAt)
  differs('child', 'ceiling', job.ceilingAt, row.ceiling?.at)
  const { hold } = job
  if (hold === null || row.hold === null) return
  differs('limits', 'timeout of the attempt', length(hold.timeout), length(row.hold.timeout))
  differs('limits', 'grace', length(hold.grace), length(row.hold.grace))
  differs('limits', 'heartbeat', length(hold.heartbeat), length(row.hold.heartbeat))
  differs('limits', 'visibility', length(hold.visibility), length(row.hold.visibility))
  differs('limits', 'x_on_timeout', hold.onTimeout, row.hold.onTimeout.mode)
  differs('limits', 'started_at', hold.startedAt, row.startedAt)
}

/** A worker's death stands on the worker's row; everything else the job's own row must not sleep through. */
function checkWake(model: Model, job: ModelJob, row: Job): void {
  const due = model.dueOf(job)
  if (due === null || due.kind === 'worker_death') return
  insist('wake', row.wakeAt !== null && row.wakeAt <= due.at, () => {
    return `${job.id} sleeps until ${String(row.wakeAt)}; ${due.kind} is due at ${String(due.at)}`
  })
}

// ---- What is shown ----

export function checkShown(
  model: Model,
  job: ModelJob,
  view: Fields,
  how: { handedOut: boolean; lively: boolean },
): void {
  const { now } = model
  const limits = view['x_limits'] as Fields
  const isOpen = !isTerminal(view['state'] as JobState)
  const last = Math.min(
    totalAt(job) ?? Infinity,
    view['state'] === 'active' && job.hold !== null ? executionAt(job.hold) : Infinity,
  )
  insist(
    'seenLate',
    !isOpen || last > now,
    () => `${job.id} was shown as ${String(view['state'])} at ${String(now)}, past ${String(last)}`,
  )
  const same = (promise: Invariant, what: string, expected: unknown, found: unknown): void => {
    insist(promise, (expected ?? null) === (found ?? null), () => {
      return `the answer shows ${what} of ${job.id} as ${String(found)}; it should be ${String(expected)}`
    })
  }
  const at = (instant: number | null): string | null => (instant === null ? null : new Date(instant).toISOString())
  same('seenLate', 'state', job.state, view['state'])
  same('attempts', 'attempt', job.attempt, view['attempt'])
  same('attempts', 'x_interruptions', job.interruptions === 0 ? null : job.interruptions, view['x_interruptions'])
  same('grace', 'total_deadline', at(totalAt(job)), limits['total_deadline'])
  same('grace', 'soft_deadline', at(softAt(job)), limits['soft_deadline'])
  same('grace', 'soft_limit', softStop(job)?.limit, limits['soft_limit'])
  same('grace', 'hard_deadline', at(hardAt(job)), limits['hard_deadline'])
  if (isOpen) same('limits', 'ttl_deadline', at(ttlAt(job)), limits['ttl_deadline'])
  if (how.lively && job.hold !== null) {
    same(
      'answers',
      'visibility_deadline',
      at(runsOutAt(job.hold.visible, model.turn.silences)),
      limits['visibility_deadline'],
    )
  }
  if (!how.handedOut) return
  same('oneLease', 'x_lease', job.lease, view['x_lease'])
  same('grace', 'soft_ms', left(softAt(job), now), limits['soft_ms'])
  same('grace', 'hard_ms', left(hardAt(job), now), limits['hard_ms'])
  same(
    'limits',
    'beat_ms',
    left(job.hold?.sign == null ? null : runsOutAt(job.hold.sign, model.turn.silences), now),
    limits['beat_ms'],
  )
  const kept = view['last_checkpoint'] === undefined ? null : JSON.stringify(view['last_checkpoint'])
  same('durable', 'last_checkpoint', job.checkpoint?.state, kept)
}

function left(at: number | null, now: number): number | null {
  return at === null ? null : Math.max(0, at - now)
}
