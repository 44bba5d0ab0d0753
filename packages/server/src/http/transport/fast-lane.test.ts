import { once } from 'node:events'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Handler } from '../api/app.ts'
import { echo, TestLane, type Outcome } from './lanes.suite.ts'

let fast: TestLane
let node: TestLane

beforeAll(async () => {
  fast = await TestLane.open(echo, true)
  node = await TestLane.open(echo, false)
})

afterAll(async () => {
  await fast.close()
  await node.close()
})

/** What the fast lane made of it, when `node:http` makes the same of it. */
async function same(...pieces: (string | Buffer)[]): Promise<Outcome> {
  const [ours, theirs] = await both(pieces)
  expect({ ...ours, byNode: 0 }).toEqual({ ...theirs, byNode: 0 })
  return ours
}

/** What `node:http` says by itself before it closes a connection. */
const LAST_WORD = /HTTP\/1\.1 \d{3} [^\r]*\r\nConnection: close\r\n\r\n$/

/**
 * The same calls and the same end. When something bad comes behind others, `node:http` closes at once, and it is a matter
 * of luck which of their answers are lost; otherwise all answers are the same, too.
 */
async function alike(...pieces: (string | Buffer)[]): Promise<void> {
  const [ours, theirs] = await both(pieces)
  expect({ calls: ours.calls, isClosed: ours.isClosed }).toEqual({ calls: theirs.calls, isClosed: theirs.isClosed })
  const [ourWord, theirWord] = [ours, theirs].map(({ answers }) => LAST_WORD.exec(answers)?.[0])
  if (ourWord === undefined && theirWord === undefined) expect(ours.answers).toBe(theirs.answers)
  if (ourWord !== undefined && theirWord !== undefined) expect(ourWord).toBe(theirWord)
}

async function both(pieces: readonly (string | Buffer)[]): Promise<[ours: Outcome, theirs: Outcome]> {
  const bytes = pieces.map((piece) => Buffer.from(piece as string, 'latin1'))
  return [await fast.outcome(bytes), await node.outcome(bytes)]
}

const post = (body: string | Buffer, headers = '', path = '/a'): Buffer => {
  const bytes = Buffer.from(body as string)
  const head = `POST ${path} HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: ${String(bytes.length)}\r\n\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes])
}
const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`

describe('a plain request is answered as node:http answers it, without it', () => {
  test.each([
    '/a',
    '/empty',
    '/unchanged',
    '/odd',
    '/bytes',
    '/broken',
    '/split',
    '/stream',
    '/a?b=%20c&d#'.slice(0, -1),
  ])('GET %s', async (path) => {
    expect((await same(get(path))).byNode).toBe(0)
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'GET'])('%s with a body and without', async (method) => {
    expect((await same(post('{"a":"grün 💥"}').toString('latin1').replace('POST', method))).byNode).toBe(0)
    expect((await same(get('/a').replace('GET', method))).byNode).toBe(0)
  })

  test('with the headers that callers send', async () => {
    const headers =
      'User-Agent: a/1.0 (b; c)\r\naccept: */*\r\nACCEPT-ENCODING: gzip, deflate, br\r\nX-Request-Id: mine\r\n' +
      'Authorization: Bearer abc==\r\nConnection: Keep-Alive\r\nX-Empty:\r\nX-Blank: \t\r\nX-Inner:  a  b \t\r\n'
    expect((await same(get('/a', headers))).byNode).toBe(0)
  })

  test('and another, and many in one packet', async () => {
    const { byNode, calls } = await same(get('/1'), post('2'), get('/3') + get('/4') + post('5').toString() + get('/6'))
    expect([byNode, calls.length]).toEqual([0, 6])
  })

  test('after an answer that is a stream, too', async () => {
    const { byNode, calls } = await same(get('/stream') + get('/stream') + get('/after'), get('/last'))
    expect([byNode, calls.length]).toEqual([0, 4])
  })

  test('in two pieces, wherever it is cut, and so is the one behind it', async () => {
    const bytes = Buffer.concat([post('"ü💥"', 'X: y\r\n'), Buffer.from(get('/b'))])
    for (let cut = 1; cut < bytes.length; cut += 1) {
      const { byNode, calls } = await same(bytes.subarray(0, cut), bytes.subarray(cut))
      expect([byNode, calls.length]).toEqual([0, 2])
    }
  })
})

describe('what is not plain is answered by node:http', () => {
  const bodyless = 'Content-Length: 0\r\n'
  test.each([
    ['HEAD', 'HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['HEAD of a stream', 'HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['OPTIONS for all', 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['an unknown method', 'PUSH /a HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a method in lower case', 'get /a HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['an absolute address', get('http://a/b')],
    ['an asterisk', get('*')],
    ['a fragment', get('/a#b')],
    ['a blank in the address', get('/a b')],
    ['a byte above ASCII in the address', get('/\u00e4')],
    ['HTTP/1.0', 'GET /a HTTP/1.0\r\n\r\n'],
    ['HTTP/1.0 that is kept', 'GET /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/0.9', 'GET /a\r\n'],
    ['a line before the request', `\r\n${get('/a')}`],
    ['bare LF', get('/a').replaceAll('\r\n', '\n')],
    ['a bare LF after a header', 'GET /a HTTP/1.1\r\nHost: a\nX: b\r\n\r\n'],
    ['a bare LF before the body', 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\nx'],
    ['a bare CR', 'GET /a HTTP/1.1\r\nHost: a\rX: b\r\n\r\n'],
    ['a folded header', get('/a', 'X: a\r\n b\r\n')],
    ['a folded length', get('/a', 'Content-Length:\r\n 0\r\n')],
    ['a blank before the colon', get('/a', 'X : b\r\n')],
    ['a blank before the colon of a length', get('/a', 'Content-Length : 0\r\n')],
    ['a header without a colon', get('/a', 'X\r\n')],
    ['NUL in a value', get('/a', 'X: a\0b\r\n')],
    ['NUL in the address', get('/a\0b')],
    ['a byte above ASCII in a value', get('/a', 'X: \u00e4\r\n')],
    ['no host', 'GET /a HTTP/1.1\r\n\r\n'],
    ['two hosts', get('/a', 'Host: b\r\n')],
    ['two lengths', `${get('/a', 'Content-Length: 1\r\nContent-Length: 2\r\n')}xy`],
    ['two lengths that agree', `${get('/a', 'Content-Length: 1\r\nContent-Length: 1\r\n')}x`],
    ['a list of lengths', `${get('/a', 'Content-Length: 1, 1\r\n')}x`],
    ['an empty length', get('/a', 'Content-Length: \r\n')],
    ['a signed length', `${get('/a', 'Content-Length: +1\r\n')}x`],
    ['a length with a tab behind it', `${get('/a', 'Content-Length: 1\t\r\n')}x`],
    ['a length with a leading zero', `${get('/a', 'Content-Length: 01\r\n')}x`],
    ['a length beyond all numbers', `${get('/a', 'Content-Length: 18446744073709551617\r\n')}x`],
    ['chunks', `${get('/a', 'Transfer-Encoding: chunked\r\n')}3\r\nabc\r\n0\r\n\r\n`],
    ['chunks and a length', `${get('/a', `Transfer-Encoding: chunked\r\n${bodyless}`)}0\r\n\r\n`],
    ['a length and chunks', `${get('/a', `${bodyless}Transfer-Encoding: chunked\r\n`)}0\r\n\r\n`],
    ['chunks with a blank before the colon', `${get('/a', 'Transfer-Encoding : chunked\r\n')}0\r\n\r\n`],
    ['chunks twice', `${get('/a', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n')}0\r\n\r\n`],
    ['an unknown encoding', `${get('/a', 'Transfer-Encoding: xchunked\r\n')}0\r\n\r\n`],
    ['an upgrade', get('/a', 'Connection: Upgrade\r\nUpgrade: websocket\r\n')],
    ['an expectation', `${get('/a', 'Expect: 100-continue\r\nContent-Length: 1\r\n')}x`],
    ['another expectation', get('/a', 'Expect: the worst\r\n')],
    ['a connection to be closed', get('/a', 'Connection: close\r\n')],
    ['a header twice', get('/a', 'X: a\r\nX: b\r\n')],
    ['a cookie twice', get('/a', 'Cookie: a\r\nCookie: b\r\n')],
    ['__proto__', get('/a', '__proto__: a\r\n')],
    ['headers beyond its measure', get('/a', `X: ${'x'.repeat(20_000)}\r\n`)],
    ['headers beyond ours', get('/a', `X: ${'x'.repeat(10_000)}\r\n`)],
    ['many headers', get('/a', Array.from({ length: 100 }, (_, n) => `X-${String(n)}: y\r\n`).join(''))],
    ['a large body', post('x'.repeat(70_000))],
    ['a body that is not UTF-8', post(Buffer.from([0xed, 0xa0, 0x80]), 'X-Request-Id: mine\r\n')],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00'],
  ])('%s, first, behind others, and with more behind it', async (_, odd) => {
    const alone = await same(odd)
    expect(alone.byNode).toBeGreaterThanOrEqual(alone.calls.length)
    await same(get('/before'), odd, get('/after'))
    await alike(`${get('/before')}${post('2').toString()}`, odd.toString('latin1') + get('/after'))
    await alike(`${get('/before')}${odd.toString('latin1')}`)
  })

  test('CONNECT, which is none', async () => {
    const odd = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'
    expect((await same(odd)).isClosed).toBe(true)
    await same(get('/before'), odd)
  })

  test('and so is a plain one that comes in many pieces', async () => {
    const { byNode, calls } = await same(...post('in pieces').toString())
    expect([byNode, calls.length]).toEqual([1, 1])
  })

  test('and what follows it', async () => {
    expect((await same(get('/1'), 'HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n', get('/3'), post('4'))).byNode).toBe(3)
  })
})

describe('of any bytes', () => {
  const letters = fc.string({ unit: fc.constantFrom(...'abAB01-_/?=%.;,: \t'), maxLength: 12 })
  const name = fc.constantFrom(
    ...['Host', 'Content-Length', 'content-length', 'Transfer-Encoding', 'Connection', 'Expect', 'Upgrade', 'X', 'x-y'],
    ...['Content-Type', 'Authorization', 'Cookie', '__proto__', 'constructor', 'Keep-Alive', 'TE', 'Trailer'],
  )
  const value = fc.oneof(
    letters,
    fc.constantFrom(
      '0',
      '1',
      '5',
      '05',
      '5 ',
      '5, 5',
      'chunked',
      'identity',
      'close',
      'keep-alive',
      'a\r\n b',
      '\u00e4',
    ),
  )
  const end = fc.oneof(
    { weight: 20, arbitrary: fc.constant('\r\n') },
    { weight: 1, arbitrary: fc.constantFrom('\n', '\r', '\r\r\n', '\r\n ', '') },
  )
  const colon = fc.oneof(
    { weight: 20, arbitrary: fc.constant(': ') },
    { weight: 1, arbitrary: fc.constantFrom(':', ' : ', ':\t', '', ' ', ':\0') },
  )
  const header = fc.tuple(name, colon, value, end).map((parts) => parts.join(''))
  const plain = fc
    .record({
      method: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE'),
      path: fc.constantFrom('/a', '/b?c=d', '/empty', '/odd', '/stream', '//', '/%zz'),
      body: fc.oneof(fc.constant(''), fc.string({ unit: 'grapheme', maxLength: 20 }), fc.constant('0\r\n\r\nGET /x')),
      headers: fc.uniqueArray(fc.tuple(fc.constantFrom('X', 'Y-Z', 'accept'), letters), { selector: ([key]) => key }),
    })
    .map(({ method, path, body, headers }) => {
      const bytes = Buffer.from(body)
      const lines = headers.map(([key, text]) => `${key}: ${text}\r\n`).join('')
      const length = bytes.length === 0 ? '' : `Content-Length: ${String(bytes.length)}\r\n`
      return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: a\r\n${lines}${length}\r\n`), bytes])
    })
  const odd = fc
    .record({
      method: fc.constantFrom('GET', 'POST', 'get', 'HEAD', 'PUSH'),
      path: fc.constantFrom('/a', '*', 'http://a/', '/a b', '/a#b', '/\u00e4', ''),
      version: fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'http/1.1', 'HTTP/1.2'),
      lineEnd: end,
      headers: fc.array(header, { maxLength: 5 }),
      headEnd: end,
      body: fc.constantFrom('', 'x', 'xxxxx', '0\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n'),
    })
    .map(({ method, path, version, lineEnd, headers, headEnd, body }) =>
      Buffer.from(`${method} ${path} ${version}${lineEnd}Host: a\r\n${headers.join('')}${headEnd}${body}`, 'latin1'),
    )
  const changed = fc
    .tuple(plain, fc.nat(), fc.constantFrom(0, 1, 2), fc.constantFrom(...'\r\n\0 \t:;,a5/\u0080\u00ff'))
    .map(([bytes, place, removed, sign]) => {
      const at = place % bytes.length
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(sign, 'latin1'), bytes.subarray(at + removed)])
    })
  const message = fc.oneof(
    { weight: 4, arbitrary: plain },
    { weight: 3, arbitrary: odd },
    { weight: 3, arbitrary: changed },
  )
  const cuts = fc.array(fc.nat(), { maxLength: 5 })

  function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
    const edges = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
    return edges.slice(1).flatMap((edge, index) => (edge > edges[index]! ? [bytes.subarray(edges[index], edge)] : []))
  }

  test('in any pieces, both lanes make the same', { timeout: 60_000 }, async () => {
    const messages = fc.array(message, { minLength: 1, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(messages, cuts, async (sent, places) => {
        await alike(...cutAt(Buffer.concat(sent), places))
      }),
      { numRuns: 400 },
    )
  })
})

describe.each([true, false])('whether an answer was written (fast: %s)', (isFast) => {
  /** How often a caller was found to have gone without its answer. */
  async function opened(): Promise<{ lane: TestLane; release: () => void; isLost: Promise<void>; lost: () => number }> {
    let times = 0
    let tell = (): void => {}
    let release = (): void => {}
    const isLost = new Promise<void>((resolve) => (tell = resolve))
    const released = new Promise<void>((resolve) => (release = resolve))
    const handler: Handler = async (request) => {
      request.ifUndelivered?.(() => {
        times += 1
        tell()
      })
      if (request.url === '/held') await released
      return { status: 200, headers: {}, body: 'done' }
    }
    const lane = await TestLane.open(handler, isFast)
    onTestFinished(() => lane.close())
    return { lane, release, isLost, lost: () => times }
  }
  const get = (url: string): string => `GET ${url} HTTP/1.1\r\nHost: a\r\n\r\n`

  test('hears when the caller hangs up first', async () => {
    const { lane, release, isLost, lost } = await opened()
    const socket = await lane.connect()
    socket.write(get('/held'))
    await lane.called(1)
    socket.destroy()
    await isLost
    release()
    await lane.settled()
    expect(lost()).toBe(1)
  })

  // node:http does not tell of calls that wait behind another; no client of ours sends such.
  test.runIf(isFast)('hears of an answer that is ready and waits behind another', async () => {
    const { lane, isLost, lost } = await opened()
    const socket = await lane.connect()
    socket.write(get('/held') + get('/ready'))
    await lane.called(2)
    await lane.settled()
    socket.destroy()
    await isLost
    await lane.settled()
    expect(lost()).toBe(2)
  })

  test('is not told when the caller hangs up after it', async () => {
    const { lane, lost } = await opened()
    const socket = await lane.connect()
    socket.write(get('/ready'))
    await once(socket, 'data')
    socket.destroy()
    await lane.settled()
    expect(lost()).toBe(0)
  })
})
