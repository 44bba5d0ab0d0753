/** Two servers on one database never enqueue the same work twice, and make no queue deeper than it may be. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { OjsError, parseBody, readEnqueue, seconds } from '@curfew/core'
import { TEST_SETTINGS } from '../../../../../tests/harness.ts'
import type { Enqueued } from '../../engine/jobs/admission.ts'
import { Engine } from '../../engine/engine.ts'
import { enqueue, enqueueBatch } from '../../engine/jobs/enqueue.ts'
import { fetchJobs } from '../../engine/jobs/fetch.ts'
import { Meters } from '../../engine/metrics/meters.ts'
import { configureQueue } from '../../engine/queues/queue.ts'
import { ack } from '../../engine/jobs/reports.ts'
import { waitForCapacity } from '../../engine/queues/capacity-waiters.ts'
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

async function push(engine: Engine, job: object, waitMs = 0): Promise<Enqueued | string> {
  const body = JSON.stringify({ type: 'a', args: [], ...job })
  const command = enqueue(engine, readEnqueue(body, parseBody(body), engine.now()))
  try {
    if (waitMs === 0) return await engine.run(command)
    const gone = new AbortController().signal
    return await waitForCapacity(engine, command, { waitMs: seconds(waitMs / 1000), gone })
  } catch (error) {
    if (error instanceof OjsError) return error.code
    throw error
  }
}

const depth = async (): Promise<number> => {
  const counts = (await at(0).read((reads) => reads.counts())).get('default')
  return counts === undefined ? 0 : counts.available + counts.active + counts.scheduled
}

test('of many requests for the same work at both exactly one is new', BUSY, async () => {
  for (let round = 0; round < 10; round += 1) {
    const unique = { on_conflict: round % 2 === 0 ? 'reject' : 'ignore' }
    const job = { args: [round], unique }
    const all = await Promise.all(Array.from({ length: 20 }, (_, index) => push(at(index), job)))
    const fresh = all.filter((one) => typeof one !== 'string' && !one.deduplicated)
    expect(fresh).toHaveLength(1)
    const others = all.filter((one) => one === 'duplicate' || (typeof one !== 'string' && one.deduplicated))
    expect(others).toHaveLength(19)
  }
  expect(await depth()).toBe(10)
})

test('requests that replace each other at both leave one', BUSY, async () => {
  const job = { unique: { on_conflict: 'replace' } }
  const all = await Promise.all(Array.from({ length: 40 }, (_, index) => push(at(index), job)))
  expect(all.every((one) => typeof one !== 'string')).toBe(true)
  expect(await depth()).toBe(1)
})

test('batches with the same work in another order do not stand in each other’s way', BUSY, async () => {
  const entries = Array.from({ length: 30 }, (_, n) => ({ type: 'a', args: [n], unique: { on_conflict: 'ignore' } }))
  const send = (engine: Engine, jobs: readonly object[]): Promise<Enqueued[]> => {
    const requests = jobs.map((job) => readEnqueue(JSON.stringify(job), job, engine.now()))
    return engine.run(enqueueBatch(engine, requests))
  }
  const all = await Promise.all(
    Array.from({ length: 8 }, (_, index) => send(at(index), index % 2 === 0 ? entries : entries.toReversed())),
  )
  expect(all.flat().filter(({ deduplicated }) => !deduplicated)).toHaveLength(30)
  expect(await depth()).toBe(30)
})

test.each(['reject', 'drop_oldest'])('a bound holds for both together (%s)', BUSY, async (strategy) => {
  await configureQueue(at(0), 'default', { backpressure: { max_depth: 7, strategy } })
  for (let round = 0; round < 5; round += 1) {
    const all = await Promise.all(Array.from({ length: 20 }, (_, index) => push(at(index), {})))
    const taken = all.filter((one) => typeof one !== 'string').length
    expect(taken).toBe(strategy === 'reject' ? (round === 0 ? 7 : 0) : 20)
    expect(await depth()).toBe(7)
  }
})

test('a fetch that waits for room at one server hears of an end at the other', BUSY, async () => {
  await configureQueue(at(0), 'default', { backpressure: { max_depth: 1, strategy: 'block' } })
  await push(at(0), {})
  const startedAt = at(0).now()
  for (let round = 0; round < 5; round += 1) {
    const waiting = push(at(round + 1), { args: [round] }, 20_000)
    const [held] = await fetchJobs(
      at(round),
      { queues: ['default'], count: 1, workerId: null, visibilityMs: null, waitMs: 5_000, tenant: null },
      new AbortController().signal,
    )
    if (held === undefined) throw new Error('nothing was handed out')
    await at(round).run(ack(at(round), { jobId: held.job.id, lease: held.job.lease, result: null }))
    expect(await waiting).toMatchObject({ deduplicated: false })
    expect(await depth()).toBe(1)
  }
  expect(at(0).now() - startedAt).toBeLessThan(15_000)
})
