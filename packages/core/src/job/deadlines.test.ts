import { describe, expect, test } from 'vitest'
import {
  aJob,
  aWorker,
  activeJob,
  at,
  beating,
  completedJob,
  errorOf,
  JOB_ID,
  later,
  livenessOf,
  moment,
  ms,
  NOON,
  published,
  retryableJob,
  settingsWith,
  type ClaimTraits,
  type JobTraits,
} from '../builders.suite.ts'
import { days, minutes, seconds, type Instant } from '../time/clock.ts'
import { isDue } from '../time/sums.ts'
import {
  effectiveTotal,
  executionAt,
  hardDeadlineAt,
  softDeadline,
  softDeadlineAt,
  totalAt,
  type SoftLimit,
} from './deadlines.ts'
import { nextDue, wakeAtOf, type DueKind } from './due.ts'
import { overshootOf } from './lateness.ts'
import {
  creditFor,
  deathAt,
  deathEndsIt,
  FORGET_AFTER_MS,
  lastSignAt,
  ROW_ALONE,
  stallAt,
  visibilityAt,
  visibilityClock,
  workerWakeAt,
  type Liveness,
} from './liveness.ts'
import type { Job } from './job.ts'
import { expire } from './lifecycle/expire.ts'
import { signOfLife } from './lifecycle/report.ts'

/** One millisecond before the deadline the limit has not fired; in its own millisecond it has, and after it too. */
function expectFires(job: Job, deadline: Instant, kind: DueKind, life: Liveness = ROW_ALONE): void {
  expect(nextDue(job, life)).toEqual({ kind, at: deadline })
  const fires = (now: Instant): boolean => {
    const step = expire(job, life, moment(now))
    return step !== null && step.job?.state !== job.state
  }
  expect([-1, 0, 1].map((offset) => fires(later(deadline, offset)))).toEqual([false, true, true])
}

describe('due means now >= deadline', () => {
  test('a deadline is due in its own millisecond, not before', () => {
    expect([-1, 0, 1].map((offset) => isDue(NOON, later(NOON, offset)))).toEqual([false, true, true])
    expect(isDue(null, NOON)).toBe(false)
  })

  test('an attempt ends at timeout plus grace', () => {
    const job = activeJob({ timeoutMs: 30_000, graceMs: 5_000 })
    expectFires(job, at('12:00:35'), 'execution')
  })

  test('without grace an attempt ends at its timeout', () => {
    expectFires(activeJob({ timeoutMs: 2_000, graceMs: 0 }), at('12:00:02'), 'execution')
  })

  test('a worker that never introduced itself gets no default grace', () => {
    expectFires(activeJob({ timeoutMs: 2_000, known: false }), at('12:00:02'), 'execution')
  })

  test('the handler is asked to stop at the timeout, before the grace', () => {
    const job = activeJob({ timeoutMs: 60_000, graceMs: 5_000 })
    expect(softDeadlineAt(job)).toBe(at('12:01'))
    expect(executionAt(job)).toBe(at('12:01:05'))
    expect(hardDeadlineAt(job)).toBe(at('12:01:05'))
  })

  test('grace never extends a total: one that was set is kept free before it, in full', () => {
    const clamped = activeJob({ timeoutMs: 60_000, graceMs: 30_000, totalMs: 70_000 })
    expect([softDeadlineAt(clamped), hardDeadlineAt(clamped)]).toEqual([at('12:00:40'), at('12:01:10')])
    const late = activeJob({ timeoutMs: 60_000, graceMs: 30_000, totalMs: 70_000, claimedAt: at('12:00:30') })
    expect([softDeadlineAt(late), hardDeadlineAt(late)]).toEqual([at('12:00:40'), at('12:01:10')])
  })

  test.each<[string, JobTraits & ClaimTraits, [string, string, SoftLimit]]>([
    ['a total alone keeps a tenth of itself', { totalMs: 60_000 }, ['12:00:54', '12:01', 'total']],
    ['and no more than the default grace', { totalMs: 600_000 }, ['12:09:30', '12:10', 'total']],
    [
      'a tenth of what is left at the claim',
      { totalMs: 60_000, claimedAt: at('12:00:40') },
      ['12:00:58', '12:01', 'total'],
    ],
    ['whole milliseconds, rounded down', { totalMs: 19 }, ['12:00:00.018', '12:00:00.019', 'total']],
    ['less than ten milliseconds keep nothing', { totalMs: 9 }, ['12:00:00.009', '12:00:00.009', 'total']],
    [
      'a timeout that ends sooner is whole',
      { timeoutMs: 20_000, totalMs: 60_000 },
      ['12:00:20', '12:00:50', 'timeout'],
    ],
    ['a timeout as long as the total is cut', { timeoutMs: 60_000, totalMs: 60_000 }, ['12:00:54', '12:01', 'total']],
    ['a grace of nothing keeps nothing', { totalMs: 60_000, graceMs: 0 }, ['12:01', '12:01', 'total']],
    ['an unknown worker has no grace', { totalMs: 60_000, known: false }, ['12:01', '12:01', 'total']],
    [
      'an unknown worker keeps the grace that was set',
      { totalMs: 60_000, graceMs: 5_000, known: false },
      ['12:00:55', '12:01', 'total'],
    ],
    [
      "a handler's grace is a grace that was set",
      { totalMs: 60_000, handler: { grace: seconds(20) } },
      ['12:00:40', '12:01', 'total'],
    ],
    [
      'a default grace that a cap holds down is still the default',
      { limits: published({ total: seconds(60) }, settingsWith({ grace: seconds(10) })) },
      ['12:00:54', '12:01', 'total'],
    ],
    [
      'a grace that was set and is just shorter than the total is kept',
      { totalMs: 60_000, graceMs: 59_999 },
      ['12:00:00.001', '12:01', 'total'],
    ],
    [
      'a grace as long as the total counts as the default',
      { totalMs: 60_000, graceMs: 60_000 },
      ['12:00:54', '12:01', 'total'],
    ],
    [
      'a grace as long as the total leaves at the claim counts as the default',
      { totalMs: 60_000, graceMs: 20_000, claimedAt: at('12:00:40') },
      ['12:00:58', '12:01', 'total'],
    ],
    [
      'a grace longer than a long total keeps no more than the default grace',
      { timeoutMs: 600_000, totalMs: 600_000, graceMs: 900_000 },
      ['12:09:30', '12:10', 'total'],
    ],
    [
      'a grace longer than the total leaves a short timeout whole',
      { timeoutMs: 20_000, totalMs: 60_000, graceMs: 90_000 },
      ['12:00:20', '12:01', 'timeout'],
    ],
    [
      'what a parent hands down is a total as well',
      { ceiling: { at: at('12:01'), source: 'parent' } },
      ['12:00:54', '12:01', 'total'],
    ],
    ['without a total there is no reserve', { timeoutMs: 60_000 }, ['12:01', '12:01:30', 'timeout']],
  ])('the reserve before the total: %s', (_, traits, [soft, hard, limit]) => {
    const job = activeJob(traits)
    expect(softDeadline(job)).toEqual({ at: at(soft), limit })
    expect(hardDeadlineAt(job)).toBe(at(hard))
  })

  test.each<[string, Job]>([
    ['scheduled', aJob({ totalMs: 60_000, scheduledAt: at('13:00') })],
    ['pending', aJob({ totalMs: 60_000, pending: true })],
    ['available', aJob({ totalMs: 60_000 })],
    ['active', activeJob({ totalMs: 60_000 })],
    ['retryable', retryableJob({ totalMs: 60_000, retry: { initialMs: seconds(50), jitter: false } })],
  ])('the total ends a job that is %s', (state, job) => {
    expect(job.state).toBe(state)
    const life = job.state === 'retryable' ? { ...job, nextRetryAt: at('13:00') } : job
    expectFires(life, at('12:01'), 'total')
  })

  test.each<[string, Job]>([
    ['scheduled', aJob({ ttlMs: 60_000, scheduledAt: at('13:00') })],
    ['pending', aJob({ ttlMs: 60_000, pending: true })],
    ['available', aJob({ ttlMs: 60_000 })],
  ])('the enqueue TTL ends a job that is %s', (state, job) => {
    expect(job.state).toBe(state)
    expectFires(job, at('12:01'), 'enqueue_ttl')
  })

  test('expires_at ends a job that has not started', () => {
    expectFires(aJob({ expiresAt: at('12:01') }), at('12:01'), 'expires_at')
    expectFires(aJob({ expiresAt: at('12:01'), pending: true }), at('12:01'), 'expires_at')
  })

  test('of TTL and expires_at the earlier wins', () => {
    expect(nextDue(aJob({ ttlMs: 60_000, expiresAt: at('12:00:30') }))?.kind).toBe('expires_at')
    expect(nextDue(aJob({ ttlMs: 60_000, expiresAt: at('12:01:30') }))?.kind).toBe('enqueue_ttl')
  })

  test('neither TTL nor expires_at binds a job that has once been started', () => {
    const traits = { ttlMs: 60_000, expiresAt: at('12:01'), known: false }
    const active = activeJob(traits)
    const waiting = retryableJob({ ...traits, retry: { initialMs: minutes(5), jitter: false } })
    for (const job of [active, waiting]) expect(expire(job, ROW_ALONE, moment(at('12:01')))).toBeNull()
    const again = expire(waiting, ROW_ALONE, moment(waiting.nextRetryAt ?? NOON))?.job
    expect(again?.state).toBe('available')
    expect(again?.wakeAt).toBeNull()
  })

  test('a stalled attempt is noticed when its heartbeat limit has passed since the claim', () => {
    expectFires(activeJob({ heartbeatMs: 10_000 }), at('12:00:10'), 'stalled')
    expectFires(activeJob({}), at('12:01'), 'stalled')
  })

  test('a reservation lapses after its visibility', () => {
    expectFires(activeJob({ visibilityMs: 20_000 }), at('12:00:20'), 'visibility')
  })

  test('a worker is dead after 30 s of silence', () => {
    const job = activeJob({})
    expectFires(job, at('12:00:30'), 'worker_death', livenessOf(aWorker({ lastSeenAt: NOON })))
    expectFires(job, at('12:00:35'), 'worker_death', livenessOf(beating(at('12:00:05'), { jobs: [] })))
  })

  test('a scheduled job is released, a backoff ends, in their own millisecond', () => {
    expectFires(aJob({ scheduledAt: at('12:01') }), at('12:01'), 'scheduled')
    const waiting = retryableJob({ retry: { initialMs: seconds(9), jitter: false } })
    expectFires(waiting, at('12:00:10'), 'backoff')
  })

  test('a finished job is removed when its retention is over', () => {
    const job = completedJob()
    const purge = later(at('12:00:01'), days(7))
    expect(nextDue(job)).toEqual({ kind: 'purge', at: purge })
    expect(expire(job, ROW_ALONE, moment(later(purge, -1)))).toBeNull()
    expect(expire(job, ROW_ALONE, moment(purge))).toMatchObject({ job: null })
  })
})

describe('who is judged by death', () => {
  const silent = livenessOf(aWorker({ lastSeenAt: NOON }))

  test('a job whose heartbeat_timeout was set is judged by that clock alone, even if its worker is dead', () => {
    const job = activeJob({ heartbeatMs: 120_000 })
    expect(deathEndsIt(job)).toBe(false)
    expectFires(job, at('12:02'), 'stalled', silent)
    expect(deathEndsIt(activeJob({ handler: { heartbeat: seconds(120) } }))).toBe(false)
  })

  test('a default heartbeat that a cap held down is still a default: death ends the job', () => {
    const limits = published({}, settingsWith({ heartbeat: seconds(45) }))
    expectFires(activeJob({ limits }), at('12:00:30'), 'worker_death', silent)
  })

  test('death ends every other job of the worker, even one claimed before the worker was known', () => {
    expectFires(activeJob({ known: false }), at('12:00:30'), 'worker_death', silent)
  })

  test('workers that never introduced themselves, and those already declared dead, are not judged', () => {
    const { outages, workerTimeoutMs } = silent
    expect(deathAt(aWorker({ known: false }), { outages, workerTimeoutMs })).toBeNull()
    expect(deathAt(aWorker({ diedAt: NOON }), { outages, workerTimeoutMs })).toBeNull()
    expect(nextDue(activeJob({ known: false }), livenessOf(aWorker({ known: false })))?.kind).toBe('execution')
  })

  test("another worker's silence ends nothing", () => {
    expect(nextDue(activeJob({ known: false, workerId: 'w2' }), silent)?.kind).toBe('execution')
    expect(nextDue(activeJob({ known: false, workerId: null }), silent)?.kind).toBe('execution')
  })
})

describe('several limits in one millisecond', () => {
  const silent = livenessOf(aWorker({ lastSeenAt: NOON }))
  // All five clocks of an attempt end at 12:00:30.
  const traits = { totalMs: 30_000, timeoutMs: 30_000, graceMs: 0, visibilityMs: 30_000 }
  const life = { ...silent, workerTimeoutMs: seconds(60) }

  test('total before execution before stalled before worker death before visibility', () => {
    const winner = (job: Job, by: Liveness = silent): DueKind | undefined => nextDue(job, by)?.kind
    expect(winner(activeJob({ ...traits, heartbeatMs: 30_000 }))).toBe('total')
    expect(winner(activeJob({ ...traits, totalMs: 90_000, heartbeatMs: 30_000 }))).toBe('execution')
    expect(winner(activeJob({ heartbeatMs: 30_000, visibilityMs: 30_000 }))).toBe('stalled')
    // Only a default stall clock (60 s) leaves room for death, so death is set to 60 s here.
    expect(winner(activeJob({ visibilityMs: 60_000 }), life)).toBe('stalled')
    expect(winner(activeJob({ visibilityMs: 30_000 }))).toBe('worker_death')
    expect(winner(activeJob({ visibilityMs: 30_000 }), ROW_ALONE)).toBe('visibility')
  })

  test('the earliest comes first, whatever its rank', () => {
    const job = activeJob({ ...traits, visibilityMs: 29_999 })
    expect(nextDue(job, silent)).toEqual({ kind: 'visibility', at: at('12:00:29.999') })
  })

  test('a limit comes before a start: nothing starts with an empty budget', () => {
    const due = (job: Job): DueKind | undefined => nextDue(job)?.kind
    expect(due(aJob({ scheduledAt: at('12:01'), totalMs: 60_000 }))).toBe('total')
    expect(due(aJob({ scheduledAt: at('12:01'), ttlMs: 60_000 }))).toBe('enqueue_ttl')
    expect(due(aJob({ scheduledAt: at('12:01'), expiresAt: at('12:01') }))).toBe('expires_at')
    const waiting = retryableJob({ totalMs: 60_000, retry: { initialMs: seconds(58), jitter: false } })
    expect(due({ ...waiting, nextRetryAt: at('12:01') })).toBe('total')
  })
})

describe('a total from outside', () => {
  test('a parent or a workflow can only make it tighter', () => {
    const ceiling = { at: at('12:05'), source: 'parent' } as const
    expect(totalAt(aJob({ ceiling }))).toBe(at('12:05'))
    expect(totalAt(aJob({ ceiling, totalMs: 60_000 }))).toBe(at('12:01'))
    expect(totalAt(aJob({ ceiling, totalMs: minutes(10) }))).toBe(at('12:05'))
    expect(totalAt(aJob({}))).toBeNull()
  })

  test('the total that binds has the source that won', () => {
    const ceiling = { at: at('12:05'), source: 'workflow' } as const
    expect(effectiveTotal(aJob({ ceiling, totalMs: 60_000 }))).toEqual({
      ms: 60_000,
      source: 'publish',
      at: at('12:01'),
    })
    expect(effectiveTotal(aJob({ ceiling, totalMs: minutes(6) }))).toEqual({
      ms: minutes(5),
      source: 'workflow',
      at: at('12:05'),
    })
    expect(effectiveTotal(aJob({}))).toBeNull()
  })
})

describe('beats', () => {
  const job = activeJob({ heartbeatMs: 10_000, visibilityMs: 20_000 })
  const beat = at('12:00:05')

  test('a beat that lists the job resets both liveness clocks', () => {
    const life = livenessOf(beating(beat))
    expect(stallAt(job, life)).toBe(at('12:00:15'))
    expect(visibilityAt(job, life)).toBe(at('12:00:25'))
  })

  test('a beat never touches the execution clock, the total or the soft deadline', () => {
    const timed = activeJob({ timeoutMs: 8_000, graceMs: 0, totalMs: 60_000 })
    expect(nextDue(timed, livenessOf(beating(at('12:00:07'))))).toEqual({ kind: 'execution', at: at('12:00:08') })
  })

  test('a job the worker no longer lists gets nothing', () => {
    const life = livenessOf(beating(beat, { jobs: ['another'] }))
    expect(stallAt(job, life)).toBe(at('12:00:10'))
    expect(visibilityAt(job, life)).toBe(at('12:00:20'))
  })

  test('with x_beats only the proven jobs are spared the stall clock; the rest get visibility', () => {
    const listed = livenessOf(beating(beat, { proofs: new Set() }))
    expect([stallAt(job, listed), visibilityAt(job, listed)]).toEqual([at('12:00:10'), at('12:00:25')])
    const proven = livenessOf(beating(beat, { proofs: new Set([JOB_ID]) }))
    expect([stallAt(job, proven), visibilityAt(job, proven)]).toEqual([at('12:00:15'), at('12:00:25')])
  })

  test('a proof for a job that is not listed counts for nothing', () => {
    expect(stallAt(job, livenessOf(beating(beat, { jobs: [], proofs: new Set([JOB_ID]) })))).toBe(at('12:00:10'))
  })

  test('a stale lease resets nothing, the current one does', () => {
    expect(lastSignAt(job, beating(beat, { leases: { [JOB_ID]: job.lease - 1 } }))).toBe(NOON)
    expect(visibilityAt(job, livenessOf(beating(beat, { leases: { [JOB_ID]: job.lease - 1 } })))).toBe(at('12:00:20'))
    expect(lastSignAt(job, beating(beat, { leases: { [JOB_ID]: job.lease } }))).toBe(beat)
  })

  test('a beat from before the claim speaks of an earlier attempt', () => {
    const claimed = activeJob({ heartbeatMs: 10_000, claimedAt: at('12:01') })
    const early = beating(at('12:00:59.999'))
    expect(lastSignAt(claimed, early)).toBe(at('12:01'))
    expect(visibilityClock(claimed, early)?.since).toBe(at('12:01'))
  })

  test('of a beat and a sign of the job in the same millisecond the longer visibility counts', () => {
    const signed = activeJob({ heartbeatMs: 10_000, claimedAt: beat })
    const own = signed.hold?.visibleMs ?? 0
    for (const visibilityMs of [ms(own - 1), ms(own), ms(own + 1)]) {
      expect(visibilityClock(signed, beating(beat, { visibilityMs }))?.ms).toBe(Math.max(own, visibilityMs))
    }
  })

  test('a beat of another worker counts for nothing', () => {
    expect(lastSignAt(job, { ...beating(beat), id: 'w2' })).toBe(NOON)
  })

  test('a beat may bring its own visibility, shorter or longer', () => {
    for (const visibilityMs of [ms(1_000), ms(50_000)]) {
      expect(visibilityAt(job, livenessOf(beating(beat, { visibilityMs })))).toBe(later(beat, visibilityMs))
    }
  })

  test('the latest sign counts, wherever it was written', () => {
    const spoke = signOfLife(job, at('12:00:07'))
    const life = livenessOf(beating(beat, { visibilityMs: ms(1_000) }))
    expect(stallAt(spoke, life)).toBe(at('12:00:17'))
    expect(visibilityAt(spoke, life)).toBe(at('12:00:27'))
    const beaten = livenessOf(beating(at('12:00:08')))
    expect(stallAt(spoke, beaten)).toBe(at('12:00:18'))
  })

  test('an attempt is not judged by its heartbeats where no limit is enforced', () => {
    expect(stallAt(activeJob({ known: false }), ROW_ALONE)).toBeNull()
    expect(stallAt(aJob(), ROW_ALONE)).toBeNull()
  })

  test('a row that wakes for a clock that was renewed is re-armed, and nothing else changes', () => {
    const step = expire(job, livenessOf(beating(beat)), moment(at('12:00:10')))
    expect(step).toEqual({ before: job, job: { ...job, wakeAt: at('12:00:15') }, events: [] })
  })
})

describe("the server's own outage", () => {
  const outage = { from: at('12:00:02'), to: at('12:10') }

  test('is given back to stall, visibility and death', () => {
    const job = activeJob({ heartbeatMs: 10_000, visibilityMs: 20_000 })
    const life = livenessOf(aWorker({ lastSeenAt: NOON }), [outage])
    expect(stallAt(job, life)).toBe(at('12:10:08'))
    expect(visibilityAt(job, life)).toBe(at('12:10:18'))
    expect(deathAt(aWorker({ lastSeenAt: NOON }), life)).toBe(at('12:10:28'))
  })

  test('is never given back to execution, total or TTL', () => {
    const life = livenessOf(null, [outage])
    const job = activeJob({ known: false, timeoutMs: 60_000, graceMs: 0 })
    expect(nextDue(job, life)).toEqual({ kind: 'execution', at: at('12:01') })
    expect(nextDue(activeJob({ known: false, totalMs: 60_000 }), life)).toEqual({ kind: 'total', at: at('12:01') })
    expect(nextDue(aJob({ ttlMs: 60_000 }), life)).toEqual({ kind: 'enqueue_ttl', at: at('12:01') })
  })

  test('counts only from the last reset of each clock, and several add up', () => {
    expect(creditFor(at('12:05'), [outage])).toBe(minutes(5))
    expect(creditFor(at('12:10'), [outage])).toBe(0)
    expect(creditFor(at('12:20'), [outage])).toBe(0)
    expect(creditFor(NOON, [outage, { from: at('12:20'), to: at('12:21') }])).toBe(598_000 + 60_000)
  })
})

describe('how late a decision was', () => {
  test('is counted from the deadline, or from when it was set or the server came up, if that was later', () => {
    const [deadline, decided] = [at('12:00'), at('12:01')]
    expect(overshootOf(deadline, at('11:00'), at('11:00'), decided)).toBe(60_000)
    expect(overshootOf(deadline, at('12:00:50'), at('11:00'), decided)).toBe(10_000)
    expect(overshootOf(deadline, at('11:00'), at('12:00:59'), decided)).toBe(1_000)
    expect(overshootOf(deadline, at('11:00'), at('11:00'), deadline)).toBe(0)
  })
})

describe('when a row wakes', () => {
  test("a job's row does not wake for its worker's death: that is on the worker's row", () => {
    const job = activeJob({})
    expect(wakeAtOf(job, livenessOf(aWorker({ lastSeenAt: NOON })))).toBe(at('12:01'))
  })

  test('nothing wakes a job that waits without limits', () => {
    expect(wakeAtOf(aJob())).toBeNull()
    expect(wakeAtOf(aJob({ pending: true }))).toBeNull()
  })

  test('a worker wakes at its death, then once more an hour later to be forgotten', () => {
    const life = livenessOf(null)
    expect(workerWakeAt(aWorker(), life)).toBe(at('12:00:30'))
    expect(workerWakeAt(aWorker({ diedAt: at('12:30') }), life)).toBe(at('13:30'))
    expect(FORGET_AFTER_MS).toBe(minutes(60))
  })

  test('a worker that only ever fetched is forgotten after an hour of silence', () => {
    expect(workerWakeAt(aWorker({ known: false }), livenessOf(null))).toBe(at('13:00'))
  })

  test('the ending by a total tells the deadline it was decided by', () => {
    const step = expire(aJob({ totalMs: 60_000 }), ROW_ALONE, moment(at('12:01:00.250')))
    expect(errorOf(step?.job ?? null)).toMatchObject({ deadline: '2026-01-01T12:01:00.000Z', overshoot_ms: 250 })
  })
})
