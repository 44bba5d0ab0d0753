import { describe, expect, test } from 'vitest'
import { NOON } from '../builders.suite.ts'
import type { OjsError } from '../errors.ts'
import { seconds } from '../time/clock.ts'
import {
  hasKeyedLimits,
  mergeQueueConfig,
  queueLimits,
  queueOrder,
  queueTerms,
  readHandlerLimits,
  readTypePolicy,
  withKeyedLimits,
  withQueueRate,
} from '../wire/job/policies.ts'

function refusal(read: () => unknown): { code: string; field: unknown } {
  try {
    read()
  } catch (error) {
    return { code: (error as OjsError).code, field: (error as OjsError).details['field'] }
  }
  return { code: 'taken', field: null }
}

describe('type policies', () => {
  test('a policy keeps what was sent, its limits and its caps', () => {
    const sent = { timeout: 60, x_on_timeout: 'discard', enqueue_ttl: null, caps: { total_timeout: 3600 } }
    expect(readTypePolicy('email.send', sent, NOON)).toEqual({
      type: 'email.send',
      asked: { timeout: 60_000, onTimeout: 'discard' },
      caps: { total: 3_600_000 },
      sent: { timeout: 60, x_on_timeout: 'discard', caps: { total_timeout: 3600 } },
      updatedAt: NOON,
    })
  })

  test('an unknown key is a 400, a bad value a 422', () => {
    expect(refusal(() => readTypePolicy('a', { timout: 60 }, NOON))).toEqual({
      code: 'invalid_request',
      field: 'timout',
    })
    expect(refusal(() => readTypePolicy('a', { timeout: 0 }, NOON))).toEqual({
      code: 'validation_error',
      field: 'timeout',
    })
    expect(refusal(() => readTypePolicy('a', { caps: { timout: 1 } }, NOON))).toEqual({
      code: 'invalid_request',
      field: 'caps.timout',
    })
    expect(refusal(() => readTypePolicy('a', { timeout: 60, total_timeout: 5 }, NOON)).code).toBe('validation_error')
  })
})

describe('limits a handler registers', () => {
  test('timeout, grace, heartbeat and mode, in seconds or milliseconds', () => {
    const sent = { timeout: 5, grace_period_ms: 250, heartbeat_timeout: 9, x_on_timeout: 'discard' }
    expect(readHandlerLimits(sent, 'handlers.a')).toEqual({
      timeout: 5000,
      grace: 250,
      heartbeat: 9000,
      onTimeout: 'discard',
    })
  })

  test('a total is refused with an explanation: it begins before any handler is known', () => {
    for (const key of ['total_timeout', 'total_timeout_ms']) {
      const read = (): unknown => readHandlerLimits({ [key]: 60 }, 'handlers.a')
      expect(refusal(read)).toEqual({ code: 'validation_error', field: `handlers.a.${key}` })
      expect(read).toThrow('A handler cannot set a total timeout')
    }
  })

  test('a bad value is named with its handler', () => {
    const read = (): unknown => readHandlerLimits({ timeout: 0 }, 'handlers.a')
    expect(refusal(read)).toEqual({ code: 'validation_error', field: 'handlers.a.timeout' })
  })

  test('what a handler cannot bound is an unknown key', () => {
    for (const key of ['enqueue_ttl', 'visibility_timeout', 'caps', 'retries']) {
      expect(refusal(() => readHandlerLimits({ [key]: 1 }, 'handlers.a'))).toEqual({
        code: 'invalid_request',
        field: `handlers.a.${key}`,
      })
    }
  })
})

describe('queue configuration', () => {
  test('merges by key, and null removes', () => {
    const stored = mergeQueueConfig({}, { default_timeout: 60, default_grace_period: 5 })
    expect(mergeQueueConfig(stored, { default_grace_period: null, default_enqueue_ttl: 9 })).toEqual({
      default_timeout: 60,
      default_enqueue_ttl: 9,
    })
  })

  test("a later body's twin replaces the stored value", () => {
    const stored = mergeQueueConfig({}, { default_timeout: 60 })
    expect(mergeQueueConfig(stored, { default_timeout_ms: 500 })).toEqual({ default_timeout_ms: 500 })
    expect(mergeQueueConfig({ default_timeout_ms: 500 }, { default_timeout: null })).toEqual({})
  })

  test('twins in one body must agree', () => {
    expect(refusal(() => mergeQueueConfig({}, { default_timeout: 60, default_timeout_ms: 500 })).code).toBe(
      'validation_error',
    )
    expect(mergeQueueConfig({}, { default_timeout: 1, default_timeout_ms: 1000 })).toEqual({
      default_timeout: 1,
      default_timeout_ms: 1000,
    })
  })

  test('the merged set is what is validated', () => {
    const stored = mergeQueueConfig({}, { default_total_timeout: 60 })
    expect(refusal(() => mergeQueueConfig(stored, { default_timeout: 61 })).code).toBe('validation_error')
  })

  test('an unknown key is a 400', () => {
    expect(refusal(() => mergeQueueConfig({}, { timeout: 5 }))).toEqual({ code: 'invalid_request', field: 'timeout' })
  })

  test('retention is said in seconds or as an ISO duration, and replaced as a whole', () => {
    const stored = mergeQueueConfig({}, { retention: { completed: 60, dead_letter: 'P1D' } })
    expect(queueLimits(stored)).toEqual({ kept: { completedMs: 60_000, deadLetterMs: 86_400_000 } })
    const again = mergeQueueConfig(stored, { retention: { cancelled: 'PT2S', discarded: 3 } })
    expect(queueLimits(again).kept).toEqual({ cancelledMs: 2_000, discardedMs: 3_000 })
    expect(mergeQueueConfig(again, { retention: null })).toEqual({})
  })

  test.each([
    ['no object', 60, 'retention'],
    ['an ending that is none', { failed: 60 }, 'retention.failed'],
    ['nothing', { completed: 0 }, 'retention.completed'],
    ['less than a second', { completed: 'PT0.5S' }, 'retention.completed'],
    ['a fraction', { completed: 1.5 }, 'retention.completed'],
    ['a word', { cancelled: '7d' }, 'retention.cancelled'],
    ['more than ten years', { discarded: 'P11Y' }, 'retention.discarded'],
    ['a list', { dead_letter: [1] }, 'retention.dead_letter'],
  ])('a retention of %s is a 422', (_, retention, field) => {
    expect(refusal(() => mergeQueueConfig({}, { retention }))).toEqual({ code: 'validation_error', field })
  })

  test('the defaults speak as limits', () => {
    expect(
      queueLimits({ default_timeout: 60, default_visibility_timeout_ms: 7, default_x_on_timeout: 'discard' }),
    ).toEqual({
      timeout: 60_000,
      visibility: 7,
      onTimeout: 'discard',
    })
  })
})

describe('order and limiter of a queue', () => {
  test('order is fifo unless it was set', () => {
    expect(queueOrder({})).toBe('fifo')
    expect(queueOrder(mergeQueueConfig({}, { order: 'edf' }))).toBe('edf')
    expect(mergeQueueConfig({ order: 'edf' }, { order: null })).toEqual({})
    expect(refusal(() => mergeQueueConfig({}, { order: 'lifo' }))).toEqual({ code: 'validation_error', field: 'order' })
  })

  test('rate_limit is replaced as a whole, and null removes it', () => {
    const stored = mergeQueueConfig({}, { rate_limit: { concurrency: 2 } })
    expect(queueTerms(stored)).toEqual({ concurrency: 2, rate: null, throttle: null })
    const replaced = mergeQueueConfig(stored, { rate_limit: { rate: 5, period: 'minute' } })
    expect(queueTerms(replaced)).toEqual({ concurrency: null, rate: { limit: 5, periodMs: 60_000 }, throttle: null })
    expect(queueTerms(mergeQueueConfig(replaced, { rate_limit: null }))).toBeNull()
    expect(refusal(() => mergeQueueConfig({}, { rate_limit: { key: 'a' } })).field).toBe('rate_limit.key')
  })

  test('a job that speaks for its queue sets the rate and leaves the rest', () => {
    const terms = { concurrency: null, rate: { limit: 3, periodMs: seconds(1) }, throttle: null }
    const config = withQueueRate({ order: 'edf', rate_limit: { concurrency: 2 } }, terms)
    expect(queueTerms(config)).toEqual({ ...terms, concurrency: 2 })
    expect(withQueueRate(config, terms)).toBe(config)
    expect(config['order']).toBe('edf')
  })

  test('that a queue has jobs with limiters of their own is noted once, and cannot be sent by a client', () => {
    const noted = withKeyedLimits({})
    expect([hasKeyedLimits({}), hasKeyedLimits(noted)]).toEqual([false, true])
    expect(withKeyedLimits(noted)).toBe(noted)
    expect(mergeQueueConfig(noted, { order: 'edf' })).toEqual({ ...noted, order: 'edf' })
    expect(refusal(() => mergeQueueConfig({}, noted)).code).toBe('invalid_request')
  })
})
