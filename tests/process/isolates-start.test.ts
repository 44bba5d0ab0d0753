/** A worker with handlers in isolates, at its start and at deadlines that come before an isolate is there. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Client, CurfewError, defineJob, Worker, type JobView } from '@curfew/sdk'
import { silentLog } from '../../packages/sdk/src/log.ts'
import { BOTH, moduleUrl } from './isolate-stage.ts'
import { ServerProcess, until } from './server-process.ts'

let server: ServerProcess
let client: Client
beforeEach(async () => {
  server = await ServerProcess.start()
  client = new Client({ url: server.url })
})
afterEach(async () => {
  await client.close()
  await server.stop()
})

const url = (module: string): URL => new URL(moduleUrl(module))

async function workers(): Promise<unknown> {
  const answer = await fetch(`${server.url}/ojs/v1/workers`)
  return ((await answer.json()) as { workers: unknown }).workers
}

describe.each(BOTH)('in a %s', (isolation) => {
  test.each([
    ['missing.mjs', 'handler', 'module_not_found', 'deploy it with the worker'],
    ['broken.mjs', 'handler', 'module_not_found', 'does-not-exist.mjs'],
    ['handlers.mjs', 'missing', 'export_not_found', 'exportName'],
  ])(
    'the start fails before the worker is registered when a handler cannot run: %s %s',
    async (file, exportName, code, words) => {
      const worker = new Worker({ url: server.url, log: silentLog })
      worker.handle('fine', { module: url('handlers.mjs'), exportName: 'add', isolation })
      worker.handle('video.cut', { module: url(file), exportName, isolation })
      const error: unknown = await worker.start().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(CurfewError)
      expect(error).toMatchObject({ code, details: { handlers: [{ types: ['video.cut'] }] } })
      for (const word of ['The handler of video.cut cannot run', moduleUrl(file), words])
        expect((error as Error).message).toContain(word)
      expect(await workers()).toEqual([])
      await worker.stop()
    },
  )

  test('two handlers of one module are found, with room for one isolate only', async () => {
    const worker = new Worker({ url: server.url, concurrency: 1, log: silentLog })
    worker.handle('add', { module: url('handlers.mjs'), exportName: 'add', isolation })
    worker.handle('where', { module: url('handlers.mjs'), exportName: 'whereAmI', isolation })
    await worker.start()
    const job = await client.enqueue(defineJob('add'), [2, 3])
    expect(await client.waitForResult(job)).toBe(5)
    await worker.stop()
  })

  test('a stop while the modules are being loaded ends the start', async () => {
    const worker = new Worker({ url: server.url, log: silentLog })
    worker.handle('slow', { module: url('slow-module.mjs'), exportName: 'handler', isolation })
    const started = worker.start()
    await worker.stop({ drain: { ms: 0 } })
    await started
    expect(await workers()).toEqual([])
  })

  test('a deadline that comes while the isolate is starting is reported as that', async () => {
    const worker = new Worker({ url: server.url, concurrency: 1, log: silentLog })
    const limits = { timeout: { ms: 300 }, gracePeriod: '20s', onTimeout: 'discard' } as const
    worker.handle('slow', { module: url('slow-module.mjs'), exportName: 'handler', isolation, ...limits })
    // The last one to be checked has the only room: the isolate of the other one is gone.
    worker.handle('add', { module: url('handlers.mjs'), exportName: 'add', isolation })
    await worker.start()
    const { id } = await client.enqueue(defineJob('slow'), [])
    const job = await until('the job is over', async (): Promise<JobView | null> => {
      const seen = await client.get(id)
      return seen.state === 'discarded' ? seen : null
    })
    expect(job.errors?.at(-1)).toMatchObject({
      type: 'timeout',
      message: 'Timed out after 0.3s (the isolate was still starting; the handler had not begun).',
      details: { ended: 'not_begun', isolate_start_ms: expect.any(Number) },
    })
    await worker.stop()
  })
})
