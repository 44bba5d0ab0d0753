/** What a limiter does to a job that does not want to wait in line. */
import { expect, test } from 'vitest'
import { aJob, at, dataOf, errorOf, errorsOf, left, moment, RETENTION, typesOf } from '../../builders.suite.ts'
import { after } from '../../time/sums.ts'
import { ROW_ALONE } from '../liveness.ts'
import { TAIL } from '../job.ts'
import { readLife } from '../../wire/job/life.ts'
import { drop, putOff } from './admit.ts'
import { expire } from './expire.ts'

const now = at('12:05')

test('a job that is put off is scheduled for the instant its limiter opens, and joins the tail then', () => {
  const job = { ...aJob({ ttlMs: 3_600_000 }), seq: 5 }
  const step = putOff(job, at('12:06'), '"scheduled_at":"x"', moment(now))
  expect(step.job).toMatchObject({
    state: 'scheduled',
    scheduledAt: at('12:06'),
    wakeAt: at('12:06'),
    enqueuedAt: null,
    attempt: 0,
    given: '"scheduled_at":"x"',
  })
  expect(dataOf(step, 'job.scheduled')).toMatchObject({ scheduled_at: '2026-01-01T12:06:00.000Z' })
  expect(readLife(step.job).at(-1)).toEqual({ at: now, to: 'scheduled', why: 'rate_limited' })
  expect(left(expire(step.job, ROW_ALONE, moment(at('12:06'))))).toMatchObject({ state: 'available', seq: TAIL })
})

test('being put off extends no limit: a TTL that ends before ends it', () => {
  const step = putOff(aJob({ ttlMs: 330_000 }), at('12:06'), '', moment(now))
  expect(step.job.wakeAt).toBe(at('12:05:30'))
  expect(left(expire(step.job, ROW_ALONE, moment(at('12:05:30')))).state).toBe('discarded')
})

test('a job that is dropped is discarded with the reason, and is not a dead letter', () => {
  const job = aJob({ retry: { onExhaustion: 'dead_letter' } })
  const step = drop(job, 'push', moment(now))
  expect(step.job).toMatchObject({
    state: 'discarded',
    discardedAt: now,
    completedAt: null,
    deadLetter: false,
    purgeAt: after(now, RETENTION.discardedMs),
  })
  expect(errorOf(step.job)).toMatchObject({
    type: 'rate_limited',
    retryable: false,
    details: { key: 'push' },
    attempt: 0,
  })
  expect(errorsOf(step.job)).toHaveLength(1)
  expect(typesOf(step)).toEqual(['job.discarded'])
})
