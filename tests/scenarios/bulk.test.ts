/** Many jobs that have nothing to do with each other: one request, one commit, each standing or falling alone. */
import { expect, test } from 'vitest'
import { TestServer, type JobView, type Reply } from '../harness.ts'

const V7 = '01890000-0000-7000-8000-00000000000a'
const GOOD = { type: 'a', args: [] }
const bulk = (server: TestServer, jobs: unknown, more: object = {}) =>
  server.post('/ojs/v1/jobs/bulk', { jobs, ...more })

interface Item {
  readonly index: number
  readonly status: string
  readonly job?: JobView
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly error?: any
}

const items = ({ body }: Reply): Item[] => body.items as unknown as Item[]
const total = async (server: TestServer): Promise<number> =>
  (await server.get('/ojs/v1/jobs')).body.pagination.total as number
const commits = (server: TestServer): Promise<number> => server.metric('curfew_commit_batch_size_count')

test('all are enqueued: 200, the jobs whole and in order, one commit', async () => {
  const server = await TestServer.open()
  const before = await commits(server)
  const reply = await bulk(server, [
    { ...GOOD, args: [1] },
    { ...GOOD, args: [2], options: { queue: 'b' } },
    { ...GOOD, args: [3], pending: true },
  ])
  expect(await commits(server)).toBe(before + 1)
  expect(reply.status).toBe(200)
  expect(reply.headers['X-OJS-Batch-Size']).toBe('3')
  expect(reply.body).toMatchObject({
    total: 3,
    succeeded: 3,
    failed: 0,
    items: [
      { index: 0, status: 'created', job: { args: [1], state: 'available' } },
      { index: 1, status: 'created', job: { args: [2], queue: 'b' } },
      { index: 2, status: 'created', job: { args: [3], state: 'pending' } },
    ],
  })
  const [first] = items(reply)
  expect(first?.job).toEqual(await server.job(first?.job?.id ?? ''))
})

const BAD: [string, unknown, string, string | undefined][] = [
  ['a missing type', { args: [] }, 'invalid_request', 'type'],
  ['a bad option', { ...GOOD, options: { priority: 1_000 } }, 'invalid_request', 'priority'],
  ['a bad limit', { ...GOOD, timeout: 0 }, 'validation_error', 'timeout'],
  ['an unknown parent', { ...GOOD, x_parent: { job_id: V7 } }, 'validation_error', 'x_parent'],
  ['too much meta', { ...GOOD, meta: { a: 'x'.repeat(70_000) } }, 'payload_too_large', 'meta'],
  ['a bad unique policy', { ...GOOD, unique: { keys: ['x'] } }, 'validation_error', 'unique.keys[0]'],
  ['a number', 5, 'invalid_request', 'jobs[1]'],
  ['nothing', null, 'invalid_request', 'jobs[1]'],
]

test.each(BAD)('an entry that is or has %s falls alone: 207', async (_, bad, code, field) => {
  const server = await TestServer.open()
  const reply = await bulk(server, [{ ...GOOD, args: [1] }, bad, { ...GOOD, args: [2] }])
  expect(reply.status).toBe(207)
  expect(reply.body).toMatchObject({ total: 3, succeeded: 2, failed: 1 })
  expect(items(reply).map(({ index, status }) => [index, status])).toEqual([
    [0, 'created'],
    [1, 'failed'],
    [2, 'created'],
  ])
  const [, failed] = items(reply)
  expect(failed?.error).toMatchObject({ code, details: { field }, request_id: reply.headers['X-Request-Id'] })
  expect(failed).not.toHaveProperty('job')
  const { jobs } = (await server.fetch({ count: 10 })).body
  expect(jobs.map(({ args }) => args as unknown)).toEqual([[1], [2]])
})

test('an entry is refused with the words of a single enqueue', async () => {
  const server = await TestServer.open()
  const bad = { ...GOOD, timeout: -1 }
  const single = await server.post('/ojs/v1/jobs', bad)
  const reply = await bulk(server, [bad, GOOD])
  const { request_id: _, ...error } = items(reply)[0]?.error as Record<string, unknown>
  expect({ ...error, request_id: single.body.error.request_id as unknown }).toEqual(single.body.error)
})

test('all are refused: 422, with the same answer', async () => {
  const server = await TestServer.open()
  const reply = await bulk(server, [{ args: [] }, { ...GOOD, x_parent: { job_id: V7 } }])
  expect(reply.status).toBe(422)
  expect(reply.body).toMatchObject({ total: 2, succeeded: 0, failed: 2 })
  expect(items(reply).map(({ status }) => status)).toEqual(['failed', 'failed'])
  expect(await total(server)).toBe(0)
  expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
})

test('an id taken, or twice in the request, is a duplicate and falls alone, so a request may be repeated', async () => {
  const server = await TestServer.open()
  const jobs = [GOOD, { ...GOOD, id: V7 }, { ...GOOD, id: V7 }]
  const reply = await bulk(server, jobs)
  expect(items(reply).map(({ status }) => status)).toEqual(['created', 'created', 'failed'])
  expect(items(reply)[2]?.error).toMatchObject({ code: 'duplicate', details: { existing_job_id: V7 } })
  const again = await bulk(server, jobs.slice(1, 2))
  expect([again.status, items(again)[0]?.error.code]).toEqual([422, 'duplicate'])
  expect(await total(server)).toBe(2)
})

test('a child may be enqueued with its parent', async () => {
  const server = await TestServer.open()
  const reply = await bulk(server, [
    { ...GOOD, id: V7, total_timeout: 60 },
    { ...GOOD, x_parent: { job_id: V7 }, x_inherit_deadline: true },
  ])
  expect(items(reply)[1]?.job?.x_limits).toMatchObject({ total_ms: 60_000, sources: { total: 'parent' } })
})

test('the text of a job stays as it was written', async () => {
  const server = await TestServer.open()
  const odd = '[12345678901234567890,  1.0, "\\ud800", {"__proto__": 1}]'
  const reply = await server.post('/ojs/v1/jobs/bulk', `{"jobs" : [5, {"args": ${odd}, "type":"a","x_own":${odd}}]}`)
  expect(reply.text).toContain(`"args":${odd}`)
  const { text } = await server.get(`/ojs/v1/jobs/${items(reply)[1]?.job?.id ?? ''}`)
  expect(text).toContain(`"args":${odd}`)
  expect(text).toContain(`"x_own":${odd}`)
})

test.each([[[]], [undefined], [{}], ['x']])('jobs must be a list with at least one entry, not %j', async (jobs) => {
  const server = await TestServer.open()
  const reply = await bulk(server, jobs)
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'jobs'])
})

test('a thousand jobs are one request and one commit; more are refused with the number that may be', async () => {
  const server = await TestServer.open()
  const many = (n: number): unknown[] => Array.from({ length: n }, () => GOOD)
  const before = await commits(server)
  expect((await bulk(server, many(1_000))).body.succeeded).toBe(1_000)
  expect(await commits(server)).toBe(before + 1)
  const reply = await bulk(server, many(1_001))
  expect([reply.status, reply.headers['X-OJS-Max-Batch-Size']]).toEqual([413, '1000'])
  expect(reply.body.error).toMatchObject({ code: 'payload_too_large', details: { max_batch_size: 1_000 } })
  expect(await total(server)).toBe(1_000)
})

test('what is not offered is refused, not ignored', async () => {
  const server = await TestServer.open()
  expect((await bulk(server, [GOOD], { atomicity: 'partial' })).status).toBe(200)
  expect((await bulk(server, [GOOD], { atomicity: 'some' })).status).toBe(400)
  const url = '/ojs/v1/jobs/bulk'
  for (const reply of [
    await bulk(server, [GOOD], { atomicity: 'atomic' }),
    await bulk(server, [GOOD], { idempotency_key: 'k' }),
    await server.call('POST', url, { jobs: [GOOD] }, { 'idempotency-key': 'k' }),
  ]) {
    expect([reply.status, reply.body.error.code]).toEqual([422, 'unsupported'])
  }
  expect(await total(server)).toBe(1)
})

test('Prefer: return=minimal answers ids and states, and errors as ever', async () => {
  const server = await TestServer.open()
  await server.post('/ojs/v1/jobs', {
    ...GOOD,
    id: V7,
    args: ['there'],
    unique: { keys: ['type'], on_conflict: 'ignore' },
  })
  const jobs = [
    { ...GOOD, type: 'b', args: ['long'] },
    { ...GOOD, args: ['there'], unique: { keys: ['type'], on_conflict: 'ignore' } },
    { args: [] },
  ]
  const reply = await server.call(
    'POST',
    '/ojs/v1/jobs/bulk',
    { jobs },
    { prefer: 'respond-async, Return="minimal"; x=1' },
  )
  expect(reply.status).toBe(207)
  expect(reply.headers['Preference-Applied']).toBe('return=minimal')
  expect(items(reply)).toEqual([
    { index: 0, status: 'created', job: { id: expect.any(String), state: 'available' } },
    { index: 1, status: 'existing', deduplicated: true, job: { id: V7, state: 'available' } },
    { index: 2, status: 'failed', error: expect.objectContaining({ code: 'invalid_request' }) },
  ])
})

test.each([
  'return=representation',
  'return=minimalist',
  'xreturn=minimal',
  'return=representation, return=minimal',
  '',
])('Prefer: %s answers the jobs whole', async (prefer) => {
  const server = await TestServer.open()
  const reply = await server.call('POST', '/ojs/v1/jobs/bulk', { jobs: [GOOD] }, { prefer })
  expect(reply.headers).not.toHaveProperty('Preference-Applied')
  expect(items(reply)[0]?.job).toMatchObject({ type: 'a', args: [] })
})
