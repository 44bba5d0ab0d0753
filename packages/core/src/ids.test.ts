import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { NOON, later } from './builders.suite.ts'
import { instant } from './time/clock.ts'
import { eventId, isUuidV7, sequenceOfEventId, uuidV7 } from './ids.ts'
import { seededRandom } from './seeded-random.ts'

describe('job ids', () => {
  test('every id we make is a UUIDv7, whatever the chance', () => {
    fc.assert(
      fc.property(fc.integer(), fc.nat(2 ** 45), (seed, ms) => {
        expect(isUuidV7(uuidV7(instant(ms), seededRandom(seed)))).toBe(true)
      }),
    )
    expect(isUuidV7(uuidV7(NOON, () => 0))).toBe(true)
    expect(isUuidV7(uuidV7(NOON, () => 1 - Number.EPSILON))).toBe(true)
  })

  test('its digits are the time and what chance gave, bit by bit', () => {
    const bits = fc.tuple(fc.nat(0xfff), fc.nat(0x3fff), fc.nat(0xffff_ffff), fc.nat(0xffff))
    fc.assert(
      fc.property(fc.nat(2 ** 45), bits, (ms, [high, middle, low, lower]) => {
        const chance = [high / 0x1000, middle / 0x4000, low / 0x1_0000_0000, lower / 0x1_0000]
        const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
        expect(uuidV7(instant(ms), () => chance.shift() ?? 0).replaceAll('-', '')).toBe(
          `${hex(ms, 12)}7${hex(high, 3)}${hex(0x8000 + middle, 4)}${hex(lower, 4)}${hex(low, 8)}`,
        )
      }),
    )
  })

  test('an id made later sorts later', () => {
    const random = seededRandom(1)
    const ids = [0, 1, 16, 4096, 1e9].map((ms) => uuidV7(later(NOON, ms), random))
    expect([...ids].sort()).toEqual(ids)
  })

  test('two ids of one millisecond differ', () => {
    const random = seededRandom(1)
    expect(new Set(Array.from({ length: 1000 }, () => uuidV7(NOON, random))).size).toBe(1000)
  })

  test.each([
    '019539A4-B68C-7DEF-8000-1A2B3C4D5E6F', // upper case
    '019539a4-b68c-4def-8000-1a2b3c4d5e6f', // version 4
    '019539a4-b68c-7def-c000-1a2b3c4d5e6f', // wrong variant
    '019539a4b68c7def80001a2b3c4d5e6f',
    '019539a4-b68c-7def-8000-1a2b3c4d5e6f\n',
    '',
  ])('%j is not a job id', (id) => {
    expect(isUuidV7(id)).toBe(false)
  })
})

describe('event ids', () => {
  test('the place in the log and the time can be read back from every event id', () => {
    fc.assert(
      fc.property(fc.nat(2 ** 45), fc.nat(2 ** 47), (ms, sequence) => {
        const id = eventId(instant(ms), sequence)
        expect(isUuidV7(id.slice(4))).toBe(true)
        expect(sequenceOfEventId(id)).toEqual({ at: ms, sequence })
      }),
    )
  })

  test.each(['', 'evt_', 'evt_1', '019539a4-b68c-7def-8000-1a2b3c4d5e6f', 'evt_019539A4-B68C-7DEF-8000-1A2B3C4D5E6F'])(
    '%j is not an event id',
    (id) => {
      expect(sequenceOfEventId(id)).toBeNull()
    },
  )
})
