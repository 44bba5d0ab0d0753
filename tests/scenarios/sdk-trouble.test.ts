/** The SDK's worker and a server that refuses, is away, or cannot do everything. */
import { expect, test } from 'vitest'
import { Worker } from '@curfew/sdk'
import type { Handler } from '../../packages/server/src/http/api/app.ts'
import { TestServer } from '../harness.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

test('one failure that the server does not accept does not hold up the other reports of the worker', async () => {
  const server = await TestServer.open()
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, log: silent, concurrency: 2 })
  worker.handle('odd', () => {
    throw Object.assign(new Error('no'), { code: 'x'.repeat(2_000) })
  })
  worker.handle('fine', () => 'done')
  await worker.start()
  await server.enqueue({ type: 'odd' })
  await server.advance(100)
  const fine = await server.enqueue({ type: 'fine' })
  await server.advance(20_000)
  expect(await server.job(fine)).toMatchObject({ state: 'completed' })
})

test('a worker with more than a thousand slots gets jobs', async () => {
  const server = await TestServer.open()
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, log: silent, concurrency: 1_500 })
  worker.handle('fine', () => 'done')
  await worker.start()
  const fine = await server.enqueue({ type: 'fine' })
  await server.advance(5_000)
  expect(await server.job(fine)).toMatchObject({ state: 'completed' })
})

test('reports without an answer are not taken for an answer of the server', async () => {
  const server = await TestServer.open()
  let isDown = false
  const handler: Handler = (request) => {
    if (isDown) return Promise.reject(new Error('connection refused'))
    return server.handler(request)
  }
  const logged: string[] = []
  const say = (_fields: object, message: string): void => void logged.push(message)
  const log = { ...silent, warn: say }
  const worker = new Worker({
    server: { handler },
    host: server.clock,
    random: () => 0.5,
    log,
    concurrency: 2,
    exchange: false,
    retries: 0,
  })
  let finish: () => void = () => {}
  const reasons: unknown[] = []
  worker.handle('short', () => new Promise<void>((resolve) => (finish = resolve)))
  worker.handle(
    'long',
    ({ signal }) =>
      new Promise<void>(() => {
        signal.addEventListener('abort', () => void reasons.push(signal.reason))
      }),
  )
  await worker.start()
  await server.enqueue({ type: 'long' })
  await server.enqueue({ type: 'short' })
  await server.advance(2_000)
  expect(worker.active).toBe(2)
  isDown = true
  worker.quiet()
  finish()
  await server.advance(40_000)
  expect(logged.filter((message) => message === 'the server answers again')).toEqual([])
  expect(reasons).toHaveLength(1)
})

test('a handler that stalls in every attempt uses up its attempts', async () => {
  const server = await TestServer.open()
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, log: silent, concurrency: 1 })
  let starts = 0
  worker.handle('stalls', { heartbeatTimeout: '10s', heartbeat: 'manual' }, async (ctx) => {
    starts += 1
    await new Promise((resolve) => server.clock.setTimer(500, () => resolve(undefined)))
    await ctx.heartbeat()
    await new Promise((_resolve, reject) => {
      ctx.signal.addEventListener('abort', () => {
        reject(ctx.signal.reason as Error)
      })
    })
  })
  await worker.start()
  const id = await server.enqueue({ type: 'stalls', retry: { max_attempts: 2, initial_interval: 'PT1S' } })
  for (let second = 0; second < 300; second += 1) await server.advance(1_000)
  expect(starts).toBe(2)
  expect(await server.job(id)).toMatchObject({ state: 'discarded' })
})

test('a server without beats is not taken for one that does not answer', async () => {
  const server = await TestServer.open()
  const handler: Handler = (request) =>
    request.url === '/ojs/manifest' || /\/workers\/(register|deregister|heartbeat)$/.test(request.url)
      ? Promise.resolve({ status: 404, headers: {}, body: '{"error":{"code":"not_found","message":"no such path"}}' })
      : server.handler(request)
  const logged: string[] = []
  const log = { ...silent, warn: (_fields: object, message: string): void => void logged.push(message) }
  const worker = new Worker({ server: { handler }, host: server.clock, random: () => 0.5, log })
  worker.handle('fine', () => 'done')
  await worker.start()
  await server.advance(60_000)
  expect(logged.length).toBeLessThan(3)
})
