/** Several limits due together: the earliest wins; on a tie total, execution, stalled, worker death, visibility. */
import { expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { at, TestServer } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const DUE_AT_30: [string, Record<string, unknown>][] = [
  ['total_timeout', { total_timeout: 30 }],
  ['timeout', { timeout: 20, grace_period: 10 }],
  ['stalled', { heartbeat_timeout: 30 }],
  ['visibility_timeout', { visibility_timeout: 30 }],
]

for (const [first, [winner, strong]] of DUE_AT_30.entries()) {
  for (const [loser, weak] of DUE_AT_30.slice(first + 1)) {
    test(`${winner} wins a tie with ${loser}`, async () => {
      const server = await TestServer.open()
      const { id } = await server.start({ ...weak, ...strong }, { worker_id: 'w' })
      await server.advance(30_000)
      const job = await server.job(id)
      expect(job.errors.map(({ type }) => type)).toEqual([winner])
    })
  }
}

const AGAINST_DEATH: [string, Record<string, unknown>, string][] = [
  ['total_timeout', { total_timeout: 30 }, 'total_timeout'],
  ['timeout', { timeout: 20, grace_period: 10 }, 'timeout'],
  ['visibility_timeout', { visibility_timeout: 30 }, 'worker_death'],
]

test.each(AGAINST_DEATH)('on a tie of %s and worker death the order decides', async (_, limits, winner) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start(limits, { worker_id: 'w' })
  await server.advance(30_000)
  expect((await server.job(id)).errors.map(({ type }) => type)).toEqual([winner])
  expect((await server.get('/ojs/v1/workers/w')).status).toBe(404)
})

test('before a start total wins a tie with TTL, TTL one with expires_at, and each with the start itself', async () => {
  const server = await TestServer.open()
  const moments = { scheduled_at: '+PT30S', expires_at: '+PT30S' }
  const total = await server.enqueue({ ...moments, enqueue_ttl: 30, total_timeout: 30 })
  const ttl = await server.enqueue({ ...moments, enqueue_ttl: 30 })
  const expiry = await server.enqueue(moments)
  await server.advance(30_000)
  expect((await server.job(total)).error.type).toBe('total_timeout')
  expect((await server.job(ttl)).error.type).toBe('enqueue_ttl_expired')
  expect((await server.job(expiry)).error.type).toBe('expired')
  expect(await server.eventTypes(expiry)).toEqual(['job.scheduled', 'job.expired', 'job.discarded'])
})

test('a backoff that ends with the total does not bring the job back', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ total_timeout: 40, retry: { jitter: false, initial_interval: 'PT30S' } })
  await server.advance(9_999)
  await server.nack(id)
  const { job } = (await server.call('PATCH', `/ojs/v1/jobs/${id}`, { total_timeout_ms: 40_000 })).body
  expect(job).toMatchObject({ state: 'retryable', next_retry_at: at(39_999) })
  await server.advance(30_000)
  expect((await server.job(id)).state).toBe('available')
  await server.advance(1)
  expect((await server.job(id)).error.type).toBe('total_timeout')
})

test('of several limits that passed while no server was up, the earliest is the one that is reported', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  const { id } = await before.start({ timeout: 10, total_timeout: 20 }, { worker_id: 'w' })
  const waiting = await before.enqueue({ enqueue_ttl: 5, total_timeout: 8 })
  const after = await TestServer.open({ store, clock: new FakeClock(Date.UTC(2026, 0, 1, 12, 1)) })
  expect((await after.job(id)).errors).toMatchObject([
    { type: 'timeout', deadline: at(10_000), elapsed_seconds: 60, overshoot_ms: 0 },
    { type: 'total_timeout', details: { predicted: true } },
  ])
  expect((await after.job(waiting)).errors).toMatchObject([{ type: 'enqueue_ttl_expired', overshoot_ms: 0 }])
})
