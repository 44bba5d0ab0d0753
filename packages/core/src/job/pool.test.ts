import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instant } from '../time/clock.ts'
import { OjsError } from '../errors.ts'
import { poolOf, sharesOf, stationsOf, withPool, type Membership, type Station } from './pool.ts'
import { readPool } from '../wire/pool.ts'
import { seededRandom } from '../seeded-random.ts'

const now = instant(0)
const read = (sent: object) => readPool('p', sent, null, now)

describe('a pool', () => {
  test('is written in either dialect', () => {
    const queues = [
      { name: 'a', weight: 7 },
      { name: 'b', weight: 1 },
    ]
    expect(read({ strategy: 'weighted', queues: { a: { weight: 7 }, b: {} } }).queues).toEqual(queues)
    expect(read({ strategy: 'weighted', queues: ['a', 'b', 'a'], weights: { a: 7 } }).queues).toEqual(queues)
    expect(read({ queues: ['a'] }).strategy).toBe('round-robin')
  })

  test.each([
    [{}, 'queues'],
    [{ queues: [] }, 'queues'],
    [{ queues: {} }, 'queues'],
    [{ queues: ['A B'] }, 'queues[0]'],
    [{ queues: { 'A B': {} } }, 'queues'],
    [{ queues: ['a'], strategy: 'random' }, 'strategy'],
    [{ queues: ['a'], strategy: 'weighted', weights: { a: 0 } }, 'weights.a'],
    [{ queues: ['a'], strategy: 'weighted', weights: { b: 1 } }, 'weights'],
    [{ queues: ['a'], weights: { a: 2 } }, 'strategy'],
    [{ queues: ['a'], name: 'q' }, 'name'],
    [{ queues: ['a'], concurrency: 5 }, 'concurrency'],
    [{ queues: ['a'], isolated: true }, 'isolated'],
  ])('%j is refused, naming %s', (sent, field) => {
    try {
      read(sent)
      throw new Error('accepted')
    } catch (error) {
      expect((error as OjsError).details).toMatchObject({ field })
    }
  })

  test('is a note in the configuration of its queues, beside what else is there', () => {
    const membership: Membership = { name: 'p', strategy: 'weighted', weight: 3 }
    const config = withPool({ order: 'edf' }, membership)
    expect(poolOf(config)).toEqual(membership)
    expect(withPool(config, null)).toEqual({ order: 'edf' })
    expect(poolOf({ order: 'edf' })).toBeNull()
  })
})

test('queues of one pool are served together, at the place of the first of them; all others as they come', () => {
  const pools: Record<string, Membership> = {
    b: { name: 'p', strategy: 'weighted', weight: 2 },
    d: { name: 'p', strategy: 'weighted', weight: 1 },
    e: { name: 'q', strategy: 'strict', weight: 1 },
    f: { name: 'q', strategy: 'strict', weight: 1 },
  }
  const stations = stationsOf(['a', 'b', 'c', 'd', 'e', 'f', 'a'], (queue) => pools[queue] ?? null)
  expect(stations.map(({ queues }) => queues.map(({ name }) => name).join('+'))).toEqual(['a', 'b+d', 'c', 'e', 'f'])
})

describe('shares', () => {
  const station = (...weights: number[]): Station => ({
    strategy: 'weighted',
    queues: weights.map((weight, index) => ({ name: `q${String(index)}`, weight })),
  })
  const anyStation = fc
    .array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 10 })
    .map((all) => station(...all))

  test('come to what was asked for, every queue once, and none is off by a whole job', () => {
    fc.assert(
      fc.property(anyStation, fc.integer({ min: 1, max: 1_000 }), fc.integer(), (any, count, seed) => {
        const shares = sharesOf(any, count, seededRandom(seed))
        expect(shares.reduce((sum, { most }) => sum + most, 0)).toBe(count)
        expect(new Set(shares.map(({ queue }) => queue))).toEqual(new Set(any.queues.map(({ name }) => name)))
        const total = any.queues.reduce((sum, { weight }) => sum + weight, 0)
        for (const { name, weight } of any.queues) {
          const most = shares.find(({ queue }) => queue === name)?.most ?? -1
          expect(Math.abs(most - (count * weight) / total)).toBeLessThan(1)
        }
      }),
    )
  })

  test('over many fetches of one job each come out as the weights say', () => {
    const random = seededRandom(5)
    const got = [0, 0, 0]
    for (let fetch = 0; fetch < 12_000; fetch += 1) {
      const [first] = sharesOf(station(7, 2, 1), 1, random).filter(({ most }) => most === 1)
      const index = Number(first?.queue.slice(1))
      got[index] = (got[index] ?? 0) + 1
    }
    expect(got.map((count) => Math.round(count / 1_200))).toEqual([7, 2, 1])
  })

  test('four of two queues are two each', () => {
    const shares = sharesOf(station(1, 1), 4, seededRandom(1))
    expect(shares.map(({ most }) => most)).toEqual([2, 2])
  })
})
