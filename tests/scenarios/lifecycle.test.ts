/** The table of states: what may follow what, with its side effects, and that everything else is refused. */
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const SLOW = { jitter: false, initial_interval: 'PT1H', max_interval: 'PT2H' }

/** A job in each of the eight states. */
const MADE: Record<string, (server: TestServer) => Promise<string>> = {
  scheduled: (server) => server.enqueue({ scheduled_at: '+PT1H' }),
  pending: (server) => server.enqueue({ pending: true }),
  available: (server) => server.enqueue(),
  active: async (server) => (await server.start({ priority: 1 })).id,
  retryable: async (server) => {
    const { id } = await server.start({ priority: 1, retry: SLOW })
    await server.nack(id)
    return id
  },
  completed: async (server) => {
    const { id } = await server.start({ priority: 1 })
    await server.ack(id)
    return id
  },
  cancelled: async (server) => {
    const id = await server.enqueue()
    await server.call('DELETE', `/ojs/v1/jobs/${id}`)
    return id
  },
  discarded: async (server) => {
    const { id } = await server.start({ priority: 1, retry: { max_attempts: 1 } })
    await server.nack(id)
    return id
  },
}

const ACTIONS: Record<
  string,
  { does: (server: TestServer, id: string) => Promise<Reply>; to: Record<string, string> }
> = {
  ACK: { does: (server, id) => server.ack(id), to: { active: 'completed' } },
  FAIL: { does: (server, id) => server.nack(id), to: { active: 'retryable' } },
  'FAIL with requeue': {
    does: (server, id) => server.post('/ojs/v1/workers/nack', { job_id: id, requeue: true }),
    to: { active: 'available' },
  },
  CANCEL: {
    does: (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`),
    to: {
      scheduled: 'cancelled',
      pending: 'cancelled',
      available: 'cancelled',
      active: 'cancelled',
      retryable: 'cancelled',
    },
  },
  'CANCEL by POST': {
    does: (server, id) => server.post(`/ojs/v1/jobs/${id}/cancel`),
    to: {
      scheduled: 'cancelled',
      pending: 'cancelled',
      available: 'cancelled',
      active: 'cancelled',
      retryable: 'cancelled',
    },
  },
  ACTIVATE: { does: (server, id) => server.post(`/ojs/v1/jobs/${id}/activate`), to: { pending: 'available' } },
  'admin retry': {
    does: (server, id) => server.post(`/ojs/v1/admin/jobs/${id}/retry`),
    to: { discarded: 'available', cancelled: 'available' },
  },
  PATCH: {
    does: (server, id) => server.call('PATCH', `/ojs/v1/jobs/${id}`, { priority: 5 }),
    to: { scheduled: 'scheduled', pending: 'pending', available: 'available', retryable: 'retryable' },
  },
}

test.each(Object.keys(ACTIONS))(
  '%s is allowed where the table says so and a conflict everywhere else',
  async (action) => {
    const { does, to } = ACTIONS[action] ?? { does: () => Promise.reject(new Error(action)), to: {} }
    for (const [state, make] of Object.entries(MADE)) {
      const server = await TestServer.open()
      const id = await make(server)
      const before = await server.job(id)
      expect(before.state).toBe(state)
      const reply = await does(server, id)
      const after = await server.job(id)
      const next = to[state]
      expect([state, reply.status, after.state]).toEqual([state, next === undefined ? 409 : 200, next ?? state])
      if (next !== undefined) continue
      expect(reply.body.error).toMatchObject({ code: 'conflict', details: { job_id: id, current_state: state } })
      expect(after).toEqual(before)
    }
    const unknown = await does(await TestServer.open(), '01890000-0000-7000-8000-000000000000')
    expect(unknown.status).toBe(404)
    expect(unknown.body.error).toMatchObject({
      code: 'not_found',
      hint: expect.any(String),
      docs_url: expect.any(String),
    })
  },
)

test('a future scheduled_at schedules; it becomes available at that very millisecond', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ scheduled_at: at(10_000) })
  const scheduled = await server.job(id)
  expect(scheduled).toMatchObject({ state: 'scheduled', attempt: 0, created_at: at(0) })
  expect(scheduled).not.toHaveProperty('enqueued_at')
  await server.advance(9_999)
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.advance(1)
  expect((await server.fetch()).body.job).toMatchObject({ id, enqueued_at: at(10_000), started_at: at(10_000) })
  expect(await server.eventTypes(id)).toEqual(['job.scheduled', 'job.enqueued', 'job.started'])
})

test('a scheduled_at that is now or past is immediate', async () => {
  const server = await TestServer.open()
  expect((await server.job(await server.enqueue({ scheduled_at: at(0) }))).state).toBe('available')
  expect((await server.job(await server.enqueue({ scheduled_at: '2020-01-01T00:00:00Z' }))).state).toBe('available')
})

test('a pending job waits for ever, until it is activated', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ pending: true })
  await server.advance(3_600_000)
  expect((await server.fetch()).body.jobs).toEqual([])
  const { job } = (await server.post(`/ojs/v1/jobs/${id}/activate`)).body
  expect(job).toMatchObject({ state: 'available', activated_at: at(3_600_000), enqueued_at: at(3_600_000) })
  expect(await server.eventTypes(id)).toEqual(['job.enqueued'])
})

test('a claim sets started_at, counts the attempt and names the worker', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  await server.advance(5_000)
  const { jobs, job, server_time } = (await server.fetch({ worker_id: 'w' })).body
  expect(jobs).toEqual([job])
  expect(job).toMatchObject({ id, state: 'active', attempt: 1, started_at: at(5_000), worker_id: 'w', x_lease: 1 })
  expect(server_time).toBe(at(5_000))
  expect((await server.events(id)).at(-1)).toMatchObject({ type: 'job.started', data: { worker_id: 'w', attempt: 1 } })
})

test('an ACK completes: result kept, error cleared, history kept, everything in the answer', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
  await server.nack(id)
  await server.advance(1_000)
  await server.fetch({ worker_id: 'w' })
  await server.advance(2_000)
  const reply = await server.ack(id, { result: { ok: [1, null] } })
  expect(reply.body).toMatchObject({
    acknowledged: true,
    id,
    job_id: id,
    state: 'completed',
    completed_at: at(3_000),
    job: { id, state: 'completed', result: { ok: [1, null] } },
  })
  const job = await server.job(id)
  expect(job).not.toHaveProperty('error')
  expect(job).not.toHaveProperty('worker_id')
  expect(job.errors).toHaveLength(1)
  expect((await server.events(id)).at(-1)).toMatchObject({
    type: 'job.completed',
    data: { attempt: 2, duration_ms: 2_000, result: { ok: [1, null] } },
  })
})

test.each(['/ojs/v1/jobs/:id/ack', '/ojs/v1/workers/ack'])(
  'an ACK to %s may leave out everything but the job',
  async (path) => {
    const server = await TestServer.open()
    const { id } = await server.start()
    const body = path.includes(':id') ? undefined : { job_id: id }
    const reply = await server.post(path.replace(':id', id), body)
    expect(reply.body.state).toBe('completed')
    expect(await server.job(id)).not.toHaveProperty('result')
  },
)

test.each(['workers/nack', 'workers/fail', 'jobs/:id/nack', 'jobs/:id/fail'])(
  'a FAIL to %s fails the attempt',
  async (path) => {
    const server = await TestServer.open()
    const { id } = await server.start({ retry: { jitter: false } })
    const body = { job_id: id, error: { code: 'E_OOPS', message: 'oops', details: { error_class: 'Oops' } } }
    const reply = await server.post(`/ojs/v1/${path.replace(':id', id)}`, body)
    expect(reply.body).toMatchObject({
      id,
      job_id: id,
      state: 'retryable',
      attempt: 1,
      max_attempts: 3,
      retry_delay_ms: 1_000,
      next_attempt_at: at(1_000),
      next_retry_at: at(1_000),
      job: { error: { type: 'Oops', code: 'E_OOPS', message: 'oops', retryable: true } },
    })
  },
)

test('a FAIL whose path and body name different jobs is refused', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const reply = await server.post(`/ojs/v1/jobs/${id}/fail`, { job_id: 'other', error: { message: 'x' } })
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'job_id'])
})

test('a FAIL without an error is refused, unless it hands the job back', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const reply = await server.post('/ojs/v1/workers/nack', { job_id: id })
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'error'])
  expect((await server.post('/ojs/v1/workers/nack', { job_id: id, error: 'boom' })).status).toBe(400)
  expect((await server.job(id)).state).toBe('active')
})

test('the last failure discards, with both moments in the answer', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } })
  const reply = await server.nack(id)
  expect(reply.body).toMatchObject({ state: 'discarded', discarded_at: at(0), completed_at: at(0), attempt: 1 })
  expect(reply.body).not.toHaveProperty('retry_delay_ms')
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.failed', 'job.discarded'])
  expect((await server.events(id)).at(-1)?.data).toMatchObject({ total_attempts: 1, last_error: { message: 'boom' } })
})

test('max_attempts 0 runs once and never again', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 0 } })
  expect((await server.nack(id)).body).toMatchObject({ state: 'discarded', max_attempts: 0 })
})

test('a cancel keeps started_at, sets no completed_at, and tells where the job was', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.advance(1_000)
  const { job } = (await server.call('DELETE', `/ojs/v1/jobs/${id}`)).body
  expect(job).toMatchObject({
    state: 'cancelled',
    previous_state: 'active',
    started_at: at(0),
    cancelled_at: at(1_000),
    x_purge_at: expect.any(String),
  })
  expect(job).not.toHaveProperty('completed_at')
  expect((await server.eventTypes(id)).at(-1)).toBe('job.cancelled')
  const outcome = { queue: 'default', job_type: 'test.job', outcome: 'cancelled' }
  expect(await server.metric('ojs_job_execution_duration_seconds_count', outcome)).toBe(1)
  expect(await server.metric('ojs_job_cancelled_total', { queue: 'default', type: 'test.job' })).toBe(1)
})

test('a job cancelled while it waits for a retry does not come back', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false } })
  await server.nack(id)
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  await server.advance(10_000)
  expect((await server.fetch()).body.jobs).toEqual([])
  expect(await server.job(id)).not.toHaveProperty('next_retry_at')
})

const VERDICTS: [string, Record<string, unknown>, Record<string, unknown>, string, boolean][] = [
  ['DISCARD', { code: 'DISCARD', message: 'x' }, {}, 'discarded', false],
  ['FAIL', { code: 'FAIL', message: 'x' }, {}, 'discarded', false],
  ['DEAD_LETTER', { code: 'DEAD_LETTER', message: 'x' }, { on_exhaustion: 'discard' }, 'discarded', true],
  ['RETRY', { code: 'RETRY', message: 'x', retryable: false }, {}, 'retryable', false],
  ['retryable: false', { message: 'x', retryable: false }, {}, 'discarded', true],
  ['a listed type', { type: 'Bad', message: 'x' }, { non_retryable_errors: ['Bad'] }, 'discarded', true],
  ['a listed code', { type: 'A', code: 'Bad', message: 'x' }, { non_retryable_errors: ['Bad'] }, 'discarded', true],
  [
    'a listed class',
    { code: 'x', message: 'x', details: { error_class: 'Auth.Expired' } },
    { non_retryable_errors: ['Auth.*'] },
    'discarded',
    true,
  ],
  [
    'a name that only resembles a pattern',
    { type: 'AuthX', message: 'x' },
    { non_retryable_errors: ['Auth.*'] },
    'retryable',
    false,
  ],
]

test.each(VERDICTS)('a FAIL with %s is decided by it', async (_, error, retry, state, dead) => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { on_exhaustion: 'dead_letter', ...retry } })
  expect((await server.nack(id, error)).body.state).toBe(state)
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toHaveLength(dead ? 1 : 0)
})

test('requeue wins over everything else in a FAIL', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } })
  const reply = await server.nack(id, { code: 'DISCARD', message: 'x', retryable: false }, { requeue: true })
  expect(reply.body.state).toBe('available')
})

test('the history keeps the latest 25 failures', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ retry: { max_attempts: 40, jitter: false, backoff_strategy: 'constant' } })
  for (let attempt = 1; attempt <= 30; attempt += 1) {
    await server.fetch()
    await server.nack(id, { message: `failure ${String(attempt)}` })
    await server.advance(1_000)
  }
  const { errors } = await server.job(id)
  expect(errors).toHaveLength(25)
  expect([errors[0]?.attempt, errors[24]?.attempt, errors[24]?.message]).toEqual([6, 30, 'failure 30'])
})

test('a backtrace is kept up to 50 frames', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const backtrace = Array.from({ length: 80 }, (_, n) => `at frame ${String(n)}`)
  await server.nack(id, { message: 'x', backtrace })
  expect((await server.job(id)).error.backtrace).toEqual(backtrace.slice(0, 50))
})

test('jobs are handed out by priority, then in the order they came, then by the order of queues asked for', async () => {
  const server = await TestServer.open()
  const low = await server.enqueue({ priority: -5 })
  const first = await server.enqueue()
  const second = await server.enqueue()
  const high = await server.enqueue({ priority: 100 })
  const other = await server.enqueue({ queue: 'other', priority: 50 })
  const { jobs } = (await server.fetch({ queues: ['default', 'other'], count: 10 })).body
  expect(jobs.map(({ id }) => id)).toEqual([high, first, second, low, other])
})

test('a paused queue takes jobs and hands out none; its active jobs go on', async () => {
  const server = await TestServer.open()
  const active = await server.start()
  const paused = await server.post('/ojs/v1/queues/default/pause')
  expect(paused.body).toMatchObject({ queue: { name: 'default', paused: true, status: 'paused' }, paused_at: at(0) })
  expect((await server.post('/ojs/v1/queues/default/pause')).status).toBe(200)
  const waiting = await server.enqueue()
  expect((await server.fetch()).body.jobs).toEqual([])
  expect((await server.ack(active.id)).status).toBe(200)
  await server.advance(1_000)
  const resumed = await server.post('/ojs/v1/queues/default/resume')
  expect(resumed.body).toMatchObject({ paused: false, status: 'active', resumed_at: at(1_000) })
  expect((await server.fetch()).body.job.id).toBe(waiting)
  expect(await server.eventTypes('default')).toEqual(['queue.paused', 'queue.resumed'])
})

test('a queue that does not exist yet can be paused', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/queues/new/pause')
  await server.enqueue({ queue: 'new' })
  expect((await server.fetch({ queues: ['new'] })).body.jobs).toEqual([])
})

test('counts are exact right after each call', async () => {
  const server = await TestServer.open()
  for (const make of Object.values(MADE)) await make(server)
  const { queue, stats, ...flat } = (await server.get('/ojs/v1/queues/default/stats')).body
  const one = {
    scheduled: 1,
    available: 1,
    pending: 1,
    active: 1,
    completed: 1,
    retryable: 1,
    cancelled: 1,
    discarded: 1,
  }
  expect(queue).toMatchObject({ name: 'default', ...one, paused: false })
  expect(flat).toMatchObject({ name: 'default', ...one, computed_at: at(0) })
  expect(stats).toMatchObject({ queue: 'default', depth: 5, ...one, completed_last_hour: 1 })
  expect((await server.get('/ojs/v1/admin/stats')).body.jobs).toEqual(one)
  for (const [state, n] of Object.entries(one)) {
    expect((await server.get(`/ojs/v1/jobs?state=${state}`)).body.pagination.total).toBe(n)
    expect(await server.metric('ojs_queue_depth', { queue: 'default', state })).toBe(n)
  }
})

test('a queue that was never used has zeros', async () => {
  const server = await TestServer.open()
  const reply = await server.get('/ojs/v1/queues/nowhere/stats')
  expect(reply.status).toBe(200)
  expect(reply.body).toMatchObject({ name: 'nowhere', available: 0, active: 0, paused: false })
})
