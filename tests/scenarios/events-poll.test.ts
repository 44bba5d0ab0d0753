/** Events by poll: order, shape, filters, the cursor, and what is pruned. */
import { expect, test } from 'vitest'
import { days, minutes } from '@curfew/core'
import { at, TestServer, type Body } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const poll = async (server: TestServer, query = '') => (await server.get(`/ojs/v1/events${query}`)).body
const types = (events: { type: string }[]): string[] => events.map(({ type }) => type)

test('an event is an envelope with the job’s name in it', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ type: 'mail.send', queue: 'mail', priority: 3, meta: { trace_id: 't-1' } })
  const { events, cursor, has_more } = await poll(server)
  expect(events).toEqual([
    {
      specversion: '1.0',
      id: expect.stringMatching(/^evt_[0-9a-f-]{36}$/),
      type: 'job.enqueued',
      source: expect.stringMatching(/^ojs:\/\//),
      time: at(0),
      subject: id,
      data: { job_id: id, job_type: 'mail.send', queue: 'mail', trace_id: 't-1', priority: 3 },
    },
  ])
  expect([cursor, has_more]).toEqual([events[0]?.id, false])
})

test('oldest first; after is exclusive; the cursor goes on where the page ended', async () => {
  const server = await TestServer.open()
  for (let n = 0; n < 5; n += 1) await server.enqueue({ type: `t${String(n)}` })
  const names = ({ events }: Body) => events.map(({ data }) => data.job_type as string)
  const first = await poll(server, '?limit=2')
  expect([names(first), first.has_more]).toEqual([['t0', 't1'], true])
  const second = await poll(server, `?limit=2&after=${first.cursor}`)
  expect([names(second), second.has_more]).toEqual([['t2', 't3'], true])
  const third = await poll(server, `?limit=2&after=${second.cursor}`)
  expect([names(third), third.has_more]).toEqual([['t4'], false])
  const none = await poll(server, `?limit=2&after=${third.cursor}`)
  expect(none).toEqual({ events: [], cursor: third.cursor, has_more: false })
})

test('order=desc begins with the newest, and the cursor goes on to older ones', async () => {
  const server = await TestServer.open()
  for (let n = 0; n < 5; n += 1) await server.enqueue({ type: `t${String(n)}` })
  const names = ({ events }: Body) => events.map(({ data }) => data.job_type as string)
  const first = await poll(server, '?order=desc&limit=2')
  expect([names(first), first.has_more]).toEqual([['t4', 't3'], true])
  // What happens meanwhile does not move the pages.
  await server.enqueue({ type: 'new' })
  const second = await poll(server, `?order=desc&limit=2&after=${first.cursor}`)
  expect([names(second), second.has_more]).toEqual([['t2', 't1'], true])
  const third = await poll(server, `?order=desc&limit=2&after=${second.cursor}`)
  expect([names(third), third.has_more]).toEqual([['t0'], false])
  const none = await poll(server, `?order=desc&limit=2&after=${third.cursor}`)
  expect(none).toEqual({ events: [], cursor: third.cursor, has_more: false })
  expect((await server.get('/ojs/v1/events?order=newest')).status).toBe(400)
})

test('order=desc passes what its filter skips, and says where it ended', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.post('/ojs/v1/jobs/batch', { jobs: Array.from({ length: 1_000 }, () => ({ type: 'a', args: [] })) })
  const many = await poll(server, '?order=desc&types=worker.started')
  expect([types(many.events), many.has_more]).toEqual([['worker.started'], false])
  expect(types((await poll(server, '?order=desc&types=worker.*&queues=default')).events)).toEqual([])
})

test('has_more is exact when the page is', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/jobs/batch', { jobs: Array.from({ length: 1_000 }, () => ({ type: 'a', args: [] })) })
  expect((await poll(server, '?limit=1000')).has_more).toBe(false)
  expect((await poll(server, '?limit=999')).has_more).toBe(true)
  await server.enqueue()
  expect((await poll(server, '?limit=1000')).has_more).toBe(true)
})

test('filters by type, wildcard, queue and job type, and the cursor passes what it skipped', async () => {
  const server = await TestServer.open()
  const a = await server.start({ type: 'x', queue: 'a' })
  await server.ack(a.id)
  await server.start({ type: 'y', queue: 'b' })
  await server.post('/ojs/v1/queues/b/pause')
  await server.register('w')
  expect(types((await poll(server, '?types=job.completed')).events)).toEqual(['job.completed'])
  expect(types((await poll(server, '?types=queue.*,worker.*')).events)).toEqual(['queue.paused', 'worker.started'])
  expect(types((await poll(server, '?queues=b')).events)).toEqual(['job.enqueued', 'job.started', 'queue.paused'])
  expect(types((await poll(server, '?job_types=x&types=job.*')).events)).toEqual([
    'job.enqueued',
    'job.started',
    'job.completed',
  ])
  const none = await poll(server, '?types=job.cancelled')
  expect(none.events).toEqual([])
  await server.call('DELETE', `/ojs/v1/jobs/${await server.enqueue()}`)
  expect(types((await poll(server, `?types=job.cancelled&after=${none.cursor}`)).events)).toEqual(['job.cancelled'])
})

test.each(['nonsense', 'evt_01890000-0000-7000-8000-000000000000', 'evt_01890000-0000-7e7e-a7e7-000000000001'])(
  'after=%s, which is not an event of this server, is refused',
  async (after) => {
    const server = await TestServer.open()
    await server.enqueue()
    const reply = await server.get(`/ojs/v1/events?after=${after}`)
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'after'])
  },
)

test('an event that was pruned is gone', async () => {
  const store = await openTestStore({ maxAgeMs: days(7), maxCount: 10 })
  const server = await TestServer.open({ store })
  await server.enqueue()
  const { cursor } = await poll(server)
  for (let n = 0; n < 200; n += 1) await server.enqueue()
  const reply = await server.get(`/ojs/v1/events?after=${cursor}`)
  expect([reply.status, reply.body.error.code]).toEqual([410, 'gone'])
  const left = await poll(server, '?limit=1000')
  expect(left.events.length).toBeGreaterThanOrEqual(10)
  expect(left.events.length).toBeLessThan(200)
})

test('events older than their time are pruned', async () => {
  const store = await openTestStore({ maxAgeMs: minutes(1), maxCount: 1_000_000 })
  const server = await TestServer.open({ store })
  const old = await server.enqueue()
  await server.advance(59_000)
  await server.enqueue()
  expect((await server.events(old)).length).toBe(1)
  await server.advance(60_000)
  await server.enqueue()
  await server.enqueue()
  expect((await server.events(old)).length).toBe(0)
})

test('a limit above 1000 is 1000, below 1 is refused', async () => {
  const server = await TestServer.open()
  expect((await server.get('/ojs/v1/events?limit=5000')).status).toBe(200)
  expect((await server.get('/ojs/v1/events?limit=0')).body.error.details.field).toBe('limit')
  expect((await server.get('/ojs/v1/events?limit=x')).status).toBe(400)
})

test('every job, queue and dead-letter event names its queue', async () => {
  const server = await TestServer.open({ settings: { deadLetterMax: 1 } })
  const dead = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  for (const end of ['retry', 'delete', 'prune', 'stay']) {
    const { id } = await server.start({ queue: 'q', retry: dead })
    await server.nack(id)
    if (end === 'retry') await server.post(`/ojs/v1/dead-letter/${id}/retry`)
    if (end === 'retry') await server.call('DELETE', `/ojs/v1/jobs/${id}`)
    if (end === 'delete') await server.call('DELETE', `/ojs/v1/dead-letter/${id}`)
    await server.advance(1_000)
  }
  await server.post('/ojs/v1/queues/q/pause')
  const { events } = await poll(server, '?limit=1000')
  expect(types(events)).toEqual(
    expect.arrayContaining(['dead_letter.added', 'dead_letter.retried', 'dead_letter.deleted', 'dead_letter.pruned']),
  )
  for (const { type, data } of events) if (!type.startsWith('worker.')) expect(data.queue).toBe('q')
})
