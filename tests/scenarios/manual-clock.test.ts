/** The clock that stands still until it is turned: a bench for other people's tests. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const turn = (server: TestServer, ms: unknown) => server.post('/ojs/v1/admin/clock', { advance_ms: ms })

test('time stands still, whatever the wall does', async () => {
  const server = await TestServer.open({ manual: true })
  const { id } = await server.start({ timeout: 10 })
  await server.advance(60_000)
  expect((await server.job(id)).state).toBe('active')
  expect((await server.fetch()).body.server_time).toBe(at(0))
  expect((await server.beat('w', [])).body.server_time).toBe(at(0))
})

test('a turn answers with the time it is then', async () => {
  const server = await TestServer.open({ manual: true })
  expect(await turn(server, 1_500)).toMatchObject({ status: 200, body: { now: at(1_500) } })
  expect((await turn(server, 0)).body.now).toBe(at(1_500))
  expect((await server.job(await server.enqueue())).created_at).toBe(at(1_500))
})

test('every deadline on the way is decided at its own instant, in order', async () => {
  const server = await TestServer.open({ manual: true })
  const retry = { jitter: false, max_attempts: 2 }
  const { id } = await server.start({ timeout: 10, retry })
  const ttl = await server.enqueue({ enqueue_ttl: 5 })
  const scheduled = await server.enqueue({ scheduled_at: '+PT7S', enqueue_ttl: 20 })
  await turn(server, 3_600_000)
  expect(await server.job(id)).toMatchObject({
    state: 'available',
    enqueued_at: at(11_000),
    errors: [{ type: 'timeout', occurred_at: at(10_000), overshoot_ms: 0, elapsed_seconds: 10 }],
  })
  expect((await server.job(ttl)).error).toMatchObject({ occurred_at: at(5_000), overshoot_ms: 0 })
  expect(await server.job(scheduled)).toMatchObject({
    enqueued_at: at(7_000),
    error: { type: 'enqueue_ttl_expired', occurred_at: at(20_000) },
  })
  const times = (await server.events()).map(({ time }) => time)
  expect(times).toEqual([...times].sort())
})

test('workers die and jobs are purged on the way', async () => {
  const server = await TestServer.open({ manual: true })
  await server.register('w')
  const { id } = await server.start({ retry: { max_attempts: 1 } }, { worker_id: 'w' })
  await turn(server, 29_999)
  expect((await server.job(id)).state).toBe('active')
  await turn(server, 1)
  expect((await server.job(id)).error).toMatchObject({ type: 'worker_death', occurred_at: at(30_000) })
  await turn(server, 30 * 86_400_000)
  expect((await server.get(`/ojs/v1/jobs/${id}/result`)).status).toBe(410)
})

test('long polls wait on real time, and a turn that makes a job due wakes them', async () => {
  const server = await TestServer.open({ manual: true })
  const id = await server.enqueue({ scheduled_at: '+PT1H' })
  const woken = server.fetch({ wait_ms: 5_000 })
  await turn(server, 3_600_000)
  expect((await woken).body.job).toMatchObject({ id, started_at: at(3_600_000) })
  const empty = server.fetch({ wait_ms: 5_000 })
  await server.advance(5_000)
  expect((await empty).body).toEqual({ jobs: [], server_time: at(3_600_000), x_waited_ms: 0 })
})

test.each([-1, 1.5, '5', null, undefined])('a turn by %j is refused', async (ms) => {
  const server = await TestServer.open({ manual: true })
  const reply = await turn(server, ms)
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'advance_ms'])
})

test('a clock that runs by itself cannot be turned, and without the bench there is nothing to turn', async () => {
  expect((await turn(await TestServer.open(), 1)).body.error.code).toBe('unsupported')
  expect((await turn(await TestServer.open({ settings: { conformance: false } }), 1)).status).toBe(404)
})
