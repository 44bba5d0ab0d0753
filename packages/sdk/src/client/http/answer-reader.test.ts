import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { AnswerReader, BadAnswerError, MAX_HEAD_BYTES } from './answer-reader.ts'

interface Read {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly body: string
  readonly isComplete: boolean
  readonly keepsAlive: boolean
}

/** All of it, in pieces that end at these places. */
function read(
  text: string,
  { cuts = [] as number[], isHead = false, maxBodyBytes = 1_000_000, ends = false } = {},
): Read {
  const bytes = Buffer.from(text, 'latin1')
  const reader = new AnswerReader(isHead, maxBodyBytes)
  let body = ''
  const places = [0, ...cuts.filter((at) => at < bytes.length).sort((a, b) => a - b), bytes.length]
  for (let index = 1; index < places.length; index += 1) {
    reader.read(bytes.subarray(places[index - 1], places[index]))
    body += reader.take().toString('latin1')
  }
  if (ends) reader.end()
  const { head, isComplete, keepsAlive } = reader
  return { status: head?.status, headers: head && { ...head.headers }, body, isComplete, keepsAlive } as Read
}

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

const GOOD: readonly [string, string, Partial<Read>][] = [
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}', { status: 200, body: '{}', keepsAlive: true }],
  ['no reason phrase', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', { status: 200, body: '', keepsAlive: true }],
  ['chunks', `${CHUNKED}3\r\nabc\r\n2;name=value\r\nde\r\n0\r\n\r\n`, { body: 'abcde', keepsAlive: true }],
  ['trailers', `${CHUNKED}1\r\na\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n`, { body: 'a', keepsAlive: true }],
  ['an empty chunked body', `${CHUNKED}0\r\n\r\n`, { body: '', keepsAlive: true }],
  [
    'interim answers',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx',
    { status: 201, body: 'x', keepsAlive: true },
  ],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, body: '', keepsAlive: true }],
  ['304 with a length', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', { status: 304, keepsAlive: true }],
  ['Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx', { keepsAlive: false }],
  ['close among others', 'HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n', { keepsAlive: false }],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx', { body: 'x', keepsAlive: false }],
  [
    'content after it',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny',
    { body: 'x', keepsAlive: false },
  ],
  ['content after 204', 'HTTP/1.1 204 No Content\r\n\r\nsecret', { body: '', keepsAlive: false }],
]

describe('an answer', () => {
  test.each(GOOD)('with %s is understood', (_, text, expected) => {
    expect(read(text)).toMatchObject({ ...expected, isComplete: true })
  })

  test.each(GOOD)('with %s is the same in pieces of one byte, and cut anywhere', (_, text) => {
    const whole = read(text)
    expect(read(text, { cuts: [...text].map((_, at) => at + 1) })).toEqual(whole)
    for (let at = 1; at < text.length; at += 1) expect(read(text, { cuts: [at] }), String(at)).toEqual(whole)
  })

  test('without a length goes until the connection is closed, and the connection is not kept', () => {
    const text = 'HTTP/1.1 200 OK\r\n\r\nabc'
    expect(read(text).isComplete).toBe(false)
    expect(read(text, { ends: true })).toMatchObject({ body: 'abc', isComplete: true, keepsAlive: false })
  })

  test('to HEAD has no body, whatever its headers say', () => {
    const text = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n'
    expect(read(text, { isHead: true })).toMatchObject({ isComplete: true, keepsAlive: true })
  })

  test('says how long the connection is kept', () => {
    const reader = new AnswerReader(false, 10)
    reader.read(Buffer.from('HTTP/1.1 200 OK\r\nKeep-Alive: max=3, timeout=65\r\nContent-Length: 0\r\n\r\n'))
    expect(reader.keepAliveMs).toBe(65_000)
  })

  test('has headers with names in lower case, repeated ones joined, none inherited', () => {
    const { headers } = read('HTTP/1.1 200 OK\r\nVary: a\r\nVARY:  b \r\nconstructor: c\r\nContent-Length: 0\r\n\r\n')
    expect(headers).toEqual({ vary: 'a, b', constructor: 'c', 'content-length': '0' })
  })

  test('of any status, length and chunking is read back as it was written', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 200, max: 999 }).filter((status) => status !== 204 && status !== 304),
        fc.array(fc.string({ minLength: 1, maxLength: 40, unit: 'binary-ascii' }), { maxLength: 6 }),
        fc.boolean(),
        fc.array(fc.nat(400), { maxLength: 12 }),
        (status, parts, isChunked, cuts) => {
          const body = parts.join('')
          const framed = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')
          const text = isChunked
            ? `HTTP/1.1 ${String(status)} x\r\ntransfer-encoding: Chunked\r\n\r\n${framed}0\r\n\r\n`
            : `HTTP/1.1 ${String(status)} x\r\ncontent-length: ${String(body.length)}\r\n\r\n${body}`
          expect(read(text, { cuts })).toMatchObject({ status, body, isComplete: true, keepsAlive: true })
        },
      ),
      { seed: 51, numRuns: 300 },
    )
  })
})

const ok = (headers: string, body = ''): string => `HTTP/1.1 200 OK\r\n${headers}\r\n${body}`

const BAD: readonly [string, string][] = [
  ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['another version', 'HTTP/2 200 OK\r\n\r\n'],
  ['bytes of TLS', '\x15\x03\x03\x00\x02\x02\x46'],
  ['an empty line before it', '\r\nHTTP/1.1 200 OK\r\n\r\n'],
  ['no status', 'HTTP/1.1 OK\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
  ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'],
  ['two lengths', ok('Content-Length: 1\r\nContent-Length: 2\r\n', 'xy')],
  ['the same length twice', ok('Content-Length: 1\r\ncontent-length: 1\r\n', 'x')],
  ['two lengths in one line', ok('Content-Length: 1, 1\r\n', 'x')],
  ['a signed length', ok('Content-Length: +1\r\n', 'x')],
  ['a length in hexadecimal', ok('Content-Length: 0x1\r\n', 'x')],
  ['an empty length', ok('Content-Length: \r\n')],
  ['a length beside chunks', ok('Content-Length: 1\r\nTransfer-Encoding: chunked\r\n', '1\r\nx\r\n0\r\n\r\n')],
  ['another coding', ok('Transfer-Encoding: gzip, chunked\r\n')],
  ['chunked twice', ok('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n')],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a blank before the colon', ok('Content-Length : 1\r\n', 'x')],
  ['a folded line', ok('X: a\r\n b\r\nContent-Length: 0\r\n')],
  ['a line without a colon', ok('nonsense\r\n')],
  ['a header without a name', ok(': x\r\n')],
  ['a lone line feed', ok('X: a\nContent-Length: 5\r\n')],
  ['a lone carriage return', ok('X: a\rContent-Length: 5\r\n')],
  ['a zero byte', ok('X: a\0\r\n')],
  ['a size that is not a number', `${CHUNKED}x\r\n`],
  ['a negative size', `${CHUNKED}-1\r\n`],
  ['an empty size', `${CHUNKED}\r\n`],
  ['a size beyond all numbers', `${CHUNKED}fffffffffffffffff\r\n`],
  ['a chunk longer than its size', `${CHUNKED}1\r\nxy\r\n`],
  ['a size that never ends', `${CHUNKED}1;${'x'.repeat(2_000)}`],
  ['a head that is too large', ok(`X: ${'x'.repeat(MAX_HEAD_BYTES)}\r\n`)],
  ['a head that never ends', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(MAX_HEAD_BYTES)}`],
  ['trailers that never end', `${CHUNKED}0\r\nX: ${'x'.repeat(MAX_HEAD_BYTES)}`],
  ['too many interim answers', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(17)],
]

describe('refused is', () => {
  test.each(BAD)('%s', (_, text) => {
    expect(() => read(text)).toThrow(BadAnswerError)
    expect(() => read(text, { cuts: [...text].map((_, at) => at + 1) })).toThrow(BadAnswerError)
  })

  test('a body beyond the bound: by its length at once, by its chunks when they come', () => {
    expect(() => read(ok('Content-Length: 11\r\n'), { maxBodyBytes: 10 })).toThrow(/larger than 10 bytes/)
    expect(() => read(`${CHUNKED}6\r\nabcdef\r\n5\r\n`, { maxBodyBytes: 10 })).toThrow(/larger than 10 bytes/)
    expect(() => read(ok('', 'x'.repeat(11)), { maxBodyBytes: 10 })).toThrow(/larger than 10 bytes/)
    expect(read(ok('Content-Length: 10\r\n', 'x'.repeat(10)), { maxBodyBytes: 10 }).isComplete).toBe(true)
  })

  test('half an answer, cut anywhere', () => {
    for (const text of [ok('Content-Length: 3\r\n', 'abc'), `${CHUNKED}3\r\nabc\r\n0\r\n\r\n`])
      for (let at = 0; at < text.length; at += 1)
        expect(() => read(text.slice(0, at), { ends: true }), String(at)).toThrow(
          at === 0 ? 'closed before an answer' : 'closed in the middle of the answer',
        )
  })

  test('no random bytes make it hang or throw anything else', () => {
    fc.assert(
      fc.property(fc.constantFrom(...GOOD), fc.nat(), fc.uint8Array({ maxLength: 8 }), ([, text], place, bytes) => {
        const at = place % text.length
        const mixed = text.slice(0, at) + Buffer.from(bytes).toString('latin1') + text.slice(at)
        try {
          read(mixed, { ends: true })
        } catch (error) {
          expect(error).toBeInstanceOf(BadAnswerError)
        }
      }),
      { seed: 51, numRuns: 1_000 },
    )
  })
})
