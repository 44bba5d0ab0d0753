/** Workflows through the door: chains, groups, batches, DAGs and what is inside what. */
import { expect, test } from 'vitest'
import { FakeClock, seconds } from '@curfew/core'
import { at, TEST_SETTINGS, TestServer, type Body, type JobView, type Reply } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const job = (type: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({ type, args: [], ...more })
const once = { retry: { max_attempts: 1 } }
const chain = (...steps: object[]) => ({ type: 'chain', steps })
const group = (...jobs: object[]) => ({ type: 'group', jobs })
const batch = (callbacks: object, ...jobs: object[]) => ({ type: 'batch', jobs, callbacks })
const hooks = { on_complete: job('c'), on_success: job('s'), on_failure: job('f') }

async function begin(server: TestServer, body: object): Promise<string> {
  const reply = await server.post('/ojs/v1/workflows', body)
  if (reply.status !== 201) throw new Error(`${String(reply.status)}: ${reply.text}`)
  return String(reply.body['workflow'].id)
}

interface StepView {
  readonly state: string
  readonly job_id: string | null
  readonly steps: StepView[]
}
interface WorkflowView {
  readonly id: string
  readonly state: string
  readonly steps: StepView[]
}

/** Kept for less than a minute: a clock that is turned for days takes a while. */
const BRIEFLY = { retention: { ...TEST_SETTINGS.retention, completedMs: seconds(50), cancelledMs: seconds(50) } }

const look = async (server: TestServer, id: string): Promise<WorkflowView> =>
  (await server.get(`/ojs/v1/workflows/${id}`)).body['workflow'] as WorkflowView
const listed = (body: Body): WorkflowView[] => body['workflows'] as WorkflowView[]
const cancel = (server: TestServer, id: string): Promise<Reply> => server.call('DELETE', `/ojs/v1/workflows/${id}`)
const take = async (server: TestServer): Promise<JobView> => {
  const { jobs } = (await server.fetch()).body
  if (jobs[0] === undefined) throw new Error('nothing to fetch')
  return jobs[0]
}
const takeAll = async (server: TestServer): Promise<JobView[]> => (await server.fetch({ count: 100 })).body.jobs
const types = (jobs: readonly JobView[]): string[] => jobs.map(({ type }) => String(type))
const states = ({ steps }: Pick<WorkflowView, 'steps'>): string[] => steps.map(({ state }) => state)

test('the answer carries the workflow nested and flat, and says where it is', async () => {
  const server = await TestServer.open()
  const { status, headers, body } = await server.post('/ojs/v1/workflows', {
    ...chain(job('a'), job('b', { id: 'second' })),
    name: 'n',
    workflow_timeout: 60,
    meta: { tenant: 7 },
  })
  expect(status).toBe(201)
  const { workflow, ...flat } = body
  expect(flat).toEqual(workflow)
  expect(headers['Location']).toBe(`/ojs/v1/workflows/${String(workflow.id)}`)
  expect(workflow).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/) as string,
    type: 'chain',
    name: 'n',
    state: 'running',
    steps_total: 2,
    steps_completed: 0,
    jobs_total: 2,
    jobs_completed: 0,
    steps: [
      { id: 'step-0', index: 0, type: 'a', state: 'pending', job_id: expect.any(String) as string, depends_on: [] },
      { id: 'second', index: 1, type: 'b', state: 'waiting', job_id: null, depends_on: [] },
    ],
    workflow_timeout: 60,
    workflow_timeout_ms: 60_000,
    x_deadline: at(60_000),
    created_at: at(0),
    meta: { tenant: 7 },
    metadata: { created_at: at(0), job_count: 2, completed_count: 0, failed_count: 0 },
  })
})

test('a chain runs step by step; each is handed the results of all before it', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a'), job('b'), job('c')))
  const first = await take(server)
  expect(first).toMatchObject({ type: 'a', workflow_id: id, workflow_step: 0, parent_results: [] })
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.advance(1_000)
  expect(states(await look(server, id))).toEqual(['active', 'waiting', 'waiting'])
  await server.ack(first.id, { result: { n: 1 } })
  const second = await take(server)
  expect(second).toMatchObject({ type: 'b', workflow_step: 1, parent_results: [{ n: 1 }] })
  await server.ack(second.id, { result: [2] })
  const third = await take(server)
  expect(third.parent_results).toEqual([{ n: 1 }, [2]])
  expect(await look(server, id)).toMatchObject({ state: 'running', steps_completed: 2, jobs_completed: 2 })
  await server.advance(1_000)
  await server.ack(third.id)
  expect(await look(server, id)).toMatchObject({
    state: 'completed',
    steps_completed: 3,
    completed_at: at(2_000),
    x_purge_at: expect.any(String) as string,
    steps: [{ state: 'completed', result: { n: 1 }, started_at: at(0), completed_at: at(1_000) }, {}, {}],
    metadata: { started_at: at(0), completed_at: at(2_000), job_count: 3, completed_count: 3, failed_count: 0 },
  })
  expect((await server.events(id)).map(({ type, data }) => [type, data.step_id ?? null] as unknown)).toEqual([
    ['workflow.started', null],
    ['workflow.step_completed', 'step-0'],
    ['workflow.step_completed', 'step-1'],
    ['workflow.step_completed', 'step-2'],
    ['workflow.completed', null],
  ])
})

test('an ack and a fetch in one exchange: the next step is in the same answer', async () => {
  const server = await TestServer.open()
  await begin(server, chain(job('a'), job('b')))
  const { id } = (await server.fetch({ worker_id: 'w' })).body.job
  const { body } = await server.post('/ojs/v1/workers/exchange', {
    worker_id: 'w',
    acks: [{ job_id: id }],
    fetch: { queues: ['default'], count: 1 },
  })
  expect(types(body.jobs)).toEqual(['b'])
})

test('a chain halts at a step that is discarded; the rest is cancelled, and the error says where', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a'), job('b', once), job('c')))
  await server.ack((await take(server)).id)
  const failing = await take(server)
  await server.nack(failing.id, { code: 'handler_error', message: 'no' })
  expect((await server.fetch()).body.jobs).toEqual([])
  const workflow = await look(server, id)
  expect(workflow).toMatchObject({
    state: 'failed',
    steps_total: 3,
    steps_completed: 1,
    error: {
      failed_step_index: 1,
      failed_job_ids: [failing.id],
      errors: [{ job_id: failing.id, code: 'handler_error', message: 'no', attempt: 1 }],
    },
    metadata: { failed_count: 1 },
  })
  expect(states(workflow)).toEqual(['completed', 'failed', 'cancelled'])
  expect((await server.eventTypes(id)).slice(-2)).toEqual(['workflow.step_failed', 'workflow.failed'])
})

test('a step that waits for its retry has not failed', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a'), job('b')))
  await server.nack((await take(server)).id)
  expect(await look(server, id)).toMatchObject({
    state: 'running',
    steps: [{ state: 'pending' }, { state: 'waiting' }],
  })
  await server.advance(60_000)
  await server.ack((await take(server)).id)
  expect(types(await takeAll(server))).toEqual(['b'])
})

test('a group is enqueued at once, in order; it fails only when all are over', async () => {
  const server = await TestServer.open()
  const id = await begin(server, group(job('a'), job('b', once), job('c')))
  const [a, b, c] = await takeAll(server)
  expect(types([a, b, c] as JobView[])).toEqual(['a', 'b', 'c'])
  await server.nack(b?.id ?? '')
  await server.ack(c?.id ?? '')
  expect((await look(server, id)).state).toBe('running')
  await server.ack(a?.id ?? '')
  expect(await look(server, id)).toMatchObject({ state: 'failed', jobs_total: 3, jobs_completed: 2 })
})

test('a batch calls back once, whatever came of it, with the results by index', async () => {
  const server = await TestServer.open()
  const good = await begin(server, batch(hooks, job('a'), job('b')))
  const [a, b] = await takeAll(server)
  await server.ack(b?.id ?? '', { result: 'B' })
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.ack(a?.id ?? '', { result: 'A' })
  const called = await takeAll(server)
  expect(types(called)).toEqual(['c', 's'])
  expect(called.map(({ parent_results }) => parent_results as unknown)).toEqual([
    ['A', 'B'],
    ['A', 'B'],
  ])
  expect(await look(server, good)).toMatchObject({
    state: 'running',
    jobs_total: 2,
    callbacks: { on_complete: { type: 'c', state: 'active' }, on_failure: { state: 'waiting', job_id: null } },
  })
  for (const { id } of called) await server.ack(id)
  expect(await look(server, good)).toMatchObject({
    state: 'completed',
    jobs_completed: 2,
    callbacks: { on_success: { state: 'completed' }, on_failure: { state: 'cancelled' } },
  })

  const bad = await begin(server, batch(hooks, job('a', once), job('b')))
  const [failing, fine] = await takeAll(server)
  await server.nack(failing?.id ?? '')
  await server.ack(fine?.id ?? '', { result: 'B' })
  const told = await takeAll(server)
  expect(types(told)).toEqual(['c', 'f'])
  expect(told[1]?.parent_results).toEqual([null, 'B'])
  for (const { id } of told) await server.ack(id)
  expect((await look(server, bad)).state).toBe('completed')
  expect((await server.eventTypes(bad)).filter((type) => type === 'workflow.callback_fired')).toHaveLength(2)
})

test('a batch fails with its callback, or when a job failed and there is no callback for it', async () => {
  const server = await TestServer.open()
  const broken = await begin(server, batch({ on_complete: job('c', once) }, job('a')))
  await server.ack((await take(server)).id)
  await server.nack((await take(server)).id)
  expect(await look(server, broken)).toMatchObject({ state: 'failed', error: { failed_step_id: 'on_complete' } })
  const unheard = await begin(server, batch({ on_success: job('s') }, job('a', once)))
  await server.nack((await take(server)).id)
  expect((await look(server, unheard)).state).toBe('failed')
  expect((await server.fetch()).body.jobs).toEqual([])
})

test('a DAG without a type: a diamond, as the Go SDK sends it', async () => {
  const server = await TestServer.open()
  const step = (id: string, ...depends_on: string[]) => job(id, { id, depends_on, options: { queue: 'default' } })
  const id = await begin(server, { name: 'd', steps: [step('t'), step('l', 't'), step('r', 't'), step('b', 'r', 'l')] })
  await server.ack((await take(server)).id, { result: 'T' })
  const [l, r] = await takeAll(server)
  expect([l?.parent_results, r?.parent_results]).toEqual([['T'], ['T']])
  await server.ack(l?.id ?? '', { result: 'L' })
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.ack(r?.id ?? '', { result: 'R' })
  const bottom = await take(server)
  expect(bottom).toMatchObject({ type: 'b', parent_results: ['R', 'L'] })
  await server.ack(bottom.id)
  expect(await look(server, id)).toMatchObject({
    type: 'dag',
    state: 'completed',
    steps: [{ depends_on: [] }, { depends_on: ['t'] }, {}, { id: 'b', depends_on: ['r', 'l'] }],
  })
})

test('what depends on a failure never starts; other branches of the DAG go on', async () => {
  const server = await TestServer.open()
  const step = (id: string, ...depends_on: string[]) => job(id, { id, depends_on, ...once })
  const id = await begin(server, { steps: [step('a'), step('b', 'a'), step('x'), step('y', 'x')] })
  const [a, x] = await takeAll(server)
  await server.nack(a?.id ?? '')
  expect(states(await look(server, id))).toEqual(['failed', 'cancelled', 'active', 'waiting'])
  await server.ack(x?.id ?? '')
  await server.ack((await take(server)).id)
  expect(await look(server, id)).toMatchObject({ state: 'failed', jobs_completed: 2 })
})

test('lists in lists: a chain of a group of chains and a batch, four deep', async () => {
  const server = await TestServer.open()
  const id = await begin(
    server,
    chain(job('a'), group(chain(job('b'), batch({ on_complete: job('k') }, job('c'), job('d'))), job('e')), job('z')),
  )
  const run = async (expected: string[], results: Record<string, unknown>): Promise<JobView[]> => {
    const jobs = await takeAll(server)
    expect(types(jobs)).toEqual(expected)
    for (const one of jobs) await server.ack(one.id, { result: results[String(one.type)] })
    return jobs
  }
  await run(['a'], { a: 'A' })
  const [b] = await run(['b', 'e'], { b: 'B', e: 'E' })
  expect(b).toMatchObject({ parent_results: ['A'], workflow_step: 1, x_workflow_path: '1/0/0' })
  const [c] = await run(['c', 'd'], { c: 'C', d: 'D' })
  expect(c?.parent_results).toEqual(['B'])
  const [callback] = await run(['k'], {})
  expect(callback).toMatchObject({ parent_results: ['C', 'D'], x_workflow_path: '1/0/1/on_complete' })
  const [z] = await run(['z'], {})
  expect(z?.parent_results).toEqual(['A', [['C', 'D'], 'E']])
  expect(await look(server, id)).toMatchObject({
    state: 'completed',
    steps_total: 3,
    jobs_total: 6,
    steps: [
      {},
      { type: 'group', steps_total: 2, steps: [{ type: 'chain', steps: [{}, { type: 'batch', callbacks: {} }] }, {}] },
      {},
    ],
  })
})

test('options of the workflow are defaults for its steps; what the JS SDK sends is understood', async () => {
  const server = await TestServer.open()
  await begin(server, {
    ...group(job('a', { options: { retry: { maxAttempts: 9 }, tags: ['x'], timeout_ms: 5_000 } }), job('b')),
    options: { queue: 'q', timeout: 60, tags: ['y'] },
  })
  const { jobs } = (await server.fetch({ queues: ['q'], count: 9 })).body
  expect(jobs).toMatchObject([
    { type: 'a', max_attempts: 9, tags: ['x'], x_limits: { timeout_ms: 5_000 } },
    { type: 'b', max_attempts: 3, tags: ['y'], x_limits: { timeout_ms: 60_000 } },
  ])
})

test('a moment given relative to now counts from when the step’s turn comes', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a'), job('b', { scheduled_at: '+PT10S' })))
  await server.advance(60_000)
  await server.ack((await take(server)).id)
  await server.advance(9_999)
  expect(states(await look(server, id))).toEqual(['completed', 'pending'])
  expect((await server.fetch()).body.jobs).toEqual([])
  await server.advance(1)
  expect((await take(server)).type).toBe('b')
})

// ---- Timeouts of steps ----

test('a step that times out and is discarded halts a chain', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a', { timeout: 5, ...once }), job('b')))
  await take(server)
  await server.advance(4_999)
  expect((await look(server, id)).state).toBe('running')
  await server.advance(1)
  expect(await look(server, id)).toMatchObject({
    state: 'failed',
    error: { errors: [{ code: 'timeout' }] },
    steps: [{ state: 'failed', error: { type: 'timeout', limit_seconds: 5 } }, { state: 'cancelled' }],
  })
})

test('a step that times out is recorded in a group, and in a batch that calls back', async () => {
  const server = await TestServer.open()
  const timed = job('a', { timeout: 5, ...once })
  const grouped = await begin(server, group(timed, job('b')))
  const batched = await begin(server, batch(hooks, timed, job('b')))
  const jobs = await takeAll(server)
  for (const one of jobs) if (one.type === 'b') await server.ack(one.id)
  await server.advance(5_000)
  expect(await look(server, grouped)).toMatchObject({
    state: 'failed',
    jobs_completed: 1,
    steps: [{ state: 'failed' }, {}],
  })
  expect((await look(server, batched)).state).toBe('running')
  expect(types(await takeAll(server))).toEqual(['c', 'f'])
})

test('a step whose TTL runs out before it starts has failed', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a', { enqueue_ttl: 5 }), job('b')))
  await server.advance(5_000)
  expect(await look(server, id)).toMatchObject({
    state: 'failed',
    error: { errors: [{ code: 'enqueue_ttl_expired' }] },
  })
})

test('a step that can never start, because it expired before its turn, fails in the same breath', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a'), job('b', { expires_at: at(1_000) }), job('c')))
  await server.advance(2_000)
  await server.ack((await take(server)).id)
  expect(await look(server, id)).toMatchObject({ state: 'failed', error: { failed_step_index: 1 } })
})

// ---- The budget of the whole ----

test('workflow_timeout strikes in its own millisecond: the workflow fails, open members end, nothing is called', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const id = await begin(server, {
    ...batch(hooks, job('a'), job('b'), chain(job('c'), job('d'))),
    workflow_timeout_ms: 60_500,
  })
  const [a, b] = (await server.fetch({ worker_id: 'w', count: 2 })).body.jobs
  await server.ack(a?.id ?? '', { result: 1 })
  expect(b?.x_limits).toMatchObject({ total_ms: 60_500, total_deadline: at(60_500), sources: { total: 'workflow' } })
  for (let beats = 0; beats < 3; beats += 1) {
    await server.advance(20_000)
    await server.beat('w', [b?.id ?? ''])
  }
  await server.advance(499)
  expect((await look(server, id)).state).toBe('running')
  await server.advance(1)
  const workflow = await look(server, id)
  expect(workflow).toMatchObject({
    state: 'failed',
    completed_at: at(60_500),
    jobs_completed: 1,
    error: {
      type: 'workflow_timeout',
      limit_seconds: 60.5,
      elapsed_seconds: 60.5,
      deadline: at(60_500),
      overshoot_ms: 0,
      source: 'publish',
    },
  })
  expect(states(workflow)).toEqual(['completed', 'cancelled', 'cancelled'])
  const running = await server.job(b?.id ?? '')
  expect(running).toMatchObject({ state: 'cancelled', cancel_reason: 'workflow_timeout' })
  expect(running).not.toHaveProperty('errors')
  expect((await server.ack(b?.id ?? '')).status).toBe(409)
  expect((await server.beat('w', [b?.id ?? ''])).body['x_cancel_jobs']).toMatchObject([{ reason: 'timeout' }])
  expect((await server.fetch()).body.jobs).toEqual([])
  expect((await server.eventTypes(id)).slice(-1)).toEqual(['workflow.failed'])
  expect((await server.eventTypes(id)).filter((type) => type === 'workflow.failed')).toHaveLength(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'workflow' })).toBe(1)
})

test('an ack one millisecond before the deadline counts; what it starts has that millisecond', async () => {
  const server = await TestServer.open()
  const id = await begin(server, { ...chain(job('a'), job('b')), workflow_timeout: 10 })
  const first = await take(server)
  await server.advance(9_999)
  expect((await server.ack(first.id)).status).toBe(200)
  const second = await take(server)
  expect(second.x_limits).toMatchObject({ total_deadline: at(10_000), soft_ms: 1 })
  await server.advance(1)
  expect(await look(server, id)).toMatchObject({
    state: 'failed',
    steps_completed: 1,
    error: { type: 'workflow_timeout' },
  })
  expect(await server.job(second.id)).toMatchObject({ state: 'cancelled', cancel_reason: 'workflow_timeout' })
})

test('an ack in the very millisecond of the deadline is late, and starts nothing', async () => {
  const server = await TestServer.open({ manual: true })
  const id = await begin(server, { ...chain(job('a'), job('b')), workflow_timeout: 10 })
  const first = await take(server)
  await server.post('/ojs/v1/admin/clock', { advance_ms: 10_000 })
  expect((await server.ack(first.id)).status).toBe(409)
  expect(await look(server, id)).toMatchObject({ state: 'failed', steps_completed: 0 })
})

test('a workflow without members in flight is ended by its own clock as well', async () => {
  const server = await TestServer.open()
  const id = await begin(server, { ...chain(job('a'), job('b')), workflow_timeout: 5 })
  await server.advance(5_000)
  expect(await look(server, id)).toMatchObject({ state: 'failed', error: { elapsed_seconds: 5 } })
})

test('more members than one pass settles all end at the deadline, and the workflow once', async () => {
  const server = await TestServer.open()
  const id = await begin(server, { ...group(...Array.from({ length: 600 }, () => job('a'))), workflow_timeout: 5 })
  await server.advance(5_000)
  const workflow = await look(server, id)
  expect(workflow).toMatchObject({ state: 'failed', error: { type: 'workflow_timeout' }, completed_at: at(5_000) })
  expect(new Set(states(workflow))).toEqual(new Set(['cancelled']))
  expect((await server.eventTypes(id)).filter((type) => type === 'workflow.failed')).toHaveLength(1)
}, 30_000)

test('the fit of a retry does not look at the workflow’s clamp', async () => {
  const server = await TestServer.open()
  await begin(server, { ...chain(job('a', { timeout: 8 })), workflow_timeout: 10 })
  const { id } = await take(server)
  await server.advance(5_000)
  await server.nack(id)
  expect((await server.job(id)).state).toBe('retryable')
})

// ---- Parents ----

test('a job may inherit what is left of a workflow, and ends by it as of a parent', async () => {
  const server = await TestServer.open()
  const id = await begin(server, { ...group(job('a')), workflow_timeout: 60 })
  await server.advance(20_000)
  const child = { type: 'child', queue: 'q', args: [], x_parent: { workflow_id: id }, x_inherit_deadline: true }
  const { job: inherited } = (await server.post('/ojs/v1/jobs', child)).body
  expect(inherited.x_limits).toMatchObject({
    total_ms: 40_000,
    total_deadline: at(60_000),
    sources: { total: 'parent' },
  })
  await server.advance(40_000)
  expect((await server.job(inherited.id)).error).toMatchObject({ type: 'total_timeout' })
  expect((await server.post('/ojs/v1/jobs', child)).body['error']).toMatchObject({
    code: 'deadline_exceeded',
    details: { parent_workflow_id: id, parent_state: 'failed' },
  })
  const endless = await begin(server, group(job('a')))
  const warned = (await server.post('/ojs/v1/jobs', { ...child, x_parent: { workflow_id: endless } })).body.job
  expect(warned.x_warnings).toEqual([expect.stringContaining('no workflow_timeout')])
})

test('a workflow inherits from a parent job or workflow; the nearer deadline is its own', async () => {
  const server = await TestServer.open()
  const parent = await server.enqueue({ total_timeout: 30, queue: 'q' })
  const inherit = { x_parent: { job_id: parent }, x_inherit_deadline: true }
  const id = await begin(server, { ...group(job('a')), workflow_timeout: 60, ...inherit })
  const inner = await begin(server, { ...group(job('a')), x_parent: { workflow_id: id }, x_inherit_deadline: true })
  expect(await look(server, inner)).toMatchObject({ x_deadline: at(30_000), x_parent: { workflow_id: id } })
  await server.advance(30_000)
  for (const one of [id, inner]) {
    expect(await look(server, one)).toMatchObject({
      state: 'failed',
      error: { type: 'workflow_timeout', limit_seconds: 30, source: 'parent' },
    })
  }
  const late = await server.post('/ojs/v1/workflows', { ...group(job('a')), ...inherit })
  expect([late.status, late.body['error'].code]).toEqual([422, 'deadline_exceeded'])
  const unknown = { ...group(job('a')), x_parent: { workflow_id: 'unknown' } }
  expect((await server.post('/ojs/v1/workflows', unknown)).status).toBe(422)
})

// ---- Cancelling ----

test('a cancel ends what waits; what is active runs on, its ack is accepted and leads to nothing', async () => {
  const server = await TestServer.open()
  const id = await begin(
    server,
    group(job('a'), chain(job('b'), job('z')), job('c'), job('d', { scheduled_at: '+PT1H' })),
  )
  const [a, b] = (await server.fetch({ count: 2 })).body.jobs
  await server.ack(a?.id ?? '')
  await server.advance(1_000)
  const { status, body } = await cancel(server, id)
  expect(status).toBe(200)
  expect(body['workflow']).toMatchObject({
    state: 'cancelled',
    cancelled_at: at(1_000),
    steps_cancelled: 3,
    steps_already_completed: 1,
    metadata: { cancelled_at: at(1_000), completed_count: 1 },
  })
  expect(states(body['workflow'] as WorkflowView)).toEqual(['completed', 'cancelled', 'cancelled', 'cancelled'])
  expect((await server.fetch({ count: 9 })).body.jobs).toEqual([])
  expect((await server.ack(b?.id ?? '', { result: 7 })).status).toBe(200)
  expect((await server.fetch({ count: 9 })).body.jobs).toEqual([])
  const after = await look(server, id)
  expect(after).toMatchObject({ state: 'cancelled', jobs_completed: 1 })
  expect(after.steps[1]?.steps).toMatchObject([{ state: 'completed', result: 7 }, { state: 'cancelled' }])
  const { jobs } = (await server.get('/ojs/v1/jobs?state=cancelled')).body
  expect(jobs.map(({ cancel_reason }) => cancel_reason as unknown)).toEqual([
    'workflow_cancelled',
    'workflow_cancelled',
  ])
  expect((await server.eventTypes(id)).slice(-1)).toEqual(['workflow.cancelled'])
})

test('what is over cannot be cancelled; what is not there is not found', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a')))
  await server.ack((await take(server)).id)
  expect(await cancel(server, id)).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  const other = await begin(server, chain(job('a')))
  await cancel(server, other)
  expect((await cancel(server, other)).status).toBe(409)
  expect((await cancel(server, 'unknown')).status).toBe(404)
  expect((await server.get('/ojs/v1/workflows/unknown')).status).toBe(404)
  expect((await server.get('/ojs/v1/workflows/unknown/progress')).status).toBe(404)
})

test('a cancel and the ack of a step at the same moment: the first decides', async () => {
  const server = await TestServer.open()
  for (const order of ['ack', 'cancel']) {
    const id = await begin(server, chain(job('a'), job('b')))
    const first = await take(server)
    const calls = [() => server.ack(first.id), () => cancel(server, id)]
    if (order === 'cancel') calls.reverse()
    const replies = await Promise.all(calls.map((call) => call()))
    expect(replies.map(({ status }) => status)).toEqual([200, 200])
    expect((await server.fetch()).body.jobs).toEqual([])
    expect(await look(server, id)).toMatchObject({ state: 'cancelled', steps_completed: order === 'ack' ? 1 : 0 })
  }
})

test('a member that is cancelled by hand counts as failed, once, and stays counted when its job is deleted', async () => {
  const server = await TestServer.open()
  const id = await begin(server, group(job('a'), job('b'), job('c')))
  const { steps } = await look(server, id)
  await server.call('DELETE', `/ojs/v1/jobs/${String(steps[0]?.job_id)}`)
  await server.call('DELETE', `/ojs/v1/jobs/${String(steps[1]?.job_id)}`)
  await server.post('/ojs/v1/admin/jobs/bulk/delete', { job_ids: [steps[1]?.job_id], confirm: true })
  expect((await look(server, id)).state).toBe('running')
  await server.ack((await take(server)).id)
  expect(await look(server, id)).toMatchObject({ state: 'failed', jobs_completed: 1, metadata: { failed_count: 2 } })
})

test('a job that is retried by hand is no member any more', async () => {
  const server = await TestServer.open()
  const dead = { retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } }
  const id = await begin(server, { ...group(job('a', dead), job('b')), workflow_timeout: 60 })
  const [a, b] = await takeAll(server)
  await server.nack(a?.id ?? '')
  await server.post(`/ojs/v1/dead-letter/${a?.id ?? ''}/retry`)
  const again = await take(server)
  expect(again.x_limits).not.toHaveProperty('total_ms')
  await server.ack(again.id)
  await server.ack(b?.id ?? '')
  expect(await look(server, id)).toMatchObject({ state: 'failed', jobs_completed: 1, metadata: { failed_count: 1 } })
})

// ---- Lists, progress, waiting ----

test('workflows are listed newest first, by state, page by page, without their steps', async () => {
  const server = await TestServer.open()
  const ids: string[] = []
  for (let n = 0; n < 5; n += 1) {
    ids.unshift(await begin(server, { ...chain(job('a')), name: `n${String(n)}` }))
    await server.advance(1)
  }
  await cancel(server, ids[1] ?? '')
  const list = async (query: string): Promise<Body> => (await server.get(`/ojs/v1/workflows?${query}`)).body
  const first = await list('limit=2')
  expect(first['workflows']).toMatchObject([
    { id: ids[0], name: 'n4' },
    { id: ids[1], state: 'cancelled' },
  ])
  expect(first['workflows'][0]).not.toHaveProperty('steps')
  const second = await list(`limit=3&cursor=${String(first['pagination'].next_cursor)}`)
  expect(listed(second).map(({ id }) => id)).toEqual(ids.slice(2))
  expect(second['pagination']).toEqual({ limit: 3, has_more: false })
  expect((await list('state=cancelled'))['workflows']).toMatchObject([{ id: ids[1] }])
  expect(listed(await list('state=running&limit=2')).map(({ id }) => id)).toEqual([ids[0], ids[2]])
  expect((await server.get('/ojs/v1/workflows?state=odd')).status).toBe(400)
  expect((await server.get('/ojs/v1/workflows?cursor=odd')).status).toBe(400)
})

test('progress counts what is done and how far the current step says it is', async () => {
  const server = await TestServer.open()
  const id = await begin(server, { ...chain(job('a'), job('b')), workflow_timeout: 60 })
  const progress = async () => (await server.get(`/ojs/v1/workflows/${id}/progress`)).body
  expect(await progress()).toMatchObject({ workflow_id: id, state: 'running', progress: 0, remaining_ms: 60_000 })
  await server.ack((await take(server)).id)
  const second = await take(server)
  await server.post(`/ojs/v1/jobs/${second.id}/progress`, { progress: 0.5 })
  expect(await progress()).toMatchObject({ progress: 0.75, jobs_completed: 1, jobs_total: 2, jobs_failed: 0 })
  await server.ack(second.id)
  expect(await progress()).toMatchObject({ progress: 1, state: 'completed' })
})

test('a look can wait until it is over; when the wait is up it says so', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a')))
  const early = server.get(`/ojs/v1/workflows/${id}?wait=true&timeout=5`)
  await server.advance(5_000)
  expect(await early).toMatchObject({ status: 408, body: { error: { details: { state: 'running' } } } })
  const waiting = server.get(`/ojs/v1/workflows/${id}?wait=true`)
  await server.advance(1_000)
  await server.ack((await take(server)).id, { result: 1 })
  expect((await waiting).body['workflow']).toMatchObject({ state: 'completed', steps: [{ result: 1 }] })
  expect((await server.get(`/ojs/v1/workflows/${id}?wait=true`)).status).toBe(200)
})

test('a look that waits when the server stops is sent away to ask again', async () => {
  const server = await TestServer.open()
  const id = await begin(server, chain(job('a')))
  const look = () => server.get(`/ojs/v1/workflows/${id}?wait=true`)
  const waiting = look()
  await server.advance(600)
  server.engine.beginClose()
  const cutShort = { status: 503, body: { error: { code: 'unavailable', details: { state: 'running' } } } }
  expect(await waiting).toMatchObject(cutShort)
  expect(await look()).toMatchObject(cutShort)
})

// ---- Bad input ----

test('bad input is refused with the place, and nothing is stored', async () => {
  const server = await TestServer.open()
  const bad = await server.post('/ojs/v1/workflows', group(job('a'), job('b', { timeout: -1 })))
  expect(bad).toMatchObject({ status: 422, body: { error: { details: { field: 'jobs[1].timeout' } } } })
  const empty = await server.post('/ojs/v1/workflows', { type: 'chain', steps: [] })
  expect(empty).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request', details: { validation_errors: [{ path: '$.steps' }] } } },
  })
  expect((await server.post('/ojs/v1/workflows', '[]')).status).toBe(400)
  expect((await server.post('/ojs/v1/workflows', 'no')).status).toBe(400)
  const many = await server.post('/ojs/v1/workflows', group(...Array.from({ length: 100_000 }, () => job('a'))))
  expect(many).toMatchObject({ status: 400, body: { error: { details: { max_jobs: 10_000 } } } })
  expect((await server.fetch()).body.jobs).toEqual([])
  expect((await server.get('/ojs/v1/workflows')).body['workflows']).toEqual([])
}, 30_000)

test('what starts now must be let in, or nothing is; what has begun is not refused half-way', async () => {
  const server = await TestServer.open()
  const narrow = { backpressure: { max_depth: 2, strategy: 'reject' } }
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', narrow)
  const full = await server.post('/ojs/v1/workflows', group(job('a'), job('b'), job('c')))
  expect([full.status, full.body['error'].code]).toEqual([429, 'QUEUE_FULL'])
  expect((await server.fetch()).body.jobs).toEqual([])
  const id = await begin(server, chain(job('a'), group(job('b'), job('c'), job('d'))))
  await server.ack((await take(server)).id)
  expect(await takeAll(server)).toHaveLength(3)
  await server.post('/ojs/v1/queues/default/drain')
  expect((await server.post('/ojs/v1/workflows', chain(job('a')))).status).toBe(422)
  expect((await look(server, id)).state).toBe('running')
})

test('another tenant sees nothing of a workflow, and cannot cancel it', async () => {
  const server = await TestServer.open()
  const [acme, beta] = [{ 'x-ojs-tenant': 'acme' }, { 'x-ojs-tenant': 'beta' }]
  const begun = await server.call('POST', '/ojs/v1/workflows', chain(job('a'), job('b')), acme)
  const path = `/ojs/v1/workflows/${String(begun.body['id'])}`
  const asked = async (tenant: Record<string, string>): Promise<number[]> => [
    (await server.call('GET', path, undefined, tenant)).status,
    (await server.call('GET', `${path}/progress`, undefined, tenant)).status,
    ((await server.call('GET', '/ojs/v1/workflows', undefined, tenant)).body['workflows'] as unknown[]).length,
    (await server.call('DELETE', path, undefined, tenant)).status,
  ]
  expect(await asked(beta)).toEqual([404, 404, 0, 404])
  expect((await server.call('GET', path)).body['state']).toBe('running')
  expect(await asked(acme)).toEqual([200, 200, 1, 200])
})

test('the members of a tenant’s workflow are the tenant’s, those that start later as well', async () => {
  const server = await TestServer.open()
  const tenant = { 'x-ojs-tenant': 'acme' }
  await server.call('POST', '/ojs/v1/workflows', chain(job('a'), job('b')), tenant)
  const first = await take(server)
  await server.ack(first.id)
  const second = await take(server)
  expect([first.meta, second.meta]).toEqual([{ tenant_id: 'acme' }, { tenant_id: 'acme' }])
})

test('an id of its own is kept, and taken only once', async () => {
  const server = await TestServer.open()
  const id = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
  expect(await begin(server, { ...chain(job('a')), id })).toBe(id)
  const again = await server.post('/ojs/v1/workflows', { ...chain(job('a')), id })
  expect([again.status, again.body['error'].code]).toEqual([409, 'duplicate'])
  expect(await takeAll(server)).toHaveLength(1)
})

// ---- What lasts ----

test('a server that comes up on the same data goes on where the last one was', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  const id = await begin(before, { ...chain(job('a'), group(job('b'), job('c')), job('d')), workflow_timeout: 600 })
  await before.ack((await take(before)).id, { result: 'A' })
  const [b] = (await before.fetch({ count: 1 })).body.jobs
  await before.ack(b?.id ?? '', { result: 'B' })
  const server = await TestServer.open({ store, clock: new FakeClock(before.clock.now() + 1_000) })
  expect(await look(server, id)).toMatchObject({ state: 'running', jobs_completed: 2 })
  await server.ack((await take(server)).id, { result: 'C' })
  const last = await take(server)
  expect(last).toMatchObject({ type: 'd', parent_results: ['A', ['B', 'C']] })
  await server.ack(last.id)
  expect((await look(server, id)).state).toBe('completed')
})

test('a deadline that passed while no server was up is decided when one comes up', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  const id = await begin(before, { ...batch(hooks, job('a')), workflow_timeout: 10 })
  const server = await TestServer.open({ store, clock: new FakeClock(before.clock.now() + 60_000) })
  expect(await look(server, id)).toMatchObject({
    state: 'failed',
    error: { type: 'workflow_timeout', limit_seconds: 10, elapsed_seconds: 60, overshoot_ms: 0 },
  })
  expect((await server.fetch()).body.jobs).toEqual([])
})

test('results outlive the jobs they came from, and a workflow is removed when it was kept long enough', async () => {
  const server = await TestServer.open({ settings: BRIEFLY })
  const id = await begin(server, chain(job('a', { result_ttl: 1 }), job('b')))
  await server.ack((await take(server)).id, { result: 'A' })
  await server.advance(40_000)
  const last = await take(server)
  expect(last.parent_results).toEqual(['A'])
  await server.ack(last.id)
  expect((await look(server, id)).steps[0]).toMatchObject({ state: 'completed', result: 'A' })
  await server.advance(49_999)
  expect((await server.get(`/ojs/v1/workflows/${id}`)).status).toBe(200)
  await server.advance(1)
  expect((await server.get(`/ojs/v1/workflows/${id}`)).status).toBe(404)
  expect(await server.store.docs('step', '', null, 9)).toEqual([])
})

test('a large workflow is removed to its last step', async () => {
  const server = await TestServer.open({ settings: BRIEFLY })
  const id = await begin(server, group(...Array.from({ length: 2_500 }, () => job('a'))))
  await cancel(server, id)
  await server.advance(50_010)
  expect((await server.get(`/ojs/v1/workflows/${id}`)).status).toBe(404)
  expect(await server.store.docs('step', '', null, 9)).toEqual([])
}, 60_000)

test('the answers that are large are whole: a group of ten thousand is begun, shown and cancelled', async () => {
  const server = await TestServer.open()
  const id = await begin(server, group(...Array.from({ length: 10_000 }, () => job('a'))))
  const [first] = (await server.fetch({ count: 1 })).body.jobs
  await server.ack(first?.id ?? '')
  const workflow = await look(server, id)
  expect(workflow.steps).toHaveLength(10_000)
  expect(workflow).toMatchObject({ jobs_total: 10_000, jobs_completed: 1 })
  expect((await cancel(server, id)).body['workflow']).toMatchObject({ steps_cancelled: 9_999 })
}, 60_000)
