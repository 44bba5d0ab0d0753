/** How long what is over is kept, and that it is then really gone. */
import { expect, test } from 'vitest'
import { minutes } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

const RETENTION = {
  completedMs: minutes(1),
  cancelledMs: minutes(2),
  discardedMs: minutes(3),
  deadLetterMs: minutes(4),
}
const open = (more = {}) => TestServer.open({ settings: { retention: RETENTION, ...more } })

const ENDINGS: [string, number, Record<string, unknown>, (server: TestServer, id: string) => Promise<unknown>][] = [
  ['completed', 60_000, {}, (server, id) => server.ack(id, { result: 1 })],
  ['completed with a result_ttl', 90_000, { result_ttl: 90 }, (server, id) => server.ack(id)],
  ['cancelled', 120_000, {}, (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`)],
  ['discarded', 180_000, {}, (server, id) => server.nack(id, { message: 'x', retryable: false })],
  ['dead-lettered', 240_000, {}, (server, id) => server.nack(id, { message: 'x', code: 'DEAD_LETTER' })],
  ['discarded by x_on_timeout', 60_000, { x_on_timeout: 'discard', timeout_ms: 1 }, (server) => server.advance(1)],
]

test.each(ENDINGS)('a job that is %s is kept until x_purge_at and gone at it', async (_, ms, job, end) => {
  const server = await open()
  const { id } = await server.start(job)
  await end(server, id)
  expect((await server.job(id)).x_purge_at).toBe(new Date(server.clock.now() + ms).toISOString())
  await server.advance(ms - 1)
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(200)
  await server.advance(1)
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
  const result = await server.get(`/ojs/v1/jobs/${id}/result`)
  expect([result.status, result.body.error.code]).toEqual([410, 'gone'])
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('expired jobs are kept like discarded ones', async () => {
  const server = await open()
  const id = await server.enqueue({ enqueue_ttl: 60 })
  await server.advance(60_000)
  expect((await server.job(id)).x_purge_at).toBe(at(240_000))
})

test('a job that is not over has no end of its keeping', async () => {
  const server = await open()
  const { id } = await server.start({ retry: { jitter: false } })
  expect(await server.job(id)).not.toHaveProperty('x_purge_at')
  await server.nack(id)
  expect(await server.job(id)).not.toHaveProperty('x_purge_at')
})

test('a dead letter that is pruned leaves an event', async () => {
  const server = await open()
  const { id } = await server.start()
  await server.nack(id, { message: 'x', code: 'DEAD_LETTER' })
  await server.advance(240_000)
  expect((await server.eventTypes(id)).at(-1)).toBe('dead_letter.pruned')
})

test('the oldest dead letters make room when there are too many, and are told', async () => {
  const server = await open({ deadLetterMax: 2 })
  const ids: string[] = []
  for (let n = 0; n < 4; n += 1) {
    const { id } = await server.start()
    ids.push(id)
    await server.nack(id, { message: 'x', code: 'DEAD_LETTER' })
    await server.advance(1_000)
  }
  const dead = (await server.get('/ojs/v1/dead-letter')).body
  expect(dead.jobs.map(({ id }) => id)).toEqual([ids[3], ids[2]])
  expect((await server.get(`/ojs/v1/jobs/${ids[0] ?? ''}`)).status).toBe(404)
  expect((await server.eventTypes(ids[0])).at(-1)).toBe('dead_letter.pruned')
  expect((await server.get('/ojs/v1/queues/default/stats')).body.discarded).toBe(2)
})

test('an id that was purged may be used again', async () => {
  const server = await open()
  const id = '01890000-0000-7000-8000-00000000000a'
  await server.start({ id })
  await server.ack(id)
  await server.advance(60_000)
  expect(await server.enqueue({ id })).toBe(id)
  expect((await server.get(`/ojs/v1/jobs/${id}/result`)).body).toEqual({ job_id: id, state: 'available' })
})

test('a retry by hand takes a job back from its purge', async () => {
  const server = await open()
  const id = await server.enqueue()
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  await server.advance(60_000)
  await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
  await server.advance(600_000)
  expect((await server.job(id)).state).toBe('available')
})

test('a reset wipes everything, and everything works after it', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.call('PUT', '/api/v1/job-types/test.job', { timeout: 5 })
  await server.post('/ojs/v1/queues/default/pause')
  const { id } = await server.start({ queue: 'q' }, { worker_id: 'w' })
  await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: 1 })
  expect((await server.post('/ojs/v1/admin/reset')).status).toBe(200)
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
  expect((await server.get(`/ojs/v1/jobs/${id}/result`)).status).toBe(404)
  expect((await server.get(`/ojs/v1/jobs/${id}/checkpoint`)).status).toBe(404)
  expect((await server.get('/ojs/v1/workers')).body.workers).toEqual([])
  expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
  expect((await server.get('/api/v1/job-types')).body.items).toEqual([])
  expect(await server.events()).toEqual([])
  const again = await server.start({ timeout: 10 })
  expect(again.x_limits.sources.timeout).toBe('publish')
  await server.advance(10_000)
  expect((await server.job(again.id)).error.type).toBe('timeout')
})

test('without the bench there is no reset', async () => {
  const server = await TestServer.open({ settings: { conformance: false } })
  const id = await server.enqueue()
  expect((await server.post('/ojs/v1/admin/reset')).status).toBe(404)
  expect((await server.job(id)).state).toBe('available')
})

const configure = (server: TestServer, retention: unknown) =>
  server.call('PUT', '/ojs/v1/admin/queues/default/config', { retention })

test.each(ENDINGS)("a queue's own retention comes before the server's: a job that is %s", async (_, ms, job, end) => {
  const server = await open()
  await configure(server, { completed: 10, cancelled: 'PT20S', discarded: 30, dead_letter: 'PT40S' })
  const { id } = await server.start(job)
  await end(server, id)
  // What a publisher asked for comes before both.
  const keptMs = job['result_ttl'] === undefined ? ms / 6 : ms
  expect((await server.job(id)).x_purge_at).toBe(new Date(server.clock.now() + keptMs).toISOString())
  await server.advance(keptMs)
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
})

test('what a queue does not say about retention is left to the server', async () => {
  const server = await open()
  await configure(server, { completed: 10 })
  const id = await server.enqueue()
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  expect((await server.job(id)).x_purge_at).toBe(at(120_000))
})

test("a queue's retention is settled when a job is enqueued, and anew by a retry by hand", async () => {
  const server = await open()
  const { id } = await server.start()
  await configure(server, { completed: 10, discarded: 30, dead_letter: 40 })
  await server.nack(id, { message: 'x', code: 'DEAD_LETTER' })
  expect((await server.job(id)).x_purge_at).toBe(at(240_000))
  await server.post(`/ojs/v1/dead-letter/${id}/retry`)
  await server.fetch()
  await server.ack(id)
  expect((await server.job(id)).x_purge_at).toBe(at(10_000))
})

test('a bad retention is refused and changes nothing', async () => {
  const server = await open()
  await configure(server, { completed: 10 })
  const reply = await configure(server, { completed: '1 week' })
  expect([reply.status, reply.body.error.code]).toEqual([422, 'validation_error'])
  expect(reply.body.error.details.field).toBe('retention.completed')
  const { body } = await server.get('/ojs/v1/admin/queues/default')
  expect(body.config).toEqual({ retention: { completed: 10 } })
})
