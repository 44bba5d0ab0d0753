/** Earliest deadline first, and who will be late all the same. */
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const ids = ({ body }: Reply): string[] => body.jobs.map(({ id }) => id)
const configure = (server: TestServer, config: object): Promise<Reply> =>
  server.call('PUT', '/ojs/v1/admin/queues/default/config', config)

// ---- Earliest deadline first ----

test('by default jobs of one priority are handed out as they came', async () => {
  const server = await TestServer.open()
  const made = [
    await server.enqueue({ total_timeout: 7_200 }),
    await server.enqueue({ total_timeout: 60, timeout: 30 }),
  ]
  expect(ids(await server.fetch({ count: 5 }))).toEqual(made)
})

test('with order edf the nearest deadline goes first within a priority, and those without one last', async () => {
  const server = await TestServer.open()
  expect((await configure(server, { order: 'edf' })).body).toMatchObject({ order: 'edf', config: { order: 'edf' } })
  const dateless = await server.enqueue()
  const later = await server.enqueue({ total_timeout: 9_000 })
  const soon = await server.enqueue({ enqueue_ttl: 60 })
  const expiring = await server.enqueue({ expires_at: at(30_000) })
  const urgent = await server.enqueue({ priority: 1 })
  const low = await server.enqueue({ priority: -1, enqueue_ttl: 1 })
  expect(ids(await server.fetch({ count: 9 }))).toEqual([urgent, expiring, soon, later, dateless, low])
})

test('the order may be changed while jobs wait, and null brings back the first', async () => {
  const server = await TestServer.open()
  const made = [await server.enqueue({ enqueue_ttl: 90 }), await server.enqueue({ enqueue_ttl: 60 })]
  await configure(server, { order: 'edf' })
  expect(ids(await server.fetch())).toEqual([made[1]])
  await server.nack(made[1]!, { message: 'x' }, { requeue: true })
  await configure(server, { order: null })
  expect(ids(await server.fetch({ count: 5 }))).toEqual(made)
  expect((await configure(server, { order: 'lifo' })).status).toBe(422)
})

test('limiters and tenants keep to the order', async () => {
  const server = await TestServer.open()
  await configure(server, { order: 'edf' })
  const limit = { rate_limit: { key: 'k', concurrency: 1 } }
  const later = await server.enqueue({ ...limit, enqueue_ttl: 90, meta: { tenant_id: 'a' } })
  const soon = await server.enqueue({ ...limit, enqueue_ttl: 60, meta: { tenant_id: 'b' } })
  const free = await server.enqueue({ meta: { tenant_id: 'a' } })
  expect(ids(await server.fetch({ count: 5 }))).toEqual([soon, free])
  await server.ack(soon)
  const fetch = { queues: ['default'], count: 5 }
  expect(ids(await server.call('POST', '/ojs/v1/workers/fetch', fetch, { 'x-ojs-tenant': 'b' }))).toEqual([])
  expect(ids(await server.call('POST', '/ojs/v1/workers/fetch', fetch, { 'x-ojs-tenant': 'a' }))).toEqual([later])
})

// ---- At risk ----

/** A worker that takes a job every so often, and is done with it at once. */
async function work(server: TestServer, jobs: number, everyMs: number): Promise<void> {
  for (let done = 0; done < jobs; done += 1) {
    const { job } = (await server.fetch()).body
    await server.advance(everyMs)
    await server.ack(job.id)
  }
}

test('jobs whose turn comes after their latest start are at risk, with the figures that say so', async () => {
  const server = await TestServer.open()
  for (let index = 0; index < 30; index += 1) await server.enqueue()
  const late = await server.enqueue({ enqueue_ttl: 30 })
  const inTime = await server.enqueue({ enqueue_ttl: 300 })
  await work(server, 10, 1_000)
  const { body } = await server.get('/ojs/v1/admin/at-risk?queue=default')
  // Ten of thirty-two have started in ten seconds: twenty are ahead, one a second.
  expect(body['items']).toEqual([
    {
      job_id: late,
      type: 'test.job',
      queue: 'default',
      priority: 0,
      state: 'available',
      latest_start: at(30_000),
      expected_start: at(31_000),
      late_by_ms: 1_000,
      deadline: at(30_000),
      limit: 'enqueue_ttl',
      source: 'publish',
      jobs_ahead: 20,
    },
  ])
  expect(body['queues']).toEqual([
    {
      queue: 'default',
      paused: false,
      waiting: 22,
      examined: 22,
      starts: 10,
      window_ms: 10_000,
      starts_per_second: 1,
    },
  ])
  expect(body['computed_at']).toBe(at(10_000))
  expect((await server.job(inTime)).state).toBe('available')
})

test('earliest deadline first brings a job out of risk that would be late in line', async () => {
  const server = await TestServer.open()
  for (let index = 0; index < 30; index += 1) await server.enqueue()
  await server.enqueue({ enqueue_ttl: 30 })
  await work(server, 10, 1_000)
  expect((await server.get('/ojs/v1/admin/at-risk')).body.items).toHaveLength(1)
  await configure(server, { order: 'edf' })
  expect((await server.get('/ojs/v1/admin/at-risk')).body.items).toEqual([])
})

test('a total leaves room for what attempts of the type lately took', async () => {
  const server = await TestServer.open()
  for (let index = 0; index < 3; index += 1) await server.enqueue({ timeout: 20 })
  const id = await server.enqueue({ total_timeout: 25, timeout: 20 })
  await work(server, 2, 10_000)
  const [risk] = (await server.get('/ojs/v1/admin/at-risk')).body.items
  expect(risk).toMatchObject({ job_id: id, limit: 'total', latest_start: at(15_000), deadline: at(25_000) })
})

test('where nothing starts, every job with a deadline is at risk', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ enqueue_ttl: 600 })
  await server.enqueue()
  const [risk, ...rest] = (await server.get('/ojs/v1/admin/at-risk')).body.items
  expect(risk).toMatchObject({ job_id: id, expected_start: null, late_by_ms: null, jobs_ahead: 0 })
  expect(rest).toEqual([])
})

test('of a paused queue nothing is expected to start', async () => {
  const server = await TestServer.open()
  await server.start()
  await server.enqueue({ enqueue_ttl: 600 })
  expect((await server.get('/ojs/v1/admin/at-risk')).body.items).toEqual([])
  await server.post('/ojs/v1/queues/default/pause')
  const { body } = await server.get('/ojs/v1/admin/at-risk')
  expect([body.items.length, body['queues'][0].paused]).toEqual([1, true])
})

test('jobs that wait for a moment behind their limit are at risk whatever the pace', async () => {
  const server = await TestServer.open()
  const doomed = await server.enqueue({ scheduled_at: at(60_000), enqueue_ttl: 30, queue: 'a' })
  await server.enqueue({ scheduled_at: at(10_000), enqueue_ttl: 30, queue: 'a' })
  const { body } = await server.get('/ojs/v1/admin/at-risk')
  expect(body.items).toHaveLength(1)
  expect(body.items[0]).toMatchObject({
    job_id: doomed,
    state: 'scheduled',
    expected_start: at(60_000),
    latest_start: at(30_000),
    jobs_ahead: null,
  })
  expect((await server.get('/ojs/v1/admin/at-risk?queue=b')).body.items).toEqual([])
})

test('the nearest come first, and no more than asked for', async () => {
  const server = await TestServer.open()
  const far = await server.enqueue({ enqueue_ttl: 600 })
  const near = await server.enqueue({ enqueue_ttl: 300, queue: 'b' })
  expect((await server.get('/ojs/v1/admin/at-risk')).body.items.map(({ job_id }) => job_id as string)).toEqual([
    near,
    far,
  ])
  expect((await server.get('/ojs/v1/admin/at-risk?limit=1')).body.items).toHaveLength(1)
  expect((await server.get('/ojs/v1/admin/at-risk?queue=b')).body.items).toHaveLength(1)
  expect((await server.get('/ojs/v1/admin/at-risk?limit=0')).status).toBe(400)
  expect((await server.get('/ojs/v1/admin/at-risk?queue=A')).status).toBe(400)
})

test('only jobs that may be late are read whole, and no more than there is room for', async () => {
  const server = await TestServer.open()
  const read = server.store.jobsInLine.bind(server.store)
  let spots = 0
  server.store.jobsInLine = (asked) => {
    spots += asked.length
    return read(asked)
  }
  const many = (count: number, fields: object) =>
    server.post('/ojs/v1/jobs/batch', {
      jobs: Array.from({ length: count }, () => ({ type: 'a', args: [], ...fields })),
    })
  await many(1_000, {})
  await many(3, { enqueue_ttl: 600 })
  expect((await server.get('/ojs/v1/admin/at-risk')).body.items).toHaveLength(3)
  expect(spots).toBe(3)
  await many(1_000, { enqueue_ttl: 600 })
  await many(1_000, { enqueue_ttl: 900, queue: 'b' })
  spots = 0
  expect((await server.get('/ojs/v1/admin/at-risk?limit=20')).body.items).toHaveLength(20)
  expect(spots).toBe(100)
  expect((await server.get('/api/v1/board/forecast?minutes=5')).body['at_risk']).toBe(0)
  expect(spots).toBe(100)
})

test('a long queue does not hide the jobs of a queue after it, and the answer says how far each was looked at', async () => {
  const server = await TestServer.open()
  const many = (queue: string, fields: object): Promise<Reply> =>
    server.post('/ojs/v1/jobs/batch', {
      jobs: Array.from({ length: 1_000 }, () => ({ type: 'a', args: [], queue, ...fields })),
    })
  for (let thousands = 0; thousands < 20; thousands += 1) await many('a-long', { enqueue_ttl: 86_400 })
  await many('b-without-deadlines', {})
  const soon = await server.enqueue({ queue: 'c-short', enqueue_ttl: 30 })
  const { body } = await server.get('/ojs/v1/admin/at-risk?limit=1')
  expect(body.items).toMatchObject([{ job_id: soon, queue: 'c-short' }])
  expect(body['complete']).toBe(false)
  expect(body['queues']).toMatchObject([
    { queue: 'a-long', waiting: 20_000, examined: 19_998 },
    { queue: 'b-without-deadlines', waiting: 1_000, examined: 1_000 },
    { queue: 'c-short', waiting: 1, examined: 1 },
  ])
})
