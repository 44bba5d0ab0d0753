/**
 * JSON as text. What a client sent is stored and given back as it was written, never parsed and written again: large
 * integers, `1.0`, lone surrogates and keys such as `__proto__` stay what they were. This file finds the pieces.
 *
 * `depthExceeds` works on any text; the others expect text that `JSON.parse` has accepted.
 */

/** Bodies nested deeper than this are refused. */
export const MAX_JSON_DEPTH = 64
/** Bodies of more bytes are refused. */
export const MAX_BODY_BYTES = 10 * 1024 * 1024

const QUOTE = 34
const BACKSLASH = 92
const OPEN_BRACE = 123
const CLOSE_BRACE = 125
const OPEN_BRACKET = 91
const CLOSE_BRACKET = 93
const COMMA = 44
const COLON = 58
const SPACE = 32

export function depthExceeds(text: string, deepest: number): boolean {
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at) - 1
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      depth += 1
      if (depth > deepest) return true
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth -= 1
  }
  return false
}

export interface Member {
  /** The key as written, with its quotes. */
  readonly rawKey: string
  readonly key: string
  /** The value as written. */
  readonly value: string
  /** Where the value begins in the text. */
  readonly from: number
}

/** The members of an object; of a repeated key the last counts, as in JSON.parse. Null: more than `max` are written. */
export function membersOf(text: string): Map<string, Member>
export function membersOf(text: string, max: number): Map<string, Member> | null
export function membersOf(text: string, max = Infinity): Map<string, Member> | null {
  const members = new Map<string, Member>()
  let written = 0
  let cursor = skipSpace(text, 0) + 1
  for (;;) {
    cursor = skipSpace(text, cursor)
    const unit = text.charCodeAt(cursor)
    if (unit === COMMA) {
      cursor += 1
      continue
    }
    if (unit !== QUOTE) return members
    written += 1
    if (written > max) return null
    const keyEnd = endOfString(text, cursor)
    const rawKey = text.slice(cursor, keyEnd)
    const key = rawKey.includes('\\') ? (JSON.parse(rawKey) as string) : rawKey.slice(1, -1)
    cursor = skipSpace(text, keyEnd)
    if (text.charCodeAt(cursor) === COLON) cursor = skipSpace(text, cursor + 1)
    const end = endOfValue(text, cursor)
    members.delete(key)
    members.set(key, { rawKey, key, value: text.slice(cursor, end), from: cursor })
    cursor = end
  }
}

/** The value of the member of this name, as written; the last of them, as in JSON.parse. Keeps nothing of the others. */
export function textOfMember(text: string, name: string): string | undefined {
  const written = JSON.stringify(name)
  let found: string | undefined
  let cursor = skipSpace(text, 0) + 1
  for (;;) {
    cursor = skipSpace(text, cursor)
    const unit = text.charCodeAt(cursor)
    if (unit === COMMA) {
      cursor += 1
      continue
    }
    if (unit !== QUOTE) return found
    const from = cursor
    const keyEnd = endOfString(text, from)
    cursor = skipSpace(text, keyEnd)
    if (text.charCodeAt(cursor) === COLON) cursor = skipSpace(text, cursor + 1)
    const end = endOfValue(text, cursor)
    if (isName(text, from, keyEnd, name, written)) found = text.slice(cursor, end)
    cursor = end
  }
}

function isName(text: string, from: number, to: number, name: string, written: string): boolean {
  if (to - from === written.length && text.startsWith(written, from)) return true
  // Any letter may be written as an escape of up to six signs.
  if (to - from > 6 * name.length + 2 || to - from <= name.length + 2) return false
  const raw = text.slice(from, to)
  return raw.includes('\\') && JSON.parse(raw) === name
}

/** The entries of the array that begins at or after `at`, as written. */
export function elementsOf(text: string, at = 0): string[] {
  const elements: string[] = []
  let cursor = skipSpace(text, at) + 1
  for (;;) {
    cursor = skipSpace(text, cursor)
    const unit = text.charCodeAt(cursor)
    if (unit === COMMA) {
      cursor += 1
      continue
    }
    if (unit === CLOSE_BRACKET || Number.isNaN(unit)) return elements
    const end = endOfValue(text, cursor)
    elements.push(text.slice(cursor, end))
    cursor = end
  }
}

export function endOfValue(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return endOfString(text, at)
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return endOfScalar(text, at)
  let depth = 0
  for (let cursor = at; cursor < text.length; cursor += 1) {
    const unit = text.charCodeAt(cursor)
    if (unit === QUOTE) cursor = endOfString(text, cursor) - 1
    else if (unit <= SPACE) cursor = skipSpace(text, cursor) - 1
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) depth += 1
    else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      depth -= 1
      if (depth === 0) return cursor + 1
    }
  }
  return text.length
}

function endOfScalar(text: string, at: number): number {
  let cursor = at
  for (; cursor < text.length; cursor += 1) {
    const unit = text.charCodeAt(cursor)
    if (unit === COMMA || unit === CLOSE_BRACE || unit === CLOSE_BRACKET || unit <= 32) break
  }
  return cursor
}

/** One past the closing quote of the string that opens at `at`. */
export function endOfString(text: string, at: number): number {
  const quote = text.indexOf('"', at + 1)
  if (quote < 0) return text.length
  if (quote === at + 1 || text.charCodeAt(quote - 1) !== BACKSLASH) return quote + 1
  let cursor = at + 1
  for (; cursor < text.length; cursor += 1) {
    const unit = text.charCodeAt(cursor)
    if (unit === BACKSLASH) cursor += 1
    else if (unit === QUOTE) return cursor + 1
  }
  return text.length
}

function skipSpace(text: string, at: number): number {
  const stop = Math.min(text.length, at + SHORT_SPACE)
  let cursor = at
  while (cursor < stop && text.charCodeAt(cursor) <= SPACE) cursor += 1
  return cursor < stop || cursor === text.length ? cursor : skipLongSpace(text, cursor)
}

const SHORT_SPACE = 64
// eslint-disable-next-line no-control-regex -- as above, all that is not more than a space
const NO_SPACE = /[^\u0000- ]/g

/** A search of the engine is several times as fast as a loop, which counts for megabytes. */
function skipLongSpace(text: string, at: number): number {
  NO_SPACE.lastIndex = at
  return NO_SPACE.exec(text)?.index ?? text.length
}
