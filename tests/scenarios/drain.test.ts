/** A queue that drains: nothing new comes in, what is there goes out. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const drain = (server: TestServer) => server.post('/ojs/v1/queues/default/drain')
const push = (server: TestServer) => server.post('/ojs/v1/jobs', { type: 'a', args: [] })
const queue = async (server: TestServer) => (await server.get('/ojs/v1/queues/default')).body.queue as unknown

test('a draining queue takes no jobs, and workers finish what is there', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  const reply = await drain(server)
  expect(reply.status).toBe(200)
  expect(reply.body).toEqual({
    queue: { name: 'default', paused: false, status: 'draining' },
    name: 'default',
    paused: false,
    status: 'draining',
    draining: true,
    draining_at: at(0),
  })
  const refused = await push(server)
  expect([refused.status, refused.body.error.code, refused.body.error.retryable]).toEqual([422, 'queue_paused', true])
  expect(refused.body.error.details).toEqual({ queue: 'default', status: 'draining' })
  expect(await queue(server)).toMatchObject({ status: 'draining', state: 'draining', paused: false, drained: false })
  expect((await server.fetch()).body.job.id).toBe(id)
  await server.ack(id)
  expect(await queue(server)).toMatchObject({ status: 'draining', drained: true })
  expect((await server.get('/ojs/v1/queues/default/stats')).body).toMatchObject({ status: 'draining', paused: false })
})

test('resume ends a drain, once and for all that ask', async () => {
  const server = await TestServer.open()
  await drain(server)
  await server.advance(1_000)
  expect((await drain(server)).body.draining_at).toBe(at(0))
  const resumed = await server.post('/ojs/v1/queues/default/resume')
  expect(resumed.body).toMatchObject({ status: 'active', resumed_at: at(1_000) })
  expect(resumed.body).not.toHaveProperty('draining')
  expect((await push(server)).status).toBe(201)
  await server.post('/ojs/v1/queues/default/resume')
  expect(await server.eventTypes('default')).toEqual(['queue.draining', 'queue.resumed'])
})

test('a queue that is paused takes jobs; one that also drains does neither', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/queues/default/pause')
  expect((await push(server)).status).toBe(201)
  expect((await server.post('/ojs/v1/admin/queues/default/drain')).body).toMatchObject({
    status: 'paused',
    paused: true,
    draining: true,
  })
  expect((await push(server)).status).toBe(422)
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.post('/ojs/v1/admin/queues/default/resume')
  expect((await server.fetch()).body.jobs).toHaveLength(1)
  expect((await push(server)).status).toBe(201)
})

test('retries of what has begun, and by hand, come back into a draining queue', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({
    retry: { max_attempts: 2, initial_interval: 'PT1S', on_exhaustion: 'dead_letter' },
  })
  await drain(server)
  await server.nack(id)
  await server.advance(2_000)
  expect((await server.fetch()).body.job.id).toBe(id)
  await server.nack(id)
  expect((await server.post(`/ojs/v1/dead-letter/${id}/retry`)).status).toBe(200)
})

test('batches, bulks and plans hear of it; other queues go on', async () => {
  const server = await TestServer.open()
  await drain(server)
  const jobs = [
    { type: 'a', args: [], queue: 'other' },
    { type: 'a', args: [] },
  ]
  const batch = await server.post('/ojs/v1/jobs/batch', { jobs })
  expect([batch.status, batch.body.error.details.index]).toEqual([422, 1])
  const bulk = await server.post('/ojs/v1/jobs/bulk', { jobs })
  expect([bulk.status, bulk.body.succeeded]).toEqual([207, 1])
  const plan = await server.post('/ojs/v1/jobs/plan', jobs[1])
  expect(plan.body.warnings).toEqual([expect.stringContaining('draining')])
})

test('a queue that was never used can be drained, and a bad name cannot', async () => {
  const server = await TestServer.open()
  expect((await server.post('/ojs/v1/queues/fresh/drain')).status).toBe(200)
  expect((await server.post('/ojs/v1/queues/BAD/drain')).status).toBe(400)
})
