/** What an operator may do to a job: PATCH while it waits, retry it by hand when it is over. */
import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  at,
  boom,
  cancelledJob,
  claimed,
  completedJob,
  discardedJob,
  errorOf,
  errorsOf,
  left,
  moment,
  ms,
  NOON,
  published,
  retryableJob,
  typesOf,
} from '../../builders.suite.ts'
import { seconds, type Instant } from '../../time/clock.ts'
import { totalAt, ttlAt } from '../deadlines.ts'
import { ROW_ALONE } from '../liveness.ts'
import { TAIL, type Job } from '../job.ts'
import { release } from './admit.ts'
import { changeLimits, retryByHand, type NewLimits } from './change.ts'
import { expire } from './expire.ts'
import { fail } from './report.ts'
import type { Step } from './transition.ts'
import { readLife } from '../../wire/job/life.ts'

const now = at('12:30')
const dead = { onExhaustion: 'dead_letter', jitter: false } as const

describe('a retry by hand', () => {
  const again = (job: Job, limits = job.limits, given = ''): Step =>
    retryByHand(job, { limits, given, priority: job.priority }, moment(now))

  test('begins anew: attempts, clocks and current error; the history and the lease stay', () => {
    const ended = {
      ...discardedJob({ retry: dead, totalMs: 60_000, expiresAt: at('13:00') }),
      lease: 7,
      interruptions: 2,
    }
    const step = again(ended)
    expect(step.job).toMatchObject({
      state: 'available',
      attempt: 0,
      lease: 7,
      interruptions: 0,
      anchorAt: now,
      limitsSetAt: now,
      enqueuedAt: now,
      reenqueuedAt: now,
      createdAt: NOON,
      startedAt: NOON,
      expiresAt: null,
      discardedAt: null,
      completedAt: null,
      error: null,
      retryDelayMs: null,
      nextRetryAt: null,
      closedBy: null,
      progress: null,
      deadLetter: false,
      purgeAt: null,
      seq: TAIL,
    })
    expect(errorsOf(step.job).map(({ type }) => type)).toEqual(['boom'])
    expect(typesOf(step)).toEqual(['dead_letter.retried', 'job.enqueued'])
  })

  test('gives total and TTL their whole length from now', () => {
    const { job } = again(discardedJob({ totalMs: 60_000, ttlMs: 20_000 }))
    expect([totalAt(job), ttlAt(job), job.wakeAt]).toEqual([at('12:31'), at('12:30:20'), at('12:30:20')])
  })

  test('takes the limits settled anew, and lifts the clamp of a parent or workflow; the family stays', () => {
    const parent = { kind: 'job', id: 'p' } as const
    const ended = discardedJob({ ceiling: { at: at('12:10'), source: 'parent' }, parent })
    const { job } = again(ended, published({ timeout: seconds(5) }), '"timeout":5')
    expect(job).toMatchObject({
      ceiling: null,
      parent,
      limits: { timeout: { ms: 5000 } },
      given: '"timeout":5',
      wakeAt: null,
    })
  })

  test('of a cancelled job emits job.enqueued only', () => {
    const step = again(cancelledJob())
    expect(step.job).toMatchObject({ state: 'available', cancelledAt: null, cancelReason: null })
    expect(typesOf(step)).toEqual(['job.enqueued'])
  })

  test('lets the next claim hold a lease no earlier attempt ever held', () => {
    const ended = discardedJob()
    expect(claimed(again(ended).job, { claimedAt: now })).toMatchObject({ attempt: 1, lease: ended.lease + 1 })
  })

  test('gives back every attempt of the policy', () => {
    const retried = claimed(again(discardedJob()).job, { claimedAt: now })
    expect(fail({ ...retried, retry: { ...retried.retry, maxAttempts: 2 } }, boom, moment(now)).job.state).toBe(
      'retryable',
    )
  })

  test('is refused to a job that completed', () => {
    expect(() => again(completedJob())).toThrow('cannot be retried by hand')
  })
})

describe('PATCH', () => {
  const patch = (job: Job, changes: Partial<NewLimits>, when: Instant = now): Step =>
    changeLimits(
      job,
      {
        limits: job.limits,
        given: job.given,
        priority: job.priority,
        scheduledAt: job.scheduledAt,
        expiresAt: job.expiresAt,
        ...changes,
      },
      moment(when),
    )

  test('changes limits, priority and what is given back, and arms the row for them', () => {
    const step = patch(aJob(), {
      limits: published({ total: seconds(3600) }),
      priority: 9,
      given: '"total_timeout":3600',
    })
    expect(step.job).toMatchObject({
      state: 'available',
      priority: 9,
      given: '"total_timeout":3600',
      wakeAt: at('13:00'),
      limitsSetAt: now,
    })
    expect(typesOf(step)).toEqual(['job.limits_changed'])
  })

  test('with a TTL that is already past lets the job expire at once, without lateness', () => {
    const step = patch(aJob(), { limits: published({ ttl: seconds(60) }) })
    const ended = left(expire(step.job, ROW_ALONE, moment(now)))
    expect(ended.state).toBe('discarded')
    expect(errorOf(ended)).toMatchObject({ type: 'enqueue_ttl_expired', overshoot_ms: 0, elapsed_seconds: 1800 })
  })

  test('moves the schedule of a scheduled job', () => {
    const job = aJob({ scheduledAt: at('13:00') })
    const moved = patch(job, { scheduledAt: at('14:00') })
    expect(moved.job).toMatchObject({ state: 'scheduled', wakeAt: at('14:00') })
    expect(typesOf(moved)).toEqual(['job.limits_changed'])
  })

  test.each([
    ['now', now],
    ['a moment that is past', NOON],
    ['nothing', null],
  ])('with a schedule of %s releases a scheduled job', (_, scheduledAt) => {
    const step = patch(aJob({ scheduledAt: at('13:00') }), { scheduledAt })
    expect(step.job).toMatchObject({ state: 'available', enqueuedAt: now, scheduledAt })
    expect(typesOf(step)).toEqual(['job.limits_changed', 'job.enqueued'])
  })

  test('with a schedule takes an available job that never started back to scheduled, and tells so', () => {
    const step = patch(aJob(), { scheduledAt: at('13:00') })
    expect(step.job).toMatchObject({ state: 'scheduled', enqueuedAt: null, wakeAt: at('13:00') })
    expect(typesOf(step)).toEqual(['job.limits_changed', 'job.scheduled'])
    expect(readLife(step.job).at(-1)).toEqual({ at: now, to: 'scheduled' })
  })

  test('leaves a pending job pending, whatever its schedule', () => {
    expect(patch(aJob({ pending: true }), { scheduledAt: at('13:00') }).job.state).toBe('pending')
  })

  test('leaves a job that was once started where it is', () => {
    const back = release(retryableJob(), moment(at('12:00:02'))).job
    expect(patch(back, { priority: 5 }).job).toMatchObject({ state: 'available', enqueuedAt: at('12:00:02') })
  })

  test('does not reschedule an available job whose old schedule is simply past', () => {
    const job = left(expire(aJob({ scheduledAt: at('12:10') }), ROW_ALONE, moment(at('12:10'))))
    const step = patch(job, { priority: 5 })
    expect(step.job).toMatchObject({ state: 'available', enqueuedAt: at('12:10') })
    expect(typesOf(step)).toEqual(['job.limits_changed'])
  })

  test('keeps the clamp of a parent whatever the own total becomes', () => {
    const job = aJob({ ceiling: { at: at('12:40'), source: 'parent' } })
    expect(totalAt(patch(job, { limits: published({ total: seconds(86_400) }) }).job)).toBe(at('12:40'))
  })

  describe('of a retryable job asks again whether the retry fits', () => {
    const waiting = retryableJob({
      createdAt: at('12:29'),
      claimedAt: at('12:29'),
      retry: { ...dead, initialMs: seconds(120) },
    })

    test('and keeps it where it does', () => {
      const step = patch(waiting, { limits: published({ total: seconds(181), timeout: seconds(60) }) })
      expect(step.job.state).toBe('retryable')
      expect(typesOf(step)).toEqual(['job.limits_changed'])
    })

    test('and gives it up where it does not', () => {
      const step = patch(waiting, { limits: published({ total: ms(180_999), timeout: seconds(60) }) })
      expect(step.job).toMatchObject({ state: 'discarded', deadLetter: true, nextRetryAt: null })
      expect(step.before).toBe(waiting)
      expect(errorOf(step.job)).toMatchObject({
        type: 'total_timeout',
        details: { predicted: true, last_error: { type: 'boom' } },
      })
      expect(errorsOf(step.job).map(({ type }) => type)).toEqual(['boom', 'total_timeout'])
      expect(typesOf(step)).toEqual(['job.limits_changed', 'job.total_timeout', 'job.discarded', 'dead_letter.added'])
    })
  })

  test('is refused while the job runs and when it is over', () => {
    for (const job of [activeJob(), completedJob(), cancelledJob(), discardedJob()])
      expect(() => patch(job, {})).toThrow('cannot be changed')
  })
})
