/** Many at once: more deadlines, jobs and calls in one instant than one transaction takes. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const many = (n: number, job: object = {}): object => ({
  jobs: Array.from({ length: n }, () => ({ type: 'a', args: [], ...job })),
})

test('a thousand deadlines in one millisecond are all decided in it, before any call that comes with them', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/jobs/batch', many(1_000, { enqueue_ttl: 10 }))
  await server.advance(9_999)
  expect((await server.get('/ojs/v1/queues/default/stats')).body.available).toBe(1_000)
  server.clock.advance(1)
  const [fetched, stats] = await Promise.all([
    server.fetch({ count: 1_000 }),
    server.get('/ojs/v1/queues/default/stats'),
  ])
  expect(fetched.body.jobs).toEqual([])
  expect(stats.body).toMatchObject({ available: 0, discarded: 1_000 })
  const { jobs } = (await server.get('/ojs/v1/jobs?limit=200')).body
  for (const { error } of jobs) expect(error).toMatchObject({ overshoot_ms: 0, occurred_at: at(10_000) })
})

test('a dead worker gives back everything, however much it held', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.post('/ojs/v1/jobs/batch', many(600))
  expect((await server.fetch({ worker_id: 'w', count: 600 })).body.jobs).toHaveLength(600)
  await server.advance(30_000)
  expect((await server.get('/ojs/v1/queues/default/stats')).body).toMatchObject({ available: 600, active: 0 })
  const { events } = (await server.get('/ojs/v1/events?types=worker.died')).body
  expect(events[0]?.data.recovered_jobs).toHaveLength(600)
})

test('calls that arrive together are decided one by one: a refused one takes nothing of the others with it', async () => {
  const server = await TestServer.open()
  await server.register('busy')
  const { id } = await server.start({}, { worker_id: 'busy' })
  const replies = await Promise.all([
    server.post('/ojs/v1/jobs', { type: 'a', args: [] }),
    server.call('DELETE', '/ojs/v1/admin/workers/busy'),
    server.ack(id, { worker_id: 'stranger' }),
    server.fetch({ worker_id: 'busy' }),
    server.ack(id, { worker_id: 'busy' }),
    server.ack(id, { worker_id: 'busy' }),
    server.call('DELETE', '/ojs/v1/jobs/nope'),
    server.post('/ojs/v1/jobs', { type: 'b', args: [] }),
  ])
  expect(replies.map(({ status }) => status)).toEqual([201, 409, 409, 200, 200, 409, 404, 201])
  expect(replies[3]?.body.jobs).toHaveLength(1)
  expect((await server.get('/ojs/v1/queues/default/stats')).body).toMatchObject({
    available: 1,
    active: 1,
    completed: 1,
  })
})

test('an enqueue and a fetch in the same turn: the fetch sees what came before it', async () => {
  const server = await TestServer.open()
  const [enqueued, fetched] = await Promise.all([server.post('/ojs/v1/jobs', { type: 'a', args: [] }), server.fetch()])
  expect(fetched.body.job).toMatchObject({ id: enqueued.body.job.id, attempt: 1 })
})

test('a job that lives long keeps a story of bounded length, and all its counts', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  for (let time = 0; time < 150; time += 1) {
    await server.fetch()
    await server.post('/ojs/v1/workers/nack', { job_id: id, requeue: true })
  }
  expect(await server.job(id)).toMatchObject({ state: 'available', attempt: 150, x_interruptions: 150 })
  const { spans } = (await server.get(`/ojs/v1/jobs/${id}/explain`)).body
  expect(spans.length).toBeLessThan(250)
  expect(spans[0]).toMatchObject({ kind: 'waiting', from: at(0) })
})
