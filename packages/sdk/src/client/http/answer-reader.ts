/**
 * Reads one answer of HTTP/1.1 from bytes that arrive in pieces of any size (RFC 9112).
 *
 * Strict on purpose: an answer that could be understood in two ways is refused, because the next answer on the same
 * connection would then begin at the wrong byte. Refused are two lengths, a length beside chunks, another transfer coding
 * than `chunked`, folded lines, lines that do not end in CRLF, names that are not tokens, and heads above a bound.
 *
 * It holds bytes and decides nothing else: connections, time and the caller's patience are for `http-connection.ts`.
 */

export interface AnswerHead {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/** The bytes are not an answer of HTTP/1.1, or one beyond the bounds. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError'
}

/** Of a head, and of all trailers together. */
export const MAX_HEAD_BYTES = 16 * 1024
/** Of the line with the size of a chunk, its extensions included. */
const MAX_CHUNK_LINE_BYTES = 1024
/** Interim answers before the one that counts. */
const MAX_INTERIM = 16

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: .*)?$/
const NAME = /^[\w!#$%&'*+.^`|~-]+$/
/** Control characters, and line ends that are not CRLF. */
// eslint-disable-next-line no-control-regex
const BAD_BYTES = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/
const BLANKS_AROUND = /^[\t ]+|[\t ]+$/g
const LENGTH = /^\d{1,15}$/
const CHUNK_LINE = /^([\da-fA-F]{1,12})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/
const KEEP_ALIVE = /(?:^|[\s,;])timeout\s*=\s*"?(\d{1,9})/i

const BEGINNING = Buffer.from('HTTP/1.')
const LINE_END = Buffer.from('\r\n')
const HEAD_END = Buffer.from('\r\n\r\n')
const NOTHING = Buffer.alloc(0)

type Part = 'head' | 'length' | 'until-close' | 'chunk-line' | 'chunk' | 'chunk-end' | 'trailers' | 'complete'

export class AnswerReader {
  readonly #isHead: boolean
  readonly #maxBodyBytes: number
  #part: Part = 'head'
  #head: AnswerHead | null = null
  /** The beginning of something that is not complete: a head, a line, trailers. */
  #begun: Buffer = NOTHING
  /** Bytes that the body, or the chunk, still lacks. */
  #missing = 0
  #bodyBytes = 0
  #pieces: Buffer[] = []
  #interim = 0
  #keepsAlive = false
  #keepAliveMs: number | null = null

  /** `isHead`: it answers a HEAD request, and has no body whatever its headers say. */
  constructor(isHead: boolean, maxBodyBytes: number) {
    this.#isHead = isHead
    this.#maxBodyBytes = maxBodyBytes
  }

  /** Null until it is complete. */
  get head(): AnswerHead | null {
    return this.#head
  }

  get isComplete(): boolean {
    return this.#part === 'complete'
  }

  /** The same connection may carry another request: nothing came after this answer. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  /** How long the server keeps an idle connection, if it says so. */
  get keepAliveMs(): number | null {
    return this.#keepAliveMs
  }

  /** The bytes of the body that came since the last call. */
  take(): Buffer {
    const [first] = this.#pieces
    const taken = first === undefined ? NOTHING : this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces)
    this.#pieces = []
    return taken
  }

  /** A stream has no bound: what was taken no longer counts. */
  forgetSize(): void {
    this.#bodyBytes = 0
  }

  /** Throws a BadAnswerError; nothing may be read after that. */
  read(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#part === 'complete') {
        this.#keepsAlive = false
        return
      }
      at = this.#step(bytes, at)
    }
  }

  /** The server has closed its side. */
  end(): void {
    if (this.#part === 'until-close') this.#part = 'complete'
    if (this.#part === 'complete') return
    throw new BadAnswerError(
      this.#head === null && this.#begun.length === 0 && this.#interim === 0
        ? 'the connection was closed before an answer'
        : 'the connection was closed in the middle of the answer',
    )
  }

  /** Reads on from `at`; gives where the next part begins. */
  #step(bytes: Buffer, at: number): number {
    switch (this.#part) {
      case 'head':
        return this.#readHead(bytes, at)
      case 'length':
      case 'chunk': {
        const end = Math.min(bytes.length, at + this.#missing)
        this.#keep(bytes, at, end)
        this.#missing -= end - at
        if (this.#missing === 0) this.#part = this.#part === 'chunk' ? 'chunk-end' : 'complete'
        return end
      }
      case 'until-close':
        this.#keep(bytes, at, bytes.length)
        return bytes.length
      case 'chunk-line':
        return this.#readChunkLine(bytes, at)
      case 'chunk-end': {
        // Byte by byte: it is two bytes, and they may come apart.
        const isSecond = this.#begun.length === 1
        if (bytes[at] !== LINE_END[isSecond ? 1 : 0]) throw new BadAnswerError('a chunk is longer than its size')
        this.#begun = isSecond ? NOTHING : bytes.subarray(at, at + 1)
        if (isSecond) this.#part = 'chunk-line'
        return at + 1
      }
      case 'trailers':
        return this.#readTrailers(bytes, at)
      default:
        return bytes.length
    }
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    this.#bodyBytes += to - from
    if (this.#bodyBytes > this.#maxBodyBytes) throw this.#tooLarge()
    this.#pieces.push(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to))
  }

  #tooLarge(): BadAnswerError {
    return new BadAnswerError(`the answer is larger than ${String(this.#maxBodyBytes)} bytes`)
  }

  #readHead(bytes: Buffer, at: number): number {
    const before = this.#begun.length
    const held = before === 0 ? bytes.subarray(at) : Buffer.concat([this.#begun, bytes.subarray(at)])
    const beginning = Math.min(held.length, BEGINNING.length)
    if (held.compare(BEGINNING, 0, beginning, 0, beginning) !== 0)
      throw new BadAnswerError('the answer is not HTTP/1.1')
    const end = held.indexOf(HEAD_END)
    if ((end < 0 ? held.length : end) > MAX_HEAD_BYTES) throw new BadAnswerError('the head of the answer is too large')
    if (end < 0) {
      this.#begun = held
      return bytes.length
    }
    this.#begun = NOTHING
    this.#understand(held.toString('latin1', 0, end))
    return at + end + HEAD_END.length - before
  }

  #understand(text: string): void {
    if (BAD_BYTES.test(text)) throw new BadAnswerError('the head of the answer is malformed')
    const [first = '', ...lines] = text.split('\r\n')
    const status = STATUS_LINE.exec(first)
    if (status === null) throw new BadAnswerError('the status line of the answer is malformed')
    const headers = headersOf(lines)
    const code = Number(status[2])
    if (code === 101) throw new BadAnswerError('the server switches to a protocol that was not asked for')
    if (code < 200) {
      this.#interim += 1
      if (this.#interim > MAX_INTERIM) throw new BadAnswerError('too many interim answers')
      return
    }
    const isOldest = status[1] === '0'
    this.#head = { status: code, headers }
    this.#frame(code, headers, isOldest)
    this.#keepsAlive =
      !isOldest && this.#part !== 'until-close' && !/(?:^|,)\s*close\s*(?:,|$)/i.test(headers['connection'] ?? '')
    const timeout = KEEP_ALIVE.exec(headers['keep-alive'] ?? '')
    this.#keepAliveMs = timeout === null ? null : Number(timeout[1]) * 1000
  }

  /** How the end of the body is found (RFC 9112 §6.3). */
  #frame(status: number, headers: AnswerHead['headers'], isOldest: boolean): void {
    const coding = headers['transfer-encoding']
    const length = headers['content-length']
    if (coding !== undefined && (length !== undefined || isOldest || coding.toLowerCase() !== 'chunked'))
      throw new BadAnswerError('the length of the answer is ambiguous')
    if (length !== undefined && !LENGTH.test(length)) throw new BadAnswerError('the length of the answer is ambiguous')
    if (this.#isHead || status === 204 || status === 304) this.#part = 'complete'
    else if (coding !== undefined) this.#part = 'chunk-line'
    else if (length === undefined) this.#part = 'until-close'
    else {
      this.#missing = Number(length)
      if (this.#missing > this.#maxBodyBytes) throw this.#tooLarge()
      this.#part = this.#missing === 0 ? 'complete' : 'length'
    }
  }

  #readChunkLine(bytes: Buffer, at: number): number {
    const before = this.#begun.length
    const held = before === 0 ? bytes.subarray(at) : Buffer.concat([this.#begun, bytes.subarray(at)])
    const end = held.indexOf(LINE_END)
    if ((end < 0 ? held.length : end) > MAX_CHUNK_LINE_BYTES)
      throw new BadAnswerError('the size of a chunk is too long')
    if (end < 0) {
      this.#begun = held
      return bytes.length
    }
    const size = CHUNK_LINE.exec(held.toString('latin1', 0, end))
    if (size === null) throw new BadAnswerError('the size of a chunk is malformed')
    this.#missing = Number.parseInt(size[1] ?? '', 16)
    if (this.#bodyBytes + this.#missing > this.#maxBodyBytes) throw this.#tooLarge()
    this.#begun = NOTHING
    this.#part = this.#missing === 0 ? 'trailers' : 'chunk'
    return at + end + LINE_END.length - before
  }

  /** Trailers say nothing that is needed here: they are passed over, up to the empty line. */
  #readTrailers(bytes: Buffer, at: number): number {
    const before = this.#begun.length
    const held = before === 0 ? bytes.subarray(at) : Buffer.concat([this.#begun, bytes.subarray(at)])
    const isEmpty = held.length >= LINE_END.length && held.compare(LINE_END, 0, 2, 0, 2) === 0
    const end = isEmpty ? 0 : held.indexOf(HEAD_END)
    if ((end < 0 ? held.length : end) > MAX_HEAD_BYTES) throw new BadAnswerError('the trailers are too large')
    if (end < 0) {
      this.#begun = held
      return bytes.length
    }
    if (BAD_BYTES.test(held.toString('latin1', 0, end))) throw new BadAnswerError('the trailers are malformed')
    this.#begun = NOTHING
    this.#part = 'complete'
    return at + end + (isEmpty ? LINE_END : HEAD_END).length - before
  }
}

function headersOf(lines: readonly string[]): Record<string, string> {
  // Without a prototype: a header may be called `constructor`.
  const headers = Object.create(null) as Record<string, string>
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon)).toLowerCase()
    if (!NAME.test(name)) throw new BadAnswerError('a header of the answer is malformed')
    const value = line.slice(colon + 1).replace(BLANKS_AROUND, '')
    const earlier = headers[name]
    if (earlier !== undefined && name === 'content-length') throw new BadAnswerError('the answer has two lengths')
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`
  }
  return headers
}
