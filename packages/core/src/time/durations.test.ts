import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { NOON, later } from '../builders.suite.ts'
import { iso, millis } from './clock.ts'
import {
  formatDuration,
  formatIsoDuration,
  MAX_DURATION_MS,
  parseDuration,
  parseIsoDuration,
  parseMoment,
  readableDuration,
} from './durations.ts'

describe('durations as people write them', () => {
  test.each([
    ['30s', 30_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['1.5s', 1_500],
    ['7d', 604_800_000],
    ['0s', 0],
    ['PT5M', 300_000],
  ])('%s is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each(['', '30', 's', '30 s', '30sx', 'x30s', '30S', '-30s', '1h 30m', '0.1ms', 'P', '1w', '30s30'])(
    '%j is none',
    (text) => {
      expect(parseDuration(text)).toBeNull()
    },
  )

  test('what is written is read as it was', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: MAX_DURATION_MS }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms)
      }),
    )
  })
})

describe('ISO 8601 durations', () => {
  test.each([
    ['PT1S', 1_000],
    ['PT1M', 60_000],
    ['PT1H', 3_600_000],
    ['P1D', 86_400_000],
    ['P1W', 7 * 86_400_000],
    ['P1M', 30 * 86_400_000],
    ['P1Y', 365 * 86_400_000],
    ['P1Y1M1W1DT1H1M1.5S', (365 + 30 + 7 + 1) * 86_400_000 + 3_661_500],
    ['PT0.001S', 1],
    ['PT0S', 0],
    ['PT1.001S', 1_001],
  ])('%s is %d ms', (text, ms) => {
    expect(parseIsoDuration(text)).toBe(ms)
  })

  test.each([
    '1s',
    '1000',
    'P',
    'PT',
    'P1DT',
    'PT1',
    'PTS',
    'pt1s',
    'PT1S ',
    ' PT1S',
    '-PT1S',
    '+PT1S',
    'PT-1S',
    'PT1M1H',
    'P1H',
    'PT1D',
    'PT.5S',
    'PT1.S',
    'PT1,5S',
    'PT1.5H', // only seconds may have a fraction
    'P0.5D',
    '',
  ])('%j is not a duration', (text) => {
    expect(parseIsoDuration(text)).toBeNull()
  })

  test('every length we write, we read back as the same', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: MAX_DURATION_MS }), (length) => {
        expect(parseIsoDuration(formatIsoDuration(millis(length)))).toBe(length)
      }),
    )
  })
})

describe('moments a client names', () => {
  const absolute = (text: string): ReturnType<typeof parseMoment> => parseMoment(text, NOON, false)

  test.each([
    ['2099-12-31T23:59:59Z', '2099-12-31T23:59:59.000Z'],
    ['2099-12-31T23:59:59.5Z', '2099-12-31T23:59:59.500Z'],
    ['2099-12-31T23:59:59.123456789Z', '2099-12-31T23:59:59.123Z'],
    ['2026-06-01T12:00:00+02:00', '2026-06-01T10:00:00.000Z'],
    ['2026-06-01T12:00:00-05:30', '2026-06-01T17:30:00.000Z'],
    ['2026-06-01t12:00:00z', '2026-06-01T12:00:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
  ])('%s means %s and is given back byte for byte', (text, meant) => {
    const moment = absolute(text)
    expect(moment?.text).toBe(text)
    expect(moment === null ? null : iso(moment.at)).toBe(meant)
  })

  test.each([
    '2099-12-31T23:59:59', // no zone
    '2099-12-31',
    '2099-12-31T23:59Z',
    '2027-02-29T00:00:00Z', // no leap year
    '2026-02-30T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-32T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    '2026-01-01T00:00:60Z',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00+0200',
    '2026-01-01T00:00:00.Z',
    '1767225600000',
    'tomorrow',
    '',
    '+',
    '+5',
    '+1s',
  ])('%j is refused', (text) => {
    expect(absolute(text)).toBeNull()
  })

  test('a relative moment is counted from receipt and given back as an absolute one', () => {
    expect(absolute('+PT2S')).toEqual({ at: later(NOON, 2_000), text: iso(later(NOON, 2_000)) })
  })

  test('a bare duration counts only where the field allows it', () => {
    expect(parseMoment('PT2S', NOON, false)).toBeNull()
    expect(parseMoment('PT2S', NOON, true)).toEqual({ at: later(NOON, 2_000), text: iso(later(NOON, 2_000)) })
  })

  test('a relative moment more than ten years away is refused', () => {
    expect(absolute('+P10Y')?.at).toBe(later(NOON, MAX_DURATION_MS))
    expect(absolute('+P10YT0.001S')).toBeNull()
  })

  test('what the server writes it also reads, at the same instant', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date('9999-12-31T00:00:00Z'), noInvalidDate: true }), (date) => {
        expect(absolute(date.toISOString())).toEqual({ at: date.getTime(), text: date.toISOString() })
      }),
    )
  })
})

test.each([
  [0, '0 ms'],
  [840, '840 ms'],
  [1_200, '1.2 s'],
  [20_805, '20.8 s'],
  [59_999, '59.99 s'],
  [60_000, '1 min'],
  [125_400, '2 min 5 s'],
  [3_600_000, '1 h'],
  [12_060_000, '3 h 21 min'],
  [100_800_000, '1 d 4 h'],
])('%i ms are told to people as %s', (ms, told) => {
  expect(readableDuration(ms)).toBe(told)
})
