import { describe, expect, test } from 'vitest'
import { readPlainRequest } from './plain-request.ts'

const HOST = 'Host: a\r\n'
const at = (text: string | Buffer, from = 0) =>
  readPlainRequest(typeof text === 'string' ? Buffer.from(text, 'latin1') : text, from)

describe('a plain request', () => {
  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])('has the method %s', (method) => {
    expect(at(`${method} /a?b=c HTTP/1.1\r\n${HOST}\r\n`)).toEqual({
      method,
      url: '/a?b=c',
      headers: { host: 'a' },
      body: '',
      end: method.length + 29,
    })
  })

  test('has headers in lower case, their values without the blanks around them, and a body of its length', () => {
    const text = `POST / HTTP/1.1\r\nhOST:a\r\nX-Odd_1: \t a b\tc \t\r\nX-Empty:\r\nContent-Length: 4\r\n\r\n{"a"GET /`
    expect(at(text)).toEqual({
      method: 'POST',
      url: '/',
      headers: { host: 'a', 'x-odd_1': 'a b\tc', 'x-empty': '', 'content-length': '4' },
      body: '{"a"',
      end: text.length - 'GET /'.length,
    })
  })

  test('may stand behind another', () => {
    const first = `POST /1 HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\n{}`
    expect(at(`${first}GET /2 HTTP/1.1\r\n${HOST}\r\n`, first.length)).toMatchObject({ url: '/2', body: '' })
  })

  test('may say that the connection is to be kept', () => {
    for (const value of ['keep-alive', 'Keep-Alive'])
      expect(at(`GET / HTTP/1.1\r\n${HOST}Connection: ${value}\r\n\r\n`)).toMatchObject({ method: 'GET' })
  })

  test('is read as UTF-8, in which a replacement character may have been written on purpose', () => {
    const body = 'grün 💥 \uFFFD \uFEFF'
    const text = `POST / HTTP/1.1\r\n${HOST}Content-Length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`
    expect(at(Buffer.from(text))).toMatchObject({ body })
  })

  test('is partial at every byte before its last', () => {
    const text = `DELETE /a HTTP/1.1\r\n${HOST}Content-Length: 2\r\nX: y\r\n\r\n{}`
    for (let length = 0; length < text.length; length += 1) expect(at(text.slice(0, length))).toBe('partial')
    expect(at(text)).toMatchObject({ end: text.length })
  })

  test('whose time runs already is left to node:http as long as its body is not there', () => {
    const text = `POST /api/v1/apis/quote HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\n{}`
    expect(at(text)).toMatchObject({ body: '{}' })
    expect(at(text.slice(0, -1))).toBe('other')
    expect(at(text.slice(0, -3))).toBe('partial')
  })
})

describe('not plain is', () => {
  const line = 'POST / HTTP/1.1\r\n'
  test.each([
    ['an unknown method', `PUSH / HTTP/1.1\r\n${HOST}\r\n`],
    ['a method in lower case', `get / HTTP/1.1\r\n${HOST}\r\n`],
    ['HEAD, whose answer has no body', `HEAD / HTTP/1.1\r\n${HOST}\r\n`],
    ['OPTIONS for all', `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`],
    ['CONNECT', `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`],
    ['an absolute address', `GET http://a/ HTTP/1.1\r\n${HOST}\r\n`],
    ['an asterisk', `GET * HTTP/1.1\r\n${HOST}\r\n`],
    ['no address', `GET HTTP/1.1\r\n${HOST}\r\n`],
    ['two blanks', `GET  / HTTP/1.1\r\n${HOST}\r\n`],
    ['a tab for a blank', `GET\t/ HTTP/1.1\r\n${HOST}\r\n`],
    ['a blank in the address', `GET /a b HTTP/1.1\r\n${HOST}\r\n`],
    ['a fragment', `GET /a#b HTTP/1.1\r\n${HOST}\r\n`],
    ['a byte above ASCII in the address', `GET /\u00e4 HTTP/1.1\r\n${HOST}\r\n`],
    ['HTTP/1.0', `GET / HTTP/1.0\r\n${HOST}\r\n`],
    ['HTTP/2', `GET / HTTP/2.0\r\n${HOST}\r\n`],
    ['http in lower case', `GET / http/1.1\r\n${HOST}\r\n`],
    ['HTTP/0.9', 'GET /\r\n'],
    ['a line before the request', `\r\nGET / HTTP/1.1\r\n${HOST}\r\n`],
    ['a bare LF after the request line', `GET / HTTP/1.1\n${HOST}\r\n`],
    ['a bare LF after a header', `${line}Host: a\nX: y\r\n\r\n`],
    ['a bare LF at the end', `${line}${HOST}\n`],
    ['a bare CR', `${line}Host: a\rX: y\r\n\r\n`],
    ['CR CR LF', `${line}Host: a\r\r\n\r\n`],
    ['a folded header', `${line}${HOST}X: a\r\n b\r\n\r\n`],
    ['a header that begins with a blank', `${line} ${HOST}\r\n`],
    ['a blank before the colon', `${line}Host : a\r\n\r\n`],
    ['a header without a name', `${line}${HOST}: x\r\n\r\n`],
    ['a header without a colon', `${line}${HOST}X\r\n\r\n`],
    ['a name with a sign that is none of a name', `${line}${HOST}X(y): z\r\n\r\n`],
    ['NUL in a value', `${line}${HOST}X: a\0b\r\n\r\n`],
    ['NUL in a name', `${line}${HOST}X\0: a\r\n\r\n`],
    ['a control character', `${line}${HOST}X: a\x7fb\r\n\r\n`],
    ['a byte above ASCII', `${line}${HOST}X: \u00e4\r\n\r\n`],
    ['no host', `${line}X: a\r\n\r\n`],
    ['two hosts', `${line}${HOST}${HOST}\r\n`],
    ['two lengths', `${line}${HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`],
    ['two lengths that agree', `${line}${HOST}Content-Length: 1\r\ncontent-length: 1\r\n\r\na`],
    ['a list of lengths', `${line}${HOST}Content-Length: 1, 1\r\n\r\na`],
    ['a length with a blank behind it', `${line}${HOST}Content-Length: 1 \r\n\r\na`],
    ['an empty length', `${line}${HOST}Content-Length: \r\n\r\n`],
    ['a signed length', `${line}${HOST}Content-Length: +1\r\n\r\na`],
    ['a negative length', `${line}${HOST}Content-Length: -1\r\n\r\na`],
    ['a hexadecimal length', `${line}${HOST}Content-Length: 0x1\r\n\r\na`],
    ['a length with a leading zero', `${line}${HOST}Content-Length: 01\r\n\r\na`],
    ['a length beyond all numbers', `${line}${HOST}Content-Length: 18446744073709551617\r\n\r\na`],
    ['chunks', `${line}${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a length and chunks', `${line}${HOST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['an unknown encoding', `${line}${HOST}Transfer-Encoding: identity\r\n\r\n`],
    ['an upgrade', `${line}${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`],
    ['an upgrade without saying so', `${line}${HOST}Upgrade: h2c\r\n\r\n`],
    ['an expectation', `${line}${HOST}Expect: 100-continue\r\nContent-Length: 1\r\n\r\na`],
    ['trailers', `${line}${HOST}Trailer: X\r\n\r\n`],
    ['a connection to be closed', `${line}${HOST}Connection: close\r\n\r\n`],
    ['a connection of several words', `${line}${HOST}Connection: keep-alive, x-mine\r\n\r\n`],
    ['a connection of a proxy', `${line}${HOST}Proxy-Connection: close\r\n\r\n`],
    ['any header twice', `${line}${HOST}X: a\r\nx: b\r\n\r\n`],
    ['a name that every object knows', `${line}${HOST}constructor: a\r\n\r\n`],
    ['the name of what every object comes from', `${line}${HOST}__proto__: a\r\n\r\n`],
    ['a large head', `${line}${HOST}X: ${'x'.repeat(8_192)}\r\n\r\n`],
    ['a large head that is not complete', `${line}${HOST}X: ${'x'.repeat(8_192)}`],
    ['many headers', `${line}${HOST}${Array.from({ length: 64 }, (_, n) => `X-${String(n)}: y\r\n`).join('')}\r\n`],
    ['a large body, before it has come', `${line}${HOST}Content-Length: 65537\r\n\r\n`],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00'],
  ])('%s', (_, text) => {
    expect(at(text)).toBe('other')
  })

  test.each([[[0xff]], [[0xc3, 0x28]], [[0xed, 0xa0, 0x80]], [[0xc0, 0x80]], [[0xf8, 0x88, 0x80, 0x80]], [[0xc3]]])(
    'a body with the bytes %j, which are no UTF-8',
    (bytes) => {
      const head = Buffer.from(`${line}${HOST}Content-Length: ${String(bytes.length)}\r\n\r\n`)
      expect(at(Buffer.concat([head, Buffer.from(bytes)]))).toBe('other')
    },
  )

  test('known as soon as it is seen, not only at the end of the head', () => {
    for (const beginning of [
      'X',
      'GET x',
      'GET / HTTP/1.0',
      `${line} `,
      `${line}Host :`,
      `${line}Host: a\n`,
      `${line}\n`,
    ])
      expect(at(beginning)).toBe('other')
  })
})
