/** Limiters by key and by queue: how many start, when the next may, and what becomes of the others. */
import { expect, test } from 'vitest'
import { at, idle, TestServer, type Reply } from '../harness.ts'

const ids = ({ body }: Reply): string[] => body.jobs.map(({ id }) => id)

async function answered(poll: Promise<Reply>): Promise<boolean> {
  await idle()
  const open = Symbol('open')
  return (await Promise.race([poll, Promise.resolve(open)])) !== open
}

async function enqueueMany(server: TestServer, count: number, job: Record<string, unknown>): Promise<string[]> {
  const made: string[] = []
  for (let index = 0; index < count; index += 1) made.push(await server.enqueue(job))
  return made
}

// ---- Rates ----

test('a queue with max_per_second hands out so many, and the next when the window opens', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 3, { rate_limit: { max_per_second: 1 } })
  expect(ids(await server.fetch({ count: 5 }))).toEqual([made[0]])
  await server.advance(999)
  expect(ids(await server.fetch())).toEqual([])
  await server.advance(1)
  expect(ids(await server.fetch({ count: 5 }))).toEqual([made[1]])
  expect((await server.job(made[2]!)).state).toBe('available')
})

test('the last job that speaks for its queue sets the rate, and the other limits of the queue stay', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { rate_limit: { concurrency: 2 } })
  await enqueueMany(server, 5, { rate_limit: { max_per_second: 1 } })
  await server.enqueue({ rate_limit: { max_per_second: 3 } })
  expect(ids(await server.fetch({ count: 9 }))).toHaveLength(2)
  expect((await server.get('/ojs/v1/admin/queues/default')).body['config']).toEqual({
    rate_limit: { concurrency: 2, rate: { limit: 3, period: 'PT1S' } },
  })
})

test('jobs with one key share a rate across queues; others are handed out past them', async () => {
  const server = await TestServer.open()
  const limit = { key: 'stripe', rate: { limit: 2, period: 'PT1M' } }
  const first = await enqueueMany(server, 2, { queue: 'a', rate_limit: limit })
  const held = await server.enqueue({ queue: 'b', rate_limit: limit, priority: 10 })
  const free = await server.enqueue({ queue: 'b' })
  const other = await server.enqueue({ queue: 'b', rate_limit: { key: 'other', rate: 1, period: 'minute' } })
  expect(ids(await server.fetch({ queues: ['a', 'b'], count: 10 }))).toEqual([...first, free, other])
  await server.advance(59_999)
  expect(ids(await server.fetch({ queues: ['b'] }))).toEqual([])
  await server.advance(1)
  expect(ids(await server.fetch({ queues: ['b'] }))).toEqual([held])
})

test('the window slides: no minute ever sees more than the limit, wherever it begins', async () => {
  const server = await TestServer.open()
  await enqueueMany(server, 10, { rate_limit: { key: 'k', rate: 2, period: 'minute' } })
  await server.advance(59_000)
  expect(ids(await server.fetch({ count: 9 }))).toHaveLength(2)
  await server.advance(2_000)
  expect(ids(await server.fetch({ count: 9 }))).toEqual([])
  await server.advance(58_000)
  expect(ids(await server.fetch({ count: 9 }))).toHaveLength(2)
})

test('a throttle spaces starts evenly', async () => {
  const server = await TestServer.open()
  await enqueueMany(server, 4, { rate_limit: { key: 'k', throttle: { limit: 2, period: 'PT1S' } } })
  expect(ids(await server.fetch({ count: 4 }))).toHaveLength(1)
  await server.advance(499)
  expect(ids(await server.fetch({ count: 4 }))).toEqual([])
  await server.advance(1)
  expect(ids(await server.fetch({ count: 4 }))).toHaveLength(1)
})

test('every start counts, also those of retries', async () => {
  const server = await TestServer.open()
  await enqueueMany(server, 2, { rate_limit: { key: 'k', rate: 2, period: 'minute' }, retry: { max_attempts: 3 } })
  const first = (await server.fetch()).body.job
  await server.nack(first.id, { message: 'x' }, { requeue: true })
  expect(ids(await server.fetch({ count: 5 }))).toHaveLength(1)
  expect(ids(await server.fetch({ count: 5 }))).toEqual([])
})

// ---- Concurrency ----

test('no more than so many jobs of a key are active, and the next starts when one of them ends', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 4, { rate_limit: { key: 'db', concurrency: 2 } })
  expect(ids(await server.fetch({ count: 4 }))).toEqual(made.slice(0, 2))
  expect(ids(await server.fetch({ count: 4 }))).toEqual([])
  await server.ack(made[0]!)
  expect(ids(await server.fetch({ count: 4 }))).toEqual([made[2]])
})

test.each<[string, (server: TestServer, id: string) => Promise<unknown>]>([
  ['acked', (server, id) => server.ack(id)],
  ['failed', (server, id) => server.nack(id)],
  ['handed back', (server, id) => server.nack(id, { message: 'x' }, { requeue: true })],
  ['cancelled', (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`)],
  ['timed out', (server) => server.advance(60_000)],
])('a job that is %s makes room', async (_, end) => {
  const server = await TestServer.open()
  const limit = { rate_limit: { key: 'db', concurrency: 1 }, timeout: 10, grace_period: 0 }
  const [first, second] = await enqueueMany(server, 2, limit)
  expect(ids(await server.fetch({ count: 2 }))).toEqual([first])
  await end(server, first!)
  expect(ids(await server.fetch({ count: 1 }))).toEqual([second])
})

test('a concurrency of 0 pauses the key', async () => {
  const server = await TestServer.open()
  await server.enqueue({ rate_limit: { key: 'k', concurrency: 0 } })
  expect(ids(await server.fetch())).toEqual([])
  const second = await server.enqueue({ rate_limit: { key: 'k', concurrency: 2 } })
  expect(ids(await server.fetch({ count: 5 }))).toContain(second)
})

test('a queue has a concurrency of its own, together with those of keys', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/ojs/v1/admin/queues/default/rate-limit', { concurrency: 3 })
  const held = await enqueueMany(server, 2, { rate_limit: { key: 'k', concurrency: 1 } })
  const free = await enqueueMany(server, 3, {})
  expect(ids(await server.fetch({ count: 9 }))).toEqual([held[0], free[0], free[1]])
  expect(ids(await server.fetch({ count: 9 }))).toEqual([])
  await server.ack(free[0]!)
  expect(ids(await server.fetch({ count: 9 }))).toEqual([free[2]])
  await server.call('PUT', '/ojs/v1/admin/queues/default/rate-limit', {})
  await server.ack(held[0]!)
  expect(ids(await server.fetch({ count: 9 }))).toEqual([held[1]])
})

// ---- What becomes of those turned away ----

test('by default they stay available, and a TTL that passes meanwhile ends them as ever', async () => {
  const server = await TestServer.open()
  const limit = { rate_limit: { key: 'k', rate: 1, period: 'minute' } }
  await server.enqueue(limit)
  const waiting = await server.enqueue({ ...limit, enqueue_ttl: 30 })
  await server.fetch({ count: 5 })
  await server.advance(29_999)
  expect((await server.job(waiting)).state).toBe('available')
  await server.advance(1)
  expect(await server.job(waiting)).toMatchObject({ state: 'discarded', error: { type: 'enqueue_ttl_expired' } })
})

test('reschedule moves a job to the instant at which the window opens', async () => {
  const server = await TestServer.open()
  const limit = { rate_limit: { key: 'k', rate: 1, period: 'minute', on_limit: 'reschedule' } }
  const [, second] = await enqueueMany(server, 2, limit)
  await server.advance(5_000)
  expect(ids(await server.fetch({ count: 5 }))).toHaveLength(1)
  expect(await server.job(second!)).toMatchObject({ state: 'scheduled', scheduled_at: at(65_000) })
  await server.advance(60_000)
  expect(ids(await server.fetch({ count: 5 }))).toEqual([second])
})

test('reschedule waits where only an end can make room, whose time is unknown', async () => {
  const server = await TestServer.open()
  const [, second] = await enqueueMany(server, 2, {
    rate_limit: { key: 'k', concurrency: 1, on_limit: 'reschedule' },
  })
  await server.fetch({ count: 5 })
  expect((await server.job(second!)).state).toBe('available')
})

test('drop discards, and says why', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 4, {
    rate_limit: { key: 'push', rate: 1, period: 'minute', on_limit: 'drop' },
  })
  const free = await server.enqueue()
  expect(ids(await server.fetch({ count: 2 }))).toEqual([made[0], free])
  for (const id of made.slice(1)) {
    expect(await server.job(id)).toMatchObject({
      state: 'discarded',
      error: { type: 'rate_limited', retryable: false },
    })
  }
  expect((await server.events('push')).map(({ type }) => type)).toEqual(Array(3).fill('rate_limit.dropped'))
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('of many keys that are spent a fetch finds the job behind them', async () => {
  const server = await TestServer.open()
  for (let key = 0; key < 150; key += 1) {
    await enqueueMany(server, 2, { rate_limit: { key: `k${String(key)}`, concurrency: 1 } })
  }
  expect(ids(await server.fetch({ count: 1000 }))).toHaveLength(150)
  const free = await server.enqueue()
  expect(ids(await server.fetch())).toEqual([free])
})

test('jobs that are dropped by the thousands do not hold up other jobs', async () => {
  const server = await TestServer.open()
  const job = { type: 'a', args: [], rate_limit: { key: 'k', concurrency: 0, on_limit: 'drop' } }
  for (let batch = 0; batch < 3; batch += 1)
    await server.post('/ojs/v1/jobs/batch', { jobs: Array.from({ length: 8_000 }, () => job) })
  const free = await server.enqueue()
  expect(ids(await server.fetch())).toEqual([free])
  expect((await server.get('/ojs/v1/queues/default/stats')).body).toMatchObject({ discarded: 24_000, available: 0 })
}, 60_000)

// ---- Waiting fetches ----

test('a poll that a rate turned away is answered at the instant the window opens', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 2, { rate_limit: { key: 'k', rate: 1, period: 'PT5S' } })
  await server.fetch()
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(4_999)
  expect(await answered(poll)).toBe(false)
  await server.advance(1)
  expect((await poll).body).toMatchObject({ jobs: [{ id: made[1] }], server_time: at(5_000) })
})

test('a poll that concurrency turned away is answered when an active job ends, in whatever way', async () => {
  const server = await TestServer.open()
  const limit = { rate_limit: { key: 'k', concurrency: 1 }, timeout: 5, grace_period: 0, retry: { max_attempts: 1 } }
  const made = await enqueueMany(server, 3, limit)
  await server.fetch()
  const first = server.fetch({ wait_ms: 30_000 })
  await server.advance(2_000)
  expect(await answered(first)).toBe(false)
  await server.ack(made[0]!)
  expect(ids(await first)).toEqual([made[1]])
  const second = server.fetch({ wait_ms: 30_000 })
  await server.advance(5_000)
  expect((await second).body).toMatchObject({ jobs: [{ id: made[2] }], server_time: at(7_000) })
})

test('when the poll that watches a limiter leaves, another takes over', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 2, { rate_limit: { key: 'k', rate: 1, period: 'PT20S' } })
  await server.fetch()
  const leaving = server.fetch({ wait_ms: 10_000 })
  await idle()
  const staying = server.fetch({ wait_ms: 30_000 })
  await server.advance(10_000)
  expect(ids(await leaving)).toEqual([])
  await server.advance(10_000)
  expect((await staying).body).toMatchObject({ jobs: [{ id: made[1] }], server_time: at(20_000) })
})

test('polls that came while nothing waited are all served when the window opens', async () => {
  const server = await TestServer.open()
  const polls = [1, 2, 3, 4].map(() => server.fetch({ wait_ms: 30_000 }))
  await server.advance(1_000)
  const made = await enqueueMany(server, 6, { rate_limit: { key: 'k', rate: 2, period: 'PT5S' } })
  await idle()
  expect(await Promise.all(polls.map(answered))).toEqual([true, true, false, false])
  await server.advance(5_000)
  expect((await Promise.all(polls)).flatMap(ids)).toEqual(made.slice(0, 4))
})

test('an exchange waits for a limiter like a fetch', async () => {
  const server = await TestServer.open()
  const made = await enqueueMany(server, 2, { rate_limit: { key: 'k', concurrency: 1 } })
  const exchange = (more: object): Promise<Reply> =>
    server.post('/ojs/v1/workers/exchange', { worker_id: 'w', ...more })
  expect(ids(await exchange({ fetch: { queues: ['default'], count: 5 } }))).toEqual([made[0]])
  const poll = exchange({ fetch: { queues: ['default'], count: 5, wait_ms: 30_000 } })
  await server.advance(1_000)
  expect(await answered(poll)).toBe(false)
  expect(ids(await exchange({ acks: [{ job_id: made[0] }], fetch: { queues: ['default'], count: 5 } }))).toEqual([
    made[1],
  ])
  await server.ack(made[1]!)
  expect(await answered(poll)).toBe(false)
  const third = await server.enqueue({ rate_limit: { key: 'k' } })
  expect(ids(await poll)).toEqual([third])
})

test('wider limits of a queue reach polls that wait', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { rate_limit: { concurrency: 0 } })
  const id = await server.enqueue()
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(1_000)
  expect(await answered(poll)).toBe(false)
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { rate_limit: null })
  expect(ids(await poll)).toEqual([id])
})

test('with a clock turned by hand, polls look again when it is turned', async () => {
  const server = await TestServer.open({ manual: true })
  const made = await enqueueMany(server, 2, { rate_limit: { key: 'k', rate: 1, period: 'PT5S' } })
  await server.fetch()
  const poll = server.fetch({ wait_ms: 30_000 })
  await idle()
  await server.post('/ojs/v1/admin/clock', { advance_ms: 4_999 })
  expect(await answered(poll)).toBe(false)
  await server.post('/ojs/v1/admin/clock', { advance_ms: 1 })
  expect(ids(await poll)).toEqual([made[1]])
})

// ---- What is reported ----

test('an enqueue is never refused for a limiter, and its answer says what is left', async () => {
  const server = await TestServer.open()
  const push = (rate_limit: object): Promise<Reply> => server.post('/ojs/v1/jobs', { type: 'a', args: [], rate_limit })
  const limit = { key: 'k', rate: 2, period: 'minute' }
  expect((await push(limit)).headers).toMatchObject({ 'X-RateLimit-Limit': '2', 'X-RateLimit-Remaining': '2' })
  await server.fetch({ count: 2 })
  await push(limit)
  await server.fetch({ count: 2 })
  const reply = await push(limit)
  expect([reply.status, reply.body.job.state]).toEqual([201, 'available'])
  expect(reply.headers).toMatchObject({
    'X-RateLimit-Limit': '2',
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset': String(Date.parse(at(60_000)) / 1000),
  })
  const plain = await server.post('/ojs/v1/jobs', { type: 'a', args: [], queue: 'plain' })
  expect(plain.headers).not.toHaveProperty('X-RateLimit-Limit')
})

test('the limiter of a queue shows at every enqueue into it; of two, the one that leaves least', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { rate_limit: { concurrency: 5 } })
  const plain = await server.post('/ojs/v1/jobs', { type: 'a', args: [] })
  expect(plain.headers).toMatchObject({ 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '5' })
  await server.fetch()
  const both = await server.post('/ojs/v1/jobs', { type: 'a', args: [], rate_limit: { key: 'k', concurrency: 9 } })
  expect(both.headers).toMatchObject({ 'X-RateLimit-Limit': '5', 'X-RateLimit-Remaining': '4' })
})

test('a limiter tells what it lets through, who holds it and who waits', async () => {
  const server = await TestServer.open()
  const limit = { key: 'a/b c', concurrency: 2, rate: { limit: 10, period: 'PT1M' } }
  await enqueueMany(server, 3, { rate_limit: limit })
  await server.fetch({ count: 5 })
  const { body } = await server.get(`/ojs/v1/rate-limits/${encodeURIComponent('a/b c')}`)
  expect(body).toEqual({
    key: 'a/b c',
    concurrency: { limit: 2, active: 2, available: 0 },
    active: 2,
    waiting: 1,
    waiting_count: 1,
    rate: { limit: 10, period: 'PT60S', current_count: 2, remaining: 8, window_resets_at: at(0) },
    throttle: null,
    window: { kind: 'sliding', opens_at: null },
  })
  expect((await server.get('/ojs/v1/rate-limits/unknown')).status).toBe(404)
  expect((await server.get(`/ojs/v1/rate-limits/${'x'.repeat(256)}`)).status).toBe(400)
})

test('limiters are listed page by page', async () => {
  const server = await TestServer.open()
  for (const key of ['c', 'a', 'b']) await server.enqueue({ rate_limit: { key, concurrency: 1 } })
  await server.call('PUT', '/ojs/v1/admin/queues/q/rate-limit', { rate: 5, period: 'second' })
  await server.enqueue({ queue: 'q' })
  await server.fetch({ queues: ['q'] })
  const first = (await server.get('/ojs/v1/rate-limits?limit=2')).body
  expect(first.items.map(({ key }) => key as string)).toEqual(['a', 'b'])
  const next = (await server.get(`/ojs/v1/rate-limits?limit=2&cursor=${first['pagination'].next_cursor as string}`))
    .body
  expect(next.items.map(({ key, queue }) => (key ?? queue) as string)).toEqual(['c', 'q'])
  expect(next['pagination']).toEqual({ limit: 2, has_more: false })
  expect((await server.get('/ojs/v1/admin/queues/q/rate-limit')).body).toMatchObject({ queue: 'q', rate: { limit: 5 } })
  expect((await server.get('/ojs/v1/admin/queues/other/rate-limit')).status).toBe(404)
})

test('there is one event when a limiter is spent, and one when jobs start again', async () => {
  const server = await TestServer.open()
  await enqueueMany(server, 4, { rate_limit: { key: 'k', concurrency: 1 } })
  const first = (await server.fetch({ count: 5 })).body.job
  await server.fetch({ count: 5 })
  await server.fetch({ count: 5 })
  await server.ack(first.id)
  await server.fetch()
  expect(
    (await server.events('k')).map(({ type, data }) => [type, data.strategy as unknown, data.limit as unknown]),
  ).toEqual([
    ['rate_limit.exceeded', 'concurrency', 1],
    ['rate_limit.released', undefined, undefined],
  ])
})

test('a limiter that was not used for a day is forgotten, one that is held is not', async () => {
  const server = await TestServer.open()
  await server.enqueue({ rate_limit: { key: 'done', concurrency: 1 } })
  await server.ack((await server.fetch()).body.job.id)
  await server.enqueue({ rate_limit: { key: 'held', concurrency: 1 }, timeout: 400_000, visibility_timeout: 400_000 })
  await server.fetch()
  // At one go: while a job is active, a day of it has twenty thousand signs of life.
  server.clock.advance(86_400_000)
  await server.advance(0)
  expect((await server.get('/ojs/v1/rate-limits/done')).status).toBe(404)
  expect((await server.get('/ojs/v1/rate-limits/held')).body).toMatchObject({ active: 1 })
})

test('jobs that still wait for a forgotten limiter bring its terms back', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/queues/default/pause')
  await enqueueMany(server, 2, { rate_limit: { key: 'k', concurrency: 1 } })
  await server.advance(2 * 86_400_000)
  expect((await server.get('/ojs/v1/rate-limits/k')).status).toBe(404)
  await server.post('/ojs/v1/queues/default/resume')
  expect(ids(await server.fetch({ count: 5 }))).toHaveLength(1)
})

test.each<[unknown, string]>([
  [{}, 'rate_limit.key'],
  [{ key: '' }, 'rate_limit.key'],
  [{ key: 'k', rate: 0, period: 'second' }, 'rate_limit.rate'],
  [{ key: 'k', on_limit: 'explode' }, 'rate_limit.on_limit'],
  [{ max_per_second: 0 }, 'rate_limit.max_per_second'],
  [[], 'rate_limit'],
])('rate_limit %j is refused with 422, and nothing is stored', async (rate_limit, field) => {
  const server = await TestServer.open()
  for (const body of [{ rate_limit }, { options: { rate_limit } }]) {
    const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...body })
    expect([reply.status, reply.body.error.details.field]).toEqual([422, field])
  }
  expect((await server.get('/ojs/v1/jobs')).body.jobs).toEqual([])
  expect((await server.call('PUT', '/ojs/v1/admin/queues/q/rate-limit', { burst: 1 })).status).toBe(422)
})

test('a job shows the limit it asked for', async () => {
  const server = await TestServer.open()
  const rate_limit = { key: 'k', rate: 5, period: 'hour', on_limit: 'wait' }
  const id = await server.enqueue({ options: { rate_limit } })
  expect((await server.job(id))['rate_limit']).toEqual(rate_limit)
})
