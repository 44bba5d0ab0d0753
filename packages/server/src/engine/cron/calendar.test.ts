/** Schedules in real places: what fits, and what the clocks make of it. */
import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { instant, nextOccurrence, readSchedule, zoneNamed, type Occurrence } from '@curfew/core'
import { calendar } from './calendar.ts'

const at = (text: string) => instant(Date.parse(text))
const ANCHOR = at('2026-01-01T00:00:00Z')

function next(expression: string, zone: string, after: string): Occurrence | null {
  return nextOccurrence(readSchedule(expression, zone), calendar, ANCHOR, at(after))
}

/** The next occurrences, written as UTC. */
function run(expression: string, zone: string, after: string, count: number): string[] {
  const found: string[] = []
  for (let from = after; found.length < count;) {
    const occurrence = next(expression, zone, from)
    if (occurrence === null) break
    from = new Date(occurrence.at).toISOString()
    found.push(from.replace('.000', ''))
  }
  return found
}

describe('the calendar', () => {
  test.each([
    ['*/15 * * * *', '2026-02-28T23:40:00Z', ['2026-02-28T23:45:00Z', '2026-03-01T00:00:00Z']],
    ['0 9 * * 1-5', '2026-05-01T10:00:00Z', ['2026-05-04T09:00:00Z', '2026-05-05T09:00:00Z']],
    ['0 0 * * 0', '2026-05-01T10:00:00Z', ['2026-05-03T00:00:00Z', '2026-05-10T00:00:00Z']],
    ['0 0 * * 7', '2026-05-01T10:00:00Z', ['2026-05-03T00:00:00Z', '2026-05-10T00:00:00Z']],
    ['0 0 31 * *', '2026-01-31T10:00:00Z', ['2026-03-31T00:00:00Z', '2026-05-31T00:00:00Z']],
    ['0 0 29 2 *', '2026-01-01T00:00:00Z', ['2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z']],
    ['0 0 29 2 *', '2096-03-01T00:00:00Z', ['2104-02-29T00:00:00Z']],
    ['0 23 L * *', '2026-01-31T23:00:00Z', ['2026-02-28T23:00:00Z', '2026-03-31T23:00:00Z']],
    ['0 0 LW * *', '2026-05-01T00:00:00Z', ['2026-05-29T00:00:00Z', '2026-06-30T00:00:00Z']],
    ['0 0 15W * *', '2026-08-01T00:00:00Z', ['2026-08-14T00:00:00Z', '2026-09-15T00:00:00Z']],
    ['0 0 1W * *', '2026-07-31T00:00:00Z', ['2026-08-03T00:00:00Z']],
    ['0 0 * * 5#3', '2026-01-01T00:00:00Z', ['2026-01-16T00:00:00Z', '2026-02-20T00:00:00Z']],
    ['0 0 * * 5L', '2026-01-01T00:00:00Z', ['2026-01-30T00:00:00Z', '2026-02-27T00:00:00Z']],
    ['0 0 * 2 SUN#5', '2026-01-01T00:00:00Z', ['2032-02-29T00:00:00Z']],
    // Both days are given: either will do, as in every cron.
    ['0 0 13 * 5', '2026-02-01T00:00:00Z', ['2026-02-06T00:00:00Z', '2026-02-13T00:00:00Z']],
    ['59 59 23 31 12 *', '2026-12-31T23:59:58Z', ['2026-12-31T23:59:59Z', '2027-12-31T23:59:59Z']],
    ['*/20 * * * * *', '2026-01-01T00:00:00.001Z', ['2026-01-01T00:00:20Z', '2026-01-01T00:00:40Z']],
  ])('%s after %s', (expression, after, expected) => {
    expect(run(expression, 'UTC', after, expected.length)).toEqual(expected)
  })

  test('the next one is later than the instant it is asked for, to the millisecond', () => {
    expect(run('0 12 * * *', 'UTC', '2026-01-01T11:59:59.999Z', 1)).toEqual(['2026-01-01T12:00:00Z'])
    expect(run('0 12 * * *', 'UTC', '2026-01-01T12:00:00Z', 1)).toEqual(['2026-01-02T12:00:00Z'])
  })

  test('@every is counted from its anchor, whenever it is asked', () => {
    expect(run('@every 45m', 'Europe/Berlin', '2026-01-01T00:10:00Z', 2)).toEqual([
      '2026-01-01T00:45:00Z',
      '2026-01-01T01:30:00Z',
    ])
    expect(run('@every 45m', 'UTC', '2026-01-01T09:00:00Z', 1)).toEqual(['2026-01-01T09:45:00Z'])
  })
})

describe('where clocks are set forward', () => {
  test.each([
    // Berlin: 02:00 → 03:00 on 29 March 2026, at 01:00Z.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-27T12:00:00Z', ['2026-03-28T01:30:00Z', '2026-03-30T00:30:00Z']],
    ['0 3 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', ['2026-03-29T01:00:00Z', '2026-03-30T01:00:00Z']],
    ['0 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', ['2026-03-30T00:00:00Z']],
    [
      '*/30 1-3 29 3 *',
      'Europe/Berlin',
      '2026-03-28T12:00:00Z',
      run('0,30 0-1 29 3 *', 'UTC', '2026-03-28T12:00:00Z', 4),
    ],
    ['0 9 * * 0', 'Europe/Berlin', '2026-03-28T23:30:00Z', ['2026-03-29T07:00:00Z']],
    ['*/20 * * * *', 'Europe/Berlin', '2026-03-29T00:30:00Z', ['2026-03-29T00:40:00Z', '2026-03-29T01:00:00Z']],
    // New York: 02:00 → 03:00 on 8 March 2026, at 07:00Z.
    ['30 2 * * *', 'America/New_York', '2026-03-07T12:00:00Z', ['2026-03-09T06:30:00Z']],
    ['59 59 1 * * *', 'America/New_York', '2026-03-08T00:00:00Z', ['2026-03-08T06:59:59Z']],
    // Lord Howe: 02:00 → 02:30 on 4 October 2026, at 15:30Z the day before.
    ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-02T18:00:00Z', ['2026-10-04T15:15:00Z']],
    ['30 2 * * *', 'Australia/Lord_Howe', '2026-10-02T18:00:00Z', ['2026-10-03T15:30:00Z', '2026-10-04T15:30:00Z']],
    // São Paulo had no midnight on 4 November 2018 (03:00Z).
    ['0 0 * * *', 'America/Sao_Paulo', '2018-11-02T12:00:00Z', ['2018-11-03T03:00:00Z', '2018-11-05T02:00:00Z']],
    ['0 1 * * *', 'America/Sao_Paulo', '2018-11-03T12:00:00Z', ['2018-11-04T03:00:00Z', '2018-11-05T03:00:00Z']],
    ['0 0 4 * *', 'America/Sao_Paulo', '2018-10-20T12:00:00Z', ['2018-12-04T02:00:00Z']],
    // Casablanca comes back from Ramadan: 02:00 → 03:00 on 22 March 2026, at 02:00Z.
    ['30 2 * * *', 'Africa/Casablanca', '2026-03-21T12:00:00Z', ['2026-03-23T01:30:00Z']],
    // Kathmandu never does.
    ['30 2 * * *', 'Asia/Kathmandu', '2026-03-28T12:00:00Z', ['2026-03-28T20:45:00Z', '2026-03-29T20:45:00Z']],
  ])('%s in %s after %s', (expression, zone, after, expected) => {
    expect(run(expression, zone, after, expected.length)).toEqual(expected)
  })

  test('a skipped time is reported: when, and which', () => {
    expect(next('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z')).toEqual({
      at: at('2026-03-30T00:30:00Z'),
      gap: { at: at('2026-03-29T01:00:00Z'), local: '2026-03-29T02:30:00' },
    })
    expect(next('0 0 29 3 *', 'Europe/Berlin', '2026-03-01T12:00:00Z')?.gap).toBeNull()
    expect(next('30 2 29 3 *', 'Europe/Berlin', '2025-06-01T12:00:00Z')).toEqual({
      at: at('2027-03-29T00:30:00Z'),
      gap: { at: at('2026-03-29T01:00:00Z'), local: '2026-03-29T02:30:00' },
    })
    // A pace misses nothing.
    expect(next('30 * * * *', 'Europe/Berlin', '2026-03-29T00:45:00Z')).toEqual({
      at: at('2026-03-29T01:30:00Z'),
      gap: null,
    })
  })

  test.each([
    ['30 2 * 3 SUNL', 'Europe/Berlin'],
    ['30 2 * 3 0#2', 'America/New_York'],
  ])('%s in %s is skipped every year, and so it never comes', (expression, zone) => {
    expect(next(expression, zone, '2026-01-01T00:00:00Z')).toBeNull()
  })
})

describe('where clocks are set back', () => {
  test.each([
    // Berlin: 03:00 → 02:00 on 25 October 2026, at 01:00Z.
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z']],
    [
      '*/30 2 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00:00Z',
      ['2026-10-25T00:00:00Z', '2026-10-25T00:30:00Z', '2026-10-26T01:00:00Z'],
    ],
    ['0 3 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T02:00:00Z']],
    // Asked for in the middle of the second passing.
    ['45 2 * * *', 'Europe/Berlin', '2026-10-25T01:15:00Z', ['2026-10-26T01:45:00Z']],
    ['*/10 2-3 * * *', 'Europe/Berlin', '2026-10-25T01:15:00Z', ['2026-10-25T02:00:00Z', '2026-10-25T02:10:00Z']],
    // A pace goes on.
    [
      '*/30 * * * *',
      'Europe/Berlin',
      '2026-10-25T00:10:00Z',
      ['2026-10-25T00:30:00Z', '2026-10-25T01:00:00Z', '2026-10-25T01:30:00Z', '2026-10-25T02:00:00Z'],
    ],
    // New York: 02:00 → 01:00 on 1 November 2026, at 06:00Z.
    ['30 1 * * *', 'America/New_York', '2026-10-31T12:00:00Z', ['2026-11-01T05:30:00Z', '2026-11-02T06:30:00Z']],
    [
      '@hourly',
      'America/New_York',
      '2026-11-01T04:30:00Z',
      ['2026-11-01T05:00:00Z', '2026-11-01T06:00:00Z', '2026-11-01T07:00:00Z'],
    ],
    // Lord Howe: 02:00 → 01:30 on 5 April 2026, at 15:00Z the day before.
    ['45 1 * * *', 'Australia/Lord_Howe', '2026-04-03T18:00:00Z', ['2026-04-04T14:45:00Z', '2026-04-05T15:15:00Z']],
    ['15 1 * * *', 'Australia/Lord_Howe', '2026-04-03T18:00:00Z', ['2026-04-04T14:15:00Z', '2026-04-05T14:45:00Z']],
    // São Paulo: midnight became 23:00 on 17 February 2018 once more (02:00Z on the 18th).
    ['30 23 * * *', 'America/Sao_Paulo', '2018-02-17T12:00:00Z', ['2018-02-18T01:30:00Z', '2018-02-19T02:30:00Z']],
    ['0 0 * * *', 'America/Sao_Paulo', '2018-02-17T12:00:00Z', ['2018-02-18T03:00:00Z']],
    ['30 * 17 2 *', 'America/Sao_Paulo', '2018-02-18T01:45:00Z', ['2018-02-18T02:30:00Z', '2019-02-17T03:30:00Z']],
    // The repeated hour ends the day, and in the next year that day is still in summer.
    ['30 * 19 2 *', 'America/Sao_Paulo', '2011-02-20T01:45:00Z', ['2011-02-20T02:30:00Z', '2012-02-19T02:30:00Z']],
    // Casablanca goes into Ramadan: 03:00 → 02:00 on 15 February 2026, at 02:00Z.
    ['30 2 * * *', 'Africa/Casablanca', '2026-02-14T12:00:00Z', ['2026-02-15T01:30:00Z', '2026-02-16T02:30:00Z']],
  ])('%s in %s after %s', (expression, zone, after, expected) => {
    expect(run(expression, zone, after, expected.length)).toEqual(expected)
  })
})

// ---- Whatever is asked ----

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Sao_Paulo',
  'Africa/Casablanca',
  'Asia/Kathmandu',
  'America/Havana',
  'Pacific/Apia',
  'Africa/Cairo',
  'Antarctica/Troll',
]
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

const someOf = (min: number, max: number) =>
  fc.oneof(
    { arbitrary: fc.constant<number[] | null>(null), weight: 2 },
    fc.uniqueArray(fc.integer({ min, max }), { minLength: 1, maxLength: 4 }),
  )
const written = (values: number[] | null): string => values?.join(',') ?? '*'

interface Asked {
  readonly minutes: number[] | null
  readonly hours: number[] | null
  readonly days: number[] | null
  readonly months: number[] | null
  readonly weekdays: number[] | null
}
const asked: fc.Arbitrary<Asked> = fc.record({
  minutes: someOf(0, 59),
  hours: someOf(0, 23),
  days: someOf(1, 28),
  months: someOf(1, 12),
  weekdays: someOf(0, 6),
})

function fits({ minutes, hours, days, months, weekdays }: Asked, wall: number): boolean {
  const date = new Date(wall)
  const isOf = (values: number[] | null, value: number): boolean => values === null || values.includes(value)
  const [byDay, byWeekday] = [isOf(days, date.getUTCDate()), isOf(weekdays, date.getUTCDay())]
  return (
    isOf(minutes, date.getUTCMinutes()) &&
    isOf(hours, date.getUTCHours()) &&
    isOf(months, date.getUTCMonth() + 1) &&
    (days !== null && weekdays !== null ? byDay || byWeekday : byDay && byWeekday)
  )
}

/** Clocks are changed on the quarter hour, and asking the zone each time would take long. */
const offsets = new Map<string, number>()
function offsetAt(name: string, when: number): number {
  const quarter = Math.floor(when / (15 * MINUTE_MS))
  const key = `${name} ${String(quarter)}`
  const offset = offsets.get(key) ?? zoneNamed(name)?.offsetAt(quarter * 15 * MINUTE_MS) ?? NaN
  offsets.set(key, offset)
  return offset
}

test('what is found is what one finds who looks at the clock on the wall every minute', () => {
  // Days around changes of the clocks in these places.
  const beginnings = ['2026-03-27', '2026-10-23', '2026-03-06', '2026-10-30', '2026-10-02', '2026-04-03', '2026-02-13']
  const older = ['2026-03-20', '2018-11-02', '2018-02-16', '2011-12-28', '2026-04-22', '2026-10-28', '2027-02-05']
  fc.assert(
    fc.property(
      asked,
      fc.constantFrom(...ZONES),
      fc.constantFrom(...beginnings, ...older),
      fc.integer({ min: 0, max: 2 * 1440 * 60 }),
      (fields, name, day, seconds) => {
        const from = Date.parse(`${day}T00:00:00Z`) + seconds * 1000
        const expression = [fields.minutes, fields.hours, fields.days, fields.months, fields.weekdays].map(written)
        const found = nextOccurrence(readSchedule(expression.join(' '), name), calendar, ANCHOR, instant(from))
        const until = from + 3 * DAY_MS
        let first: number | null = null
        const isPace = fields.hours === null || fields.hours.length === 24
        for (
          let look = Math.floor(from / MINUTE_MS + 1) * MINUTE_MS;
          look <= until && first === null;
          look += MINUTE_MS
        ) {
          const offset = offsetAt(name, look)
          const dayBefore = offsetAt(name, look - DAY_MS)
          const earlier = look + offset - dayBefore
          const isSecondTime = earlier < look && offsetAt(name, earlier) === dayBefore
          if (fits(fields, look + offset) && (isPace || !isSecondTime)) first = look
        }
        if (first !== null) expect(new Date(found?.at ?? 0).toISOString()).toBe(new Date(first).toISOString())
        else if (found !== null) expect(found.at).toBeGreaterThan(until)
      },
    ),
    { numRuns: 120 },
  )
})

test('L, W and # mean the days one counts off on a calendar', () => {
  const lastOf = (year: number, month: number): number => new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const rules: [string, (year: number, month: number, day: number, weekday: number) => boolean][] = [
    ['L * *', (year, month, day) => day === lastOf(year, month)],
    ['* * 2L', (year, month, day, weekday) => weekday === 2 && day > lastOf(year, month) - 7],
    ['* * 3#2', (_, __, day, weekday) => weekday === 3 && Math.ceil(day / 7) === 2],
    ['* * 1#5,4#1', (_, __, day, weekday) => (weekday === 1 && day > 28) || (weekday === 4 && day <= 7)],
    [
      '20W * *',
      (_, __, day, weekday) =>
        [1, 2, 3, 4, 5].includes(weekday) &&
        (day === 20 || (day === 19 && weekday === 5) || (day === 21 && weekday === 1)),
    ],
  ]
  fc.assert(
    fc.property(fc.constantFrom(...rules), fc.integer({ min: 0, max: 20_000 }), ([days, isMeant], passed) => {
      const from = Date.UTC(2020, 0, 1) + passed * DAY_MS
      const found = nextOccurrence(readSchedule(`0 0 ${days}`, 'UTC'), calendar, ANCHOR, instant(from))
      let look = from + DAY_MS
      for (; ; look += DAY_MS) {
        const date = new Date(look)
        if (isMeant(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCDay())) break
      }
      expect(found?.at).toBe(look)
    }),
    { numRuns: 200 },
  )
})

test('no expression and no zone makes the search long: it passes each change of the clocks once', () => {
  const part = fc.oneof(
    fc.constantFrom('*', '?', 'L', 'LW', '5W', '31W', '1-5', '*/7', '29', '30', '31', '2', '59', '23', 'feb', 'mar'),
    fc.constantFrom('SUNL', '0#2', '0#5', '1#5', 'sun', '6-7', '2,4,6,9,11', '30,31', '1L5', '*/0', '99', '0-59/59'),
    fc.string({ maxLength: 5 }),
  )
  const expression = fc.array(part, { minLength: 4, maxLength: 7 }).map((parts) => parts.join(' '))
  let looks = 0
  fc.assert(
    fc.property(expression, fc.constantFrom(...Intl.supportedValuesOf('timeZone')), (text, name) => {
      let schedule
      try {
        schedule = readSchedule(text, name)
      } catch (error) {
        expect(error).toMatchObject({ code: 'invalid_request' })
        return
      }
      if (schedule.kind === 'every') return
      const { zone } = schedule
      looks = 0
      const counted = {
        ...schedule,
        zone: {
          ...zone,
          offsetAt: (when: number) => {
            looks += 1
            return zone.offsetAt(when)
          },
        },
      }
      let fitted = 0
      const counting = (fields: string) => (wall: number) => {
        fitted += 1
        return calendar(fields)(wall)
      }
      const found = nextOccurrence(counted, counting, ANCHOR, ANCHOR)
      if (found !== null) expect(found.at).toBeGreaterThan(ANCHOR)
      // Two changes a year (four with Ramadan), each found by halving three days.
      expect(fitted).toBeLessThan(400)
      expect(looks).toBeLessThan(5_000)
    }),
    { numRuns: 1_000 },
  )
})

test('the calendar answers hostile fields at once', () => {
  for (const fields of ['0 0 0 29 2 *', '0 0 0 * 2 0#5', '59 59 23 31W 12 *', '0 0 0 31 2 1#5', '0 0 0 30W 1,3 *']) {
    const before = performance.now()
    calendar(fields)(Date.UTC(2096, 2, 1))
    expect(performance.now() - before).toBeLessThan(250)
  }
})
