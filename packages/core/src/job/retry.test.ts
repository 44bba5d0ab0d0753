import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { activeJob, at, later, ms, NOON, noJitter, type ClaimTraits, type JobTraits } from '../builders.suite.ts'
import { minutes, seconds } from '../time/clock.ts'
import type { OjsError } from '../errors.ts'
import {
  backoffMs,
  DEFAULT_RETRY,
  isNonRetryable,
  verdictOn,
  type BackoffStrategy,
  type FailureFacts,
  type NoRetry,
  type RetryPolicy,
  type Verdict,
} from './retry.ts'
import { readRetryPolicy, writeRetryPolicy } from '../wire/job/retry.ts'

const policy = (changes: Partial<RetryPolicy> = {}): RetryPolicy => ({ ...DEFAULT_RETRY, jitter: false, ...changes })

describe('backoff', () => {
  test.each<[BackoffStrategy, number, number[]]>([
    ['constant', 2, [1000, 1000, 1000, 1000]],
    ['linear', 2, [1000, 2000, 3000, 4000]],
    ['exponential', 2, [1000, 2000, 4000, 8000]],
    ['exponential', 1, [1000, 1000, 1000, 1000]],
    ['exponential', 1.5, [1000, 1500, 2250, 3375]],
    ['polynomial', 2, [1000, 4000, 9000, 16_000]],
  ])('%s with coefficient %d', (strategy, coefficient, delays) => {
    expect([1, 2, 3, 4].map((attempt) => backoffMs(policy({ strategy, coefficient }), attempt, noJitter))).toEqual(
      delays,
    )
  })

  test('the delay never exceeds max_interval, however often it failed', () => {
    expect(backoffMs(policy({ maxMs: ms(3000) }), 3, noJitter)).toBe(3000)
    expect(backoffMs(policy({ coefficient: 1000 }), 1_000_000, noJitter)).toBe(DEFAULT_RETRY.maxMs)
  })

  test('jitter spreads the delay from half to one and a half times, and still keeps below max_interval', () => {
    const jittered = policy({ jitter: true })
    expect(backoffMs(jittered, 1, () => 0)).toBe(500)
    expect(backoffMs(jittered, 1, noJitter)).toBe(1000)
    expect(backoffMs(jittered, 1, () => 0.9999)).toBe(1500)
    expect(backoffMs({ ...jittered, maxMs: ms(1200) }, 1, () => 0.9999)).toBe(1200)
  })

  test('every delay is a whole number of milliseconds between half the plain one and max_interval', () => {
    const some = fc.record({
      initialMs: fc.integer({ min: 1, max: 100_000 }).map(ms),
      coefficient: fc.double({ min: 1, max: 10, noNaN: true }),
      maxMs: fc.integer({ min: 1, max: 1_000_000 }).map(ms),
      strategy: fc.constantFrom<BackoffStrategy>('constant', 'linear', 'exponential', 'polynomial'),
    })
    fc.assert(
      fc.property(
        some,
        fc.integer({ min: 1, max: 1000 }),
        fc.double({ min: 0, max: 0.999_999, noNaN: true }),
        (shape, attempt, chance) => {
          const plain = backoffMs(policy(shape), attempt, noJitter)
          const delay = backoffMs(policy({ ...shape, jitter: true }), attempt, () => chance)
          expect(Number.isInteger(delay)).toBe(true)
          expect(delay).toBeLessThanOrEqual(shape.maxMs)
          expect(delay).toBeLessThanOrEqual(Math.ceil(plain * 1.5) + 1)
          expect(delay).toBeGreaterThanOrEqual(Math.floor(plain / 2))
        },
      ),
    )
  })
})

describe('what follows a failed attempt', () => {
  const plain: FailureFacts = {
    names: ['boom'],
    retryable: undefined,
    word: undefined,
    isTimeout: false,
    lapsed: false,
  }
  const judge = (
    facts: Partial<FailureFacts>,
    traits: JobTraits & ClaimTraits = {},
    now = later(NOON, 1000),
  ): Verdict =>
    verdictOn(
      activeJob({ ...traits, retry: { jitter: false, ...traits.retry } }),
      { ...plain, ...facts },
      now,
      noJitter,
    )
  const exhausted = (because: NoRetry): Verdict => ({ kind: 'discard', deadLetter: true, because })
  const dropped = (because: NoRetry): Verdict => ({ kind: 'discard', deadLetter: false, because })
  const dead = { onExhaustion: 'dead_letter' } as const

  test('an ordinary failure is retried after its backoff', () => {
    expect(judge({})).toEqual({ kind: 'retry', delayMs: 1000 })
  })

  test('1: x_on_timeout discard beats everything, even a handler that says RETRY or DEAD_LETTER', () => {
    const traits = { onTimeout: 'discard', retry: dead } as const
    expect(judge({ isTimeout: true }, traits)).toEqual(dropped('x_on_timeout'))
    expect(judge({ isTimeout: true, word: 'DEAD_LETTER' }, traits)).toEqual(dropped('x_on_timeout'))
    expect(judge({ isTimeout: true, word: 'RETRY', retryable: true }, traits)).toEqual(dropped('x_on_timeout'))
  })

  test('x_on_timeout discard says nothing about failures that are no execution timeout', () => {
    expect(judge({}, { onTimeout: 'discard' }).kind).toBe('retry')
    expect(judge({ lapsed: true, names: [] }, { onTimeout: 'discard' }).kind).toBe('retry')
  })

  test('2: the word of the handler beats retryable', () => {
    expect(judge({ word: 'DISCARD', retryable: true }, { retry: dead })).toEqual(dropped('error_code'))
    expect(judge({ word: 'FAIL', retryable: true }, { retry: dead })).toEqual(dropped('error_code'))
    expect(judge({ word: 'DEAD_LETTER', retryable: true })).toEqual(exhausted('error_code'))
    expect(judge({ word: 'RETRY', retryable: false }).kind).toBe('retry')
  })

  test('the word counts in upper case only', () => {
    expect(judge({ word: 'discard' }).kind).toBe('retry')
    expect(judge({ word: 'retry', retryable: false }).kind).toBe('discard')
  })

  test('3: retryable false beats a policy that would retry, and goes where exhausted jobs go', () => {
    expect(judge({ retryable: false })).toEqual(dropped('not_retryable'))
    expect(judge({ retryable: false }, { retry: dead })).toEqual(exhausted('not_retryable'))
  })

  test('4: the list of the policy beats retryable true and the attempts that are left', () => {
    const retry = { ...dead, nonRetryable: ['boom'] }
    expect(judge({ retryable: true }, { retry })).toEqual(exhausted('non_retryable_errors'))
    expect(judge({ word: 'RETRY' }, { retry })).toEqual(exhausted('non_retryable_errors'))
    expect(judge({ names: ['other', 'boom'] }, { retry })).toEqual(exhausted('non_retryable_errors'))
  })

  test('a lapsed reservation ignores the list, and goes straight back', () => {
    expect(judge({ lapsed: true }, { retry: { nonRetryable: ['boom'] } })).toEqual({ kind: 'retry', delayMs: 0 })
  })

  test('5: spent attempts end it, before the total is even asked', () => {
    expect(judge({}, { retry: { ...dead, maxAttempts: 1 } })).toEqual(exhausted('max_attempts'))
    expect(judge({}, { retry: { maxAttempts: 1 }, totalMs: 1500, timeoutMs: 1500 })).toEqual(dropped('max_attempts'))
    expect(judge({ lapsed: true }, { retry: { maxAttempts: 1 } })).toEqual(dropped('max_attempts'))
  })

  test('max_attempts 0 behaves as 1: run once, never retry', () => {
    expect(judge({}, { retry: { maxAttempts: 0 } })).toEqual(dropped('max_attempts'))
  })

  test('an attempt that was handed back is refunded, in the count and in the backoff', () => {
    const job = { ...activeJob({ retry: { maxAttempts: 2, jitter: false } }), attempt: 5, interruptions: 4 }
    expect(verdictOn(job, plain, later(NOON, 1000), noJitter)).toEqual({ kind: 'retry', delayMs: 1000 })
    expect(verdictOn({ ...job, interruptions: 3 }, plain, later(NOON, 1000), noJitter)).toEqual(dropped('max_attempts'))
  })

  test('6: a retry that could not end within the total is given up now', () => {
    const traits = { totalMs: 60_000, timeoutMs: 30_000, retry: dead }
    expect(judge({}, traits, at('12:00:29'))).toEqual({ kind: 'retry', delayMs: 1000 })
    expect(judge({}, traits, at('12:00:29.001'))).toEqual({ kind: 'out-of-time', deadLetter: true, delayMs: 1000 })
    expect(judge({ lapsed: true }, traits, at('12:00:30'))).toEqual({ kind: 'retry', delayMs: 0 })
    expect(judge({ lapsed: true }, traits, at('12:00:30.001')).kind).toBe('out-of-time')
  })
})

describe('non_retryable_errors', () => {
  test.each([
    ['Auth.*', 'Auth.TokenExpired', true],
    ['Auth.*', 'Auth.', true],
    ['Auth.*', 'Auth', false],
    ['Auth.*', 'AuthX', false],
    ['Auth.*', 'AuthenticationError', false],
    ['Auth', 'Auth', true],
    ['Auth', 'auth', false],
    ['.*', 'anything', false],
    ['*', 'anything', false],
    ['a+', 'aa', false],
  ])('the pattern %j against %j: %s', (pattern, name, matches) => {
    expect(isNonRetryable(policy({ nonRetryable: [pattern] }), name)).toBe(matches)
  })
})

describe('reading a retry policy', () => {
  const refusal = (fields: unknown): { code: string; field: unknown } => {
    try {
      readRetryPolicy(fields)
    } catch (error) {
      return { code: (error as OjsError).code, field: (error as OjsError).details['field'] }
    }
    return { code: 'taken', field: null }
  }

  test('what is left out takes the default, what is unknown is ignored', () => {
    expect(readRetryPolicy({ base_delay: 5, max_attempts: null })).toEqual(DEFAULT_RETRY)
  })

  test('both spellings mean the same', () => {
    const snake = {
      max_attempts: 7,
      initial_interval: 'PT2S',
      backoff_coefficient: 3,
      max_interval: 'PT1M',
      jitter: false,
      non_retryable_errors: ['a'],
      on_exhaustion: 'dead_letter',
      backoff_strategy: 'linear',
    }
    const camel = {
      maxAttempts: 7,
      initialInterval: 'PT2S',
      backoffCoefficient: 3,
      maxInterval: 'PT1M',
      jitter: false,
      nonRetryableErrors: ['a'],
      onExhaustion: 'dead_letter',
      backoff_type: 'linear',
    }
    const expected = {
      maxAttempts: 7,
      initialMs: seconds(2),
      coefficient: 3,
      maxMs: minutes(1),
      jitter: false,
      nonRetryable: ['a'],
      onExhaustion: 'dead_letter',
      strategy: 'linear',
    }
    expect(readRetryPolicy(snake)).toEqual(expected)
    expect(readRetryPolicy(camel)).toEqual(expected)
    expect(readRetryPolicy({ initial_interval_ms: 5, max_interval_ms: 6 })).toMatchObject({ initialMs: 5, maxMs: 6 })
    expect(readRetryPolicy({ initial_delay_ms: 5 }).initialMs).toBe(5)
  })

  test.each([
    ['none', 'constant'],
    ['constant', 'constant'],
    ['linear', 'linear'],
    ['exponential', 'exponential'],
    ['polynomial', 'polynomial'],
  ])('the strategy %s is taken under all its names', (name, strategy) => {
    for (const key of ['backoff_strategy', 'backoff_type', 'backoff', 'strategy']) {
      expect(readRetryPolicy({ [key]: name }).strategy).toBe(strategy)
    }
  })

  test.each([
    ['max_attempts', -1],
    ['max_attempts', 1.5],
    ['max_attempts', '3'],
    ['maxAttempts', -1],
    ['initial_interval', '1s'],
    ['initial_interval', 'PT0S'],
    ['initial_interval', 1],
    ['initial_interval', 'P11Y'],
    ['initial_interval_ms', 0],
    ['initial_interval_ms', 1.5],
    ['initial_delay_ms', 'PT1S'],
    ['backoff_coefficient', 0.99],
    ['backoff_coefficient', '2'],
    ['backoffCoefficient', NaN],
    ['max_interval', '5m'],
    ['jitter', 'yes'],
    ['jitter', 1],
    ['non_retryable_errors', 'a'],
    ['non_retryable_errors', [1]],
    ['non_retryable_errors', Array.from({ length: 101 }, () => 'a')],
    ['nonRetryableErrors', ['a'.repeat(256)]],
    ['on_exhaustion', 'drop'],
    ['backoff_strategy', 'fibonacci'],
    ['backoff', true],
    ['strategy', 'constructor'], // names every object inherits are no strategies
    ['backoff_strategy', 'toString'],
  ])('%s: %j is a 422 that names the field', (field, value) => {
    expect(refusal({ [field]: value })).toEqual({ code: 'validation_error', field: `retry.${field}` })
  })

  test.each([
    ['max_attempts', 1e9, 'a whole number from 0 to 1000000'],
    ['backoff_coefficient', 1e308, 'a number from 1.0 to 1000'],
    ['initial_interval', 'P11Y', 'a positive ISO 8601 duration such as "PT1S", at most ten years'],
    ['initial_interval_ms', 1e12, 'a positive whole number of milliseconds, at most ten years'],
  ])('%s: %j is refused by a rule that it breaks', (field, value, rule) => {
    expect(() => readRetryPolicy({ [field]: value })).toThrow(`retry.${field} must be ${rule}.`)
  })

  test('non_retryable_errors has at most 100 entries of at most 255 characters, and the refusal says so', () => {
    const most = Array.from({ length: 100 }, () => 'é'.repeat(255))
    expect(readRetryPolicy({ non_retryable_errors: most }).nonRetryable).toEqual(most)
    const bounds =
      'retry.non_retryable_errors must be a list of at most 100 error types of at most 255 characters each.'
    for (const refused of [[...most, 'a'], ['a'.repeat(256)], 'a'])
      expect(() => readRetryPolicy({ non_retryable_errors: refused })).toThrow(bounds)
  })

  test.each([[[]], ['x'], [3], [true]])('%j is not a policy', (value) => {
    expect(refusal(value)).toEqual({ code: 'validation_error', field: 'retry' })
  })

  test('max_interval must not be shorter than initial_interval where both are given', () => {
    expect(refusal({ initial_interval: 'PT10S', max_interval: 'PT9S' })).toEqual({
      code: 'validation_error',
      field: 'retry.max_interval',
    })
    expect(refusal({ initial_interval: 'PT10S', max_interval: 'PT10S' }).code).toBe('taken')
  })

  test('one of the two intervals given alone moves the default of the other', () => {
    expect(readRetryPolicy({ initial_interval: 'PT10M' }).maxMs).toBe(minutes(10))
    expect(readRetryPolicy({ max_interval: 'PT0.5S' }).initialMs).toBe(500)
  })

  test('a policy written out reads back as itself', () => {
    const some = fc.record({
      maxAttempts: fc.nat(1000),
      initialMs: fc.integer({ min: 1, max: 1_000_000 }).map(ms),
      coefficient: fc.double({ min: 1, max: 100, noNaN: true }),
      maxMs: fc.integer({ min: 1_000_000, max: 10_000_000 }).map(ms),
      jitter: fc.boolean(),
      nonRetryable: fc.array(fc.string()),
      onExhaustion: fc.constantFrom<RetryPolicy['onExhaustion']>('discard', 'dead_letter'),
      strategy: fc.constantFrom<BackoffStrategy>('constant', 'linear', 'exponential', 'polynomial'),
    })
    fc.assert(
      fc.property(some, (written) => {
        expect(readRetryPolicy(JSON.parse(JSON.stringify(writeRetryPolicy(written))))).toEqual(written)
      }),
    )
  })
})
