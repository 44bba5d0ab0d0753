/**
 * JSON read in pieces. `JSON.parse` cannot be interrupted: ten megabytes of small values keep it busy for seconds, and a
 * server with one thread serves nothing meanwhile. The generator here gives the same value as `JSON.parse` and yields
 * after each piece of work, so that its caller can let others go first. Each piece of work is bounded, whatever the text.
 *
 * Two passes. The first counts values, refuses what is nested too deeply, and notes which containers are larger than a
 * piece and where long white space ends. The second takes only those containers apart and passes long white space with
 * one step; everything smaller goes to `JSON.parse`, in groups.
 */
import { OjsError } from '../../errors.ts'
import { MAX_JSON_DEPTH, endOfString, endOfValue } from './json-text.ts'

/** Text up to this length is parsed at once: a few milliseconds, whatever it holds. */
export const MAX_PIECE = 64 * 1024
/** White space that is longer is passed with one step, and never given to `JSON.parse`. */
const MAX_GAP = 1024
/** How far the first pass goes in one piece of work. */
const SURVEY_STEP = 4 * MAX_PIECE
/** Bodies that describe one thing are refused with more values. Names of members do not count, containers do. */
export const MAX_VALUES = 100_000
/** The same for bodies that are a list of jobs. */
export const MAX_VALUES_OF_MANY = 500_000

const QUOTE = 34
const BACKSLASH = 92
const OPEN_BRACE = 123
const CLOSE_BRACE = 125
const OPEN_BRACKET = 91
const CLOSE_BRACKET = 93
const COMMA = 44
const COLON = 58
const MINUS = 45
const ZERO = 48
const NINE = 57

const notJson = (): OjsError => new OjsError('invalid_payload', 'The body is not valid JSON.')

interface Survey {
  /** Where the containers begin that are larger than a piece. */
  readonly large: ReadonlySet<number>
  /** White space longer than `maxGap`: where it begins, and one past its end. */
  readonly gaps: ReadonlyMap<number, number>
  readonly maxGap: number
}

interface Source extends Survey {
  readonly text: string
  readonly maxPiece: number
}

/** The value of the text, as `JSON.parse` gives it. Yields between pieces of work. */
export function* parseInPieces(text: string, maxValues = MAX_VALUES, maxPiece = MAX_PIECE): Generator<void, unknown> {
  const source: Source = { text, maxPiece, ...(yield* survey(text, maxValues, maxPiece)) }
  const from = pastSpace(source, 0)
  const { value, end } = source.large.has(from) ? yield* container(source, from) : small(text, from)
  if (pastSpace(source, end) !== text.length) throw notJson()
  return value
}

/**
 * The value of a text that we wrote ourselves, however much it holds. What is nested deeper than any body may be is parsed at
 * once: it is rare, and taking it apart would be as deep.
 */
export function* parseStored(text: string): Generator<void, unknown> {
  if (text.length <= MAX_PIECE) return JSON.parse(text) as unknown
  try {
    return yield* parseInPieces(text, Infinity)
  } catch (error) {
    if (!(error instanceof OjsError)) throw error
    return JSON.parse(text) as unknown
  }
}

function small(text: string, at: number): Built {
  const end = someEnd(text, at)
  return { value: parsed(text.slice(at, end)), end }
}

function* survey(text: string, maxValues: number, maxPiece: number): Generator<void, Survey> {
  const large = new Set<number>()
  const gaps = new Map<number, number>()
  const maxGap = Math.min(MAX_GAP, maxPiece)
  /** Where the white space before this place begins; -1 where there is none. */
  let gap = -1
  const open: number[] = []
  let values = 1
  let isInString = false
  let pause = SURVEY_STEP
  for (let at = 0; at < text.length; at += 1) {
    if (at >= pause) {
      pause = at + SURVEY_STEP
      yield
    }
    const unit = text.charCodeAt(at)
    if (isInString) {
      if (unit === BACKSLASH) at += 1
      else if (unit === QUOTE) isInString = false
      continue
    }
    if (isSpace(unit)) {
      if (gap < 0) gap = at
      continue
    }
    if (gap >= 0) {
      if (at - gap >= maxGap) gaps.set(gap, at)
      gap = -1
    }
    if (unit === QUOTE) {
      // A string without escapes is passed at once.
      const end = text.indexOf('"', at + 1)
      if (end > at + 1 && text.charCodeAt(end - 1) === BACKSLASH) isInString = true
      else at = end < 0 ? text.length : end
    } else if (unit === COMMA) values += 1
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      open.push(at)
      if (isFilled(text, at)) values += 1
      if (open.length > MAX_JSON_DEPTH)
        throw new OjsError('invalid_payload', `The body is nested deeper than ${String(MAX_JSON_DEPTH)} levels.`)
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      const from = open.pop()
      if (from !== undefined && at - from >= maxPiece) large.add(from)
    }
  }
  if (gap >= 0) gaps.set(gap, text.length)
  // What is not closed must not reach JSON.parse, which would read all of it before it refuses.
  if (open.length > 0 || isInString) throw notJson()
  if (values > maxValues) throw tooMany(values, maxValues)
  return { large, gaps, maxGap }
}

/** Space before a closing bracket makes an empty container look filled: it counts as one value more. */
function isFilled(text: string, at: number): boolean {
  const next = text.charCodeAt(at + 1)
  return next !== CLOSE_BRACE && next !== CLOSE_BRACKET
}

function tooMany(values: number, maxValues: number): OjsError {
  return new OjsError(
    'payload_too_large',
    `The body has ${String(values)} values; at most ${String(maxValues)} are allowed here.`,
    {
      details: { values, max_values: maxValues },
      hint: 'Send fewer values per call, or send long data as one text or as the address of where it is stored.',
    },
  )
}

interface Built {
  readonly value: unknown
  /** One past its last sign. */
  readonly end: number
}

function container(source: Source, at: number): Generator<void, Built> {
  return source.text.charCodeAt(at) === OPEN_BRACE ? objectAt(source, at) : arrayAt(source, at)
}

function* arrayAt(source: Source, at: number): Generator<void, Built> {
  const { text, large, maxPiece } = source
  const value: unknown[] = []
  const add = (from: number, to: number): void => {
    for (const one of parsed(`[${text.slice(from, to)}]`) as unknown[]) value.push(one)
  }
  let cursor = pastSpace(source, at + 1)
  if (text.charCodeAt(cursor) === CLOSE_BRACKET) return { value, end: cursor + 1 }
  /** What was passed and is not parsed yet begins here. */
  let from = cursor
  for (;;) {
    if (large.has(cursor)) {
      const built = yield* container(source, cursor)
      value.push(built.value)
      cursor = built.end
      from = -1
    } else cursor = someEnd(text, cursor)
    const end = cursor
    const next = separator(source, cursor, CLOSE_BRACKET)
    // What is parsed together may be followed by long white space, and must not hold it.
    const isFull = next === null || large.has(next) || next - from >= maxPiece
    if (from >= 0 && isFull) {
      add(from, end)
      from = -1
      yield
    }
    if (next === null) return { value, end: pastSpace(source, end) + 1 }
    if (from < 0) from = next
    cursor = next
  }
}

function* objectAt(source: Source, at: number): Generator<void, Built> {
  const { text, large, maxPiece } = source
  const value: Record<string, unknown> = {}
  const add = (from: number, to: number): void => {
    const part = parsed(`{${text.slice(from, to)}}`) as Record<string, unknown>
    for (const key of Object.keys(part)) put(value, key, part[key])
  }
  let cursor = pastSpace(source, at + 1)
  if (text.charCodeAt(cursor) === CLOSE_BRACE) return { value, end: cursor + 1 }
  let from = cursor
  for (;;) {
    const { keyEnd, valueAt } = memberAt(source, cursor)
    const isLarge = large.has(valueAt)
    const smallEnd = isLarge ? valueAt : someEnd(text, valueAt)
    // Long white space may stand between its name and its value.
    const isAlone = isLarge || smallEnd - cursor >= maxPiece
    if (isAlone) {
      if (from < cursor) add(from, lastBefore(text, cursor))
      const key = parsed(text.slice(cursor, keyEnd)) as string
      const built = isLarge ? yield* container(source, valueAt) : small(text, valueAt)
      put(value, key, built.value)
      cursor = built.end
      yield
    } else cursor = smallEnd
    const end = cursor
    const next = separator(source, cursor, CLOSE_BRACE)
    if (isAlone) from = next ?? end
    else if (next === null || next - from >= maxPiece) {
      add(from, end)
      from = next ?? end
      yield
    }
    if (next === null) return { value, end: pastSpace(source, end) + 1 }
    cursor = next
  }
}

/** The end of what stands before the comma before this member. */
function lastBefore(text: string, at: number): number {
  return text.lastIndexOf(',', at - 1)
}

function memberAt(source: Source, at: number): { readonly keyEnd: number; readonly valueAt: number } {
  const { text } = source
  if (text.charCodeAt(at) !== QUOTE) throw notJson()
  const keyEnd = endOfString(text, at)
  const colon = pastSpace(source, keyEnd)
  if (text.charCodeAt(colon) !== COLON) throw notJson()
  return { keyEnd, valueAt: pastSpace(source, colon + 1) }
}

/** Where the next entry begins; null at the end of the container. */
function separator(source: Source, at: number, close: number): number | null {
  const cursor = pastSpace(source, at)
  const unit = source.text.charCodeAt(cursor)
  if (unit === close) return null
  if (unit !== COMMA) throw notJson()
  return pastSpace(source, cursor + 1)
}

/** One past the value at this place; there must be something. */
function someEnd(text: string, at: number): number {
  const end = endOfValue(text, at)
  if (end <= at) throw notJson()
  if (end - at > MAX_PIECE && isNumber(text.charCodeAt(at)))
    throw new OjsError('invalid_payload', `The body has a number of more than ${String(MAX_PIECE)} characters.`)
  return end
}

/** As it begins. */
const isNumber = (unit: number): boolean => unit === MINUS || (unit >= ZERO && unit <= NINE)

/** An own member, as `JSON.parse` makes it, even of this name. */
function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true })
  else target[key] = value
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw notJson()
  }
}

/** JSON knows four kinds of space. */
function isSpace(unit: number): boolean {
  return unit === 32 || unit === 10 || unit === 13 || unit === 9
}

/** One past the white space at this place, of which it is the beginning. */
function pastSpace({ text, gaps, maxGap }: Source, at: number): number {
  let cursor = at
  while (isSpace(text.charCodeAt(cursor))) {
    cursor += 1
    if (cursor - at === maxGap) cursor = gaps.get(at) ?? cursor
  }
  return cursor
}
