/** A browser sends requests to this machine on behalf of any web page: what a server without a token takes of them. */
import { expect, test } from 'vitest'
import { openServer, SettingsError } from 'curfew'
import { ROUTES } from '../../packages/server/src/http/api/app.ts'
import { TestServer } from '../harness.ts'

const PAGES: readonly Record<string, string>[] = [
  { host: 'localhost:8080', 'sec-fetch-site': 'cross-site', origin: 'http://evil.test' },
  { host: 'localhost:8080', origin: 'http://localhost:3000' },
  { host: 'localhost:8080', origin: 'null' },
  { host: 'evil.test:8080', 'sec-fetch-site': 'same-origin', origin: 'http://evil.test:8080' },
]

test.each(PAGES)('a page with %j changes nothing', async (headers) => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const before = (await server.get('/ojs/v1/events')).text
  for (const [method, url, body] of [
    ['POST', '/ojs/v1/jobs', { type: 'a', args: [] }],
    ['DELETE', `/ojs/v1/jobs/${id}`, undefined],
    ['POST', '/ojs/v1/queues/default/pause', undefined],
    ['POST', '/ojs/v1/webhooks/subscriptions', { url: 'https://evil.test', events: ['*'] }],
    ['POST', '/api/v1/apis/quote', {}],
    ['POST', '/nowhere', {}],
  ] as const) {
    const reply = await server.call(method, url, body, headers)
    const error = reply.body['error'] ?? reply.body
    expect([url, reply.status, error.code]).toEqual([url, 403, 'permission_denied'])
  }
  expect((await server.get('/ojs/v1/events')).text).toBe(before)
})

test('a page that has its own name point to this machine reads nothing', async () => {
  const server = await TestServer.open()
  const reply = await server.get('/ojs/v1/jobs', { host: 'evil.test:8080', 'sec-fetch-site': 'same-origin' })
  expect([reply.status, reply.body.error.details]).toEqual([403, { header: 'Host' }])
  expect(reply.body.error.hint).toContain('--allowed-hosts')
})

test('with a token, the token alone decides', async () => {
  const server = await TestServer.open({ token: 'secret' })
  for (const headers of PAGES) {
    const job = { type: 'a', args: [] }
    const bearer = { ...headers, authorization: 'Bearer secret' }
    expect((await server.call('POST', '/ojs/v1/jobs', job, bearer)).status).toBe(201)
    expect((await server.call('POST', '/ojs/v1/jobs', job, headers)).status).toBe(401)
    expect((await server.get('/health', headers)).status).toBe(200)
  }
  expect(ROUTES.filter(({ open, method }) => open === true && method !== 'GET')).toEqual([])
})

test('no answer lets another origin read it', async () => {
  const server = await TestServer.open()
  const page = { host: 'localhost', origin: 'http://evil.test', 'access-control-request-method': 'PUT' }
  for (const method of ['GET', 'OPTIONS', 'POST']) {
    const { headers } = await server.call(method, '/ojs/v1/jobs', undefined, page)
    expect(Object.keys(headers).filter((name) => /^access-control|^cross-origin/i.test(name))).toEqual([])
  }
})

test.each([
  ['/ojs/v1/jobs', '{"type":"a","args":[]}', 'application/json'],
  ['/ojs/v1/queues/default/pause', '{"drain":true}', 'application/json'],
  ['/api/v1/definitions/orders', 'kind: Journey', 'application/json'],
])('a body at %s that does not say what it is has to', async (url, body, media) => {
  const server = await TestServer.open()
  const method = url.startsWith('/api/') ? 'PUT' : 'POST'
  const { signal } = new AbortController()
  const { status, body: text } = await server.handler({ method, url, headers: { host: 'localhost' }, body, signal })
  expect([status, text]).toEqual([400, expect.stringContaining(`Content-Type: ${media}`)])
})

test('a call in the same process needs neither a host nor a media type', async () => {
  const server = await TestServer.open()
  const { signal } = new AbortController()
  const call = { method: 'POST', url: '/ojs/v1/jobs', headers: {}, body: '{"type":"a","args":[]}', signal }
  expect((await server.handler(call)).status).toBe(201)
})

test('hosts that are served besides loopback are named in the settings, and checked there', async () => {
  const settings = { data: ':memory:', 'allowed-hosts': 'jobs.example,.inside.example' }
  const server = await openServer({ settings })
  try {
    const ask = (host: string) =>
      server.handler({
        method: 'GET',
        url: '/ojs/v1/jobs',
        headers: { host },
        body: '',
        signal: AbortSignal.timeout(1_000),
      })
    for (const host of ['jobs.example', 'a.inside.example:8080', 'localhost'])
      expect((await ask(host)).status).toBe(200)
    expect((await ask('evil.test')).status).toBe(403)
  } finally {
    await server.close()
  }
  for (const wrong of ['http://jobs.example', 'jobs.example:8080', '*'])
    await expect(openServer({ settings: { ...settings, 'allowed-hosts': wrong } })).rejects.toThrow(SettingsError)
})

test.each([
  ['GET', '/health', 200],
  ['GET', '/metrics', 200],
  ['GET', '/ojs/manifest', 200],
  ['POST', '/ojs/v1/queues/default/pause', 200],
  ['POST', '/nowhere', 404],
])('a body that %s %s does not look at is not held in memory', async (method, url, status) => {
  const server = await TestServer.open()
  const held = (): Promise<string> => Promise.reject(new Error('the body was read into memory'))
  const headers = { host: 'localhost', 'content-type': 'application/json' }
  const { signal } = new AbortController()
  const call = { method, url, headers, body: '', signal, arriving: held, skipping: () => Promise.resolve(true) }
  expect((await server.handler(call)).status).toBe(status)
})
