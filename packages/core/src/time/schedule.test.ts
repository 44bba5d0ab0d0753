import { describe, expect, test } from 'vitest'
import { OjsError } from '../errors.ts'
import { readSchedule, type Schedule } from './schedule.ts'
import { zoneNamed } from './zones.ts'

const fields = (expression: string): string => {
  const schedule = readSchedule(expression, 'UTC')
  return schedule.kind === 'calendar' ? schedule.fields : `every ${String(schedule.everyMs)}`
}

function refusal(read: () => Schedule): OjsError {
  try {
    read()
  } catch (error) {
    if (error instanceof OjsError) return error
    throw error
  }
  throw new Error('it was not refused')
}

describe('an expression', () => {
  test.each([
    ['*/15 9-17 * * MON-FRI', '0 */15 9-17 * * 1-5'],
    ['30 0 12 1 jan,JUL *', '30 0 12 1 1,7 *'],
    ['0 0 * * 7', '0 0 0 * * 7'],
    ['0 0 * * sat-sun', '0 0 0 * * 6-7'],
    ['0 0 * * sun-sun', '0 0 0 * * 0'],
    ['5/20 * * * *', '0 5-59/20 * * * *'],
    ['0 0 ? * FRI#3', '0 0 0 * * 5#3'],
    ['0 0 l * *', '0 0 0 L * *'],
    ['0 0 15w,LW * *', null],
    ['0 0 LW * *', '0 0 0 LW * *'],
    ['0 0 1,L * *', '0 0 0 1,L * *'],
    ['0 0 15W * *', '0 0 0 15W * *'],
    ['0 0 * * 5L', '0 0 0 * * 5L'],
    ['0 0 * * SUNL', '0 0 0 * * 0L'],
    ['*/1 *,5 */1 * * *', '* * * * * *'],
    ['  0\t0  1 * * ', '0 0 0 1 * *'],
    ['@daily', '0 0 0 * * *'],
    ['@Hourly', '0 0 * * * *'],
    ['@yearly', '0 0 0 1 1 *'],
    ['@annually', '0 0 0 1 1 *'],
    ['@monthly', '0 0 0 1 * *'],
    ['@weekly', '0 0 0 * * 0'],
    ['@midnight', '0 0 0 * * *'],
    ['@every 1h30m', 'every 5400000'],
    ['@every 1s', 'every 1000'],
    ['@every 1.5h', 'every 5400000'],
    // A day that only some months have is allowed.
    ['0 0 31 * *', '0 0 0 31 * *'],
    ['0 0 29 2 *', '0 0 0 29 2 *'],
    ['0 0 31 2 5', '0 0 0 31 2 5'],
    ['0 0 L 2 *', '0 0 0 L 2 *'],
  ])('%s is read', (expression, expected) => {
    if (expected === null) expect(() => fields(expression)).toThrow(/alone/)
    else expect(fields(expression)).toBe(expected)
  })

  test.each([
    '',
    '   ',
    '* * * *',
    '* * * * * * *',
    '0 0 1 1 * 2030 *',
    'not a cron at all',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * 32 * *',
    '* * * 0 *',
    '* * * 13 *',
    '* * * * 8',
    '60 * * * * *',
    '*/0 * * * *',
    '*/61 * * * *',
    '* * * * */8',
    '5-1 * * * *',
    '* * * * fri-tue',
    '1- * * * *',
    '-5 * * * *',
    '1,,2 * * * *',
    ',1 * * * *',
    '1*5 * * * *',
    '** * * * *',
    '1.5 * * * *',
    '+1 * * * *',
    '? * * * *',
    '/5 * * * *',
    '1/2/3 * * * *',
    '0 0 * janfeb *',
    '0 0 * january *',
    '0 0 * * monday',
    '0 0 jan * *',
    '0 0 * * 5#0',
    '0 0 * * 5#6',
    '0 0 * * L',
    '0 0 * * +1',
    '0 0 1L5 * *',
    '0 0 L-3 * *',
    '0 0 1-5W * *',
    '0 0 32W * *',
    '0 0 * * 1W',
    'L * * * *',
    '@every',
    '@every 500ms',
    '@every -5m',
    '@every 5',
    '@every PT5M',
    '@every 20000d',
    '@every 5m 3',
    '@reboot',
    '@fortnightly',
    '@constructor',
    '0 0 31 2 *',
    '0 0 30,31 2 *',
    '0 0 31W 2 *',
    '0 0 31 2,4,6,9,11 *',
    '1,'.repeat(500),
  ])('%s is refused, and the field is named', (expression) => {
    const error = refusal(() => readSchedule(expression, 'UTC', 'cron'))
    expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'cron' } })
    expect(error.message).toMatch(/^cron/)
    expect(error.message.length).toBeLessThan(250)
  })

  test('a refusal shows the part that is wrong, and what would be right', () => {
    const { message } = refusal(() => readSchedule('0 25 * * *', 'UTC'))
    expect(message).toBe('expression: "25" in the hour must be 0 to 23, with * , - and /.')
  })
})

describe('a zone', () => {
  test.each([
    'UTC',
    'utc',
    'Europe/Berlin',
    'America/Argentina/Buenos_Aires',
    'America/Port-au-Prince',
    'Asia/Kolkata',
    'Etc/UTC',
    'US/Eastern',
  ])('%s is known', (name) => {
    expect(zoneNamed(name)).not.toBeNull()
  })

  test.each([
    '',
    '+05:00',
    '-08:00',
    'UTC+5',
    'GMT+1',
    'EST',
    'PST',
    'CST',
    'CET',
    'EST5EDT',
    'Japan',
    'Mars/Olympus_Mons',
    'Europe',
    'Europe/',
    'Europe/Berlin ',
    '../etc/passwd',
    'constructor',
    '__proto__',
  ])('%j is refused, and the field is named', (name) => {
    const error = refusal(() => readSchedule('* * * * *', name))
    expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'timezone' } })
  })

  test('the offset is what the clocks there show', () => {
    const offset = (zone: string, at: string): number => (zoneNamed(zone)?.offsetAt(Date.parse(at)) ?? NaN) / 60_000
    expect(offset('Asia/Kathmandu', '2026-06-01T00:00:00Z')).toBe(345)
    expect(offset('Europe/Berlin', '2026-03-29T00:59:59.999Z')).toBe(60)
    expect(offset('Europe/Berlin', '2026-03-29T01:00:00Z')).toBe(120)
    expect(offset('Australia/Lord_Howe', '2026-01-01T00:00:00Z')).toBe(660)
    expect(offset('Australia/Lord_Howe', '2026-07-01T00:00:00Z')).toBe(630)
    expect(offset('America/New_York', '2026-01-01T05:00:00Z')).toBe(-300)
  })
})
