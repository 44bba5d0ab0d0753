/** The total timeout: the whole life of a job from its creation, whatever it is doing, and no attempt that cannot fit. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const STEADY = { max_attempts: 5, jitter: false }

const WAYS_TO_WAIT: [string, Record<string, unknown>][] = [
  ['scheduled', { scheduled_at: '+PT1H' }],
  ['pending', { pending: true }],
  ['available', {}],
]

test.each(WAYS_TO_WAIT)('a job that is %s ends at its total deadline, not 1 ms before', async (state, job) => {
  const server = await TestServer.open()
  const id = await server.enqueue({ ...job, total_timeout: 60 })
  await server.advance(59_999)
  expect((await server.job(id)).state).toBe(state)
  await server.advance(1)
  const ended = await server.job(id)
  expect(ended).toMatchObject({ state: 'discarded', attempt: 0, discarded_at: at(60_000) })
  expect(ended).not.toHaveProperty('completed_at')
  expect(ended.errors).toHaveLength(1)
  expect(ended.error).toEqual({
    type: 'total_timeout',
    code: 'total_timeout',
    message: 'Job exceeded its total timeout of 60 seconds',
    retryable: false,
    timeout_kind: 'total',
    limit_seconds: 60,
    limit_ms: 60_000,
    elapsed_seconds: 60,
    elapsed_ms: 60_000,
    source: 'publish',
    deadline: at(60_000),
    overshoot_ms: 0,
    late_ms: 0,
    downtime_ms: 0,
    attempt: 0,
    occurred_at: at(60_000),
    timestamp: at(60_000),
  })
  expect((await server.eventTypes(id)).slice(state === 'pending' ? 0 : 1)).toEqual([
    'job.total_timeout',
    'job.discarded',
  ])
})

test('an active attempt is cut off at the total deadline, without grace', async () => {
  const server = await TestServer.open()
  await server.advance(0)
  const id = await server.enqueue({ timeout: 50, grace_period: 30, total_timeout: 60 })
  await server.advance(5_000)
  await server.fetch()
  await server.advance(54_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  const job = await server.job(id)
  expect(job).toMatchObject({
    state: 'discarded',
    completed_at: at(60_000),
    error: { type: 'total_timeout', timeout_kind: 'total', limit_seconds: 60, elapsed_seconds: 60, attempt: 1 },
  })
  expect(job.errors).toHaveLength(1)
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.total_timeout', 'job.failed', 'job.discarded'])
})

test('where the total comes first, the handler is asked to stop a reserve before it; the total itself stays', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ total_timeout: 60 })
  await server.advance(10_000)
  await server.register('w')
  const [job] = (await server.fetch({ worker_id: 'w' })).body.jobs
  expect(job?.x_limits).toMatchObject({
    soft_ms: 45_000,
    hard_ms: 50_000,
    soft_deadline: at(55_000),
    hard_deadline: at(60_000),
    total_deadline: at(60_000),
    soft_limit: 'total',
  })
  await server.advance(25_000)
  await server.beat('w', [id])
  await server.advance(19_999)
  expect((await server.beat('w', [id])).body['x_cancel_jobs'] ?? []).toEqual([])
  await server.advance(1)
  expect((await server.beat('w', [id])).body['x_cancel_jobs']).toMatchObject([{ job_id: id, reason: 'timeout' }])
  const explained = (await server.get(`/ojs/v1/jobs/${id}/explain`)).body
  const [, , grace] = explained['spans'] as unknown[]
  expect(grace).toMatchObject({ kind: 'grace', from: at(55_000), attempt: 1 })
  expect(explained['text']).toContain(`is in its grace, since ${at(55_000)}, until ${at(60_000)}`)
  await server.advance(5_000)
  expect(await server.job(id)).toMatchObject({
    state: 'discarded',
    error: { type: 'total_timeout', deadline: at(60_000), overshoot_ms: 0 },
  })
  const spans = (await server.get(`/ojs/v1/jobs/${id}/explain`)).body['spans'] as { kind: string }[]
  expect(spans.at(-1)).toMatchObject({ kind: 'grace', from: at(55_000), to: at(60_000) })
})

test('a timeout that a worker reports in the reserve says that it was the total', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ timeout: 60, total_timeout: 60 }, { worker_id: 'w' })
  await server.advance(29_000)
  await server.beat('w', [id])
  await server.advance(24_900)
  await server.nack(id, { type: 'timeout', message: 'stopped' }, { worker_id: 'w' })
  expect(await server.job(id)).toMatchObject({
    state: 'retryable',
    errors: [{ type: 'timeout', attempt: 1, soft_limit: 'total' }],
  })
  await server.advance(6_100)
  expect((await server.job(id)).errors[1]).toMatchObject({ type: 'total_timeout', elapsed_ms: 60_000 })
  const other = await server.start({ timeout: 60, total_timeout: 60 }, { worker_id: 'w' })
  await server.advance(20_000)
  await server.nack(other.id, { type: 'timeout', message: 'stopped' }, { worker_id: 'w' })
  expect((await server.job(other.id)).errors[0]).not.toHaveProperty('soft_limit')
})

test('an enqueue whose reserve cuts into its timeout says so, with the figures', async () => {
  const server = await TestServer.open()
  const asked = { type: 'a', args: [], timeout: 60, total_timeout: 60 }
  const { body } = await server.post('/ojs/v1/jobs', asked)
  expect(body.job['x_warnings']).toEqual([
    expect.stringMatching(
      /^The last 6 s before total_timeout .* 54 s before it is asked to stop, not its timeout of 60 s/,
    ),
  ])
  expect((await server.post('/ojs/v1/jobs/plan', asked)).body.warnings).toContain(body.job['x_warnings'][0])
  const roomy = await server.post('/ojs/v1/jobs', { ...asked, total_timeout: 67 })
  expect(roomy.body.job).not.toHaveProperty('x_warnings')
})

test('a grace that takes all that the total leaves is cut, so that the handler has time before it is asked to stop', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const asked = { type: 'a', args: [], timeout: 20, total_timeout: 20, grace_period: 30 }
  const { job } = (await server.post('/ojs/v1/jobs', asked)).body
  expect(job['x_warnings']).toEqual([
    expect.stringMatching(/^grace_period of 30 s does not fit into the 20 s .* after 18 s, 2 s before total_timeout/),
  ])
  const [handed] = (await server.fetch({ worker_id: 'w' })).body.jobs
  expect(handed?.x_limits).toMatchObject({ soft_ms: 18_000, hard_ms: 20_000, grace_ms: 30_000, soft_limit: 'total' })
})

test('a job that waits for its retry ends at the total deadline too', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({
    total_timeout: 60,
    retry: { ...STEADY, initial_interval: 'PT59S' },
  })
  await server.nack(id)
  await server.advance(59_000)
  expect((await server.job(id)).state).toBe('available')
  await server.advance(999)
  expect((await server.job(id)).state).toBe('available')
  await server.advance(1)
  const job = await server.job(id)
  expect(job).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
  expect(job.errors.map(({ type }) => type)).toEqual(['error', 'total_timeout'])
})

test('a total given alone also bounds the attempt, and keeps its retries', async () => {
  const server = await TestServer.open()
  const { id, x_limits } = await server.start({ total_timeout: 60, retry: STEADY })
  expect(x_limits).toMatchObject({ timeout_ms: 60_000, total_ms: 60_000, soft_deadline: at(60_000) })
  await server.advance(10_000)
  await server.nack(id)
  expect((await server.job(id)).state).toBe('retryable')
})

test('a retry that could not end before the total deadline is refused at once', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, total_timeout: 20, retry: STEADY })
  await server.advance(9_001)
  const reply = await server.nack(id, { type: 'oops', message: 'broken' })
  expect(reply.body.state).toBe('discarded')
  const job = await server.job(id)
  const original = { type: 'oops', message: 'broken', attempt: 1 }
  expect(job.errors).toMatchObject([original, { type: 'total_timeout', attempt: 1 }])
  expect(job.error).toMatchObject({
    type: 'total_timeout',
    timeout_kind: 'total',
    limit_seconds: 20,
    elapsed_seconds: 9,
    details: { predicted: true, last_error: original },
  })
  expect(job.error).not.toHaveProperty('deadline')
  expect(job.error).not.toHaveProperty('overshoot_ms')
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.failed', 'job.total_timeout', 'job.discarded'])
})

test('a retry that ends in the very millisecond of the total deadline still fits', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, total_timeout: 20, retry: STEADY })
  await server.advance(9_000)
  expect((await server.nack(id)).body.state).toBe('retryable')
})

test('with a default timeout only the start has to fit: strictly before the total deadline', async () => {
  const server = await TestServer.open()
  const fits = await server.start({ total_timeout: 20, retry: STEADY })
  const does = await server.start({ total_timeout: 20, retry: STEADY })
  await server.advance(18_999)
  expect((await server.nack(fits.id)).body.state).toBe('retryable')
  await server.advance(1)
  expect((await server.nack(does.id)).body).toMatchObject({
    state: 'discarded',
    job: { error: { type: 'total_timeout' } },
  })
})

test('grace does not count in the fit of a retry', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 60, total_timeout: 20, retry: STEADY })
  await server.advance(9_000)
  expect((await server.nack(id)).body.state).toBe('retryable')
})

test('a hand-back that cannot fit any more is refused like a retry', async () => {
  const server = await TestServer.open()
  const limits = { timeout: 10, grace_period: 10, total_timeout: 25 }
  const handBack = (id: string) => server.nack(id, { type: 'shutdown', message: 'bye' }, { requeue: true })
  const fits = await server.start({ ...limits, queue: 'a' })
  await server.advance(15_000)
  expect((await handBack(fits.id)).body.state).toBe('available')
  const late = await server.start({ ...limits, queue: 'b' })
  await server.advance(15_001)
  expect((await handBack(late.id)).body).toMatchObject({
    state: 'discarded',
    job: { error: { type: 'total_timeout', details: { predicted: true, last_error: { type: 'shutdown' } } } },
  })
})

test('a lapsed reservation goes back only if another attempt fits, with no backoff in the sum', async () => {
  const server = await TestServer.open()
  const fits = await server.start({ timeout: 10, total_timeout: 15, visibility_timeout: 5, queue: 'a' })
  await server.advance(5_000)
  expect((await server.job(fits.id)).state).toBe('available')
  const late = await server.start({ timeout: 10, total_timeout: 15, visibility_timeout_ms: 5_001, queue: 'b' })
  await server.advance(5_001)
  const job = await server.job(late.id)
  expect(job.state).toBe('discarded')
  expect(job.errors.map(({ type }) => type)).toEqual(['visibility_timeout', 'total_timeout'])
})

test('the total comes before the attempts: attempts left do not matter', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ total_timeout: 5, retry: { max_attempts: 100, jitter: false } })
  await server.advance(5_000)
  expect(await server.job(id)).toMatchObject({ state: 'discarded', attempt: 1, max_attempts: 100 })
})

test.each(['discard', 'dead_letter'])('on_exhaustion %s rules for a total that struck', async (on_exhaustion) => {
  const server = await TestServer.open()
  const waiting = await server.enqueue({ total_timeout: 5, retry: { on_exhaustion }, queue: 'w' })
  const running = await server.start({ total_timeout: 5, retry: { on_exhaustion } })
  const foreseen = await server.start({ timeout: 5, total_timeout: 5, retry: { on_exhaustion } })
  await server.nack(foreseen.id)
  await server.advance(5_000)
  const dead = (await server.get('/ojs/v1/dead-letter')).body.jobs.map(({ id }) => id)
  const all = [waiting, running.id, foreseen.id]
  expect(dead.sort()).toEqual(on_exhaustion === 'discard' ? [] : all.sort())
})

test('totals are counted by kind, foreseen ones too; only those that struck are observed', async () => {
  const server = await TestServer.open()
  await server.enqueue({ total_timeout: 5, queue: 'q' })
  const foreseen = await server.start({ timeout: 5, total_timeout: 5, queue: 'q2' })
  await server.nack(foreseen.id)
  await server.advance(5_000)
  const kind = { timeout_kind: 'total', job_type: 'test.job' }
  expect(await server.metric('ojs_job_timeout_count_total', { ...kind, queue: 'q' })).toBe(1)
  expect(await server.metric('ojs_job_timeout_count_total', { ...kind, queue: 'q2' })).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'total' })).toBe(1)
})

test('an execution timeout whose retry cannot fit counts as both: the timeout that struck, the total foreseen', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, total_timeout: 15 })
  await server.advance(10_000)
  const job = await server.job(id)
  expect(job.errors).toMatchObject([{ type: 'timeout' }, { type: 'total_timeout', details: { predicted: true } }])
  expect((await server.eventTypes(id)).slice(2)).toEqual([
    'job.timeout',
    'job.failed',
    'job.total_timeout',
    'job.discarded',
  ])
  const labels = { queue: 'default', job_type: 'test.job' }
  expect(await server.metric('ojs_job_timeout_count_total', { ...labels, timeout_kind: 'execution' })).toBe(1)
  expect(await server.metric('ojs_job_timeout_count_total', { ...labels, timeout_kind: 'total' })).toBe(1)
})

test('the clock of the total runs on through claims, failures and backoff', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ total_timeout: 100, retry: { ...STEADY, initial_interval: 'PT20S' } })
  await server.advance(30_000)
  await server.fetch()
  await server.advance(10_000)
  await server.nack(id)
  await server.advance(20_000)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 2 })
  await server.advance(39_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'total_timeout', elapsed_seconds: 100, attempt: 2 })
})

test('a job with no time left is discarded at the fetch instead of being handed out', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ total_timeout: 5 })
  await server.advance(5_000)
  expect((await server.fetch()).body.jobs).toEqual([])
  expect((await server.job(id)).state).toBe('discarded')
})
