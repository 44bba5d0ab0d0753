/** Foresight: what the limits of a job mean together, without storing anything; and that it comes true. */
import { expect, test } from 'vitest'
import { seconds } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

interface Plan {
  readonly limits: object
  readonly wins: { stage: string; limit: string; source: string; after_ms: number }[]
  readonly attempts: { attempt: number; starts_after_ms: number; fits: boolean }[]
  readonly warnings: string[]
}

async function plan(server: TestServer, job: Record<string, unknown>): Promise<Plan> {
  return (await server.post('/ojs/v1/jobs/plan', { type: 'a', args: [], ...job })).body as unknown as Plan
}

test('a plain job: the default timeout ends each attempt, the attempts its life', async () => {
  const server = await TestServer.open()
  expect(await plan(server, { retry: { jitter: false } })).toEqual({
    limits: { timeout_ms: 1_800_000, on_timeout: 'retry', sources: { timeout: 'default', on_timeout: 'default' } },
    wins: [
      { stage: 'attempt', limit: 'timeout', source: 'default', after_ms: 1_830_000 },
      { stage: 'life', limit: 'max_attempts', source: 'publish', after_ms: 3 * 1_830_000 + 3_000 },
    ],
    attempts: [
      { attempt: 1, starts_after_ms: 0, fits: true },
      { attempt: 2, starts_after_ms: 1_831_000, fits: true },
      { attempt: 3, starts_after_ms: 3_663_000, fits: true },
    ],
    warnings: [],
  })
})

test('a total says which attempts still fit, and the server then does just that', async () => {
  const server = await TestServer.open()
  const job = { timeout: 10, grace_period: 0, total_timeout: 25, retry: { jitter: false } }
  const { wins, attempts, warnings } = await plan(server, job)
  expect(wins).toEqual([
    { stage: 'waiting', limit: 'total_timeout', source: 'publish', after_ms: 25_000 },
    { stage: 'attempt', limit: 'timeout', source: 'publish', after_ms: 10_000 },
    { stage: 'life', limit: 'total_timeout', source: 'publish', after_ms: 25_000 },
  ])
  expect(attempts.map(({ fits }) => fits)).toEqual([true, true, false])
  expect(warnings).toHaveLength(1)
  const { id } = await server.start(job)
  await server.advance(11_000)
  await server.fetch()
  await server.advance(10_000)
  expect(await server.job(id)).toMatchObject({ state: 'discarded', attempt: 2, error: { type: 'total_timeout' } })
})

test('the earliest of TTL, expires_at and total wins the waiting', async () => {
  const server = await TestServer.open()
  const waiting = async (job: Record<string, unknown>) => (await plan(server, job)).wins[0]
  expect(await waiting({ enqueue_ttl: 5, total_timeout: 9 })).toMatchObject({ limit: 'enqueue_ttl', after_ms: 5_000 })
  expect(await waiting({ enqueue_ttl: 5, expires_at: '+PT4S' })).toMatchObject({ limit: 'expires_at', after_ms: 4_000 })
  expect(await waiting({ enqueue_ttl: 5, total_timeout: 5 })).toMatchObject({ limit: 'total_timeout' })
})

test('on a tie of total and attempt the plan names the one the server will name', async () => {
  const server = await TestServer.open()
  const job = { timeout: 10, grace_period: 5, total_timeout: 15 }
  const { wins } = await plan(server, job)
  expect(wins.find(({ stage }) => stage === 'attempt')).toMatchObject({ limit: 'total_timeout' })
  const { id } = await server.start(job)
  await server.advance(15_000)
  expect((await server.job(id)).error.type).toBe('total_timeout')
})

const LAST: [string, Record<string, unknown>, RegExp][] = [
  ['x_on_timeout discards', { x_on_timeout: 'discard' }, /x_on_timeout.*the last/],
  ['timeouts are not retried', { retry: { non_retryable_errors: ['timeout'] } }, /non_retryable_errors.*the last/],
]

test.each(LAST)(
  'where %s, one attempt is the whole life, and the server then does just that',
  async (_, more, warning) => {
    const server = await TestServer.open()
    const job = { timeout: 5, grace_period: 2, ...more }
    const { wins, attempts, warnings } = await plan(server, job)
    expect(wins).toEqual([
      { stage: 'attempt', limit: 'timeout', source: 'publish', after_ms: 7_000 },
      { stage: 'life', limit: 'timeout', source: 'publish', after_ms: 7_000 },
    ])
    expect(attempts.map(({ fits }) => fits)).toEqual([true, false, false])
    expect(warnings).toEqual([expect.stringMatching(warning)])
    const { id } = await server.start(job)
    await server.advance(7_000)
    expect(await server.job(id)).toMatchObject({ state: 'discarded', attempt: 1, error: { type: 'timeout' } })
  },
)

test('a moment of expiry that has passed is the end of everything, and the enqueue says so too', async () => {
  const server = await TestServer.open()
  const job = { expires_at: '2020-01-01T00:00:00Z' }
  const { wins, attempts, warnings } = await plan(server, job)
  expect(wins.at(-1)).toEqual({ stage: 'life', limit: 'expires_at', source: 'publish', after_ms: 0 })
  expect(attempts.some(({ fits }) => fits)).toBe(false)
  expect(warnings).toEqual([expect.stringMatching(/expires_at.*at once/)])
  const { body } = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...job })
  expect(body.job).toMatchObject({ state: 'discarded', error: { type: 'expired' }, x_warnings: warnings })
})

test('a schedule shifts the attempts', async () => {
  const server = await TestServer.open()
  const { attempts } = await plan(server, {
    scheduled_at: '+PT60S',
    timeout: 10,
    grace_period: 0,
    retry: { jitter: false },
  })
  expect(attempts.map(({ starts_after_ms }) => starts_after_ms)).toEqual([60_000, 71_000, 83_000])
})

const WARNED: [string, Record<string, unknown>, RegExp][] = [
  ['a TTL that ends before the schedule', { scheduled_at: '+PT60S', enqueue_ttl: 10 }, /enqueue_ttl/],
  ['a total that ends before the schedule', { scheduled_at: '+PT60S', total_timeout: 10 }, /total_timeout/],
  ['a grace that the total cuts', { timeout: 10, grace_period: 60, total_timeout: 20 }, /grace_period/],
  ['a stall clock that can never fire', { timeout: 10, grace_period: 0, heartbeat_timeout: 60 }, /heartbeat_timeout/],
  ['a reservation shorter than the timeout', { timeout: 60, visibility_timeout: 10 }, /visibility_timeout/],
  ['retries that a discard forbids', { timeout: 10, x_on_timeout: 'discard' }, /x_on_timeout/],
]

test.each(WARNED)('%s is warned about', async (_, job, warning) => {
  const server = await TestServer.open()
  expect((await plan(server, job)).warnings.join('\n')).toMatch(warning)
})

test('policies, queue defaults and caps are in the plan, with their sources', async () => {
  const server = await TestServer.open({ limits: { caps: { total: seconds(100) } } })
  await server.call('PUT', '/api/v1/job-types/a', { timeout: 200 })
  await server.call('PUT', '/ojs/v1/admin/queues/q/config', { default_enqueue_ttl: 7 })
  const { limits, warnings } = await plan(server, { queue: 'q', total_timeout: 500 })
  expect(limits).toMatchObject({
    timeout_ms: 100_000,
    total_ms: 100_000,
    enqueue_ttl_ms: 7_000,
    ttl_deadline: at(7_000),
    sources: { timeout: 'type', total: 'cap', ttl: 'queue' },
  })
  expect(warnings.join()).toMatch(/cap/)
})

test('a plan stores nothing and sends no event', async () => {
  const server = await TestServer.open()
  await plan(server, {})
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
  expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
  expect(await server.events()).toEqual([])
})

test('a job that would be refused is refused in the plan', async () => {
  const server = await TestServer.open()
  expect((await server.post('/ojs/v1/jobs/plan', { type: 'a', args: [], timeout: 0 })).status).toBe(422)
  expect((await server.post('/ojs/v1/jobs/plan', { args: [] })).status).toBe(400)
})
