/** What a running attempt tells of itself, and what the next attempt gets of it. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const tell = (server: TestServer, id: string, body: unknown) => server.call('PUT', `/ojs/v1/jobs/${id}/progress`, body)
const save = (server: TestServer, id: string, body: unknown) =>
  server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, body)

// ---- Progress ----

test('progress is stored, answered and read back in one shape, with its headers', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.advance(2_000)
  const reply = await tell(server, id, { progress: 0.25, message: 'a quarter', data: { done: [1] } })
  const shown = {
    job_id: id,
    state: 'active',
    progress: 0.25,
    message: 'a quarter',
    data: { done: [1] },
    updated_at: at(2_000),
  }
  expect(reply.body).toEqual(shown)
  expect(reply.headers).toMatchObject({ 'X-OJS-Progress': '0.25', 'Cache-Control': 'no-cache' })
  expect((await server.get(`/ojs/v1/jobs/${id}/progress`)).body).toEqual(shown)
  expect(await server.job(id)).toMatchObject({ progress: 0.25 })
})

test('nothing reported yet is null with 200; an unknown job is not found', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  const reply = await server.get(`/ojs/v1/jobs/${id}/progress`)
  expect([reply.status, reply.body.progress, reply.body.data]).toEqual([200, null, null])
  expect((await server.get('/ojs/v1/jobs/nope/progress')).status).toBe(404)
  expect((await tell(server, 'nope', { progress: 1 })).status).toBe(404)
})

test('numbers are clamped to 0…1 and never go back; words and data are replaced', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  expect((await tell(server, id, { progress: -3 })).body.progress).toBe(0)
  expect((await tell(server, id, { progress: 0.6, message: 'a', data: 1 })).body.progress).toBe(0.6)
  expect((await tell(server, id, { progress: 0.4, message: 'b', data: 2 })).body).toMatchObject({
    progress: 0.6,
    message: 'b',
    data: 2,
  })
  expect((await tell(server, id, { progress: 7 })).body.progress).toBe(1)
})

test('the dialect of the SDKs speaks in percent', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const reply = await server.post('/ojs/v1/workers/progress', { job_id: id, percentage: 40, message: 'm' })
  expect(reply.body).toMatchObject({ job_id: id, progress: 0.4, message: 'm' })
  expect((await server.post('/ojs/v1/workers/progress', { percentage: 1 })).body.error.details.field).toBe('job_id')
})

test.each([{}, { progress: null }, { worker_id: 'w' }, { progress: '0.5' }, { progress: [] }])(
  '%j is not a report',
  async (body) => {
    const server = await TestServer.open()
    const { id } = await server.start()
    const reply = await tell(server, id, body)
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'progress'])
  },
)

test('at most one event a second tells of progress', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'w' })
  for (const progress of [0.1, 0.2, 0.3]) {
    await tell(server, id, { progress, message: 'm' })
    await server.advance(500)
  }
  const told = (await server.events(id)).filter(({ type }) => type === 'job.progress')
  expect(told.map(({ data }): unknown => data.progress_percent)).toEqual([10, 30])
  expect(told[0]?.data).toMatchObject({ worker_id: 'w', attempt: 1, progress_message: 'm' })
})

test('an ACK makes it whole if it was used; a FAIL keeps it; a new attempt starts empty', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false } })
  await tell(server, id, { progress: 0.5 })
  await server.nack(id)
  expect((await server.job(id)).progress).toBe(0.5)
  await server.advance(1_000)
  await server.fetch()
  expect(await server.job(id)).not.toHaveProperty('progress')
  await tell(server, id, { progress: 0.2 })
  await server.ack(id)
  expect((await server.job(id)).progress).toBe(1)
  const unused = await server.start()
  await server.ack(unused.id)
  expect(await server.job(unused.id)).not.toHaveProperty('progress')
})

test('progress may carry a checkpoint', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await tell(server, id, { checkpoint: { page: 3 } })
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).body).toMatchObject({ state: { page: 3 }, sequence: 1 })
})

// ---- Checkpoints ----

test('a checkpoint is replaced whole, counted, and read back flat and nested', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await save(server, id, { state: { a: 1, b: 2 } })
  await server.advance(1_000)
  const reply = await save(server, id, { state: { a: 9 }, step_index: 4, metadata: { k: 'v' } })
  const record = { state: { a: 9 }, sequence: 2, step_index: 4, metadata: { k: 'v' }, created_at: at(1_000) }
  expect(reply.body).toEqual({ job_id: id, sequence: 2, created_at: at(1_000), checkpoint: record })
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).body).toEqual({
    job_id: id,
    state: { a: 9 },
    sequence: 2,
    created_at: at(1_000),
    checkpoint: record,
  })
  const told = (await server.events(id)).filter(({ type }) => type === 'job.checkpointed')
  expect(told.map(({ data }): unknown => data.sequence)).toEqual([1, 2])
})

test('a numbered checkpoint that was overtaken on its way does not replace the newer one of its attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
  const stored = async (): Promise<unknown> => (await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).body.state
  await save(server, id, { state: 'first', x_lease: 1, x_seq: 1 })
  await save(server, id, { state: 'second', x_lease: 1, x_seq: 2 })
  for (const late of [1, 2]) {
    const reply = await save(server, id, { state: 'late', x_lease: 1, x_seq: late })
    expect([reply.status, reply.body.sequence, await stored()]).toEqual([200, 2, 'second'])
  }
  // The next attempt counts anew, and a checkpoint without a number replaces any.
  await server.nack(id, { message: 'boom' }, { x_lease: 1 })
  await server.advance(2_000)
  await server.fetch({ worker_id: 'w' })
  await save(server, id, { state: 'third', x_lease: 2, x_seq: 1 })
  expect(await stored()).toBe('third')
  await save(server, id, { state: 'plain', x_lease: 2 })
  expect(await stored()).toBe('plain')
})

test('a delete can be repeated, and the next save counts from 1 again', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await save(server, id, { state: 1 })
  await save(server, id, { state: 2 })
  for (let time = 0; time < 2; time += 1) {
    const reply = await server.call('DELETE', `/ojs/v1/jobs/${id}/checkpoint`)
    expect(reply.body).toEqual({ deleted: true, job_id: id })
  }
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).status).toBe(404)
  expect((await save(server, id, { state: 3 })).body.sequence).toBe(1)
  expect((await server.call('DELETE', '/ojs/v1/jobs/nope/checkpoint')).status).toBe(404)
})

test('a job that never started may be given one; a job between attempts may not', async () => {
  const server = await TestServer.open()
  for (const more of [{}, { pending: true }, { scheduled_at: '+PT1H' }]) {
    expect((await save(server, await server.enqueue(more), { state: 1 })).status).toBe(200)
  }
  const { id } = await server.start({ queue: 'b', retry: { jitter: false } })
  await server.nack(id)
  expect((await save(server, id, { state: 1 })).status).toBe(409)
  await server.advance(1_000)
  expect((await server.job(id)).state).toBe('available')
  expect((await save(server, id, { state: 1 })).status).toBe(409)
})

test('a delayed checkpoint of an attempt that was cancelled changes nothing after a retry by hand', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'w' })
  await save(server, id, { state: 'first', worker_id: 'w', attempt: 1, x_lease: 1, x_seq: 1 })
  await save(server, id, { state: 'second', worker_id: 'w', attempt: 1, x_lease: 1, x_seq: 2 })
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
  expect(await server.job(id)).toMatchObject({ state: 'available', attempt: 0 })
  const late = await save(server, id, { state: 'first', worker_id: 'w', attempt: 1, x_lease: 1, x_seq: 1 })
  expect(late.status).toBe(409)
  expect((await server.fetch()).body.job.last_checkpoint).toBe('second')
})

test('a first attempt gets the checkpoint that was laid down before it', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  await save(server, id, { state: 'begin here' })
  expect((await server.fetch()).body.job).toMatchObject({
    id,
    last_checkpoint: 'begin here',
    checkpoint: { state: 'begin here', sequence: 1 },
  })
})

const ENDINGS: [string, Record<string, unknown>, (server: TestServer, id: string) => Promise<unknown>][] = [
  ['a failure', {}, (server, id) => server.nack(id)],
  ['a timeout', { timeout: 10 }, (server) => server.advance(10_000)],
  ['a stall', { heartbeat_timeout: 10 }, (server) => server.advance(10_000)],
  ['a lapse', { visibility_timeout: 10 }, (server) => server.advance(10_000)],
  ['a death', {}, (server) => server.advance(30_000)],
  ['a departure', {}, (server) => server.call('DELETE', '/ojs/v1/workers/w')],
  ['a hand-back', {}, (server, id) => server.nack(id, { message: 'x' }, { requeue: true })],
  [
    'a retry by hand',
    { retry: { max_attempts: 1 } },
    async (server, id) => {
      await server.nack(id)
      await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
    },
  ],
]

test.each(ENDINGS)('after %s the next attempt gets the last checkpoint', async (_, limits, end) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ grace_period: 0, retry: { jitter: false }, ...limits }, { worker_id: 'w' })
  await save(server, id, { state: { row: 41 } })
  await save(server, id, { state: { row: 42 } })
  await end(server, id)
  await server.advance(1_000)
  const { job } = (await server.fetch({ worker_id: 'v' })).body
  expect(job).toMatchObject({
    id,
    x_lease: 2,
    last_checkpoint: { row: 42 },
    checkpoint: { state: { row: 42 }, sequence: 2 },
  })
})

test('one saved in the grace window is delivered; one at the hard deadline is too late', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 5, retry: { jitter: false } })
  await server.advance(14_999)
  expect((await save(server, id, { state: 'in grace' })).status).toBe(200)
  await server.advance(1)
  expect((await save(server, id, { state: 'too late' })).status).toBe(409)
  await server.advance(1_000)
  expect((await server.fetch()).body.job.last_checkpoint).toBe('in grace')
})

test('it is readable after the job is over, until the job itself is removed', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ result_ttl: 60 })
  await save(server, id, { state: 1 })
  await server.ack(id)
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).status).toBe(200)
  await server.advance(60_000)
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).status).toBe(404)
  expect((await server.get(`/ojs/v1/checkpoints/${id}/resume`)).body.has_checkpoint).toBe(false)
})

test('larger than 1 MiB is refused and the one before stays', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await save(server, id, { state: 'small' })
  const exact = 'x'.repeat(1_048_576 - 2)
  const reply = await save(server, id, { state: `${exact}x` })
  expect([reply.status, reply.body.error.code]).toEqual([413, 'payload_too_large'])
  expect((await tell(server, id, { progress: 0.1, checkpoint: `${exact}x` })).status).toBe(413)
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).body.state).toBe('small')
  expect(await server.job(id)).not.toHaveProperty('progress')
  expect((await save(server, id, { state: exact })).status).toBe(200)
  expect((await save(server, id, {})).body.error.details.field).toBe('state')
})

test.each(['/ojs/v1/checkpoints', '/ojs/v1/ojs/v1/checkpoints'])('the durable dialect speaks at %s', async (base) => {
  const server = await TestServer.open()
  const { id } = await server.start()
  expect((await server.get(`${base}/${id}/resume`)).body).toEqual({ has_checkpoint: false })
  const metadata = { _replay_log: [1, 2] }
  await server.post(`${base}/${id}`, { state: {}, step_index: 2, metadata })
  expect((await server.get(`${base}/${id}/resume`)).body).toMatchObject({
    has_checkpoint: true,
    checkpoint: { state: {}, step_index: 2, metadata, sequence: 1 },
  })
  expect((await server.call('DELETE', `${base}/${id}`)).body.deleted).toBe(true)
})
