/** The SDK's worker on a server in the same process, on a clock turned by hand. */
import { describe, expect, test } from 'vitest'
import { seconds } from '@curfew/core'
import {
  CancelledError,
  DeadlineError,
  defineJob,
  LostLeaseError,
  NonRetryableError,
  ShutdownError,
  timeout,
  Worker,
  type Context,
  type WorkerSettings,
} from '@curfew/sdk'
import { idle, TestServer, type TestOptions } from '../harness.ts'

interface Stage {
  readonly server: TestServer
  readonly worker: Worker
  readonly logged: { message: string; fields: object }[]
}

async function stage(
  prepare: (worker: Worker, stage: Stage) => void,
  settings: WorkerSettings = {},
  options: TestOptions = {},
): Promise<Stage> {
  const server = await TestServer.open(options)
  const logged: Stage['logged'] = []
  const say = (fields: object, message: string): void => void logged.push({ message, fields })
  const log = { debug: () => {}, info: () => {}, warn: say, error: say }
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, log, ...settings })
  const made = { server, worker, logged }
  prepare(worker, made)
  await worker.start()
  await idle()
  return made
}

/** Ends when a test says so. */
function latch<T = void>(): { readonly promise: Promise<T>; open: (value: T) => void; fail: (error: Error) => void } {
  let [open, fail] = [(_: T): void => {}, (_: Error): void => {}]
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve
    fail = reject
  })
  return { promise, open, fail }
}

/** A handler's pause that ends with its signal, as a well-behaved one does. */
function untilStopped(context: Context): Promise<never> {
  return new Promise((_resolve, reject) => {
    context.signal.addEventListener('abort', () => {
      reject(context.signal.reason as Error)
    })
  })
}

async function until(server: TestServer, id: string, state: string): Promise<void> {
  await idle()
  expect((await server.job(id)).state).toBe(state)
}

describe('running jobs', () => {
  test('a handler gets its arguments, and what it returns is the result', async () => {
    const add = defineJob<[number, number]>('math.add')
    const { server } = await stage((worker) => worker.handle(add, (_context, [a, b]) => a + b))
    const id = await server.enqueue({ type: 'math.add', args: [2, 3] })
    await until(server, id, 'completed')
    expect((await server.job(id))['result']).toBe(5)
  })

  test('what a handler throws fails the attempt, with its name and where it came from', async () => {
    class Overdrawn extends Error {
      override readonly name = 'Overdrawn'
    }
    const { server } = await stage((worker) =>
      worker.handle('pay.out', () => {
        throw new Overdrawn('no money')
      }),
    )
    const id = await server.enqueue({ type: 'pay.out' })
    await until(server, id, 'retryable')
    const { errors } = await server.job(id)
    expect(errors[0]).toMatchObject({ type: 'Overdrawn', message: 'no money', attempt: 1 })
    await server.advance(2_000)
    expect((await server.job(id)).attempt).toBe(2)
  })

  test('what retrying would not mend is not retried', async () => {
    const { server } = await stage((worker) =>
      worker.handle('pay.out', () => {
        throw new NonRetryableError('unknown account')
      }),
    )
    const id = await server.enqueue({ type: 'pay.out' })
    await until(server, id, 'discarded')
    expect((await server.job(id)).attempt).toBe(1)
  })

  test('a result that the server cannot keep fails the job, once and for all', async () => {
    const { server } = await stage((worker) => worker.handle('large', () => 'x'.repeat(2_000_000)))
    const id = await server.enqueue({ type: 'large' })
    await until(server, id, 'discarded')
    expect((await server.job(id)).errors).toMatchObject([{ type: 'result_too_large', attempt: 1 }])
  })

  test('a job of a type without a handler goes back, to be tried by others', async () => {
    const { server } = await stage((worker) => worker.handle('known', () => null))
    const id = await server.enqueue({ type: 'unknown' })
    await until(server, id, 'retryable')
    expect((await server.job(id)).errors[0]?.type).toBe('handler_not_found')
  })

  test('never more jobs run at once than there are slots, and each free slot is filled', async () => {
    let [running, most, done] = [0, 0, 0]
    const gates = Array.from({ length: 30 }, () => latch())
    const { server } = await stage(
      (worker) =>
        worker.handle<[number], [number], unknown, unknown>('work', async (_context, [n]) => {
          most = Math.max(most, (running += 1))
          await gates[n]?.promise
          running -= 1
          done += 1
        }),
      { concurrency: 4 },
    )
    for (let n = 0; n < 30; n += 1) await server.enqueue({ type: 'work', args: [n] })
    await idle()
    expect(running).toBe(4)
    for (const gate of gates) {
      gate.open()
      await idle()
    }
    expect(done).toBe(30)
    expect(most).toBe(4)
  })
})

describe('deadlines in the handler', () => {
  test('the signal is aborted at the deadline, and says which limit it was and who set it', async () => {
    let reason: unknown
    const { server } = await stage((worker) =>
      worker.handle('slow', { timeout: '10s', gracePeriod: '5s' }, async (context) => {
        await untilStopped(context).catch((error: unknown) => (reason = error))
        throw new Error('stopped')
      }),
    )
    const id = await server.enqueue({ type: 'slow' })
    await server.advance(9_999)
    expect(reason).toBeUndefined()
    await server.advance(1)
    expect(reason).toBeInstanceOf(DeadlineError)
    expect(reason).toMatchObject({ kind: 'execution', limitMs: 10_000, source: 'handler' })
    await until(server, id, 'retryable')
  })

  test('whatever a handler throws after its deadline, the attempt timed out', async () => {
    const { server } = await stage((worker) =>
      worker.handle('slow', { timeout: '10s' }, async (context) => {
        await untilStopped(context).catch(() => {})
        throw new TypeError('undefined is not a function')
      }),
    )
    const id = await server.enqueue({ type: 'slow' })
    await server.advance(10_000)
    expect((await server.job(id)).errors[0]).toMatchObject({ type: 'timeout', timeout_kind: 'execution' })
  })

  test('a result that comes within the grace counts', async () => {
    const { server } = await stage((worker) =>
      worker.handle('slow', { timeout: '10s', gracePeriod: '5s' }, async (context) => {
        await untilStopped(context).catch(() => {})
        return 'just in time'
      }),
    )
    const id = await server.enqueue({ type: 'slow' })
    await server.advance(10_000)
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 'just in time' })
  })

  test('a handler that does not stop is given up at the end of its grace; its result is dropped and told of', async () => {
    const gate = latch<string>()
    const { server, worker, logged } = await stage((w) =>
      w.handle('deaf', { timeout: '10s', gracePeriod: '5s' }, () => gate.promise),
    )
    const id = await server.enqueue({ type: 'deaf', retry: { max_attempts: 1 } })
    await server.advance(14_999)
    expect(worker.active).toBe(1)
    await server.advance(1)
    expect(worker.active).toBe(0)
    gate.open('too late')
    await server.advance(10)
    const job = await server.job(id)
    expect(job).toMatchObject({ state: 'discarded', errors: [{ type: 'timeout' }] })
    expect(job['result']).toBeUndefined()
    expect(logged.map(({ message }) => message).join()).toContain('result discarded')
  })

  test('the time a poll waited is not taken from the job that came of it', async () => {
    let left = 0
    const { server } = await stage((worker) =>
      worker.handle('late', { timeout: '10s' }, (context) => {
        left = context.remaining()
      }),
    )
    await server.advance(15_000)
    await server.enqueue({ type: 'late' })
    await idle()
    expect(left).toBe(10_000)
  })

  test('a publish wins over the handler, field by field, and the handler over the defaults of the worker', async () => {
    const seen: Record<string, unknown>[] = []
    const { server } = await stage(
      (worker) => worker.handle('report', { timeout: '20s', onTimeout: 'discard' }, async (c) => untilStopped(c)),
      { defaults: { timeout: '1m', gracePeriod: '3s' } },
    )
    const id = await server.enqueue({ type: 'report', timeout_ms: 5_000 })
    await idle()
    seen.push((await server.job(id))['x_limits'] as Record<string, unknown>)
    expect(seen[0]).toMatchObject({
      timeout_ms: 5_000,
      grace_ms: 3_000,
      on_timeout: 'discard',
      sources: { timeout: 'publish', grace: 'handler', on_timeout: 'handler' },
    })
    await server.advance(5_000)
    expect(await server.job(id)).toMatchObject({ state: 'discarded', errors: [{ type: 'timeout' }] })
  })

  test('the total budget aborts as a total, across attempts', async () => {
    const reasons: unknown[] = []
    const { server } = await stage((worker) =>
      worker.handle('slow', { timeout: '1m' }, (context) =>
        untilStopped(context).catch((error: unknown) => {
          reasons.push(error)
          throw error
        }),
      ),
    )
    await server.enqueue({ type: 'slow', total_timeout: 30 })
    await server.advance(30_000)
    expect(reasons).toMatchObject([{ kind: 'total', limitMs: 30_000, source: 'publish' }])
  })

  test('a handler cannot bring a total, and the error says why', () => {
    const worker = new Worker({ url: 'http://127.0.0.1:1' })
    const total = timeout({ seconds: 30, scope: 'total' })
    expect(() => worker.handle('report', total, () => null)).toThrow(/totalTimeout.*starts when the job is enqueued/)
  })
})

describe('being stopped', () => {
  test('cancelling the job aborts its signal with the next beat, and nothing is reported', async () => {
    let reason: unknown
    const { server, worker } = await stage((w) =>
      w.handle('long', (context) => untilStopped(context).catch((error: unknown) => (reason = error))),
    )
    const id = await server.enqueue({ type: 'long' })
    await idle()
    await server.call('DELETE', `/ojs/v1/jobs/${id}`)
    await server.advance(5_000)
    expect(reason).toBeInstanceOf(CancelledError)
    expect(worker.active).toBe(0)
    expect((await server.job(id)).state).toBe('cancelled')
  })

  test('a worker that stops waits for its jobs, hands back what is left, and takes its leave', async () => {
    const reasons: unknown[] = []
    const short = latch()
    const { server, worker } = await stage(
      (w) =>
        w
          .handle('short', () => short.promise)
          .handle('long', (context) =>
            untilStopped(context).catch((error: unknown) => {
              reasons.push(error)
              throw error
            }),
          ),
      { drain: '10s' },
    )
    const [a, b] = [await server.enqueue({ type: 'short' }), await server.enqueue({ type: 'long' })]
    await idle()
    const stopped = worker.stop()
    await server.advance(5_000)
    expect((await server.get('/ojs/v1/workers')).body['workers']).toMatchObject([{ state: 'terminate' }])
    short.open()
    await server.advance(4_999)
    expect(reasons).toEqual([])
    await server.advance(1)
    await stopped
    expect(reasons[0]).toBeInstanceOf(ShutdownError)
    expect((await server.job(a)).state).toBe('completed')
    expect(await server.job(b)).toMatchObject({ state: 'available', x_interruptions: 1 })
    expect((await server.get('/ojs/v1/workers')).body['workers']).toEqual([])
    expect(await server.eventTypes(worker.id)).toEqual(['worker.started', 'worker.stopped'])
    expect(server.clock.nextTimerAt()).not.toBeNull()
  })

  test('a quiet worker finishes what it has and takes nothing, until it is resumed', async () => {
    const gate = latch()
    const { server, worker } = await stage((w) => w.handle('job', () => gate.promise))
    const first = await server.enqueue({ type: 'job' })
    await idle()
    worker.quiet()
    await server.advance(100)
    const second = await server.enqueue({ type: 'job' })
    gate.open()
    await server.advance(10_000)
    expect((await server.job(first)).state).toBe('completed')
    expect((await server.job(second)).state).toBe('available')
    worker.resume()
    await server.advance(5_000)
    expect((await server.job(second)).state).toBe('completed')
  })

  test('an answer to what it said while it was quiet does not make it quiet again', async () => {
    const server = await TestServer.open()
    const gate = latch()
    let isLate = false
    const handler: TestServer['handler'] = async (request) => {
      const response = await server.handler(request)
      if (isLate && request.url.endsWith('/heartbeat')) await gate.promise
      return response
    }
    const worker = new Worker({ server: { handler }, host: server.clock, random: () => 0.5 })
    worker.handle('job', () => null)
    await worker.start()
    worker.quiet()
    await idle()
    isLate = true
    await server.advance(5_000)
    await server.advance(1)
    worker.resume()
    isLate = false
    gate.open()
    await idle()
    expect(worker.state).toBe('running')
    const id = await server.enqueue({ type: 'job' })
    await server.advance(5_000)
    expect((await server.job(id)).state).toBe('completed')
  })

  test('the server may quiet it and end it', async () => {
    const { server, worker } = await stage((w) => w.handle('job', () => null))
    await server.post(`/ojs/v1/admin/workers/${worker.id}/quiet`)
    await server.advance(5_000)
    expect(worker.state).toBe('quiet')
    await server.post(`/ojs/v1/admin/workers/${worker.id}/terminate`)
    await server.advance(5_000)
    expect(worker.state).toBe('terminate')
    expect((await server.get('/ojs/v1/workers')).body['workers']).toEqual([])
  })
})

describe('a server that is away', () => {
  test('a worker that hears nothing stops its jobs before they may be given to others', async () => {
    let reason: unknown
    let isAway = false
    const server = await TestServer.open()
    const handler: TestServer['handler'] = async (request) => {
      if (isAway) throw new TypeError('connect ECONNREFUSED')
      const response = await server.handler(request)
      if (isAway) throw new TypeError('read ECONNRESET')
      return response
    }
    const line = { handler }
    const warned: string[] = []
    const say = (_fields: object, message: string): void => void warned.push(message)
    const worker = new Worker({
      server: line,
      host: server.clock,
      random: () => 0.5,
      log: { debug: () => {}, info: () => {}, warn: say, error: say },
    })
    worker.handle('long', (context) =>
      untilStopped(context).catch((error: unknown) => {
        reason = error
        throw error
      }),
    )
    await worker.start()
    const id = await server.enqueue({ type: 'long' })
    await idle()
    await server.advance(5_000)
    const [began, state] = [server.clock.now(), worker.state]
    isAway = true
    while (reason === undefined) await server.advance(100)
    expect(reason).toBeInstanceOf(LostLeaseError)
    expect(server.clock.now() - began).toBeLessThan(30_000)
    expect((await server.job(id)).state).toBe('active')
    expect(worker.state).toBe(state)
    isAway = false
    await server.advance(20_000)
    expect((await server.job(id)).attempt).toBeGreaterThan(1)
    expect((await server.job(id))['x_interruptions']).toBeGreaterThan(0)
  })

  test('a job that comes with an answer which hung for too long is not begun', async () => {
    const server = await TestServer.open({ settings: { workerTimeoutMs: seconds(3), heartbeatIntervalMs: seconds(1) } })
    const gate = latch()
    let isAway = false
    const handler: TestServer['handler'] = async (request) => {
      if (isAway && request.url.endsWith('/heartbeat')) throw new TypeError('connect ECONNREFUSED')
      const response = await server.handler(request)
      if (isAway) await gate.promise
      return response
    }
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
    const attempts: number[] = []
    const worker = new Worker({ server: { handler }, host: server.clock, random: () => 0.5, log: silent })
    worker.handle('job', ({ attempt }) => void attempts.push(attempt))
    await worker.start()
    await idle()
    isAway = true
    const id = await server.enqueue({ type: 'job' })
    await server.advance(8_000)
    expect(attempts).toEqual([])
    isAway = false
    gate.open()
    await server.advance(5_000)
    expect(attempts).toEqual([2])
    expect((await server.job(id)).state).toBe('completed')
  })

  test('a worker that was forgotten registers again', async () => {
    const { server, worker } = await stage((w) => w.handle('job', () => null))
    await server.post('/ojs/v1/admin/reset')
    await server.advance(20_000)
    expect((await server.get(`/ojs/v1/workers/${worker.id}`)).body).toMatchObject({ registered: true })
  })
})

describe('progress, checkpoints and signs of life', () => {
  test('what an attempt saved is there for the next one', async () => {
    const seen: unknown[] = []
    const { server } = await stage((worker) =>
      worker.handle('import', { timeout: '10s', gracePeriod: '2s' }, async (context) => {
        seen.push(context.lastCheckpoint)
        if (context.attempt > 1) return 'done'
        await context.checkpoint({ row: 1 })
        await untilStopped(context).catch(() => {})
        void context.checkpoint({ row: 2 })
        void context.checkpoint({ row: 3 })
        throw new Error('stopped')
      }),
    )
    const id = await server.enqueue({ type: 'import' })
    await server.advance(12_000)
    expect(seen).toEqual([null, { row: 3 }])
    expect((await server.job(id)).state).toBe('completed')
  })

  test('progress is shown while the job runs', async () => {
    const gate = latch()
    const { server } = await stage((worker) =>
      worker.handle('film', async (context) => {
        await context.progress(0.4, 'frame 400')
        await gate.promise
      }),
    )
    const id = await server.enqueue({ type: 'film' })
    await idle()
    expect(await server.job(id)).toMatchObject({ progress: 0.4, progress_message: 'frame 400' })
    gate.open()
    await until(server, id, 'completed')
  })

  test('beats keep a silent handler alive, however long it takes', async () => {
    const gate = latch()
    const { server } = await stage((worker) => worker.handle('long', { timeout: '2h' }, () => gate.promise))
    const id = await server.enqueue({ type: 'long' })
    await server.advance(60 * 60_000)
    gate.open()
    await until(server, id, 'completed')
  })

  test('with manual heartbeats only signs of the handler itself keep it alive', async () => {
    let reason: unknown
    const { server } = await stage((worker) =>
      worker.handle('careful', { heartbeat: 'manual', heartbeatTimeout: '20s' }, async (context) => {
        await new Promise<void>((resolve) => server.clock.setTimer(15_000, resolve))
        void context.heartbeat()
        await untilStopped(context).catch((error: unknown) => (reason = error))
        throw new Error('stopped')
      }),
    )
    const id = await server.enqueue({ type: 'careful' })
    await server.advance(34_900)
    expect((await server.job(id)).state).toBe('active')
    expect(reason).toBeUndefined()
    await server.advance(5_200)
    expect((await server.job(id)).errors[0]?.type).toBe('stalled')
    expect(reason).toMatchObject({ kind: 'stalled' })
  })

  test('a child inherits what is left of its parent', async () => {
    const child = defineJob('child')
    const { server } = await stage((worker) =>
      worker
        .handle('parent', { timeout: '1m' }, async (context) => {
          await context.enqueue(child, [], { inheritDeadline: true })
        })
        .handle(child, () => null),
    )
    await server.enqueue({ type: 'parent', total_timeout: 40 })
    await idle()
    const { jobs } = (await server.get('/ojs/v1/jobs?type=child')).body
    expect(jobs[0]).toMatchObject({ x_limits: { total_ms: 40_000, sources: { total: 'parent' } } })
  })
})

test('middleware wraps every attempt, the first outermost', async () => {
  const seen: string[] = []
  const layer =
    (name: string) =>
    async (_context: Context, next: () => Promise<unknown>): Promise<unknown> => {
      seen.push(`${name} in`)
      const result = await next()
      seen.push(`${name} out`)
      return result
    }
  const { server } = await stage((worker) =>
    worker
      .use(layer('a'))
      .use(layer('b'))
      .handle('job', () => seen.push('run')),
  )
  const id = await server.enqueue({ type: 'job' })
  await until(server, id, 'completed')
  expect(seen).toEqual(['a in', 'b in', 'run', 'b out', 'a out'])
})
