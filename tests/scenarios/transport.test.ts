/** What every call and every answer has, whatever it is about. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const OJS = 'application/openjobspec+json'

test('every answer has the exact media type, the version and a request id', async () => {
  const server = await TestServer.open()
  const replies = [
    await server.get('/ojs/manifest'),
    await server.post('/ojs/v1/jobs', { type: 'a', args: [] }),
    await server.get('/ojs/v1/jobs/nope'),
    await server.post('/ojs/v1/jobs', '{'),
    await server.get('/nowhere'),
    await server.call('PUT', '/ojs/v1/jobs'),
  ]
  for (const { headers } of replies) {
    expect(headers['Content-Type']).toBe(OJS)
    expect(headers['OJS-Version']).toBe('1.0')
    expect(headers['X-Request-Id']).toMatch(/^req_[0-9a-f-]{36}$/)
  }
})

test('a request id is echoed, in the error too; one that cannot be a header is replaced', async () => {
  const server = await TestServer.open()
  const reply = await server.get('/ojs/v1/jobs/nope', { 'x-request-id': 'mine-42' })
  expect(reply.headers['X-Request-Id']).toBe('mine-42')
  expect(reply.body.error.request_id).toBe('mine-42')
  const odd = await server.get('/ojs/v1/jobs/nope', { 'x-request-id': 'a\r\nSet-Cookie: x' })
  expect(odd.headers['X-Request-Id']).toMatch(/^req_/)
})

test('an error has one shape', async () => {
  const server = await TestServer.open()
  const { body } = await server.get('/ojs/v1/jobs/nope')
  expect(body).toEqual({
    error: {
      code: 'not_found',
      type: 'not_found',
      message: expect.any(String),
      retryable: false,
      details: { resource_type: 'job', resource_id: 'nope' },
      request_id: expect.any(String),
      hint: expect.any(String),
      docs_url: expect.stringMatching(/^https:/),
    },
  })
})

test.each([
  ['1.0', 201],
  ['1', 201],
  ['1.7', 201],
  ['2.0', 422],
  ['10.0', 422],
  ['0.9', 422],
  ['x', 422],
])('OJS-Version %s is answered with %i', async (version, status) => {
  const server = await TestServer.open()
  const reply = await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, { 'ojs-version': version })
  expect(reply.status).toBe(status)
  if (status === 422) expect(reply.body.error.code).toBe('unsupported')
})

test.each([
  ['application/json', 201],
  ['application/json; charset=utf-8', 201],
  ['Application/OpenJobSpec+JSON; v=1', 201],
  ['text/plain', 400],
  ['application/xml', 400],
])('a body sent as %s is answered with %i', async (media, status) => {
  const server = await TestServer.open()
  const reply = await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, { 'content-type': media })
  expect(reply.status).toBe(status)
  if (status === 400) expect(reply.body.error.code).toBe('invalid_request')
})

test('a body that is not needed is not looked at, but has to be of a media type that is taken', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ pending: true })
  const activate = `/ojs/v1/jobs/${id}/activate`
  const odd = await server.call('POST', activate, 'not json', { 'content-type': 'text/plain' })
  expect([odd.status, odd.body.error.code]).toEqual([400, 'invalid_request'])
  expect((await server.call('POST', activate, 'not json')).status).toBe(200)
  expect((await server.call('POST', '/ojs/v1/queues/default/pause')).status).toBe(200)
  expect((await server.call('GET', `/ojs/v1/jobs/${id}`)).status).toBe(200)
  expect((await server.call('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
})

test.each([
  '/ojs/v1/jobs',
  '/ojs/v1/jobs/batch',
  '/ojs/v1/workers/ack',
  '/ojs/v1/workers/nack',
  '/ojs/v1/workers/fetch',
])('an empty body at %s, which needs one, is invalid_payload', async (path) => {
  const server = await TestServer.open()
  const reply = await server.post(path)
  expect([reply.status, reply.body.error.code]).toEqual([400, 'invalid_payload'])
})

test('a path that takes other methods says which', async () => {
  const server = await TestServer.open()
  const reply = await server.call('PUT', '/ojs/v1/jobs')
  expect([reply.status, reply.body.error.code]).toEqual([405, 'method_not_allowed'])
  expect(reply.headers['Allow']?.split(', ').sort()).toEqual(['GET', 'POST'])
  for (const method of ['ASSERT', 'push', 'get']) {
    expect((await server.call(method, '/ojs/v1/jobs')).status).toBe(405)
  }
})

test.each(['/ojs/v1', '/ojs/v1/nothing', '/ojs/v1/jobs/', '/ojs/v1/jobs/%zz', '/ojs/v1//jobs', '/OJS/v1/jobs'])(
  'there is nothing at %s',
  async (path) => {
    const server = await TestServer.open()
    const reply = await server.get(path)
    expect([reply.status, reply.body.error.code]).toEqual([404, 'not_found'])
  },
)

test('names in a path are decoded', async () => {
  const server = await TestServer.open()
  await server.register('a b/c')
  expect((await server.get('/ojs/v1/workers/a%20b%2Fc')).body.worker_id).toBe('a b/c')
})

test('with a token nothing is open but what tells of the server’s health', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const closed = await server.get('/ojs/v1/jobs')
  expect([closed.status, closed.body.error.code]).toEqual([401, 'unauthenticated'])
  expect((await server.get('/ojs/v1/jobs', { authorization: 'Bearer secret' })).status).toBe(200)
  expect((await server.post('/ojs/v1/admin/reset')).status).toBe(401)
  for (const path of ['/ojs/manifest', '/health', '/healthz', '/ojs/v1/health', '/ready', '/readyz', '/metrics']) {
    expect((await server.get(path)).status).toBe(200)
  }
})

test('who sends no token hears that one is needed, who sends a wrong one that it is wrong', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const refused = async (headers: Record<string, string>) => {
    const { status, body } = await server.get('/ojs/v1/jobs', headers)
    expect([status, body.error.code]).toEqual([401, 'unauthenticated'])
    return body.error.message as string
  }
  expect(await refused({})).toBe('A token is needed.')
  expect(await refused({ authorization: 'Basic c2VjcmV0' })).toBe('A token is needed.')
  expect(await refused({ authorization: 'Bearer wrong' })).toBe('The token that was sent is not valid.')
})

test('under /api everything that is refused is a problem', async () => {
  const server = await TestServer.open({ token: 'secret' })
  const token = { authorization: 'Bearer secret' }
  const replies = [
    await server.get('/api/v1/job-types'),
    await server.get('/api/v1/nothing', token),
    await server.call('POST', '/api/v1/job-types', {}, token),
    await server.get('/api/v1/job-types/nope', token),
  ]
  expect(replies.map(({ status }) => status)).toEqual([401, 404, 405, 404])
  for (const { status, headers, body } of replies) {
    expect(headers['Content-Type']).toBe('application/problem+json')
    expect(body).toMatchObject({ status, title: expect.any(String), detail: expect.any(String) })
  }
})
