/** Two servers on one database never let more jobs start than a limiter allows, and leave nothing waiting that may start. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { millis, parseBody, readEnqueue, type Instant } from '@curfew/core'
import { TEST_SETTINGS } from '../../../../../tests/harness.ts'
import { Engine } from '../../engine/engine.ts'
import { enqueue } from '../../engine/jobs/enqueue.ts'
import { fetchJobs, type Handed } from '../../engine/jobs/fetch.ts'
import { Meters } from '../../engine/metrics/meters.ts'
import { ack } from '../../engine/jobs/reports.ts'
import { nodeHost, systemRandom } from '../../host.ts'
import { openBench } from './bench.suite.ts'

const bench = await openBench()
const BUSY = { timeout: 60_000 }

let servers: Engine[]
beforeEach(async () => {
  const schema = bench.newSchema()
  servers = []
  for (let index = 0; index < 2; index += 1) {
    servers.push(
      await Engine.open({
        store: await bench.open(schema, undefined, undefined, 30_000),
        host: nodeHost,
        random: systemRandom(),
        settings: TEST_SETTINGS,
        log: { info: () => {}, warn: () => {}, error: (fields, message) => void console.error(message, fields) },
        meters: new Meters(),
      }),
    )
  }
})
afterEach(() => Promise.all(servers.map((server) => server.close())))

const at = (index: number): Engine => {
  const server = servers[index % servers.length]
  if (server === undefined) throw new Error('no server')
  return server
}

async function enqueueMany(count: number, rateLimit: object): Promise<void> {
  const body = JSON.stringify({ type: 'a', args: [], rate_limit: rateLimit })
  const requests = Array.from({ length: count }, (_, index) => {
    const engine = at(index)
    return engine.run(enqueue(engine, readEnqueue(body, parseBody(body), engine.now())))
  })
  await Promise.all(requests)
}

const fetchSome = (engine: Engine, count: number, waitMs = 0): Promise<readonly Handed[]> =>
  fetchJobs(
    engine,
    { queues: ['default'], count, workerId: null, visibilityMs: null, waitMs, tenant: null },
    new AbortController().signal,
  )

test.each([
  ['a key', { key: 'k', concurrency: 3 }],
  ['a queue', { max_per_second: 1_000 }],
])('no more than so many jobs of %s are active at once', BUSY, async (of, rateLimit) => {
  if (of === 'a queue') {
    await at(0).run({
      name: 'configure',
      needs: { queues: ['default'] },
      run: (unit) => {
        unit.putQueue({
          ...(unit.queue('default') ?? { name: 'default', version: 0, createdAt: unit.now, pausedAt: null }),
          drainingAt: null,
          config: { rate_limit: { concurrency: 3 } },
        })
      },
    })
  }
  await enqueueMany(60, rateLimit)
  for (let round = 0; round < 15; round += 1) {
    const handed = (await Promise.all(servers.map((server) => fetchSome(server, 3)))).flat()
    expect(handed).toHaveLength(3)
    await Promise.all(
      handed.map(({ job }, index) => at(index).run(ack(at(index), { jobId: job.id, lease: job.lease, result: null }))),
    )
  }
})

test('a fetch that waits at one server for room hears of an end at the other', BUSY, async () => {
  await enqueueMany(20, { key: 'k', concurrency: 1 })
  const startedAt = at(0).now()
  for (let round = 0; round < 10; round += 1) {
    const [held] = await fetchSome(at(round), 1, 5_000)
    const waiting = fetchSome(at(round + 1), 1, 20_000)
    if (held === undefined) throw new Error('nothing was handed out')
    await at(round).run(ack(at(round), { jobId: held.job.id, lease: held.job.lease, result: null }))
    const [next] = await waiting
    if (next === undefined) throw new Error('nothing was handed out')
    await at(round).run(ack(at(round), { jobId: next.job.id, lease: next.job.lease, result: null }))
  }
  expect(at(0).now() - startedAt).toBeLessThan(15_000)
})

test('no stretch as long as the period sees more starts than the rate, and none is wasted', BUSY, async () => {
  const [limit, periodMs] = [5, 400]
  await enqueueMany(25, { key: 'k', rate: { limit, period: 'PT0.4S' } })
  const startedAt: Instant[] = []
  const work = async (engine: Engine): Promise<void> => {
    while (startedAt.length < 25)
      for (const { job } of await fetchSome(engine, 2, 1_000)) startedAt.push(job.startedAt ?? engine.now())
  }
  await Promise.all([0, 1, 2, 3].map((index) => work(at(index))))
  startedAt.sort((a, b) => a - b)
  // What the servers' clocks may differ by.
  const error = millis(50)
  for (let index = limit; index < startedAt.length; index += 1)
    expect((startedAt[index] ?? 0) - (startedAt[index - limit] ?? 0)).toBeGreaterThanOrEqual(periodMs - error)
  expect(startedAt).toHaveLength(25)
})
