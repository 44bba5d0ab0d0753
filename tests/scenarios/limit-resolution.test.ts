/** Whose word counts: publish > handler > type > (fetch) > queue > default, then caps; and how it is shown. */
import { expect, test } from 'vitest'
import { days, seconds } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

interface Shown {
  readonly visibility_ms?: number
  readonly total_ms?: number
  readonly enqueue_ttl_ms?: number
  readonly sources: Record<string, string>
}

const LIMITS = { timeout: 100, grace_period: 10, heartbeat_timeout: 40 }

async function serverWith(...speakers: ('publish' | 'handler' | 'type' | 'queue')[]) {
  const server = await TestServer.open()
  const scaled = (factor: number, prefix = ''): Record<string, number> =>
    Object.fromEntries(Object.entries(LIMITS).map(([key, value]) => [`${prefix}${key}`, value * factor]))
  await server.register('w', speakers.includes('handler') ? { handlers: { 'test.job': scaled(2) } } : {})
  if (speakers.includes('type')) await server.call('PUT', '/api/v1/job-types/test.job', scaled(3))
  if (speakers.includes('queue')) {
    await server.call('PUT', '/ojs/v1/admin/queues/default/config', scaled(4, 'default_'))
  }
  return server.start(speakers.includes('publish') ? scaled(1) : {}, { worker_id: 'w' })
}

test.each([
  ['publish', 1, ['publish', 'handler', 'type', 'queue']],
  ['handler', 2, ['handler', 'type', 'queue']],
  ['type', 3, ['type', 'queue']],
  ['queue', 4, ['queue']],
] as const)('%s speaks before those after it', async (source, factor, speakers) => {
  const { x_limits } = await serverWith(...speakers)
  expect(x_limits).toMatchObject({
    timeout_ms: 100_000 * factor,
    grace_ms: 10_000 * factor,
    heartbeat_timeout_ms: 40_000 * factor,
    sources: { timeout: source, grace: source, heartbeat: source },
  })
})

test('when no limit is set the defaults hold, and every field says so', async () => {
  const { x_limits } = await serverWith()
  expect(x_limits).toEqual({
    timeout_ms: 1_800_000,
    grace_ms: 30_000,
    heartbeat_timeout_ms: 60_000,
    visibility_ms: 1_830_000,
    on_timeout: 'retry',
    soft_deadline: at(1_800_000),
    soft_limit: 'timeout',
    hard_deadline: at(1_830_000),
    visibility_deadline: at(1_830_000),
    sources: {
      timeout: 'default',
      grace: 'default',
      heartbeat: 'default',
      visibility: 'default',
      on_timeout: 'default',
    },
    soft_ms: 1_800_000,
    hard_ms: 1_830_000,
    beat_ms: 60_000,
  })
})

test('before a claim, what depends on the worker is left out unless it was set', async () => {
  const server = await TestServer.open()
  const plain = await server.job(await server.enqueue())
  expect(plain.x_limits).toEqual({
    timeout_ms: 1_800_000,
    on_timeout: 'retry',
    sources: { timeout: 'default', on_timeout: 'default' },
  })
  const full = await server.job(
    await server.enqueue({
      timeout: 5,
      grace_period: 6,
      heartbeat_timeout: 7,
      visibility_timeout: 8,
      total_timeout: 9,
      enqueue_ttl: 4,
      x_on_timeout: 'discard',
    }),
  )
  expect(full.x_limits).toEqual({
    timeout_ms: 5_000,
    grace_ms: 6_000,
    heartbeat_timeout_ms: 7_000,
    visibility_ms: 8_000,
    total_ms: 9_000,
    enqueue_ttl_ms: 4_000,
    on_timeout: 'discard',
    total_deadline: at(9_000),
    ttl_deadline: at(4_000),
    sources: {
      timeout: 'publish',
      grace: 'publish',
      heartbeat: 'publish',
      visibility: 'publish',
      total: 'publish',
      ttl: 'publish',
      on_timeout: 'publish',
    },
  })
})

test('deadlines of the attempt are shown while it is active and not after', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 5, total_timeout: 12 })
  expect((await server.job(id)).x_limits).toMatchObject({
    soft_deadline: at(7_000),
    soft_limit: 'total',
    hard_deadline: at(12_000),
    total_deadline: at(12_000),
  })
  await server.ack(id)
  const { x_limits } = await server.job(id)
  for (const key of ['soft_deadline', 'soft_limit', 'hard_deadline', 'visibility_deadline'])
    expect(x_limits).not.toHaveProperty(key)
})

test('lengths in the answer to a fetch count from that answer', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 10, total_timeout: 12, grace_period: 5, heartbeat_timeout: 8 })
  await server.advance(4_000)
  const { job, server_time } = (await server.fetch()).body
  expect(server_time).toBe(at(4_000))
  expect(job).toMatchObject({ id, x_limits: { soft_ms: 3_000, hard_ms: 8_000, beat_ms: 8_000 } })
})

test('the order for visibility: publish, type, fetch, queue, default', async () => {
  const server = await TestServer.open()
  const put = (path: string, body: object) => server.call('PUT', path, body)
  await put('/api/v1/job-types/by.type', { visibility_timeout: 20 })
  await put('/ojs/v1/admin/queues/default/config', { default_visibility_timeout: 40 })
  const fetch = { visibility_timeout_ms: 30_000 }
  const limits = async (job: object, asked: object) => (await server.start({ ...job }, { ...asked })).x_limits as Shown
  const shown = [
    await limits({ type: 'by.type', visibility_timeout: 10 }, fetch),
    await limits({ type: 'by.type' }, fetch),
    await limits({}, fetch),
    await limits({}, {}),
    await limits({}, { visibility_timeout_ms: 0 }),
    await limits({ queue: 'other' }, {}),
  ]
  expect(shown.map(({ visibility_ms, sources }) => [visibility_ms, sources['visibility']])).toEqual([
    [10_000, 'publish'],
    [20_000, 'type'],
    [30_000, 'fetch'],
    [40_000, 'queue'],
    [40_000, 'queue'],
    [1_800_000, 'default'],
  ])
})

test('totals and TTLs come from publish, type or queue', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/api/v1/job-types/by.type', { total_timeout: 300, enqueue_ttl: 30 })
  const config = { default_total_timeout: 400, default_enqueue_ttl_ms: 40_000 }
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', config)
  const shown = async (job: object) => {
    const { total_ms, enqueue_ttl_ms, sources } = (await server.job(await server.enqueue({ ...job }))).x_limits as Shown
    return [total_ms, enqueue_ttl_ms, sources['total'], sources['ttl']]
  }
  expect(await shown({ type: 'by.type', total_timeout: 200 })).toEqual([200_000, 30_000, 'publish', 'type'])
  expect(await shown({ type: 'by.type' })).toEqual([300_000, 30_000, 'type', 'type'])
  expect(await shown({})).toEqual([400_000, 40_000, 'queue', 'queue'])
  expect(await shown({ queue: 'bare' })).toEqual([undefined, undefined, undefined, undefined])
})

test('a total from another source clamps the timeout instead of being refused', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/api/v1/job-types/by.type', { total_timeout: 30 })
  const { x_limits } = await server.start({ type: 'by.type', timeout: 60 })
  expect(x_limits).toMatchObject({
    timeout_ms: 30_000,
    total_ms: 30_000,
    sources: { timeout: 'publish', total: 'type' },
  })
})

test('a later change of policy or queue touches no stored job', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/api/v1/job-types/test.job', { timeout: 50 })
  const id = await server.enqueue()
  await server.call('PUT', '/api/v1/job-types/test.job', { timeout: 10 })
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { default_enqueue_ttl: 1 })
  await server.advance(2_000)
  expect((await server.job(id)).x_limits).toMatchObject({ timeout_ms: 50_000, sources: { timeout: 'type' } })
})

test('a handler’s limits belong to the claim: another worker’s attempt has others', async () => {
  const server = await TestServer.open()
  await server.register('swift', { handlers: { 'test.job': { timeout_ms: 5_000 } } })
  await server.register('slow', { handlers: { 'test.job': { timeout: 50 } } })
  const { id, x_limits } = await server.start({ retry: { jitter: false } }, { worker_id: 'swift' })
  expect(x_limits.timeout_ms).toBe(5_000)
  await server.nack(id)
  await server.advance(1_000)
  expect((await server.fetch({ worker_id: 'slow' })).body.job.x_limits).toMatchObject({
    timeout_ms: 50_000,
    sources: { timeout: 'handler' },
  })
})

test('a handler’s limits are enforced, and the error names their source', async () => {
  const server = await TestServer.open()
  await server.register('w', { handlers: { 'test.job': { timeout: 5, grace_period: 0 } } })
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(4_999)
  expect((await server.job(id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(id)).error).toMatchObject({ type: 'timeout', limit_seconds: 5, source: 'handler' })
})

test('handlers of other types say nothing', async () => {
  const server = await TestServer.open()
  await server.register('w', { handlers: { 'other.job': { timeout: 5 } } })
  expect((await server.start({}, { worker_id: 'w' })).x_limits.sources.timeout).toBe('default')
})

// ---- Caps ----

test('the smallest of the caps clamps whatever was asked, and is named as the source', async () => {
  const server = await TestServer.open({ limits: { caps: { timeout: seconds(50), grace: seconds(9) } } })
  await server.call('PUT', '/api/v1/job-types/capped', { caps: { timeout: 20, heartbeat_timeout_ms: 15_000 } })
  const typed = await server.start({ type: 'capped', timeout: 100, heartbeat_timeout: 100, grace_period: 100 })
  expect(typed.x_limits).toMatchObject({
    timeout_ms: 20_000,
    heartbeat_timeout_ms: 15_000,
    grace_ms: 9_000,
    sources: { timeout: 'cap', heartbeat: 'cap', grace: 'cap' },
  })
  const plain = await server.start({ timeout: 100 })
  expect(plain.x_limits).toMatchObject({ timeout_ms: 50_000, sources: { timeout: 'cap' } })
})

test('a cap leaves what is below it, or equal to it, alone', async () => {
  const server = await TestServer.open({ limits: { caps: { timeout: seconds(50) } } })
  expect((await server.start({ timeout: 50 })).x_limits).toMatchObject({ sources: { timeout: 'publish' } })
})

test('a cap on a total or TTL that was not set sets it', async () => {
  const server = await TestServer.open({ limits: { caps: { total: seconds(60), ttl: seconds(20) } } })
  const id = await server.enqueue()
  expect((await server.job(id)).x_limits).toMatchObject({
    total_ms: 60_000,
    enqueue_ttl_ms: 20_000,
    timeout_ms: 60_000,
    sources: { total: 'cap', ttl: 'cap', timeout: 'default' },
  })
  await server.advance(20_000)
  expect((await server.job(id)).error).toMatchObject({ type: 'enqueue_ttl_expired', source: 'cap' })
})

test('a cap on the grace does not give a stranger any', async () => {
  const server = await TestServer.open({ limits: { caps: { grace: seconds(10) } } })
  const { id, x_limits } = await server.start({ timeout: 2 }, { worker_id: 'stranger' })
  expect(x_limits.grace_ms).toBe(0)
  await server.advance(2_000)
  expect((await server.job(id)).error.type).toBe('timeout')
  await server.register('known')
  expect((await server.start({ timeout: 2 }, { worker_id: 'known' })).x_limits.grace_ms).toBe(10_000)
})

test('a cap on the default stall clock does not keep a job from its worker’s death', async () => {
  const server = await TestServer.open({ limits: { caps: { heartbeat: seconds(50) } } })
  await server.register('w')
  const { id } = await server.start({}, { worker_id: 'w' })
  await server.advance(30_000)
  expect((await server.job(id)).error.type).toBe('worker_death')
})

test('a handler does not speak where publish did, even when a cap cut it', async () => {
  const server = await TestServer.open({ limits: { caps: { timeout: seconds(50) } } })
  await server.register('w', { handlers: { 'test.job': { timeout: 20 } } })
  const { x_limits } = await server.start({ timeout: 100 }, { worker_id: 'w' })
  expect(x_limits).toMatchObject({ timeout_ms: 50_000, sources: { timeout: 'cap' } })
})

test('caps bind handlers and fetches as well', async () => {
  const server = await TestServer.open({ limits: { caps: { timeout: seconds(50), visibility: seconds(40) } } })
  await server.register('w', { handlers: { 'test.job': { timeout: 60 } } })
  const { x_limits } = await server.start({}, { worker_id: 'w', visibility_timeout_ms: 90_000 })
  expect(x_limits).toMatchObject({
    timeout_ms: 50_000,
    visibility_ms: 40_000,
    sources: { timeout: 'cap', visibility: 'cap' },
  })
})

test('a cap on the reservation binds what a beat asks for, named or anonymous', async () => {
  const server = await TestServer.open({ limits: { caps: { visibility: seconds(50) } } })
  const named = await server.start({}, { worker_id: 'w' })
  const anonymous = await server.start()
  await server.beat('w', [named.id, anonymous.id], { visibility_timeout_ms: 36_000_000 })
  for (const { id } of [named, anonymous]) {
    expect((await server.job(id)).x_limits.visibility_deadline).toBe(at(50_000))
  }
  await server.advance(50_000)
  expect((await server.job(anonymous.id)).error.type).toBe('visibility_timeout')
})

test('a queue’s visibility that a cap cut still ranks after the fetch', async () => {
  const server = await TestServer.open({ limits: { caps: { visibility: seconds(50) } } })
  await server.call('PUT', '/ojs/v1/admin/queues/default/config', { default_visibility_timeout: 100 })
  const { x_limits } = await server.start({}, { visibility_timeout_ms: 30_000 })
  expect(x_limits).toMatchObject({ visibility_ms: 30_000, sources: { visibility: 'fetch' } })
})

test('the server’s own defaults can be set, a total and a TTL included', async () => {
  const defaults = {
    timeout: seconds(10),
    grace: seconds(1),
    heartbeat: seconds(5),
    visibility: seconds(20),
    total: days(1),
    ttl: seconds(60),
    onTimeout: 'discard' as const,
  }
  const server = await TestServer.open({ limits: { defaults } })
  await server.register('w')
  const { x_limits } = await server.start({}, { worker_id: 'w' })
  expect(x_limits).toMatchObject({
    timeout_ms: 10_000,
    grace_ms: 1_000,
    heartbeat_timeout_ms: 5_000,
    visibility_ms: 20_000,
    total_ms: 86_400_000,
    on_timeout: 'discard',
    sources: { total: 'default', on_timeout: 'default' },
  })
})

// ---- Echo ----

test('a default is never written into the job; what was given is echoed as it was given', async () => {
  const server = await TestServer.open()
  const plain = await server.job(await server.enqueue())
  for (const key of ['timeout', 'timeout_ms', 'grace_period', 'heartbeat_timeout', 'total_timeout', 'enqueue_ttl']) {
    expect(plain).not.toHaveProperty(key)
  }
  const given = { timeout: 30, total_timeout_ms: 60_000, grace_period_ms: 0, visibility_timeout: 'PT45S' }
  expect(await server.job(await server.enqueue({ options: given }))).toMatchObject(given)
})

test('a fetch that carries a visibility gets timeout in milliseconds only', async () => {
  const server = await TestServer.open()
  const dialect = await server.start({ timeout: 30 }, { visibility_timeout_ms: 30_000 })
  expect(dialect).toMatchObject({ timeout_ms: 30_000 })
  expect(dialect).not.toHaveProperty('timeout')
  expect(await server.job(dialect.id)).toMatchObject({ timeout: 30 })
  expect(await server.start({ timeout: 30 })).toMatchObject({ timeout: 30 })
  expect(await server.start({ timeout: 30 }, { visibility_timeout_ms: 0 })).toMatchObject({ timeout: 30 })
})

test('lists show the same limits as the job itself, renewed reservations included', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ visibility_timeout: 60 }, { worker_id: 'w' })
  await server.advance(10_000)
  await server.beat('w', [id])
  const { x_limits } = await server.job(id)
  expect(x_limits.visibility_deadline).toBe(at(70_000))
  expect((await server.get('/ojs/v1/jobs')).body.jobs[0]?.x_limits).toEqual(x_limits)
  expect((await server.get('/ojs/v1/admin/jobs')).body.items[0]?.x_limits).toEqual(x_limits)
})
