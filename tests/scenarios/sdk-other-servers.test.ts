/** The SDK on a server that speaks the Open Job Spec and knows nothing of ours. */
import { expect, test } from 'vitest'
import { defineJob, UnsupportedError, Worker, type Context, type WorkerSettings } from '@curfew/sdk'
import type { Handler } from '../../packages/server/src/http/api/app.ts'
import { idle, TestServer } from '../harness.ts'

interface Plain {
  readonly server: TestServer
  readonly handler: Handler
  /** Every path that was called, and every field of ours that was sent. */
  readonly paths: Set<string>
  readonly foreign: string[]
}

/** Ours, with everything taken away that is ours alone: in answers, in the manifest, and registration altogether. */
async function plainServer(): Promise<Plain> {
  const server = await TestServer.open()
  const paths = new Set<string>()
  const foreign: string[] = []
  const handler: Handler = async (request) => {
    const path = request.url.split('?')[0] ?? ''
    paths.add(path.replace(/[0-9a-f-]{36}/, ':id'))
    for (const [, key] of request.body.matchAll(/"(x_\w+|wait_ms|seq)":/g)) foreign.push(`${path} ${String(key)}`)
    if (/\/workers\/(register|deregister|exchange)$/.test(path) || path === '/ojs/v1/jobs/bulk')
      return { status: 404, headers: {}, body: '{"error":{"code":"not_found","message":"no such path"}}' }
    const response = await server.handler(request)
    if (typeof response.body !== 'string') return response
    const body = JSON.stringify(JSON.parse(response.body === '' ? '{}' : response.body), (key, value: unknown) => {
      if (key === 'extensions') return (value as string[]).filter((name) => !name.startsWith('urn:curfew:'))
      return key.startsWith('x_') ? undefined : value
    })
    return { ...response, body }
  }
  return { server, handler, paths, foreign }
}

async function startWorker(
  plain: Plain,
  prepare: (worker: Worker) => void,
  settings: WorkerSettings = {},
): Promise<Worker> {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const { handler, server } = plain
  const worker = new Worker({ server: { handler }, host: server.clock, random: () => 0.5, log: silent, ...settings })
  prepare(worker)
  await worker.start()
  await idle()
  return worker
}

function untilStopped({ signal }: Context): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error)
    })
  })
}

test('jobs are run, retried and reported, call by call, and nothing of ours is sent', async () => {
  const plain = await plainServer()
  const { server, paths, foreign } = plain
  await startWorker(plain, (worker) =>
    worker.handle('flaky', ({ attempt }) => {
      if (attempt === 1) throw new Error('once')
      return 'done'
    }),
  )
  const id = await server.enqueue({ type: 'flaky' })
  await server.advance(10_000)
  expect(await server.job(id)).toMatchObject({ state: 'completed', attempt: 2, result: 'done' })
  expect(foreign).toEqual([])
  expect([...paths]).toEqual(
    expect.arrayContaining(['/ojs/v1/workers/fetch', '/ojs/v1/workers/ack', '/ojs/v1/workers/nack']),
  )
  expect([...paths]).not.toContain('/ojs/v1/workers/exchange')
})

test('limits are kept here: those of the job, or else those of the handler', async () => {
  const plain = await plainServer()
  const reasons: unknown[] = []
  await startWorker(plain, (worker) =>
    worker.handle('slow', { timeout: '20s', gracePeriod: '1s' }, (context) =>
      untilStopped(context).catch((error: unknown) => {
        reasons.push(error)
        throw error
      }),
    ),
  )
  const own = await plain.server.enqueue({ type: 'slow', timeout: 5, retry: { max_attempts: 1 } })
  const byHandler = await plain.server.enqueue({ type: 'slow', retry: { max_attempts: 1 } })
  await plain.server.advance(6_500)
  expect(reasons).toMatchObject([{ kind: 'execution', limitMs: 5_000, source: 'publish' }])
  await plain.server.advance(16_000)
  expect(reasons[1]).toMatchObject({ kind: 'execution', limitMs: 20_000, source: 'handler' })
  for (const id of [own, byHandler])
    expect(await plain.server.job(id)).toMatchObject({ state: 'discarded', errors: [{ type: 'timeout' }] })
  expect(plain.foreign).toEqual([])
})

test('a worker beats, obeys and leaves as everywhere', async () => {
  const plain = await plainServer()
  const { server } = plain
  const worker = await startWorker(plain, (w) => w.handle('long', untilStopped), { drain: '1s' })
  const id = await server.enqueue({ type: 'long', timeout: 3_600 })
  await server.advance(120_000)
  expect((await server.job(id)).state).toBe('active')
  const stopped = worker.stop()
  await server.advance(2_000)
  await stopped
  expect((await server.job(id)).state).toBe('available')
  expect(plain.foreign).toEqual([])
})

test('what only our server can do is refused there, not left out in silence', async () => {
  const plain = await plainServer()
  const worker = await startWorker(plain, (w) => w.handle('any', () => null))
  const job = defineJob('any', { limits: { onTimeout: 'discard' } })
  await expect(worker.client.enqueue(job, [])).rejects.toBeInstanceOf(UnsupportedError)
  await worker.client.enqueue(defineJob('any'), [])
  expect(plain.foreign).toEqual([])
})
