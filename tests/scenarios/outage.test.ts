/**
 * After an outage of the server itself: liveness clocks are given the time back, timeouts are not. A crash is a server
 * that is simply not used any more; the next one opens the same store on a later clock.
 */
import { expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { at, idle, TestServer } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const NOON = Date.UTC(2026, 0, 1, 12)
const WITHIN_A_STAMP = 5_000

/** What `story` left behind, found by a server that comes up at `ms`. */
async function crashed<T>(ms: number, story: (server: TestServer) => Promise<T>) {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  const left = await story(before)
  const crashedAt = before.clock.now() - NOON
  const server = await TestServer.open({ store, clock: new FakeClock(NOON + ms) })
  return { server, left, gapMs: ms - crashedAt }
}

test('stall, lapse and death wait for as long as no worker could be heard, and then come at their time', async () => {
  const { server, left, gapMs } = await crashed(600_000, async (before) => {
    await before.register('w')
    const stall = await before.start({ heartbeat_timeout: 40 }, { worker_id: 'w' })
    const lapse = await before.start({ visibility_timeout: 25 }, { worker_id: 'stranger' })
    const death = await before.start({}, { worker_id: 'w' })
    await before.advance(10_000)
    return { stall: String(stall.id), lapse: String(lapse.id), death: String(death.id) }
  })
  for (const id of Object.values(left)) expect((await server.job(id)).state).toBe('active')
  expect(gapMs).toBe(590_000)
  await server.advance(15_000 - 1)
  for (const id of Object.values(left)) expect((await server.job(id)).state).toBe('active')
  // The credit is counted from the last stamp of life, which may be a little older than the crash itself.
  await server.advance(WITHIN_A_STAMP)
  expect((await server.job(left.lapse)).error.type).toBe('visibility_timeout')
  expect((await server.job(left.death)).state).toBe('active')
  await server.advance(5_000)
  expect((await server.job(left.death)).error).toMatchObject({ type: 'worker_death' })
  await server.advance(10_000)
  expect((await server.job(left.stall)).error).toMatchObject({ type: 'stalled' })
})

test('timeouts, totals and TTLs are not credited: what passed meanwhile is settled when the server comes up', async () => {
  const { server, left } = await crashed(60_000, async (before) => {
    const timeout = await before.start({ timeout: 20, retry: { max_attempts: 1 } })
    const total = await before.enqueue({ total_timeout: 20, queue: 'waiting' })
    const ttl = await before.enqueue({ enqueue_ttl: 20, queue: 'waiting' })
    const scheduled = await before.enqueue({ scheduled_at: '+PT20S', queue: 'later' })
    await before.advance(10_000)
    return { timeout: String(timeout.id), total, ttl, scheduled }
  })
  expect((await server.job(left.timeout)).error).toMatchObject({
    type: 'timeout',
    deadline: at(20_000),
    elapsed_seconds: 60,
    occurred_at: at(60_000),
    overshoot_ms: 0,
  })
  expect((await server.job(left.total)).error).toMatchObject({ type: 'total_timeout', elapsed_seconds: 60 })
  expect((await server.job(left.ttl)).error).toMatchObject({ type: 'enqueue_ttl_expired', elapsed_seconds: 60 })
  expect(await server.job(left.scheduled)).toMatchObject({ state: 'available', enqueued_at: at(60_000) })
})

test('a beat after the restart counts from there, with no credit left over', async () => {
  const { server, left } = await crashed(600_000, async (before) => {
    await before.register('w')
    const { id } = await before.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
    await before.advance(10_000)
    return id
  })
  await server.beat('w', [left])
  await server.advance(19_999)
  expect((await server.job(left)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(left)).error).toMatchObject({ type: 'stalled', deadline: at(620_000) })
})

test('two outages are both credited', async () => {
  const store = await openTestStore()
  const first = await TestServer.open({ store })
  const { id } = await first.start({ heartbeat_timeout: 20 }, { worker_id: 'w' })
  await first.advance(8_000)
  const second = await TestServer.open({ store, clock: new FakeClock(NOON + 100_000) })
  await second.advance(8_000)
  expect((await second.job(id)).state).toBe('active')
  const third = await TestServer.open({ store, clock: new FakeClock(NOON + 300_000) })
  await third.advance(3_999)
  expect((await third.job(id)).state).toBe('active')
  await third.advance(1 + 2 * WITHIN_A_STAMP)
  expect((await third.job(id)).error.type).toBe('stalled')
})

test('a clock that was set back while the server was down does not run twice', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  const { id } = await before.start({ timeout: 60 })
  await before.advance(30_000)
  const server = await TestServer.open({ store, clock: new FakeClock(NOON - 3_600_000) })
  await server.advance(29_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(WITHIN_A_STAMP)
  expect((await server.job(id)).error.type).toBe('timeout')
})

test('even if nothing was heard but a beat since the last stamp', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  await before.register('w')
  const { id } = await before.start({ timeout: 600 }, { worker_id: 'w' })
  await before.advance(10_000)
  await before.beat('w', [id])
  await before.advance(400)
  await before.beat('w', [id])
  const lastBeat = before.clock.now()
  const server = await TestServer.open({ store, clock: new FakeClock(NOON - 3_600_000) })
  const { body } = await server.beat('w', [id])
  expect(Date.parse(String(body['server_time']))).toBeGreaterThanOrEqual(lastBeat)
})

test('a step of the wall clock moves no deadline; it is only shown', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 60 })
  server.clock.stepWall(3_600_000)
  await server.advance(59_999)
  expect((await server.job(id)).state).toBe('active')
  expect(await server.metric('curfew_clock_offset_seconds')).toBe(3_600)
  await server.advance(1)
  expect((await server.job(id)).error.deadline).toBe(at(60_000))
})

test('jobs, queues, policies, workers, events and leases are what they were', async () => {
  const { server, left } = await crashed(20_000, async (before) => {
    await before.register('w')
    await before.call('PUT', '/api/v1/job-types/test.job', { grace_period: 7 })
    await before.post('/ojs/v1/queues/other/pause')
    const { id } = await before.start({ meta: { big: 1 } }, { worker_id: 'w' })
    await before.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: { page: 3 } })
    await before.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.25 })
    await idle()
    return { id: id, job: await before.job(id), events: await before.events() }
  })
  expect(await server.job(left.id)).toMatchObject({ ...left.job, x_limits: { grace_ms: 7_000 } })
  expect(await server.events()).toEqual(left.events)
  expect((await server.get('/ojs/v1/queues/other')).body.queue.paused).toBe(true)
  expect((await server.get('/ojs/v1/workers/w')).body.registered).toBe(true)
  expect((await server.ack(left.id, { worker_id: 'w', attempt: 1, x_lease: 1 })).status).toBe(200)
})

test('while an attempt runs, the store’s stamp of life is never older than 5 seconds', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  await server.start()
  for (let second = 0; second < 30; second += 1) {
    await server.advance(1_000)
    expect(server.clock.now() - ((await store.life()).aliveAt ?? 0)).toBeLessThanOrEqual(5_000)
  }
})
