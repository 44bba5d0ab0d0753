/** The reservation: it lapses without a sign of life, and the job goes back at once, without backoff. */
import { expect, test } from 'vitest'
import { seconds } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

test('a reservation holds until 1 ms before its visibility timeout, and lapses at it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  await server.advance(29_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  const job = await server.job(id)
  expect(job).toMatchObject({ state: 'available', attempt: 1, enqueued_at: at(30_000), started_at: at(0) })
  expect(job).not.toHaveProperty('worker_id')
  expect(job).not.toHaveProperty('next_retry_at')
  expect(job.errors).toHaveLength(1)
  expect(job.error).toMatchObject({
    type: 'visibility_timeout',
    code: 'visibility_timeout',
    retryable: true,
    limit_seconds: 30,
    elapsed_seconds: 30,
    source: 'publish',
    deadline: at(30_000),
    overshoot_ms: 0,
    attempt: 1,
  })
  expect(job.error).not.toHaveProperty('timeout_kind')
  expect((await server.eventTypes(id)).slice(2)).toEqual(['job.stalled', 'job.failed', 'job.retrying', 'job.enqueued'])
})

test('the lost attempt counts: the next claim is the second, and the last one lost is discarded', async () => {
  const server = await TestServer.open()
  const retry = { max_attempts: 2, on_exhaustion: 'dead_letter' }
  const { id } = await server.start({ visibility_timeout: 30, retry })
  await server.advance(30_000)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 2, x_lease: 2 })
  await server.advance(30_000)
  expect(await server.job(id)).toMatchObject({ state: 'discarded', error: { type: 'visibility_timeout' } })
  expect((await server.eventTypes(id)).slice(-4)).toEqual([
    'job.stalled',
    'job.failed',
    'job.discarded',
    'dead_letter.added',
  ])
})

test('a lapse ignores the list of errors that are not to be retried', async () => {
  const server = await TestServer.open()
  const retry = { non_retryable_errors: ['visibility_timeout'] }
  const { id } = await server.start({ visibility_timeout: 30, retry })
  await server.advance(30_000)
  expect((await server.job(id)).state).toBe('available')
})

test('a beat extends the reservation by the job’s own visibility, counted from the beat', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  await server.advance(20_000)
  expect((await server.beat('w', [id])).body.jobs_extended).toEqual([id])
  expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(50_000))
  await server.advance(29_999)
  expect((await server.job(id)).state).toBe('active')
})

test('a beat may ask for a longer extension for this once', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10, heartbeat_timeout: 600 }, { worker_id: 'w' })
  await server.advance(5_000)
  await server.beat('w', [id], { visibility_timeout_ms: 20_000 })
  await server.advance(19_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'visibility_timeout', limit_seconds: 20 })
})

test('a beat may ask for a shorter extension, and the reservation lapses at it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 100 }, { worker_id: 'w' })
  await server.advance(5_000)
  await server.beat('w', [id], { visibility_timeout_ms: 3_000 })
  await server.advance(2_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'visibility_timeout', deadline: at(8_000) })
})

test('a shorter extension binds an anonymous reservation too', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 100 })
  await server.advance(5_000)
  await server.beat('w', [id], { visibility_timeout_ms: 3_000 })
  await server.advance(3_000)
  expect((await server.job(id)).error).toMatchObject({ type: 'visibility_timeout', deadline: at(8_000) })
})

test('a lapse names the source of the length that ran out: a beat is its worker’s word, within the cap', async () => {
  const server = await TestServer.open({ limits: { caps: { visibility: seconds(200) } } })
  const lapse = async (workerId: string | null, asked: number | null, dropped = false): Promise<unknown> => {
    const { id } = await server.start({ visibility_timeout: 50, heartbeat_timeout: 900 }, { worker_id: workerId })
    await server.advance(1_000)
    await server.beat('w', [id], { visibility_timeout_ms: asked })
    if (dropped) await server.beat('w', [])
    await server.advance(200_000)
    const { error } = await server.job(id)
    await server.call('DELETE', `/ojs/v1/jobs/${id}`)
    return [error.type, error.limit_seconds, error.source]
  }
  for (const workerId of ['w', null]) {
    expect(await lapse(workerId, 5_000)).toEqual(['visibility_timeout', 5, 'handler'])
    expect(await lapse(workerId, 100_000)).toEqual(['visibility_timeout', 100, 'handler'])
    expect(await lapse(workerId, 300_000)).toEqual(['visibility_timeout', 200, 'cap'])
    expect(await lapse(workerId, 50_000)).toEqual(['visibility_timeout', 50, 'publish'])
    expect(await lapse(workerId, null)).toEqual(['visibility_timeout', 50, 'publish'])
    // A later beat that no longer names the job changes nothing about it.
    expect(await lapse(workerId, 5_000, true)).toEqual(['visibility_timeout', 5, 'handler'])
  }
})

test('after a sign of the job itself its own length holds again, and names who gave it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 50, heartbeat_timeout: 900 }, { worker_id: 'w' })
  await server.advance(1_000)
  await server.beat('w', [id], { visibility_timeout_ms: 5_000 })
  await server.advance(1_000)
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { message: 'still here' })
  await server.advance(50_000)
  expect((await server.job(id)).error).toMatchObject({ limit_seconds: 50, source: 'publish' })
})

test('a job dropped from the beats lapses from the last beat that listed it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [id])
  await server.advance(20_000)
  await server.beat('w', [])
  await server.advance(9_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'visibility_timeout', deadline: at(40_000) })
})

test('progress and a checkpoint extend the reservation', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 30 })
  await server.advance(20_000)
  await server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { message: 'still here' })
  await server.advance(20_000)
  await server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: {} })
  await server.advance(29_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).state).toBe('available')
})

test('the default reservation never lapses before the attempt’s own deadline', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const long = await server.start({ timeout: 3_600, grace_period: 60 }, { worker_id: 'w' })
  const short = await server.start({ timeout: 60 })
  expect(long.x_limits).toMatchObject({ visibility_ms: 3_660_000, sources: { visibility: 'default' } })
  expect(short.x_limits.visibility_ms).toBe(1_800_000)
})

test('a job that lapsed joins the tail of its priority band', async () => {
  const server = await TestServer.open()
  const lapsed = await server.start({ visibility_timeout: 30 })
  const waiting = await server.enqueue()
  const low = await server.enqueue({ priority: -1 })
  await server.advance(30_000)
  const { jobs } = (await server.fetch({ count: 3 })).body
  expect(jobs.map(({ id }) => id)).toEqual([waiting, lapsed.id, low])
})

test('a poll that waits for work is woken by a reservation that lapses', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10 })
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(10_000)
  expect((await poll).body.jobs).toMatchObject([{ id, attempt: 2, started_at: at(10_000) }])
})

test('lapses are counted by queue, with an outcome of their own', async () => {
  const server = await TestServer.open()
  await server.start({ visibility_timeout: 30, queue: 'q', type: 'a' })
  await server.advance(30_000)
  expect(await server.metric('ojs_job_visibility_expired_total', { queue: 'q' })).toBe(1)
  const outcome = { queue: 'q', job_type: 'a', outcome: 'visibility_timeout' }
  expect(await server.metric('ojs_job_execution_duration_seconds_count', outcome)).toBe(1)
  expect(await server.metric('curfew_deadline_overshoot_seconds_count', { kind: 'visibility' })).toBe(1)
})
