import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Meter } from './meter.ts'
import { finder } from './search.ts'

const meter = () => new Meter({ monotonicMs: () => 0, deadlineMs: 1, latestMs: 1, budgetMs: 1 })

test('finds what the native search finds, with long needles too', () => {
  const few = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 40 })
  fc.assert(
    fc.property(few, few, fc.nat(200_000), fc.nat(50), (needle, tail, length, from) => {
      // Long enough for the search of our own.
      const text = 'ab'.repeat(length / 2) + 'aab'.repeat(60_000) + needle + tail
      expect(finder(text, needle, meter())(from)).toBe(text.indexOf(needle, from))
    }),
    { numRuns: 60 },
  )
})

test('takes no longer for a needle that nearly fits everywhere', () => {
  const needle = 'a'.repeat(60_000) + 'b' + 'a'.repeat(60_000)
  const before = process.cpuUsage()
  expect(finder('a'.repeat(262_144), needle, meter())(0)).toBe(-1)
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000)
})
