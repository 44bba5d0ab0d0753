/** Many jobs at once: all or none, in order. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const V7 = '01890000-0000-7000-8000-00000000000a'
const GOOD = { type: 'a', args: [] }
const push = (server: TestServer, jobs: unknown) => server.post('/ojs/v1/jobs/batch', { jobs })

test('the jobs come back whole, in the order of the request, and are handed out in it', async () => {
  const server = await TestServer.open()
  const reply = await push(server, [
    { ...GOOD, args: [1] },
    { ...GOOD, args: [2], options: { queue: 'b' } },
    { ...GOOD, args: [3], pending: true },
  ])
  expect(reply.status).toBe(201)
  expect(reply.body.count).toBe(3)
  expect(reply.body.jobs).toMatchObject([
    { args: [1], state: 'available' },
    { args: [2], queue: 'b' },
    { args: [3], state: 'pending' },
  ])
  await push(server, [GOOD, GOOD])
  const { jobs } = (await server.fetch({ count: 10 })).body
  expect(jobs.map(({ args }) => args as unknown)).toEqual([[1], [], []])
})

const BAD: [string, unknown, number, string, string][] = [
  ['a missing type', { args: [] }, 400, 'invalid_request', 'type'],
  ['a bad option', { ...GOOD, options: { priority: 1_000 } }, 400, 'invalid_request', 'priority'],
  ['a bad limit', { ...GOOD, timeout: 0 }, 422, 'validation_error', 'timeout'],
  ['a bad policy', { ...GOOD, retry: { max_attempts: -1 } }, 422, 'validation_error', 'retry.max_attempts'],
  ['an unknown parent', { ...GOOD, x_parent: { job_id: V7 } }, 422, 'validation_error', 'x_parent'],
  ['too much meta', { ...GOOD, meta: { a: 'x'.repeat(70_000) } }, 413, 'payload_too_large', 'meta'],
]

test.each(BAD)(
  'one entry with %s and nothing is stored; the answer names entry and field',
  async (_, bad, status, code, field) => {
    const server = await TestServer.open()
    const reply = await push(server, [GOOD, GOOD, bad, GOOD])
    expect(reply.status).toBe(status)
    expect(reply.body.error).toMatchObject({ code, details: { index: 2, field } })
    expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
    expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
    expect(await server.events()).toEqual([])
    expect(await server.metric('ojs_job_enqueued_total', { queue: 'default', type: 'a' })).toBe(0)
  },
)

test.each([5, null, 'x', []])('an entry that is %j is named as well', async (bad) => {
  const server = await TestServer.open()
  const reply = await push(server, [GOOD, bad])
  expect(reply.status).toBe(400)
  expect(reply.body.error.details).toMatchObject({ index: 1 })
})

test('an id taken, or twice in the batch, is a duplicate and nothing is stored', async () => {
  const server = await TestServer.open()
  const twice = await push(server, [GOOD, { ...GOOD, id: V7 }, { ...GOOD, id: V7 }])
  expect(twice.body.error).toMatchObject({ code: 'duplicate', details: { existing_job_id: V7, index: 2 } })
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
  await server.enqueue({ id: V7 })
  expect((await push(server, [GOOD, { ...GOOD, id: V7 }])).status).toBe(409)
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(1)
})

test.each([[[]], [undefined], [{}], ['x']])('jobs must be a list with at least one entry, not %j', async (jobs) => {
  const server = await TestServer.open()
  const reply = await push(server, jobs)
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'jobs'])
})

test('a refused batch leaves the calls that came with it alone', async () => {
  const server = await TestServer.open()
  const [first, refused, last] = await Promise.all([
    push(server, [GOOD]),
    push(server, [GOOD, { ...GOOD, x_parent: { job_id: V7 } }]),
    push(server, [GOOD, GOOD]),
  ])
  expect([first.status, refused.status, last.status]).toEqual([201, 422, 201])
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(3)
  expect(await server.events()).toHaveLength(3)
})

test('a thousand jobs are one batch, ten thousand and one are too many', async () => {
  const server = await TestServer.open()
  const many = (n: number): unknown[] => Array.from({ length: n }, () => GOOD)
  expect((await push(server, many(1_000))).body.count).toBe(1_000)
  expect((await push(server, many(10_001))).status).toBe(400)
})

test('Prefer: return=minimal answers ids and states, in order', async () => {
  const server = await TestServer.open()
  const jobs = [
    { ...GOOD, id: V7 },
    { ...GOOD, pending: true },
  ]
  const reply = await server.call('POST', '/ojs/v1/jobs/batch', { jobs }, { prefer: 'return=minimal' })
  expect(reply.status).toBe(201)
  expect(reply.headers['Preference-Applied']).toBe('return=minimal')
  expect(reply.body).toEqual({
    jobs: [
      { id: V7, state: 'available' },
      { id: expect.any(String), state: 'pending' },
    ],
    count: 2,
  })
})
