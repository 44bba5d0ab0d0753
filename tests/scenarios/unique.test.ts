/** Unique jobs: the same work is not enqueued twice, whichever caller asks, however it is written, and whatever comes together. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const push = (server: TestServer, unique: unknown, job: Record<string, unknown> = {}): Promise<Reply> =>
  server.post('/ojs/v1/jobs', { type: 'mail.send', args: [{ user: 1 }], unique, ...job })
const commits = (server: TestServer): Promise<number> => server.metric('curfew_commit_batch_size_count')
const total = async (server: TestServer): Promise<number> =>
  (await server.get('/ojs/v1/jobs')).body.pagination.total as number

test('a second job for the same work is refused, and the first one is named', async () => {
  const server = await TestServer.open()
  const first = await push(server, {})
  expect(first.status).toBe(201)
  expect(first.body.job.unique).toEqual({})
  const second = await push(server, {})
  expect([second.status, second.body.error.code]).toEqual([409, 'duplicate'])
  const key = createHash('sha256').update('{"args":[{"user":1}],"type":"mail.send"}').digest('hex')
  expect(second.body.error.details).toEqual({
    existing_job_id: first.body.job.id,
    existing_state: 'available',
    unique_key: key,
  })
  expect(await server.job(first.body.job.id)).toEqual(first.body.job)
  expect(await total(server)).toBe(1)
})

test('other arguments, another type, or another queue if that is chosen, are other work', async () => {
  const server = await TestServer.open()
  await push(server, {})
  expect((await push(server, {}, { queue: 'other' })).status).toBe(409)
  expect((await push(server, {}, { args: [{ user: 2 }] })).status).toBe(201)
  expect((await push(server, {}, { type: 'mail.call' })).status).toBe(201)
  const byQueue = { keys: ['queue'] }
  expect((await push(server, byQueue)).status).toBe(201)
  expect((await push(server, byQueue, { args: [9] })).status).toBe(409)
  expect((await push(server, byQueue, { queue: 'other' })).status).toBe(201)
})

test('how it is written does not matter: keys, space, numbers, Unicode', async () => {
  const server = await TestServer.open()
  const send = (args: string): Promise<Reply> => server.post('/ojs/v1/jobs', `{"type":"a","unique":{},"args":${args}}`)
  expect((await send('[{"a":1,"b":"\u00e9"}]')).status).toBe(201)
  expect((await send('[ { "b" : "e\u0301", "a" : 1.0 } ]')).status).toBe(409)
  expect((await send('[{"a":1e0,"b":"\\u00e9"}]')).status).toBe(409)
  expect((await send('[12345678901234567890]')).status).toBe(201)
  expect((await send('[12345678901234567891]')).status).toBe(201)
  expect((await send('["\\ud800"]')).status).toBe(201)
  expect((await send('["\\ud801"]')).status).toBe(201)
  expect((await send('["\\ud800"]')).status).toBe(409)
})

test('chosen fields of the first argument and of the metadata, in every dialect', async () => {
  const server = await TestServer.open()
  const dialects = [
    { options: { unique: { key: ['user'] } } },
    { unique: { args_keys: ['user'] } },
    { unique: { keys: ['type', 'args'], args_keys: ['user'], meta_keys: [] } },
  ]
  const send = (more: object): Promise<Reply> =>
    server.post('/ojs/v1/jobs', { type: 'mail.send', args: [{ user: 1, at: Math.random() }], ...more })
  expect((await send(dialects[0] ?? {})).status).toBe(201)
  for (const dialect of dialects) expect((await send(dialect)).status).toBe(409)
  const byTenant = { keys: ['meta'], meta_keys: ['tenant'] }
  expect((await push(server, byTenant, { meta: { tenant: 'a', trace: 1 } })).status).toBe(201)
  expect((await push(server, byTenant, { meta: { tenant: 'a', trace: 2 } })).status).toBe(409)
  expect((await push(server, byTenant, { meta: { tenant: 'b' } })).status).toBe(201)
  expect((await push(server, byTenant, { options: { metadata: { tenant: 'b' } } })).status).toBe(409)
})

test.each([
  ['an unknown dimension', { keys: ['argz'] }, 'unique.keys[0]'],
  ['meta without meta_keys', { keys: ['meta'] }, 'unique.meta_keys'],
  ['a field the arguments lack', { args_keys: ['unknown'] }, 'unique.args_keys'],
  ['an unknown state', { states: ['sleeping'] }, 'unique.states[0]'],
  ['a bad period', { period: '1h' }, 'unique.period'],
  ['an unknown answer', { on_conflict: 'shrug' }, 'unique.on_conflict'],
  ['no object', 'yes', 'unique'],
])('a policy with %s is refused, and nothing is stored', async (_, unique, field) => {
  const server = await TestServer.open()
  const reply = await push(server, unique)
  expect([reply.status, reply.body.error.type, reply.body.error.details.field]).toEqual([
    422,
    'validation_error',
    field,
  ])
  expect(await total(server)).toBe(0)
})

test.each(['ignore', 'use_existing'])('%s answers 200 with the job that is there', async (word) => {
  const server = await TestServer.open()
  const first = await push(server, { on_conflict: word })
  const second = await push(server, { on_conflict: word })
  expect(second.status).toBe(200)
  expect(second.body).toEqual({ ...first.body.job, job: first.body.job, deduplicated: true })
  expect(second.headers['Location']).toBe(`/ojs/v1/jobs/${first.body.job.id}`)
  expect(await server.eventTypes()).toEqual(['job.enqueued'])
})

test('replace cancels the one that waits, tells why, and the new one comes', async () => {
  const server = await TestServer.open()
  const first = (await push(server, { on_conflict: 'replace', keys: ['type'] })).body.job
  const second = await push(server, { on_conflict: 'replace', keys: ['type'] }, { args: ['new'] })
  expect([second.status, second.body.job.args]).toEqual([201, ['new']])
  expect(await server.job(first.id)).toMatchObject({ state: 'cancelled', cancel_reason: 'replaced' })
  const cancelled = (await server.events(first.id)).at(-1)
  expect(cancelled).toMatchObject({
    type: 'job.cancelled',
    data: { reason: 'replaced', cancelled_by: second.body.job.id },
  })
  expect((await server.fetch({ count: 5 })).body.jobs.map(({ id }) => id)).toEqual([second.body.job.id])
})

test('a job that runs is not replaced', async () => {
  const server = await TestServer.open()
  await push(server, { on_conflict: 'replace' })
  const { job } = (await server.fetch()).body
  const reply = await push(server, { on_conflict: 'replace' })
  expect([reply.status, reply.body.error.details.existing_state]).toEqual([409, 'active'])
  expect((await server.ack(job.id)).status).toBe(200)
  expect((await push(server, { on_conflict: 'replace' })).status).toBe(201)
})

test('replace_except_schedule keeps the moment of the one it replaces, byte for byte', async () => {
  const server = await TestServer.open()
  const unique = { on_conflict: 'replace_except_schedule', keys: ['type'] }
  const moment = '2026-01-01T13:00:00+00:00'
  const first = (await push(server, unique, { scheduled_at: moment, timeout: 5 })).body.job
  const second = (await push(server, unique, { scheduled_at: '+PT2H', args: [2] })).body.job
  expect(second).toMatchObject({ state: 'scheduled', scheduled_at: moment, args: [2] })
  expect(second).not.toHaveProperty('timeout')
  const third = (await push(server, unique, { args: [3] })).body.job
  expect(third).toMatchObject({ state: 'scheduled', scheduled_at: moment })
  expect((await server.job(first.id)).state).toBe('cancelled')
  await server.advance(3_600_000)
  expect((await server.job(third.id)).state).toBe('available')
  // What is not scheduled has no moment to keep.
  const fourth = (await push(server, unique, { scheduled_at: '+PT2H' })).body.job
  expect(fourth).toMatchObject({ state: 'scheduled', scheduled_at: at(3_600_000 + 7_200_000) })
})

test('the period is counted from the creation of the first', async () => {
  const server = await TestServer.open()
  const hourly = { period: 'PT1H' }
  await push(server, hourly)
  await server.advance(3_599_999)
  expect((await push(server, hourly)).status).toBe(409)
  await server.advance(1)
  expect((await push(server, hourly)).status).toBe(201)
  await server.advance(3_599_999)
  expect((await push(server, hourly)).status).toBe(409)
})

test('a job that is over does not count as a duplicate, unless its state is asked for', async () => {
  const server = await TestServer.open()
  await push(server, {})
  const { job } = (await server.fetch()).body
  expect((await push(server, {})).status).toBe(409)
  await server.ack(job.id)
  const ever = { states: ['available', 'active', 'completed'], on_conflict: 'ignore' }
  expect(await push(server, ever)).toMatchObject({ status: 200, body: { job: { id: job.id, state: 'completed' } } })
  expect((await push(server, {})).status).toBe(201)
  // Narrow states see nothing else.
  expect((await push(server, { states: ['scheduled'] })).status).toBe(201)
})

test('a job that waits for its retry is a duplicate, and the retry is never asked again', async () => {
  const server = await TestServer.open()
  const retry = { max_attempts: 2, initial_interval: 'PT10S', jitter: false }
  await push(server, {}, { retry })
  const { job } = (await server.fetch()).body
  await server.nack(job.id)
  expect((await push(server, {})).status).toBe(409)
  // A twin of the same fingerprint that looked only at other states does not keep it from coming back.
  expect((await push(server, { states: ['scheduled'] })).status).toBe(201)
  await server.advance(10_000)
  expect((await server.job(job.id)).state).toBe('available')
  await server.call('DELETE', `/ojs/v1/jobs/${job.id}`)
  expect((await server.post(`/ojs/v1/admin/jobs/${job.id}/retry`)).body.job.state).toBe('available')
})

test('a job that ends by its deadline does not count as a duplicate in that very millisecond', async () => {
  const server = await TestServer.open()
  await push(server, {}, { enqueue_ttl: 10 })
  await server.advance(9_999)
  expect((await push(server, {})).status).toBe(409)
  server.clock.advance(1)
  expect((await push(server, {})).status).toBe(201)
})

test('of many that come together exactly one is enqueued', async () => {
  const server = await TestServer.open()
  const replies = await Promise.all(Array.from({ length: 40 }, () => push(server, {})))
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(replies.filter(({ status }) => status === 409)).toHaveLength(39)
  const winner = replies.find(({ status }) => status === 201)?.body.job.id
  for (const { status, body } of replies) if (status === 409) expect(body.error.details.existing_job_id).toBe(winner)
  expect(await total(server)).toBe(1)
})

test('of many that come together and replace each other the last one is left', async () => {
  const server = await TestServer.open()
  const unique = { on_conflict: 'replace', keys: ['type'] }
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, n) => push(server, unique, { args: [n], queue: `q${String(n % 3)}` })),
  )
  expect(replies.every(({ status }) => status === 201)).toBe(true)
  const { jobs } = (await server.get('/ojs/v1/jobs?state=available')).body
  expect(jobs.map(({ args }) => args as unknown)).toEqual([[19]])
  expect((await server.get('/ojs/v1/jobs?state=cancelled')).body.pagination.total).toBe(19)
})

test('fetches in between do not hide a duplicate, and all is one transaction', async () => {
  const server = await TestServer.open()
  await server.start({ queue: 'other' })
  const before = await commits(server)
  const fetches = [{ queues: ['other'] }, {}]
  const calls = Array.from({ length: 10 }, (_, n) => [
    push(server, { on_conflict: 'ignore' }),
    server.fetch(fetches[n % 2]),
  ])
  const replies = await Promise.all(calls.flat())
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(await commits(server)).toBe(before + 1)
  expect(await total(server)).toBe(2)
})

test('two tenants never share their work', async () => {
  const server = await TestServer.open()
  const send = (headers: Record<string, string>): Promise<Reply> =>
    server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [], unique: { on_conflict: 'ignore' } }, headers)
  for (const status of [201, 200])
    for (const headers of [{}, { 'x-ojs-tenant': 'acme' }, { 'x-ojs-tenant': 'globex' }])
      expect((await send(headers)).status).toBe(status)
  expect(await total(server)).toBe(3)
})

test('in a batch, jobs are duplicates of each other too: all or none, and the entry is named', async () => {
  const server = await TestServer.open()
  const job = { type: 'a', args: [1], unique: {} }
  const reply = await server.post('/ojs/v1/jobs/batch', { jobs: [{ type: 'b', args: [] }, job, job] })
  expect([reply.status, reply.body.error.code, reply.body.error.details.index]).toEqual([409, 'duplicate', 2])
  expect(await total(server)).toBe(0)
  expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
  const replace = { ...job, unique: { on_conflict: 'replace' } }
  expect((await server.post('/ojs/v1/jobs/batch', { jobs: [replace, replace] })).status).toBe(409)
  const keep = { ...job, unique: { on_conflict: 'ignore' } }
  const kept = await server.post('/ojs/v1/jobs/batch', { jobs: [keep, keep] })
  expect(kept.status).toBe(201)
  expect(kept.body).toMatchObject({ count: 2, jobs: [{ state: 'available' }, { deduplicated: true }] })
  expect(kept.body.jobs[0]?.id).toBe(kept.body.jobs[1]?.id)
  expect(kept.body.jobs[0]).not.toHaveProperty('deduplicated')
  expect(await total(server)).toBe(1)
})

test('in a bulk enqueue each job is enqueued or refused on its own', async () => {
  const server = await TestServer.open()
  const job = (on_conflict: string): object => ({ type: 'a', args: [1], unique: { on_conflict } })
  const reply = await server.post('/ojs/v1/jobs/bulk', {
    jobs: [job('reject'), job('reject'), job('ignore'), job('replace'), job('ignore')],
  })
  expect(reply.status).toBe(207)
  const items = reply.body.items as unknown as { status: string; job?: { id: string }; error?: { code: string } }[]
  expect(items.map(({ status }) => status)).toEqual(['created', 'failed', 'existing', 'created', 'existing'])
  expect(items[1]?.error?.code).toBe('duplicate')
  expect(items[2]).toMatchObject({ deduplicated: true, job: { id: items[0]?.job?.id } })
  expect(items[4]?.job?.id).toBe(items[3]?.job?.id)
  expect((await server.job(items[0]?.job?.id ?? '')).state).toBe('cancelled')
})

test('an id that is taken is refused before anything is replaced', async () => {
  const server = await TestServer.open()
  const id = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
  await push(server, { on_conflict: 'replace' }, { id })
  for (const on_conflict of ['replace', 'reject', 'ignore']) {
    const again = await push(server, { on_conflict }, { id })
    expect([again.status, again.body.error.details]).toEqual([409, { existing_job_id: id }])
  }
  expect((await server.job(id)).state).toBe('available')
})

test('plan says what would happen, and nothing does', async () => {
  const server = await TestServer.open()
  const plan = async (on_conflict: string): Promise<string[]> =>
    (await server.post('/ojs/v1/jobs/plan', { type: 'mail.send', args: [{ user: 1 }], unique: { on_conflict } })).body
      .warnings
  expect(await plan('reject')).toEqual([])
  const { id } = (await push(server, {})).body.job
  expect(await plan('reject')).toEqual([expect.stringContaining('would be refused')])
  expect(await plan('ignore')).toEqual([expect.stringMatching(new RegExp(`${id}.*nothing enqueued`))])
  expect(await plan('replace')).toEqual([expect.stringMatching(new RegExp(`${id}.*replaced`))])
  expect((await server.job(id)).state).toBe('available')
  expect(await total(server)).toBe(1)
})
