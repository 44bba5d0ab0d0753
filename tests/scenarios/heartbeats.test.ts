/** BEAT in every dialect, and what the answer says. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const DIALECTS: [string, (id: string) => Record<string, unknown>][] = [
  ['a count and ids', (id) => ({ state: 'running', active_jobs: 1, active_job_ids: [id] })],
  ['ids in active_jobs', (id) => ({ active_jobs: [id] })],
  ['ids alone', (id) => ({ active_job_ids: [id] })],
  ['a single job_id', (id) => ({ job_id: id })],
  ['the same id in every place', (id) => ({ active_jobs: [id], active_job_ids: [id], job_id: id })],
]

test.each(DIALECTS)('a beat with %s extends the job once', async (_, dialect) => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  await server.advance(20_000)
  const reply = await server.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', ...dialect(id) })
  expect(reply.status).toBe(200)
  expect(reply.body).toEqual({
    state: 'running',
    directive: 'continue',
    acknowledged: true,
    server_time: at(20_000),
    jobs_extended: [id],
    x_cancel_jobs: [],
    x_reregister: true,
  })
  expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(50_000))
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ active_jobs: 1, active_job_ids: [id] })
})

test('a beat with nothing but its worker_id is a beat', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/workers/beat', { worker_id: 'w' })
  expect(reply.body).toMatchObject({ state: 'running', acknowledged: true })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({ last_heartbeat_at: at(0), registered: false })
})

test('only unknown workers get x_reregister', async () => {
  const server = await TestServer.open()
  await server.register('known')
  expect((await server.beat('known', [])).body.x_reregister).toBe(false)
  await server.fetch({ worker_id: 'fetched' })
  expect((await server.beat('fetched', [])).body.x_reregister).toBe(true)
  expect((await server.beat('fetched', [])).body.x_reregister).toBe(false)
})

test('a beat updates what the registry knows, and leaves what it does not mention', async () => {
  const server = await TestServer.open()
  await server.register('w', { labels: ['old'] })
  await server.beat('w', [], { hostname: 'new', pid: 8, concurrency: 2, queues: ['x'] })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({
    hostname: 'new',
    pid: 8,
    concurrency: 2,
    queues: ['x'],
    labels: ['old'],
  })
})

const BAD_BEATS: [string, Record<string, unknown>, number, string][] = [
  ['no worker_id', { worker_id: null }, 400, 'worker_id'],
  ['an unknown state', { state: 'sleepy' }, 400, 'state'],
  ['a fractional count', { active_jobs: 1.5 }, 400, 'active_jobs'],
  ['ids that are no strings', { active_job_ids: [1] }, 400, 'active_job_ids[0]'],
  ['a bad visibility', { visibility_timeout_ms: -1 }, 422, 'visibility_timeout_ms'],
  ['a fractional visibility', { visibility_timeout_ms: 1.5 }, 422, 'visibility_timeout_ms'],
  ['a lease that is no number', { x_leases: { a: 'b' } }, 400, 'x_leases.a'],
]

test.each(BAD_BEATS)('a beat with %s is refused', async (_, fields, status, field) => {
  const server = await TestServer.open()
  const reply = await server.beat('w', [], fields)
  expect(reply.status).toBe(status)
  expect(reply.body.error.details.field).toBe(field)
})

test.each(['drain', 'draining'])('a worker that reports %s is quiet, and shown as drain', async (state) => {
  const server = await TestServer.open()
  await server.enqueue()
  await server.register('w')
  expect((await server.beat('w', [], { state })).body).toMatchObject({ state: 'quiet', directive: 'quiet' })
  expect((await server.get('/ojs/v1/workers/w/health')).body).toMatchObject({ state: 'drain', healthy: true })
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toEqual([])
})

test.each(['quiet', 'terminate'])('a worker that reports %s is never pushed back, and gets no jobs', async (state) => {
  const server = await TestServer.open()
  await server.enqueue()
  await server.register('w')
  expect((await server.beat('w', [], { state })).body).toMatchObject({ state, directive: state })
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toEqual([])
  expect((await server.get('/ojs/v1/workers/w/health')).body.state).toBe(state)
})

test('a quiet worker that reports running again may fetch again', async () => {
  const server = await TestServer.open()
  await server.enqueue()
  await server.beat('w', [], { state: 'quiet' })
  expect((await server.beat('w', [], { state: 'running' })).body.state).toBe('running')
  expect((await server.fetch({ worker_id: 'w' })).body.jobs).toHaveLength(1)
})

test('going quiet is recorded once', async () => {
  const server = await TestServer.open()
  await server.beat('w', [], { state: 'quiet' })
  await server.beat('w', [], { state: 'quiet' })
  expect((await server.eventTypes('w')).filter((type) => type === 'worker.quiet')).toHaveLength(1)
})

test('a visibility of 0 in a beat is not sent', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  await server.beat('w', [id], { visibility_timeout_ms: 0 })
  expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(30_000))
})

test('a stale lease in a beat resets nothing and is answered as lost', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'w' })
  await server.advance(5_000)
  const stale = await server.beat('w', [id], { x_leases: { [id]: 1 } })
  expect(stale.body).toMatchObject({
    jobs_extended: [],
    x_cancel_jobs: [{ job_id: id, reason: 'lost', x_lease: 1 }],
  })
  expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(20_000))
  const right = await server.beat('w', [id], { x_leases: { [id]: 2 } })
  expect(right.body).toMatchObject({
    jobs_extended: [id],
    x_cancel_jobs: [{ job_id: id, reason: 'lost', x_lease: 1 }],
  })
})

test('a stale lease does not undo the beat before it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 20, heartbeat_timeout: 20 }, { worker_id: 'w' })
  await server.advance(12_000)
  await server.beat('w', [id])
  await server.advance(3_000)
  await server.beat('w', [id], { x_leases: { [id]: 9 } })
  await server.advance(16_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(32_000) })
})

test('a stale lease does not extend an anonymous reservation either', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10 })
  await server.advance(5_000)
  expect((await server.beat('w', [id], { x_leases: { [id]: 7 } })).body.jobs_extended).toEqual([])
  expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(10_000))
})

test('a beat with a lower seq changes nothing but is a sign of life', async () => {
  const server = await TestServer.open()
  await server.register('w')
  await server.beat('w', [], { seq: 10, state: 'quiet' })
  await server.advance(20_000)
  await server.beat('w', [], { seq: 9, state: 'running', hostname: 'stale' })
  expect((await server.get('/ojs/v1/workers/w')).body).toMatchObject({
    state: 'quiet',
    hostname: 'h',
    last_heartbeat_at: at(0),
  })
  await server.advance(29_999)
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(200)
})

test('the answer to a beat with leases names the attempts that the worker holds and does not list', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const listed = await server.start({}, { worker_id: 'w' })
  const lost = await server.start({}, { worker_id: 'w' })
  await server.start({}, { worker_id: 'other' })
  await server.start()
  await server.advance(2_000)
  const again = await server.start({ visibility_timeout: 1 }, { worker_id: 'w' })
  await server.advance(1_000)
  await server.fetch({ worker_id: 'w' })
  await server.advance(500)
  const leases = { [listed.id]: 1, [again.id]: 1 }
  const unlisted = async (more: Record<string, unknown>): Promise<unknown> =>
    (await server.beat('w', [listed.id, again.id], more)).body['x_unlisted']
  expect(await unlisted({ x_leases: leases, seq: 5 })).toEqual([
    { job_id: again.id, x_lease: 2, held_ms: 500 },
    { job_id: lost.id, x_lease: 1, held_ms: 3_500 },
  ])
  expect(await unlisted({})).toBeUndefined()
  expect(await unlisted({ x_leases: leases, seq: 4 })).toBeUndefined()
  await server.ack(lost.id)
  expect(await unlisted({ x_leases: { ...leases, [again.id]: 2 } })).toBeUndefined()
})

test('what is reported in the same exchange is not missing from its beat', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const done = await server.start({}, { worker_id: 'w' })
  await server.enqueue()
  const { body } = await server.post('/ojs/v1/workers/exchange', {
    worker_id: 'w',
    acks: [{ job_id: done.id, x_lease: 1 }],
    beat: { active_job_ids: [], x_leases: {} },
    fetch: { queues: ['default'] },
  })
  expect(body.jobs).toHaveLength(1)
  expect(body['beat'].x_unlisted).toBeUndefined()
})

test('seq begins anew with a registration', async () => {
  const server = await TestServer.open()
  await server.beat('w', [], { seq: 10 })
  await server.register('w')
  await server.beat('w', [], { seq: 1, state: 'quiet' })
  expect((await server.get('/ojs/v1/workers/w')).body.state).toBe('quiet')
})

test('a bench may let a job’s meta give the directive for one beat; a server in earnest may not', async () => {
  for (const conformance of [true, false]) {
    const server = await TestServer.open({ settings: { conformance } })
    const { id } = await server.start({ meta: { test_directive: 'terminate' } }, { worker_id: 'w' })
    const expected = conformance ? 'terminate' : 'running'
    expect((await server.beat('w', [id])).body.state).toBe(expected)
    expect((await server.beat('w', [])).body.state).toBe('running')
  }
})

test('the registry lists workers and pages them', async () => {
  const server = await TestServer.open()
  for (const id of ['a', 'b', 'c']) await server.register(id)
  const page = await server.get('/ojs/v1/workers?limit=2')
  expect(page.body.workers).toMatchObject([{ worker_id: 'a' }, { worker_id: 'b' }])
  expect(page.body.pagination).toMatchObject({ total: 3, has_more: true })
  await server.beat('b', [], { state: 'quiet' })
  const admin = await server.get('/ojs/v1/admin/workers?page=2&per_page=2')
  expect(admin.body.items).toMatchObject([{ worker_id: 'c' }])
  expect(admin.body.summary).toMatchObject({ total: 3, running: 2, quiet: 1, stale: 0 })
  await server.advance(16_000)
  expect((await server.get('/ojs/v1/admin/workers')).body.summary.stale).toBe(3)
})
