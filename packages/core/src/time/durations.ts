/** ISO 8601 durations and RFC 3339 timestamps: text in, lengths and instants out. */
import { instant, iso, millis, type Instant, type Millis } from './clock.ts'
import { after } from './sums.ts'

export const DURATION =
  /^P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/
// A year is 365 days and a month 30 (OJS retry §4.2).
const UNIT_MS = [31_536_000_000, 2_592_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000]
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)'
/** A day of the calendar, so that a schema refuses the 31st of April as well. */
export const DAY =
  '(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))' +
  `|${LEAP_YEAR}-02-29)`
export const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?'
export const ZONE = '(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)'
export const TIMESTAMP = new RegExp(`^${DAY}[Tt ]${TIME}${ZONE}$`)
/** Nothing we keep time for lies beyond this; larger values are mistakes. */
export const MAX_DURATION_MS = millis(315_360_000_000)

/** `PT1H30M` → milliseconds, or null when the text is not an ISO duration. */
export function parseIsoDuration(text: string): Millis | null {
  const match = DURATION.exec(text)
  if (match === null) return null
  let total = 0
  for (const [index, unit] of UNIT_MS.entries()) total += Number(match[index + 1] ?? 0) * unit
  return millis(Math.round(total))
}

const HUMAN = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/gy
const HUMAN_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `30s`, `1h30m`, `250ms`, or an ISO duration → whole milliseconds, or null when the text is neither. */
export function parseDuration(text: string): Millis | null {
  if (text.startsWith('P')) return parseIsoDuration(text)
  let [total, read] = [0, 0]
  for (const [part, amount, unit] of text.matchAll(HUMAN)) {
    total += Number(amount) * (HUMAN_MS[unit ?? ''] ?? 0)
    read += part.length
  }
  return read === 0 || read !== text.length || !Number.isInteger(total) ? null : millis(total)
}

/** The shortest way to write it with one unit: `90s`, `2h`, `1500ms`. */
export function formatDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's']) {
    const size = HUMAN_MS[unit] ?? 1
    if (ms >= size && ms % size === 0) return `${String(ms / size)}${unit}`
  }
  return `${String(ms)}ms`
}

const LARGE_UNITS = [
  ['d', 86_400_000, 'h', 3_600_000],
  ['h', 3_600_000, 'min', 60_000],
  ['min', 60_000, 's', 1_000],
] as const

/** As one tells a person, to what matters at its size: `840 ms`, `20.8 s`, `2 min 5 s`, `1 d 4 h`. */
export function readableDuration(ms: number): string {
  for (const [large, largeMs, small, smallMs] of LARGE_UNITS) {
    if (ms < largeMs) continue
    const rest = Math.floor((ms % largeMs) / smallMs)
    return `${String(Math.floor(ms / largeMs))} ${large}${rest === 0 ? '' : ` ${String(rest)} ${small}`}`
  }
  return ms < 1_000 ? `${String(Math.round(ms))} ms` : `${String(Math.floor(ms / 10) / 100)} s`
}

export function formatIsoDuration(ms: Millis): string {
  return `PT${String(ms / 1000)}S`
}

/** A moment a client named: the instant it means, and the text to give back (their own, byte for byte, if absolute). */
export interface NamedMoment {
  readonly at: Instant
  readonly text: string
}

/**
 * Reads `2099-12-31T23:59:59Z` (zone required) or, relative to receipt, `+PT2S`; a bare `PT2S` too where the caller
 * allows it. Null when it is none of these.
 */
export function parseMoment(text: string, now: Instant, allowBareDuration: boolean): NamedMoment | null {
  if (text.startsWith('+') || (allowBareDuration && text.startsWith('P'))) {
    const length = parseIsoDuration(text.startsWith('+') ? text.slice(1) : text)
    if (length === null || length > MAX_DURATION_MS) return null
    const at = after(now, length)
    return { at, text: iso(at) }
  }
  if (!TIMESTAMP.test(text)) return null
  const ms = Date.parse(text.toUpperCase().replace(' ', 'T'))
  return Number.isNaN(ms) ? null : { at: instant(ms), text }
}
