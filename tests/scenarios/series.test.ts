/** Series: what was counted is what the log says, across servers' lives, and nothing is written per job. */
import { expect, test } from 'vitest'
import { idle, TestServer, type Reply } from '../harness.ts'
import { openTestStore } from '../stores.ts'

interface Group {
  readonly name: string | null
  readonly other: boolean
  readonly total: number
  readonly points: readonly number[]
  readonly p95_ms?: number
  readonly buckets?: readonly (readonly [number, number])[]
}

const series = (server: TestServer, query: string): Promise<Reply> => server.get(`/api/v1/board/series?${query}`)
async function totals(server: TestServer, query: string): Promise<Record<string, number>> {
  const { body, status } = await series(server, query)
  expect(status, JSON.stringify(body)).toBe(200)
  return Object.fromEntries(
    (body['groups'] as Group[]).map(({ name, other, total }) => [other ? '*' : name, total]),
  ) as Record<string, number>
}

/** One job of each ending. */
async function play(server: TestServer): Promise<void> {
  const once = { retry: { max_attempts: 1 } }
  const done = await server.start({ type: 'ok' })
  await server.advance(2_000)
  await server.ack(done.id)
  const failing = await server.start({ type: 'fails', retry: { max_attempts: 2, initial_interval: 'PT1S' } })
  await server.nack(failing.id, { message: 'x' })
  await server.advance(5_000)
  await server.fetch()
  await server.nack(failing.id, { message: 'x' })
  const late = await server.start({ type: 'late', timeout: 10, ...once })
  await server.advance(60_000)
  await server.ack(late.id)
  await server.start({ type: 'total', total_timeout: 5, ...once })
  await server.advance(10_000)
  await server.enqueue({ type: 'ttl', queue: 'idle', enqueue_ttl: 5 })
  await server.enqueue({ type: 'scheduled', queue: 'idle', scheduled_at: '2100-01-01T00:00:00Z' })
  const cancelled = await server.enqueue({ type: 'cancelled', queue: 'idle' })
  await server.call('DELETE', `/ojs/v1/jobs/${cancelled}`)
  await server.advance(20_000)
}

const COUNTED: Readonly<Record<string, string>> = {
  'job.started': 'started',
  'job.completed': 'completed',
  'job.failed': 'failed',
  'job.retrying': 'retried',
  'job.interrupted': 'interrupted',
  'job.cancelled': 'cancelled',
  'job.discarded': 'discarded',
  'job.expired': 'expired',
}

async function loggedOutcomes(server: TestServer): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const type of await server.eventTypes()) {
    const name = COUNTED[type]
    if (name !== undefined) counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

test('every outcome is counted as often as the log tells of it', async () => {
  const server = await TestServer.open()
  await play(server)
  const { created, late, ...counted } = await totals(server, 'metric=throughput')
  expect(counted).toEqual(await loggedOutcomes(server))
  expect(created).toBe(7)
  expect(late).toBe(1)
})

test('timeouts are counted by kind, source, queue and type, and overshoot with them', async () => {
  const server = await TestServer.open()
  await play(server)
  expect(await totals(server, 'metric=timeouts&by=kind')).toEqual({ execution: 1, total: 1, enqueue_ttl: 1 })
  expect(await totals(server, 'metric=timeouts&by=source')).toEqual({ publish: 3 })
  expect(await totals(server, 'metric=timeouts&by=type&kind=total')).toEqual({ total: 1 })
  expect(await totals(server, 'metric=timeouts&by=kind&queue=idle')).toEqual({ enqueue_ttl: 1 })
  expect(await totals(server, 'metric=overshoot&by=kind')).toEqual({ execution: 1, total: 1, enqueue_ttl: 1 })
})

test('waits and durations are sketches: a length is found within five percent', async () => {
  const server = await TestServer.open()
  await server.enqueue()
  await server.advance(8_000)
  const { body } = await server.fetch()
  await server.advance(2_000)
  await server.ack(body.jobs[0]!.id)
  const of = async (query: string): Promise<Group> => ((await series(server, query)).body['groups'] as Group[])[0]!
  const wait = await of('metric=waits')
  expect(wait.total).toBe(1)
  expect(Math.abs((wait.p95_ms ?? 0) - 8_000)).toBeLessThan(400)
  const ran = await of('metric=durations&outcome=completed')
  expect(Math.abs((ran.p95_ms ?? 0) - 2_000)).toBeLessThan(100)
  expect(ran.buckets?.map(([, count]) => count)).toEqual([1])
  expect((await series(server, 'metric=durations&outcome=cut')).body['groups']).toEqual([])
})

test('each slot has its own point, and the coarser resolutions tell the same', async () => {
  const server = await TestServer.open()
  for (let minute = 0; minute < 3; minute += 1) {
    await server.enqueue()
    await server.advance(60_000)
  }
  for (const step of ['1m', '10m', '3h']) {
    const { body } = await series(server, `metric=throughput&outcome=created&from=-10m&step=${step}`)
    const [group] = body['groups'] as Group[]
    expect(group?.total, step).toBe(3)
    if (step === '1m') expect(group?.points.filter((n) => n > 0)).toEqual([1, 1, 1])
    expect(body['step']).toBe(step)
  }
})

test('what was counted survives the end of a server, and the next one adds to it', async () => {
  const store = await openTestStore()
  const first = await TestServer.open({ store: keptOpen(store) })
  await play(first)
  await first.close()
  const second = await TestServer.open({ store: keptOpen(store), clock: first.clock })
  const { late: _late, created, ...counted } = await totals(second, 'metric=throughput')
  expect(counted).toEqual(await loggedOutcomes(second))
  await play(second)
  const { created: both } = await totals(second, 'metric=throughput')
  expect(both).toBe(2 * (created ?? 0))
  expect((await series(second, 'metric=throughput')).body['servers']).toBe(2)
})

/** The store outlives the server. */
function keptOpen(store: Awaited<ReturnType<typeof openTestStore>>): typeof store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'close') return () => Promise.resolve()
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

test('series are saved every ten seconds and not per job, and nothing is written when nothing happens', async () => {
  const server = await TestServer.open()
  const documents = async (): Promise<number> => (await server.store.docs('series-1m', '', null, 99)).length
  for (let job = 0; job < 50; job += 1) await server.enqueue()
  expect(await documents()).toBe(0)
  await server.advance(10_000)
  const [saved] = await server.store.docs('series-1m', '', null, 9)
  expect(JSON.parse(saved?.body ?? '{}')).toMatchObject({ tally: { 'default test.job': { counts: { created: 50 } } } })
  await server.advance(30 * 60_000)
  expect(await server.store.docs('series-1m', '', null, 9)).toEqual([saved])
})

test('slots are removed when they are older than they are kept', async () => {
  const server = await TestServer.open()
  const slots = async (kind: string): Promise<number> => (await server.store.docs(kind, '', null, 99)).length
  await server.enqueue()
  await server.advance(60_000)
  expect([await slots('series-1m'), await slots('series-10m'), await slots('series-3h')]).toEqual([1, 1, 1])
  await server.advance(4 * 3_600_000)
  await server.enqueue()
  await server.advance(60_000)
  expect([await slots('series-1m'), await slots('series-10m'), await slots('series-3h')]).toEqual([1, 2, 2])
})

test('types beyond the bound are counted together', async () => {
  const server = await TestServer.open()
  const jobs = Array.from({ length: 250 }, (_, index) => ({ type: `t${String(index)}`, args: [] }))
  await server.call('POST', '/ojs/v1/jobs/batch', { jobs })
  const byType = await totals(server, 'metric=throughput&outcome=created&by=type')
  expect(Object.keys(byType)).toHaveLength(201)
  expect(byType['*']).toBe(50)
  expect(await totals(server, 'metric=throughput&outcome=created')).toEqual({ all: 250 })
})

test.each([
  ['metric=speed', 'metric'],
  ['metric=waits&by=kind', 'by'],
  ['metric=waits&source=publish', 'source'],
  ['metric=waits&from=yesterday', 'from'],
  ['metric=waits&from=-', 'from'],
  ['metric=waits&from=-400d', 'from'],
  ['metric=waits&from=-4h&step=1m', 'from'],
  ['metric=waits&from=2999-01-01T00:00:00Z', 'from'],
  ['metric=waits&from=-1h&to=-2h', 'to'],
  ['metric=waits&from=-99999999999999999d', 'from'],
  ['metric=waits&step=2m', 'step'],
  ['metric=waits&queue=__PROTO__', 'queue'],
  ['metric=throughput&outcome=__proto__', 'outcome'],
  ['metric=waits&form=-1h', 'form'],
])('refuses ?%s and names %s', async (query, field) => {
  const server = await TestServer.open()
  const { status, body } = await series(server, query)
  expect(status).toBe(400)
  expect(JSON.stringify(body)).toContain(field)
})

// ---- Pulse ----

test('the pulse tells counts, rates and workers each second, and nothing is computed when no reader is there', async () => {
  const server = await TestServer.open()
  const stream = await server.listen('/api/v1/board/pulse')
  await idle()
  expect(server.engine.pulse.readers).toBe(1)
  await server.enqueue()
  await server.start()
  for (let second = 0; second < 12; second += 1) await server.advance(1_000)
  const frames = stream.frames().filter(({ event }) => event === 'pulse')
  expect(frames.length).toBeGreaterThanOrEqual(10)
  expect(frames.at(-1)?.data).toMatchObject({ counts: { available: 1, active: 1 }, trouble: null, readers: 1 })
  const created = frames.map(({ data }) => (data.rates as { created: number }).created)
  expect(Math.max(...created)).toBeGreaterThan(0)
  expect(created.at(-1)).toBe(0)
  stream.hangUp()
  await idle()
  expect(server.engine.pulse.readers).toBe(0)
  const { length } = stream.text
  await server.advance(5_000)
  expect(stream.text).toHaveLength(length)
})

test('a reader that does not read holds one frame, and gets the newest when it reads again', async () => {
  const server = await TestServer.open()
  const gone = new AbortController()
  const frames = server.engine.pulse.frames(gone.signal)
  const first = await frames.next()
  for (let second = 0; second < 30; second += 1) await server.advance(1_000)
  const next = await frames.next()
  expect((next.value?.id ?? 0) - (first.value?.id ?? 0)).toBeGreaterThanOrEqual(25)
  gone.abort()
  expect((await frames.next()).done).toBe(true)
  expect(server.engine.pulse.readers).toBe(0)
})

test('the pulse names what will be late and what ran out of time', async () => {
  const server = await TestServer.open()
  await server.start({ timeout: 1, grace_period: 0, retry: { max_attempts: 1 } })
  await server.advance(5_000)
  await server.enqueue({ queue: 'mail', type: 'mail.send', enqueue_ttl: 600 })
  const stream = await server.listen('/api/v1/board/pulse')
  for (let second = 0; second < 7; second += 1) await server.advance(1_000)
  const { data } = stream.frames().at(-1)!
  expect(data.recent).toMatchObject({ timeouts: { execution: 1 } })
  expect(data.late).toMatchObject({ total: 1, jobs: [{ queue: 'mail', limit: 'enqueue_ttl' }] })
})
