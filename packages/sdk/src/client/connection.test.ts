import { describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { Connection } from './connection.ts'
import { InputError, NetworkError, RequestError } from '../errors.ts'
import { idle, refused, ScriptedServer, turning, world, type Line } from '../scripted.suite.ts'

const GET = { method: 'GET', path: '/ojs/v1/jobs', idempotent: true } as const
const POST = { method: 'POST', path: '/ojs/v1/jobs', idempotent: false, body: { a: 1 } } as const

function open(script: ConstructorParameters<typeof ScriptedServer>[0], more = {}) {
  const { host, random } = world()
  const server = new ScriptedServer(script)
  return { host, server, connection: new Connection({ server, host, random, ...more }) }
}

const UNAVAILABLE: Line = refused(503, 'unavailable', { retryable: true })

describe('a call', () => {
  test('carries the headers of the Open Job Spec, a request id and the token', async () => {
    const { server, connection } = open([{}], { token: 'secret' })
    await connection.call(POST)
    expect(server.asked[0]).toMatchObject({ method: 'POST', url: '/ojs/v1/jobs', body: { a: 1 } })
    expect(server.asked[0]?.headers).toEqual({
      accept: 'application/openjobspec+json',
      'content-type': 'application/openjobspec+json',
      'ojs-version': '1.0',
      'x-request-id': expect.stringMatching(/^req_[0-9a-f-]{36}$/),
      authorization: 'Bearer secret',
    })
  })

  test('leaves out of the query what is not set', async () => {
    const { server, connection } = open([{}])
    await connection.call({ ...GET, query: { queue: 'a b', state: undefined, type: null, limit: 5 } })
    expect(server.asked[0]?.url).toBe('/ojs/v1/jobs?queue=a+b&limit=5')
  })

  test('that is refused tells the server’s own code, status, details, hint, request id and patience', async () => {
    const { connection } = open([
      {
        status: 429,
        headers: { 'Retry-After': '7' },
        body: {
          error: {
            code: 'rate_limited',
            message: 'Slow down.',
            retryable: true,
            details: { limit: 5 },
            hint: 'Wait.',
            request_id: 'req_1',
          },
        },
      },
    ])
    const error: unknown = await connection.call(POST).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RequestError)
    expect(error).toMatchObject({
      name: 'RequestError',
      code: 'rate_limited',
      message: 'Slow down.',
      status: 429,
      retryable: true,
      details: { limit: 5 },
      hint: 'Wait.',
      requestId: 'req_1',
      retryAfterMs: 7_000,
    })
  })

  test('refused with problem details gives the same error', async () => {
    const problem = {
      type: 'about:blank',
      title: 'not_found',
      status: 404,
      detail: 'None.',
      code: 'not_found',
      id: 'x',
    }
    const { connection } = open([{ status: 404, body: problem }])
    await expect(connection.call(GET)).rejects.toMatchObject({
      code: 'not_found',
      message: 'None.',
      status: 404,
      details: { id: 'x' },
    })
  })

  test('a refusal by a proxy is reported with its status', async () => {
    const { connection } = open([{ status: 418, headers: { 'x-request-id': 'r' }, body: '<html>teapot</html>' }])
    await expect(connection.call(GET)).rejects.toMatchObject({ code: 'http_418', status: 418, requestId: 'r' })
  })

  test('whose answer is not JSON did not reach the server', async () => {
    const { connection } = open([{ body: '<html>hello</html>' }])
    await expect(connection.call(POST)).rejects.toBeInstanceOf(NetworkError)
  })

  test('an answer without a body is nothing', async () => {
    const { connection } = open([{ status: 204, body: '' }])
    expect(await connection.call(POST)).toBeUndefined()
  })
})

describe('trying again', () => {
  test.each([
    ['no answer', 'dead'],
    ['429', refused(429, 'rate_limited')],
    ['502', { status: 502, body: '' }],
    ['503', UNAVAILABLE],
    ['504', { status: 504, body: '' }],
  ] satisfies [string, Line][])('a call that may be repeated is, after %s', async (_, line) => {
    const { host, server, connection } = open([line, line, { body: { ok: true } }])
    expect(await turning(host, connection.call(GET))).toEqual({ ok: true })
    expect(server.asked).toHaveLength(3)
    // One call, however often it is said.
    expect(new Set(server.asked.map(({ headers }) => headers['x-request-id']))).toHaveProperty('size', 1)
  })

  test.each(['dead', UNAVAILABLE, refused(429, 'rate_limited')] satisfies Line[])(
    'a call that may not be repeated is said once (%j)',
    async (line) => {
      const { host, server, connection } = open([line])
      await expect(turning(host, connection.call(POST))).rejects.toThrow()
      expect(server.asked).toHaveLength(1)
    },
  )

  test.each([400, 401, 404, 409, 413, 422, 500])('%i is never tried again', async (status) => {
    const { host, server, connection } = open([refused(status, 'no', { retryable: true })])
    await expect(turning(host, connection.call(GET))).rejects.toMatchObject({ status })
    expect(server.asked).toHaveLength(1)
  })

  test.each([
    ['an error', refused(503, 'storage_damaged', { retryable: false })],
    ['a problem', { status: 503, body: { title: 'storage_damaged', code: 'storage_damaged', retryable: false } }],
    ['a 429', refused(429, 'rate_limited', { retryable: false })],
  ] satisfies [string, Line][])('%s that says it is not worth another try is not tried again', async (_, line) => {
    const { host, server, connection } = open([line])
    await expect(turning(host, connection.call(GET))).rejects.toMatchObject({ retryable: false })
    expect(server.asked).toHaveLength(1)
  })

  test('ends after the tries that are allowed, with the last outcome', async () => {
    const { host, server, connection } = open([UNAVAILABLE, 'dead'], { retries: 3 })
    await expect(turning(host, connection.call(GET))).rejects.toBeInstanceOf(NetworkError)
    expect(server.asked).toHaveLength(4)
  })

  test('waits longer each time, by chance, and never longer than its share', async () => {
    const host = new FakeClock()
    const asked: number[] = []
    const server = new ScriptedServer(() => {
      asked.push(host.now())
      return 'dead'
    })
    const connection = new Connection({ server, host, random: () => 0.999, retries: 8 })
    await expect(turning(host, connection.call(GET))).rejects.toThrow()
    const waits = asked.slice(1).map((at, index) => at - (asked[index] ?? 0))
    expect(waits).toEqual([199, 399, 799, 1598, 3196, 4995, 4995, 4995])
  })

  test('not before Retry-After is over, in seconds or as a date', async () => {
    const { host, connection } = open([
      { ...UNAVAILABLE, headers: { 'retry-after': '3' } },
      () => ({ ...UNAVAILABLE, headers: { 'retry-after': new Date(host.now() + 10_000).toUTCString() } }),
      {},
    ])
    const began = host.now()
    await turning(host, connection.call(GET))
    expect(host.now() - began).toBeGreaterThanOrEqual(13_000)
    expect(host.now() - began).toBeLessThan(14_000)
  })

  test('is left to the caller when the server wants to be left alone for long', async () => {
    const { host, server, connection } = open([{ ...UNAVAILABLE, headers: { 'retry-after': '3600' } }])
    await expect(turning(host, connection.call(GET))).rejects.toMatchObject({ retryAfterMs: 3_600_000 })
    expect(server.asked).toHaveLength(1)
  })
})

describe('time and signals', () => {
  test('a try without an answer ends at its timeout, and is a network error', async () => {
    const { host, server, connection } = open(['silent'], { timeout: '2s' })
    const outcome = connection.call(POST)
    outcome.catch(() => {})
    await idle()
    host.advance(1_999)
    expect(server.asked[0]?.signal.aborted).toBe(false)
    host.advance(1)
    await expect(outcome).rejects.toThrow('No answer within 2s.')
    expect(server.asked[0]?.signal.aborted).toBe(true)
  })

  test('the caller’s signal ends a try at once, with its reason', async () => {
    const { host, server, connection } = open(['silent'])
    const gaveUp = new AbortController()
    const outcome = connection.call({ ...GET, signal: gaveUp.signal })
    await idle()
    gaveUp.abort(new Error('enough'))
    await expect(outcome).rejects.toThrow('enough')
    expect(server.asked[0]?.signal.aborted).toBe(true)
    expect(host.nextTimerAt()).toBeNull()
  })

  test('the caller’s signal ends the waiting between tries', async () => {
    const { host, server, connection } = open(['dead'])
    const gaveUp = new AbortController()
    const outcome = connection.call({ ...GET, signal: gaveUp.signal })
    await idle()
    gaveUp.abort(new Error('enough'))
    await expect(outcome).rejects.toThrow('enough')
    expect(server.asked).toHaveLength(1)
    expect(host.nextTimerAt()).toBeNull()
  })

  test('a call with a signal that was aborted before is never made', async () => {
    const { server, connection } = open([{}])
    await expect(connection.call({ ...GET, signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before')
    expect(server.asked).toHaveLength(0)
  })

  test('after an answer no timer is left behind', async () => {
    const { host, connection } = open([{}])
    await connection.call(GET)
    expect(host.nextTimerAt()).toBeNull()
  })
})

describe('the manifest', () => {
  const manifest = { body: { extensions: ['urn:ojs:ext:timeouts', 'urn:curfew:ext:limits'], capabilities: {} } }

  test('is asked for once, however many want to know at once', async () => {
    const { server, connection } = open([manifest])
    const answers = await Promise.all([connection.supports('limits'), connection.supports('bulk-enqueue')])
    expect(answers).toEqual([true, false])
    await connection.manifest()
    expect(server.urls).toEqual(['GET /ojs/manifest'])
  })

  test('is asked for again after a failure', async () => {
    const { server, connection } = open([refused(500, 'internal_error'), manifest])
    await expect(connection.supports('limits')).rejects.toMatchObject({ status: 500 })
    expect(await connection.supports('limits')).toBe(true)
    expect(server.asked).toHaveLength(2)
  })

  test('a server without one supports nothing of ours, and is not asked again', async () => {
    const { server, connection } = open([refused(404, 'not_found')])
    expect(await connection.supports('limits')).toBe(false)
    expect(await connection.manifest()).toEqual({ extensions: [], capabilities: {} })
    expect(server.asked).toHaveLength(1)
  })

  test.each([{ extensions: {} }, 'null', []])('one that says %j supports nothing', async (body) => {
    const { connection } = open([{ body }])
    expect(await connection.supports('limits')).toBe(false)
  })
})

test('an address without a scheme is refused at once', () => {
  expect(() => new Connection({ url: '127.0.0.1:8080' })).toThrow(InputError)
})

describe('over HTTP', () => {
  const json = (body: unknown, init: ResponseInit = {}): Response => new Response(JSON.stringify(body), init)

  test('the url may end with a slash; headers and body arrive', async () => {
    const calls: [string, RequestInit][] = []
    const fetch = async (url: string, init: RequestInit): Promise<Response> => {
      calls.push([url, init])
      return json({ ok: true })
    }
    const connection = new Connection({ url: 'http://curfew.test/', fetch })
    expect(await connection.call(POST)).toEqual({ ok: true })
    expect(calls[0]?.[0]).toBe('http://curfew.test/ojs/v1/jobs')
    expect(calls[0]?.[1]).toMatchObject({ method: 'POST', body: '{"a":1}', redirect: 'manual' })
  })

  test('a redirect is refused instead of followed', async () => {
    const fetch = async (): Promise<Response> => new Response('', { status: 301, headers: { location: 'http://b' } })
    const connection = new Connection({ url: 'http://curfew.test', fetch })
    await expect(connection.call(POST)).rejects.toMatchObject({ code: 'http_301' })
  })

  test('nor is a redirect that a fetch hides taken for an answer', async () => {
    const { connection } = open([{ status: 0, body: '' }])
    await expect(connection.call(POST)).rejects.toMatchObject({ code: 'http_0' })
  })

  test('a failing fetch is a network error that names the address and the reason', async () => {
    const fetch = async (): Promise<Response> => {
      throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') })
    }
    const connection = new Connection({ url: 'http://curfew.test', fetch })
    await expect(connection.call(POST)).rejects.toThrow(/No answer from http:\/\/curfew\.test: connect ECONNREFUSED/)
  })
})
