/** A child never outlives its parent: x_parent and x_inherit_deadline. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const child = (parent: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  type: 'child',
  queue: 'children',
  args: [],
  x_parent: { job_id: parent },
  x_inherit_deadline: true,
  ...more,
})

test('a child takes what is left of its parent’s total, and ends by it', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 60 })
  await server.advance(20_000)
  const { job } = (await server.post('/ojs/v1/jobs', child(parent))).body
  expect(job).toMatchObject({
    x_parent: { job_id: parent },
    x_inherit_deadline: true,
    x_limits: { total_ms: 40_000, total_deadline: at(60_000), timeout_ms: 1_800_000, sources: { total: 'parent' } },
  })
  await server.fetch({ queues: ['children'] })
  expect((await server.job(job.id)).x_limits).toMatchObject({ soft_deadline: at(60_000), hard_deadline: at(60_000) })
  await server.advance(39_999)
  expect((await server.job(job.id)).state).toBe('active')
  await server.advance(1)
  expect(await server.job(job.id)).toMatchObject({
    state: 'discarded',
    error: { type: 'total_timeout', timeout_kind: 'total', limit_seconds: 40, elapsed_seconds: 40, source: 'parent' },
  })
})

test('a smaller total of its own wins over the parent’s', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 60 })
  const { job } = (await server.post('/ojs/v1/jobs', child(parent, { total_timeout: 30 }))).body
  expect(job.x_limits).toMatchObject({ total_ms: 30_000, sources: { total: 'publish' } })
})

test('an active parent without a total gives the soft deadline of its attempt', async () => {
  const server = await TestServer.open()
  const parent = await server.start({ timeout: 50, grace_period: 30 })
  await server.advance(10_000)
  const { job } = (await server.post('/ojs/v1/jobs', child(parent.id, { total_timeout: 600 }))).body
  expect(job.x_limits).toMatchObject({ total_deadline: at(50_000), total_ms: 40_000, sources: { total: 'parent' } })
})

test('a waiting parent without a total gives nothing, with a warning', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue()
  const reply = await server.post('/ojs/v1/jobs', child(parent))
  expect(reply.status).toBe(201)
  expect(reply.body.job.x_warnings).toHaveLength(1)
  expect(reply.body.job.x_limits).not.toHaveProperty('total_ms')
})

test('a parent that is over, or in its grace, has no time to give: refused, nothing stored', async () => {
  const server = await TestServer.open()
  const done = await server.start()
  await server.ack(done.id)
  const stopping = await server.start({ timeout: 5, grace_period: 30 })
  const late = await server.enqueue({ total_timeout: 5 })
  await server.advance(5_000)
  for (const parent of [done.id, stopping.id, late]) {
    const reply = await server.post('/ojs/v1/jobs', child(parent))
    expect(reply.status).toBe(422)
    expect(reply.body.error).toMatchObject({ code: 'deadline_exceeded', retryable: false })
  }
  expect((await server.get('/ojs/v1/jobs?queue=children')).body.pagination.total).toBe(0)
})

test('without x_inherit_deadline the parent is only recorded, even one that is over', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 5 })
  await server.advance(5_000)
  const reply = await server.post('/ojs/v1/jobs', child(parent, { x_inherit_deadline: false }))
  expect(reply.status).toBe(201)
  expect(reply.body.job.x_parent).toEqual({ job_id: parent })
  expect(reply.body.job.x_limits).not.toHaveProperty('total_ms')
})

const UNKNOWN = '01890000-0000-7000-8000-000000000000'
const BAD_PARENTS: [string, Record<string, unknown>][] = [
  ['an unknown job', { x_parent: { job_id: UNKNOWN } }],
  ['an unknown run', { x_parent: { journey_id: UNKNOWN } }],
  ['an unknown workflow', { x_parent: { workflow_id: UNKNOWN } }],
  ['two parents', { x_parent: { job_id: UNKNOWN, journey_id: UNKNOWN }, x_inherit_deadline: true }],
  ['no parent at all', { x_inherit_deadline: true }],
  ['a parent of another kind', { x_parent: { job: UNKNOWN } }],
  ['a string for a parent', { x_parent: UNKNOWN }],
]

test.each(BAD_PARENTS)('%s is refused with 422', async (_, fields) => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...fields })
  expect(reply.status).toBe(422)
  expect(reply.body.error).toMatchObject({ code: 'validation_error', details: { field: expect.any(String) } })
})

test('a retry of the child must fit what it inherited', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 60 })
  const retry = { jitter: false }
  const fits = (await server.post('/ojs/v1/jobs', child(parent, { timeout: 29, retry }))).body.job.id
  const late = (await server.post('/ojs/v1/jobs', child(parent, { timeout: 29, retry }))).body.job.id
  await server.advance(20_000)
  await server.fetch({ queues: ['children'], count: 2 })
  await server.advance(10_000)
  expect((await server.nack(fits)).body.state).toBe('retryable')
  await server.advance(1)
  expect((await server.nack(late)).body).toMatchObject({ state: 'discarded', job: { error: { source: 'parent' } } })
})

test('the inherited deadline stays whatever the child’s own total becomes, and a manual retry lifts it', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 60 })
  const { id } = (await server.post('/ojs/v1/jobs', child(parent, { total_timeout: 10 }))).body.job
  const longer = await server.call('PATCH', `/ojs/v1/jobs/${id}`, { total_timeout: 600 })
  expect(longer.body.job.x_limits).toMatchObject({ total_deadline: at(60_000), sources: { total: 'parent' } })
  const none = await server.call('PATCH', `/ojs/v1/jobs/${id}`, { total_timeout: null })
  expect(none.body.job.x_limits).toMatchObject({ total_deadline: at(60_000), sources: { total: 'parent' } })
  await server.advance(60_000)
  expect((await server.job(id)).state).toBe('discarded')
  const { job } = (await server.post(`/ojs/v1/admin/jobs/${id}/retry`)).body
  expect(job).toMatchObject({ state: 'available', x_parent: { job_id: parent } })
  expect(job.x_limits).not.toHaveProperty('total_ms')
})

test('parent and child may come in one batch, the parent first', async () => {
  const server = await TestServer.open()
  const parent = { type: 'a', args: [], id: UNKNOWN, total_timeout: 60 }
  const early = await server.post('/ojs/v1/jobs/batch', { jobs: [child(UNKNOWN), parent] })
  expect([early.status, early.body.error.details.index]).toEqual([422, 0])
  const { jobs } = (await server.post('/ojs/v1/jobs/batch', { jobs: [parent, child(UNKNOWN)] })).body
  expect(jobs[1]?.x_limits).toMatchObject({ total_ms: 60_000, sources: { total: 'parent' } })
})
