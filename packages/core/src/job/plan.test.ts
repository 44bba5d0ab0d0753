import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aJob,
  at,
  claimed,
  left,
  moment,
  ms,
  NOON,
  published,
  settingsWith,
  type JobTraits,
} from '../builders.suite.ts'
import { minutes, seconds } from '../time/clock.ts'
import { ROW_ALONE } from './liveness.ts'
import { expire } from './lifecycle/expire.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import { impossibilities, planFor, warningsFor, type Plan } from './plan.ts'

const retry = { jitter: false, initialMs: seconds(10), maxAttempts: 3 }
const BEAT_EVERY = seconds(5)
const plan = (traits: JobTraits): Plan =>
  planFor(aJob({ ...traits, retry: { ...retry, ...traits.retry } }), DEFAULT_LIMITS, BEAT_EVERY, NOON)

describe('a plan', () => {
  test('shows the limits, what ends each stage, every attempt, and no warning where all is well', () => {
    expect(plan({ timeoutMs: 30_000, graceMs: 5_000 })).toEqual({
      limits: expect.objectContaining({ timeout_ms: 30_000, grace_ms: 5_000 }),
      wins: [
        { stage: 'attempt', limit: 'timeout', source: 'publish', after_ms: 35_000 },
        {
          stage: 'life',
          limit: 'max_attempts',
          source: 'publish',
          after_ms: 35_000 + 10_000 + 35_000 + 20_000 + 35_000,
        },
      ],
      attempts: [
        { attempt: 1, starts_after_ms: 0, fits: true },
        { attempt: 2, starts_after_ms: 45_000, fits: true },
        { attempt: 3, starts_after_ms: 100_000, fits: true },
      ],
      warnings: [],
    })
  })

  test('names the earliest of the limits that can end the wait', () => {
    const first = (traits: JobTraits): unknown => plan(traits).wins.find(({ stage }) => stage === 'waiting')
    expect(first({})).toBeUndefined()
    expect(first({ ttlMs: 60_000, expiresAt: at('12:02'), totalMs: 180_000 })).toEqual({
      stage: 'waiting',
      limit: 'enqueue_ttl',
      source: 'publish',
      after_ms: 60_000,
    })
    expect(first({ ttlMs: 180_000, expiresAt: at('12:02') })).toMatchObject({ limit: 'expires_at', after_ms: 120_000 })
    expect(first({ ttlMs: 180_000, totalMs: 60_000 })).toMatchObject({ limit: 'total_timeout', after_ms: 60_000 })
    expect(first({ ceiling: { at: at('12:01'), source: 'parent' } })).toMatchObject({
      limit: 'total_timeout',
      source: 'parent',
    })
  })

  test('says when the total ends an attempt before its own timeout and grace could', () => {
    const attempt = (traits: JobTraits): unknown => plan(traits).wins.find(({ stage }) => stage === 'attempt')
    expect(attempt({ timeoutMs: 30_000, graceMs: 5_000, totalMs: 33_000 })).toEqual({
      stage: 'attempt',
      limit: 'total_timeout',
      source: 'publish',
      after_ms: 33_000,
    })
    expect(attempt({ timeoutMs: 30_000, graceMs: 5_000, totalMs: 36_000 })).toMatchObject({
      limit: 'timeout',
      after_ms: 35_000,
    })
  })

  test('counts what a schedule uses up of the total', () => {
    const late = plan({ timeoutMs: 30_000, graceMs: 0, totalMs: 60_000, scheduledAt: at('12:00:50') })
    expect(late.attempts[0]).toEqual({ attempt: 1, starts_after_ms: 50_000, fits: true })
    expect(late.wins).toContainEqual({ stage: 'attempt', limit: 'total_timeout', source: 'publish', after_ms: 10_000 })
  })

  test('says which attempts cannot fit into the total', () => {
    const { attempts, warnings, wins } = plan({ timeoutMs: 30_000, graceMs: 0, totalMs: 100_000 })
    expect(attempts.map(({ fits }) => fits)).toEqual([true, true, false])
    expect(warnings).toEqual(['1 of 3 attempts cannot fit into total_timeout if the ones before them time out.'])
    expect(wins).toContainEqual({ stage: 'life', limit: 'total_timeout', source: 'publish', after_ms: 100_000 })
  })

  test('an attempt that would end with the total fits; a millisecond less and it does not', () => {
    expect(plan({ timeoutMs: 30_000, graceMs: 0, totalMs: 70_000 }).attempts[1]?.fits).toBe(true)
    expect(plan({ timeoutMs: 30_000, graceMs: 0, totalMs: 69_999 }).attempts[1]?.fits).toBe(false)
  })

  test('once an attempt does not fit, none after it does', () => {
    const { attempts } = plan({ timeoutMs: 1_000, graceMs: 0, totalMs: 5_000, retry: { ...retry, maxAttempts: 9 } })
    expect(attempts.map(({ fits }) => fits)).toEqual([true, ...Array<boolean>(8).fill(false)])
  })

  test.each<[string, JobTraits]>([
    ['x_on_timeout discards', { onTimeout: 'discard' }],
    ['the policy does not retry timeouts', { retry: { nonRetryable: ['Auth.*', 'timeout'] } }],
  ])('where %s, only the first attempt fits, and its end is the end of the life', (_, traits) => {
    const { attempts, wins } = plan({ timeoutMs: 5_000, ...traits })
    expect(attempts.map(({ fits }) => fits)).toEqual([true, false, false])
    expect(wins).toEqual([
      { stage: 'attempt', limit: 'timeout', source: 'publish', after_ms: 35_000 },
      { stage: 'life', limit: 'timeout', source: 'publish', after_ms: 35_000 },
    ])
    const scheduled = plan({ timeoutMs: 5_000, scheduledAt: at('12:01'), ...traits })
    expect(scheduled.wins.at(-1)).toMatchObject({ stage: 'life', limit: 'timeout', after_ms: 95_000 })
    const bounded = (totalMs: number): unknown => plan({ timeoutMs: 5_000, totalMs, ...traits }).wins.at(-1)
    expect(bounded(35_000)).toMatchObject({ stage: 'life', limit: 'total_timeout', after_ms: 35_000 })
    expect(bounded(35_001)).toMatchObject({ stage: 'life', limit: 'timeout', after_ms: 35_000 })
  })

  test('errors other than timeouts that are not retried change nothing', () => {
    const { attempts, warnings } = plan({ timeoutMs: 5_000, retry: { nonRetryable: ['stalled', 'timeout.*', 'boom'] } })
    expect(attempts.every(({ fits }) => fits)).toBe(true)
    expect(warnings).toEqual([])
  })

  test('the only attempt there is ends the life by max_attempts, whatever follows a timeout', () => {
    const { wins } = plan({ timeoutMs: 5_000, onTimeout: 'discard', retry: { maxAttempts: 1 } })
    expect(wins.at(-1)).toMatchObject({ stage: 'life', limit: 'max_attempts', after_ms: 35_000 })
  })

  test.each<[string, JobTraits, number]>([
    ['expires_at', { expiresAt: at('11:00') }, 0],
    ['expires_at', { expiresAt: NOON }, 0],
    ['expires_at', { expiresAt: at('11:00'), scheduledAt: at('12:01') }, 0],
    ['enqueue_ttl', { ttlMs: 10_000, scheduledAt: at('12:01') }, 10_000],
    ['enqueue_ttl', { ttlMs: 10_000, totalMs: 20_000, scheduledAt: at('12:01') }, 10_000],
    ['total_timeout', { totalMs: 20_000, scheduledAt: at('12:01') }, 20_000],
  ])('a life in which nothing can start ends with the wait, by %s (%o)', (limit, traits, afterMs) => {
    const { attempts, wins } = plan(traits)
    expect(attempts.some(({ fits }) => fits)).toBe(false)
    expect(wins.at(-1)).toEqual({ stage: 'life', limit, source: 'publish', after_ms: afterMs })
  })

  test('spells out at most 50 attempts, and at least one', () => {
    expect(plan({ retry: { maxAttempts: 1000 } }).attempts).toHaveLength(50)
    expect(plan({ retry: { maxAttempts: 0 } }).attempts).toHaveLength(1)
  })
})

describe('warnings', () => {
  const warnings = (traits: JobTraits): readonly string[] =>
    plan({ ...traits, retry: { maxAttempts: 1, ...traits.retry } }).warnings

  test.each<[string, JobTraits]>([
    ['enqueue_ttl', { ttlMs: 60_000 }],
    ['expires_at', { expiresAt: at('12:01') }],
    ['total_timeout', { totalMs: 60_000 }],
  ])('%s that ends before the schedule, or with it, means the job never starts', (name, traits) => {
    const text = `${name} ends before scheduled_at: the job will expire without ever starting.`
    expect(impossibilities(aJob({ ...traits, scheduledAt: at('12:01') }))).toEqual([text])
    expect(impossibilities(aJob({ ...traits, scheduledAt: at('12:00:59.999') }))).toEqual([])
    expect(plan({ ...traits, scheduledAt: at('12:30') }).attempts.every(({ fits }) => !fits)).toBe(true)
  })

  test('expires_at that has passed means the job is over at once', () => {
    const text = 'expires_at has already passed: the job will expire at once, without ever starting.'
    expect(impossibilities(aJob({ expiresAt: at('11:59') }))).toEqual([text])
    expect(impossibilities(aJob({ expiresAt: NOON }))).toEqual([text])
    expect(impossibilities(aJob({ expiresAt: at('11:59'), scheduledAt: at('11:58') }))).toEqual([text])
    expect(impossibilities(aJob({ expiresAt: at('11:59'), scheduledAt: at('12:01') }))).toEqual([text])
    expect(impossibilities(aJob({ expiresAt: at('12:00:00.001') }))).toEqual([])
    expect(warnings({ expiresAt: at('11:59') })).toEqual([text])
  })

  test('a job without a schedule has nothing impossible about it', () => {
    expect(impossibilities(aJob({ ttlMs: 1, totalMs: 1 }))).toEqual([])
  })

  test.each<[string, JobTraits]>([
    ['grace_period cannot be used in full', { timeoutMs: 30_000, totalMs: 35_000 }],
    [
      'The last 10 s before total_timeout are kept for the handler to stop in (grace_period): of the 35 s that total_timeout leaves, the handler gets 25 s before it is asked to stop, not its timeout of 30 s.',
      { timeoutMs: 30_000, graceMs: 10_000, totalMs: 35_000 },
    ],
    ['of the 30 s that total_timeout leaves, the handler gets 27 s', { timeoutMs: 30_000, totalMs: 30_000 }],
    [
      'of the 10 s that total_timeout leaves, the handler gets 9 s',
      { timeoutMs: 30_000, totalMs: 60_000, scheduledAt: at('12:00:50') },
    ],
    [
      'grace_period of 30 s does not fit into the 30 s that total_timeout leaves: the handler is asked to stop after 27 s, 3 s before total_timeout.',
      { graceMs: 30_000, totalMs: 30_000 },
    ],
    [
      'grace_period of 30 s does not fit into the 10 s that total_timeout leaves: the handler is asked to stop after 9 s, 1 s before total_timeout.',
      { timeoutMs: 30_000, graceMs: 30_000, totalMs: 60_000, scheduledAt: at('12:00:50') },
    ],
    [
      'the handler is asked to stop after 5 s, 25 s before total_timeout.',
      { timeoutMs: 5_000, graceMs: 60_000, totalMs: 30_000 },
    ],
    ['heartbeat_timeout can never fire', { timeoutMs: 30_000, graceMs: 0, heartbeatMs: 30_000 }],
    ['visibility_timeout is shorter than timeout', { timeoutMs: 30_000, visibilityMs: 29_999 }],
    ['x_on_timeout is "discard"', { onTimeout: 'discard', retry: { maxAttempts: 2 } }],
    ['non_retryable_errors names "timeout"', { retry: { maxAttempts: 2, nonRetryable: ['timeout'] } }],
    [
      'x_on_timeout is "discard"',
      { timeoutMs: 5_000, totalMs: 60_000, onTimeout: 'discard', retry: { maxAttempts: 3, nonRetryable: ['timeout'] } },
    ],
    [
      'non_retryable_errors names "timeout"',
      { timeoutMs: 5_000, totalMs: 60_000, retry: { maxAttempts: 3, nonRetryable: ['timeout'] } },
    ],
  ])('%s', (text, traits) => {
    expect(warnings(traits)).toEqual([expect.stringContaining(text)])
  })

  test.each<[string, JobTraits]>([
    ['grace that just fits', { timeoutMs: 30_000, graceMs: 10_000, totalMs: 40_000 }],
    ['a heartbeat shorter than the attempt', { timeoutMs: 30_000, graceMs: 1, heartbeatMs: 30_000 }],
    ['a visibility as long as the timeout', { timeoutMs: 30_000, visibilityMs: 30_000 }],
    ['a total that leaves no room for the default grace', { totalMs: 30_000 }],
    ['a reserve that only a total was set for', { totalMs: 30_000, graceMs: 10_000 }],
    ['no grace, so no reserve', { timeoutMs: 30_000, totalMs: 30_000, graceMs: 0 }],
    ['a reserve that comes after the timeout', { timeoutMs: 30_000, totalMs: 300_000 }],
    ['discard with a single attempt', { onTimeout: 'discard' }],
    ['a timeout that is not retried, with a single attempt', { retry: { nonRetryable: ['timeout'] } }],
  ])('%s is nothing to warn of', (_, traits) => {
    expect(warnings(traits)).toEqual([])
  })

  test('an enqueue warns of what cannot start and of a reserve that takes time from the handler, as the plan does', () => {
    const warned = (traits: JobTraits): string[] => warningsFor(aJob(traits), DEFAULT_LIMITS, BEAT_EVERY)
    expect(warned({})).toEqual([])
    expect(warned({ timeoutMs: 30_000, totalMs: 34_000 })).toEqual([])
    expect(warned({ timeoutMs: 30_000, totalMs: 30_000 })).toEqual(warnings({ timeoutMs: 30_000, totalMs: 30_000 }))
    expect(warned({ expiresAt: NOON })).toEqual(impossibilities(aJob({ expiresAt: NOON })))
  })

  test('a heartbeat timeout below four intervals is named with its source, the interval and the remedy', () => {
    const text =
      'heartbeat_timeout is 19.999 s (set at enqueue), less than 4 heartbeat intervals of 5 s: workers that beat at that interval may be taken for stalled. Set it to at least 20 s, or shorten workers.heartbeat-interval.'
    expect(warnings({ heartbeatMs: 19_999 })).toEqual([text])
    expect(warningsFor(aJob({ heartbeatMs: 19_999 }), DEFAULT_LIMITS, BEAT_EVERY)).toEqual([text])
    expect(warnings({ heartbeatMs: 20_000 })).toEqual([])
  })

  test('of a default heartbeat timeout the plan warns, but not every enqueue', () => {
    const settings = settingsWith({}, { heartbeat: seconds(10) })
    const job = aJob({ limits: published({}, settings) })
    expect(planFor(job, settings, BEAT_EVERY, NOON).warnings).toEqual([
      expect.stringContaining('heartbeat_timeout is 10 s (the default of the server)'),
    ])
    expect(warningsFor(job, settings, BEAT_EVERY)).toEqual([])
  })

  test('a limit that a cap holds down is named with its cap', () => {
    const limits = published({ timeout: minutes(10), total: minutes(10) }, settingsWith({ timeout: seconds(60) }))
    expect(warnings({ limits })).toEqual(['timeout is held down to 60 s by a cap.'])
  })
})

test('an attempt that the plan says fits is one the server really starts, and one that does not it never starts', () => {
  const traits = fc.record({
    timeoutMs: fc.integer({ min: 1, max: 5_000 }),
    graceMs: fc.nat(3_000),
    totalMs: fc.integer({ min: 5_000, max: 40_000 }),
    initialMs: fc.integer({ min: 1, max: 5_000 }).map(ms),
    maxAttempts: fc.integer({ min: 1, max: 5 }),
    onTimeout: fc.constantFrom('retry' as const, 'retry' as const, 'discard' as const),
    nonRetryable: fc.constantFrom([], ['boom'], ['timeout']),
  })
  fc.assert(
    fc.property(traits, ({ initialMs, maxAttempts, nonRetryable, ...limits }) => {
      const policy = { initialMs, maxAttempts, nonRetryable }
      const { attempts, wins } = plan({ ...limits, retry: policy })
      const promised = attempts.filter(({ fits }) => fits)
      // Every attempt starts at once and runs into its timeout.
      let job = aJob({ ...limits, retry: { jitter: false, ...policy } })
      const starts: number[] = []
      while (job.state !== 'discarded') {
        if (job.state === 'available') {
          const claimedAt = job.enqueuedAt ?? NOON
          starts.push(claimedAt - NOON)
          job = claimed(job, { claimedAt })
        }
        job = left(expire(job, ROW_ALONE, moment(job.wakeAt ?? NOON)))
      }
      expect(starts).toEqual(promised.map(({ starts_after_ms }) => starts_after_ms))
      const life = wins.at(-1)
      if (life?.limit === 'timeout') expect((job.discardedAt ?? NOON) - NOON).toBe(life.after_ms)
    }),
  )
})
