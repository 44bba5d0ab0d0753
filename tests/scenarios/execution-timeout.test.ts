/** The execution timeout: one attempt, from its claim, for timeout + grace, stretched by nothing. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const STEADY = { max_attempts: 3, jitter: false }

test('an attempt is still active 1 ms before timeout + grace and over at that very millisecond', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 5, retry: STEADY })
  await server.advance(14_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).state).toBe('retryable')
})

test('the error names the limit, what passed, its source, its deadline and how late the decision was', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 5, retry: STEADY })
  await server.advance(15_000)
  const job = await server.job(id)
  const expected = {
    type: 'timeout',
    code: 'timeout',
    message: 'Job execution exceeded timeout of 10 seconds',
    retryable: true,
    timeout_kind: 'execution',
    limit_seconds: 10,
    limit_ms: 10_000,
    elapsed_seconds: 15,
    elapsed_ms: 15_000,
    source: 'publish',
    deadline: at(15_000),
    overshoot_ms: 0,
    late_ms: 0,
    downtime_ms: 0,
    attempt: 1,
    occurred_at: at(15_000),
    timestamp: at(15_000),
  }
  expect(job.error).toEqual(expected)
  expect(job.errors).toEqual([expected])
})

test('a timeout is followed by backoff, uses its attempt, and comes back when the backoff is over', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: STEADY })
  await server.advance(10_000)
  expect(await server.job(id)).toMatchObject({
    state: 'retryable',
    attempt: 1,
    retry_delay_ms: 1000,
    next_retry_at: at(11_000),
  })
  await server.advance(999)
  expect((await server.job(id)).state).toBe('retryable')
  await server.advance(1)
  expect(await server.job(id)).toMatchObject({ state: 'available', enqueued_at: at(11_000) })
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 2, started_at: at(11_000) })
})

test('events tell of a timeout in order: timeout, failed, retrying, enqueued', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ type: 'video.cut', queue: 'media', timeout: 10, retry: STEADY })
  await server.advance(11_000)
  expect(await server.eventTypes(id)).toEqual([
    'job.enqueued',
    'job.started',
    'job.timeout',
    'job.failed',
    'job.retrying',
    'job.enqueued',
  ])
  const [, , timeout, failed, retrying] = await server.events(id)
  expect(timeout).toMatchObject({
    specversion: '1.0',
    time: at(10_000),
    data: {
      job_id: id,
      job_type: 'video.cut',
      queue: 'media',
      timeout_kind: 'execution',
      limit_seconds: 10,
      elapsed_seconds: 10,
      attempt: 1,
    },
  })
  expect(failed?.data).toMatchObject({ attempt: 1, error: { type: 'timeout', code: 'timeout' }, duration_ms: 10_000 })
  expect(retrying?.data).toMatchObject({ attempt: 1, max_attempts: 3, next_retry_at: at(11_000) })
})

test('the last attempt that times out is discarded, with no backoff and no dead letter', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: { max_attempts: 1 } })
  await server.advance(10_000)
  expect(await server.job(id)).toMatchObject({
    state: 'discarded',
    attempt: 1,
    error: { type: 'timeout', timeout_kind: 'execution' },
    discarded_at: at(10_000),
    completed_at: at(10_000),
  })
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.timeout', 'job.failed', 'job.discarded'])
  expect((await server.get('/ojs/v1/dead-letter')).body.pagination.total).toBe(0)
})

test('the last attempt that times out goes to the dead-letter list when the policy says so', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  await server.advance(10_000)
  expect((await server.eventTypes(id)).slice(2)).toEqual([
    'job.timeout',
    'job.failed',
    'job.discarded',
    'dead_letter.added',
  ])
  expect((await server.get('/ojs/v1/dead-letter')).body.jobs).toMatchObject([{ id, error: { type: 'timeout' } }])
})

test('each attempt has the whole timeout anew, and every one leaves one entry in the history', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: STEADY })
  await server.advance(11_000)
  await server.fetch()
  await server.advance(9_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  await server.advance(2_000)
  await server.fetch()
  await server.advance(10_000)
  const job = await server.job(id)
  expect(job).toMatchObject({ state: 'discarded', attempt: 3 })
  expect(job.errors.map(({ attempt, type }) => [attempt, type])).toEqual([
    [1, 'timeout'],
    [2, 'timeout'],
    [3, 'timeout'],
  ])
})

test('neither beats, nor progress, nor checkpoints stretch an attempt', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ timeout: 10, grace_period: 0 }, { worker_id: 'w' })
  for (let second = 1; second < 10; second += 1) {
    await server.advance(1_000)
    await server.beat('w', [id])
    await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: second / 10 })
    await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: second })
  }
  await server.advance(999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('timeout')
})

test('a known worker gets 30 seconds of grace by default, a stranger none', async () => {
  const server = await TestServer.open()
  await server.register('known')
  const known = await server.start({ timeout: 2, heartbeat_timeout: 600 }, { worker_id: 'known' })
  const stranger = await server.start({ timeout: 2 }, { worker_id: 'stranger' })
  const anonymous = await server.start({ timeout: 2 })
  expect([known, stranger, anonymous].map(({ x_limits }): unknown => x_limits.grace_ms)).toEqual([30_000, 0, 0])
  await server.advance(1_999)
  expect((await server.job(stranger.id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(stranger.id)).state).toBe('retryable')
  expect((await server.job(anonymous.id)).state).toBe('retryable')
  await server.advance(20_000)
  await server.beat('known', [known.id])
  await server.advance(9_999)
  expect((await server.job(known.id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(known.id)).state).toBe('retryable')
  expect((await server.job(known.id)).error).toMatchObject({ limit_seconds: 2, elapsed_seconds: 32 })
})

test('one beat makes a worker known: the next claim has grace', async () => {
  const server = await TestServer.open()
  const before = await server.start({ timeout: 2 }, { worker_id: 'w' })
  await server.beat('w', [before.id])
  const after = await server.start({ timeout: 2 }, { worker_id: 'w' })
  expect(before.x_limits.grace_ms).toBe(0)
  expect(after.x_limits.grace_ms).toBe(30_000)
})

test('an explicit grace is honoured for strangers, and zero means none for a known worker', async () => {
  const server = await TestServer.open()
  await server.register('known')
  const stranger = await server.start({ timeout: 2, grace_period: 3 }, { worker_id: 'stranger' })
  const known = await server.start({ timeout: 2, grace_period: 0 }, { worker_id: 'known' })
  const alsoNone = await server.start({ timeout: 2, grace_period_ms: 0 }, { worker_id: 'known' })
  await server.advance(2_000)
  expect((await server.job(known.id)).state).toBe('retryable')
  expect((await server.job(alsoNone.id)).state).toBe('retryable')
  expect((await server.job(stranger.id)).state).toBe('active')
  await server.advance(3_000)
  expect((await server.job(stranger.id)).state).toBe('retryable')
})

test('a result inside the grace window completes the job; in the deadline’s own millisecond it is late', async () => {
  const server = await TestServer.open()
  const early = await server.start({ timeout: 10, grace_period: 5 })
  const late = await server.start({ timeout: 10, grace_period: 5 })
  await server.advance(14_999)
  expect((await server.ack(early.id, { result: 'partial' })).body).toMatchObject({ state: 'completed' })
  await server.advance(1)
  const reply = await server.ack(late.id)
  expect(reply.status).toBe(409)
  expect(reply.body.error.details).toEqual({
    job_id: late.id,
    current_state: 'retryable',
    expected_state: 'active',
    reason: 'not_active',
  })
})

test('milliseconds are kept: a limit with a fraction is shown with its fraction', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout_ms: 1500, grace_period_ms: 250 })
  await server.advance(1_749)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ limit_seconds: 1.5, elapsed_seconds: 1.75 })
})

test('a policy may name timeouts as not to be retried', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 1, retry: { ...STEADY, non_retryable_errors: ['timeout'] } })
  await server.advance(1_000)
  expect(await server.job(id)).toMatchObject({ state: 'discarded', attempt: 1, error: { type: 'timeout' } })
})

test('without any timeout given, an attempt ends after 1800 seconds', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  expect(await server.job(id)).not.toHaveProperty('timeout')
  await server.advance(1_799_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'timeout', limit_seconds: 1800, source: 'default' })
})

test('a timeout is counted once, by kind, and its duration with the outcome timeout', async () => {
  const server = await TestServer.open()
  await server.start({ type: 'a.b', queue: 'q', timeout: 10 })
  await server.advance(10_000)
  const labels = { queue: 'q', job_type: 'a.b' }
  expect(await server.metric('ojs_job_timeout_count_total', { ...labels, timeout_kind: 'execution' })).toBe(1)
  expect(await server.metric('ojs_job_execution_duration_seconds_count', { ...labels, outcome: 'timeout' })).toBe(1)
  expect(await server.metric('ojs_job_execution_duration_seconds_sum', { ...labels, outcome: 'timeout' })).toBe(10)
  expect(await server.metric('ojs_job_failed_total', { queue: 'q', type: 'a.b' })).toBe(1)
  expect(await server.metric('ojs_job_retried_total', { queue: 'q', type: 'a.b' })).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'execution' })).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_sum', { kind: 'execution' })).toBe(0)
})

test('a timeout the worker reports is the same ending, marked as reported and without a deadline', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: STEADY })
  await server.advance(9_700)
  const sent = { type: 'timeout', message: 'too slow', timeout_kind: 'total', limit_seconds: 1, elapsed_seconds: 99 }
  await server.nack(id, { ...sent, details: { step: 4 } })
  const { error } = await server.job(id)
  expect(error).toMatchObject({
    type: 'timeout',
    message: 'too slow',
    timeout_kind: 'execution',
    limit_seconds: 10,
    elapsed_seconds: 10,
    elapsed_ms: 10_000,
    early_ms: 300,
    details: { step: 4, reported: true },
  })
  expect(error).not.toHaveProperty('deadline')
  expect(error).not.toHaveProperty('overshoot_ms')
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.timeout', 'job.failed', 'job.retrying'])
  const counted = { timeout_kind: 'execution', queue: 'default', job_type: 'test.job' }
  expect(await server.metric('ojs_job_timeout_count_total', counted)).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'execution' })).toBe(0)
})

test('a report that names the timeout only in its code counts as one too', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 5 })
  await server.advance(10_000)
  await server.nack(id, { code: 'timeout', message: 'too slow' })
  expect((await server.job(id)).error).toMatchObject({ type: 'timeout', timeout_kind: 'execution' })
})
