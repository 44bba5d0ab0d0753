import { expect, test } from 'vitest'
import { instant, uuidV7 } from '@curfew/core'
import { systemRandom } from './host.ts'

test('chance is never the same twice, and covers its range', () => {
  const numbers = Array.from({ length: 5_000 }, systemRandom)
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...numbers)).toBeLessThan(1)
  expect(new Set(numbers).size).toBeGreaterThan(4_990)
  expect(numbers.reduce((sum, number) => sum + number, 0) / numbers.length).toBeCloseTo(0.5, 1)
})

test('ids of one millisecond differ', () => {
  const ids = Array.from({ length: 5_000 }, () => uuidV7(instant(0), systemRandom))
  expect(new Set(ids)).toHaveProperty('size', 5_000)
})
