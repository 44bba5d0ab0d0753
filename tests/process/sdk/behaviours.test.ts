/** What a worker does is the same however it reaches its server: call by call, all in one call, or without a network. */
import { setTimeout as pause } from 'node:timers/promises'
import { openServer, type CurfewServer } from 'curfew'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  CancelledError,
  Client,
  DeadlineError,
  defineJob,
  JobFailedError,
  ShutdownError,
  Worker,
  type Context,
  type JobView,
  type WorkerOptions,
  type WorkerSettings,
} from '@curfew/sdk'
import { until } from '../server-process.ts'

const QUICK = { 'workers.heartbeat-interval': '100ms', 'workers.heartbeat-timeout': '2s' }
const WAYS = ['call by call', 'exchange', 'in process'] as const

/** Ends with the signal only. */
async function untilStopped({ signal }: Context): Promise<never> {
  return pause(60_000, undefined, { signal }).then(
    () => Promise.reject(new Error('never stopped')),
    () => Promise.reject(signal.reason as Error),
  )
}

describe.each(WAYS)('%s', (way) => {
  let server: CurfewServer
  let client: Client
  let reach: WorkerOptions
  let queues = 0

  beforeAll(async () => {
    server = await openServer({ data: ':memory:', settings: QUICK })
    const { address } = await server.listen({ host: '127.0.0.1', port: 0 })
    reach = way === 'in process' ? { server } : { url: address, exchange: way === 'exchange' }
    client = new Client(way === 'in process' ? { server } : { url: address })
  })

  afterAll(async () => {
    await client.close()
    await server.close()
  })

  /** A worker on a queue of its own, for as long as the story lasts. */
  async function withWorker(
    prepare: (worker: Worker) => void,
    story: (enqueue: (type: string, options?: object) => Promise<JobView>, worker: Worker) => Promise<void>,
    settings: WorkerSettings = {},
  ): Promise<void> {
    const queue = `story-${String((queues += 1))}`
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
    const worker = new Worker({ ...reach, log: silent, queues: [queue], drain: '100ms', ...settings })
    prepare(worker)
    await worker.start()
    try {
      await story((type, options = {}) => client.enqueue(defineJob(type), [], { queue, ...options }), worker)
    } finally {
      await worker.stop()
    }
  }

  const stateOf = async ({ id }: JobView): Promise<string> => (await client.get(id)).state

  test('what a handler returns is the result', () =>
    withWorker(
      (worker) => worker.handle('add', () => ({ sum: 5 })),
      async (enqueue) => {
        expect(await client.waitForResult(await enqueue('add'))).toEqual({ sum: 5 })
      },
    ))

  test('what a handler logs is stored with its job, of all attempts', () =>
    withWorker(
      (worker) =>
        worker.handle('talks', (ctx) => {
          ctx.log(`attempt ${String(ctx.attempt)}`, { queue: ctx.queue })
          if (ctx.attempt === 1) throw new Error('not yet')
        }),
      async (enqueue) => {
        const job = await enqueue('talks', { retry: { initialInterval: '1ms' } })
        await client.waitForResult(job)
        expect((await client.get(job.id)).x_log).toMatchObject({
          lines: [
            { attempt: 1, message: 'attempt 1' },
            { attempt: 2, message: 'attempt 2', fields: { queue: expect.stringMatching(/^story-/) } },
          ],
          dropped: 0,
        })
      },
    ))

  test('a failure is tried again, and its errors are kept', () =>
    withWorker(
      (worker) =>
        worker.handle('flaky', ({ attempt }) => {
          if (attempt < 3) throw new RangeError(`no ${String(attempt)}`)
          return attempt
        }),
      async (enqueue) => {
        const job = await enqueue('flaky', { retry: { initialInterval: '10ms', jitter: false } })
        expect(await client.waitForResult(job)).toBe(3)
        const { errors } = await client.get(job.id)
        expect(errors).toMatchObject([
          { type: 'RangeError', message: 'no 1' },
          { type: 'RangeError', message: 'no 2' },
        ])
      },
    ))

  test('hundreds of jobs pass through few slots, each once', async () => {
    let [running, most] = [0, 0]
    const done: string[] = []
    await withWorker(
      (worker) =>
        worker.handle('small', async ({ jobId }) => {
          most = Math.max(most, (running += 1))
          await pause(1)
          running -= 1
          done.push(jobId)
        }),
      async (enqueue) => {
        const jobs = await Promise.all(Array.from({ length: 300 }, () => enqueue('small')))
        await Promise.all(jobs.map((job) => client.waitForResult(job)))
        expect(new Set(done).size).toBe(300)
        expect(done).toHaveLength(300)
        expect(most).toBe(7)
      },
      { concurrency: 7 },
    )
  })

  test('results that are too large to travel together arrive all the same', () =>
    withWorker(
      (worker) =>
        worker.handle('large', async () => {
          await pause(300)
          return 'x'.repeat(900_000)
        }),
      async (enqueue) => {
        const jobs = await Promise.all(Array.from({ length: 15 }, () => enqueue('large')))
        for (const job of jobs) expect(await client.waitForResult(job)).toHaveLength(900_000)
      },
      { concurrency: 15 },
    ))

  test('the deadline aborts the signal, and the attempt ends as a timeout', async () => {
    let reason: unknown
    await withWorker(
      (worker) =>
        worker.handle('slow', { timeout: '150ms', gracePeriod: '1s', onTimeout: 'discard' }, (context) =>
          untilStopped(context).catch((error: unknown) => {
            reason = error
            throw new TypeError('anything')
          }),
        ),
      async (enqueue) => {
        const failed = await client.waitForResult(await enqueue('slow')).catch((error: unknown) => error)
        expect(failed).toBeInstanceOf(JobFailedError)
        expect(failed).toMatchObject({ code: 'timeout', state: 'discarded' })
        expect(reason).toBeInstanceOf(DeadlineError)
        expect(reason).toMatchObject({ kind: 'execution', limitMs: 150, source: 'handler' })
      },
    )
  })

  test('a result within the grace counts; one after it does not', () =>
    withWorker(
      (worker) =>
        worker
          .handle('nearly', { timeout: '100ms', gracePeriod: '2s' }, (c) => untilStopped(c).catch(() => 'in time'))
          .handle('late', { timeout: '100ms', gracePeriod: '100ms', onTimeout: 'discard' }, async () => {
            await pause(600)
            return 'too late'
          }),
      async (enqueue) => {
        const [nearly, late] = [await enqueue('nearly'), await enqueue('late')]
        expect(await client.waitForResult(nearly)).toBe('in time')
        await expect(client.waitForResult(late)).rejects.toMatchObject({ code: 'timeout' })
      },
    ))

  test('cancelling aborts the signal', async () => {
    let reason: unknown
    await withWorker(
      (worker) => worker.handle('long', (context) => untilStopped(context).catch((error: unknown) => (reason = error))),
      async (enqueue) => {
        const job = await enqueue('long')
        await until('it runs', async () => (await stateOf(job)) === 'active')
        await client.cancel(job.id)
        await until('it was told', () => reason !== undefined)
        expect(reason).toBeInstanceOf(CancelledError)
        expect(await stateOf(job)).toBe('cancelled')
      },
    )
  })

  test('a worker that stops hands back what it could not finish', async () => {
    let reason: unknown
    let job: JobView | null = null
    await withWorker(
      (worker) =>
        worker.handle('long', (context) =>
          untilStopped(context).catch((error: unknown) => {
            reason = error
            throw error
          }),
        ),
      async (enqueue) => {
        job = await enqueue('long')
        await until('it runs', async () => (await stateOf(job as JobView)) === 'active')
      },
    )
    expect(reason).toBeInstanceOf(ShutdownError)
    expect(await client.get((job as unknown as JobView).id)).toMatchObject({ state: 'available', x_interruptions: 1 })
  })

  test('a checkpoint survives the attempt that saved it', () =>
    withWorker(
      (worker) =>
        worker.handle('import', { timeout: '150ms' }, async (context) => {
          if (context.lastCheckpoint !== null) return context.lastCheckpoint
          await context.progress(0.5, 'half')
          await untilStopped(context).catch(() => {})
          await context.checkpoint({ row: 7 })
          throw new Error('stopped')
        }),
      async (enqueue) => {
        const job = await enqueue('import', { retry: { initialInterval: '10ms', jitter: false } })
        expect(await client.waitForResult(job)).toEqual({ row: 7 })
      },
    ))

  test('a quiet worker takes nothing until it is resumed', () =>
    withWorker(
      (worker) => worker.handle('job', () => 'done'),
      async (enqueue, worker) => {
        worker.quiet()
        await until('the server knows', async () => (await client.workers.get(worker.id)).state === 'quiet')
        const job = await enqueue('job')
        const beats = new Set<unknown>()
        await until(
          'three more beats',
          async () => beats.add((await client.workers.get(worker.id)).last_heartbeat_at).size > 3,
        )
        expect(await stateOf(job)).toBe('available')
        worker.resume()
        expect(await client.waitForResult(job)).toBe('done')
      },
    ))
})
