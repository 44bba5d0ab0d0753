import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aJob,
  aWorker,
  activeJob,
  at,
  beating,
  cancelledJob,
  completedJob,
  discardedJob,
  later,
  livenessOf,
  moment,
  NOON,
  retryableJob,
} from '../builders.suite.ts'
import { seconds } from '../time/clock.ts'
import { softDeadlineAt } from './deadlines.ts'
import { nextDue } from './due.ts'
import { ROW_ALONE } from './liveness.ts'
import type { Job } from './job.ts'
import { expire } from './lifecycle/expire.ts'
import { nextFor, type Next } from './next.ts'
import type { Consequence } from './timeline/foresee.ts'

const next = (job: Job): Next | null => nextFor(job, ROW_ALONE, NOON)
const HOUR = 3_600_000

describe('what happens next', () => {
  test('nothing, to a job that has ended or waits for a signal alone', () => {
    for (const job of [completedJob(), cancelledJob(), discardedJob(), aJob(), aJob({ pending: true })])
      expect(next(job)).toBeNull()
  })

  test('the earliest of its limits, with its length and source', () => {
    expect(next(aJob({ ttlMs: 60_000, totalMs: 30_000 }))).toMatchObject({ kind: 'total', limit_ms: 30_000 })
    expect(next(aJob({ ttlMs: 20_000, totalMs: 30_000 }))).toMatchObject({ kind: 'ttl', limit_ms: 20_000 })
    expect(next(aJob({ expiresAt: at('12:01'), scheduledAt: at('12:02') }))).toEqual({
      kind: 'expires_at',
      at: '2026-01-01T12:01:00.000Z',
      limit: 'expires_at',
      source: 'publish',
      then: 'discard',
    })
  })

  test('the question to stop comes before the end, and only where there is time between them', () => {
    expect(next(activeJob({ timeoutMs: 10_000, graceMs: 5_000 }))).toMatchObject({ kind: 'soft_deadline' })
    expect(next(activeJob({ timeoutMs: 10_000, graceMs: 0 }))).toMatchObject({
      kind: 'hard_deadline',
      limit: 'timeout',
    })
    const reserved = activeJob({ timeoutMs: 10_000, graceMs: 2_000, totalMs: 10_000 })
    expect(next(reserved)).toMatchObject({ kind: 'soft_deadline', limit: 'total_timeout', limit_ms: 10_000 })
    expect(nextFor(reserved, ROW_ALONE, at('12:00:08'))).toMatchObject({ kind: 'total', then: 'discard' })
  })

  test('silence is shown with the clock of the worker', () => {
    const job = activeJob({ graceMs: HOUR, visibilityMs: 20_000 })
    expect(nextFor(job, livenessOf(null), NOON)).toMatchObject({
      kind: 'visibility',
      limit_ms: 20_000,
      then: 'available',
    })
    const short = livenessOf(beating(at('12:00:01'), { visibilityMs: seconds(2) }))
    expect(nextFor(job, short, NOON)).toMatchObject({ kind: 'visibility', limit_ms: 2_000, source: 'handler' })
    expect(nextFor(activeJob({ graceMs: HOUR }), livenessOf(aWorker()), NOON)).toMatchObject({ kind: 'worker_death' })
  })

  test('whether it is retried follows from its policy', () => {
    const hard = (traits: Parameters<typeof activeJob>[0]): Consequence | undefined =>
      next(activeJob({ timeoutMs: 10_000, graceMs: 0, ...traits }))?.then
    expect(hard({})).toBe('retry')
    expect(hard({ retry: { maxAttempts: 1 } })).toBe('discard')
    expect(hard({ onTimeout: 'discard' })).toBe('discard')
    expect(hard({ retry: { nonRetryable: ['timeout'] } })).toBe('discard')
    expect(hard({ totalMs: 15_000 })).toBe('discard')
    // A backoff between 0.5 s and 1.5 s: of 11 s that are left, 10 s are the next attempt's.
    expect(hard({ totalMs: 21_000, retry: { jitter: true } })).toBe('retry_or_discard')
    expect(next(retryableJob())).toMatchObject({ kind: 'retry', limit: 'backoff', then: 'available' })
  })

  const STATES: Readonly<Record<Consequence, readonly string[]>> = {
    available: ['available'],
    grace: ['active'],
    retry: ['retryable'],
    retry_or_discard: ['retryable', 'discarded'],
    discard: ['discarded'],
    cancel: ['cancelled'],
    attempt: ['active'],
  }

  test('what is announced is what time then does, at that instant', () => {
    const length = fc.option(fc.integer({ min: 1, max: 60_000 }), { nil: undefined })
    const traits = fc.record({
      timeoutMs: fc.integer({ min: 1, max: 60_000 }),
      graceMs: fc.nat(60_000),
      heartbeatMs: length,
      visibilityMs: length,
      ttlMs: length,
      totalMs: fc.integer({ min: 60_000, max: 200_000 }),
      onTimeout: fc.constantFrom('retry' as const, 'discard' as const),
      isActive: fc.boolean(),
      max: fc.integer({ min: 1, max: 2 }),
      ceiling: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }),
      random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    })
    fc.assert(
      fc.property(traits, ({ isActive, max, ceiling, random, heartbeatMs, visibilityMs, ttlMs, ...limits }) => {
        const asked = {
          ...limits,
          ...(heartbeatMs === undefined ? {} : { heartbeatMs }),
          ...(visibilityMs === undefined ? {} : { visibilityMs }),
          ...(ttlMs === undefined ? {} : { ttlMs }),
          ...(ceiling === undefined ? {} : { ceiling: { at: later(NOON, ceiling), source: 'workflow' as const } }),
          retry: { maxAttempts: max },
        }
        const job = isActive ? activeJob(asked) : aJob(asked)
        const told = next(job)
        const due = nextDue(job)
        if (told === null || due === null) return told === null && due === null
        if (told.kind === 'soft_deadline') return Date.parse(told.at) === softDeadlineAt(job)
        const after = expire(job, ROW_ALONE, moment(due.at, { random: () => random }))?.job
        return Date.parse(told.at) === due.at && STATES[told.then].includes(after?.state ?? '')
      }),
    )
  })
})
