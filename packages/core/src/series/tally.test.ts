import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  addSketch,
  bucketEndMs,
  bucketOf,
  emptySketch,
  MAX_BUCKET,
  noteLength,
  quantileMs,
  type Sketch,
} from './sketch.ts'
import {
  emptyCell,
  fold,
  FOLDED,
  mergeTallies,
  pairKey,
  SERIES_KINDS,
  SERIES_OUTCOMES,
  timeoutKey,
  type Cell,
  type Tally,
} from './tally.ts'

/** Each run compares whole tallies: few are enough. */
const RUNS = { numRuns: 30 }

const lengths = fc.array(fc.integer({ min: 0, max: 10_000_000 }), { maxLength: 8 })

function sketchOf(all: readonly number[]): Sketch {
  const sketch = emptySketch()
  for (const ms of all) noteLength(sketch, ms)
  return sketch
}

const cell: fc.Arbitrary<Cell> = fc
  .record({
    outcomes: fc.array(fc.constantFrom(...SERIES_OUTCOMES), { maxLength: 6 }),
    timeouts: fc.array(fc.tuple(fc.constantFrom(...SERIES_KINDS), fc.constantFrom('publish', 'queue'), lengths), {
      maxLength: 3,
    }),
    waits: lengths,
    completed: lengths,
    cut: lengths,
  })
  .map(({ outcomes, timeouts, waits, completed, cut }) => {
    const made: Cell = {
      ...emptyCell(),
      waits: sketchOf(waits),
      completed: sketchOf(completed),
      cut: sketchOf(cut),
    }
    for (const outcome of outcomes) made.counts[outcome] = (made.counts[outcome] ?? 0) + 1
    for (const [kind, source, overshoot] of timeouts)
      made.timeouts[timeoutKey(kind, source)] = { n: overshoot.length + 1, overshoot: sketchOf(overshoot) }
    return made
  })
const pair = fc
  .tuple(fc.constantFrom('a', 'b', 'c.d', 'other'), fc.constantFrom('x', 'y.z', 'other'))
  .map(([queue, type]) => pairKey(queue, type))
const tally: fc.Arbitrary<Tally> = fc.dictionary(pair, cell, { maxKeys: 6 }).map((made) => ({ ...made }))

test('tallies are merged to the same in any order and any grouping', () => {
  fc.assert(
    fc.property(tally, tally, tally, (a, b, c) => {
      expect(mergeTallies(a, b)).toEqual(mergeTallies(b, a))
      expect(mergeTallies(mergeTallies(a, b), c)).toEqual(mergeTallies(a, mergeTallies(b, c)))
      expect(mergeTallies(a, {})).toEqual(mergeTallies({}, a))
    }),
    RUNS,
  )
})

test('a merge changes neither of the two', () => {
  fc.assert(
    fc.property(tally, tally, (a, b) => {
      const before = JSON.stringify([a, b])
      mergeTallies(a, b)
      expect(JSON.stringify([a, b])).toBe(before)
    }),
    RUNS,
  )
})

test('a tally is the same after it was saved as JSON', () => {
  fc.assert(
    fc.property(tally, (a) => {
      expect(JSON.parse(JSON.stringify(a))).toEqual(a)
    }),
    RUNS,
  )
})

/** All that was counted, whatever the names. */
function total(all: Tally): Cell {
  const [sum] = Object.values(Object.values(all).reduce<Tally>((into, each) => mergeTallies(into, { s: each }), {}))
  return sum ?? emptyCell()
}

test('names beyond the bound are counted together, and nothing is lost', () => {
  fc.assert(
    fc.property(fc.array(tally, { maxLength: 5 }), fc.integer({ min: 0, max: 4 }), (tallies, max) => {
      const into: Tally = {}
      for (const each of tallies) fold(into, each, max)
      expect(Object.keys(into).filter((key) => key !== FOLDED).length).toBeLessThanOrEqual(max)
      expect(total(into)).toEqual(total(tallies.reduce(mergeTallies, {})))
    }),
    RUNS,
  )
})

test('a quantile is within five percent of the true one', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 100_000_000 }), { minLength: 1, maxLength: 200 }),
      fc.double({ min: 0.01, max: 1, noNaN: true }),
      (all, share) => {
        const sorted = all.toSorted((a, b) => a - b)
        const true_ = sorted[Math.ceil(share * all.length) - 1] ?? 0
        // The answer is rounded to a tenth of a millisecond, and to a whole one from 100 ms on.
        expect(Math.abs((quantileMs(sketchOf(all), share) ?? 0) - true_)).toBeLessThanOrEqual(true_ * 0.05 + 0.5)
      },
    ),
  )
})

test('sketches of nothing have no quantiles, and every length has a bucket', () => {
  expect(quantileMs(emptySketch(), 0.5)).toBeNull()
  for (const ms of [0, 1, 2, 1_000, 86_400_000, Number.MAX_SAFE_INTEGER]) {
    const bucket = bucketOf(ms)
    expect(bucket).toBeGreaterThanOrEqual(0)
    expect(bucket).toBeLessThanOrEqual(MAX_BUCKET)
    if (bucket < MAX_BUCKET) expect(bucketEndMs(bucket)).toBeGreaterThan(ms)
  }
  const both = sketchOf([5, 5])
  addSketch(both, sketchOf([7]))
  expect(both).toEqual(sketchOf([5, 7, 5]))
})
