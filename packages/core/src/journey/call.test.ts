import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instant, millis } from '../time/clock.ts'
import { budgetLeft, callEndsAt, restFits } from '../time/budget.ts'
import {
  delayBefore,
  failedResult,
  headerProblem,
  isRetryable,
  prepareCall,
  resultOf,
  urlProblem,
  withDefaults,
} from './call.ts'
import { RunFault } from './faults.ts'
import { RETRY_CONDITIONS, type HttpCall, type Resilience } from './definition.ts'
import type { Data } from './run/run.ts'

const aCall = (more: Partial<HttpCall> = {}): HttpCall => ({
  type: 'httpCall',
  method: 'POST',
  url: 'https://shop.example/orders',
  params: {},
  headers: {},
  body: null,
  timeoutMs: null,
  mode: 'requestResponse',
  resultVar: 'r',
  resilience: null,
  errorMapping: null,
  next: 'n',
  ...more,
})

const none = { timeoutMs: null, headers: {} }
const prepared = (call: Partial<HttpCall>, context: Data = {}, mapped: unknown = null, defaults = none) =>
  prepareCall(aCall(call), defaults, context, mapped)
const fault = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof RunFault) return error.code
    throw error
  }
  return 'none'
}

describe('the URL of a call', () => {
  test('takes values into path and query, and parameters behind them', () => {
    const url = 'https://shop.example/orders/${context.id}?x=${context.id}#part'
    expect(prepared({ url, params: { q: 'a ${context.id}', 'p&': '1' } }, { id: 'a/b' }).url).toBe(
      'https://shop.example/orders/a%2Fb?x=a%2Fb&q=a%20a%2Fb&p%26=1',
    )
    expect(prepared({ params: { q: '${context.n}' } }, { n: 5 }).url).toBe('https://shop.example/orders?q=5')
  })

  test.each([
    ['https://h/orders/${context.id}', '..'],
    ['https://h/orders/${context.id}/x', '.'],
    ['https://h/orders/.${context.id}', '.'],
    ['https://h/orders/%2e${context.id}?q', '.'],
  ])('%s is not shortened by %j', (url, id) => {
    expect(fault(() => prepared({ url }, { id }))).toBe('RUNTIME_BAD_URL')
  })

  test('dots that its author wrote, and dots elsewhere, are his', () => {
    expect(prepared({ url: 'https://h/a/../${context.id}?q=${context.dots}' }, { id: 'v..1', dots: '..' }).url).toBe(
      'https://h/a/../v..1?q=..',
    )
  })

  test('too long a one is refused before it is called', () => {
    expect(fault(() => prepared({ params: { q: '${context.big}' } }, { big: 'x'.repeat(5_000) }))).toBe(
      'RUNTIME_TOO_LARGE',
    )
  })
})

describe('what is wrong with the URL of a definition', () => {
  test.each([
    'https://h',
    'http://127.0.0.1:8080/a?b=${context.c}',
    'https://h?x=${context.a}',
    'HTTPS://[::1]:1/',
    'https://bücher.example/${context.a}',
  ])('nothing: %s', (url) => {
    expect(urlProblem(url)).toBeNull()
  })
  test.each([
    ['/relative', 'absolute'],
    ['${context.base}/orders', 'absolute'],
    ['ftp://h/', 'absolute'],
    ['https://${context.host}/', 'before the path'],
    ['https://h${context.tail}', 'before the path'],
    ['https://h:${context.port}/', 'before the path'],
    ['https://${context.user}@h/', 'before the path'],
    ['https://me:word@h/', 'credentials'],
    ['https:///path', 'host'],
    ['https://h\\@evil/', 'backslashes'],
    ['https://h/a b', 'blanks'],
    ['https://h/${context}', 'not a placeholder'],
  ])('%s', (url, message) => {
    expect(urlProblem(url)).toContain(message)
  })
})

describe('the headers of a call', () => {
  test("its own win over the definition's, and both over what is added by default", () => {
    const call = { headers: { authorization: 'Bearer ${context.t}' } }
    const defaults = {
      timeoutMs: null,
      headers: { Authorization: 'no', 'X-Of-All': '${context.t}', accept: 'text/csv' },
    }
    const made = prepared(call, { t: 'T' }, null, defaults)
    expect(made.headers).toEqual({ authorization: 'Bearer T', 'X-Of-All': 'T', accept: 'text/csv' })
    expect(withDefaults(made, { Accept: 'a', AUTHORIZATION: 'b', Trace: 'c' }).headers).toEqual({
      ...made.headers,
      Trace: 'c',
    })
  })

  test('a body that is not a string is sent as JSON', () => {
    expect(prepared({ body: { literal: '{"a":1}' } }).headers).toEqual({
      'Content-Type': 'application/json',
    })
    expect(prepared({ body: { literal: '{}' }, headers: { 'content-type': 'application/x' } }).headers).toEqual({
      'content-type': 'application/x',
    })
    expect(prepared({ body: { literal: '"a=1"' } })).toMatchObject({
      headers: {},
      body: 'a=1',
    })
  })

  test.each(['Host', 'content-length', 'Transfer-Encoding', 'proxy-authorization', 'a b', 'ä', ''])(
    'a definition cannot name %j',
    (name) => {
      expect(headerProblem(name)).not.toBeNull()
    },
  )

  test('none can be smuggled in', () => {
    expect(fault(() => prepared({ headers: { 'X-A': '${context.a}' } }, { a: '1\r\nX-B: 2' }))).toBe(
      'RUNTIME_BAD_HEADER',
    )
    const defaults = { timeoutMs: null, headers: { 'X-A': 'a\n' } }
    expect(fault(() => prepared({}, {}, null, defaults))).toBe('RUNTIME_BAD_HEADER')
  })
})

describe('the body of a call', () => {
  const mapper = { mapper: { lang: 'jsonata', expr: 'context' } }
  test.each<[Partial<HttpCall>, unknown, string | null]>([
    [{ body: null }, null, null],
    [{ body: { literal: '{"id":"${context.n}","l":[true,"x"]}' } }, null, '{"id":"7","l":[true,"x"]}'],
    [{ body: { literal: '[1]' } }, null, '[1]'],
    [{ body: { literal: '"n is ${context.n}"' } }, null, 'n is 7'],
    [{ body: mapper }, { a: [1] }, '{"a":[1]}'],
    [{ body: mapper }, 'plain ${context.n}', 'plain ${context.n}'],
    [{ body: mapper }, false, 'false'],
    [{ body: mapper }, null, null],
  ])('%j %j', (call, mapped, text) => {
    expect(prepared(call, { n: 7 }, mapped).body).toBe(text)
  })

  test('that would be too large is not made', () => {
    const body = { literal: JSON.stringify(Array.from({ length: 100 }, () => '${context.big}')) }
    expect(fault(() => prepared({ body }, { big: 'x'.repeat(20_000) }))).toBe('RUNTIME_TOO_LARGE')
    expect(fault(() => prepared({ body: mapper }, {}, 'x'.repeat(1_048_577)))).toBe('RUNTIME_TOO_LARGE')
  })
})

describe('the result of an answer', () => {
  const result = (type: string | null, body: string, status = 200) =>
    resultOf({ status, headers: type === null ? {} : { 'content-type': type, 'x-request-id': '1' }, body })

  test('says whether it was a success, with headers in one spelling', () => {
    expect(result('application/json; charset=utf-8', '{"a":1}')).toEqual({
      status: 200,
      ok: true,
      headers: { 'Content-Type': 'application/json; charset=utf-8', 'X-Request-Id': '1' },
      body: { a: 1 },
    })
    for (const [status, ok] of [
      [199, false],
      [200, true],
      [299, true],
      [300, false],
      [404, false],
      [500, false],
    ] as const)
      expect(result(null, '', status)).toMatchObject({ status, ok })
  })

  test.each<[string | null, string, unknown]>([
    ['application/problem+json', '{"title":"no"}', { title: 'no' }],
    ['APPLICATION/JSON', '[1]', [1]],
    ['text/json', '"x"', 'x'],
    ['application/json', '', null],
    ['application/json', '{broken', '{broken'],
    ['application/json', '['.repeat(65) + ']'.repeat(65), '['.repeat(65) + ']'.repeat(65)],
    ['text/plain', '{"a":1}', '{"a":1}'],
    ['application/jsonp', '{"a":1}', '{"a":1}'],
    [null, '', ''],
  ])('%s %s', (type, body, read) => {
    expect(result(type, body).body).toEqual(read)
  })

  test('__proto__ in it is plain data', () => {
    const { body } = result('application/json', '{"__proto__":{"isAdmin":true}}')
    expect(JSON.stringify(body)).toBe('{"__proto__":{"isAdmin":true}}')
    expect((body as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })
})

const calm = (more: Partial<Resilience['backoff']> = {}): Resilience => ({
  maxAttempts: 3,
  retryOn: [...RETRY_CONDITIONS],
  backoff: { kind: 'exponential', baseDelayMs: millis(100), maxDelayMs: millis(1_000), jitter: 'none', ...more },
})

describe('trying again', () => {
  test.each([
    ['NETWORK_ERROR', failedResult('NETWORK', 'x')],
    ['TIMEOUT', failedResult('TIMEOUT', 'x')],
    ['HTTP_5XX', resultOf({ status: 503, headers: {}, body: '' })],
    ['HTTP_429', resultOf({ status: 429, headers: {}, body: '' })],
  ] as const)('%s stands for itself alone', (condition, result) => {
    expect(isRetryable(result, { ...calm(), retryOn: [condition] })).toBe(true)
    expect(isRetryable(result, { ...calm(), retryOn: RETRY_CONDITIONS.filter((one) => one !== condition) })).toBe(false)
    expect(isRetryable(result, null)).toBe(false)
  })

  test.each([200, 301, 400, 404, 499])('%d is never tried again', (status) => {
    expect(isRetryable(resultOf({ status, headers: {}, body: '' }), calm())).toBe(false)
  })

  test('the rest doubles up to its maximum, or stays the same', () => {
    const rests = (more: Partial<Resilience['backoff']>) =>
      [2, 3, 4, 5, 6, 7, 5_000].map((attempt) => delayBefore(attempt, calm(more), () => 0.5))
    expect(rests({})).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000])
    expect(rests({ kind: 'fixed' })).toEqual([100, 100, 100, 100, 100, 100, 100])
    expect(rests({ jitter: 'full' })).toEqual([50, 100, 200, 400, 500, 500, 500])
  })

  test('no rest is longer than its maximum, nor shorter than nothing, and full jitter never lengthens it', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 200 }),
        fc.integer({ min: 0, max: 10_000 }),
        fc.integer({ min: 0, max: 100_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, base, most, chance) => {
          const backoff = { baseDelayMs: millis(base), maxDelayMs: millis(most) }
          const jittered = delayBefore(attempt, calm({ ...backoff, jitter: 'full' }), () => chance)
          const full = delayBefore(attempt, calm(backoff), () => chance)
          expect(Number.isInteger(jittered)).toBe(true)
          expect(jittered).toBeGreaterThanOrEqual(0)
          expect(jittered).toBeLessThanOrEqual(full)
          expect(full).toBeLessThanOrEqual(most)
        },
      ),
    )
  })
})

describe('the time of a call', () => {
  test('is its own timeout, or what is left of the run', () => {
    expect(callEndsAt(instant(1_000), millis(500), instant(9_000))).toBe(1_500)
    expect(callEndsAt(instant(1_000), millis(50_000), instant(9_000))).toBe(9_000)
  })

  test('a rest fits only when something is left after it', () => {
    expect(restFits(instant(1_000), instant(900), millis(99))).toBe(true)
    expect(restFits(instant(1_000), instant(900), millis(100))).toBe(false)
    expect(restFits(instant(1_000), instant(1_000), millis(0))).toBe(false)
  })

  test('never outlives the run, and what is left never grows', () => {
    const at = fc.integer({ min: 0, max: 1e9 }).map(instant)
    fc.assert(
      fc.property(at, at, fc.integer({ min: 0, max: 1e9 }), (begunAt, deadlineAt, timeout) => {
        const endsAt = callEndsAt(begunAt, millis(timeout), deadlineAt)
        expect(endsAt).toBeLessThanOrEqual(deadlineAt)
        expect(budgetLeft(endsAt, begunAt)).toBeLessThanOrEqual(budgetLeft(deadlineAt, begunAt))
      }),
    )
  })
})
