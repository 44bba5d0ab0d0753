/** Cancel, retry and delete of many jobs, by ids and by what they have in common; for applications and administrators. */
import { expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const UNKNOWN = '01890000-0000-7000-8000-000000000000'
const act = (server: TestServer, action: string, body: unknown, headers = {}): Promise<Reply> =>
  server.call('POST', `/ojs/v1/jobs/bulk/${action}`, body, headers)
const state = async (server: TestServer, id: string): Promise<string> => (await server.job(id)).state
const commits = (server: TestServer): Promise<number> => server.metric('curfew_commit_batch_size_count')

async function discarded(server: TestServer, job: Record<string, unknown> = {}, type = 'Oops'): Promise<string> {
  const { id } = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' }, priority: 9, ...job })
  await server.nack(id, { type, message: 'broken' })
  return id
}

test('a bulk cancel by ids does what it can, in order, in one transaction, and says why it skipped the others', async () => {
  const server = await TestServer.open()
  const active = await server.start()
  const [waiting, over] = [await server.enqueue(), await server.enqueue()]
  await server.call('DELETE', `/ojs/v1/jobs/${over}`)
  const before = await commits(server)
  const reply = await act(server, 'cancel', { job_ids: [waiting, UNKNOWN, over, active.id, waiting] })
  expect(await commits(server)).toBe(before + 1)
  expect([reply.status, reply.headers['X-OJS-Batch-Size']]).toEqual([207, '5'])
  expect(reply.body).toMatchObject({
    total_matched: 5,
    cancelled: 2,
    skipped: 3,
    items: [
      { index: 0, job_id: waiting, status: 'cancelled' },
      { index: 1, job_id: UNKNOWN, status: 'skipped', code: 'not_found' },
      { index: 2, job_id: over, status: 'skipped', code: 'conflict' },
      { index: 3, job_id: active.id, status: 'cancelled' },
      { index: 4, job_id: waiting, status: 'skipped' },
    ],
  })
  expect(reply.body.items[1]?.['reason']).toMatch(/no job/)
})

test('a misspelt dry_run acts on no job, in any bulk action', async () => {
  const server = await TestServer.open()
  const waiting = await server.enqueue()
  const dead = await discarded(server)
  const filter = { created_after: at(-1_000) }
  for (const [method, url, more] of [
    ...['cancel', 'retry', 'delete'].flatMap((action) => [
      ['POST', `/ojs/v1/jobs/bulk/${action}`, {}] as const,
      ['POST', `/ojs/v1/admin/jobs/bulk/${action}`, { confirm: true }] as const,
    ]),
    ['POST', '/ojs/v1/dead-letter/retry', { confirm: true }],
    ['DELETE', '/ojs/v1/dead-letter', { confirm: true }],
  ] as const) {
    const body = url.includes('dead-letter') ? { job_ids: [dead] } : { filter }
    const reply = await server.call(method, url, { ...body, ...more, dryRun: true })
    expect([url, reply.status, reply.body['error'].details.field]).toEqual([url, 400, 'dryRun'])
    expect(reply.body['error'].message).toContain('Did you mean dry_run?')
  }
  expect([await state(server, waiting), await state(server, dead)]).toEqual(['available', 'discarded'])
  expect((await server.get('/ojs/v1/dead-letter')).body['jobs']).toHaveLength(1)
})

test('all is 200, none is 422', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  expect((await act(server, 'cancel', { job_ids: [id] })).status).toBe(200)
  expect((await act(server, 'cancel', { job_ids: [id] })).status).toBe(422)
  expect(await act(server, 'cancel', { filter: { queue: 'unknown' } })).toMatchObject({
    status: 200,
    body: { total_matched: 0, cancelled: 0, skipped: 0, items: [] },
  })
})

test('all or none: one that cannot be cancelled keeps the others, and is named', async () => {
  const server = await TestServer.open()
  const [one, two] = [await server.enqueue(), await server.enqueue()]
  const refused = await act(server, 'cancel', { atomicity: 'atomic', job_ids: [one, UNKNOWN, two] })
  expect([refused.status, refused.body.error.details.index]).toEqual([404, 1])
  expect([await state(server, one), await state(server, two)]).toEqual(['available', 'available'])
  const done = await act(server, 'cancel', { atomicity: 'atomic', job_ids: [one, two] })
  expect(done.body).toMatchObject({ cancelled: 2, skipped: 0 })
  const filtered = await act(server, 'cancel', { atomicity: 'atomic', filter: {} })
  expect([filtered.status, filtered.body.error.details.field]).toEqual([400, 'atomicity'])
})

test.each([
  ['neither ids nor filter', {}, 400, 'job_ids'],
  ['both', { job_ids: [UNKNOWN], filter: {} }, 400, 'job_ids'],
  ['no ids', { job_ids: [] }, 400, 'job_ids'],
  ['an unknown key', { filter: { quue: 'a' } }, 400, 'filter.quue'],
  ['an unknown state', { filter: { state: ['sleeping'] } }, 400, 'filter.state[0]'],
  ['a moment without a zone', { filter: { enqueued_before: '2026-01-01T00:00:00' } }, 400, 'filter.enqueued_before'],
  ['a moment that moves', { filter: { enqueued_after: '+PT5S' } }, 400, 'filter.enqueued_after'],
  ['a filter that is none', { filter: [] }, 400, 'filter'],
  ['a filter that names nothing', { filter: {} }, 400, 'confirm'],
  ['a key for repetitions', { job_ids: [UNKNOWN], idempotency_key: 'k' }, 422, 'idempotency_key'],
  ['too many ids', { job_ids: Array.from({ length: 1_001 }, () => UNKNOWN) }, 413, 'job_ids'],
])('a request with %s is refused, and nothing is cancelled', async (_, body, status, field) => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  const reply = await act(server, 'cancel', body)
  expect([reply.status, reply.body.error.details.field]).toEqual([status, field])
  expect(await state(server, id)).toBe('available')
})

test('a filter means jobs by queue, type, state, priority, metadata, error and time', async () => {
  const server = await TestServer.open()
  const make = async (job: Record<string, unknown>): Promise<string> => {
    await server.advance(1_000)
    return server.enqueue(job)
  }
  const jobs = {
    plain: await make({}),
    queue: await make({ queue: 'other' }),
    type: await make({ type: 'other.job' }),
    priority: await make({ priority: 5 }),
    meta: await make({ meta: { tenant: 'acme', n: { a: 1.0, b: 'x' } } }),
    scheduled: await make({ scheduled_at: '+PT1H' }),
    pending: await make({ pending: true }),
  }
  const meant = async (filter: object): Promise<string[]> => {
    const { items } = (
      await act(server, 'retry', { filter: { state: ['available', 'scheduled', 'pending'], ...filter } })
    ).body as unknown as { items: { job_id: string }[] }
    // A retry of what waits is refused, so that the same jobs can be asked for again.
    return Object.entries(jobs).flatMap(([name, id]) => (items.some((item) => item.job_id === id) ? [name] : []))
  }
  expect(await meant({ queue: 'other' })).toEqual(['queue'])
  expect(await meant({ type: 'other.job' })).toEqual(['type'])
  expect(await meant({ priority: 5 })).toEqual(['priority'])
  expect(await meant({ state: 'scheduled' })).toEqual(['scheduled'])
  expect(await meant({ state: ['scheduled', 'pending'] })).toEqual(['scheduled', 'pending'])
  expect(await meant({ meta: { tenant: 'acme' } })).toEqual(['meta'])
  expect(await meant({ meta: { n: { b: 'x', a: 1 } } })).toEqual(['meta'])
  expect(await meant({ meta: { tenant: 'acme', other: 1 } })).toEqual([])
  expect(await meant({ enqueued_before: at(3_000) })).toEqual(['plain', 'queue'])
  expect(await meant({ enqueued_after: at(3_000) })).toEqual(['priority', 'meta'])
  expect(await meant({ since: at(5_000), until: at(7_000) })).toEqual(['scheduled'])
  expect(await meant({})).toEqual(Object.keys(jobs))
})

test('a filter of a cancel means what is available or scheduled, unless it says more', async () => {
  const server = await TestServer.open()
  const active = await server.start()
  const ids = [await server.enqueue(), await server.enqueue({ scheduled_at: '+PT1H' })]
  const pending = await server.enqueue({ pending: true })
  expect((await act(server, 'cancel', { filter: {}, confirm: true })).body).toMatchObject({
    total_matched: 2,
    cancelled: 2,
  })
  for (const id of ids) expect(await state(server, id)).toBe('cancelled')
  expect([await state(server, active.id), await state(server, pending)]).toEqual(['active', 'pending'])
  expect((await act(server, 'cancel', { filter: { state: ['active', 'pending'] } })).body.cancelled).toBe(2)
})

test('more jobs than one transaction takes are cancelled chunk by chunk, and every one is counted', async () => {
  const server = await TestServer.open()
  const jobs = Array.from({ length: 1_203 }, () => ({ type: 'a', args: [] }))
  await server.post('/ojs/v1/jobs/batch', { jobs })
  await server.enqueue({ queue: 'other' })
  const before = await commits(server)
  const some = await act(server, 'cancel', { filter: { queue: 'default' }, limit: 100 })
  expect(some.body).toMatchObject({ total_matched: 100, cancelled: 100 })
  const reply = await act(server, 'cancel', { filter: { queue: 'default' } })
  expect(reply.body).toMatchObject({ total_matched: 1_103, cancelled: 1_103, skipped: 0, x_items_omitted: 103 })
  expect(reply.body.items).toHaveLength(1_000)
  expect(await commits(server)).toBe(before + 4)
  expect((await server.get('/ojs/v1/queues/default/stats')).body).toMatchObject({ available: 0, cancelled: 1_203 })
  expect((await server.get('/ojs/v1/queues/other/stats')).body.available).toBe(1)
})

test('a bulk retry gives discarded jobs a second life, and ends the backoff of those that wait', async () => {
  const server = await TestServer.open()
  const dead = await discarded(server)
  const waits = await server.start({ retry: { max_attempts: 3, initial_interval: 'PT1H' } })
  await server.nack(waits.id)
  const cancelled = await server.enqueue()
  await server.call('DELETE', `/ojs/v1/jobs/${cancelled}`)
  const reply = await act(server, 'retry', { job_ids: [dead, waits.id, cancelled] })
  expect([reply.status, reply.body.retried, reply.body.skipped]).toEqual([207, 2, 1])
  expect(await server.job(dead)).toMatchObject({ state: 'available', attempt: 0 })
  expect(await server.job(waits.id)).toMatchObject({ state: 'available', attempt: 1 })
  expect(await server.job(waits.id)).not.toHaveProperty('next_retry_at')
  expect(await state(server, cancelled)).toBe('cancelled')
})

test('a bulk delete removes what is over, and nothing else', async () => {
  const server = await TestServer.open()
  const [done, waiting] = [await server.start(), await server.enqueue()]
  await server.ack(done.id)
  for (const url of ['/ojs/v1/jobs/bulk/delete', '/ojs/v1/admin/jobs/bulk/delete']) {
    const reply = await server.post(url, { confirm: true, job_ids: [waiting] })
    expect(reply.text).toContain('conflict')
    expect(await state(server, waiting)).toBe('available')
  }
  expect((await act(server, 'delete', { filter: {}, confirm: true })).body).toMatchObject({ deleted: 1, skipped: 0 })
  expect((await server.get(`/ojs/v1/jobs/${done.id}`)).status).toBe(404)
})

test('a tenant reaches only its own jobs', async () => {
  const server = await TestServer.open()
  const push = async (tenant: string): Promise<string> =>
    (await server.call('POST', '/ojs/v1/jobs', { type: 'a', args: [] }, { 'x-ojs-tenant': tenant })).body.job.id
  const [acme, globex] = [await push('acme'), await push('globex')]
  const mine = { 'x-ojs-tenant': 'acme' }
  const named = await act(server, 'cancel', { job_ids: [globex] }, mine)
  expect(named.body.items).toMatchObject([{ code: 'not_found' }])
  expect((await act(server, 'cancel', { filter: {}, confirm: true }, mine)).body.cancelled).toBe(1)
  expect([await state(server, acme), await state(server, globex)]).toEqual(['cancelled', 'available'])
})

test('dead letters are retried by queue, type, error and time of death', async () => {
  const server = await TestServer.open()
  const first = await discarded(server, { queue: 'a' }, 'DbDown')
  await server.advance(60_000)
  const second = await discarded(server, { queue: 'b' }, 'DbDown')
  const third = await discarded(server, { queue: 'b' }, 'BadInput')
  const gone = await server.start({ retry: { max_attempts: 1 } })
  await server.nack(gone.id, { type: 'DbDown', message: 'x' })
  const retry = (filter: object): Promise<Reply> => server.post('/ojs/v1/dead-letter/retry', { filter, confirm: true })
  expect((await retry({ error_type: 'DbDown', since: at(1) })).body).toMatchObject({ matched: 1, retried: 1 })
  expect(await state(server, second)).toBe('available')
  expect((await retry({ queue: 'b', type: 'nope' })).body.matched).toBe(0)
  expect((await retry({ until: at(1) })).body.matched).toBe(1)
  expect([await state(server, first), await state(server, third)]).toEqual(['available', 'discarded'])
  expect((await retry({ state: 'available' })).status).toBe(400)
  for (const body of [undefined, {}, { filter: {} }, { limit: 5 }]) {
    const refused = await server.post('/ojs/v1/dead-letter/retry', body)
    expect([refused.status, refused.body.error.details.field]).toEqual([400, 'confirm'])
  }
  expect((await server.post('/ojs/v1/dead-letter/retry', { confirm: true })).body).toMatchObject({ matched: 1 })
  const named = await server.post('/ojs/v1/dead-letter/retry', { job_ids: [gone.id] })
  expect(named.body).toMatchObject({ matched: 1, failed: 1, errors: [{ job_id: gone.id, code: 'not_found' }] })
  expect(await state(server, gone.id)).toBe('discarded')
})

test('dead letters are removed by filter, when that is confirmed', async () => {
  const server = await TestServer.open()
  const [a, b] = [await discarded(server, { queue: 'a' }), await discarded(server, { queue: 'b' })]
  const remove = (body: unknown): Promise<Reply> => server.call('DELETE', '/ojs/v1/dead-letter', body)
  expect((await remove({ filter: { queue: 'a' } })).body.error.details.field).toBe('confirm')
  expect((await remove({ filter: { queue: 'a' }, confirm: true })).body).toMatchObject({ matched: 1, deleted: 1 })
  expect((await server.get(`/ojs/v1/jobs/${a}`)).status).toBe(404)
  expect(await server.eventTypes(a)).toContain('dead_letter.deleted')
  expect(await state(server, b)).toBe('discarded')
})

test('an administrator names states and times too', async () => {
  const server = await TestServer.open()
  const old = await server.enqueue()
  await server.advance(60_000)
  const young = await server.enqueue()
  const reply = await server.post('/ojs/v1/admin/jobs/bulk/cancel', {
    confirm: true,
    filter: { state: ['available'], until: at(30_000) },
  })
  expect(reply.body).toEqual({ action: 'cancel', matched: 1, succeeded: 1, failed: 0, errors: [] })
  expect([await state(server, old), await state(server, young)]).toEqual(['cancelled', 'available'])
})
