import { describe, expect, test } from 'vitest'
import { InputError } from '../../errors.ts'
import { RequestWriter } from './request-text.ts'

const writer = (address = 'http://curfew.test:8080'): RequestWriter => new RequestWriter(new URL(address))
const POST = { method: 'POST', url: '/ojs/v1/jobs', headers: {}, body: '' }

function written(parts: Partial<typeof POST>, address?: string): string {
  const { data, encoding } = writer(address).write({ ...POST, ...parts })
  return typeof data === 'string' ? Buffer.from(data, encoding).toString('latin1') : data.toString('latin1')
}

describe('a request', () => {
  test('is one text: line, headers, length and body', () => {
    expect(written({ headers: { accept: 'a/b' }, body: '{"a":1}' })).toBe(
      'POST /ojs/v1/jobs HTTP/1.1\r\nhost: curfew.test:8080\r\nuser-agent: curfew-sdk\r\naccept: a/b\r\ncontent-length: 7\r\n\r\n{"a":1}',
    )
  })

  test('counts the bytes of its body, not the characters', () => {
    const text = written({ body: '"ä€😀"' })
    expect(text).toContain('content-length: 11\r\n')
    expect(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1').toString()).toBe('"ä€😀"')
  })

  test('without a body has a length of zero where a body could be, and none elsewhere', () => {
    expect(written({})).toContain('content-length: 0\r\n')
    expect(written({ method: 'GET' })).not.toContain('content-length')
    expect(written({ method: 'DELETE' })).not.toContain('content-length')
  })

  test('a header of Latin letters is sent as such beside a body in UTF-8', () => {
    const text = written({ headers: { 'x-ojs-tenant': 'Zürich' }, body: '"ü"' })
    expect(text).toContain('x-ojs-tenant: Z\xfcrich\r\n')
    expect(text.endsWith('"\xc3\xbc"')).toBe(true)
  })

  test('follows a header that changes', () => {
    const one = writer()
    const headers = (id: string) => ({ ...POST, headers: { accept: 'a', 'x-request-id': id } })
    expect(one.write(headers('1')).data).toContain('x-request-id: 1\r\n')
    expect(one.write(headers('2')).data).toContain('accept: a\r\nx-request-id: 2\r\n')
  })

  test.each([
    ['http://curfew.test/', '/ojs/v1/jobs'],
    ['http://curfew.test/jobs/here//', '/jobs/here/ojs/v1/jobs'],
  ])('to %s asks for %s', (address, target) => {
    expect(written({}, address)).toContain(`POST ${target} HTTP/1.1\r\n`)
  })

  test.each([
    ['/a b', '/a%20b'],
    ['/ü?q=ü', '/%C3%BC?q=%C3%BC'],
    ['/a/../b', '/b'],
    ['/a#b', '/a'],
    ['/a%2Fb?c=d+e&f', '/a%2Fb?c=d+e&f'],
    ['//other.test/a', '//other.test/a'],
  ])('for %j asks for %j, as a URL does', (url, target) => {
    expect(written({ url })).toContain(`POST ${target} HTTP/1.1\r\n`)
  })
})

describe('refused before anything is sent is', () => {
  test.each(['a\r\nx-evil: 1', 'a\nb', 'a\rb', 'a\0b', '€'])('a header with the value %j', (value) => {
    expect(() => written({ headers: { authorization: value } })).toThrow(InputError)
  })

  test('such a value, without repeating it: it may be the token', () => {
    expect(() => written({ headers: { authorization: 'Bearer secret\n' } })).toThrow(/^(?!.*secret)/)
  })

  test('a value that follows a good one under the same name', () => {
    const one = writer()
    one.write({ ...POST, headers: { a: 'fine' } })
    expect(() => one.write({ ...POST, headers: { a: 'fine\r\nb: c' } })).toThrow(InputError)
  })

  test.each(['a b', 'a:', 'a\r\nb', '', 'ü'])('a header with the name %j', (name) => {
    expect(() => written({ headers: { [name]: 'x' } })).toThrow(InputError)
  })

  test.each(['content-length', 'Transfer-Encoding', 'host', 'connection', 'expect', 'upgrade'])(
    'the header %s, which says where the message goes or ends',
    (name) => {
      expect(() => written({ headers: { [name]: '5' } })).toThrow(InputError)
    },
  )

  test.each(['/a\r\nx: y', '/a\nb', '/a\tb', '/a\0', 'a', ''])('the path %j', (url) => {
    expect(() => written({ url })).toThrow(InputError)
  })

  test.each(['get', 'GET /', 'G\r\nT', ''])('the method %j', (method) => {
    expect(() => written({ method })).toThrow(InputError)
  })
})
