/** x_cancel_jobs: which attempts a worker must stop, why, for which lease, and for how long it hears so. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

async function orders(server: TestServer, worker: string, jobs: readonly string[], more = {}): Promise<unknown[]> {
  return (await server.beat(worker, jobs, more)).body.x_cancel_jobs as unknown[]
}

test('timeout is sent as soon as the soft deadline passed, while the job still runs in its grace', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 20, heartbeat_timeout: 60 }, { worker_id: 'w' })
  await server.advance(9_999)
  expect(await orders(server, 'w', [id])).toEqual([])
  await server.advance(1)
  const reply = await server.beat('w', [id])
  expect(reply.body).toMatchObject({
    jobs_extended: [id],
    x_cancel_jobs: [{ job_id: id, reason: 'timeout', x_lease: 1 }],
  })
  expect((await server.job(id)).state).toBe('active')
})

test('timeout is sent when the total ends the attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ total_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  expect(await orders(server, 'w', [id])).toEqual([{ job_id: id, reason: 'timeout', x_lease: 1 }])
})

const ENDINGS: [string, string, (server: TestServer, id: string) => Promise<unknown>, Record<string, unknown>][] = [
  ['its timeout', 'timeout', (server) => server.advance(10_000), { timeout: 10, grace_period: 0 }],
  ['its total', 'timeout', (server) => server.advance(10_000), { total_timeout: 10 }],
  ['a cancel', 'cancelled', (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`), {}],
  ['a stall', 'lost', (server) => server.advance(10_000), { heartbeat_timeout: 10 }],
  ['a lapse', 'lost', (server) => server.advance(10_000), { visibility_timeout: 10 }],
  ['its own death', 'lost', (server) => server.advance(30_000), {}],
]

test.each(ENDINGS)(
  'after %s the worker gets %s, listed or not; unlisted for 60 seconds',
  async (_, reason, end, limits) => {
    const server = await TestServer.open()
    await server.beat('w', [])
    const { id } = await server.start(limits, { worker_id: 'w' })
    await end(server, id)
    const order = { job_id: id, reason, x_lease: 1 }
    expect(await orders(server, 'w', [id])).toEqual([order])
    expect(await orders(server, 'w', [])).toEqual([order])
    for (let beat = 0; beat < 3; beat += 1) {
      await server.advance(19_000)
      expect(await orders(server, 'w', [])).toEqual([order])
    }
    await server.advance(2_999)
    expect(await orders(server, 'w', [])).toEqual([order])
    await server.advance(1)
    expect(await orders(server, 'w', [])).toEqual([])
  },
)

const RETURNS: [string, (server: TestServer) => Promise<unknown>][] = [
  ['beats', (server) => server.beat('w', [])],
  ['registers', (server) => server.register('w')],
  ['fetches', (server) => server.fetch({ worker_id: 'w', queues: ['empty'] })],
  ['beats and registers', (server) => server.beat('w', []).then(() => server.register('w'))],
]

test.each(RETURNS)('one that was declared dead and %s hears what it lost, for 60 seconds', async (_, comeBack) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(30_000)
  await server.advance(20_000)
  await comeBack(server)
  expect(await orders(server, 'w', [])).toEqual([{ job_id: id, reason: 'lost', x_lease: 1 }])
  await server.advance(20_000)
  await server.beat('w', [])
  await server.advance(19_999)
  expect(await orders(server, 'w', [])).toEqual([{ job_id: id, reason: 'lost', x_lease: 1 }])
  await server.advance(1)
  expect(await orders(server, 'w', [])).toEqual([])
})

test('a worker hears also what it lost before it was declared dead, and while it was', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const early = await server.start({ timeout: 10, grace_period: 0 }, { worker_id: 'w' })
  const late = await server.start({ heartbeat_timeout: 40, queue: 'b' }, { worker_id: 'w', queues: ['b'] })
  await server.advance(45_000)
  expect(await orders(server, 'w', [])).toEqual([
    { job_id: early.id, reason: 'timeout', x_lease: 1 },
    { job_id: late.id, reason: 'lost', x_lease: 1 },
  ])
})

test('one that was declared dead is not told of what it had finished, and after an hour of nothing', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  const held = await server.start({}, { worker_id: 'w' })
  await server.ack(id, { worker_id: 'w' })
  await server.advance(30_000)
  expect(await orders(server, 'w', [])).toMatchObject([{ job_id: held.id }])
  await server.advance(30_000)
  await server.advance(3_600_000)
  expect(await server.store.noticesAfter(0, 9)).toEqual([])
})

const LOSSES: [string, number, Record<string, unknown>][] = [
  ['lapsed', 10_000, { visibility_timeout: 10 }],
  ['was taken back at its death', 30_000, {}],
]

test.each(LOSSES)('a worker is not told of a job that %s, and that it has finished since', async (_, ms, limits) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start(limits, { worker_id: 'w' })
  await server.advance(ms)
  await server.fetch({ worker_id: 'w' })
  expect(await orders(server, 'w', [])).toEqual([{ job_id: id, reason: 'lost', x_lease: 1 }])
  await server.ack(id, { worker_id: 'w', x_lease: 2 })
  expect(await orders(server, 'w', [id], { x_leases: { [id]: 1 } })).toMatchObject([{ reason: 'lost', x_lease: 1 }])
  expect(await orders(server, 'w', [id])).toEqual([])
  expect(await orders(server, 'w', [])).toEqual([])
})

test.each(LOSSES)('a job that %s and was cancelled since is reported as cancelled', async (_, ms, limits) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start(limits, { worker_id: 'w' })
  await server.advance(ms)
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  expect(await orders(server, 'w', [id])).toEqual([{ job_id: id, reason: 'cancelled', x_lease: 1 }])
  expect(await orders(server, 'w', [])).toEqual([{ job_id: id, reason: 'cancelled', x_lease: 1 }])
})

test('a worker that goes on listing a job it lost goes on being told', async () => {
  const server = await TestServer.open()
  await server.beat('w', [])
  const { id } = await server.start({ timeout: 10, grace_period: 0, retry: { max_attempts: 1 } }, { worker_id: 'w' })
  await server.advance(10_000)
  for (let beat = 0; beat < 8; beat += 1) {
    await server.advance(15_000)
    expect(await orders(server, 'w', [id])).toMatchObject([{ job_id: id, reason: 'timeout' }])
  }
})

test('a worker is not told about jobs it finished itself', async () => {
  const server = await TestServer.open()
  const acked = await server.start({}, { worker_id: 'w' })
  const failed = await server.start({}, { worker_id: 'w' })
  const back = await server.start({ queue: 'b' }, { worker_id: 'w' })
  await server.ack(acked.id)
  await server.nack(failed.id)
  await server.post('/ojs/v1/workers/nack', { job_id: back.id, requeue: true })
  const ids = [acked.id, failed.id, back.id]
  expect(await orders(server, 'w', ids, { x_leases: Object.fromEntries(ids.map((id) => [id, 1])) })).toEqual([])
  expect(await orders(server, 'w', ids)).toEqual([])
})

test('jobs that are unknown, held by another worker, or gone, are lost', async () => {
  const server = await TestServer.open()
  const unknown = '01890000-0000-7000-8000-000000000000'
  const others = await server.start({}, { worker_id: 'v' })
  const waiting = await server.enqueue()
  const told = await orders(server, 'w', [unknown, others.id, waiting])
  expect(told).toMatchObject([
    { job_id: unknown, reason: 'lost' },
    { job_id: others.id, reason: 'lost' },
    { job_id: waiting, reason: 'lost' },
  ])
})

test('a job that another worker held when it was cancelled is reported as cancelled to every worker that lists it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  expect(await orders(server, 'x', [id])).toMatchObject([{ job_id: id, reason: 'cancelled' }])
})

test('a job lost, fetched again by the same worker and listed is its own again', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'w' })
  expect((await server.beat('w', [id])).body).toMatchObject({ jobs_extended: [id], x_cancel_jobs: [] })
})

test('a worker that runs a later attempt of the job it lost gets the order to stop the earlier one, for 60 seconds', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'w' })
  const later = { x_leases: { [id]: 2 } }
  for (let beat = 0; beat < 7; beat += 1) {
    expect((await server.beat('w', [id], later)).body).toMatchObject({
      jobs_extended: [id],
      x_cancel_jobs: [{ job_id: id, reason: 'lost', x_lease: 1 }],
    })
    await server.advance(8_500)
  }
  await server.advance(500)
  expect((await server.beat('w', [id], later)).body).toMatchObject({ jobs_extended: [id], x_cancel_jobs: [] })
})

test('each lost attempt of a job is named by its own lease, whichever of them is listed', async () => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ visibility_timeout: 10 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.fetch({ worker_id: 'w' })
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  const both = [
    { job_id: id, reason: 'cancelled', x_lease: 1 },
    { job_id: id, reason: 'cancelled', x_lease: 2 },
  ]
  for (const lease of [1, 2]) {
    const told = await orders(server, 'w', [id], { x_leases: { [id]: lease } })
    expect(told).toHaveLength(2)
    expect(told).toEqual(expect.arrayContaining(both))
  }
})

test('a cancel of an anonymous job is reported to every worker that lists it', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.call('DELETE', `/ojs/v1/jobs/${id}`)
  expect(await orders(server, 'w', [id])).toMatchObject([{ job_id: id, reason: 'cancelled' }])
})

test('an ended job that was deleted since is lost', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'other' })
  await server.ack(id)
  await server.post('/ojs/v1/admin/jobs/bulk/delete', { confirm: true, job_ids: [id] })
  expect(await orders(server, 'w', [id])).toMatchObject([{ job_id: id, reason: 'lost' }])
})
