/**
 * A small world: one job, one worker, and people who do things to it at any time and in any order. After every step
 * the job must be one that can exist, and its events must tell the same story as its row.
 */
import fc from 'fast-check'
import {
  aBeat,
  admitted,
  asked,
  aWorker,
  errorsOf,
  later,
  livenessOf,
  moment,
  NOON,
  published,
  type JobTraits,
} from '../../builders.suite.ts'
import { millis, type Instant } from '../../time/clock.ts'
import { executionAt, expiryAt, hardDeadlineAt, softDeadlineAt, totalAt, ttlAt } from '../deadlines.ts'
import { nextDue } from '../due.ts'
import { stallAt, visibilityAt, type Liveness } from '../liveness.ts'
import { OjsError } from '../../errors.ts'
import type { EventType } from '../../events.ts'
import type { Failure } from '../../wire/job/failure.ts'
import { isTerminal, type Job, type JobState } from '../job.ts'
import { activate } from './admit.ts'
import { cancel, changeLimits, retryByHand } from './change.ts'
import { expire } from './expire.ts'
import { staleReason } from './fence.ts'
import {
  abandon,
  absorbBeat,
  complete,
  fail,
  interrupt,
  reportProgress,
  signOfLife,
  snooze,
  wokenInTime,
} from './report.ts'
import { start } from './start.ts'
import type { Transition } from './transition.ts'
import type { Worker } from '../worker.ts'

// ---- What may happen, and when ----

// Limits are rare enough, and time slow enough, that most jobs live through several attempts.
const seldom = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value })
const length = fc.integer({ min: 1, max: 60_000 })
const soon = fc.integer({ min: -5_000, max: 120_000 }).map((offset) => later(NOON, offset))
const given = <T extends object>(record: fc.Arbitrary<T>): fc.Arbitrary<JobTraits> =>
  record.map((fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)))
const limits = given(
  fc.record({
    timeoutMs: seldom(length),
    graceMs: seldom(fc.nat(5_000)),
    heartbeatMs: seldom(length),
    visibilityMs: seldom(length),
    totalMs: seldom(fc.integer({ min: 1, max: 300_000 })),
    ttlMs: seldom(length),
    onTimeout: seldom(fc.constantFrom('retry', 'discard')),
  }),
)
export const traits = fc
  .tuple(
    limits,
    given(
      fc.record({
        scheduledAt: seldom(soon),
        expiresAt: seldom(soon),
        pending: seldom(fc.constant(true)),
        ceiling: seldom(fc.record({ at: soon, source: fc.constantFrom('parent', 'workflow') })),
      }),
    ),
    fc.record({
      maxAttempts: fc.nat(6),
      initialMs: fc.integer({ min: 1, max: 5_000 }).map(millis),
      onExhaustion: fc.constantFrom('discard', 'dead_letter'),
      nonRetryable: fc.constantFrom([], [], ['timeout'], ['stalled', 'boom']),
    }),
  )
  .map(([own, more, retry]) => ({ ...own, ...more, retry }))

const ACTS = {
  claim: 12,
  complete: 1,
  fail: 4,
  timeout: 2,
  interrupt: 2,
  abandon: 1,
  cancel: 1,
  activate: 2,
  patch: 2,
  retry: 3,
  sign: 1,
  progress: 2,
  beat: 3,
  silence: 1,
  wait: 2,
}
export interface Deed {
  readonly act: keyof typeof ACTS
  readonly wait: number
  /** Time stops at every instant on the way at which the row wakes, instead of jumping. */
  readonly punctual: boolean
  readonly known: boolean
  readonly chance: number
  readonly limits: JobTraits
  readonly word: string | undefined
}
export const deed: fc.Arbitrary<Deed> = fc.record({
  act: fc.constantFrom(
    ...Object.entries(ACTS).flatMap(([act, times]) => Array<keyof typeof ACTS>(times).fill(act as keyof typeof ACTS)),
  ),
  wait: fc.oneof(
    { weight: 2, arbitrary: fc.constant(0) },
    { weight: 6, arbitrary: fc.nat(5_000) },
    { weight: 1, arbitrary: fc.nat(60_000) },
  ),
  punctual: fc.boolean(),
  known: fc.boolean(),
  chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
  limits,
  word: fc.constantFrom(undefined, undefined, undefined, 'DISCARD', 'DEAD_LETTER', 'RETRY'),
})

const LEGAL: Record<JobState, JobState[]> = {
  scheduled: ['scheduled', 'available', 'cancelled', 'discarded'],
  pending: ['pending', 'available', 'cancelled', 'discarded'],
  available: ['available', 'active', 'scheduled', 'cancelled', 'discarded'],
  active: ['active', 'completed', 'retryable', 'available', 'scheduled', 'cancelled', 'discarded'],
  retryable: ['retryable', 'available', 'cancelled', 'discarded'],
  completed: ['completed'],
  cancelled: ['cancelled', 'available'],
  discarded: ['discarded', 'available'],
}

/** What a reader of the events alone would take the job's state to be. */
const TELLS: Partial<Record<EventType, JobState>> = {
  'job.enqueued': 'available',
  'job.scheduled': 'scheduled',
  'job.started': 'active',
  'job.completed': 'completed',
  'job.retrying': 'retryable',
  'job.discarded': 'discarded',
  'job.cancelled': 'cancelled',
}

/** Cheaper than `expect` by two orders of magnitude, and asked a hundred thousand times. */
function must(promise: string, kept: boolean, ...seen: unknown[]): void {
  if (!kept) throw new Error(`${promise}: ${JSON.stringify(seen)}`)
}

function codeOf(act: () => unknown): unknown {
  try {
    act()
  } catch (error) {
    return error instanceof OjsError ? error.code : error instanceof Error ? error.message : null
  }
  return 'allowed'
}

export class World {
  now: Instant = NOON
  job: Job | null
  worker: Worker = aWorker({ known: true })
  /** The state as the events tell it. */
  told: JobState

  constructor(given: JobTraits) {
    const { job } = admitted(given)
    this.job = job
    this.told = job.state
    this.check(job)
  }

  get life(): Liveness {
    return livenessOf(this.worker)
  }

  run({ act, wait, punctual, known, chance, limits: changes, word }: Deed): void {
    this.pass(wait, punctual)
    if (this.job === null) return
    const job = this.job
    const at = moment(this.now, { random: () => chance })
    const holds = staleReason(job, { lease: job.lease }) === null
    const spoken = (): void => void (this.worker = { ...this.worker, known: true, diedAt: null, lastSeenAt: this.now })
    switch (act) {
      case 'claim': {
        const claim = { workerId: 'w1', known, handler: null, fetchVisibilityMs: null }
        if (job.state !== 'available') {
          return must(
            'only an available job is claimed',
            String(codeOf(() => start(job, claim, at))).includes('cannot start'),
            job.state,
          )
        }
        for (const limit of [totalAt(job), ttlAt(job), expiryAt(job)]) {
          must('nothing starts with an empty budget', limit === null || this.now < limit, limit)
        }
        if (known) spoken()
        // Within one millisecond a beat before the claim looks like one after it, so none is kept here.
        if (this.worker.beat?.at === this.now) this.worker = { ...this.worker, beat: null }
        return this.apply(start(job, claim, at))
      }
      case 'complete':
        return holds ? this.apply(complete(job, '1', at)) : undefined
      case 'fail':
        return holds
          ? this.apply(fail(job, { type: 'boom', message: '', ...(word === undefined ? {} : { code: word }) }, at))
          : undefined
      case 'timeout':
        return holds ? this.apply(fail(job, { type: 'timeout', message: '' }, at)) : undefined
      case 'interrupt':
        if (!holds) return
        if (known) return this.apply(interrupt(job, null, at))
        return this.snooze(job, later(this.now, wait - 1_000))
      case 'abandon':
        return holds ? this.apply(abandon(job, at)) : undefined
      case 'sign':
        return holds ? this.apply({ before: job, job: signOfLife(job, this.now), events: [] }) : undefined
      case 'progress':
        return holds
          ? this.apply(reportProgress(job, { value: chance, message: null, data: null }, this.now))
          : undefined
      case 'beat':
        spoken()
        this.worker = { ...this.worker, beat: aBeat(this.now, known ? {} : { visibilityMs: millis(1 + wait) }) }
        if (holds) this.apply({ before: job, job: wokenInTime(job, this.life), events: [] })
        return
      case 'silence': // The worker no longer lists the job: what it had said is kept on the row.
        this.apply({ before: job, job: absorbBeat(job, this.worker), events: [] })
        this.worker = { ...this.worker, beat: null }
        return
      case 'cancel':
        return isTerminal(job.state)
          ? this.refused(() => cancel(job, at, { reason: 'request' }))
          : this.apply(cancel(job, at, { reason: 'request' }))
      case 'activate':
        return job.state === 'pending' ? this.apply(activate(job, at)) : this.refused(() => activate(job, at))
      case 'retry': {
        const again = (): Transition =>
          retryByHand(job, { limits: published(asked(changes)), given: '', priority: job.priority }, at)
        return job.state === 'discarded' || job.state === 'cancelled' ? this.apply(again()) : this.refused(again)
      }
      case 'patch': {
        const scheduledAt = known ? later(this.now, wait - 10_000) : job.scheduledAt
        const patched = (): Transition =>
          changeLimits(
            job,
            { limits: published(asked(changes)), given: '', priority: 1, scheduledAt, expiresAt: job.expiresAt },
            at,
          )
        if (job.state === 'active' || isTerminal(job.state)) return this.refused(patched)
        this.apply(patched())
        return this.settle()
      }
      case 'wait':
        return
    }
  }

  /** Handed back until then: never beyond a total. */
  snooze(job: Job, until: Instant): void {
    const back = (): Transition => snooze(job, null, until, '', moment(this.now))
    const total = totalAt(job)
    if (until > this.now && total !== null && total <= until)
      return must('no job sleeps beyond its total', codeOf(back) === 'validation_error', until)
    this.apply(back())
    must('it sleeps until then', until <= this.now || this.job?.scheduledAt === until, until)
  }

  /** Time passes; whatever is due is settled, at its own instant or late. */
  pass(wait: number, punctual: boolean): void {
    const until = later(this.now, wait)
    while (punctual && this.job?.wakeAt !== undefined && this.job.wakeAt !== null && this.job.wakeAt < until) {
      this.now = this.job.wakeAt > this.now ? this.job.wakeAt : this.now
      this.settle()
    }
    this.now = until
    this.settle()
  }

  settle(): void {
    for (let steps = 0; this.job !== null; steps += 1) {
      must('settling comes to an end', steps < 10)
      const step = expire(this.job, this.life, moment(this.now))
      if (step === null) break
      this.apply(step)
    }
    const next = this.job === null ? null : nextDue(this.job, this.life)
    must('nothing stays due once it is settled', next === null || next.at > this.now, next)
  }

  refused(act: () => unknown): void {
    must('what is not legal is refused as a conflict', codeOf(act) === 'conflict', this.job?.state)
  }

  apply({ before, job, events, notice }: Transition): void {
    for (const { type, at, subject, queue } of events) {
      must(
        'an event has the time of its cause, and is about this job',
        at === this.now && subject === before?.id && queue === 'default',
        type,
      )
      this.told = TELLS[type] ?? this.told
    }
    this.job = job
    if (before === null || job === null) return
    must('a job goes only legal ways', LEGAL[before.state].includes(job.state), before.state, job.state)
    const isClaim = before.state !== 'active' && job.state === 'active'
    const isNewLife = isTerminal(before.state) && job.state === 'available'
    must(
      'the lease grows by one with every claim, and never else',
      job.lease === before.lease + (isClaim ? 1 : 0),
      job.lease,
    )
    must(
      'the attempt counts with every claim, and begins anew with a new life',
      job.attempt === (isNewLife ? 0 : before.attempt + (isClaim ? 1 : 0)) && (!isNewLife || job.interruptions === 0),
      job.attempt,
    )
    must(
      'a notice speaks of the lease that is over',
      notice === undefined || notice.notice.lease === before.lease,
      notice,
    )
    this.check(job)
  }

  /** What is true of every job that can exist. */
  check(job: Job): void {
    const { state, attempt } = job
    must('the events tell the state of the row', this.told === state, this.told, state)
    must('a job is held exactly while it is active', (job.hold !== null) === (state === 'active'), state)
    must('every ended job, and no other, has a purge time', (job.purgeAt !== null) === isTerminal(state), state)
    must('a retry is due exactly while retryable', (job.nextRetryAt !== null) === (state === 'retryable'), state)
    must('cancelled_at belongs to cancelled', (job.cancelledAt !== null) === (state === 'cancelled'), state)
    must('discarded_at belongs to discarded', (job.discardedAt !== null) === (state === 'discarded'), state)
    const hasRun = state === 'completed' || (state === 'discarded' && attempt > 0)
    must(
      'completed_at belongs to completed, and to discarded after a start',
      (job.completedAt !== null) === hasRun,
      state,
      attempt,
    )
    must('what is not enqueued has no enqueued_at', state !== 'scheduled' || job.enqueuedAt === null, state)
    must('what was started says when', attempt === 0 || job.startedAt !== null, attempt)
    must(
      'attempts are bounded',
      attempt - job.interruptions <= Math.max(1, job.retry.maxAttempts),
      attempt,
      job.interruptions,
    )
    const errors = errorsOf(job)
    const asksForIt = job.retry.onExhaustion === 'dead_letter' || errors.at(-1)?.code === 'DEAD_LETTER'
    must(
      'dead letters are discarded jobs that asked for it',
      !job.deadLetter || (state === 'discarded' && asksForIt),
      state,
    )
    this.checkWake(job)
    this.checkSoft(job)
    this.checkErrors(job, errors)
  }

  checkWake(job: Job): void {
    const { state, wakeAt } = job
    const live = isTerminal(state)
      ? [job.purgeAt]
      : [
          totalAt(job),
          ttlAt(job),
          expiryAt(job),
          executionAt(job),
          visibilityAt(job, this.life),
          stallAt(job, this.life),
          job.nextRetryAt,
          state === 'scheduled' ? job.scheduledAt : null,
        ]
    for (const limit of live)
      must(
        'a row wakes no later than any live limit',
        limit === null || (wakeAt !== null && wakeAt <= limit),
        live,
        wakeAt,
      )
    must(
      'only a waiting job without limits sleeps for ever',
      wakeAt !== null || state === 'available' || state === 'pending',
      state,
    )
  }

  checkSoft(job: Job): void {
    const [soft, hard] = [softDeadlineAt(job), hardDeadlineAt(job)]
    if (job.hold === null || job.startedAt === null || soft === null || hard === null) return
    must('no soft deadline is before the start', soft >= job.startedAt && Number.isSafeInteger(soft), soft)
    const isRoomy = job.hold.grace.ms > 0 && hard - job.startedAt >= 10
    must('with a grace, the soft deadline is before the hard one', isRoomy ? soft < hard : soft <= hard, soft, hard)
  }

  checkErrors(job: Job, errors: readonly Failure[]): void {
    const handBacks = errors.filter(({ interrupted }) => interrupted === true).length
    must('hand-backs leave a trace, and no more than five', handBacks <= Math.min(5, job.lease), handBacks)
    must('the history is bounded and counted', errors.length === job.errorCount && errors.length <= 25, errors.length)
    must(
      'the error is the last failure of the history; a hand-back is none',
      job.error === null || job.error === JSON.stringify(errors.findLast(({ interrupted }) => interrupted !== true)),
      job.error,
    )
    for (const {
      type,
      details,
      interrupted,
      timeout_kind: kind,
      limit_seconds: limit,
      elapsed_seconds: passed,
      deadline,
      overshoot_ms: late,
    } of errors) {
      const { predicted, reported } = (details ?? {}) as { predicted?: true; reported?: true }
      const foreseen = predicted === true || reported === true
      // What a worker calls a timeout long before its deadline is an ordinary failure.
      const isOrdinary = type === 'boom' || type === 'shutdown' || (type === 'timeout' && kind === undefined)
      must(
        'no limit is said to have passed before it had',
        limit === undefined || predicted === true || (passed ?? 0) >= limit,
        type,
        limit,
        passed,
      )
      must(
        'an ending by time tells its deadline',
        (deadline === undefined) === (foreseen || interrupted === true || isOrdinary),
        type,
      )
      must('no decision comes before its deadline', (late ?? 0) >= 0, type, late)
    }
  }
}
