/** Policies of types, defaults of queues, and what a handler may bring: how they are set and refused. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const put = (server: TestServer, type: string, body: unknown) => server.call('PUT', `/api/v1/job-types/${type}`, body)
const configure = (server: TestServer, body: unknown, queue = 'default') =>
  server.call('PUT', `/ojs/v1/admin/queues/${queue}/config`, body)

test('a type’s policy is stored as sent, listed, read back and removed', async () => {
  const server = await TestServer.open()
  const policy = { timeout: 30, total_timeout_ms: 90_000, x_on_timeout: 'discard', caps: { timeout: 60 } }
  const stored = await put(server, 'video.cut', policy)
  expect(stored.status).toBe(200)
  expect(stored.headers['Content-Type']).toBe('application/json')
  expect(stored.body).toMatchObject({ type: 'video.cut', ...policy })
  expect((await server.get('/api/v1/job-types/video.cut')).body).toMatchObject(policy)
  expect((await server.get('/api/v1/job-types')).body.items).toMatchObject([{ type: 'video.cut' }])
  expect((await server.call('DELETE', '/api/v1/job-types/video.cut')).status).toBe(200)
  const gone = await server.get('/api/v1/job-types/video.cut')
  expect(gone.status).toBe(404)
  expect(gone.body).toMatchObject({
    detail: 'There is no job type policy with this name.',
    hint: 'Check the name.',
    resource_id: 'video.cut',
  })
  expect((await server.call('DELETE', '/api/v1/job-types/video.cut')).status).toBe(404)
  expect((await server.get('/api/v1/job-types')).body).toEqual({ items: [] })
})

test('a PUT replaces the policy, it does not merge', async () => {
  const server = await TestServer.open()
  await put(server, 'a', { timeout: 30, grace_period: 5 })
  await put(server, 'a', { timeout: 40 })
  const { body } = await server.get('/api/v1/job-types/a')
  expect(body.timeout).toBe(40)
  expect(body).not.toHaveProperty('grace_period')
})

const BAD_POLICIES: [string, unknown, number, string][] = [
  ['an unknown key', { timeuot: 3 }, 400, 'timeuot'],
  ['an unknown cap', { caps: { patience: 3 } }, 400, 'caps.patience'],
  ['a mode among the caps', { caps: { x_on_timeout: 'retry' } }, 400, 'caps.x_on_timeout'],
  ['a zero', { timeout: 0 }, 422, 'timeout'],
  ['a fraction', { timeout: 1.5 }, 422, 'timeout'],
  ['a string', { heartbeat_timeout: '5' }, 422, 'heartbeat_timeout'],
  ['a negative grace', { grace_period: -1 }, 422, 'grace_period'],
  ['a total shorter than the timeout', { timeout: 10, total_timeout: 9 }, 422, 'total_timeout'],
  ['twins that differ', { timeout: 10, timeout_ms: 9_000 }, 422, 'timeout'],
  ['an unknown mode', { x_on_timeout: 'explode' }, 422, 'x_on_timeout'],
  ['a length beyond ten years', { timeout: 315_360_001 }, 422, 'timeout'],
  ['a bad cap', { caps: { timeout: 0 } }, 422, 'caps.timeout'],
  ['a timeout that ends every job', { timeout_ms: 1 }, 422, 'timeout_ms'],
  ['a cap that ends every job', { caps: { total_timeout_ms: 99 } }, 422, 'caps.total_timeout_ms'],
  ['a reservation that ends at once', { visibility_timeout: 'PT0.01S' }, 422, 'visibility_timeout'],
]

test.each(BAD_POLICIES)(
  'a policy with %s is refused as a problem, and nothing is stored',
  async (_, body, status, field) => {
    const server = await TestServer.open()
    const reply = await put(server, 'a', body)
    expect(reply.status).toBe(status)
    expect(reply.headers['Content-Type']).toBe('application/problem+json')
    expect(reply.body).toMatchObject({ status, field, detail: expect.any(String), request_id: expect.any(String) })
    expect((await server.get('/api/v1/job-types')).body.items).toEqual([])
  },
)

test('a policy for a name that is not a type is refused', async () => {
  const server = await TestServer.open()
  const reply = await put(server, 'UPPER', {})
  expect([reply.status, reply.headers['Content-Type']]).toEqual([400, 'application/problem+json'])
  expect((await put(server, 'a', '[]')).status).toBe(400)
  expect((await put(server, 'a', '{')).body).toMatchObject({ status: 400, code: 'invalid_payload' })
})

test('queue defaults merge by key; null removes; a twin replaces its twin', async () => {
  const server = await TestServer.open()
  await configure(server, { default_timeout: 30, default_grace_period: 5, default_x_on_timeout: 'discard' })
  const merged = await configure(server, { default_timeout_ms: 40_000, default_grace_period: null })
  expect(merged.status).toBe(200)
  expect(merged.body.config).toEqual({ default_timeout_ms: 40_000, default_x_on_timeout: 'discard' })
  expect((await server.get('/ojs/v1/admin/queues/default')).body.config).toEqual(merged.body.config)
  expect((await server.job(await server.enqueue())).x_limits).toMatchObject({
    timeout_ms: 40_000,
    on_timeout: 'discard',
    sources: { timeout: 'queue', on_timeout: 'queue' },
  })
})

const BAD_CONFIGS: [string, unknown, number, string][] = [
  ['an unknown key', { timeout: 3 }, 400, 'timeout'],
  ['a zero', { default_timeout: 0 }, 422, 'default_timeout'],
  ['a fraction', { default_enqueue_ttl: 0.5 }, 422, 'default_enqueue_ttl'],
  ['an unknown mode', { default_x_on_timeout: 'x' }, 422, 'default_x_on_timeout'],
  ['a timeout that ends every job', { default_timeout_ms: 99 }, 422, 'default_timeout_ms'],
  ['a total shorter than the stored timeout', { default_total_timeout: 29 }, 422, 'default_total_timeout'],
]

test.each(BAD_CONFIGS)(
  'a queue’s configuration with %s is refused and changes nothing',
  async (_, body, status, field) => {
    const server = await TestServer.open()
    await configure(server, { default_timeout: 30 })
    const reply = await configure(server, body)
    expect(reply.status).toBe(status)
    expect(reply.body.error.details.field).toBe(field)
    expect((await server.get('/ojs/v1/admin/queues/default')).body.config).toEqual({ default_timeout: 30 })
  },
)

test('configuring a paused queue leaves it paused', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/queues/default/pause')
  await configure(server, { default_timeout: 30 })
  expect((await server.get('/ojs/v1/queues/default')).body.queue).toMatchObject({ paused: true, status: 'paused' })
})

const BAD_HANDLERS: [string, unknown, number, string][] = [
  ['a total', { total_timeout: 60 }, 422, 'handlers.a.total_timeout'],
  ['a total in milliseconds', { total_timeout_ms: 60_000 }, 422, 'handlers.a.total_timeout_ms'],
  ['an unknown key', { enqueue_ttl: 60 }, 400, 'handlers.a.enqueue_ttl'],
  ['a zero', { timeout: 0 }, 422, 'handlers.a.timeout'],
  ['an unknown mode', { x_on_timeout: 'no' }, 422, 'handlers.a.x_on_timeout'],
]

test.each(BAD_HANDLERS)('a registration whose handler brings %s is refused whole', async (_, limits, status, field) => {
  const server = await TestServer.open()
  const reply = await server.register('w', { handlers: { a: limits } })
  expect(reply.status).toBe(status)
  expect(reply.body.error.details.field).toBe(field)
  expect((await server.get('/ojs/v1/workers')).body.workers).toEqual([])
})

test('the refusal of a handler’s total explains why', async () => {
  const server = await TestServer.open()
  const reply = await server.register('w', { handlers: { a: { total_timeout: 60 } } })
  expect(reply.body.error.message).toMatch(/whole life/)
})

// ---- x_on_timeout ----

const DISCARD = { x_on_timeout: 'discard', timeout: 10, retry: { max_attempts: 5, on_exhaustion: 'dead_letter' } }

test('with x_on_timeout discard a timeout ends the job: no retry, no dead letter, kept like a completed job', async () => {
  const server = await TestServer.open()
  const { id } = await server.start(DISCARD)
  await server.advance(10_000)
  expect(await server.job(id)).toMatchObject({
    state: 'discarded',
    attempt: 1,
    error: { type: 'timeout' },
    x_purge_at: new Date(server.clock.now() + 7 * 86_400_000).toISOString(),
  })
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.timeout', 'job.failed', 'job.discarded'])
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('a timeout the worker reports obeys x_on_timeout as well', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ ...DISCARD, grace_period: 5 })
  await server.advance(10_000)
  expect((await server.nack(id, { type: 'timeout', message: 'slow' })).body.state).toBe('discarded')
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('x_on_timeout discard comes before everything the policy says, but not before a hand-back', async () => {
  const server = await TestServer.open()
  const { id } = await server.start(DISCARD)
  const reply = await server.nack(id, { type: 'timeout', message: 'slow' }, { requeue: true })
  expect(reply.body.state).toBe('available')
})

test('x_on_timeout says nothing about stalls, lapses, deaths and plain failures', async () => {
  const server = await TestServer.open()
  const discard = { x_on_timeout: 'discard', retry: { jitter: false } }
  const stalled = await server.start({ ...discard, heartbeat_timeout: 10, timeout: 600 })
  const lapsed = await server.start({ ...discard, visibility_timeout: 10, timeout: 600 })
  const failed = await server.start({ ...discard, timeout: 600 })
  await server.nack(failed.id)
  await server.advance(10_000)
  const states = await Promise.all([stalled, lapsed, failed].map(async ({ id }) => (await server.job(id)).state))
  expect(states).toEqual(['retryable', 'available', 'available'])
})

test('x_on_timeout follows the same order of sources', async () => {
  const server = await TestServer.open()
  await server.register('w', { handlers: { 'by.handler': { x_on_timeout: 'discard' } } })
  await put(server, 'by.handler', { x_on_timeout: 'retry' })
  await put(server, 'by.type', { x_on_timeout: 'discard' })
  const shown = async (job: Record<string, unknown>) => {
    const { x_limits } = await server.start(job, { worker_id: 'w' })
    return [x_limits.on_timeout as string, x_limits.sources.on_timeout as string]
  }
  expect(await shown({ type: 'by.handler' })).toEqual(['discard', 'handler'])
  expect(await shown({ type: 'by.handler', x_on_timeout: 'retry' })).toEqual(['retry', 'publish'])
  expect(await shown({ type: 'by.type' })).toEqual(['discard', 'type'])
  expect(await shown({})).toEqual(['retry', 'default'])
})
