/** Pools: queues that share their workers, instead of the first one taking them all. */
import { afterEach, describe, expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

let server: TestServer
afterEach(() => server.close())

const POOL = '/ojs/v1/admin/pools/shared'
const put = (body: object): Promise<Reply> => server.call('PUT', POOL, body)

async function fill(queues: Record<string, number>): Promise<void> {
  for (const [queue, count] of Object.entries(queues)) {
    const jobs = Array.from({ length: count }, () => ({ type: 'test.job', args: [], options: { queue } }))
    await server.post('/ojs/v1/jobs/batch', { jobs })
  }
}

/** How many of each queue a fetch is handed. */
async function handed(queues: string[], count: number): Promise<Record<string, number>> {
  const { body } = await server.fetch({ queues, count })
  const counts: Record<string, number> = Object.fromEntries(queues.map((queue) => [queue, 0]))
  for (const job of body.jobs) counts[job['queue'] as string] = (counts[job['queue'] as string] ?? 0) + 1
  return counts
}

describe('queues', () => {
  test('without a pool are served from left to right', async () => {
    server = await TestServer.open()
    await fill({ a: 10, b: 10 })
    expect(await handed(['a', 'b'], 4)).toEqual({ a: 4, b: 0 })
  })

  test('of one pool are served alike, whichever comes first', async () => {
    server = await TestServer.open()
    expect((await put({ queues: ['a', 'b'] })).body).toMatchObject({
      pool: { name: 'shared', strategy: 'round-robin' },
    })
    await fill({ a: 10, b: 10, c: 10 })
    expect(await handed(['a', 'b'], 4)).toEqual({ a: 2, b: 2 })
    expect(await handed(['c', 'b', 'a'], 12)).toEqual({ c: 10, b: 1, a: 1 })
    // The others were there already and are left alone.
    expect(await handed(['a'], 10)).toEqual({ a: 7 })
  })

  test('of a weighted pool get their shares, and what others leave', async () => {
    server = await TestServer.open()
    const { body } = await put({ strategy: 'weighted', queues: { a: { weight: 70 }, b: { weight: 30 } } })
    expect(body['pool']).toMatchObject({ queues: ['a', 'b'], weights: { a: 70, b: 30 } })
    await fill({ a: 20, b: 4 })
    expect(await handed(['b', 'a'], 10)).toEqual({ a: 7, b: 3 })
    expect(await handed(['b', 'a'], 10)).toEqual({ a: 9, b: 1 })
  })

  test('of a weighted pool get their shares one job at a time too', async () => {
    server = await TestServer.open()
    await put({ strategy: 'weighted', queues: ['a', 'b'], weights: { a: 3, b: 1 } })
    await fill({ a: 400, b: 400 })
    let first = 0
    for (let fetch = 0; fetch < 200; fetch += 1) first += (await handed(['b', 'a'], 1))['a'] ?? 0
    expect(first).toBeGreaterThan(130)
    expect(first).toBeLessThan(170)
  })

  test('of a least-loaded pool: the longest first', async () => {
    server = await TestServer.open()
    await put({ strategy: 'least-loaded', queues: ['a', 'b', 'c'] })
    await fill({ a: 2, b: 5 })
    expect(await handed(['a', 'b', 'c'], 3)).toEqual({ a: 0, b: 3, c: 0 })
    expect(await handed(['a', 'b', 'c'], 3)).toEqual({ a: expect.any(Number), b: expect.any(Number), c: 0 })
  })

  test('that are paused give nothing, and the others everything', async () => {
    server = await TestServer.open()
    await put({ queues: ['a', 'b'] })
    await fill({ a: 5, b: 5 })
    await server.post('/ojs/v1/queues/a/pause')
    expect(await handed(['a', 'b'], 4)).toEqual({ a: 0, b: 4 })
  })

  test('of a pool that is removed, or without them, are served from left to right again', async () => {
    server = await TestServer.open()
    await put({ queues: ['a', 'b', 'c'] })
    await put({ queues: ['b', 'c'] })
    await fill({ a: 10, b: 10 })
    expect(await handed(['a', 'b'], 4)).toEqual({ a: 4, b: 0 })
    expect((await server.call('DELETE', POOL)).body).toEqual({ deleted: true, name: 'shared' })
    expect(await handed(['b', 'c'], 4)).toEqual({ b: 4, c: 0 })
    expect((await server.get(POOL)).status).toBe(404)
    expect((await server.call('DELETE', POOL)).status).toBe(404)
  })
})

describe('a pool', () => {
  test('shows itself, and what its queues hold', async () => {
    server = await TestServer.open()
    await put({ queues: ['a', 'b'] })
    await fill({ a: 3, b: 1 })
    await handed(['a'], 1)
    const shown = { name: 'shared', queues: ['a', 'b'], strategy: 'round-robin', active_jobs: 1, available_jobs: 3 }
    expect((await server.get('/ojs/v1/admin/pools')).body.items).toMatchObject([shown])
    expect((await server.get(POOL)).body).toMatchObject({ pool: shown })
    const config = (await server.get('/ojs/v1/admin/queues/a')).body['config']
    expect(config).toEqual({ pool: { name: 'shared', strategy: 'round-robin', weight: 1 } })
    // And stays, whatever else is configured.
    await server.call('PUT', '/ojs/v1/admin/queues/a/config', { default_timeout: 5 })
    await fill({ a: 3, b: 3 })
    expect(await handed(['a', 'b'], 2)).toEqual({ a: 1, b: 1 })
  })

  test('does not take a queue from another', async () => {
    server = await TestServer.open()
    await put({ queues: ['a', 'b'] })
    const other = await server.call('PUT', '/ojs/v1/admin/pools/other', { queues: ['c', 'b'] })
    expect(other.status).toBe(409)
    expect(other.body['error']).toMatchObject({ details: { queue: 'b', pool: 'shared' } })
    expect((await server.get('/ojs/v1/admin/pools/other')).status).toBe(404)
  })

  test.each([
    [{}, 'queues'],
    [{ queues: ['a'], concurrency: 20 }, 'concurrency'],
    [{ queues: ['a'], isolated: true }, 'isolated'],
    [{ queues: ['a'], starvation_prevention: {} }, 'starvation_prevention'],
  ])('takes nothing it would not keep to: %j', async (body, field) => {
    server = await TestServer.open()
    const reply = await put(body)
    expect(reply.status).toBe(400)
    expect(reply.body['error']).toMatchObject({ details: { field } })
  })
})

test('the statistics tell what was handed out in the last minute', async () => {
  server = await TestServer.open()
  await put({ strategy: 'weighted', queues: { a: { weight: 3 }, b: { weight: 1 } } })
  await fill({ a: 10, b: 10 })
  await handed(['a', 'b'], 8)
  const { stats } = (await server.get('/ojs/v1/admin/scheduling/stats')).body
  expect(stats).toMatchObject({
    window: 'PT1M',
    queues: [
      { name: 'a', pool: 'shared', dispatch_count_1m: 6, dispatch_ratio_1m: 0.75, active_jobs: 6, available_jobs: 4 },
      { name: 'b', pool: 'shared', dispatch_count_1m: 2, dispatch_ratio_1m: 0.25 },
    ],
  })
})

test('only with --conformance can a caller ask for a refusal', async () => {
  server = await TestServer.open()
  const job = { type: 'test.job', args: [], meta: { ojs_validate: true } }
  expect((await server.post('/ojs/v1/jobs', job)).body['error']).toMatchObject({ code: 'validation_error' })
  expect((await server.post('/ojs/v1/jobs', { ...job, args: [1] })).status).toBe(201)
  await server.close()
  server = await TestServer.open({ settings: { conformance: false } })
  expect((await server.post('/ojs/v1/jobs', job)).status).toBe(201)
})
