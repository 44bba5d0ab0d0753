/** Workers come and go: register, register again, deregister, and what happens to what they hold. */
import { expect, test } from 'vitest'
import { millis } from '@curfew/core'
import { at, TestServer, type Reply } from '../harness.ts'

const WHOLE = { worker_id: 'w', hostname: 'host', pid: 7, queues: ['a', 'b'], concurrency: 3 }

test('a registration is answered with the times to keep', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/workers/register', {
    ...WHOLE,
    labels: ['x'],
    started_at: '2025-06-01T08:00:00Z',
  })
  expect(reply.status).toBe(200)
  expect(reply.body).toEqual({
    ok: true,
    worker_id: 'w',
    server_time: at(0),
    heartbeat_interval: 5,
    heartbeat_interval_ms: 5_000,
    heartbeat_timeout: 30,
    heartbeat_timeout_ms: 30_000,
    visibility_timeout_default: 1800,
    job_heartbeat_timeout_default: 60,
  })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({
    ...WHOLE,
    labels: ['x'],
    state: 'running',
    directive: 'continue',
    active_jobs: 0,
    active_job_ids: [],
    started_at: '2025-06-01T08:00:00Z',
    last_heartbeat_at: null,
    registered: true,
  })
  expect(await server.eventTypes('w')).toEqual(['worker.started'])
})

test('the times to keep are whole seconds, rounded up, with the exact ones beside them', async () => {
  const server = await TestServer.open({
    settings: { heartbeatIntervalMs: millis(250), workerTimeoutMs: millis(2_001) },
  })
  expect((await server.register('w')).body).toMatchObject({
    heartbeat_interval: 1,
    heartbeat_interval_ms: 250,
    heartbeat_timeout: 3,
    heartbeat_timeout_ms: 2_001,
  })
})

test('a heartbeat timeout below four intervals is warned of: in a registration, an enqueue and a plan', async () => {
  const server = await TestServer.open()
  const handlers = { a: { heartbeat_timeout: 19 }, b: { heartbeat_timeout: 20 }, c: { timeout: 5 } }
  expect((await server.register('w', { handlers })).body['x_warnings']).toEqual([
    'heartbeat_timeout of the handler for "a" is 19 s (set by the worker\'s handler), less than 4 heartbeat intervals of 5 s: workers that beat at that interval may be taken for stalled. Set it to at least 20 s, or shorten workers.heartbeat-interval.',
  ])
  expect((await server.register('w', { handlers: { b: handlers.b } })).body).not.toHaveProperty('x_warnings')
  await server.call('PUT', '/api/v1/job-types/a', { heartbeat_timeout: 3 })
  const { body } = await server.post('/ojs/v1/jobs', { type: 'a', args: [] })
  const warning = expect.stringMatching(
    /^heartbeat_timeout is 3 s \(set by the job type\), less than 4 .* intervals of 5 s/,
  )
  expect(body.job['x_warnings']).toEqual([warning])
  expect((await server.post('/ojs/v1/jobs/plan', { type: 'a', args: [] })).body.warnings).toEqual([warning])
  expect((await server.post('/ojs/v1/jobs', { type: 'b', args: [] })).body.job).not.toHaveProperty('x_warnings')
})

test.each(Object.keys(WHOLE))('a registration without %s is refused', async (field) => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/workers/register', { ...WHOLE, [field]: null })
  expect(reply.status).toBe(400)
  expect(reply.body.error.details.field).toBe(field)
})

const BAD: [string, unknown][] = [
  ['worker_id', 'bad\u0007id'],
  ['worker_id', 'line\nbreak'],
  ['worker_id', '\u009bcsi'],
  ['worker_id', ''],
  ['worker_id', 5],
  ['pid', 1.5],
  ['queues', []],
  ['queues', ['UPPER']],
  ['concurrency', 0],
  ['started_at', 'x'],
  ['started_at', ''],
  ['started_at', 5],
  ['started_at', '2025-06-31T08:00:00Z'],
  ['started_at', '2025-06-01'],
  ['started_at', '+PT5S'],
]

test.each([
  '2025-06-01T08:00:00Z',
  '2025-06-01T09:00:01.456Z',
  '2025-06-01T09:00:01.123456789+02:00',
  '2025-06-01 09:00:01+00:00',
  '2025-06-01T09:00:01.123456',
  null,
])('a worker may have started at %s, and is shown so', async (started_at) => {
  const server = await TestServer.open()
  expect((await server.post('/ojs/v1/workers/register', { ...WHOLE, started_at })).status).toBe(200)
  expect((await server.get('/ojs/v1/workers/w')).body.started_at).toBe(started_at)
  expect((await server.beat('v', [], { started_at })).status).toBe(200)
})

test('a beat with a bad start of its worker is refused too', async () => {
  const server = await TestServer.open()
  const reply = await server.beat('w', [], { started_at: 'x' })
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'started_at'])
})

test.each(BAD)('a registration with a bad %s (%j) is refused', async (field, value) => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/workers/register', { ...WHOLE, [field]: value })
  expect(reply.status).toBe(400)
  expect(reply.body.error.details.field).toMatch(new RegExp(`^${field}`))
  expect((await server.get('/ojs/v1/workers')).body.workers).toEqual([])
})

test.each(['fetch', 'heartbeat', 'ack', 'nack', 'deregister'])(
  'a worker_id with control characters is refused by %s',
  async (call) => {
    const server = await TestServer.open()
    const { id } = await server.start()
    const body = { worker_id: 'a\u0000b', queues: ['default'], job_id: id, error: { message: 'x' } }
    const reply = await server.post(`/ojs/v1/workers/${call}`, body)
    expect(reply.status).toBe(400)
    expect(reply.body.error.details.field).toBe('worker_id')
  },
)

test('registering again replaces the record; the jobs it holds stay its own', async () => {
  const server = await TestServer.open()
  await server.register('w', { labels: ['old'], handlers: { 'test.job': { timeout: 5 } } })
  const { id } = await server.start({ timeout: 100 }, { worker_id: 'w' })
  await server.beat('w', [id])
  await server.register('w', { pid: 99 })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ pid: 99, labels: [], active_job_ids: [] })
  expect((await server.start({}, { worker_id: 'w' })).x_limits.sources.timeout).toBe('default')
  expect((await server.ack(id, { worker_id: 'w', attempt: 1, x_lease: 1 })).status).toBe(200)
})

test('a fetch by an unseen id makes a minimal record, which is not registered', async () => {
  const server = await TestServer.open()
  await server.fetch({ worker_id: 'seen' })
  expect((await server.get('/ojs/v1/workers/seen')).body).toMatchObject({
    worker_id: 'seen',
    hostname: null,
    registered: false,
    last_heartbeat_at: null,
  })
  expect(await server.eventTypes('seen')).toEqual([])
})

test.each(['post', 'delete'])('deregistering by %s gives back what the worker held, at once', async (way) => {
  const server = await TestServer.open()
  await server.register('w')
  const back = await server.start({ heartbeat_timeout: 600 }, { worker_id: 'w' })
  const last = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } }, { worker_id: 'w' })
  const reply =
    way === 'post'
      ? await server.post('/ojs/v1/workers/deregister', { worker_id: 'w' })
      : await server.call('DELETE', '/ojs/v1/workers/w')
  expect(reply.status).toBe(200)
  expect(reply.body).toEqual({
    ok: true,
    deregistered: true,
    worker_id: 'w',
    requeued_jobs: [back.id],
    discarded_jobs: [last.id],
  })
  expect(await server.job(back.id)).toMatchObject({ state: 'available', attempt: 1, error: { type: 'shutdown' } })
  expect((await server.job(back.id)).errors).toHaveLength(1)
  expect(await server.job(last.id)).toMatchObject({ state: 'discarded', error: { type: 'shutdown' } })
  expect((await server.eventTypes(back.id)).slice(2)).toEqual(['job.failed', 'job.retrying', 'job.enqueued'])
  expect((await server.eventTypes('w')).at(-1)).toBe('worker.stopped')
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
  expect((await server.get('/ojs/v1/workers/w/health')).status).toBe(404)
  const outcome = { queue: 'default', job_type: 'test.job', outcome: 'shutdown' }
  expect(await server.metric('ojs_job_execution_duration_seconds_count', outcome)).toBe(2)
})

test('a deregistered worker’s late report is refused', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.post('/ojs/v1/workers/deregister', { worker_id: 'w' })
  expect((await server.ack(id, { worker_id: 'w' })).body.error.details.reason).toBe('not_active')
})

const leave = (server: TestServer, more: object = {}): Promise<Reply> =>
  server.post('/ojs/v1/workers/deregister', { worker_id: 'w', ...more })

test('jobs that a leaving worker never started are given back with their attempt; those it started are not', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  const [fresh, started, again] = [
    await server.start({ retry }, { worker_id: 'w' }),
    await server.start({}, { worker_id: 'w' }),
    await server.start({ retry, visibility_timeout: 10 }, { worker_id: 'w' }),
  ]
  const reply = await leave(server, { x_leases: { [started.id]: 1, [again.id]: 7 } })
  expect(reply.body).toMatchObject({ discarded_jobs: [] })
  expect([...(reply.body['requeued_jobs'] as string[])].sort()).toEqual([fresh.id, started.id, again.id].sort())
  for (const { id } of [fresh, again]) {
    expect(await server.job(id)).toMatchObject({ state: 'available', x_interruptions: 1 })
    expect((await server.eventTypes(id)).slice(-2)).toEqual(['job.interrupted', 'job.enqueued'])
  }
  expect(await server.job(started.id)).toMatchObject({ state: 'available', error: { type: 'shutdown' } })
  expect((await server.job(started.id)).x_interruptions ?? 0).toBe(0)
})

test.each([
  ['x_leases.a', { x_leases: { a: -1 } }],
  ['seq', { seq: 0.5 }],
])('a deregistration with a bad %s is refused', async (field, more) => {
  const server = await TestServer.open()
  await server.register('w')
  const reply = await leave(server, more)
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field])
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

const listening = (server: TestServer, seq: number, wait_ms = 0): Promise<Reply> =>
  server.post('/ojs/v1/workers/exchange', {
    worker_id: 'w',
    listen: { state: 'running', seq },
    fetch: { queues: ['default'], wait_ms },
  })

const beating = (server: TestServer, seq: number): Promise<Reply> =>
  server.post('/ojs/v1/workers/exchange', { worker_id: 'w', beat: { seq }, fetch: { queues: ['default'] } })

/** How a call that is late is answered, and whether it got a job. */
const LATE: [
  string,
  (server: TestServer, seq: number) => Promise<{ state: string; reregister: unknown; jobs: number }>,
][] = [
  [
    'beat',
    async (server, seq) => {
      const { body } = await server.beat('w', [], { seq })
      return { state: String(body['state']), reregister: body['x_reregister'], jobs: 0 }
    },
  ],
  [
    'beat in an exchange',
    async (server, seq) => {
      const { beat, jobs } = (await beating(server, seq)).body
      return { state: String(beat.state), reregister: beat.x_reregister, jobs: jobs.length }
    },
  ],
  [
    'call that listens',
    async (server, seq) => {
      const { orders, jobs } = (await listening(server, seq)).body
      return { state: String(orders?.state), reregister: orders?.x_reregister, jobs: jobs.length }
    },
  ],
]

const isUnknown = async (server: TestServer): Promise<void> => {
  for (const path of ['', '/health']) expect((await server.get(`/ojs/v1/workers/w${path}`)).status).toBe(404)
  expect((await server.get('/ojs/v1/workers')).body['workers']).toEqual([])
  expect((await server.get('/ojs/v1/admin/workers')).body['summary']).toMatchObject({ total: 0 })
  expect((await server.post('/ojs/v1/admin/workers/w/quiet')).status).toBe(404)
  expect((await server.call('DELETE', '/ojs/v1/admin/workers/w')).status).toBe(404)
  expect((await leave(server)).status).toBe(404)
}

test.each(LATE)('a %s from before the deregistration does not bring the worker back', async (_, late) => {
  const server = await TestServer.open()
  await server.register('w')
  await server.beat('w', [], { seq: 5 })
  await leave(server, { seq: 9 })
  const id = await server.enqueue()
  for (const ms of [0, 20_000, 600_000]) {
    await server.advance(ms)
    for (const seq of [6, 9]) expect(await late(server, seq)).toEqual({ state: 'terminate', reregister: true, jobs: 0 })
    await isUnknown(server)
  }
  expect((await server.job(id)).state).toBe('available')
  expect(await late(server, 10)).toMatchObject({ reregister: true })
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

const fetching = (server: TestServer, more: object): Promise<Reply> =>
  server.post('/ojs/v1/workers/exchange', { worker_id: 'w', fetch: { queues: ['default'] }, ...more })

test.each([
  ['alone', {}],
  ['that waits', { fetch: { queues: ['default'], wait_ms: 10_000 } }],
  ['with reports', { acks: [{ job_id: '0190b0c0-0000-7000-8000-000000000000', x_lease: 1 }] }],
])('a fetch %s from before the deregistration gets no jobs and does not bring the worker back', async (_, more) => {
  const server = await TestServer.open()
  await server.register('w')
  await leave(server, { seq: 9, x_leases: {} })
  const id = await server.enqueue()
  for (const ms of [0, 20_000, 600_000]) {
    await server.advance(ms)
    for (const seq of [6, 9])
      expect((await fetching(server, { ...more, seq })).body).toMatchObject({ jobs: [], x_waited_ms: 0 })
    await isUnknown(server)
  }
  expect((await server.job(id)).state).toBe('available')
  expect((await fetching(server, { ...more, seq: 10 })).body.jobs).toMatchObject([{ id }])
})

test('a fetch without a number brings a worker back that has left', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await leave(server, { seq: 9 })
  const id = await server.enqueue()
  expect((await fetching(server, {})).body.jobs).toMatchObject([{ id }])
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

test.each([
  ['a deregistration', {}, { seq: 4 }],
  ['a beat', { seq: 4 }, {}],
])('%s without a number: a late beat is recognised by its time', async (_, leaving, beating) => {
  const server = await TestServer.open()
  await server.register('w')
  await leave(server, leaving)
  await server.advance(29_999)
  expect((await server.beat('w', [], beating)).body).toMatchObject({
    state: 'terminate',
    directive: 'terminate',
    jobs_extended: [],
    x_cancel_jobs: [],
    x_reregister: true,
  })
  await isUnknown(server)
  await server.advance(1)
  expect((await server.beat('w', [], beating)).body).toMatchObject({ state: 'running', x_reregister: true })
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

test('a worker that registers again is at work at once', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await leave(server, { seq: 9 })
  await server.register('w')
  const id = await server.enqueue()
  expect((await server.beat('w', [], { seq: 1 })).body).toMatchObject({ state: 'running', x_reregister: false })
  expect((await listening(server, 2)).body.jobs).toMatchObject([{ id }])
})

test('no worker dies of having left, and after an hour nothing is kept of it', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const call = listening(server, 1, 30_000)
  await server.advance(1_000)
  await leave(server, { seq: 2 })
  expect((await call).body.jobs).toEqual([])
  await server.beat('w', [], { seq: 1 })
  await server.advance(120_000)
  expect(await server.eventTypes('w')).toEqual(['worker.started', 'worker.stopped'])
  expect(await server.store.worker('w')).not.toBeNull()
  await server.advance(3_600_000)
  expect(await server.store.worker('w')).toBeNull()
  expect(await server.eventTypes('w')).toEqual(['worker.started', 'worker.stopped'])
})

test('deregistering an unknown or dead worker is not found', async () => {
  const server = await TestServer.open()
  expect((await server.post('/ojs/v1/workers/deregister', { worker_id: 'unknown' })).status).toBe(404)
  await server.register('w')
  await server.advance(30_000)
  expect((await server.call('DELETE', '/ojs/v1/workers/w')).status).toBe(404)
  expect((await server.post('/ojs/v1/workers/deregister', {})).body.error.details.field).toBe('worker_id')
})

test('a FAIL of type shutdown follows the retry policy and uses its attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false } })
  const reply = await server.nack(id, { type: 'shutdown', message: 'worker shutting down' })
  expect(reply.body).toMatchObject({ state: 'retryable', attempt: 1, retry_delay_ms: 1_000 })
  await server.advance(1_000)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 2 })
})

test('a hand-back goes straight to the tail, is refunded and counted, and says why', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } }, { worker_id: 'w' })
  const behind = await server.enqueue()
  const reply = await server.nack(id, { type: 'shutdown', message: 'bye' }, { requeue: true })
  expect(reply.body).toMatchObject({ state: 'available', attempt: 1, job: { x_interruptions: 1 } })
  const job = await server.job(id)
  expect(job).not.toHaveProperty('error')
  const why = { type: 'shutdown', code: 'shutdown', message: 'bye' }
  expect(job.errors).toMatchObject([{ ...why, attempt: 1, interrupted: true }])
  const [interrupted] = (await server.events(id)).slice(2)
  expect(interrupted?.data).toMatchObject({ error: why, attempt: 1, interruptions: 1 })
  const { endings, text } = (await server.get(`/ojs/v1/jobs/${id}/explain`)).body
  expect(endings).toMatchObject([{ attempt: 1, type: 'shutdown', handed_back: true, counted: false }])
  expect(text).toContain('handed back (shutdown), attempt 1 is not counted; available again')
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.interrupted', 'job.enqueued'])
  const { jobs } = (await server.fetch({ count: 2 })).body
  expect(jobs).toMatchObject([{ id: behind }, { id, attempt: 2, x_lease: 2 }])
  expect((await server.nack(id)).body.state).toBe('discarded')
})

test('hand-backs do not lengthen the backoff and are forgotten by a manual retry', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false, max_attempts: 2 } })
  for (let time = 0; time < 3; time += 1) {
    await server.post('/ojs/v1/workers/nack', { job_id: id, requeue: true })
    await server.fetch()
  }
  expect(await server.job(id)).toMatchObject({ attempt: 4, x_interruptions: 3 })
  expect((await server.nack(id)).body).toMatchObject({ state: 'retryable', retry_delay_ms: 1_000 })
  await server.advance(1_000)
  await server.fetch()
  expect((await server.nack(id)).body.state).toBe('discarded')
  const { job } = (await server.post(`/ojs/v1/admin/jobs/${id}/retry`)).body
  expect(job).not.toHaveProperty('x_interruptions')
})

test('an interrupted attempt is counted as such, and as no failure', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ queue: 'q', type: 'a' })
  await server.post('/ojs/v1/workers/nack', { job_id: id, requeue: true })
  const outcome = { queue: 'q', job_type: 'a', outcome: 'interrupted' }
  expect(await server.metric('ojs_job_execution_duration_seconds_count', outcome)).toBe(1)
  expect(await server.metric('ojs_job_failed_total', { queue: 'q', type: 'a' })).toBe(0)
  expect((await server.get('/ojs/v1/queues/q/stats')).body.stats.failed_last_hour).toBe(0)
})
