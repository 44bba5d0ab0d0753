import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { depthOf, excess, isCrossed, pressureOf, queueFull, type Bound } from './backpressure.ts'
import { readBound } from '../wire/job/backpressure.ts'
import { OjsError } from '../errors.ts'

const bound = (changes: Partial<Bound> = {}): Bound => ({ maxDepth: 10, strategy: 'reject', warnAt: 8, ...changes })

describe('reading a bound', () => {
  test('without a depth, or with none, a queue is unbounded', () => {
    for (const value of [undefined, null, {}, { max_depth: 0 }, { strategy: 'block' }])
      expect(readBound(value)).toBe(null)
  })

  test('refusing is the default, and a warning from four fifths on', () => {
    expect(readBound({ max_depth: 10 })).toEqual({ maxDepth: 10, strategy: 'reject', warnAt: 8 })
    expect(readBound({ max_depth: 10, max_size_bytes: 0, strategy: 'drop_oldest', warning_threshold: 0.55 })).toEqual({
      maxDepth: 10,
      strategy: 'drop_oldest',
      warnAt: 6,
    })
  })

  test.each([
    ['no object', 5, 'backpressure'],
    ['a negative depth', { max_depth: -1 }, 'backpressure.max_depth'],
    ['a fraction of a job', { max_depth: 1.5 }, 'backpressure.max_depth'],
    ['a size, which the server does not count', { max_size_bytes: 1024 }, 'backpressure.max_size_bytes'],
    ['an unknown strategy', { strategy: 'drop_newest' }, 'backpressure.strategy'],
    ['a threshold above one', { warning_threshold: 80 }, 'backpressure.warning_threshold'],
    ['a threshold below zero', { warning_threshold: -0.1 }, 'backpressure.warning_threshold'],
    ['an unknown key', { max_deph: 5 }, 'backpressure.max_deph'],
  ])('%s is a 422 that names the field', (_, value, field) => {
    const read = (): unknown => readBound(value)
    expect(read).toThrow(OjsError)
    expect(read).toThrow(expect.objectContaining({ code: 'validation_error', details: { field } }))
  })
})

test('the depth is everything that is not over', () => {
  const counts = {
    scheduled: 1,
    available: 2,
    pending: 4,
    active: 8,
    retryable: 16,
    completed: 32,
    cancelled: 64,
    discarded: 128,
  }
  expect(depthOf(counts)).toBe(31)
})

test('there is room up to the bound and not beyond; a bound that was lowered is made good', () => {
  expect([0, 9, 10, 11, 15].map((depth) => excess(bound(), depth))).toEqual([0, 0, 1, 2, 6])
})

test('the line is crossed once on the way up, and pressure is reported from then on', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.double({ min: 0, max: 1, noNaN: true }), (maxDepth, threshold) => {
      const read = readBound({ max_depth: maxDepth, warning_threshold: threshold })
      if (read === null) throw new Error('bounded')
      const crossings = Array.from({ length: maxDepth }, (_, depth) => isCrossed(read, depth)).filter(Boolean)
      expect(crossings).toHaveLength(1)
      for (let depth = 0; depth < maxDepth; depth += 1)
        if (isCrossed(read, depth)) {
          expect(pressureOf(read, depth)).toBe(null)
          expect(pressureOf(read, depth + 1)).toEqual({ depth: depth + 1, bound: maxDepth })
        }
    }),
  )
  expect(pressureOf(null, 1_000)).toBe(null)
})

test('the refusal says how deep the queue is and may be', () => {
  expect(queueFull('mail', bound(), 12)).toMatchObject({
    code: 'QUEUE_FULL',
    details: { queue: 'mail', depth: 12, bound: 10, strategy: 'reject' },
  })
})
