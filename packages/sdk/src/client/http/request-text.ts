/**
 * A request as it goes onto the wire. What could end a line, or say twice where the message ends, is refused before
 * anything is sent: a token with a line end in it must not become a second request.
 */
import { InputError } from '../../errors.ts'

export interface RequestParts {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Text; empty when there is none. */
  readonly body: string
}

export interface RequestText {
  readonly data: string | Buffer
  readonly encoding: 'latin1' | 'utf8'
}

const METHOD = /^[A-Z]{1,16}$/
const NAME = /^[\w!#$%&'*+.^`|~-]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const ASCII = /^[\t\x20-\x7e]*$/
/** They say where the message ends, or what becomes of the connection: the transport writes them itself. */
const OWN = new Set(
  'connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' '),
)
/** Nothing in these has to be encoded, and no part of them is `.` or `..`. */
const PLAIN_TARGET = /^\/(?!\/)[\w\-~!$&()*+,;=:@%/?]*$/
// eslint-disable-next-line no-control-regex
const CONTROL = /[\0-\x1f\x7f]/
/** Even without a body: the server would have to guess (RFC 9110 §8.6). */
const WITH_LENGTH = new Set(['POST', 'PUT', 'PATCH'])

interface Line {
  readonly value: string
  readonly text: string
  readonly isAscii: boolean
}

/** Headers of one server: names are few. */
const MAX_KNOWN = 64

export class RequestWriter {
  readonly #origin: string
  readonly #prefix: string
  readonly #hostLine: string
  /** Most headers are the same in every request: checked once, until their value changes. */
  readonly #lines = new Map<string, Line>()

  /** The address of the server; a path in it goes before every path. */
  constructor(address: URL) {
    this.#origin = address.origin
    this.#prefix = address.pathname.replace(/\/+$/, '')
    this.#hostLine = ` HTTP/1.1\r\nhost: ${address.host}\r\nuser-agent: curfew-sdk\r\n`
  }

  /** Throws an InputError. */
  write({ method, url, headers, body }: RequestParts): RequestText {
    if (!METHOD.test(method)) throw new InputError('The method of a request must be a word.', { field: 'method' })
    let head = `${method} ${this.#target(url)}${this.#hostLine}`
    let isAscii = true
    for (const name in headers) {
      const line = this.#line(name, headers[name] ?? '')
      head += line.text
      isAscii &&= line.isAscii
    }
    const length = body === '' ? 0 : Buffer.byteLength(body)
    if (length > 0 || WITH_LENGTH.has(method)) head += `content-length: ${String(length)}\r\n`
    head += '\r\n'
    // As many bytes as characters: then it is all ASCII.
    if (isAscii) return { data: head + body, encoding: length === body.length ? 'latin1' : 'utf8' }
    return { data: Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]), encoding: 'latin1' }
  }

  #target(url: string): string {
    const target = this.#prefix + url
    if (PLAIN_TARGET.test(target)) return target
    if (!url.startsWith('/') || CONTROL.test(target))
      throw new InputError('The path of a request must begin with / and hold no control characters.', { field: 'path' })
    const { pathname, search } = new URL(this.#origin + target)
    return pathname + search
  }

  #line(name: string, value: string): Line {
    const known = this.#lines.get(name)
    if (known !== undefined && known.value === value) return known
    if (!NAME.test(name)) throw new InputError('The name of a header is malformed.', { field: name })
    if (OWN.has(name.toLowerCase())) throw new InputError(`The header ${name} cannot be set.`, { field: name })
    // The value stays out of the message: it may be the token.
    if (!VALUE.test(value))
      throw new InputError(`The header ${name} holds a character that cannot be sent in a header.`, { field: name })
    const line = { value, text: `${name}: ${value}\r\n`, isAscii: ASCII.test(value) }
    if (known !== undefined || this.#lines.size < MAX_KNOWN) this.#lines.set(name, line)
    return line
  }
}
