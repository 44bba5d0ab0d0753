/** A step of the wall clock, an hour ahead or back, ends nothing early and lets nothing live longer. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { EventSource } from './event-source.ts'
import { pause, ServerProcess, until, type StartOptions } from './server-process.ts'

const HOUR_MS = 3_600_000
const LIMIT_MS = 1_500
const preload = fileURLToPath(new URL('shifted-clock.mjs', import.meta.url))
const shiftable: StartOptions = { node: ['--import', preload], channel: true }

test.each([
  ['ahead', HOUR_MS],
  ['back', -HOUR_MS],
])('an hour %s moves nothing that is in flight', async (_, shiftMs) => {
  const server = await ServerProcess.start(shiftable)
  const stream = await EventSource.open(server, '/ojs/v1/events/stream')
  const began = performance.now()
  const endings = {
    'job.ttl_expired': await waiting(server, { enqueue_ttl_ms: LIMIT_MS }),
    'job.total_timeout': await waiting(server, { total_timeout_ms: LIMIT_MS }),
    'job.timeout': await claimed(server, { timeout_ms: LIMIT_MS }),
    'job.stalled': await claimed(server, { heartbeat_timeout_ms: LIMIT_MS }),
    'job.retrying': await claimed(server, { visibility_timeout_ms: LIMIT_MS }),
  }
  await server.tell({ shiftMs })
  expect(Math.abs((await server.get('/health')).body.clock_offset_ms - shiftMs)).toBeLessThan(plusLag(1_000))

  // Nothing ends early: asked again and again until shortly before the end.
  while (performance.now() - began < LIMIT_MS - 300) {
    for (const id of Object.values(endings)) {
      const { error } = await server.job(id)
      if (performance.now() - began < LIMIT_MS) expect(error).toBeUndefined()
    }
    await pause(50)
  }
  // Nothing lives longer, and its times are on the clock they were promised on.
  for (const [event, id] of Object.entries(endings)) {
    await stream.frame(event, id)
    const { error, created_at } = await server.job(id)
    expect(error.elapsed_seconds ?? LIMIT_MS / 1000).toBeLessThan(plusLag(LIMIT_MS + 500) / 1_000)
    expect(Math.abs(Date.parse(error.occurred_at as string) - Date.parse(created_at as string))).toBeLessThan(
      plusLag(3_000),
    )
  }
  expect(performance.now() - began).toBeLessThan(plusLag(LIMIT_MS + 1_000))
  await server.stop()
})

test('a wall clock set back while no server was up does not make the time run twice', async () => {
  const server = await ServerProcess.start(shiftable)
  const id = await waiting(server, { enqueue_ttl_ms: LIMIT_MS })
  const { created_at } = await server.job(id)
  await server.kill()
  const back = fileURLToPath(new URL('hour-back.mjs', import.meta.url))
  const again = await ServerProcess.start({ data: server.data, node: ['--import', back] })
  const ended = await until('the TTL ends the job', async () => (await again.job(id)).error as { occurred_at: string })
  // It had LIMIT_MS to live, and an outage of unknown length in between: at worst it is not held against the job.
  const livedMs = Date.parse(ended.occurred_at) - Date.parse(created_at as string)
  expect(livedMs).toBeGreaterThanOrEqual(LIMIT_MS)
  expect(livedMs).toBeLessThan(plusLag(LIMIT_MS + 500))
  await again.stop()
})

async function waiting(server: ServerProcess, options: object): Promise<string> {
  return (await server.enqueue({ queue: 'waiting', options })).id as string
}

async function claimed(server: ServerProcess, options: object): Promise<string> {
  const { id } = await server.enqueue({ queue: 'claimed', options: { timeout_ms: 60_000, ...options } })
  await server.fetch({ queues: ['claimed'] })
  return id as string
}
