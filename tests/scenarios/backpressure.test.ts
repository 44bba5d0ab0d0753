/** Queues with a bound: refused, waited for, or room is made; and never deeper than they may be. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { idle, TestServer, type Reply } from '../harness.ts'

const bound = async (server: TestServer, backpressure: unknown, queue = 'default'): Promise<void> => {
  const reply = await server.call('PUT', `/ojs/v1/admin/queues/${queue}/config`, { backpressure })
  if (reply.status !== 200) throw new Error(reply.text)
}
const push = (server: TestServer, job: Record<string, unknown> = {}, headers = {}): Promise<Reply> =>
  server.call('POST', '/ojs/v1/jobs', { type: 'test.job', args: [], ...job }, headers)
const batch = (server: TestServer, count: number, headers = {}): Promise<Reply> =>
  server.call(
    'POST',
    '/ojs/v1/jobs/batch',
    { jobs: Array.from({ length: count }, (_, n) => ({ type: 'test.job', args: [n] })) },
    headers,
  )
const depth = async (server: TestServer): Promise<number> =>
  (await server.get('/ojs/v1/queues/default/stats')).body.stats.depth as number
const told = async (server: TestServer, type: string) =>
  (await server.events()).filter((event) => event.type === type).map(({ data }) => data as Record<string, unknown>)

test('a full queue refuses, and says how deep it is and may be', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2 })
  await push(server)
  await push(server)
  const reply = await push(server)
  expect([reply.status, reply.body.error.code, reply.body.error.retryable]).toEqual([429, 'QUEUE_FULL', true])
  expect(reply.headers).toMatchObject({ 'Retry-After': '1', 'X-OJS-Queue-Depth': '2', 'X-OJS-Queue-Bound': '2' })
  expect(reply.body.error.details).toEqual({ queue: 'default', depth: 2, bound: 2, strategy: 'reject' })
  expect(await depth(server)).toBe(2)
  expect((await push(server, { queue: 'other' })).status).toBe(201)
  expect((await server.get('/ojs/v1/queues/default/stats')).body.stats).toMatchObject({ depth: 2, max_depth: 2 })
  expect(await server.metric('ojs_backpressure_rejected_total', { queue: 'default' })).toBe(1)
  expect(await server.metric('ojs_backpressure_pressure', { queue: 'default' })).toBe(1)
})

test('everything that is not over counts, and what ends makes room', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 4 })
  const retry = { max_attempts: 2, initial_interval: 'PT1M' }
  await push(server, { retry, priority: 9 })
  await push(server, { scheduled_at: '+PT1H' })
  await push(server, { pending: true })
  const { job } = (await server.fetch()).body
  await server.nack(job.id)
  const active = await server.start({ priority: 9 })
  expect((await push(server)).status).toBe(429)
  await server.ack(active.id)
  expect((await push(server)).status).toBe(201)
  expect((await push(server)).status).toBe(429)
  await server.call('DELETE', `/ojs/v1/jobs/${job.id}`)
  expect((await push(server, { enqueue_ttl: 30 })).status).toBe(201)
  server.clock.advance(30_000)
  expect((await push(server)).status).toBe(201)
})

test('a batch that does not fit is refused whole', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 3 })
  await push(server)
  const reply = await batch(server, 3)
  expect([reply.status, reply.body.error.details.index]).toEqual([429, 2])
  expect(await depth(server)).toBe(1)
  expect((await batch(server, 2)).status).toBe(201)
})

test('a batch that is refused takes no room from those that come with it', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 3 })
  await push(server)
  const replies = await Promise.all([batch(server, 3), push(server), batch(server, 2), push(server), push(server)])
  expect(replies.map(({ status }) => status)).toEqual([429, 201, 429, 201, 429])
  expect(await depth(server)).toBe(3)
})

test('in a bulk enqueue those that fit are taken', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2 })
  const jobs = Array.from({ length: 4 }, () => ({ type: 'a', args: [] }))
  const reply = await server.post('/ojs/v1/jobs/bulk', { jobs })
  expect([reply.status, reply.body.succeeded, reply.body.failed]).toEqual([207, 2, 2])
  expect(await server.metric('ojs_backpressure_rejected_total', { queue: 'default' })).toBe(2)
})

test('of many that come together as many are taken as there is room', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 7 })
  const replies = await Promise.all(Array.from({ length: 30 }, () => [push(server), server.fetch()]).flat())
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(7)
  expect(replies.filter(({ status }) => status === 429)).toHaveLength(23)
  expect(await depth(server)).toBe(7)
})

test('zero, or null for all of it, sets no bound', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1 })
  await push(server)
  expect((await push(server)).status).toBe(429)
  await bound(server, { max_depth: 0 })
  expect((await push(server)).status).toBe(201)
  await bound(server, null)
  expect((await server.get('/ojs/v1/admin/queues/default')).body.config).toEqual({})
  expect((await server.get('/ojs/v1/queues/default/stats')).body.stats.max_depth).toBe(null)
})

test.each([
  ['an unknown strategy', { max_depth: 1, strategy: 'drop_newest' }, 'backpressure.strategy'],
  ['a size', { max_size_bytes: 1_000 }, 'backpressure.max_size_bytes'],
  ['a negative depth', { max_depth: -1 }, 'backpressure.max_depth'],
])('a bound with %s is refused and changes nothing', async (_, backpressure, field) => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 5 })
  const reply = await server.call('PUT', '/ojs/v1/admin/queues/default/config', { backpressure })
  expect([reply.status, reply.body.error.details.field]).toEqual([422, field])
  expect((await server.get('/ojs/v1/admin/queues/default')).body.config).toEqual({ backpressure: { max_depth: 5 } })
})

// ---- Warnings ----

test('above the threshold every answer tells the pressure, and the log tells when it was crossed', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 4, warning_threshold: 0.75 })
  const pressures = [await push(server), await push(server), await push(server), await push(server)].map(
    ({ headers }) => headers['X-OJS-Queue-Pressure'],
  )
  expect(pressures).toEqual([undefined, undefined, '0.75', '1.00'])
  expect(await told(server, 'backpressure.warning')).toEqual([{ queue: 'default', depth: 3, bound: 4 }])
  const { jobs } = (await server.fetch({ count: 2 })).body
  for (const { id } of jobs) await server.ack(id)
  const reply = await batch(server, 2)
  expect(reply.headers).toMatchObject({ 'X-OJS-Queue-Depth': '4', 'X-OJS-Queue-Bound': '4' })
  expect(await told(server, 'backpressure.warning')).toHaveLength(2)
})

test('refusals are told at most once a second, with their number', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1 })
  await push(server)
  for (let n = 0; n < 5; n += 1) await push(server)
  await server.advance(1_000)
  await push(server)
  await idle()
  const data = { queue: 'default', depth: 1, bound: 1 }
  expect(await told(server, 'backpressure.rejected')).toEqual([
    { ...data, refused: 1 },
    { ...data, refused: 5 },
  ])
  expect(await server.metric('ojs_backpressure_rejected_total', { queue: 'default' })).toBe(6)
})

// ---- Making room ----

test('drop_oldest discards the job that has waited longest, and tells', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 3, strategy: 'drop_oldest' })
  const urgent = await server.enqueue({ priority: 9 })
  const oldest = await server.start({ priority: 10 })
  const young = await server.enqueue()
  expect((await push(server)).status).toBe(201)
  expect(await server.job(urgent)).toMatchObject({
    state: 'discarded',
    error: { type: 'queue_full', attempt: 0, retryable: false },
    errors: [{ type: 'queue_full' }],
  })
  expect((await server.eventTypes(urgent)).slice(-2)).toEqual(['backpressure.dropped', 'job.discarded'])
  expect((await server.job(oldest.id)).state).toBe('active')
  expect((await server.job(young)).state).toBe('available')
  expect(await depth(server)).toBe(3)
  expect(await server.metric('ojs_backpressure_dropped_total', { queue: 'default' })).toBe(1)
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
})

test('what runs or is scheduled is not dropped: then a full queue refuses', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2, strategy: 'drop_oldest' })
  await server.start()
  await server.enqueue({ scheduled_at: '+PT1H' })
  expect((await push(server)).status).toBe(429)
  expect(await depth(server)).toBe(2)
})

test('a batch makes room for all of it, but not out of itself', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 3, strategy: 'drop_oldest' })
  await batch(server, 3)
  expect((await batch(server, 3)).status).toBe(201)
  expect(await depth(server)).toBe(3)
  expect((await server.get('/ojs/v1/jobs?state=discarded')).body.pagination.total).toBe(3)
  expect((await batch(server, 4)).status).toBe(429)
  expect(await depth(server)).toBe(3)
  expect((await server.get('/ojs/v1/jobs?state=discarded')).body.pagination.total).toBe(3)
})

test('a bound that was lowered is made good with the next job', async () => {
  const server = await TestServer.open()
  for (let n = 0; n < 6; n += 1) await push(server)
  await bound(server, { max_depth: 2, strategy: 'drop_oldest' })
  expect(await depth(server)).toBe(6)
  expect((await push(server)).status).toBe(201)
  expect(await depth(server)).toBe(2)
})

test.each(['reject', 'drop_oldest'])('a job that replaces another takes its place (%s)', async (strategy) => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2, strategy })
  const unique = { on_conflict: 'replace', keys: ['type'] }
  await push(server, { type: 'other' })
  await push(server, { unique })
  expect((await push(server, { unique })).status).toBe(201)
  const { body } = await server.get('/ojs/v1/queues/default/stats')
  expect(body).toMatchObject({ available: 2, cancelled: 1, discarded: 0 })
  // And one that is kept needs none.
  expect((await push(server, { unique: { ...unique, on_conflict: 'ignore' } })).status).toBe(200)
})

test('jobs that come together replace, drop and come in one transaction', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2, strategy: 'drop_oldest' })
  const unique = { on_conflict: 'replace', keys: ['type'] }
  const before = await server.metric('curfew_commit_batch_size_count')
  const calls = Array.from({ length: 12 }, (_, n) => push(server, n % 3 === 0 ? { type: 'same', unique } : {}))
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 201))
  expect(await server.metric('curfew_commit_batch_size_count')).toBe(before + 1)
  expect(await depth(server)).toBe(2)
})

test('one that was replaced in the transaction that enqueued it may still be followed by a drop', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  await server.nack(id)
  await bound(server, { max_depth: 2, strategy: 'drop_oldest' })
  const oldest = await server.enqueue()
  const same = { type: 'same', unique: { on_conflict: 'replace', keys: ['type'] } }
  const before = await server.metric('curfew_commit_batch_size_count')
  const [first, , last] = await Promise.all([
    push(server, { ...same, scheduled_at: '+PT1H' }),
    server.post(`/ojs/v1/dead-letter/${id}/retry`),
    push(server, same),
  ])
  expect(await server.metric('curfew_commit_batch_size_count')).toBe(before + 1)
  expect([await depth(server), last.status]).toEqual([2, 201])
  expect((await server.job(first.body.job.id)).state).toBe('cancelled')
  expect((await server.job(oldest)).error).toMatchObject({ type: 'queue_full' })
})

test('plan tells of a queue that is full', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1 })
  const id = await server.enqueue()
  const plan = async (): Promise<string[]> =>
    (await server.post('/ojs/v1/jobs/plan', { type: 'a', args: [] })).body.warnings
  expect(await plan()).toEqual([expect.stringContaining('QUEUE_FULL')])
  await bound(server, { max_depth: 1, strategy: 'drop_oldest' })
  expect(await plan()).toEqual([expect.stringContaining(id)])
  expect((await server.job(id)).state).toBe('available')
})

// ---- Waiting ----

const patient = { 'ojs-block-timeout': '30' }

test('a request waits until there is room', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1, strategy: 'block' })
  const running = await server.start()
  let reply: Reply | null = null
  const waiting = push(server, { args: ['waited'] }, patient).then((answer) => (reply = answer))
  await server.advance(10_000)
  expect(reply).toBe(null)
  await server.ack(running.id)
  await idle()
  expect((await waiting).status).toBe(201)
  expect((await waiting).body.job).toMatchObject({ args: ['waited'], state: 'available' })
  expect(await depth(server)).toBe(1)
  expect(server.engine.capacityWaiters.size).toBe(0)
  expect(await told(server, 'backpressure.rejected')).toEqual([])
})

test('it is refused when its time is up; without a time, at once', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1, strategy: 'block' })
  await push(server)
  expect((await push(server)).status).toBe(429)
  expect((await push(server, {}, { 'ojs-block-timeout': '0' })).status).toBe(429)
  let status = 0
  const waiting = push(server, {}, { 'ojs-block-timeout': '2.5' }).then((answer) => (status = answer.status))
  await server.advance(2_499)
  expect(status).toBe(0)
  await server.advance(1)
  await waiting
  expect(status).toBe(429)
  expect(await depth(server)).toBe(1)
  expect(await server.metric('ojs_backpressure_rejected_total', { queue: 'default' })).toBe(3)
})

test.each(['soon', '-1', '1e3', ''])('a time to wait of %j is refused', async (sent) => {
  const server = await TestServer.open()
  const reply = await push(server, {}, { 'ojs-block-timeout': sent })
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'OJS-Block-Timeout'])
})

test('who hangs up is forgotten', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1, strategy: 'block' })
  const running = await server.start()
  const gone = new AbortController()
  const waiting = server.handler({
    method: 'POST',
    url: '/ojs/v1/jobs',
    headers: { 'content-type': 'application/json', ...patient },
    body: '{"type":"a","args":[]}',
    signal: gone.signal,
  })
  await idle()
  expect(server.engine.capacityWaiters.size).toBe(1)
  const acked = server.ack(running.id)
  gone.abort()
  await Promise.all([acked, waiting])
  expect(server.engine.capacityWaiters.size).toBe(0)
  expect(await depth(server)).toBe(0)
})

test('waiting enqueues are served in their order, and no other queue is held up', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2, strategy: 'block' })
  const running = [await server.start(), await server.start()]
  const served: number[] = []
  const waiting = [0, 1, 2].map((n) => push(server, { args: [n] }, patient).then(() => served.push(n)))
  await idle()
  expect((await push(server, { queue: 'other' })).status).toBe(201)
  for (const { id } of running) {
    await server.ack(id)
    await idle()
  }
  expect(served).toEqual([0, 1])
  const { job } = (await server.fetch()).body
  await server.ack(job.id)
  await Promise.all(waiting)
  expect(served).toEqual([0, 1, 2])
})

test('a batch waits for room for all of it; a single job behind it may go first', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 2, strategy: 'block' })
  const running = [await server.start(), await server.start()]
  let done = ''
  const many = batch(server, 2, patient).then(({ status }) => (done += `batch ${String(status)},`))
  await idle()
  const one = push(server, { args: ['one'] }, patient).then(({ status }) => (done += `one ${String(status)},`))
  await idle()
  await server.ack(running[0]?.id ?? '')
  await idle()
  expect(done).toBe('one 201,')
  await server.ack(running[1]?.id ?? '')
  await idle()
  const { job } = (await server.fetch()).body
  await server.ack(job.id)
  await Promise.all([many, one])
  expect(done).toBe('one 201,batch 201,')
})

test('a bound that is lifted lets those in who wait, and so does the end of the server', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1, strategy: 'block' })
  await push(server)
  const first = push(server, {}, patient)
  await idle()
  await bound(server, { max_depth: 2, strategy: 'block' })
  expect((await first).status).toBe(201)
  const second = push(server, {}, patient)
  await idle()
  server.engine.beginClose()
  expect((await second).status).toBe(429)
})

// ---- What is not refused half-way ----

test('retries come back into a full queue', async () => {
  const server = await TestServer.open()
  await bound(server, { max_depth: 1 })
  const { id } = await server.start({ retry: { max_attempts: 3, initial_interval: 'PT5S', jitter: false } })
  await server.nack(id)
  expect((await push(server)).status).toBe(429)
  await server.advance(5_000)
  expect((await server.job(id)).state).toBe('available')
})

test('an operator may retry by hand whatever the bound', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  await server.nack(id)
  await bound(server, { max_depth: 1 })
  await push(server)
  expect((await server.post(`/ojs/v1/dead-letter/${id}/retry`)).status).toBe(200)
  expect(await depth(server)).toBe(2)
  expect((await push(server)).body.error.details.depth).toBe(2)
})

// ---- Always ----

test('a bounded queue is never deeper than its bound, whatever comes, alone or together', async () => {
  const act = fc.oneof(
    fc.record({ do: fc.constant('push' as const), at: fc.constantFrom(undefined, '+PT10S'), key: fc.nat(2) }),
    fc.record({ do: fc.constant('batch' as const), count: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ do: fc.constant('fetch' as const), count: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ do: fc.constantFrom('ack' as const, 'nack' as const, 'cancel' as const), which: fc.nat(9) }),
    fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1_000, 10_000) }),
  )
  const groups = fc.array(fc.array(act, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 8 })
  const strategy = fc.constantFrom('reject', 'drop_oldest', 'block')
  await fc.assert(
    fc.asyncProperty(groups, strategy, fc.integer({ min: 1, max: 5 }), async (stories, how, maxDepth) => {
      const server = await TestServer.open()
      await bound(server, { max_depth: maxDepth, strategy: how })
      const retry = { max_attempts: 2, initial_interval: 'PT5S', jitter: false }
      for (const story of stories) {
        const { jobs } = (await server.get('/ojs/v1/jobs?limit=200')).body
        const calls = story.map((step) => {
          if (step.do === 'push') {
            const unique = { on_conflict: 'replace', args_keys: ['key'] }
            return push(server, { args: [{ key: step.key }], unique, scheduled_at: step.at, retry })
          }
          if (step.do === 'batch') return batch(server, step.count)
          if (step.do === 'fetch') return server.fetch({ count: step.count })
          if (step.do === 'advance') return server.advance(step.ms)
          const id = jobs[step.which]?.id ?? ''
          if (step.do === 'ack') return server.ack(id)
          return step.do === 'nack' ? server.nack(id) : server.call('DELETE', `/ojs/v1/jobs/${id}`)
        })
        await Promise.all(calls)
        expect(await depth(server)).toBeLessThanOrEqual(maxDepth)
      }
      await server.close()
    }),
    { numRuns: 25 },
  )
})

test.each([
  ['its queue is full', 'queue_full', (server: TestServer) => bound(server, { max_depth: 1 })],
  ['its queue drains', 'queue_paused', (server: TestServer) => server.post('/ojs/v1/queues/default/drain')],
])('a cron entry skips a firing while %s, and says so', async (_, reason, hinder) => {
  const server = await TestServer.open()
  await server.enqueue()
  await hinder(server)
  const entry = { name: 'hourly', cron: '0 * * * *', type: 'a', args: [], options: { queue: 'default' } }
  expect((await server.post('/ojs/v1/cron', entry)).status).toBe(201)
  await server.advance(3_600_000)
  expect((await told(server, 'cron.skipped')).map((data) => data['reason'])).toEqual([reason])
  await bound(server, null)
  await server.post('/ojs/v1/queues/default/resume')
  await server.advance(3_600_000)
  expect(await told(server, 'cron.triggered')).toHaveLength(1)
})

test('a cron entry skips a firing whose work is there already', async () => {
  const server = await TestServer.open()
  const unique = { on_conflict: 'ignore' }
  const entry = { name: 'hourly', cron: '0 * * * *', type: 'a', args: [], options: { unique }, overlap_policy: 'allow' }
  expect((await server.post('/ojs/v1/cron', entry)).status).toBe(201)
  await server.advance(7_200_000)
  expect(await told(server, 'cron.triggered')).toHaveLength(1)
  expect((await told(server, 'cron.skipped')).map((data) => data['reason'])).toEqual(['duplicate'])
})
