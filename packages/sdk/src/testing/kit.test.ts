import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Duration } from '../durations.ts'
import { defineJob } from '../job/define-job.ts'
import { DeadlineError, LostLeaseError } from '../errors.ts'
import { jsonata } from '../journey/journey-expression.ts'
import { state } from '../journey/journey-states.ts'
import { journey, schema } from '../journey/journey.ts'
import type { Worker } from '../worker/worker.ts'
import { openTestKit, type TestKit, type TestKitOptions, type TimeoutKind } from './kit.ts'

const job = defineJob('job')

// The kit loads the server when the first is opened. That takes seconds where it has to be translated, and does not count in
// what any test shows.
beforeAll(async () => {
  const kit = await openTestKit()
  await kit.close()
}, 60_000)

async function kitFor(options: TestKitOptions = {}): Promise<TestKit> {
  const kit = await openTestKit(options)
  onTestFinished(() => kit.close())
  return kit
}

async function all<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const each of pages) found.push(each)
  return found
}

/** A worker whose handler sleeps for so long, and what happened to its signal. */
async function sleeper(
  kit: TestKit,
  length: Duration,
  limits: object = {},
): Promise<{ worker: Worker; reasons: unknown[] }> {
  const reasons: unknown[] = []
  const worker = kit.worker()
  worker.handle(job, limits, async (ctx) => {
    ctx.signal.addEventListener('abort', () => reasons.push(ctx.signal.reason))
    await kit.sleep(length, ctx.signal)
    return ctx.attempt
  })
  await worker.start()
  return { worker, reasons }
}

describe('the test kit', () => {
  test('turns hours in no time, and every deadline is kept on the way', async () => {
    const kit = await kitFor()
    const { reasons } = await sleeper(kit, '2h', { timeout: '30m' })
    const began = kit.now().getTime()
    const { id } = await kit.client.enqueue(job, [])
    await kit.advance('31m')
    expect(reasons[0]).toBeInstanceOf(DeadlineError)
    const seen = await kit.expectTimedOut(id, 'execution')
    expect(seen.errors?.[0]).toMatchObject({ attempt: 1, elapsed_seconds: 1_800 })
    expect(kit.now().getTime() - began).toBe(31 * 60_000)
  })

  test.each<[TimeoutKind, object, object]>([
    ['execution', {}, { timeout: '1m', retry: { maxAttempts: 1 } }],
    ['total', {}, { totalTimeout: '1m' }],
    ['stalled', { heartbeat: 'manual', heartbeatTimeout: '30s' }, { retry: { maxAttempts: 1 } }],
  ])('knows which limit ended a job: %s', async (kind, limits, options) => {
    const kit = await kitFor()
    await sleeper(kit, '1h', limits)
    const { id } = await kit.client.enqueue(job, [], options)
    await kit.advance('10m')
    await kit.expectTimedOut(id, kind)
    const other = kind === 'total' ? 'execution' : 'total'
    await expect(kit.expectTimedOut(id, other)).rejects.toThrow(new RegExp(`by its ${other} limit`))
  })

  test('knows a job that was never started in time', async () => {
    const kit = await kitFor()
    const { id } = await kit.client.enqueue(job, [], { enqueueTtl: '1m' })
    await kit.advance('1m')
    await kit.expectTimedOut(id, 'enqueue_ttl')
  })

  test('a worker that was killed is found out, and its job runs elsewhere', async () => {
    const kit = await kitFor()
    const { worker } = await sleeper(kit, '20m')
    const { id } = await kit.client.enqueue(job, [])
    await kit.advance('1m')
    kit.killWorker(worker)
    await sleeper(kit, '1m')
    await kit.advance('29s')
    expect((await kit.client.get(id)).attempt).toBe(1)
    await kit.advance('20s')
    expect(await kit.client.get(id)).toMatchObject({ attempt: 2, errors: [{ type: 'worker_death' }] })
    await kit.drain()
    expect(await kit.client.get(id)).toMatchObject({ state: 'completed', result: 2 })
  })

  test('a worker that stood still stops its handler when it goes on, and its result does not count', async () => {
    const kit = await kitFor()
    const first = await sleeper(kit, '2m')
    const { id } = await kit.client.enqueue(job, [])
    await kit.settle()
    kit.stall(first.worker)
    await sleeper(kit, '10m')
    await kit.advance('5m')
    expect(await kit.client.get(id)).toMatchObject({ attempt: 2, state: 'active' })
    await kit.resume(first.worker)
    expect(first.reasons[0]).toBeInstanceOf(LostLeaseError)
    await kit.drain()
    expect(await kit.client.get(id)).toMatchObject({ state: 'completed', result: 2 })
  })

  test('a worker that is cut off stops its handlers in time, and works again when it is not', async () => {
    const kit = await kitFor()
    const { worker, reasons } = await sleeper(kit, '10m')
    await kit.client.enqueue(job, [])
    await kit.settle()
    kit.partition(worker)
    await kit.advance('30s')
    expect(reasons[0]).toBeInstanceOf(LostLeaseError)
    await kit.heal(worker)
    await kit.drain()
    const [done] = await all(kit.client.list({ state: 'completed' }))
    expect(done?.attempt).toBeGreaterThan(1)
  })

  test('a wall clock that is set wrong moves no deadline', async () => {
    const kit = await kitFor()
    const { worker, reasons } = await sleeper(kit, '1h', { timeout: '10m' })
    await kit.client.enqueue(job, [])
    await kit.settle()
    kit.skewClock('-2h')
    kit.skewClock('3h', worker)
    await kit.advance('599s')
    expect(reasons).toEqual([])
    await kit.advance('1s')
    expect(reasons).toHaveLength(1)
  })

  test('drain follows backoffs and schedules to the end', async () => {
    const kit = await kitFor()
    const worker = kit.worker()
    worker.handle(job, (ctx) => {
      if (ctx.attempt < 3) throw new Error('not yet')
    })
    await worker.start()
    const { id } = await kit.client.enqueue(job, [], { delay: '20m', retry: { initialInterval: '10m' } })
    await kit.drain()
    expect(await kit.client.get(id)).toMatchObject({ state: 'completed', attempt: 3 })
  })

  test('each attempt of a job has a greater lease than the one before', async () => {
    const kit = await kitFor()
    const worker = kit.worker()
    const leases: (number | null)[] = []
    worker.handle(job, (ctx) => {
      leases.push(ctx.lease)
      if (ctx.attempt < 3) throw new Error('not yet')
    })
    await worker.start()
    await kit.client.enqueue(job, [])
    await kit.drain()
    expect(leases).toEqual([1, 2, 3])
  })

  test('drain says when nothing would ever happen', async () => {
    const kit = await kitFor()
    await kit.client.enqueue(job, [])
    await expect(kit.drain()).rejects.toThrow(/1 jobs are still open/)
  })

  test('kits share nothing: each has its own clock and its own jobs', async () => {
    const kits = await Promise.all([1, 2, 3, 4].map(() => kitFor({ startAt: new Date('2030-01-01T00:00:00Z') })))
    await Promise.all(
      kits.map(async (kit, index) => {
        await kit.client.enqueue(job, [])
        await kit.advance({ ms: index * 1_000 })
      }),
    )
    expect(kits.map((kit) => kit.now().getTime() % 10_000)).toEqual([0, 1_000, 2_000, 3_000])
    for (const kit of kits) expect(await all(kit.client.list({}))).toHaveLength(1)
  })

  test('the settings of the server may be set', async () => {
    const kit = await kitFor({ settings: { 'limits.defaults.timeout': '2m' } })
    const { id } = await kit.client.enqueue(job, [])
    expect((await kit.client.get(id)).x_limits?.timeout_ms).toBe(120_000)
  })
})

describe('journeys on the kit', () => {
  const patience = journey('patience', '1.0.0', {
    execution: { maxDuration: '3h', onTimeout: { errorCode: 'NO_ANSWER', reason: 'no answer came' } },
    lifecycle: { startMode: 'async' },
    start: 'nap',
    states: {
      nap: state.timer({ duration: '1h', next: 'work' }),
      work: state.job({ type: 'job', resultVar: 'done', next: 'ask' }),
      ask: state.wait({ input: schema({ type: 'object' }), next: 'end' }),
      end: state.succeed(),
    },
  })

  test('timers, jobs, steps and the deadline pass as the clock is turned', async () => {
    const kit = await kitFor()
    await sleeper(kit, '20m')
    await kit.client.journeys.deploy(patience)
    const run = await kit.client.journeys.start(patience)
    await kit.advance('59m')
    expect((await kit.client.journeys.status(run)).currentState).toBe('nap')
    await kit.advance('10m')
    expect((await kit.client.journeys.status(run)).currentState).toBe('work')
    await kit.advance('30m')
    expect(await kit.client.journeys.status(run)).toMatchObject({ currentState: 'ask', remainingMs: 81 * 60_000 })
    await kit.advance('2h')
    await expect(kit.client.journeys.result(run)).rejects.toMatchObject({ code: 'NO_ANSWER', terminatedAtState: 'ask' })
  })

  test('calls are real ones, and reach this machine only if they may', async () => {
    const answers = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"price":7}')
    })
    await new Promise<void>((resolve) => answers.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void answers.close())
    const { port } = answers.address() as AddressInfo
    const quote = journey('quote', '1.0.0', {
      start: 'ask',
      states: {
        ask: state.httpCall({
          method: 'GET',
          url: `http://127.0.0.1:${String(port)}/`,
          resultVar: 'quote',
          next: 'keep',
        }),
        keep: state.transform({
          mapper: jsonata`context.quote.ok ? context.quote.body.price : context.quote.error.type`,
          resultVar: 'price',
          next: 'end',
        }),
        end: state.succeed('price'),
      },
    })
    const open = await kitFor({ settings: { 'allow-private-network': true } })
    await open.client.journeys.deploy(quote)
    expect(await open.client.journeys.run(quote)).toBe(7)
    const shut = await kitFor()
    await shut.client.journeys.deploy(quote)
    expect(await shut.client.journeys.run(quote)).toBe('NETWORK')
  })
})
