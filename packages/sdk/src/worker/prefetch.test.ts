import { describe, expect, test } from 'vitest'
import { after, instant, millis } from '@curfew/core'
import { NO_TERMS } from './held-attempt.ts'
import { bufferMs, defaultPrefetch, Prefetch } from './prefetch.ts'

/** Of a worker whose handlers take so long, and whose every call brought all it asked for. */
function seen(meanMs: number, { concurrency = 10, max = 100 } = {}): Prefetch {
  const prefetch = new Prefetch(concurrency)
  prefetch.max = max
  prefetch.ran(meanMs)
  for (let answers = 0; answers < 10; answers += 1) prefetch.brought(10, 10)
  return prefetch
}

describe('the buffer', () => {
  test('has no room before a handler has ended', () => {
    const prefetch = new Prefetch(10)
    prefetch.max = 100
    prefetch.brought(10, 10)
    expect(prefetch.depth).toBe(0)
  })

  test('has no room before an answer has brought all it was asked for', () => {
    const prefetch = new Prefetch(10)
    prefetch.max = 100
    prefetch.ran(1)
    expect(prefetch.depth).toBe(0)
  })

  test('doubles with each full answer up to its maximum, and halves with each that brings fewer', () => {
    const prefetch = new Prefetch(10)
    prefetch.max = 100
    prefetch.ran(1)
    const depths = [10, 10, 10, 10, 10, 9, 0, 0, 0, 0].map((jobs) => {
      prefetch.brought(10, jobs)
      return prefetch.depth
    })
    expect(depths).toEqual([10, 20, 40, 80, 100, 50, 25, 12, 6, 3])
  })

  test.each([
    [0.5, 100],
    [5, 100],
    [10, 50],
    [50, 10],
    [51, 0],
  ])('holds what the slots get through in 50 ms: handlers of %s ms, %s jobs', (meanMs, depth) => {
    expect(seen(meanMs).depth).toBe(depth)
  })

  test('shrinks at once when handlers become long, and grows back when they are short again', () => {
    const prefetch = seen(1)
    prefetch.ran(10_000)
    expect(prefetch.depth).toBe(0)
    for (let handlers = 0; handlers < 60; handlers += 1) prefetch.ran(1)
    expect(prefetch.depth).toBeGreaterThan(10)
  })

  test('holds no more than the slots get through in half the time that jobs with short clocks may wait', () => {
    const prefetch = seen(1)
    prefetch.arrived(4)
    expect(prefetch.depth).toBe(20)
    for (let jobs = 0; jobs < 60; jobs += 1) prefetch.arrived(1_000)
    expect(prefetch.depth).toBe(100)
  })

  test('is empty after a job had to go back, and begins anew', () => {
    const prefetch = seen(1)
    prefetch.waitedTooLong()
    expect(prefetch.depth).toBe(0)
    prefetch.brought(10, 10)
    expect(prefetch.depth).toBe(10)
  })
})

describe('the default maximum', () => {
  test.each([
    [1, 250],
    [10, 250],
    [30, 300],
    [100, 500],
  ])('is ten times the concurrency, from 250 to 500: %s slots, %s jobs', (concurrency, jobs) => {
    expect(defaultPrefetch(concurrency, false)).toBe(jobs)
  })

  test('is 0 with handlers in threads or processes', () => {
    expect(defaultPrefetch(10, true)).toBe(0)
  })
})

describe('a job stays in the buffer', () => {
  const startedAt = instant(5_000)
  const terms = { ...NO_TERMS, startedAt, softAt: after(startedAt, millis(60_000)) }

  test('for a second at most', () => {
    expect(bufferMs(terms)).toBe(1_000)
  })

  test.each([
    ['timeout', { softAt: after(startedAt, millis(200)) }],
    ['heartbeat timeout', { stallMs: millis(200) }],
    ['visibility timeout', { visibilityMs: millis(200) }],
  ])('for a tenth of its %s at most', (_, more) => {
    expect(bufferMs({ ...terms, ...more })).toBe(20)
  })
})
