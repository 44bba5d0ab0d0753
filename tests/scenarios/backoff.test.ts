/** How long a job waits before it is tried again. */
import { expect, test } from 'vitest'
import { TestServer } from '../harness.ts'

const POLICIES: [string, Record<string, unknown>, number[]][] = [
  ['exponential by default', {}, [1_000, 2_000, 4_000, 8_000]],
  ['exponential with a coefficient', { backoff_coefficient: 3 }, [1_000, 3_000, 9_000, 27_000]],
  ['constant', { backoff_strategy: 'constant', initial_interval: 'PT7S' }, [7_000, 7_000, 7_000, 7_000]],
  ['none', { backoff: 'none' }, [1_000, 1_000, 1_000, 1_000]],
  ['linear', { backoff_type: 'linear', initial_interval_ms: 500 }, [500, 1_000, 1_500, 2_000]],
  ['polynomial', { strategy: 'polynomial', backoff_coefficient: 2 }, [1_000, 4_000, 9_000, 16_000]],
  ['held down by max_interval', { max_interval: 'PT3S' }, [1_000, 2_000, 3_000, 3_000]],
  ['in camel case', { initialInterval: 'PT2S', backoffCoefficient: 1 }, [2_000, 2_000, 2_000, 2_000]],
  ['longer than the default maximum', { initial_interval: 'PT10M' }, [600_000, 600_000, 600_000, 600_000]],
]

test.each(POLICIES)('%s', async (_, policy, delays) => {
  const server = await TestServer.open()
  const id = await server.enqueue({ retry: { max_attempts: 9, jitter: false, ...policy } })
  for (const delay of delays) {
    await server.fetch()
    expect((await server.nack(id)).body.retry_delay_ms).toBe(delay)
    await server.advance(delay - 1)
    expect((await server.job(id)).state).toBe('retryable')
    await server.advance(1)
    expect(await server.job(id)).toMatchObject({ state: 'available', retry_delay_ms: delay })
  }
  expect((await server.fetch()).body.job.retry_delay_ms).toBe(delays.at(-1))
})

test.each([
  [0, 500],
  [0.5, 1_000],
  [0.999, 1_499],
])('jitter takes between half and one and a half of it (chance %f)', async (chance, delay) => {
  const server = await TestServer.open({ random: () => chance })
  const { id } = await server.start({ id: '01890000-0000-7000-8000-00000000000a' })
  expect((await server.nack(id)).body.retry_delay_ms).toBe(delay)
})

test('jitter never goes beyond max_interval', async () => {
  const server = await TestServer.open({ random: () => 0.999 })
  const retry = { initial_interval: 'PT10S', max_interval: 'PT10S' }
  const { id } = await server.start({ id: '01890000-0000-7000-8000-00000000000a', retry })
  expect((await server.nack(id)).body.retry_delay_ms).toBe(10_000)
})

test('a handler says when to try again, and the server refuses what is not a moment', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 3, max_interval: 'PT3S' }, total_timeout: 600 })
  const nack = (at: unknown): Promise<unknown> => server.nack(id, { type: 'Busy', message: 'later', x_retry_at: at })
  await expect(nack('soon')).resolves.toMatchObject({ status: 400 })
  await expect(nack('+PT90S')).resolves.toMatchObject({
    status: 200,
    body: { state: 'retryable', retry_delay_ms: 90_000 },
  })
  await server.advance(90_000)
  await server.fetch()
  await expect(nack('+PT1H')).resolves.toMatchObject({ body: { state: 'discarded' } })
  expect((await server.job(id)).error).toMatchObject({ type: 'total_timeout' })
})
