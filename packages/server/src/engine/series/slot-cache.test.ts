import { emptyCell, RESOLUTIONS, type Doc, type PackedTally } from '@curfew/core'
import { expect, test } from 'vitest'
import { SlotCache } from './slot-cache.ts'

function doc(id: string, version: number, created: number): Doc {
  const cell = { ...emptyCell(), counts: { created } }
  const body = JSON.stringify({ from: 0, tally: { 'q t': cell } })
  return { kind: RESOLUTIONS[0]?.kind.kind ?? '', id, version, wakeAt: null, body }
}
const created = (tally: PackedTally | null): number | null => tally?.[0]?.counts.created ?? null

test('a slot that was read is known until it is saved anew', () => {
  const cache = new SlotCache()
  expect(cache.known(doc('a', 1, 5))).toBeNull()
  expect(created(cache.parsed(doc('a', 1, 5)))).toBe(5)
  expect(created(cache.known(doc('a', 1, 5)))).toBe(5)
  expect(cache.known(doc('a', 2, 6))).toBeNull()
  expect(created(cache.parsed(doc('a', 2, 6)))).toBe(6)
  expect(created(cache.known(doc('a', 2, 6)))).toBe(6)
  cache.clear()
  expect(cache.known(doc('a', 2, 6))).toBeNull()
})

test('of more slots than there is room for, the one leaves that was not read for longest', () => {
  const cache = new SlotCache(70)
  cache.parsed(doc('a', 1, 1))
  cache.parsed(doc('b', 1, 2))
  expect(cache.known(doc('a', 1, 1))).not.toBeNull()
  cache.parsed(doc('c', 1, 3))
  expect([doc('a', 1, 1), doc('b', 1, 2), doc('c', 1, 3)].map((each) => created(cache.known(each)))).toEqual([
    1,
    null,
    3,
  ])
})
