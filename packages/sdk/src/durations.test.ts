import { expect, test } from 'vitest'
import { duration, toMillis } from './durations.ts'

test('a length from outside is checked where it is read', () => {
  expect(toMillis(duration('1h30m'), 'timeout')).toBe(5_400_000)
  expect(() => duration('30')).toThrow(`duration is not a valid duration: "30". Write '30s'`)
})
