import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Shares } from './shares.ts'

function sharesOf(total: number, lengths: readonly number[]): Map<number, number> {
  const shares = new Shares(
    total,
    lengths.map((waiting, index) => ({ waiting, index })),
  )
  return new Map(shares.queues.map((queue) => [queue.index, shares.take(queue)]))
}

test('a long queue gets what the short ones leave, wherever it stands', () => {
  expect([...sharesOf(20, [100, 3, 5]).entries()].sort(([a], [b]) => a - b)).toEqual([
    [0, 12],
    [1, 3],
    [2, 5],
  ])
})

test('more is never shared out than there is, and no queue gets less than another that needs as much', () => {
  fc.assert(
    fc.property(fc.nat(500), fc.array(fc.integer({ min: 1, max: 200 }), { maxLength: 40 }), (total, lengths) => {
      const shares = sharesOf(total, lengths)
      const sum = [...shares.values()].reduce((all, share) => all + share, 0)
      expect(sum).toBe(
        Math.min(
          total,
          lengths.reduce((all, waiting) => all + waiting, 0),
        ),
      )
      const cut = [...shares].filter(([index, share]) => share < (lengths[index] ?? 0)).map(([, share]) => share)
      // Those that are cut all get the same, but for what does not divide; no other gets more than they.
      if (cut.length === 0) return
      expect(Math.max(...shares.values()) - Math.min(...cut)).toBeLessThanOrEqual(1)
    }),
  )
})

test('what a queue gives back goes to those after it', () => {
  const shares = new Shares(10, [{ waiting: 8 }, { waiting: 9 }])
  const [short, long] = shares.queues
  const share = shares.take(short ?? { waiting: 0 })
  shares.giveBack(share)
  expect([share, shares.take(long ?? { waiting: 0 })]).toEqual([5, 9])
})
