/**
 * Schedules: a cron expression and a zone, read strictly, and the next instant they mean. Which days and times of the
 * calendar fit the fields is asked of a `Calendar`; what a clock on the wall makes of them is decided here.
 *
 *   spring forward    a local time that does not come is skipped, not moved
 *   fall back         a local time that comes twice counts once, the first time
 *
 * A schedule that names no hours ("every ten minutes") is a pace and not a time of day: it goes on through both.
 * OJS cron §3–§5.
 */
import { instant, millis, type Instant, type Millis } from './clock.ts'
import { after, elapsed } from './sums.ts'
import { MAX_DURATION_MS, parseDuration } from './durations.ts'
import { badField } from '../errors.ts'
import { shiftBetween, zoneNamed, type Zone } from './zones.ts'

export type Schedule = Every | OfTheCalendar

/** `@every 90s`: counted from an anchor. */
export interface Every {
  readonly kind: 'every'
  readonly everyMs: Millis
}

export interface OfTheCalendar {
  readonly kind: 'calendar'
  /** Second, minute, hour, day of month, month, day of week: numbers, `* , - /`, and `L W #` in the days. */
  readonly fields: string
  readonly zone: Zone
  /** It names no hours. */
  readonly everyHour: boolean
}

/** Finds the next wall (whole seconds) after one that fits the fields; null when there is none. */
export type Calendar = (fields: string) => (wall: number) => number | null

export interface Occurrence {
  readonly at: Instant
  /** A local time before it that the clocks skip: when they do, and the time that would have been. */
  readonly gap: { readonly at: Instant; readonly local: string } | null
}

const MACROS: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}
/** No schedule is looked at more often than once a second (OJS cron §7.3). */
const MIN_MS = 1_000
const MAX_EXPRESSION_LENGTH = 1_000
const DAY_MS = 86_400_000
/** Whatever comes at all comes within forty years (a fifth Sunday in February, across 2100). */
const HORIZON_MS = 41 * 366 * DAY_MS

interface Field {
  readonly name: string
  readonly min: number
  readonly max: number
  readonly names?: readonly string[]
}

const SECOND: Field = { name: 'second', min: 0, max: 59 }
const MINUTE: Field = { name: 'minute', min: 0, max: 59 }
const HOUR: Field = { name: 'hour', min: 0, max: 23 }
const DAY: Field = { name: 'day of month', min: 1, max: 31 }
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const MONTH: Field = { name: 'month', min: 1, max: 12, names: MONTHS }
/** Sunday is 0, and 7 as well. */
const WEEKDAY: Field = {
  name: 'day of week',
  min: 0,
  max: 7,
  names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
}
const DAYS_OF_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Reads an expression, or refuses it and names the field of the request it came in. */
export function readSchedule(expression: string, timezone: string, field = 'expression'): Schedule {
  const zone = zoneNamed(timezone)
  if (zone === null) {
    throw badField(
      'timezone',
      'timezone must be a name of the IANA database such as "Europe/Berlin", or "UTC"; offsets and abbreviations say nothing about summer time.',
    )
  }
  const text = expression.trim()
  if (text === '') throw badField(field, `${field} must not be empty.`)
  if (text.length > MAX_EXPRESSION_LENGTH)
    throw badField(field, `${field} must not be longer than ${String(MAX_EXPRESSION_LENGTH)} characters.`)
  const every = /^@every\s+(\S+)$/i.exec(text)
  if (every !== null) return { kind: 'every', everyMs: readEvery(every[1] ?? '', field) }
  const macro = text.startsWith('@') ? MACROS[text.toLowerCase()] : text
  if (macro === undefined) {
    throw badField(field, `${field}: ${quoted(text)} is not one of ${Object.keys(MACROS).join(', ')} or "@every 90s".`)
  }
  return readFields(macro, zone, field)
}

function readEvery(text: string, field: string): Millis {
  const length = text.startsWith('P') ? null : parseDuration(text)
  if (length === null || length < MIN_MS || length > MAX_DURATION_MS) {
    throw badField(
      field,
      `${field}: ${quoted(text)} must be a length of at least one second and at most ten years, such as 45s, 30m or 1h30m.`,
    )
  }
  return length
}

function readFields(text: string, zone: Zone, field: string): OfTheCalendar {
  const parts = text.split(/\s+/)
  if (parts.length !== 5 && parts.length !== 6) {
    throw badField(
      field,
      `${field} must have 5 fields (minute, hour, day of month, month, day of week), or 6 with the second in front; it has ${String(parts.length)}.`,
    )
  }
  const [second = '', minute = '', hour = '', day = '', month = '', weekday = ''] =
    parts.length === 5 ? ['0', ...parts] : parts
  const refuse = (of: Field, item: string, why: string): never => {
    throw badField(field, `${field}: ${quoted(item)} in the ${of.name} ${why}.`)
  }
  const times = [readList(SECOND, second, refuse), readList(MINUTE, minute, refuse), readList(HOUR, hour, refuse)]
  const days = readList(DAY, day, refuse)
  const months = readList(MONTH, month, refuse)
  const weekdays = readList(WEEKDAY, weekday, refuse)
  const exists = [...months.values].some((m) => [...days.values].some((d) => d <= (DAYS_OF_MONTH[m - 1] ?? 0)))
  // When days of the week are given too, either will do.
  if (weekdays.text === '*' && !days.isOpen && !exists)
    throw badField(field, `${field}: ${quoted(`${day} ${month}`)} is a day that never comes.`)
  return {
    kind: 'calendar',
    fields: [...times, days, months, weekdays].map((list) => list.text).join(' '),
    zone,
    everyHour: times[2]?.values.size === 24,
  }
}

interface FieldList {
  /** As the calendar takes it. */
  readonly text: string
  readonly values: ReadonlySet<number>
  /** It holds something that is found in every month: its last day. */
  readonly isOpen: boolean
}

type Refuse = (of: Field, item: string, why: string) => never

function readList(of: Field, text: string, refuse: Refuse): FieldList {
  const values = new Set<number>()
  let isOpen = false
  const items = text.split(',').map((item) => {
    const special = of === DAY ? readDay(item, values, refuse) : of === WEEKDAY ? readWeekday(item, refuse) : null
    if (special === null) return readItem(of, item, values, refuse)
    isOpen ||= special.startsWith('L')
    if (special === 'LW' && text.includes(',')) refuse(of, item, 'must stand alone')
    return special
  })
  return { text: items.includes('*') ? '*' : items.join(','), values, isOpen }
}

/** `L`, `LW`, `15W`. */
function readDay(item: string, values: Set<number>, refuse: Refuse): string | null {
  const upper = item.toUpperCase()
  if (upper === 'L' || upper === 'LW') return upper
  const nearest = /^(\d{1,2})W$/.exec(upper)
  if (nearest === null) return null
  const day = readValue(DAY, nearest[1] ?? '', item, refuse)
  values.add(day)
  return `${String(day)}W`
}

/** `5L`, `FRI#3`. */
function readWeekday(item: string, refuse: Refuse): string | null {
  const [, day = '', which = ''] = /^(\d|[a-z]{3})(L|#[1-5])$/i.exec(item) ?? []
  if (which === '') return null
  return `${String(readValue(WEEKDAY, day, item, refuse) % 7)}${which.toUpperCase()}`
}

/** `*`, `5`, `1-5`, each with a step if wanted; `5/15` goes from 5 to the end. */
function readItem(of: Field, item: string, values: Set<number>, refuse: Refuse): string {
  const [whole, range = '', step] = /^(\*|\?|\w+(?:-\w+)?)(?:\/(\d{1,4}))?$/.exec(item) ?? []
  if (whole === undefined) return refuse(of, item, expectedIn(of))
  if (range === '?' && of !== DAY && of !== WEEKDAY) return refuse(of, item, expectedIn(of))
  const isWild = range === '*' || range === '?'
  const [low = '', high] = isWild ? [String(of.min)] : range.split('-')
  const from = readValue(of, low, item, refuse)
  const last = of === WEEKDAY ? 6 : of.max
  let to = isWild || (high === undefined && step !== undefined) ? last : readValue(of, high ?? low, item, refuse)
  // Saturday to Sunday, but Sunday to Sunday is one day.
  if (of === WEEKDAY && high !== undefined && to === 0 && from > 0) to = 7
  if (from > to) return refuse(of, item, 'goes backwards; write two ranges instead')
  const by = step === undefined ? 1 : Number(step)
  if (by < 1 || by > last - of.min + 1)
    return refuse(of, item, `must have a step between 1 and ${String(last - of.min + 1)}`)
  for (let value = from; value <= to; value += by) values.add(of === WEEKDAY ? value % 7 : value)
  if (isWild) return by === 1 ? '*' : `*/${String(by)}`
  if (from === to) return String(from)
  return by === 1 ? `${String(from)}-${String(to)}` : `${String(from)}-${String(to)}/${String(by)}`
}

function readValue(of: Field, text: string, item: string, refuse: Refuse): number {
  const named = of.names?.indexOf(text.toLowerCase()) ?? -1
  if (named >= 0) return of.min + named
  if (!/^\d{1,2}$/.test(text)) return refuse(of, item, expectedIn(of))
  const value = Number(text)
  return value < of.min || value > of.max ? refuse(of, item, expectedIn(of)) : value
}

function expectedIn(of: Field): string {
  const names = of.names === undefined ? '' : ` or ${of.names[0] ?? ''} to ${of.names.at(-1) ?? ''}`
  const special = of === DAY ? ', or L, LW or 15W' : of === WEEKDAY ? ', or 5L or 5#3' : ''
  return `must be ${String(of.min)} to ${String(of.max)}${names}, with * , - and /${special}`
}

const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

// ---- When ----

/** The first occurrence after an instant; null when none comes within forty years. */
export function nextOccurrence(
  schedule: Schedule,
  calendar: Calendar,
  anchorAt: Instant,
  afterAt: Instant,
): Occurrence | null {
  if (schedule.kind === 'calendar') return nextOfTheCalendar(schedule, calendar(schedule.fields), afterAt)
  const rounds = Math.floor(elapsed(anchorAt, afterAt) / schedule.everyMs) + 1
  return { at: after(anchorAt, millis(rounds * schedule.everyMs)), gap: null }
}

/**
 * Within one offset, walls and instants run side by side: the wall that fits next is the next occurrence, unless the
 * clocks are changed before it. Each round but the last comes to a change of the clocks, or close to it, so their number
 * within the horizon bounds the search.
 */
function nextOfTheCalendar(
  { zone, everyHour }: OfTheCalendar,
  fitsNext: (wall: number) => number | null,
  afterAt: Instant,
): Occurrence | null {
  const horizon = afterAt + HORIZON_MS
  let gap: Occurrence['gap'] = null
  let offset = zone.offsetAt(afterAt)
  let cursor = everyHour ? afterAt : afterRepeated(zone, afterAt)
  for (;;) {
    const wall = fitsNext(cursor + offset)
    if (wall === null || wall - offset > horizon) return null
    const at = wall - offset
    // A change within a day may show again what the wall has passed. One further off shows only what does not fit.
    const soon = Math.min(at, cursor + DAY_MS)
    const isStill = zone.offsetAt(soon) === offset
    if (isStill && zone.offsetAt(at) === offset) return { at: instant(at), gap }
    if (isStill && at - cursor > 3 * DAY_MS) {
      cursor = at - 2 * DAY_MS
      offset = zone.offsetAt(cursor)
      continue
    }
    const shift = shiftBetween(zone, offset, cursor, isStill ? at : soon)
    const then = zone.offsetAt(shift)
    if (then > offset && !everyHour) {
      const skipped = fitsNext(shift + offset - 1)
      if (skipped !== null && skipped < shift + then)
        gap ??= { at: instant(shift), local: new Date(skipped).toISOString().slice(0, 19) }
    }
    // What the clocks show a second time was had the first time.
    cursor = shift + (everyHour ? 0 : Math.max(0, offset - then)) - 1
    offset = then
  }
}

/** Where the clocks show for the second time what they showed before: the last millisecond of that. */
function afterRepeated(zone: Zone, at: number): number {
  const offset = zone.offsetAt(at)
  const before = zone.offsetAt(at - DAY_MS)
  if (before <= offset) return at
  const end = shiftBetween(zone, before, at - DAY_MS, at) + (before - offset)
  return at < end ? end - 1 : at
}
