/** The dead-letter list, retries by hand, and bulk actions of an operator. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const DEAD = { max_attempts: 1, on_exhaustion: 'dead_letter' }

async function deadLetter(server: TestServer, job: Record<string, unknown> = {}): Promise<string> {
  const { id } = await server.start({ retry: DEAD, ...job })
  await server.nack(id, { type: 'Oops', message: 'broken' })
  return id
}

test('the list shows its members newest first, whole, filtered and paged', async () => {
  const server = await TestServer.open()
  const ids: string[] = []
  for (const queue of ['a', 'b', 'a']) {
    ids.push(await deadLetter(server, { queue, type: `t.${queue}` }))
    await server.advance(1_000)
  }
  const all = (await server.get('/ojs/v1/dead-letter')).body
  expect(all.jobs.map(({ id }) => id)).toEqual([...ids].reverse())
  expect(all.jobs[0]).toMatchObject({ state: 'discarded', errors: [{ type: 'Oops' }], args: [] })
  expect((await server.get('/ojs/v1/dead-letter?queue=b')).body.jobs).toMatchObject([{ id: ids[1] }])
  expect((await server.get('/ojs/v1/dead-letter?type=t.b')).body.pagination.total).toBe(1)
  const page = (await server.get('/ojs/v1/dead-letter?limit=1&offset=1')).body
  expect(page).toMatchObject({ jobs: [{ id: ids[1] }], pagination: { total: 3, limit: 1, offset: 1, has_more: true } })
  expect((await server.get('/ojs/v1/dead-letter?limit=3')).body.pagination.has_more).toBe(false)
  expect((await server.get('/ojs/v1/admin/dead-letter')).body.items).toHaveLength(3)
  expect((await server.get('/ojs/v1/dead-letter/stats')).body).toMatchObject({ total: 3, by_queue: { a: 2, b: 1 } })
  expect((await server.get(`/ojs/v1/dead-letter/${ids[0] ?? ''}`)).body.job.id).toBe(ids[0])
  expect(await server.metric('ojs_dead_letter_depth', { queue: 'a' })).toBe(2)
})

test('the list takes the filters of job lists, and shows no other discarded job', async () => {
  const server = await TestServer.open()
  const oops = await deadLetter(server, { queue: 'a', tags: ['x'], meta: { customer: '42' } })
  await server.advance(1_000)
  const { id: other } = await server.start({ retry: DEAD })
  await server.nack(other, { type: 'Other', message: 'broken' })
  const { id: discarded } = await server.start({ retry: { max_attempts: 1 } })
  await server.nack(discarded, { type: 'Oops', message: 'broken' })
  const later = await deadLetter(server)
  const listed = async (query: string): Promise<string[]> =>
    (await server.get(`/ojs/v1/dead-letter?${query}`)).body.jobs.map(({ id }) => id)
  expect(await listed('error_type=Oops')).toEqual([later, oops])
  expect(await listed('error_type=Oops&queue=a')).toEqual([oops])
  expect(await listed('tag=x')).toEqual([oops])
  expect(await listed('meta={"customer":"42"}')).toEqual([oops])
  expect(await listed(`since=${at(500)}`)).toEqual([later, other])
  expect(await listed(`until=${at(500)}`)).toEqual([oops])
  expect((await server.get('/ojs/v1/admin/dead-letter?error_type=Other')).body.items).toMatchObject([{ id: other }])
  const { jobs, pagination } = (await server.get('/ojs/v1/dead-letter?error_type=Oops&limit=1')).body
  expect([jobs[0]?.id, pagination]).toMatchObject([later, { has_more: true, total: 2 }])
  expect(await listed(`error_type=Oops&cursor=${String(pagination['next_cursor'])}`)).toEqual([oops])
  for (const query of ['state=discarded', 'error_typ=Oops', 'queue=', 'cursor=1', 'meta=1'])
    expect((await server.get(`/ojs/v1/dead-letter?${query}`)).status, query).toBe(400)
})

test('a discarded job that is no member is not found there', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } })
  await server.nack(id)
  expect((await server.get(`/ojs/v1/dead-letter/${id}`)).status).toBe(404)
  expect((await server.post(`/ojs/v1/dead-letter/${id}/retry`)).status).toBe(404)
  expect((await server.call('DELETE', `/ojs/v1/dead-letter/${id}`)).status).toBe(404)
})

test('a retry begins a second life: attempt 0, no error, history and lease kept, clocks from now', async () => {
  const server = await TestServer.open()
  const id = await deadLetter(server, { timeout: 10, total_timeout: 60, enqueue_ttl: 20, expires_at: '+PT30S' })
  await server.advance(3_600_000)
  const { job } = (await server.post(`/ojs/v1/dead-letter/${id}/retry`)).body
  expect(job).toMatchObject({
    id,
    state: 'available',
    attempt: 0,
    created_at: at(0),
    enqueued_at: at(3_600_000),
    re_enqueued_at: at(3_600_000),
    errors: [{ type: 'Oops' }],
    x_limits: { total_deadline: at(3_660_000), ttl_deadline: at(3_620_000) },
  })
  for (const key of ['error', 'discarded_at', 'completed_at', 'expires_at', 'x_purge_at']) {
    expect(job).not.toHaveProperty(key)
  }
  expect((await server.eventTypes(id)).slice(-2)).toEqual(['dead_letter.retried', 'job.enqueued'])
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toEqual([])
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('available')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'enqueue_ttl_expired', elapsed_seconds: 20 })
})

test('a retry resolves the limits with today’s policies', async () => {
  const server = await TestServer.open()
  const id = await deadLetter(server, { timeout: 10 })
  await server.call('PUT', '/api/v1/job-types/test.job', { timeout: 99, grace_period: 3 })
  const { job } = (await server.post(`/ojs/v1/dead-letter/${id}/retry`, {})).body
  expect(job.x_limits).toMatchObject({
    timeout_ms: 10_000,
    grace_ms: 3_000,
    sources: { timeout: 'publish', grace: 'type' },
  })
})

test('a retry can override limits and priority for the second life', async () => {
  const server = await TestServer.open()
  const id = await deadLetter(server, { timeout: 10, total_timeout: 60 })
  const override = { timeout_ms: 1_500, total_timeout: null, options: { x_on_timeout: 'discard' }, priority: 7 }
  const { job } = (await server.post(`/ojs/v1/dead-letter/${id}/retry`, { override })).body
  expect(job).toMatchObject({
    state: 'available',
    priority: 7,
    timeout_ms: 1_500,
    x_limits: { timeout_ms: 1_500, on_timeout: 'discard', sources: { timeout: 'publish', on_timeout: 'publish' } },
  })
  expect(job).not.toHaveProperty('timeout')
  expect(job.x_limits).not.toHaveProperty('total_timeout_ms')
})

test.each([
  [{ override: 5 }, 400, 'override'],
  [{ override: { timeout: 0 } }, 422, 'override.timeout'],
  [{ override: { timeout: 70 } }, 422, 'override.total_timeout'],
  [{ override: { priority: 101 } }, 400, 'override.priority'],
  [{ override: { queue: 'other' } }, 400, 'override.queue'],
  [{ override: { options: { args: [] } } }, 400, 'override.options.args'],
])('a retry with %j is refused with %d, and the dead letter stays', async (body, status, field) => {
  const server = await TestServer.open()
  const id = await deadLetter(server, { timeout: 10, total_timeout: 60 })
  const reply = await server.post(`/ojs/v1/dead-letter/${id}/retry`, body)
  expect(reply).toMatchObject({ status, body: { error: { details: { field } } } })
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toMatchObject([{ id }])
})

test('the second life has the whole budget of attempts and ends in the list again', async () => {
  const server = await TestServer.open()
  const id = await deadLetter(server)
  await server.post(`/ojs/v1/dead-letter/${id}/retry`)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 1, x_lease: 2 })
  await server.nack(id)
  expect((await server.job(id)).errors).toHaveLength(2)
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toHaveLength(1)
})

test('a delete removes the job for good, and tells', async () => {
  const server = await TestServer.open()
  const id = await deadLetter(server)
  const reply = await server.call('DELETE', `/ojs/v1/dead-letter/${id}`)
  expect(reply.body).toEqual({ deleted: true, job_id: id })
  expect((await server.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
  expect((await server.eventTypes(id)).at(-1)).toBe('dead_letter.deleted')
  const other = await deadLetter(server)
  expect((await server.call('DELETE', `/ojs/v1/admin/dead-letter/${other}`)).status).toBe(204)
  expect((await server.get('/ojs/v1/queues/default/stats')).body.discarded).toBe(0)
})

test('a member of a workflow that is retried is a member no more, and keeps what it was given', async () => {
  const server = await TestServer.open()
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  const step = { type: 'test.job', args: ['"workflow_id"'], retry }
  await server.post('/ojs/v1/workflows', { type: 'chain', steps: [step] })
  const { id } = (await server.fetch()).body.job as { id: string }
  expect(await server.job(id)).toHaveProperty('workflow_id')
  await server.nack(id)
  const { job } = (await server.post(`/ojs/v1/dead-letter/${id}/retry`)).body
  for (const key of ['workflow_id', 'workflow_step', 'x_workflow_path']) expect(job).not.toHaveProperty(key)
  expect(job).toMatchObject({ args: ['"workflow_id"'], parent_results: [] })
  expect((await server.fetch()).body.job).not.toHaveProperty('workflow_id')
})

test('many can be retried by filter or by ids', async () => {
  const server = await TestServer.open()
  const ids = [await deadLetter(server, { queue: 'a' }), await deadLetter(server, { queue: 'a' })]
  const other = await deadLetter(server, { queue: 'b' })
  expect((await server.post('/ojs/v1/dead-letter/retry', { filter: { queue: 'a' } })).body).toMatchObject({
    matched: 2,
    succeeded: 2,
    failed: 0,
  })
  for (const id of ids) expect((await server.job(id)).state).toBe('available')
  const reply = await server.post('/ojs/v1/admin/dead-letter/retry', { job_ids: [other, ids[0]] })
  expect(reply.body).toMatchObject({ matched: 2, succeeded: 1, failed: 1, errors: [{ job_id: ids[0] }] })
})

test('an admin retry revives cancelled and discarded jobs, and tells of no dead letter', async () => {
  const server = await TestServer.open()
  const cancelled = await server.enqueue()
  await server.call('DELETE', `/ojs/v1/jobs/${cancelled}`)
  const { job } = (await server.post(`/ojs/v1/admin/jobs/${cancelled}/retry`)).body
  expect(job).toMatchObject({ state: 'available', attempt: 0 })
  expect(job).not.toHaveProperty('cancelled_at')
  expect(await server.eventTypes(cancelled)).toEqual(['job.enqueued', 'job.cancelled', 'job.enqueued'])
})

test.each(['retry', 'cancel', 'delete'])('a bulk %s needs confirm: true', async (action) => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  for (const confirm of [undefined, false]) {
    const reply = await server.post(`/ojs/v1/admin/jobs/bulk/${action}`, { job_ids: [id], confirm })
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'confirm'])
  }
  expect((await server.post(`/ojs/v1/admin/jobs/bulk/${action}`, { job_ids: [id], confirm: 'yes' })).status).toBe(400)
  expect((await server.job(id)).state).toBe('available')
})

test('a bulk action does what it can and names what it could not', async () => {
  const server = await TestServer.open()
  const waiting = await server.enqueue()
  const active = await server.start({ priority: 9 })
  const unknown = '01890000-0000-7000-8000-000000000000'
  const cancel = await server.post('/ojs/v1/admin/jobs/bulk/cancel', { confirm: true, job_ids: [waiting, unknown] })
  expect(cancel.body).toEqual({
    action: 'cancel',
    matched: 2,
    succeeded: 1,
    failed: 1,
    errors: [{ job_id: unknown, code: 'not_found', error: expect.any(String) as unknown }],
  })
  const remove = await server.post('/ojs/v1/admin/jobs/bulk/delete', { confirm: true, job_ids: [active.id, waiting] })
  expect(remove.body).toMatchObject({ succeeded: 1, failed: 1, errors: [{ job_id: active.id, code: 'conflict' }] })
  expect((await server.get(`/ojs/v1/jobs/${waiting}`)).status).toBe(404)
})

test('a bulk action by filter takes the jobs the action makes sense for', async () => {
  const server = await TestServer.open()
  for (const queue of ['a', 'a', 'b']) await deadLetter(server, { queue })
  await server.enqueue({ queue: 'a' })
  const retry = await server.post('/ojs/v1/admin/jobs/bulk/retry', { confirm: true, filter: { queue: 'a' } })
  expect(retry.body).toMatchObject({ action: 'retry', matched: 2, succeeded: 2 })
  const cancel = await server.post('/ojs/v1/admin/jobs/bulk/cancel', {
    confirm: true,
    filter: { queue: 'a', state: 'available' },
  })
  expect(cancel.body).toMatchObject({ matched: 3, succeeded: 3 })
})

test.each(['retry', 'cancel', 'delete'])('a bulk %s that names no jobs at all is refused', async (action) => {
  const server = await TestServer.open()
  const id = await server.enqueue()
  expect((await server.post(`/ojs/v1/admin/jobs/bulk/${action}`, { confirm: true })).status).toBe(400)
  expect((await server.job(id)).state).toBe('available')
})
