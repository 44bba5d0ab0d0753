/** Too old to start: enqueue_ttl and expires_at bind until the first claim and never after it. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const WAYS_TO_WAIT: [string, Record<string, unknown>][] = [
  ['scheduled', { scheduled_at: '+PT1H' }],
  ['pending', { pending: true }],
  ['available', {}],
]

test.each(WAYS_TO_WAIT)('a job that is %s expires at its TTL, not 1 ms before', async (state, job) => {
  const server = await TestServer.open()
  const id = await server.enqueue({ ...job, enqueue_ttl: 60 })
  await server.advance(59_999)
  expect((await server.job(id)).state).toBe(state)
  await server.advance(1)
  const ended = await server.job(id)
  expect(ended).toMatchObject({ state: 'discarded', attempt: 0, discarded_at: at(60_000) })
  expect(ended).not.toHaveProperty('completed_at')
  expect(ended).not.toHaveProperty('started_at')
  expect(ended.errors).toEqual([ended.error])
  expect(ended.error).toMatchObject({
    type: 'enqueue_ttl_expired',
    timeout_kind: 'enqueue_ttl',
    limit_seconds: 60,
    elapsed_seconds: 60,
    source: 'publish',
    deadline: at(60_000),
    overshoot_ms: 0,
    attempt: 0,
  })
})

test('a TTL that ran out is explained in order, with no failed attempt', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ enqueue_ttl: 60, type: 'mail.send', queue: 'mail' })
  await server.advance(60_000)
  const events = await server.events(id)
  expect(events.map(({ type }) => type)).toEqual(['job.enqueued', 'job.ttl_expired', 'job.expired', 'job.discarded'])
  const lateness = { overshoot_ms: 0, late_ms: 0, downtime_ms: 0 }
  expect(events[2]?.data).toMatchObject({ source: 'publish', worker_id: null, ...lateness })
  expect(events[1]?.data).toEqual({
    job_id: id,
    job_type: 'mail.send',
    queue: 'mail',
    timeout_kind: 'enqueue_ttl',
    limit_seconds: 60,
    limit_ms: 60_000,
    elapsed_seconds: 60,
    elapsed_ms: 60_000,
    source: 'publish',
    overshoot_ms: 0,
    late_ms: 0,
    downtime_ms: 0,
    attempt: 0,
    worker_id: null,
  })
  expect(events[2]?.data).toMatchObject({ created_at: at(0), expired_at: at(60_000), ttl_ms: 60_000 })
  expect(events[3]?.data).toMatchObject({ total_attempts: 0, last_error: { type: 'enqueue_ttl_expired' } })
})

test.each(WAYS_TO_WAIT)('a job that is %s ends at its expires_at, not 1 ms before', async (state, job) => {
  const server = await TestServer.open()
  const id = await server.enqueue({ ...job, expires_at: at(60_000) })
  await server.advance(59_999)
  expect((await server.job(id)).state).toBe(state)
  await server.advance(1)
  const ended = await server.job(id)
  expect(ended).toMatchObject({ state: 'discarded', error: { type: 'expired', deadline: at(60_000), attempt: 0 } })
  expect(ended).not.toHaveProperty('completed_at')
  expect(ended.error).not.toHaveProperty('timeout_kind')
  expect((await server.eventTypes(id)).filter((type) => !/enqueued|scheduled/.test(type))).toEqual([
    'job.expired',
    'job.discarded',
  ])
})

test('the earlier of TTL and expires_at wins', async () => {
  const server = await TestServer.open()
  const ttl = await server.enqueue({ enqueue_ttl: 10, expires_at: '+PT20S' })
  const expiry = await server.enqueue({ enqueue_ttl: 20, expires_at: '+PT10S' })
  await server.advance(10_000)
  expect((await server.job(ttl)).error.type).toBe('enqueue_ttl_expired')
  expect((await server.job(expiry)).error.type).toBe('expired')
})

test('the first claim ends both clocks, for ever: neither binds an attempt nor the wait after it', async () => {
  const server = await TestServer.open()
  const { id, x_limits } = await server.start({
    enqueue_ttl: 10,
    expires_at: '+PT10S',
    retry: { jitter: false, initial_interval: 'PT20S' },
  })
  expect(x_limits).not.toHaveProperty('ttl_deadline')
  await server.advance(15_000)
  expect((await server.job(id)).state).toBe('active')
  await server.nack(id)
  await server.advance(20_000)
  expect((await server.job(id)).state).toBe('available')
  await server.advance(3_600_000)
  expect((await server.job(id)).state).toBe('available')
})

test('a job handed back untouched is not subject to its TTL again', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ enqueue_ttl: 10 })
  await server.post('/ojs/v1/workers/nack', { job_id: id, requeue: true })
  await server.advance(60_000)
  expect((await server.job(id)).state).toBe('available')
})

test('an expired candidate is discarded and skipped by the fetch that meets it', async () => {
  const server = await TestServer.open()
  const old = await server.enqueue({ enqueue_ttl: 10, priority: 50 })
  const fresh = await server.enqueue()
  await server.advance(10_000)
  expect((await server.fetch({ count: 5 })).body.jobs.map(({ id }) => id)).toEqual([fresh])
  expect((await server.job(old)).state).toBe('discarded')
})

test('an expired job is never dead-lettered, whatever the policy says', async () => {
  const server = await TestServer.open()
  const retry = { on_exhaustion: 'dead_letter' }
  await server.enqueue({ enqueue_ttl: 10, retry })
  await server.enqueue({ expires_at: '+PT10S', retry })
  await server.advance(10_000)
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('an expires_at in the past is accepted and the job discarded at once', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], expires_at: '2020-01-01T00:00:00Z' })
  expect(reply.status).toBe(201)
  expect(reply.body.job).toMatchObject({
    state: 'discarded',
    expires_at: '2020-01-01T00:00:00Z',
    error: { type: 'expired', overshoot_ms: 0 },
  })
})

test('a TTL that ends before scheduled_at is accepted with a warning, and expires', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], enqueue_ttl: 10, scheduled_at: '+PT20S' })
  expect(reply.status).toBe(201)
  expect(reply.body.job.x_warnings).toHaveLength(1)
  await server.advance(10_000)
  expect((await server.job(reply.body.job.id)).error.type).toBe('enqueue_ttl_expired')
})

test('a paused queue ages its jobs like any other', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/queues/default/pause')
  const ttl = await server.enqueue({ enqueue_ttl: 10 })
  const total = await server.enqueue({ total_timeout: 10 })
  await server.advance(10_000)
  expect((await server.job(ttl)).error.type).toBe('enqueue_ttl_expired')
  expect((await server.job(total)).error.type).toBe('total_timeout')
})

test('expiries are counted: TTL as a timeout and both as expired', async () => {
  const server = await TestServer.open()
  await server.enqueue({ enqueue_ttl: 10 })
  await server.enqueue({ expires_at: '+PT10S' })
  await server.advance(10_000)
  const labels = { queue: 'default', job_type: 'test.job' }
  expect(await server.metric('ojs_job_timeout_count_total', { ...labels, timeout_kind: 'enqueue_ttl' })).toBe(1)
  expect(await server.metric('ojs_job_expired_total', { queue: 'default', type: 'test.job' })).toBe(2)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'enqueue_ttl' })).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'expires_at' })).toBe(1)
  expect(await server.metric('ojs_job_failed_total', { queue: 'default', type: 'test.job' })).toBe(0)
})
