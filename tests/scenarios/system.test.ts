/** The server about itself: manifest, health, readiness, metrics, and what it says when its store fails. */
import { expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import type { SharedClock, Store } from '../../packages/server/src/store/store.ts'
import { at, TestServer } from '../harness.ts'
import { breakable, openTestStore } from '../stores.ts'

/** A store whose clock is the judge. */
function judgedBy(store: Store, clock: SharedClock): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = name === 'clock' ? clock : Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

test('the manifest says what is offered, in booleans and strings', async () => {
  const server = await TestServer.open()
  const { status, body } = await server.get('/ojs/manifest')
  expect(status).toBe(200)
  expect(body).toMatchObject({
    specversion: '1.0',
    ojs_version: '1.0',
    implementation: { name: 'curfew', version: expect.any(String), language: 'typescript' },
    conformance_level: expect.any(Number),
    protocols: ['http'],
    x_timeout_defaults: { timeout: 1800, grace_period: 30, heartbeat_timeout: 60, visibility_timeout: 1800 },
    x_event_delivery: 'at-least-once',
  })
  for (const value of Object.values(body.capabilities as object)) expect(value).toBeTypeOf('boolean')
  expect(body.extensions).toEqual(
    expect.arrayContaining([
      'urn:ojs:ext:timeouts',
      'urn:curfew:ext:exchange',
      'urn:curfew:ext:orders',
      'urn:curfew:ext:long-poll',
      'urn:curfew:ext:limits',
      'urn:curfew:ext:bulk-enqueue',
      'urn:curfew:ext:job-filters',
      'urn:curfew:ext:journeys',
    ]),
  )
  expect(body.x_limits).toMatchObject({ batch_jobs: 10_000, bulk_jobs: 1_000, exchange_reports: 1_000 })
})

test.each(['/ojs/v1/health', '/health', '/healthz'])('%s tells of store, queues and workers', async (path) => {
  const server = await TestServer.open()
  await server.register('w')
  await server.enqueue()
  await server.post('/ojs/v1/queues/other/pause')
  await server.advance(16_000)
  const { status, body } = await server.get(path)
  expect(status).toBe(200)
  expect(body).toMatchObject({
    status: 'ok',
    version: '1.0',
    uptime_seconds: 16,
    backend: { status: 'ok', type: expect.any(String), latency_ms: expect.any(Number) },
    queues: { active: 1, paused: 1 },
    workers: { connected: 1, stale: 1 },
  })
})

test.each(['/ready', '/readyz'])('%s is ready', async (path) => {
  const server = await TestServer.open()
  expect(await server.get(path)).toMatchObject({ status: 200, body: { status: 'ready' } })
})

test('when the store cannot serve, everything says so, and nothing is lost when it can again', async () => {
  const { store, fails } = breakable(await openTestStore())
  const server = await TestServer.open({ store })
  const id = await server.enqueue()
  fails(true)
  const refused = await server.post('/ojs/v1/jobs', { type: 'a', args: [] })
  expect(refused.status).toBe(503)
  expect(refused.headers['Retry-After']).toBe('1')
  expect(refused.body.error).toMatchObject({ code: 'unavailable', retryable: true })
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(503)
  expect((await server.get('/ojs/v1/workers')).status).toBe(503)
  expect(await server.get('/health')).toMatchObject({
    status: 503,
    body: { status: 'degraded', backend: { status: 'unhealthy', reason: 'the disk is full' } },
  })
  expect(await server.get('/ready')).toMatchObject({ status: 503, body: { status: 'not_ready' } })
  await server.advance(5_000)
  fails(false)
  await server.advance(2_000)
  expect((await server.get('/ready')).status).toBe(200)
  expect((await server.get('/health')).body.status).toBe('ok')
  expect((await server.fetch()).body.job.id).toBe(id)
})

test('deadlines that passed while the store failed are settled as soon as it serves again', async () => {
  const { store, fails } = breakable(await openTestStore())
  const server = await TestServer.open({ store })
  const { id } = await server.start({ timeout: 10, retry: { max_attempts: 1 } })
  fails(true)
  await server.advance(20_000)
  fails(false)
  await server.advance(1_000)
  const { error } = await server.job(id)
  expect(error).toMatchObject({ type: 'timeout', deadline: at(10_000) })
  expect(error.overshoot_ms).toBeGreaterThanOrEqual(10_000)
  expect(error.overshoot_ms).toBeLessThanOrEqual(11_000)
})

test('a start that the store fails leaves nothing behind that would keep the process alive', async () => {
  let calls = 0
  for (let isOpen = false; !isOpen; calls += 1) {
    const clock = new FakeClock()
    const { store } = breakable(await openTestStore(), calls)
    const started = TestServer.open({ store, clock })
    const outcome = await started.then(
      (server) => server.close().then(() => 'open'),
      () => 'refused',
    )
    isOpen = outcome === 'open'
    await store.close()
    expect([calls, clock.nextTimerAt()]).toEqual([calls, null])
  }
  expect(calls).toBeGreaterThan(4)
})

test('a server that closes is not ready and refuses', async () => {
  const server = await TestServer.open()
  await server.close()
  expect((await server.get('/ready')).status).toBe(503)
  expect((await server.post('/ojs/v1/jobs', { type: 'a', args: [] })).status).toBe(503)
})

test('metrics are Prometheus text, in the media type that was asked for', async () => {
  const server = await TestServer.open()
  await server.enqueue({ queue: 'q', type: 'a' })
  const reply = await server.get('/metrics')
  expect(reply.headers['Content-Type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect((await server.get('/metrics', { accept: 'text/plain' })).headers['Content-Type']).toBe('text/plain')
  for (const line of reply.text.split('\n')) {
    expect(line).toMatch(/^(#.*|[a-z_]+(\{([a-z_]+="[^"]*",?)*\})? [-+0-9.eInfNa]+|)$/)
  }
  const helped = reply.text.match(/^# TYPE (\S+)/gm) ?? []
  expect(new Set(helped).size).toBe(helped.length)
})

const NAMES = [
  'ojs_job_timeout_count_total counter',
  'ojs_job_execution_duration_seconds histogram',
  'ojs_job_heartbeat_age_seconds gauge',
  'ojs_job_enqueue_wait_time_seconds histogram',
  'ojs_job_enqueued_total counter',
  'ojs_job_completed_total counter',
  'ojs_job_failed_total counter',
  'ojs_job_retried_total counter',
  'ojs_job_cancelled_total counter',
  'ojs_job_expired_total counter',
  'ojs_job_duration_seconds histogram',
  'ojs_job_queue_time_seconds histogram',
  'ojs_queue_depth gauge',
  'ojs_dead_letter_depth gauge',
  'ojs_workers_active gauge',
  'ojs_workers_busy gauge',
  'ojs_worker_deaths_total counter',
  'ojs_job_visibility_expired_total counter',
  'curfew_deadline_overshoot_seconds histogram',
  'curfew_late_results_total counter',
  'curfew_clock_offset_seconds gauge',
  'curfew_commit_batch_size histogram',
]

test('every metric is there from the start, with its type', async () => {
  const server = await TestServer.open()
  const { text } = await server.get('/metrics')
  for (const name of NAMES) expect(text).toContain(`# TYPE ${name}`)
})

test('new jobs are counted once, never their returns', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10, queue: 'q', type: 'a' })
  await server.advance(10_000)
  await server.fetch({ queues: ['q'] })
  await server.nack(id, { message: 'x' }, { requeue: true })
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
  await server.enqueue({ queue: 'q', type: 'a', pending: true })
  expect(await server.metric('ojs_job_enqueued_total', { queue: 'q', type: 'a' })).toBe(2)
})

test('new jobs that come together are counted by queue and type', async () => {
  const server = await TestServer.open()
  const kinds = [
    { queue: 'q', type: 'a' },
    { queue: 'q', type: 'b' },
    { queue: 'r', type: 'a' },
  ]
  const jobs = [0, 1, 0, 2, 0, 1].map((kind) => ({ ...kinds[kind], args: [] }))
  await server.post('/ojs/v1/jobs/batch', { jobs })
  const counted = await Promise.all(kinds.map((kind) => server.metric('ojs_job_enqueued_total', kind)))
  expect(counted).toEqual([3, 2, 1])
})

test('waits are measured: before the first attempt, and before each', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ queue: 'q', type: 'a', retry: { jitter: false } })
  await server.advance(3_000)
  await server.fetch({ queues: ['q'] })
  await server.nack(id)
  await server.advance(5_000)
  await server.fetch({ queues: ['q'] })
  expect(await server.metric('ojs_job_enqueue_wait_time_seconds_count', { queue: 'q' })).toBe(1)
  expect(await server.metric('ojs_job_enqueue_wait_time_seconds_sum', { queue: 'q' })).toBe(3)
  expect(await server.metric('ojs_job_queue_time_seconds_count', { queue: 'q', type: 'a' })).toBe(2)
  expect(await server.metric('ojs_job_queue_time_seconds_sum', { queue: 'q', type: 'a' })).toBe(7)
})

test("where the database's clock is the judge, health and metrics tell how well it is known, and why not", async () => {
  const host = new FakeClock()
  let reason: string | null = null
  const clock: SharedClock = {
    now: () => host.now(),
    offset: () => ({ ms: -7, errorMs: 3 }),
    distrust: () => reason,
  }
  const store = judgedBy(await openTestStore(), clock)
  const server = await TestServer.open({ store, clock: host })
  const { body } = await server.get('/health')
  expect(body).toMatchObject({ status: 'ok', clock_offset_ms: 0, clock_error_ms: 3 })
  expect(body).not.toHaveProperty('clock_distrusted')
  expect((await server.get('/metrics')).text).toMatch(/^curfew_clock_error_seconds 0\.003$/m)
  reason = 'it has leapt'
  expect((await server.get('/health')).body).toMatchObject({ clock_error_ms: 3, clock_distrusted: 'it has leapt' })
  await server.close()
})
