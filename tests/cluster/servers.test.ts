/** Several servers on one database are one server, whichever is asked, and whatever their wall clocks say. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { Cluster } from '../postgres/cluster.ts'
import { EventSource } from '../process/event-source.ts'
import { ServerProcess, until } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

const SKEWS_MS = [90_000, -90_000, 0]
let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: SKEWS_MS })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

const server = (index: number): ServerProcess => {
  const found = fleet.members[index]?.server
  if (found == null) throw new Error(`server ${String(index)} is not there`)
  return found
}
const [FAST, SLOW, RIGHT] = [0, 1, 2]

test('each shows how far its wall clock is from the database’s, and counts by the latter', async () => {
  for (const [index, skewMs] of SKEWS_MS.entries()) {
    const before = Date.now()
    const { body } = await server(index).get('/ojs/v1/health')
    expect(Math.abs(body.clock_offset_ms - skewMs)).toBeLessThan(1_000)
    expect(body.clock_error_ms).toBeLessThan(500)
    expect(Date.parse(String(body.server_time))).toBeGreaterThan(before - 1_000)
    expect(Date.parse(String(body.server_time))).toBeLessThan(Date.now() + 1_000)
    const { text } = await server(index).get('/metrics')
    const offset = Number(/^curfew_clock_offset_seconds (\S+)$/m.exec(text)?.[1])
    expect(Math.abs(offset - skewMs / 1_000)).toBeLessThan(1)
  }
})

describe('a job enqueued at one, fetched at another and acknowledged at a third', () => {
  for (const [a, b, c] of [
    [FAST, SLOW, RIGHT],
    [SLOW, RIGHT, FAST],
    [RIGHT, FAST, SLOW],
  ] as const) {
    test(`(${[a, b, c].map((index) => `${String((SKEWS_MS[index] ?? 0) / 1_000)} s`).join(', ')}) is one job with one clock`, async () => {
      const queue = `q${String(a)}`
      const { id } = await server(a).enqueue({ queue, timeout_ms: 60_000, enqueue_ttl_ms: 30_000 })
      const [job] = await server(b).fetch({ queues: [queue], worker_id: 'w' })
      expect(job.id).toBe(id)
      const reply = await server(c).post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w', x_lease: job.x_lease })
      expect(reply.status).toBe(200)
      const { created_at, started_at, completed_at } = await server(b).job(String(id))
      const times = [created_at, started_at, completed_at].map((time) => Date.parse(String(time)))
      expect(Math.max(...times) - Math.min(...times)).toBeLessThan(plusLag(5_000))
      expect(Math.abs((times[0] ?? 0) - Date.now())).toBeLessThan(plusLag(5_000))
    })
  }
})

test('a long poll at one is answered by an enqueue at another, at once', async () => {
  const polling = server(FAST).fetch({ queues: ['poll'], worker_id: 'poller', wait_ms: 20_000 })
  await until('the poll is open', async () => (await server(RIGHT).get('/ojs/v1/workers/poller')).status === 200)
  const began = performance.now()
  const { id } = await server(SLOW).enqueue({ queue: 'poll' })
  expect((await polling)[0].id).toBe(id)
  expect(performance.now() - began).toBeLessThan(plusLag(3_000))
})

test('orders given at one reach the open call of the worker at another, at once', async () => {
  const listen = (listening: object) =>
    server(FAST).post('/ojs/v1/workers/exchange', {
      worker_id: 'listener',
      listen: { state: 'running', ...listening },
      fetch: { queues: ['orders'], count: 5, wait_ms: 20_000 },
    })
  await server(RIGHT).register('listener')
  const { id } = await server(SLOW).enqueue({ queue: 'orders' })
  await server(SLOW).fetch({ queues: ['orders'], worker_id: 'listener' })
  const seen = async (): Promise<string> =>
    String((await server(RIGHT).get('/ojs/v1/workers/listener')).body.last_seen_at)
  const before = await seen()
  const cancelled = listen({ seq: 1 })
  await until('the call is open', async () => (await seen()) > before)
  let began = performance.now()
  await server(SLOW).call('DELETE', `/ojs/v1/jobs/${String(id)}`)
  expect((await cancelled).body.orders).toMatchObject({ x_cancel_jobs: [{ job_id: id, reason: 'cancelled' }] })
  expect(performance.now() - began).toBeLessThan(plusLag(3_000))
  began = performance.now()
  const quiet = listen({ seq: 2, heard: [{ job_id: id, x_lease: 1 }] })
  await server(SLOW).post('/ojs/v1/admin/workers/listener/quiet')
  expect((await quiet).body).toMatchObject({ jobs: [], orders: { state: 'quiet' } })
  expect(performance.now() - began).toBeLessThan(plusLag(3_000))
})

test('a stream at one tells in order, and once, what happens at all', async () => {
  const source = await EventSource.open(server(SLOW), '/ojs/v1/events/stream?channel=queue:told')
  const ids: string[] = []
  for (let n = 0; n < 9; n += 1) ids.push((await server(n % 3).enqueue({ queue: 'told' })).id as string)
  const of = (kind: string) => source.frames.filter(({ event }) => event === kind)
  await until('all are told', () => of('job.enqueued').length >= 9 && of('job.state_changed').length >= 9)
  expect(of('job.enqueued').map(({ data }) => data.subject as string)).toEqual(ids)
  expect(new Set(of('job.state_changed').map(({ data }) => data.job_id as string))).toEqual(new Set(ids))
  source.close()
})

test('the stream of a job tells all of its end before it ends itself, wherever the job ends', async () => {
  for (const [a, b] of [
    [SLOW, SLOW],
    [SLOW, FAST],
  ] as const) {
    const { id } = await server(a).enqueue({ queue: 'end' })
    await server(b).fetch({ queues: ['end'], worker_id: 'w' })
    const source = await EventSource.open(server(a), `/ojs/v1/jobs/${String(id)}/events`)
    await server(b).post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w' })
    await source.ended
    expect(source.frames.slice(-2).map(({ event, data }): unknown => data.to ?? event)).toEqual([
      'job.completed',
      'completed',
    ])
  }
})

test('waiting for a result at one ends when another gets it', async () => {
  const { id } = await server(FAST).enqueue({ queue: 'result' })
  const waiting = server(SLOW).get(`/ojs/v1/jobs/${id as string}/result?wait=true&timeout=20`)
  const [job] = await server(RIGHT).fetch({ queues: ['result'], worker_id: 'w' })
  await server(RIGHT).post('/ojs/v1/workers/ack', { job_id: job.id, worker_id: 'w', result: { answer: 42 } })
  expect((await waiting).body).toMatchObject({ state: 'completed', result: { answer: 42 } })
})

test('the deadline that only a killed server was near to is kept by the others, to the moment', async () => {
  const victim = fleet.members[FAST]
  if (victim === undefined) throw new Error('there is no server')
  const { id } = await server(FAST).enqueue({
    queue: 'doomed',
    timeout_ms: 1_500,
    grace_period_ms: 0,
    retry: { max_attempts: 1 },
  })
  await server(FAST).fetch({ queues: ['doomed'] })
  await fleet.kill(victim)
  const job = await until('it is over', async () => {
    const found = (await server(RIGHT).job(String(id))) as {
      state: string
      error: { type: string; overshoot_ms: number }
    }
    return found.state === 'discarded' ? found : null
  })
  await fleet.start(victim)
  expect(job.error.type).toBe('timeout')
  expect(job.error.overshoot_ms).toBeLessThan(plusLag(500))
})

test('a long poll open at one keeps its worker alive for the others', async () => {
  const own = await Fleet.start({
    database: `${database.url()}?schema=alive`,
    skewsMs: [0, 0],
    flags: ['--workers-heartbeat-timeout', '3s', '--workers-heartbeat-interval', '1s'],
  })
  const [one, other] = own.members.map(({ server: member }) => member)
  if (one == null || other == null) throw new Error('there are no servers')
  await one.register('patient')
  const polling = one.fetch({ queues: ['default'], worker_id: 'patient', wait_ms: 8_000 })
  expect(await polling).toEqual([])
  const { body } = await other.get('/ojs/v1/events?types=worker.died')
  expect(body.events).toEqual([])
  await own.stop()
})
