import { expect, test } from 'vitest'
import { bucketEndMs, bucketOf } from './sketch.ts'
import { whatIf, type Bucket } from './what-if.ts'

/** One attempt of each length. */
const lengths = (...all: number[]): Bucket[] => all.map((ms) => [bucketEndMs(bucketOf(ms)), 1])

test('a shorter timeout ends what ran longer; what shares its bucket may have', () => {
  const ran = lengths(100, 1_000, 2_000, 2_500, 2_900)
  expect(whatIf(ran, 2_000, 3_000)).toEqual({ total: 5, least: 2, most: 3, isKnown: true })
  expect(whatIf(ran, 1_500, 3_000)).toEqual({ total: 5, least: 3, most: 3, isKnown: true })
})

test('what a longer timeout would have saved is unknown, unless none has ended an attempt', () => {
  const ran = lengths(100, 2_900)
  expect(whatIf(ran, 3_001, 3_000).isKnown).toBe(false)
  expect(whatIf(ran, 3_000, 3_000).isKnown).toBe(true)
  expect(whatIf(ran, 60_000, null)).toEqual({ total: 2, least: 0, most: 0, isKnown: true })
})

test('nothing ran', () => {
  expect(whatIf([], 1_000, null)).toEqual({ total: 0, least: 0, most: 0, isKnown: true })
})
