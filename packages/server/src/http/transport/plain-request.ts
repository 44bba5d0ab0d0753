/**
 * The plain requests: those that can be read in one way only. A request line with a method we serve, a path and
 * `HTTP/1.1`; headers of one line each, none of them twice, a `Host` among them; a length or no body; and nothing that
 * would change how the message or the connection is to be understood. Almost every request is plain.
 *
 * Nothing is judged here and nothing refused: what is not plain to the last byte is `other`, and `node:http` reads it
 * from its first byte on. So this may be as narrow as it likes, but never wider than `node:http`, and where it reads a
 * request, it must read what `node:http` would.
 */
import { isUtf8 } from 'node:buffer'
import { isTimed } from '../api/message.ts'

export interface PlainRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Where the next message begins. */
  readonly end: number
}

/** Larger messages are for `node:http`, which has limits and timeouts for all sizes. */
export const MAX_PLAIN_HEAD = 8 * 1024
export const MAX_PLAIN_BODY = 64 * 1024
const MAX_HEADERS = 64

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE']
const VERSION = ' HTTP/1.1\r\n'
const LENGTH = /^(?:0|[1-9]\d{0,7})$/
/** They frame the message otherwise, or turn the connection into something else. */
const NOT_PLAIN = new Set(['transfer-encoding', 'expect', 'upgrade', 'trailer', 'proxy-connection', 'http2-settings'])

const [TAB, CR, SPACE] = [9, 13, 32]
/** What a byte may be part of. */
const [NAME, TARGET, VALUE] = [1, 2, 4]
const PARTS = new Uint8Array(256)
for (let byte = 0x21; byte <= 0x7e; byte += 1) {
  const sign = String.fromCharCode(byte)
  PARTS[byte] = VALUE | (/[\w!#$%&'*+.^`|~-]/.test(sign) ? NAME : 0) | (sign === '#' ? 0 : TARGET)
}
PARTS[SPACE] = PARTS[TAB] = VALUE

/** Where names and values begin and end, four numbers a header. One request is read at a time. */
const places = new Int32Array(4 * MAX_HEADERS)

/** The request that begins at `from`; `partial` while what has come may become one. */
export function readPlainRequest(bytes: Buffer, from: number): PlainRequest | 'partial' | 'other' {
  const most = Math.min(bytes.length, from + MAX_PLAIN_HEAD)
  const method = METHODS.find((name) => agrees(bytes, from, most, name))
  if (method === undefined) return 'other'
  const target = from + method.length + 1
  if (!agrees(bytes, target - 1, most, ' /')) return 'other'
  const targetEnd = pastAll(TARGET, bytes, target, most)
  if (!agrees(bytes, targetEnd, most, VERSION)) return 'other'
  let at = targetEnd + VERSION.length
  let count = 0
  for (; at < most && bytes[at] !== CR; count += 1) {
    const nameEnd = pastAll(NAME, bytes, at, most)
    if (nameEnd === at || count === MAX_HEADERS || !agrees(bytes, nameEnd, most, ':')) return 'other'
    const value = pastBlanks(bytes, nameEnd + 1, most)
    const valueEnd = pastAll(VALUE, bytes, value, most)
    if (!agrees(bytes, valueEnd, most, '\r\n')) return 'other'
    places[4 * count] = at
    places[4 * count + 1] = nameEnd
    places[4 * count + 2] = value
    places[4 * count + 3] = valueEnd
    at = valueEnd + 2
  }
  if (!agrees(bytes, at, most, '\r\n')) return 'other'
  if (at + 2 > most) return most === bytes.length ? 'partial' : 'other'
  const head = bytes.toString('latin1', from, at)
  const headers = headersOf(head, from, count)
  if (headers === null) return 'other'
  const length = Number(headers['content-length'] ?? 0)
  if (length > MAX_PLAIN_BODY) return 'other'
  const end = at + 2 + length
  const url = head.slice(target - from, targetEnd - from)
  // Whose time runs already is not kept waiting for its body.
  if (end > bytes.length) return isTimed(url) ? 'other' : 'partial'
  const body = length === 0 ? '' : bytes.toString('utf8', at + 2, end)
  if (body.includes('\uFFFD') && !isUtf8(bytes.subarray(at + 2, end))) return 'other'
  return { method, url, headers, body, end }
}

/** Null when one of them, or one that is missing, makes the request other than plain. */
function headersOf(head: string, from: number, count: number): Record<string, string> | null {
  const headers: Record<string, string> = {}
  for (let place = 0; place < 4 * count; place += 4) {
    const name = lowerCase(head.slice(places[place]! - from, places[place + 1]! - from))
    const value = head.slice(places[place + 2]! - from, places[place + 3]! - from)
    if (headers[name] !== undefined || NOT_PLAIN.has(name)) return null
    if (name === 'connection' && value.toLowerCase() !== 'keep-alive') return null
    if (name === 'content-length' && !LENGTH.test(value)) return null
    headers[name] = value.trimEnd()
  }
  return headers['host'] === undefined ? null : headers
}

/** Callers use the same few names in every request. */
const knownNames = new Map<string, string>()
const MAX_KNOWN = 200

function lowerCase(name: string): string {
  const known = knownNames.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  if (knownNames.size < MAX_KNOWN) knownNames.set(name, lower)
  return lower
}

/** Whether the bytes at this place are that text, as far as they go. */
function agrees(bytes: Buffer, at: number, most: number, text: string): boolean {
  const end = Math.min(most, at + text.length)
  for (let place = at; place < end; place += 1) if (bytes[place] !== text.charCodeAt(place - at)) return false
  return true
}

function pastAll(part: number, bytes: Buffer, at: number, most: number): number {
  let end = at
  while (end < most && (PARTS[bytes[end]!]! & part) !== 0) end += 1
  return end
}

function pastBlanks(bytes: Buffer, at: number, most: number): number {
  let end = at
  while (end < most && (bytes[end] === SPACE || bytes[end] === TAB)) end += 1
  return end
}
