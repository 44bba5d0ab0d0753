/** The stall clock: how long an attempt may be silent, who is judged by it, and what resets it. */
import { expect, test } from 'vitest'
import { seconds } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

const STEADY = { max_attempts: 3, jitter: false }

test('an attempt is not stalled 1 ms before its heartbeat_timeout, and is at it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'stranger' })
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  const job = await server.job(id)
  expect(job).toMatchObject({ state: 'retryable', attempt: 1, next_retry_at: at(21_000) })
  expect(job.error).toEqual({
    type: 'stalled',
    code: 'stalled',
    message: expect.any(String),
    retryable: true,
    timeout_kind: 'stalled',
    limit_seconds: 20,
    limit_ms: 20_000,
    elapsed_seconds: 20,
    elapsed_ms: 20_000,
    source: 'publish',
    deadline: at(20_000),
    overshoot_ms: 0,
    late_ms: 0,
    downtime_ms: 0,
    attempt: 1,
    occurred_at: at(20_000),
    timestamp: at(20_000),
  })
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.stalled', 'job.failed', 'job.retrying'])
  const [, , stalled] = await server.events(id)
  expect(stalled?.data).toMatchObject({ timeout_kind: 'stalled', limit_seconds: 20, elapsed_seconds: 20, attempt: 1 })
})

test('a stall of the last attempt discards; the policy decides about the dead-letter list', async () => {
  const server = await TestServer.open()
  const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
  const { id } = await server.start({ heartbeat_timeout: 20, retry })
  await server.advance(20_000)
  expect((await server.job(id)).state).toBe('discarded')
  expect((await server.eventTypes(id)).slice(2)).toEqual([
    'job.stalled',
    'job.failed',
    'job.discarded',
    'dead_letter.added',
  ])
})

test('a policy may name stalls as not to be retried', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: { non_retryable_errors: ['stalled'] } })
  await server.advance(20_000)
  expect((await server.job(id)).state).toBe('discarded')
})

test('a known worker that stops listing a job stalls it 60 seconds after the last beat that did', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [id])
  for (let beat = 0; beat < 5; beat += 1) {
    await server.advance(10_000)
    await server.beat('w', [])
  }
  await server.advance(9_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({
    type: 'stalled',
    limit_seconds: 60,
    elapsed_seconds: 60,
    source: 'default',
    deadline: at(70_000),
  })
})

test('a stranger is not judged by the default stall clock, however long it is silent', async () => {
  const server = await TestServer.open()
  const stranger = await server.start({}, { worker_id: 'stranger' })
  const anonymous = await server.start()
  await server.advance(600_000)
  expect((await server.job(stranger.id)).state).toBe('active')
  expect((await server.job(anonymous.id)).state).toBe('active')
  expect(stranger.x_limits).not.toHaveProperty('heartbeat_timeout_ms')
  expect(stranger.x_limits).not.toHaveProperty('beat_ms')
})

test('with judgeUnknownWorkers strangers are judged by the default too', async () => {
  const server = await TestServer.open({ limits: { judgeUnknownWorkers: true } })
  const { id, x_limits } = await server.start({}, { worker_id: 'stranger' })
  expect(x_limits.heartbeat_timeout_ms).toBe(60_000)
  await server.advance(59_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('stalled')
})

test('who was unknown at the claim is not judged for that attempt, even after it has beaten', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(1_000)
  await server.beat('w', [id])
  for (let beat = 0; beat < 10; beat += 1) {
    await server.advance(10_000)
    await server.beat('w', [])
  }
  expect((await server.job(id)).state).toBe('active')
})

test('a beat of the owner that lists the job resets the clock', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
  await server.advance(19_999)
  await server.beat('w', [id])
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', elapsed_seconds: 20, deadline: at(39_999) })
})

test('a beat in the deadline’s own millisecond is too late', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.advance(20_000)
  const reply = await server.beat('w', [id])
  expect(reply.body.jobs_extended).toEqual([])
  expect((await server.job(id)).state).toBe('retryable')
})

test('a beat of another worker resets nothing', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.advance(10_000)
  expect((await server.beat('other', [id])).body.jobs_extended).toEqual([])
  await server.advance(10_000)
  expect((await server.job(id)).state).toBe('retryable')
})

test('any beat that names an anonymous job resets its clock', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20 })
  await server.advance(10_000)
  expect((await server.beat('any-worker', [id])).body.jobs_extended).toEqual([id])
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('stalled')
})

test('progress and checkpoints reset the clock', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
  await server.advance(15_000)
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.1 })
  await server.advance(15_000)
  await server.post('/ojs/v1/workers/progress', { job_id: id, percentage: 20 })
  await server.advance(15_000)
  await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: 1 })
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(65_000) })
})

test('progress of another worker resets nothing', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.advance(15_000)
  expect((await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.1, worker_id: 'x' })).status).toBe(200)
  await server.advance(5_000)
  expect((await server.job(id)).state).toBe('retryable')
})

test('with x_beats only the jobs vouched for are reset; the others keep their reservation but stall', async () => {
  const server = await TestServer.open()
  const limits = { heartbeat_timeout: 20, visibility_timeout: 25, retry: STEADY }
  const moving = await server.start(limits, { worker_id: 'w' })
  const stuck = await server.start(limits, { worker_id: 'w' })
  await server.advance(15_000)
  const reply = await server.beat('w', [moving.id, stuck.id], { x_beats: [moving.id] })
  expect(reply.body.jobs_extended.sort()).toEqual([moving.id, stuck.id].sort())
  await server.advance(5_000)
  expect((await server.job(stuck.id)).error).toMatchObject({ type: 'stalled', deadline: at(20_000) })
  await server.advance(14_999)
  expect((await server.job(moving.id)).state).toBe('active')
})

test('with x_beats the reservation is extended although the stall clock is not', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 40, visibility_timeout: 25 }, { worker_id: 'w' })
  await server.advance(20_000)
  await server.beat('w', [id], { x_beats: [] })
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('stalled')
})

test('an attempt vouched for once and then only listed stalls from the last voucher', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [id])
  await server.advance(10_000)
  await server.beat('w', [id], { x_beats: [] })
  await server.advance(9_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(30_000), elapsed_seconds: 20 })
})

test('registering again does not make a worker’s last beat forgotten', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
  await server.advance(15_000)
  await server.beat('w', [id])
  await server.advance(5_000)
  await server.register('w')
  expect((await server.job(id)).state).toBe('active')
  await server.advance(14_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(35_000) })
})

test('a delayed beat with a lower seq resets nothing', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.beat('w', [id], { seq: 7 })
  await server.advance(10_000)
  expect((await server.beat('w', [id], { seq: 6 })).body.jobs_extended).toEqual([])
  await server.advance(10_000)
  expect((await server.job(id)).state).toBe('retryable')
})

test('a beat with the same or a higher seq resets the clock', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
  await server.beat('w', [id], { seq: 7 })
  await server.advance(15_000)
  await server.beat('w', [id], { seq: 7 })
  await server.advance(15_000)
  await server.beat('w', [id], { seq: 8 })
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
})

test('a beat from before the claim does not speak for the new attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ heartbeat_timeout: 20, retry: STEADY }, { worker_id: 'w' })
  await server.advance(5_000)
  await server.beat('w', [id])
  await server.nack(id)
  await server.advance(1_000)
  await server.fetch({ worker_id: 'w' })
  await server.advance(20_000)
  expect((await server.job(id)).error).toMatchObject({ type: 'stalled', deadline: at(26_000), elapsed_seconds: 20 })
})

test('stalls are counted by kind and outcome', async () => {
  const server = await TestServer.open()
  await server.start({ heartbeat_timeout: 20, queue: 'q', type: 'a' })
  await server.advance(20_000)
  const labels = { queue: 'q', job_type: 'a' }
  expect(await server.metric('ojs_job_timeout_count_total', { ...labels, timeout_kind: 'stalled' })).toBe(1)
  expect(await server.metric('ojs_job_execution_duration_seconds_count', { ...labels, outcome: 'stalled' })).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'stalled' })).toBe(1)
})

test('the age of the oldest sign of life is shown per queue', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ queue: 'q' }, { worker_id: 'w' })
  await server.start({ queue: 'q' }, { worker_id: 'w' })
  await server.advance(5_000)
  await server.beat('w', [id])
  await server.advance(2_000)
  expect(await server.metric('ojs_job_heartbeat_age_seconds', { queue: 'q' })).toBe(7)
  expect(await server.metric('ojs_workers_busy', { queue: 'q' })).toBe(1)
})

test('a cap on the stall clock does not make strangers judged', async () => {
  const server = await TestServer.open({ limits: { caps: { heartbeat: seconds(20) } } })
  const { id } = await server.start({}, { worker_id: 'stranger' })
  await server.advance(600_000)
  expect((await server.job(id)).state).toBe('active')
})
