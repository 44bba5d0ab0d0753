/** The legal ways of a job, what each sets and clears, and the refusal of all others. Endings by time: lifecycle-time. */
import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  admitted,
  at,
  boom,
  cancelledJob,
  claimed,
  completedJob,
  dataOf,
  discardedJob,
  errorOf,
  errorsOf,
  later,
  moment,
  NOON,
  retryableJob,
  RETENTION,
  typesOf,
} from '../../builders.suite.ts'
import { minutes, seconds } from '../../time/clock.ts'
import type { OjsError } from '../../errors.ts'
import { TAIL, type Job } from '../job.ts'
import { readLife } from '../../wire/job/life.ts'
import { activate, release } from './admit.ts'
import { cancel, changeLimits, retryByHand } from './change.ts'
import { expire } from './expire.ts'
import { staleError, staleReason, type Fence } from './fence.ts'
import { abandon, complete, fail, interrupt } from './report.ts'
import { start } from './start.ts'
import { ROW_ALONE } from '../liveness.ts'

const now = at('12:00:05')
const later5 = moment(now)
const claim = { workerId: 'w1', known: true, handler: null, fetchVisibilityMs: null }

describe('a new job', () => {
  test('is available at once, at the tail of its queue', () => {
    const step = admitted({ priority: 7, traceId: 't-1' })
    expect(step).toMatchObject({
      before: null,
      job: { state: 'available', seq: TAIL, createdAt: NOON, anchorAt: NOON, enqueuedAt: NOON },
    })
    expect(step.job).toMatchObject({
      attempt: 0,
      lease: 0,
      interruptions: 0,
      version: 0,
      startedAt: null,
      wakeAt: null,
    })
    expect(typesOf(step)).toEqual(['job.enqueued'])
    expect(dataOf(step, 'job.enqueued')).toEqual({
      job_id: step.job.id,
      job_type: 'email.send',
      queue: 'default',
      trace_id: 't-1',
      priority: 7,
    })
  })

  test('with a future scheduled_at waits as scheduled, and is not enqueued yet', () => {
    const step = admitted({ scheduledAt: at('12:00:00.001') })
    expect(step.job).toMatchObject({ state: 'scheduled', enqueuedAt: null, wakeAt: at('12:00:00.001') })
    expect(typesOf(step)).toEqual(['job.scheduled'])
    expect(dataOf(step, 'job.scheduled')).toMatchObject({ scheduled_at: '2026-01-01T12:00:00.001Z' })
  })

  test('with a scheduled_at that is now or past is available at once', () => {
    expect(aJob({ scheduledAt: NOON }).state).toBe('available')
    expect(aJob({ scheduledAt: at('11:00') }).state).toBe('available')
  })

  test('may wait as pending, whatever its schedule, and emits no event', () => {
    const step = admitted({ pending: true, scheduledAt: at('13:00') })
    expect(step.job).toMatchObject({ state: 'pending', enqueuedAt: null })
    expect(step.events).toEqual([])
  })

  test('keeps all that was asked for it', () => {
    const asked = {
      priority: -3,
      scheduledAt: at('12:30'),
      expiresAt: at('13:00'),
      resultTtlMs: 5000,
      traceId: 't',
      body: '"args":[1],"meta":{}',
      given: '"timeout":5',
      ceiling: { at: at('14:00'), source: 'parent' },
      parent: { kind: 'job', id: 'p' },
    } as const
    expect(aJob({ ...asked, timeoutMs: 5000, retry: { maxAttempts: 9 } })).toMatchObject({
      ...asked,
      limits: { timeout: { ms: 5000, source: 'publish' } },
      retry: { maxAttempts: 9 },
    })
  })

  test('whose expires_at is past is admitted, and due at once', () => {
    const job = aJob({ expiresAt: at('11:00') })
    expect(job).toMatchObject({ state: 'available', wakeAt: at('11:00') })
    expect(expire(job, ROW_ALONE, moment(NOON))?.job).toMatchObject({ state: 'discarded', completedAt: null })
  })
})

describe('on the way to a worker', () => {
  test('activation makes a pending job available and stamps it', () => {
    const step = activate(aJob({ pending: true }), later5)
    expect(step.job).toMatchObject({ state: 'available', activatedAt: now, enqueuedAt: now, seq: TAIL })
    expect(typesOf(step)).toEqual(['job.enqueued'])
  })

  test('a released job joins the tail, forgets when it was due, keeps its error and its delay', () => {
    const waiting = { ...retryableJob(), seq: 3 }
    const { job, events } = release(waiting, later5)
    expect(job).toMatchObject({ state: 'available', enqueuedAt: now, seq: TAIL, nextRetryAt: null, retryDelayMs: 1000 })
    expect(errorOf(job).type).toBe('boom')
    expect(events.map(({ type }) => type)).toEqual(['job.enqueued'])
  })

  test('a claim counts the attempt, raises the lease, takes the clocks and forgets earlier progress', () => {
    const waiting = {
      ...aJob({ timeoutMs: 9_000 }),
      attempt: 1,
      lease: 4,
      closedBy: { workerId: 'w0', attempt: 1, lease: 4 },
      progress: { value: 0.5, message: null, data: null, updatedAt: NOON, toldAt: NOON },
    }
    const step = start(waiting, claim, later5)
    expect(step.job).toMatchObject({
      state: 'active',
      attempt: 2,
      lease: 5,
      startedAt: now,
      closedBy: null,
      progress: null,
    })
    expect(step.job.hold).toMatchObject({
      workerId: 'w1',
      known: true,
      signAt: now,
      visibleFrom: now,
      timeout: { ms: 9000 },
    })
    expect(typesOf(step)).toEqual(['job.started'])
    expect(dataOf(step, 'job.started')).toMatchObject({ worker_id: 'w1', attempt: 2 })
  })

  test('nothing starts with an empty budget: a job with a limit due now cannot be claimed', () => {
    for (const job of [aJob({ totalMs: 5000 }), aJob({ ttlMs: 5000 }), aJob({ expiresAt: now })]) {
      expect(() => start(job, claim, later5)).toThrow('cannot start')
      expect(start(job, claim, moment(later(now, -1))).job.state).toBe('active')
    }
  })

  test.each<[string, Job]>([
    ['scheduled', aJob({ scheduledAt: at('13:00') })],
    ['pending', aJob({ pending: true })],
    ['active', activeJob()],
    ['retryable', retryableJob()],
    ['completed', completedJob()],
    ['cancelled', cancelledJob()],
    ['discarded', discardedJob()],
  ])('a job that is %s cannot be claimed', (state, job) => {
    expect(job.state).toBe(state)
    expect(() => start(job, claim, later5)).toThrow(state)
  })
})

describe('ACK', () => {
  test('completes the job with its result, clears the error, keeps the history', () => {
    const job = claimed(release(retryableJob(), moment(at('12:00:02'))).job)
    const step = complete(job, '{"ok":1}', later5)
    expect(step.job).toMatchObject({
      state: 'completed',
      completedAt: now,
      result: '{"ok":1}',
      error: null,
      hold: null,
      discardedAt: null,
      closedBy: { workerId: 'w1', attempt: 2, lease: 2 },
      purgeAt: later(now, RETENTION.completedMs),
    })
    expect(errorsOf(step.job)).toHaveLength(1)
    expect(typesOf(step)).toEqual(['job.completed'])
    expect(dataOf(step, 'job.completed')).toMatchObject({ attempt: 2, duration_ms: 3000, result: { ok: 1 } })
  })

  test('sets progress to 1 where progress was used, and leaves it out where it was not', () => {
    const reported = {
      ...activeJob(),
      progress: { value: 0.4, message: 'm', data: '1', updatedAt: NOON, toldAt: NOON },
    }
    expect(complete(reported, null, later5).job.progress).toMatchObject({
      value: 1,
      message: 'm',
      data: '1',
      updatedAt: now,
    })
    expect(complete(activeJob(), null, later5).job.progress).toBeNull()
  })

  test('without a result tells of none', () => {
    const step = complete(activeJob(), null, later5)
    expect(step.job.result).toBeNull()
    expect('result' in dataOf(step, 'job.completed')).toBe(false)
  })

  test('keeps the result for result_ttl where the job asked for it', () => {
    expect(complete(activeJob({ resultTtlMs: 60_000 }), null, later5).job.purgeAt).toBe(at('12:01:05'))
  })
})

describe('FAIL', () => {
  test('puts the job off by its backoff, with the error on it and in its history', () => {
    const step = fail(activeJob({ retry: { initialMs: seconds(4), jitter: false } }), boom, later5)
    expect(step.job).toMatchObject({
      state: 'retryable',
      attempt: 1,
      hold: null,
      startedAt: NOON,
      completedAt: null,
      retryDelayMs: 4000,
      nextRetryAt: at('12:00:09'),
      wakeAt: at('12:00:09'),
      closedBy: { workerId: 'w1', attempt: 1, lease: 1 },
    })
    expect(errorOf(step.job)).toEqual({
      type: 'boom',
      code: 'boom',
      message: 'It broke.',
      retryable: true,
      attempt: 1,
      occurred_at: '2026-01-01T12:00:05.000Z',
      timestamp: '2026-01-01T12:00:05.000Z',
    })
    expect(errorsOf(step.job)).toEqual([errorOf(step.job)])
    expect(typesOf(step)).toEqual(['job.failed', 'job.retrying'])
    expect(dataOf(step, 'job.failed')).toMatchObject({
      attempt: 1,
      duration_ms: 5000,
      error: { type: 'boom', code: 'boom' },
    })
    expect(dataOf(step, 'job.retrying')).toMatchObject({
      attempt: 1,
      max_attempts: 3,
      next_retry_at: '2026-01-01T12:00:09.000Z',
    })
  })

  test('with no attempt left discards the job; it says when, and that it had run', () => {
    const step = fail(activeJob({ retry: { maxAttempts: 1 } }), boom, later5)
    expect(step.job).toMatchObject({
      state: 'discarded',
      discardedAt: now,
      completedAt: now,
      startedAt: NOON,
      nextRetryAt: null,
      deadLetter: false,
      purgeAt: later(now, RETENTION.discardedMs),
    })
    expect(typesOf(step)).toEqual(['job.failed', 'job.discarded'])
    expect(dataOf(step, 'job.discarded')).toMatchObject({ total_attempts: 1, last_error: { type: 'boom' } })
  })

  test('puts an exhausted job into the dead letters where its policy says so, and keeps it longer', () => {
    const step = fail(activeJob({ retry: { maxAttempts: 1, onExhaustion: 'dead_letter' } }), boom, later5)
    expect(step.job).toMatchObject({
      state: 'discarded',
      deadLetter: true,
      purgeAt: later(now, RETENTION.deadLetterMs),
    })
    expect(typesOf(step)).toEqual(['job.failed', 'job.discarded', 'dead_letter.added'])
  })

  test.each([
    [
      { type: 'a', code: 'b', message: '' },
      { type: 'a', code: 'b' },
    ],
    [
      { code: 'b', message: '' },
      { type: 'b', code: 'b' },
    ],
    [
      { type: 'a', message: '' },
      { type: 'a', code: 'a' },
    ],
    [
      { code: 'b', message: '', details: { error_class: 'C' } },
      { type: 'C', code: 'b' },
    ],
    [
      { message: '', details: { error_class: 'C' } },
      { type: 'C', code: 'C' },
    ],
    [{ message: '' }, { type: 'error', code: 'error' }],
  ])('%j always has type and code', (error, expected) => {
    expect(errorOf(fail(activeJob(), error, later5).job)).toMatchObject(expected)
  })

  test('an error is matched against the list by type, by code and by class, and says that it is not retryable', () => {
    for (const error of [{ type: 'X' }, { code: 'X' }, { type: 'other', details: { error_class: 'X' } }]) {
      const { job } = fail(activeJob({ retry: { nonRetryable: ['X'] } }), { message: '', ...error }, later5)
      expect(job.state).toBe('discarded')
      expect(errorOf(job).retryable).toBe(false)
    }
  })

  test('keeps details and backtrace as they were sent', () => {
    const details = JSON.parse('{"__proto__":{"a":1},"n":null}') as unknown
    const { job } = fail(activeJob(), { ...boom, details, backtrace: ['at x'] }, later5)
    expect(job.error).toContain('"details":{"__proto__":{"a":1},"n":null}')
    expect(errorOf(job).backtrace).toEqual(['at x'])
  })

  test('keeps the last progress', () => {
    const progress = { value: 0.4, message: null, data: null, updatedAt: NOON, toldAt: NOON }
    expect(fail({ ...activeJob(), progress }, boom, later5).job.progress).toEqual(progress)
  })

  test('a handed-back shutdown without requeue follows the retry policy and uses an attempt', () => {
    const step = fail(activeJob(), { type: 'shutdown', message: 'bye' }, later5)
    expect(step.job).toMatchObject({ state: 'retryable', interruptions: 0, attempt: 1 })
  })
})

describe('a hand-back (requeue)', () => {
  test('goes straight to the tail, is refunded and counted, and says why without being a failure', () => {
    const job = { ...activeJob({ retry: { maxAttempts: 1 } }), seq: 9 }
    const step = interrupt(job, null, later5)
    expect(step.job).toMatchObject({
      state: 'available',
      attempt: 1,
      lease: 1,
      interruptions: 1,
      enqueuedAt: now,
      seq: TAIL,
      hold: null,
      error: null,
      errorCount: 1,
      closedBy: { workerId: 'w1', attempt: 1, lease: 1 },
    })
    expect(typesOf(step)).toEqual(['job.interrupted', 'job.enqueued'])
    expect(dataOf(step, 'job.interrupted')).toMatchObject({
      attempt: 1,
      worker_id: 'w1',
      interruptions: 1,
      error: { type: 'interrupted', code: 'interrupted', message: expect.stringContaining('no reason') },
    })
    expect(errorsOf(step.job)).toMatchObject([{ type: 'interrupted', attempt: 1, interrupted: true }])
  })

  test('names the reason that the worker gave, in the history, in the event and in its life', () => {
    const step = interrupt(activeJob(), { type: 'shutdown', message: 'bye', details: { pod: 7 } }, later5)
    expect(errorsOf(step.job)).toEqual([
      {
        type: 'shutdown',
        code: 'shutdown',
        message: 'bye',
        retryable: true,
        details: { pod: 7 },
        interrupted: true,
        attempt: 1,
        occurred_at: '2026-01-01T12:00:05.000Z',
        timestamp: '2026-01-01T12:00:05.000Z',
      },
    ])
    expect(dataOf(step, 'job.interrupted')['error']).toEqual({ type: 'shutdown', code: 'shutdown', message: 'bye' })
    expect(readLife(step.job).at(-1)).toMatchObject({ to: 'available', back: true, why: 'shutdown' })
  })

  test('leaves the error of an earlier failure as it is', () => {
    const failed = fail(activeJob({ retry: { jitter: false } }), boom, later5).job
    const again = claimed(release(failed, later5).job, { claimedAt: now })
    const back = interrupt(again, { type: 'shutdown', message: 'bye' }, later5).job
    expect(back.error).toBe(failed.error)
    expect(errorsOf(back).map(({ type }) => type)).toEqual(['boom', 'shutdown'])
  })

  test('never pushes out the failures, however often it happens: the latest five are kept beside them', () => {
    let job = activeJob({ retry: { maxAttempts: 100, jitter: false } })
    const types = (): string[] => errorsOf(job).map(({ type }) => type)
    const again = (): void => {
      job = claimed(job.state === 'retryable' ? release(job, later5).job : job, { claimedAt: now })
    }
    const handBacks = (times: number): void => {
      for (let time = 1; time <= times; time += 1) {
        job = interrupt(job, { type: `away${String(time)}`, message: '' }, later5).job
        again()
      }
    }
    const fails = (times: number): void => {
      for (let time = 1; time <= times; time += 1) {
        job = fail(job, { type: `boom${String(time)}`, message: '' }, later5).job
        again()
      }
    }
    fails(2)
    handBacks(2_000)
    expect(types()).toEqual(['boom1', 'boom2', ...[1996, 1997, 1998, 1999, 2000].map((n) => `away${String(n)}`)])
    fails(30)
    handBacks(1_000)
    expect(job.errorCount).toBe(25)
    expect(types().slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, index) => `boom${String(index + 11)}`))
    expect(types().slice(20)).toEqual([996, 997, 998, 999, 1000].map((n) => `away${String(n)}`))
  })

  test('does not use up the budget of attempts, however often it happens', () => {
    let job = activeJob({ retry: { maxAttempts: 1 } })
    for (let times = 1; times <= 5; times += 1) job = claimed(interrupt(job, null, later5).job, { claimedAt: now })
    expect(job).toMatchObject({ attempt: 6, lease: 6, interruptions: 5, state: 'active' })
    expect(fail(job, boom, later5).job.state).toBe('discarded')
    expect(fail({ ...job, retry: { ...job.retry, maxAttempts: 2 } }, boom, later5).job.state).toBe('retryable')
  })

  test('is refused where another attempt cannot fit into the total, with what was reported as the cause', () => {
    const job = activeJob({ totalMs: 60_000, timeoutMs: 58_000 })
    expect(interrupt(job, boom, moment(at('12:00:02'))).job.state).toBe('available')
    const step = interrupt(job, boom, later5)
    expect(step.job).toMatchObject({ state: 'discarded', hold: null, closedBy: { workerId: 'w1' } })
    expect(errorOf(step.job)).toMatchObject({
      type: 'total_timeout',
      details: { predicted: true, last_error: { type: 'boom' } },
    })
    expect(errorsOf(step.job)).toHaveLength(1)
    expect(typesOf(step)).toEqual(['job.total_timeout', 'job.discarded'])
    expect(step.expired).toEqual([{ kind: 'total', overshootMs: null }])
  })
})

describe('a worker that leaves with a job in hand', () => {
  test('gives it back as its death would, but as a shutdown: counted, without backoff', () => {
    const step = abandon(activeJob(), later5)
    expect(step.job).toMatchObject({
      state: 'available',
      attempt: 1,
      interruptions: 0,
      enqueuedAt: now,
      seq: TAIL,
      closedBy: null,
    })
    expect(errorOf(step.job)).toMatchObject({ type: 'shutdown', code: 'shutdown', retryable: true })
    expect(typesOf(step)).toEqual(['job.failed', 'job.retrying', 'job.enqueued'])
    expect(step.notice).toBeUndefined()
  })

  test('gives back even a job with a heartbeat limit of its own', () => {
    expect(abandon(activeJob({ heartbeatMs: minutes(5) }), later5).job.state).toBe('available')
  })

  test('discards it where no attempt is left', () => {
    expect(abandon(activeJob({ retry: { maxAttempts: 1, onExhaustion: 'dead_letter' } }), later5).job).toMatchObject({
      state: 'discarded',
      deadLetter: true,
    })
  })
})

describe('cancel', () => {
  test.each<[string, Job]>([
    ['scheduled', aJob({ scheduledAt: at('13:00') })],
    ['available', aJob()],
    ['pending', aJob({ pending: true })],
    ['active', activeJob()],
    ['retryable', retryableJob()],
  ])('ends a job that is %s, without completed_at and without an error of its own', (state, job) => {
    expect(job.state).toBe(state)
    const step = cancel(job, later5, { by: 'ops', reason: 'bulk' })
    expect(step.job).toMatchObject({
      state: 'cancelled',
      cancelledAt: now,
      completedAt: null,
      discardedAt: null,
      cancelReason: 'bulk',
      nextRetryAt: null,
      hold: null,
      startedAt: job.startedAt,
      errors: job.errors,
      purgeAt: later(now, RETENTION.cancelledMs),
    })
    expect(typesOf(step)).toEqual(['job.cancelled'])
    expect(dataOf(step, 'job.cancelled')).toMatchObject({ cancelled_by: 'ops', reason: 'bulk' })
  })

  test('sends a notice to the worker that holds the job, and to no other', () => {
    const notice = { workerId: 'w1', notice: { jobId: aJob().id, lease: 1, reason: 'cancelled', at: now } }
    expect(cancel(activeJob(), later5, { reason: 'request' }).notice).toEqual(notice)
    expect(cancel(activeJob({ workerId: null }), later5, { reason: 'request' }).notice).toBeUndefined()
    expect(cancel(retryableJob(), later5, { reason: 'request' }).notice).toBeUndefined()
  })
})

describe('what is refused', () => {
  const refused = (act: () => unknown): unknown => {
    try {
      act()
    } catch (error) {
      return { code: (error as OjsError).code, state: (error as OjsError).details['current_state'] }
    }
    return 'allowed'
  }
  const every: [string, Job][] = [
    ['scheduled', aJob({ scheduledAt: at('13:00') })],
    ['available', aJob()],
    ['pending', aJob({ pending: true })],
    ['active', activeJob()],
    ['retryable', retryableJob()],
    ['completed', completedJob()],
    ['cancelled', cancelledJob()],
    ['discarded', discardedJob()],
  ]
  const patch = (job: Job) => ({
    ...job,
    limits: job.limits,
    given: '',
    priority: 0,
    scheduledAt: null,
    expiresAt: null,
  })

  test.each([
    ['activate', (job: Job) => activate(job, later5), ['pending']],
    [
      'cancel',
      (job: Job) => cancel(job, later5, { reason: 'request' }),
      ['scheduled', 'available', 'pending', 'active', 'retryable'],
    ],
    ['retryByHand', (job: Job) => retryByHand(job, job, later5), ['cancelled', 'discarded']],
    [
      'changeLimits',
      (job: Job) => changeLimits(job, patch(job), later5),
      ['scheduled', 'available', 'pending', 'retryable'],
    ],
  ] as [string, (job: Job) => unknown, string[]][])(
    '%s: every other state is a 409 conflict that names it',
    (_, act, allowed) => {
      for (const [state, job] of every) {
        expect(refused(() => act(job))).toEqual(allowed.includes(state) ? 'allowed' : { code: 'conflict', state })
      }
    },
  )

  test('a report on a job that is not active is not_active, whatever else is wrong with it', () => {
    for (const [state, job] of every) {
      if (state === 'active') continue
      expect(staleReason(job, { workerId: 'unknown', attempt: 99, lease: 99 })).toBe('not_active')
    }
  })

  test('the reasons come in order: not_active, not_owner, stale_attempt', () => {
    const job = activeJob()
    expect(staleReason(job, { workerId: 'w2', attempt: 9, lease: 9 })).toBe('not_owner')
    expect(staleReason(job, { workerId: 'w1', attempt: 9, lease: 1 })).toBe('stale_attempt')
    expect(staleReason(job, { workerId: 'w1', attempt: 1, lease: 9 })).toBe('stale_attempt')
    expect(staleReason(job, { workerId: 'w1', attempt: 1, lease: 1 })).toBeNull()
  })

  test('a report without a name is taken, unless the server insists on owners', () => {
    expect(staleReason(activeJob(), {})).toBeNull()
    expect(staleReason(activeJob(), { lease: 2 })).toBe('stale_attempt')
    expect(staleReason(activeJob(), {}, true)).toBe('not_owner')
  })

  test('a reservation without the id of a worker may be reported on by any worker', () => {
    expect(staleReason(activeJob({ workerId: null }), { workerId: 'w1' })).toBeNull()
    expect(staleReason(activeJob({ workerId: null }), { workerId: 'w1', lease: 9 })).toBe('stale_attempt')
  })

  test('a refusal tells who closed the attempt, so that a client that lost the answer knows its own', () => {
    const error = staleError(completedJob(), 'not_active', {})
    expect(error).toMatchObject({
      code: 'conflict',
      details: {
        current_state: 'completed',
        expected_state: 'active',
        reason: 'not_active',
        completed_by: { worker_id: 'w1', attempt: 1, x_lease: 1 },
      },
    })
    expect('completed_by' in staleError(activeJob(), 'stale_attempt', {}).details).toBe(false)
    expect('completed_by' in staleError(cancelledJob(), 'not_active', {}).details).toBe(false)
  })

  test('a refusal says which attempt a report is about as far as that is known', () => {
    const job = { ...activeJob(), attempt: 2, lease: 5 }
    const told = (fence: Fence): string => staleError(job, 'stale_attempt', fence).message
    const earlier = 'The report is about an earlier attempt; the job has been handed out again since.'
    const other = 'The report is about attempt 7; the one that is running is attempt 2.'
    const notYet = 'The report carries a lease that has not been given yet.'
    expect(told({ attempt: 1 })).toBe(earlier)
    expect(told({ lease: 4 })).toBe(earlier)
    expect(told({ attempt: 2, lease: 4 })).toBe(earlier)
    expect(told({ attempt: 7 })).toBe(other)
    expect(told({ attempt: 7, lease: 5 })).toBe(other)
    expect(told({ attempt: 2, lease: 6 })).toBe(notYet)
    expect(told({ lease: 6 })).toBe(notYet)
    // Attempts are counted anew after a manual retry, leases never: the smaller lease is the surer word.
    expect(told({ attempt: 7, lease: 4 })).toBe(earlier)
    expect(staleError(job, 'stale_attempt', { attempt: 7 }).hint).toBe(
      'Send attempt and x_lease as they came with the job.',
    )
    expect(staleError(job, 'stale_attempt', { attempt: 1 }).hint).toMatch(/^Drop this result/)
    expect(staleError(job, 'not_owner', { attempt: 7 }).message).toMatch(/^The job is held by another worker/)
  })

  test('an attempt that time has ended has no closing report', () => {
    const lapsed = expire(activeJob({ visibilityMs: 1000 }), ROW_ALONE, later5)?.job
    expect(lapsed).toMatchObject({ state: 'available', closedBy: null })
  })
})

test('a claim counts, and nothing else does: the attempt is unchanged by every ending', () => {
  const job = { ...activeJob(), attempt: 2, lease: 7 }
  const ends = [
    complete(job, null, later5),
    fail(job, boom, later5),
    interrupt(job, null, later5),
    abandon(job, later5),
    cancel(job, later5, { reason: 'request' }),
  ]
  for (const { job: ended } of ends) expect(ended).toMatchObject({ attempt: 2, lease: 7, startedAt: NOON })
  expect(release(fail(job, boom, later5).job, later5).job).toMatchObject({ attempt: 2, lease: 7 })
})

describe('a failure that says when to try again', () => {
  const retry = { maxAttempts: 2, maxMs: seconds(10) }

  test.each([
    ['a length from the report on', '+PT90S', 90_000],
    ['a moment', '2026-01-01T12:10:00Z', 595_000],
    ['a moment that has passed: at once', '2026-01-01T11:00:00Z', 0],
  ])('waits for %s, in place of the backoff and its maximum', (_, retryAt, delayMs) => {
    const { job } = fail(activeJob({ retry }), { ...boom, retryAt }, later5)
    expect(job).toMatchObject({ state: 'retryable', retryDelayMs: delayMs, nextRetryAt: later(now, delayMs) })
  })

  test('uses an attempt like any other failure: after the last one the job is discarded', () => {
    const last = activeJob({ retry: { ...retry, maxAttempts: 1 } })
    expect(fail(last, { ...boom, retryAt: '+PT90S' }, later5).job).toMatchObject({ state: 'discarded' })
  })

  test('moves no total: a time behind it ends the job now', () => {
    const bounded = activeJob({ retry, totalMs: 60_000 })
    const step = fail(bounded, { ...boom, retryAt: '+PT90S' }, later5)
    expect(step.job.state).toBe('discarded')
    expect(errorOf(step.job)).toMatchObject({ type: 'total_timeout', details: { predicted: true } })
  })
})
