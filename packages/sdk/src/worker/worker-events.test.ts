/** What a worker tells its listeners, batches, and when a handler wants to be tried again: on the real server and a clock turned by hand. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../job/define-job.ts'
import { InputError } from '../errors.ts'
import type { Log } from '../log.ts'
import { RetryAfter } from '../job/retry-after.ts'
import { openTestKit, type TestKit } from '../testing/kit.ts'
import type { BatchItem } from './batches.ts'
import type { WorkerEvents } from './events.ts'
import type { Worker, WorkerSettings } from './worker.ts'

const job = defineJob<[what: string]>('a.job')
const ONCE = { retry: { maxAttempts: 1 } } as const

// The kit loads the server when the first is opened.
beforeAll(async () => {
  const kit = await openTestKit()
  await kit.close()
}, 240_000)

async function kitFor(log?: Log): Promise<TestKit> {
  const kit = await openTestKit(log === undefined ? {} : { log })
  onTestFinished(() => kit.close())
  return kit
}

/** Every event, in its order. */
function heardBy(worker: Worker): [keyof WorkerEvents, WorkerEvents[keyof WorkerEvents]][] {
  const heard: [keyof WorkerEvents, WorkerEvents[keyof WorkerEvents]][] = []
  const names = [
    'started',
    'completed',
    'failed',
    'timeout',
    'cancelled',
    'lost',
    'handedBack',
    'refused',
    'state',
  ] as const
  for (const name of names) worker.on(name, (event) => heard.push([name, event]))
  return heard
}

describe('listeners of a worker', () => {
  async function one(kit: TestKit, settings: WorkerSettings = {}) {
    const worker = kit.worker(settings)
    worker.handle(job, { timeout: '10s', gracePeriod: '1s' }, async (ctx, [what]) => {
      if (what === 'throw') throw new TypeError('no')
      if (what === 'sleep') await kit.sleep('1h', ctx.signal)
      return what
    })
    const heard = heardBy(worker)
    await worker.start()
    return { worker, heard, names: () => heard.map(([name]) => name) }
  }

  test('hear that an attempt began, and that the server has its result', async () => {
    const kit = await kitFor()
    const { heard } = await one(kit)
    const { id } = await kit.client.enqueue(job, ['well'])
    await kit.settle()
    const which = { jobId: id, type: 'a.job', queue: 'default', attempt: 1 }
    expect(heard).toEqual([
      ['started', which],
      ['completed', { ...which, result: 'well', durationMs: 0 }],
    ])
  })

  test('hear what a handler threw', async () => {
    const kit = await kitFor()
    const { heard, names } = await one(kit)
    await kit.client.enqueue(job, ['throw'], ONCE)
    await kit.settle()
    expect(names()).toEqual(['started', 'failed'])
    expect(heard[1]?.[1]).toMatchObject({ error: { type: 'TypeError', message: 'no' }, attempt: 1 })
  })

  test('hear of a timeout when it happens, by its limit, and then of the failure', async () => {
    const kit = await kitFor()
    const { heard, names } = await one(kit)
    await kit.client.enqueue(job, ['sleep'], ONCE)
    await kit.advance('20s')
    expect(names()).toEqual(['started', 'timeout', 'failed'])
    expect(heard[1]?.[1]).toMatchObject({ kind: 'execution', limitMs: 10_000, source: 'handler' })
    expect(heard[2]?.[1]).toMatchObject({ error: { type: 'timeout' }, durationMs: 10_000 })
  })

  test('hear of a cancelled job, of one that is handed back, and of the state', async () => {
    const kit = await kitFor()
    const { worker, names } = await one(kit)
    const cancelled = await kit.client.enqueue(job, ['sleep'])
    await kit.settle()
    await cancelled.cancel()
    await kit.advance('5s')
    await kit.client.enqueue(job, ['sleep'])
    await kit.settle()
    const stopped = worker.stop({ drain: '0s' })
    await kit.advance('5s')
    await stopped
    expect(names()).toEqual(['started', 'cancelled', 'started', 'state', 'handedBack'])
  })

  test('that throw, or reject, harm neither the worker nor each other', async () => {
    const errors: object[] = []
    const log: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: (fields) => errors.push(fields) }
    const kit = await kitFor(log)
    const { worker, names } = await one(kit)
    worker.on('completed', () => {
      throw new Error('sync')
    })
    worker.on('completed', () => Promise.reject(new Error('async')))
    const after: string[] = []
    const listener = ({ jobId }: WorkerEvents['completed']): unknown => after.push(jobId)
    worker.on('completed', listener)
    const first = await kit.client.enqueue(job, ['a'])
    await kit.settle()
    worker.off('completed', listener)
    await kit.client.enqueue(job, ['b'])
    await kit.settle()
    expect(after).toEqual([first.id])
    expect(names()).toEqual(['started', 'completed', 'started', 'completed'])
    expect(errors).toEqual(['sync', 'async', 'sync', 'async'].map((reason) => ({ event: 'completed', reason })))
  })
})

describe('a handler that throws RetryAfter', () => {
  test('is tried again then, in place of the backoff, and uses an attempt', async () => {
    const kit = await kitFor()
    const began = kit.now().getTime()
    const starts: number[] = []
    const worker = kit.worker()
    worker.handle(job, ({ attempt }, [what]) => {
      starts.push(kit.now().getTime() - began)
      if (attempt === 1) throw new RetryAfter('90s', 'the other side is busy', { details: { what } })
      if (attempt === 2) throw new RetryAfter(new Date(began + 600_000))
      throw new RetryAfter({ ms: 1 })
    })
    await worker.start()
    const { id } = await kit.client.enqueue(job, ['x'], { retry: { maxAttempts: 3, maxInterval: '5s' } })
    await kit.advance('1h')
    expect(starts).toEqual([0, 90_000, 600_000])
    const seen = await kit.client.get(id)
    expect(seen.state).toBe('discarded')
    expect(seen.errors?.[0]).toMatchObject({ type: 'RetryAfter', code: 'retry_after', details: { what: 'x' } })
  })

  test('a time that is none is refused where it is made', () => {
    expect(() => new RetryAfter(new Date(Number.NaN))).toThrow(InputError)
    expect(() => new RetryAfter(30 as never)).toThrow(/bare number/)
  })
})

describe('a handler of batches', () => {
  type Item = BatchItem<[what: string]>

  test('gets the jobs that arrived together, up to its size, and gives each its own result', async () => {
    const kit = await kitFor()
    const sizes: number[] = []
    const worker = kit.worker({ concurrency: 5 })
    worker.handleBatch(job, { size: 3 }, (items) => {
      sizes.push(items.length)
      return items.map(({ input: [what] }: Item) => (what === 'bad' ? new TypeError('bad') : what.toUpperCase()))
    })
    await worker.start()
    const jobs = await Promise.all(['a', 'b', 'bad', 'c'].map((what) => kit.client.enqueue(job, [what], ONCE)))
    await kit.advance('1s')
    expect(sizes).toEqual([3, 1])
    const seen = await Promise.all(jobs.map(({ id }) => kit.client.get(id)))
    expect(seen.map(({ state, result }) => result ?? state)).toEqual(['A', 'B', 'discarded', 'C'])
    expect(seen[2]?.error).toMatchObject({ type: 'TypeError', message: 'bad' })
  })

  test('one job runs out of time without the others: the batch is asked to stop when all of them are', async () => {
    const kit = await kitFor()
    const aborts: string[] = []
    const worker = kit.worker()
    worker.handleBatch(job, { size: 2, gracePeriod: '1s' }, async (items, signal) => {
      signal.addEventListener('abort', () => aborts.push('batch'))
      for (const { ctx, input } of items) ctx.signal.addEventListener('abort', () => aborts.push(input[0]))
      await kit.sleep('10s', items[1]?.ctx.signal)
    })
    await worker.start()
    const short = await kit.client.enqueue(job, ['short'], { ...ONCE, timeout: '5s' })
    const long = await kit.client.enqueue(job, ['long'], { ...ONCE, timeout: '1m' })
    await kit.advance('30s')
    expect(aborts).toEqual(['short'])
    expect((await short.refresh()).state).toBe('discarded')
    expect((await long.refresh()).state).toBe('completed')
  })

  test('what it throws fails all of them, and so does a result too few', async () => {
    const kit = await kitFor()
    const worker = kit.worker()
    worker.handleBatch(job, { size: 2 }, (items) => {
      if (items[0]?.input[0] === 'few') return []
      throw new RangeError('all')
    })
    await worker.start()
    const thrown = await Promise.all(['a', 'b'].map((what) => kit.client.enqueue(job, [what], ONCE)))
    await kit.advance('1s')
    const few = await Promise.all(['few', 'few'].map((what) => kit.client.enqueue(job, [what], ONCE)))
    await kit.advance('1s')
    const types = await Promise.all([...thrown, ...few].map(async ({ id }) => (await kit.client.get(id)).error?.type))
    expect(types).toEqual(['RangeError', 'RangeError', 'InputError', 'InputError'])
  })

  test('a batch that could never fill is refused, and says how to mend it', async () => {
    const kit = await kitFor()
    const worker = kit.worker({ concurrency: 2 })
    expect(() => worker.handleBatch(job, { size: 3 }, () => {})).toThrow(/concurrency: 3/)
    expect(() => worker.handleBatch(job, { size: 0 }, () => {})).toThrow(/size/)
  })
})
