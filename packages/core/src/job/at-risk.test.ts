import { describe, expect, test } from 'vitest'
import { gapOf, latestStartOf, paceOf, riskInLine, riskOfMoment } from './at-risk.ts'
import { riskView } from '../wire/job/at-risk.ts'
import { aJob, at, later, ms, NOON, retryableJob } from '../builders.suite.ts'
import type { Instant } from '../time/clock.ts'

const NONE = ms(0)

describe('the pace', () => {
  const every = (gapMs: number, count: number, from: Instant): Instant[] =>
    Array.from({ length: count }, (_, index) => later(from, index * gapMs))

  test('is what was started in the last minute', () => {
    const pace = paceOf(every(1_000, 180, NOON), NOON, at('12:03'))
    expect(pace).toEqual({ starts: 60, windowMs: 60_000 })
    expect(gapOf({ starts: 30, windowMs: ms(60_000) })).toBe(2_000)
  })

  test('counts over what is known, if that is less', () => {
    expect(paceOf(every(100, 50, NOON), NOON, at('12:00:05'))).toEqual({ starts: 50, windowMs: 5_000 })
    expect(paceOf([NOON], NOON, NOON)).toEqual({ starts: 1, windowMs: 1_000 })
  })

  test('of a queue in which nothing starts is none', () => {
    expect(gapOf(paceOf([], NOON, at('12:05')))).toBeNull()
  })
})

describe('the latest start', () => {
  test('is the nearest of what ends a waiting job', () => {
    expect(latestStartOf(aJob(), NONE)).toBeNull()
    expect(latestStartOf(aJob({ ttlMs: 60_000 }), NONE)).toEqual({
      at: at('12:01'),
      limit: 'enqueue_ttl',
      source: 'publish',
      deadlineAt: at('12:01'),
    })
    expect(latestStartOf(aJob({ ttlMs: 60_000, expiresAt: at('12:00:30') }), NONE)).toMatchObject({
      at: at('12:00:30'),
      limit: 'expires_at',
    })
  })

  test('before a total leaves room for what an attempt takes', () => {
    expect(latestStartOf(aJob({ totalMs: 60_000 }), ms(20_000))).toMatchObject({
      at: at('12:00:40'),
      limit: 'total',
      deadlineAt: at('12:01'),
    })
    expect(latestStartOf(aJob({ totalMs: 60_000, ttlMs: 50_000 }), ms(20_000))?.limit).toBe('total')
    expect(latestStartOf(aJob({ totalMs: 60_000, ttlMs: 30_000 }), ms(20_000))?.limit).toBe('enqueue_ttl')
  })

  test('of a job that was tried already is not bound by its TTL', () => {
    expect(latestStartOf(retryableJob({ ttlMs: 60_000 }), NONE)).toBeNull()
  })
})

describe('in line', () => {
  const job = aJob({ ttlMs: 10_000 })

  test('a job is in time while its turn comes before its latest start', () => {
    expect(riskInLine(job, 8, 1_000, NONE, NOON)).toBeNull()
    expect(riskInLine(job, 9, 1_000, NONE, NOON)).toMatchObject({ expectedAt: at('12:00:10'), ahead: 9 })
  })

  test('nothing starts, nothing is in time', () => {
    expect(riskInLine(job, 0, null, NONE, NOON)).toMatchObject({ expectedAt: null, ahead: 0 })
    expect(riskInLine(aJob(), 0, null, NONE, NOON)).toBeNull()
  })

  test('shows the figures it was made of', () => {
    const risk = riskInLine(job, 19, 1_000, NONE, NOON)
    expect(risk === null ? null : riskView(risk)).toEqual({
      job_id: job.id,
      type: 'email.send',
      queue: 'default',
      priority: 0,
      state: 'available',
      latest_start: '2026-01-01T12:00:10.000Z',
      expected_start: '2026-01-01T12:00:20.000Z',
      late_by_ms: 10_000,
      deadline: '2026-01-01T12:00:10.000Z',
      limit: 'enqueue_ttl',
      source: 'publish',
      jobs_ahead: 19,
    })
  })
})

describe('a moment', () => {
  test('that lies behind the limit makes the job miss it', () => {
    expect(riskOfMoment(aJob({ ttlMs: 60_000, scheduledAt: at('12:01') }), NONE)).toMatchObject({ ahead: null })
    expect(riskOfMoment(aJob({ ttlMs: 60_000, scheduledAt: at('12:00:59') }), NONE)).toBeNull()
    expect(riskOfMoment(aJob({ totalMs: 60_000, scheduledAt: at('12:00:50') }), ms(20_000))?.latest.limit).toBe('total')
    expect(riskOfMoment(aJob({ ttlMs: 60_000 }), NONE)).toBeNull()
  })

  test('is that of the next attempt, too', () => {
    const waiting = retryableJob({ totalMs: 60_000, retry: { initialMs: ms(30_000), jitter: false } })
    expect(riskOfMoment(waiting, NONE)).toBeNull()
    expect(riskOfMoment(waiting, ms(40_000))?.latest.limit).toBe('total')
  })
})
