/** Silence of a known worker: it is declared dead after 30 seconds, and what it held is recovered at once. */
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

test('a silent worker is alive 1 ms before 30 seconds and dead at them', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(29_999)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
  const job = await server.job(id)
  expect(job).toMatchObject({ state: 'available', attempt: 1, enqueued_at: at(30_000) })
  expect(job).not.toHaveProperty('worker_id')
  expect(job.errors).toHaveLength(1)
  expect(job.error).toMatchObject({
    type: 'worker_death',
    code: 'worker_death',
    retryable: true,
    limit_seconds: 30,
    elapsed_seconds: 30,
    source: 'default',
    deadline: at(30_000),
    overshoot_ms: 0,
    attempt: 1,
  })
  expect(job.error).not.toHaveProperty('timeout_kind')
})

test('its death is an event with what it held, and each job has its own event', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(5_000)
  await server.beat('w', [id])
  await server.advance(30_000)
  const [died] = (await server.events('w')).filter(({ type }) => type === 'worker.died')
  expect(died).toMatchObject({
    time: at(35_000),
    data: { worker_id: 'w', last_heartbeat_at: at(5_000), recovered_jobs: [id] },
  })
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.stalled', 'job.failed', 'job.retrying', 'job.enqueued'])
})

test('the attempt is spent: the last one is discarded instead of going back', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter', non_retryable_errors: ['worker_death'] }
  const { id } = await server.start({ retry }, { worker_id: 'w' })
  await server.advance(30_000)
  expect(await server.job(id)).toMatchObject({ state: 'discarded', error: { type: 'worker_death' } })
  expect((await server.eventTypes(id)).slice(2)).toEqual([
    'job.stalled',
    'job.failed',
    'job.discarded',
    'dead_letter.added',
  ])
})

test('jobs claimed after the last beat are recovered too, and jobs it no longer owns are left alone', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const lost = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'stranger' })
  await server.beat('w', [lost.id])
  const fresh = await server.start({}, { worker_id: 'w' })
  await server.advance(30_000)
  expect((await server.job(fresh.id)).error.type).toBe('worker_death')
  expect(await server.job(lost.id)).toMatchObject({ state: 'available', attempt: 2 })
  expect((await server.job(lost.id)).errors.map(({ type }) => type)).toEqual([
    'visibility_timeout',
    'visibility_timeout',
  ])
})

test('a stranger never dies, however long it is silent', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'stranger' })
  await server.advance(900_000)
  expect((await server.job(id)).state).toBe('active')
  expect((await server.get('/ojs/v1/workers/stranger')).status).toBe(200)
})

test('who was a stranger at the claim and beats later is judged when its silence is due', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [])
  await server.advance(29_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('worker_death')
})

test('a job with a stall clock of its own outlives its worker’s death and ends stalled', async () => {
  const server = await TestServer.open()
  await server.register('w', { handlers: { 'by.handler': { heartbeat_timeout: 90 } } })
  await server.call('PUT', '/api/v1/job-types/by.type', { heartbeat_timeout: 90 })
  const own = await server.start({ heartbeat_timeout: 90 }, { worker_id: 'w' })
  const byType = await server.start({ type: 'by.type' }, { worker_id: 'w' })
  const byHandler = await server.start({ type: 'by.handler' }, { worker_id: 'w' })
  await server.advance(10_000)
  const ids = [own.id, byType.id, byHandler.id]
  await server.beat('w', ids)
  await server.advance(30_000)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
  expect((await server.events('w')).at(-1)?.data.recovered_jobs).toEqual([])
  await server.advance(59_999)
  for (const id of ids) expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  for (const id of ids) expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(100_000) })
})

test('what its last beat said of such a job outlives the record of the dead', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ heartbeat_timeout: 90 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [id])
  await server.advance(40_000)
  await server.fetch({ worker_id: 'w', queues: ['empty'] })
  await server.advance(49_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(100_000) })
})

const SIGNS: [string, (server: TestServer, id: string, spare: string) => Promise<unknown>][] = [
  ['a beat', (server) => server.beat('w', [])],
  ['a fetch', (server) => server.fetch({ worker_id: 'w', queues: ['empty'] })],
  ['an ACK', (server, _, spare) => server.ack(spare, { worker_id: 'w' })],
  ['an ACK without its name', (server, _, spare) => server.ack(spare)],
  ['a FAIL', (server, _, spare) => server.nack(spare, { message: 'x' }, { worker_id: 'w' })],
  ['a progress report', (server, id) => server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.5 })],
  ['a checkpoint', (server, id) => server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: 1 })],
  ['a registration', (server) => server.register('w')],
]

test.each(SIGNS)('%s is a sign of life of the worker', async (_, sign) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ heartbeat_timeout: 600 }, { worker_id: 'w' })
  const spare = await server.start({}, { worker_id: 'w' })
  await server.advance(29_999)
  await sign(server, id, spare.id)
  await server.advance(29_999)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
})

const UNKNOWN = '01890000-0000-7000-8000-000000000000'
const WRONG = { worker_id: 'w', x_lease: 77 }
type Refused = (server: TestServer, id: string, ended: string) => Promise<Reply>

const REFUSED: [string, number, Refused][] = [
  ['an ACK with a wrong lease', 409, (server, id) => server.ack(id, WRONG)],
  ['an ACK of a job that has ended', 409, (server, _, ended) => server.ack(ended, { worker_id: 'w' })],
  ['an ACK of an unknown job', 404, (server) => server.ack(UNKNOWN, { worker_id: 'w' })],
  ['an ACK with too long a result', 413, (server, id) => server.ack(id, { worker_id: 'w', result: 'x'.repeat(2_000) })],
  ['a FAIL with a wrong lease', 409, (server, id) => server.nack(id, { message: 'x' }, WRONG)],
  ['a FAIL of an unknown job', 404, (server) => server.nack(UNKNOWN, { message: 'x' }, { worker_id: 'w' })],
  [
    'a checkpoint with a wrong lease',
    409,
    (server, id) => server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: 1, ...WRONG }),
  ],
  [
    'a progress report with a wrong lease',
    409,
    (server, id) => server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.5, ...WRONG }),
  ],
  [
    'a progress report that is ignored',
    200,
    (server, _, ended) => server.call('PUT', `/ojs/v1/jobs/${ended}/progress`, { progress: 0.5, worker_id: 'w' }),
  ],
  [
    'an exchange that brings nothing but a refused ACK',
    200,
    (server, id) => server.post('/ojs/v1/workers/exchange', { worker_id: 'w', acks: [{ job_id: id, x_lease: 77 }] }),
  ],
]

test.each(REFUSED)('%s is a sign of life of the worker, and of no job', async (_, status, call) => {
  const server = await TestServer.open({ settings: { largestResultBytes: 1_000 } })
  await server.register('w')
  const ended = await server.start({}, { worker_id: 'w' })
  await server.ack(ended.id)
  const { id } = await server.start({ visibility_timeout: 59 }, { worker_id: 'w' })
  await server.advance(29_999)
  const before = await server.job(id)
  expect((await call(server, id, ended.id)).status).toBe(status)
  expect(await server.job(id)).toEqual(before)
  await server.advance(29_000)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'visibility_timeout', deadline: at(59_000) })
  await server.advance(998)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
})

test('a worker that reports on an anonymous job has shown that it lives', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start()
  await server.advance(29_999)
  expect((await server.ack(id, { worker_id: 'w' })).status).toBe(200)
  await server.advance(29_999)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

test('a refused report is a sign of life of who sent it, not of who holds the job', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.register('v')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(29_999)
  expect((await server.ack(id, { worker_id: 'v' })).body.error.details.reason).toBe('not_owner')
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
  expect((await server.get('/ojs/v1/workers/v')).status).toBe(200)
})

test('a refused report makes no worker known, and brings none back from the dead', async () => {
  const server = await TestServer.open()
  await server.register('dead')
  await server.fetch({ worker_id: 'stranger' })
  await server.advance(30_000)
  for (const worker_id of ['dead', 'stranger', 'unseen']) {
    expect((await server.ack(UNKNOWN, { worker_id })).status).toBe(404)
  }
  expect((await server.get('/ojs/v1/workers/dead')).status).toBe(404)
  expect((await server.get('/ojs/v1/workers/unseen')).status).toBe(404)
  await server.advance(30_000)
  expect((await server.get('/ojs/v1/workers/stranger')).status).toBe(200)
})

test('an open long poll is a sign of life for as long as it is open', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(20_000)
  const poll = server.fetch({ worker_id: 'w', queues: ['empty'], wait_ms: 30_000 })
  await server.advance(30_000)
  expect((await poll).body.jobs).toEqual([])
  await server.advance(9_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(20_000)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
})

test('the health of a dead worker is 503 for an hour, then it is forgotten', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.advance(30_000)
  const health = await server.get('/ojs/v1/workers/w/health')
  expect(health.status).toBe(503)
  expect(health.body).toMatchObject({ worker_id: 'w', healthy: false, died_at: at(30_000) })
  await server.advance(3_599_999)
  expect((await server.get('/ojs/v1/workers/w/health')).status).toBe(503)
  await server.advance(1)
  expect((await server.get('/ojs/v1/workers/w/health')).status).toBe(404)
})

test('one that was declared dead and comes back hears that it must register, and that its job is lost', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(30_000)
  const reply = await server.beat('w', [id])
  expect(reply.body).toMatchObject({
    state: 'running',
    x_reregister: true,
    jobs_extended: [],
    x_cancel_jobs: [{ job_id: id, reason: 'lost' }],
  })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ worker_id: 'w', registered: false })
  expect((await server.ack(id, { worker_id: 'w' })).body.error.details).toMatchObject({ reason: 'not_active' })
})

test('one that was declared dead is a stranger to a fetch: no grace, no judgement, until it beats', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.advance(30_000)
  const { id, x_limits } = await server.start({}, { worker_id: 'w' })
  expect(x_limits.grace_ms).toBe(0)
  await server.advance(120_000)
  expect((await server.job(id)).state).toBe('active')
})

test('deaths are counted, and the attempts they ended by outcome', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.start({ queue: 'q', type: 'a' }, { worker_id: 'w' })
  await server.advance(30_000)
  expect(await server.metric('ojs_worker_deaths_total')).toBe(1)
  const outcome = { queue: 'q', job_type: 'a', outcome: 'worker_death' }
  expect(await server.metric('ojs_job_execution_duration_seconds_count', outcome)).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'worker_death' })).toBe(1)
})

test('a stranger is forgotten after an hour of silence, unless it still holds a job', async () => {
  const server = await TestServer.open()
  await server.fetch({ worker_id: 'idle' })
  const { id } = await server.start({ timeout: 7_200 }, { worker_id: 'busy' })
  await server.advance(3_600_000)
  expect((await server.get('/ojs/v1/workers/idle')).status).toBe(404)
  expect((await server.get('/ojs/v1/workers/busy')).status).toBe(200)
  expect((await server.job(id)).state).toBe('active')
})
