/** PATCH: limits, priority and moments of a job that is waiting; in force at once. */
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const patch = (server: TestServer, id: string, body: unknown): Promise<Reply> =>
  server.call('PATCH', `/ojs/v1/jobs/${id}`, body)

test('limits are changed, echoed, counted as published, and told', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 30, total_timeout: 600 })
  const reply = await patch(server, id, { timeout: 60, grace_period: 5, options: { heartbeat_timeout: 9 } })
  expect(reply.status).toBe(200)
  expect(reply.body.job).toMatchObject({
    timeout: 60,
    grace_period: 5,
    heartbeat_timeout: 9,
    total_timeout: 600,
    x_limits: {
      timeout_ms: 60_000,
      grace_ms: 5_000,
      heartbeat_timeout_ms: 9_000,
      sources: { timeout: 'publish', grace: 'publish', heartbeat: 'publish' },
    },
  })
  expect((await server.eventTypes(id)).at(-1)).toBe('job.limits_changed')
  await server.fetch()
  await server.advance(9_000)
  expect((await server.job(id)).error.type).toBe('stalled')
})

test('a twin replaces its twin', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 30 })
  const { job } = (await patch(server, id, { timeout_ms: 1_500 })).body
  expect(job).toMatchObject({ timeout_ms: 1_500, x_limits: { timeout_ms: 1_500 } })
  expect(job).not.toHaveProperty('timeout')
})

test.each([{ timeout: null }, { timeout_ms: 0 }])(
  'after %j the next source is taken from today’s policies',
  async (body) => {
    const server = await TestServer.open()
    const id = await server.enqueue({ timeout: 30 })
    await server.call('PUT', '/api/v1/job-types/test.job', { timeout: 77 })
    const { job } = (await patch(server, id, body)).body
    expect(job.x_limits).toMatchObject({ timeout_ms: 77_000, sources: { timeout: 'type' } })
    expect(job).not.toHaveProperty('timeout')
    expect(job).not.toHaveProperty('timeout_ms')
  },
)

test('what the change does not name stays as it was settled, whatever the policies have become', async () => {
  const server = await TestServer.open()
  const policy = '/api/v1/job-types/test.job'
  await server.call('PUT', policy, {
    timeout: 50,
    total_timeout: 500,
    x_on_timeout: 'discard',
    caps: { grace_period: 9 },
  })
  const id = await server.enqueue()
  const before = (await server.job(id)).x_limits
  expect(before).toMatchObject({ timeout_ms: 50_000, on_timeout: 'discard', sources: { total: 'type' } })
  await server.call('PUT', policy, { heartbeat_timeout: 5, caps: { timeout: 5, total_timeout: 6 } })
  expect((await patch(server, id, { priority: 1 })).body.job).toMatchObject({ priority: 1, x_limits: before })
  const { x_limits: after } = (await patch(server, id, { grace_period: 20 })).body.job
  expect(after).toEqual({ ...before, grace_ms: 20_000, sources: { ...before.sources, grace: 'publish' } })
})

test('a timeout that its total held down follows the total', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ total_timeout: 60 })
  expect((await server.job(id)).x_limits.timeout_ms).toBe(60_000)
  expect((await patch(server, id, { total_timeout: 90 })).body.job.x_limits.timeout_ms).toBe(90_000)
  expect((await patch(server, id, { total_timeout: 30 })).body.job.x_limits.timeout_ms).toBe(30_000)
  expect((await patch(server, id, { total_timeout: null })).body.job.x_limits.timeout_ms).toBe(1_800_000)
})

test('a grace of 0 ms is none, not unset', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ grace_period: 30 })
  const { job } = (await patch(server, id, { grace_period_ms: 0 })).body
  expect(job.x_limits).toMatchObject({ grace_ms: 0, sources: { grace: 'publish' } })
})

test('a TTL that is already past expires the job at once, and its lateness counts from the change', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  await server.advance(60_000)
  const { job } = (await patch(server, id, { enqueue_ttl: 10 })).body
  expect(job).toMatchObject({
    state: 'discarded',
    error: { type: 'enqueue_ttl_expired', limit_seconds: 10, elapsed_seconds: 60, overshoot_ms: 0 },
  })
  expect((await server.fetch()).body.jobs).toEqual([])
})

test('a total that is already past discards at once; one that is longer gives more time', async () => {
  const server = await TestServer.open()
  const dead = await server.enqueue({ total_timeout: 600 })
  const saved = await server.enqueue({ total_timeout: 61 })
  await server.advance(60_000)
  expect((await patch(server, dead, { total_timeout: 60 })).body.job.error.type).toBe('total_timeout')
  await patch(server, saved, { total_timeout: 120 })
  await server.advance(59_999)
  expect((await server.job(saved)).state).toBe('available')
  await server.advance(1)
  expect((await server.job(saved)).error).toMatchObject({ type: 'total_timeout', limit_seconds: 120 })
})

test('the fit of a waiting retry is tested again', async () => {
  const server = await TestServer.open()
  const retry = { jitter: false, initial_interval: 'PT30S' }
  const { id } = await server.start({ timeout: 10, total_timeout: 60, retry })
  await server.nack(id)
  expect((await patch(server, id, { total_timeout: 40 })).body.job.state).toBe('retryable')
  const { job } = (await patch(server, id, { total_timeout_ms: 39_999 })).body
  expect(job).toMatchObject({ state: 'discarded', error: { type: 'total_timeout', details: { predicted: true } } })
  const types = await server.eventTypes(id)
  expect(types.slice(-3)).toEqual(['job.limits_changed', 'job.total_timeout', 'job.discarded'])
})

test('scheduled_at moves a job between scheduled and available', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ scheduled_at: '+PT1H' })
  expect((await patch(server, id, { scheduled_at: at(5_000) })).body.job).toMatchObject({
    state: 'scheduled',
    scheduled_at: at(5_000),
  })
  await server.advance(5_000)
  expect((await server.job(id)).state).toBe('available')
  const later = (await patch(server, id, { options: { delay_until: 'PT10S' } })).body.job
  expect(later).toMatchObject({ state: 'scheduled', scheduled_at: at(15_000) })
  expect(later).not.toHaveProperty('enqueued_at')
  expect((await server.fetch()).body.jobs).toEqual([])
  const now = (await patch(server, id, { scheduled_at: null })).body.job
  expect(now).toMatchObject({ state: 'available', enqueued_at: at(5_000) })
  expect((await server.eventTypes(id)).at(-1)).toBe('job.enqueued')
})

test('a poll that waits is woken by a job that is moved up', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ scheduled_at: '+PT1H' })
  const poll = server.fetch({ wait_ms: 10_000 })
  await server.advance(1_000)
  await patch(server, id, { scheduled_at: null })
  expect((await poll).body.job.id).toBe(id)
})

test('expires_at is changed, removed, and in force at once', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ expires_at: '+PT10S' })
  await patch(server, id, { expires_at: null })
  await server.advance(20_000)
  const open = await server.job(id)
  expect(open.state).toBe('available')
  expect(open).not.toHaveProperty('expires_at')
  expect((await patch(server, id, { expires_at: '2020-01-01T00:00:00Z' })).body.job).toMatchObject({
    state: 'discarded',
    expires_at: '2020-01-01T00:00:00Z',
    error: { type: 'expired' },
  })
})

test('priority changes the order, and null is 0 again', async () => {
  const server = await TestServer.open()
  const first = await server.enqueue()
  const second = await server.enqueue()
  await patch(server, second, { priority: 10 })
  expect((await server.fetch()).body.job.id).toBe(second)
  await patch(server, first, { priority: 7 })
  expect((await patch(server, first, { priority: null })).body.job.priority).toBe(0)
})

test('x_on_timeout is changed and removed', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ x_on_timeout: 'discard' })
  expect((await patch(server, id, { x_on_timeout: 'retry' })).body.job.x_limits).toMatchObject({
    on_timeout: 'retry',
    sources: { on_timeout: 'publish' },
  })
  expect((await patch(server, id, { x_on_timeout: null })).body.job.x_limits.sources.on_timeout).toBe('default')
})

const REFUSED: [string, unknown, number, string][] = [
  ['another field', { args: [] }, 400, 'args'],
  ['another field in options', { options: { queue: 'x' } }, 400, 'options.queue'],
  ['an unknown field', { x_whatever: 1 }, 400, 'x_whatever'],
  ['a zero', { timeout: 0 }, 422, 'timeout'],
  ['twins that differ', { timeout: 3, timeout_ms: 4_000 }, 422, 'timeout'],
  ['a timeout above the stored total', { timeout: 601 }, 422, 'total_timeout'],
  ['a total below the stored timeout', { total_timeout: 29 }, 422, 'total_timeout'],
  ['a priority out of range', { priority: 101 }, 400, 'priority'],
  ['a moment without a zone', { scheduled_at: '2030-01-01T00:00:00' }, 400, 'scheduled_at'],
  ['an unknown mode', { x_on_timeout: 'maybe' }, 422, 'x_on_timeout'],
]

test.each(REFUSED)('a change with %s is refused and changes nothing', async (_, body, status, field) => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 30, total_timeout: 600 })
  const before = await server.job(id)
  const reply = await patch(server, id, body)
  expect(reply.status).toBe(status)
  expect(reply.body.error.details.field).toBe(field)
  expect(await server.job(id)).toEqual(before)
  expect(await server.eventTypes(id)).toEqual(['job.enqueued'])
})

test('a change of priority alone leaves the place in the queue and the limits’ sources', async () => {
  const server = await TestServer.open()
  const first = await server.enqueue({ timeout: 5 })
  await server.enqueue()
  const { job } = (await patch(server, first, { priority: 0 })).body
  expect(job.x_limits.sources.timeout).toBe('publish')
  expect((await server.fetch()).body.job.id).toBe(first)
})

test('a job that has been tried before can be put off as well, and is then not subject to its TTL', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ enqueue_ttl: 60, retry: { jitter: false } })
  await server.nack(id)
  await server.advance(1_000)
  expect((await patch(server, id, { scheduled_at: at(100_000) })).body.job.state).toBe('scheduled')
  await server.advance(98_999)
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.advance(1)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 2 })
})

test('a change that changes nothing is not told', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 5 })
  expect((await patch(server, id, {})).status).toBe(200)
  expect(await server.eventTypes(id)).toEqual(['job.enqueued'])
})
