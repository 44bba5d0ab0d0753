/** Endings that time brings: the state that follows, the order of the events, and an error that names its limit. */
import { describe, expect, test } from 'vitest'
import {
  aJob,
  aWorker,
  activeJob,
  at,
  beating,
  boom,
  claimed,
  dataOf,
  errorOf,
  errorsOf,
  JOB_ID,
  later,
  left,
  livenessOf,
  moment,
  NOON,
  RETENTION,
  retryableJob,
  typesOf,
} from '../../builders.suite.ts'
import { minutes, seconds } from '../../time/clock.ts'
import { ROW_ALONE } from '../liveness.ts'
import { TAIL } from '../job.ts'
import { release } from './admit.ts'
import { cancel } from './change.ts'
import { expire } from './expire.ts'
import { fail } from './report.ts'
import type { Moment, Transition } from './transition.ts'

const due = (job: Parameters<typeof expire>[0], when: Moment, life = ROW_ALONE): Transition | null =>
  expire(job, life, when)
const dead = { onExhaustion: 'dead_letter', jitter: false } as const

describe('an execution timeout', () => {
  const job = activeJob({ timeoutMs: 30_000, graceMs: 5_000, retry: dead })
  const step = due(job, moment(at('12:00:35.250')))

  test('puts the job off by its backoff, and tells job.timeout before job.failed before job.retrying', () => {
    expect(left(step)).toMatchObject({
      state: 'retryable',
      nextRetryAt: at('12:00:36.250'),
      retryDelayMs: 1000,
      hold: null,
      completedAt: null,
    })
    expect(typesOf(step)).toEqual(['job.timeout', 'job.failed', 'job.retrying'])
  })

  test('names the limit without its grace, what passed since the claim, the deadline and how late it was decided', () => {
    expect(errorOf(left(step))).toEqual({
      type: 'timeout',
      code: 'timeout',
      message: 'Job execution exceeded timeout of 30 seconds',
      retryable: true,
      timeout_kind: 'execution',
      limit_seconds: 30,
      limit_ms: 30_000,
      elapsed_seconds: 35,
      elapsed_ms: 35_250,
      source: 'publish',
      deadline: '2026-01-01T12:00:35.000Z',
      overshoot_ms: 250,
      late_ms: 250,
      downtime_ms: 0,
      attempt: 1,
      occurred_at: '2026-01-01T12:00:35.250Z',
      timestamp: '2026-01-01T12:00:35.250Z',
    })
    expect(step?.expired).toEqual([{ kind: 'execution', overshootMs: 250 }])
  })

  test('tells kind, limit, elapsed, source, lateness, attempt and worker in its event', () => {
    expect(dataOf(step, 'job.timeout')).toEqual({
      job_id: JOB_ID,
      job_type: 'email.send',
      queue: 'default',
      timeout_kind: 'execution',
      limit_seconds: 30,
      limit_ms: 30_000,
      elapsed_seconds: 35,
      elapsed_ms: 35_250,
      source: 'publish',
      overshoot_ms: 250,
      late_ms: 250,
      downtime_ms: 0,
      attempt: 1,
      worker_id: 'w1',
    })
  })

  test('tells the worker to stop, because of the timeout', () => {
    expect(step?.notice).toEqual({
      workerId: 'w1',
      notice: { jobId: JOB_ID, lease: 1, reason: 'timeout', at: at('12:00:35.250') },
    })
  })

  test('with no attempt left discards the job into the dead letters', () => {
    const last = due({ ...job, attempt: 3 }, moment(at('12:00:35')))
    expect(left(last)).toMatchObject({
      state: 'discarded',
      deadLetter: true,
      completedAt: at('12:00:35'),
      discardedAt: at('12:00:35'),
    })
    expect(typesOf(last)).toEqual(['job.timeout', 'job.failed', 'job.discarded', 'dead_letter.added'])
  })

  test('is final where the policy lists it, and says so', () => {
    const listed = due(
      activeJob({ timeoutMs: 1000, graceMs: 0, retry: { nonRetryable: ['timeout'] } }),
      moment(at('12:00:01')),
    )
    expect(left(listed).state).toBe('discarded')
    expect(errorOf(left(listed)).retryable).toBe(false)
  })

  test('of a finer limit keeps the fractions; whole seconds stay whole', () => {
    const fine = due(activeJob({ timeoutMs: 1500, graceMs: 0 }), moment(at('12:00:01.512')))
    expect(errorOf(left(fine))).toMatchObject({
      limit_seconds: 1.5,
      elapsed_seconds: 1.512,
      message: 'Job execution exceeded timeout of 1.5 seconds',
    })
    const whole = due(activeJob({ timeoutMs: 1000, graceMs: 0 }), moment(at('12:00:01.999')))
    expect(errorOf(left(whole))).toMatchObject({
      limit_seconds: 1,
      elapsed_seconds: 1,
      message: 'Job execution exceeded timeout of 1 second',
    })
  })

  test('names the handler as the source of a limit the handler brought', () => {
    const handled = due(activeJob({ handler: { timeout: seconds(2), grace: seconds(0) } }), moment(at('12:00:02')))
    expect(errorOf(left(handled))).toMatchObject({ source: 'handler', limit_seconds: 2 })
  })

  test('is not held against the time before this server came up', () => {
    const late = due(job, moment(at('12:10'), { upAt: at('12:09:59.900') }))
    expect(errorOf(left(late))).toMatchObject({
      elapsed_seconds: 600,
      overshoot_ms: 100,
      deadline: '2026-01-01T12:00:35.000Z',
    })
  })
})

describe('x_on_timeout: discard', () => {
  const traits = { timeoutMs: 30_000, graceMs: 0, onTimeout: 'discard', retry: dead } as const

  test('drops a timed-out job: no retry, no dead letter, kept only as long as a completed one', () => {
    const step = due(activeJob(traits), moment(at('12:00:30')))
    expect(left(step)).toMatchObject({
      state: 'discarded',
      deadLetter: false,
      discardedAt: at('12:00:30'),
      completedAt: at('12:00:30'),
      purgeAt: later(at('12:00:30'), RETENTION.completedMs),
    })
    expect(errorOf(left(step)).type).toBe('timeout')
    expect(typesOf(step)).toEqual(['job.timeout', 'job.failed', 'job.discarded'])
  })

  test('holds for a timeout the worker reports, too', () => {
    const { job } = fail(activeJob(traits), { type: 'timeout', message: 'too slow' }, moment(at('12:00:29')))
    expect(job).toMatchObject({
      state: 'discarded',
      deadLetter: false,
      purgeAt: later(at('12:00:29'), RETENTION.completedMs),
    })
  })

  test('says nothing about stalls, lapses, deaths and plain failures: they are retried', () => {
    const silent = livenessOf(aWorker({ lastSeenAt: NOON }))
    expect(left(due(activeJob({ ...traits, heartbeatMs: 1000 }), moment(at('12:00:01')))).state).toBe('retryable')
    expect(left(due(activeJob({ ...traits, visibilityMs: 1000 }), moment(at('12:00:01')))).state).toBe('available')
    expect(left(due(activeJob({ ...traits, timeoutMs: 60_000 }), moment(at('12:00:30')), silent)).state).toBe(
      'available',
    )
    expect(fail(activeJob(traits), boom, moment(at('12:00:01'))).job.state).toBe('retryable')
  })

  test('comes from the handler where the publisher said nothing', () => {
    const job = activeJob({ timeoutMs: 1000, graceMs: 0, handler: { onTimeout: 'discard' } })
    expect(left(due(job, moment(at('12:00:01')))).state).toBe('discarded')
  })
})

describe('a timeout the worker reports', () => {
  const job = activeJob({ timeoutMs: 30_000, graceMs: 5_000 })
  const step = fail(job, { type: 'timeout', message: 'too slow', details: { frame: 400 } }, moment(at('12:00:29.900')))

  test('is made whole by the server, marked as reported, and carries no deadline and no overshoot', () => {
    expect(errorOf(step.job)).toEqual({
      type: 'timeout',
      code: 'timeout',
      message: 'too slow',
      retryable: true,
      timeout_kind: 'execution',
      limit_seconds: 30,
      limit_ms: 30_000,
      elapsed_seconds: 30,
      elapsed_ms: 30_000,
      early_ms: 100,
      source: 'publish',
      details: { frame: 400, reported: true },
      attempt: 1,
      occurred_at: '2026-01-01T12:00:29.900Z',
      timestamp: '2026-01-01T12:00:29.900Z',
    })
  })

  test('is reported and counted once, without being measured', () => {
    expect(typesOf(step)).toEqual(['job.timeout', 'job.failed', 'job.retrying'])
    expect(step.expired).toEqual([{ kind: 'execution', overshootMs: null }])
    expect(step.notice).toBeUndefined()
  })

  test('is known by its code as well, and is a timeout whatever class it names', () => {
    const coded = fail(job, { code: 'timeout', message: '', details: { error_class: 'Slow' } }, moment(at('12:00:30')))
    expect(errorOf(coded.job)).toMatchObject({ type: 'timeout', code: 'timeout', timeout_kind: 'execution' })
  })

  test('keeps its mark even where the details it came with were no object', () => {
    for (const details of ['text', [1], 7, null]) {
      const odd = fail(job, { type: 'timeout', message: '', details }, moment(at('12:00:30')))
      expect(errorOf(odd.job).details).toEqual({ reported: true })
    }
  })
})

describe('a stalled attempt', () => {
  test('is put off by its backoff; elapsed counts from the last sign of life', () => {
    const job = activeJob({ heartbeatMs: 10_000 })
    const step = due(job, moment(at('12:00:17')), livenessOf(beating(at('12:00:05'))))
    expect(left(step)).toMatchObject({ state: 'retryable', retryDelayMs: 1000 })
    expect(typesOf(step)).toEqual(['job.stalled', 'job.failed', 'job.retrying'])
    expect(errorOf(left(step))).toMatchObject({
      type: 'stalled',
      timeout_kind: 'stalled',
      limit_seconds: 10,
      elapsed_seconds: 12,
      deadline: '2026-01-01T12:00:15.000Z',
      overshoot_ms: 2000,
    })
    expect(step?.notice?.notice.reason).toBe('lost')
    expect(step?.expired).toEqual([{ kind: 'stalled', overshootMs: 2000 }])
  })

  test('is final where the policy lists it', () => {
    const listed = activeJob({ heartbeatMs: 10_000, retry: { nonRetryable: ['stalled'] } })
    expect(left(due(listed, moment(at('12:00:10')))).state).toBe('discarded')
  })
})

describe('a lapsed reservation', () => {
  test('is available again at once, with an error and without backoff', () => {
    const job = { ...activeJob({ visibilityMs: 20_000 }), seq: 4 }
    const step = due(job, moment(at('12:00:20')))
    expect(left(step)).toMatchObject({
      state: 'available',
      attempt: 1,
      enqueuedAt: at('12:00:20'),
      seq: TAIL,
      nextRetryAt: null,
      startedAt: NOON,
    })
    expect(typesOf(step)).toEqual(['job.stalled', 'job.failed', 'job.retrying', 'job.enqueued'])
    expect(errorOf(left(step))).toMatchObject({
      type: 'visibility_timeout',
      retryable: true,
      limit_seconds: 20,
      elapsed_seconds: 20,
    })
    expect('timeout_kind' in errorOf(left(step))).toBe(false)
    expect(step?.notice?.notice.reason).toBe('lost')
    expect(step?.expired).toEqual([{ kind: 'visibility', overshootMs: 0 }])
  })

  test('names the length the last beat had asked for', () => {
    const life = livenessOf(beating(at('12:00:05'), { visibilityMs: seconds(2) }))
    const step = due(activeJob({ visibilityMs: 20_000 }), moment(at('12:00:07')), life)
    expect(errorOf(left(step))).toMatchObject({ limit_seconds: 2, elapsed_seconds: 2 })
  })

  test('ignores the list of the policy, and does not pretend otherwise', () => {
    const job = activeJob({ visibilityMs: 20_000, retry: { nonRetryable: ['visibility_timeout'] } })
    const step = due(job, moment(at('12:00:20')))
    expect(left(step).state).toBe('available')
    expect(errorOf(left(step)).retryable).toBe(true)
  })

  test('is discarded where no attempt is left', () => {
    const step = due(activeJob({ visibilityMs: 20_000, retry: { ...dead, maxAttempts: 1 } }), moment(at('12:00:20')))
    expect(left(step)).toMatchObject({ state: 'discarded', deadLetter: true })
    expect(typesOf(step)).toEqual(['job.stalled', 'job.failed', 'job.discarded', 'dead_letter.added'])
  })
})

describe('a dead worker', () => {
  const silent = livenessOf(aWorker({ lastSeenAt: at('12:00:05') }))

  test('loses its jobs: they are available again at once, and the attempt counts', () => {
    const step = due(activeJob(), moment(at('12:00:36')), silent)
    expect(left(step)).toMatchObject({ state: 'available', attempt: 1, interruptions: 0 })
    expect(typesOf(step)).toEqual(['job.stalled', 'job.failed', 'job.retrying', 'job.enqueued'])
    expect(errorOf(left(step))).toMatchObject({
      type: 'worker_death',
      limit_seconds: 30,
      elapsed_seconds: 31,
      deadline: '2026-01-01T12:00:35.000Z',
      overshoot_ms: 1000,
    })
    expect(step?.expired).toEqual([{ kind: 'worker_death', overshootMs: 1000 }])
  })
})

describe('a total timeout', () => {
  const traits = { totalMs: 60_000, known: false, retry: dead }

  test('discards a waiting job: total_timeout, discarded; no attempt failed', () => {
    const step = due(aJob(traits), moment(at('12:01')))
    expect(left(step)).toMatchObject({
      state: 'discarded',
      discardedAt: at('12:01'),
      completedAt: null,
      deadLetter: true,
    })
    expect(typesOf(step)).toEqual(['job.total_timeout', 'job.discarded', 'dead_letter.added'])
    expect(errorOf(left(step))).toMatchObject({
      type: 'total_timeout',
      timeout_kind: 'total',
      limit_seconds: 60,
      elapsed_seconds: 60,
      attempt: 0,
      retryable: false,
      source: 'publish',
    })
    expect(step?.expired).toEqual([{ kind: 'total', overshootMs: 0 }])
  })

  test('that strikes in the middle of an attempt is one entry, and the worker gets a notice', () => {
    const step = due(activeJob(traits), moment(at('12:01')))
    expect(errorsOf(left(step))).toHaveLength(1)
    expect(typesOf(step)).toEqual(['job.total_timeout', 'job.failed', 'job.discarded', 'dead_letter.added'])
    expect(left(step)).toMatchObject({ completedAt: at('12:01'), hold: null, startedAt: NOON })
    expect(step?.notice?.notice.reason).toBe('timeout')
  })

  test('that strikes a job between attempts says what had gone wrong before', () => {
    const waiting = {
      ...retryableJob({ ...traits, retry: { ...dead, initialMs: seconds(50) } }),
      nextRetryAt: at('13:00'),
    }
    const step = due(waiting, moment(at('12:01')))
    expect(errorOf(left(step)).details).toMatchObject({ last_error: { type: 'boom' } })
    expect(errorsOf(left(step)).map(({ type }) => type)).toEqual(['boom', 'total_timeout'])
    expect(typesOf(step)).toEqual(['job.total_timeout', 'job.discarded', 'dead_letter.added'])
  })

  test('inherited from a parent names the parent as its source and ends the job the same way', () => {
    const step = due(aJob({ ceiling: { at: at('12:05'), source: 'parent' } }), moment(at('12:05')))
    expect(errorOf(left(step))).toMatchObject({ type: 'total_timeout', source: 'parent', limit_seconds: 300 })
    expect(left(step).deadLetter).toBe(false)
  })

  test('is not counted as late for the time before it was set', () => {
    const patched = { ...aJob(traits), limitsSetAt: at('12:02') }
    expect(errorOf(left(due(patched, moment(at('12:02:00.005')))))).toMatchObject({
      overshoot_ms: 5,
      elapsed_seconds: 120,
    })
  })
})

describe("a workflow's deadline", () => {
  test('cancels its member, active or not, without errors or total_timeout events', () => {
    const ceiling = { at: at('12:00:10'), source: 'workflow' } as const
    for (const job of [aJob({ ceiling }), activeJob({ ceiling })]) {
      const step = due(job, moment(at('12:00:10')))
      expect(left(step)).toMatchObject({
        state: 'cancelled',
        cancelReason: 'workflow_timeout',
        error: null,
        errors: '',
        completedAt: null,
      })
      expect(typesOf(step)).toEqual(['job.cancelled'])
      expect(dataOf(step, 'job.cancelled')).toMatchObject({ reason: 'workflow_timeout' })
      expect(step?.notice?.notice.reason).toBe(job.hold === null ? undefined : 'timeout')
    }
  })
})

describe('a retry that cannot fit', () => {
  const traits = { totalMs: 60_000, timeoutMs: 30_000, graceMs: 0, retry: dead }

  test('after a failure is given up at once: the failure, then the total, each with its entry', () => {
    const step = fail(activeJob(traits), boom, moment(at('12:00:29.500')))
    expect(step.job).toMatchObject({
      state: 'discarded',
      deadLetter: true,
      completedAt: at('12:00:29.500'),
      nextRetryAt: null,
    })
    expect(errorsOf(step.job).map(({ type }) => type)).toEqual(['boom', 'total_timeout'])
    expect(errorOf(step.job)).toMatchObject({
      type: 'total_timeout',
      timeout_kind: 'total',
      limit_seconds: 60,
      elapsed_seconds: 29,
      details: { predicted: true, last_error: { type: 'boom' } },
    })
    expect(errorOf(step.job)).not.toHaveProperty('deadline')
    expect(errorOf(step.job)).not.toHaveProperty('overshoot_ms')
    expect(typesOf(step)).toEqual(['job.failed', 'job.total_timeout', 'job.discarded', 'dead_letter.added'])
    expect(step.expired).toEqual([{ kind: 'total', overshootMs: null }])
  })

  test('after a timeout counts both: the timeout that fired and the total that was foreseen', () => {
    const step = due(activeJob(traits), moment(at('12:00:30')))
    expect(typesOf(step)).toEqual([
      'job.timeout',
      'job.failed',
      'job.total_timeout',
      'job.discarded',
      'dead_letter.added',
    ])
    expect(step?.expired).toEqual([
      { kind: 'execution', overshootMs: 0 },
      { kind: 'total', overshootMs: null },
    ])
  })

  test('after a lapse, which needs no backoff, is measured without one', () => {
    const lapsing = activeJob({ ...traits, timeoutMs: 20_000, visibilityMs: 1000 })
    expect(left(due(lapsing, moment(at('12:00:40')))).state).toBe('available')
    expect(left(due(lapsing, moment(at('12:00:40.001')))).state).toBe('discarded')
  })

  test("names the job's own total, not the workflow's clamp that takes no part in the test", () => {
    const ceiling = { at: at('12:00:50'), source: 'workflow' } as const
    const step = fail(activeJob({ ...traits, ceiling }), boom, moment(at('12:00:40')))
    expect(step.job.state).toBe('discarded')
    expect(errorOf(step.job)).toMatchObject({ source: 'publish', limit_seconds: 60 })
  })
})

describe('too old to start', () => {
  test('by its TTL: ttl_expired, expired, discarded; never completed, never a dead letter', () => {
    const step = due(aJob({ ttlMs: 60_000, retry: dead }), moment(at('12:01:00.007')))
    expect(left(step)).toMatchObject({
      state: 'discarded',
      discardedAt: at('12:01:00.007'),
      completedAt: null,
      deadLetter: false,
      purgeAt: later(at('12:01:00.007'), RETENTION.discardedMs),
    })
    expect(typesOf(step)).toEqual(['job.ttl_expired', 'job.expired', 'job.discarded'])
    expect(errorOf(left(step))).toMatchObject({
      type: 'enqueue_ttl_expired',
      timeout_kind: 'enqueue_ttl',
      limit_seconds: 60,
      elapsed_seconds: 60,
      attempt: 0,
      overshoot_ms: 7,
    })
    expect(dataOf(step, 'job.expired')).toMatchObject({
      created_at: '2026-01-01T12:00:00.000Z',
      expired_at: '2026-01-01T12:01:00.000Z',
      ttl_ms: 60_000,
    })
    expect(step?.expired).toEqual([{ kind: 'enqueue_ttl', overshootMs: 7 }])
  })

  test('by its expires_at: expired, discarded', () => {
    const step = due(aJob({ expiresAt: at('12:01'), scheduledAt: at('13:00') }), moment(at('12:01')))
    expect(left(step)).toMatchObject({ state: 'discarded', completedAt: null })
    expect(typesOf(step)).toEqual(['job.expired', 'job.discarded'])
    expect(errorOf(left(step)).type).toBe('expired')
    expect(errorOf(left(step))).not.toHaveProperty('timeout_kind')
    expect(step?.expired).toEqual([{ kind: 'expires_at', overshootMs: 0 }])
  })

  test('an expires_at that was past at the enqueue does not count as lateness', () => {
    const step = due(aJob({ expiresAt: at('10:00') }), moment(NOON))
    expect(errorOf(left(step))).toMatchObject({ overshoot_ms: 0 })
  })
})

describe('the end of a wait', () => {
  test('a schedule that has come, and a backoff that is over, make the job available', () => {
    const scheduled = due(aJob({ scheduledAt: at('12:01') }), moment(at('12:01')))
    expect(left(scheduled)).toMatchObject({ state: 'available', enqueuedAt: at('12:01') })
    expect(typesOf(scheduled)).toEqual(['job.enqueued'])
    const retried = due(retryableJob(), moment(at('12:00:02')))
    expect(left(retried)).toMatchObject({ state: 'available', enqueuedAt: at('12:00:02'), nextRetryAt: null })
  })

  test('a finished job is purged without an event, a dead letter with dead_letter.pruned', () => {
    const gone = cancel(aJob(), moment(NOON), { reason: 'request' }).job
    expect(due(gone, moment(gone.purgeAt ?? NOON))).toEqual({ before: gone, job: null, events: [] })
    const letter = fail(activeJob({ retry: { ...dead, maxAttempts: 1 } }), boom, moment(NOON)).job
    expect(typesOf(due(letter, moment(letter.purgeAt ?? NOON)))).toEqual(['dead_letter.pruned'])
  })
})

describe('what is recorded', () => {
  test('every failed attempt and every ending adds exactly one entry, oldest first', () => {
    let job = activeJob({ retry: { maxAttempts: 3, jitter: false } })
    job = fail(job, boom, moment(at('12:00:01'))).job
    job = claimed(release(job, moment(at('12:00:02'))).job)
    job = left(due(job, moment(at('12:01:02'))))
    job = claimed(release(job, moment(at('12:01:10'))).job, { workerId: null, known: false })
    job = left(due(job, moment(later(at('12:01:10'), minutes(30)))))
    expect(errorsOf(job).map(({ type, attempt }) => [type, attempt])).toEqual([
      ['boom', 1],
      ['stalled', 2],
      ['timeout', 3],
    ])
    expect(errorOf(job)).toEqual(errorsOf(job)[2])
  })

  test('of very many failures the latest 25 are kept', () => {
    let job = activeJob({ retry: { maxAttempts: 100, jitter: false, strategy: 'constant' } })
    let now = NOON
    for (let times = 1; times <= 40; times += 1) {
      now = later(now, 1000)
      const failed = fail(job, { type: `e${String(times)}`, message: '' }, moment(now)).job
      now = later(now, 1000)
      job = claimed(release(failed, moment(now)).job)
    }
    expect(errorsOf(job).map(({ type }) => type)).toEqual(
      Array.from({ length: 25 }, (_, index) => `e${String(index + 16)}`),
    )
    expect(job.errorCount).toBe(25)
    expect(errorOf(job).type).toBe('e40')
  })
})
