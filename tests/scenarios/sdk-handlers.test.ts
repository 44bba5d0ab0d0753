/** What handlers see of their attempt, and how a worker finds them, on a clock turned by hand. */
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { CurfewError, DeadlineError, Worker, type Context, type WorkerSettings } from '@curfew/sdk'
import { idle, TestServer } from '../harness.ts'

const HANDLERS = new URL('../process/handlers/', import.meta.url)

function workerOf(server: TestServer, settings: WorkerSettings = {}): Worker {
  const quiet = (): void => {}
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  return new Worker({ server, host: server.clock, random: () => 0.5, log, ...settings })
}

function aborted({ signal }: Context): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      resolve()
    })
  })
}

describe('clean-up in the grace', () => {
  test('gets a budget of its own within what is left, and its result counts', async () => {
    const seen: unknown[] = []
    const server = await TestServer.open()
    const worker = workerOf(server)
    worker.handle('upload', { timeout: '10s', gracePeriod: '4s' }, async (ctx) => {
      seen.push(ctx.graceRemaining())
      await aborted(ctx)
      seen.push(ctx.remaining(), ctx.graceRemaining())
      await ctx
        .withBudget('1s', () => new Promise(() => {}))
        .catch((error: unknown) => seen.push((error as DeadlineError).kind))
      seen.push(ctx.graceRemaining())
      return ctx.withBudget('1s', (signal) => (signal.aborted ? 'too late' : 'cleaned up'))
    })
    await worker.start()
    const id = await server.enqueue({ type: 'upload' })
    await server.advance(10_000)
    await server.advance(1_000)
    await idle()
    expect(seen).toEqual([4_000, 0, 4_000, 'budget', 3_000])
    expect(await server.job(id)).toMatchObject({ state: 'completed', result: 'cleaned up' })
  })

  test('of a shutdown has the two seconds that a shutdown leaves', async () => {
    let left: number | null = null
    const server = await TestServer.open()
    const worker = workerOf(server)
    worker.handle('long', async (ctx) => {
      await aborted(ctx)
      left = ctx.graceRemaining()
      throw ctx.signal.reason
    })
    await worker.start()
    await server.enqueue({ type: 'long' })
    await idle()
    const stopped = worker.stop({ drain: { ms: 0 } })
    await server.advance(10)
    await stopped
    expect(left).toBe(2_000)
  })
})

test('a job that was handed back is not on a later attempt for its handler', async () => {
  const seen: [number, number | null][] = []
  const server = await TestServer.open()
  const start = async (): Promise<Worker> => {
    const worker = workerOf(server)
    worker.handle('long', async (ctx) => {
      seen.push([ctx.attempt, ctx.maxAttempts])
      await aborted(ctx)
      throw ctx.signal.reason
    })
    await worker.start()
    await idle()
    return worker
  }
  const id = await server.enqueue({ type: 'long', retry: { max_attempts: 1 } })
  for (let round = 0; round < 3; round += 1) {
    const worker = await start()
    const stopped = worker.stop({ drain: { ms: 0 } })
    await server.advance(10)
    await stopped
  }
  expect(await server.job(id)).toMatchObject({ state: 'available', attempt: 3, x_interruptions: 3 })
  expect(seen).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ])
})

describe('a module that is given for an inline handler', () => {
  test.each<[string, string, string, string]>([
    ['is missing', 'missing.mjs', 'handler', 'module_not_found'],
    ['imports what is missing', 'broken.mjs', 'handler', 'module_not_found'],
    ['has no such export', 'erasable.ts', 'transcode', 'export_not_found'],
  ])('and %s makes the start fail before anything is registered', async (_how, file, exportName, code) => {
    const server = await TestServer.open()
    const module = new URL(file, HANDLERS)
    const worker = workerOf(server).handle('video.cut', { module, exportName })
    const error: unknown = await worker.start().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(CurfewError)
    expect(error).toMatchObject({ code, message: expect.stringContaining('The handler of video.cut cannot run') })
    expect((error as Error).message).toContain(module.href)
    expect((await server.get('/ojs/v1/workers')).body['workers']).toEqual([])
  })

  test('runs under either of its names', async () => {
    const server = await TestServer.open()
    const worker = workerOf(server).handle('video.cut', {
      module: fileURLToPath(new URL('erasable.js', HANDLERS)),
      exportName: 'handler',
    })
    await worker.start()
    const id = await server.enqueue({ type: 'video.cut', args: ['v1'] })
    await expect.poll(async () => (await server.job(id)).state).toBe('completed')
    expect((await server.job(id))['result']).toBe('v1 vp9')
  })
})
