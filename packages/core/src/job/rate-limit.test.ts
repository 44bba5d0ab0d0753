import { describe, expect, test } from 'vitest'
import { OjsError } from '../errors.ts'
import type { LimiterTerms } from './limiter.ts'
import { givenRateLimit, QUEUE_RATE_LIMIT_SHAPE, readRateLimit, writeTerms } from '../wire/job/rate-limit.ts'

const readQueueRateLimit = (sent: unknown): LimiterTerms => QUEUE_RATE_LIMIT_SHAPE.read(sent, 'rate_limit')
const NOTHING = { concurrency: null, rate: null, throttle: null }

test.each([
  [{ max_per_second: 5 }, { key: null, terms: { ...NOTHING, rate: { limit: 5, periodMs: 1_000 } } }],
  [{ key: 'a' }, { key: 'a', terms: null }],
  [
    { key: 'a', concurrency: 0 },
    { key: 'a', terms: { ...NOTHING, concurrency: 0 } },
  ],
  [{ key: 'a', max_per_second: 2 }, { terms: { ...NOTHING, rate: { limit: 2, periodMs: 1_000 } } }],
  [{ key: 'a', rate: 1, period: 'second' }, { terms: { ...NOTHING, rate: { limit: 1, periodMs: 1_000 } } }],
  [{ key: 'a', rate: 7, period: 'PT10S' }, { terms: { ...NOTHING, rate: { limit: 7, periodMs: 10_000 } } }],
  [
    { key: 'a', rate: { limit: 100, period: 'PT1M' } },
    { terms: { ...NOTHING, rate: { limit: 100, periodMs: 60_000 } } },
  ],
  [
    { key: 'a', rate: { limit: 9, period: 'hour' } },
    { terms: { ...NOTHING, rate: { limit: 9, periodMs: 3_600_000 } } },
  ],
  [
    { key: 'a', throttle: { limit: 10, period: 'PT1S' } },
    { terms: { ...NOTHING, throttle: { limit: 10, periodMs: 1_000 } } },
  ],
])('%j is understood', (sent, read) => {
  expect(readRateLimit(sent)).toMatchObject({ onLimit: 'wait', ...read })
})

test('on_limit says what becomes of the job', () => {
  expect(readRateLimit({ key: 'a', on_limit: 'drop' }).onLimit).toBe('drop')
  expect(readRateLimit({ key: 'a', on_limit: 'reschedule' }).onLimit).toBe('reschedule')
})

describe('refused with 422, naming the field', () => {
  test.each<[unknown, string]>([
    ['fast', 'rate_limit'],
    [{}, 'rate_limit.key'],
    [{ concurrency: 1 }, 'rate_limit.key'],
    [{ max_per_second: 1, concurrency: 1 }, 'rate_limit'],
    [{ max_per_second: 1, on_limit: 'drop' }, 'rate_limit'],
    [{ max_per_second: 0 }, 'rate_limit.max_per_second'],
    [{ max_per_second: 0.5 }, 'rate_limit.max_per_second'],
    [{ key: '' }, 'rate_limit.key'],
    [{ key: 'a\nb' }, 'rate_limit.key'],
    [{ key: '\ud800' }, 'rate_limit.key'],
    [{ key: 'a'.repeat(256) }, 'rate_limit.key'],
    [{ key: 7 }, 'rate_limit.key'],
    [{ key: 'a', concurrency: -1 }, 'rate_limit.concurrency'],
    [{ key: 'a', rate: 1 }, 'rate_limit.period'],
    [{ key: 'a', rate: 1, period: 'fortnight' }, 'rate_limit.period'],
    [{ key: 'a', rate: 1, period: 'constructor' }, 'rate_limit.period'],
    [{ key: 'a', rate: { limit: 1 } }, 'rate_limit.rate.period'],
    [{ key: 'a', rate: { limit: 0, period: 'PT1S' } }, 'rate_limit.rate.limit'],
    [{ key: 'a', rate: { limit: 1, period: 'PT0S' } }, 'rate_limit.rate.period'],
    [{ key: 'a', rate: { limit: 1, period: 'PT1S', burst: 2 } }, 'rate_limit.rate.burst'],
    [{ key: 'a', rate: { limit: 1, period: 'PT1S' }, period: 'second' }, 'rate_limit.period'],
    [{ key: 'a', rate: 1, period: 'second', max_per_second: 1 }, 'rate_limit.max_per_second'],
    [{ key: 'a', throttle: 5 }, 'rate_limit.throttle'],
    [{ key: 'a', on_limit: 'fail' }, 'rate_limit.on_limit'],
    [{ key: 'a', burst: 5 }, 'rate_limit.burst'],
  ])('%j', (sent, field) => {
    let refusal: unknown = null
    try {
      readRateLimit(sent)
    } catch (error) {
      refusal = error
    }
    expect(refusal).toBeInstanceOf(OjsError)
    expect(refusal).toMatchObject({ code: 'validation_error', details: { field } })
  })
})

test('keys may be any printable text', () => {
  expect(readRateLimit({ key: 'tenant:acme/résumé 🚀' }).key).toBe('tenant:acme/résumé 🚀')
})

test('the terms of a queue need no key, and may be none', () => {
  expect(readQueueRateLimit({ concurrency: 20, rate: { limit: 1_000, period: 'PT1H' } })).toEqual({
    concurrency: 20,
    rate: { limit: 1_000, periodMs: 3_600_000 },
    throttle: null,
  })
  expect(readQueueRateLimit({})).toEqual(NOTHING)
  expect(() => readQueueRateLimit({ key: 'a' })).toThrow('Unknown key "key"')
})

test('terms are written as they can be read', () => {
  const terms = readQueueRateLimit({
    concurrency: 2,
    rate: 3,
    period: 'minute',
    throttle: { limit: 1, period: 'PT0.5S' },
  })
  expect(readQueueRateLimit(writeTerms(terms))).toEqual(terms)
  expect(writeTerms(readQueueRateLimit({}))).toEqual({})
})

test('what a stored job asked for is found in what it was given', () => {
  expect(givenRateLimit('"timeout":5,"rate_limit":{"key":"a","on_limit":"drop"}')).toMatchObject({ onLimit: 'drop' })
  expect(givenRateLimit('"timeout":5')).toBeNull()
  expect(givenRateLimit('')).toBeNull()
})
