/** Hindsight: the life of a job as spans against their limits, every ending with its limit, and the same in words. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

interface Told {
  readonly job_id: string
  readonly state: string
  readonly limits: object
  readonly spans: Record<string, unknown>[]
  readonly endings: Record<string, unknown>[]
  readonly text: string
}

async function explain(server: TestServer, id: string): Promise<Told> {
  const reply = await server.get(`/ojs/v1/jobs/${id}/explain`)
  expect(reply.status).toBe(200)
  return reply.body as unknown as Told
}

test('a job that waits has one open span', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ enqueue_ttl: 60 })
  const told = await explain(server, id)
  expect(told).toMatchObject({ job_id: id, state: 'available', endings: [], limits: { enqueue_ttl_ms: 60_000 } })
  const limit = { limit: 'enqueue_ttl 60 s', limit_ms: 60_000, effective_ms: 60_000, source: 'publish' }
  expect(told.spans).toEqual([{ kind: 'waiting', from: at(0), ...limit }])
})

test('a job that completed: waiting, attempt, and an ending that says so', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ timeout: 60 })
  await server.advance(5_000)
  await server.fetch({ worker_id: 'w' })
  await server.advance(7_000)
  await server.ack(id)
  const { spans, endings, text } = await explain(server, id)
  expect(spans).toMatchObject([
    { kind: 'waiting', from: at(0), to: at(5_000) },
    { kind: 'attempt', from: at(5_000), to: at(12_000), attempt: 1, source: 'publish', worker_id: 'w' },
  ])
  expect(endings).toEqual([{ attempt: 1, type: 'completed' }])
  expect(text).toMatch(/completed/)
})

test('a job that used its grace shows where the handler was asked to stop', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 20 })
  await server.advance(15_000)
  await server.ack(id)
  expect((await explain(server, id)).spans.slice(1)).toMatchObject([
    { kind: 'attempt', from: at(0), to: at(10_000), limit: 'timeout 10 s' },
    { kind: 'grace', from: at(10_000), to: at(15_000), attempt: 1, limit: 'grace_period 20 s', source: 'publish' },
  ])
})

const IN_GRACE: [string, Record<string, unknown>, number, number, string][] = [
  ['its grace', {}, 10_000, 20_000, ''],
  ['the grace before its total', { total_timeout: 15 }, 5_000, 15_000, ', where total_timeout cuts it off'],
]

test.each(IN_GRACE)('a job that is in %s says so, and until when', async (_, more, softMs, endsMs, cut) => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, grace_period: 10, ...more })
  await server.advance(12_000)
  const { state, spans, text } = await explain(server, id)
  expect(state).toBe('active')
  expect(spans.slice(1)).toMatchObject([
    { kind: 'attempt', from: at(0), to: at(softMs), limit: 'timeout 10 s' },
    { kind: 'grace', from: at(softMs), attempt: 1, limit: 'grace_period 10 s', source: 'publish' },
  ])
  expect(spans.at(-1)).not.toHaveProperty('to')
  expect(text).toContain(
    `attempt 1 is in its grace, since ${at(softMs)}, until ${at(endsMs)}${cut}; next automatic transition at ${at(endsMs)}`,
  )
})

test('a job that was given up before its total says what could not be, and what came before', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, total_timeout: 15 })
  await server.advance(6_000)
  await server.nack(id, { type: 'boom', message: 'It broke.' })
  const { endings, text } = await explain(server, id)
  expect(endings).toMatchObject([
    { type: 'boom' },
    { type: 'total_timeout', predicted: true, cause: { type: 'boom', message: 'It broke.' } },
  ])
  expect(text).toMatch(
    /predicted: another attempt could not have ended within the total.*15 s.*Before that: boom \("It broke\."\)\.$/,
  )
})

test('a job that timed out and was tried again: backoff between, each ending with its limit', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ timeout: 10, retry: { jitter: false, max_attempts: 2 } })
  await server.advance(11_000)
  await server.fetch()
  await server.advance(10_000)
  const { spans, endings, text, state } = await explain(server, id)
  expect(spans.map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ['waiting', at(0), at(0)],
    ['attempt', at(0), at(10_000)],
    ['backoff', at(10_000), at(11_000)],
    ['waiting', at(11_000), at(11_000)],
    ['attempt', at(11_000), at(21_000)],
  ])
  const ending = {
    type: 'timeout',
    timeout_kind: 'execution',
    limit_seconds: 10,
    elapsed_seconds: 10,
    source: 'publish',
  }
  expect(endings).toMatchObject([
    { attempt: 1, ...ending, deadline: at(10_000), overshoot_ms: 0 },
    { attempt: 2, ...ending, deadline: at(21_000), overshoot_ms: 0 },
  ])
  expect(state).toBe('discarded')
  expect(text).toMatch(/timeout/)
})

const LIVES: [string, Record<string, unknown>, (server: TestServer, id: string) => Promise<unknown>, object][] = [
  [
    'ran out of its total',
    { total_timeout: 10 },
    (server) => server.advance(10_000),
    { type: 'total_timeout', timeout_kind: 'total', limit_seconds: 10, source: 'publish', deadline: at(10_000) },
  ],
  [
    'stalled',
    { heartbeat_timeout: 10 },
    (server) => server.advance(10_000),
    { type: 'stalled', timeout_kind: 'stalled', limit_seconds: 10, source: 'publish', deadline: at(10_000) },
  ],
  [
    'lapsed',
    { visibility_timeout: 10 },
    (server) => server.advance(10_000),
    { type: 'visibility_timeout', limit_seconds: 10, source: 'publish', deadline: at(10_000) },
  ],
  [
    'lost its worker',
    {},
    (server) => server.advance(30_000),
    { type: 'worker_death', limit_seconds: 30, source: 'default', deadline: at(30_000) },
  ],
  [
    'was given up before its total',
    { timeout: 10, total_timeout: 15 },
    (server, id) => server.advance(6_000).then(() => server.nack(id, { type: 'Oops', message: 'x' })),
    { type: 'total_timeout', predicted: true, limit_seconds: 15, elapsed_seconds: 6, cause: { type: 'Oops' } },
  ],
  [
    'failed',
    {},
    (server, id) => server.nack(id, { type: 'Oops', message: 'x', backtrace: ['at a', 'at b'] }),
    { type: 'Oops', cause: { type: 'Oops', message: 'x' }, stack: ['at a', 'at b'] },
  ],
  [
    'was cut off with its stack told',
    { timeout: 10 },
    async (server, id) => {
      await server.advance(9_990)
      await server.nack(id, { type: 'timeout', message: 'x', details: { stack: 'at slow' } })
    },
    { type: 'timeout', timeout_kind: 'execution', limit_seconds: 10, stack: 'at slow' },
  ],
  ['was cancelled', {}, (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`), { type: 'cancelled' }],
]

test.each(LIVES)('a job that %s tells its ending with its limit', async (_, limits, end, ending) => {
  const server = await TestServer.open()
  await server.register('w')
  const { id } = await server.start({ retry: { max_attempts: 9 }, grace_period: 0, ...limits }, { worker_id: 'w' })
  await end(server, id)
  const { endings, text } = await explain(server, id)
  expect(endings.at(-1)).toMatchObject({ attempt: 1, ...ending })
  expect(text).toMatch(new RegExp((ending as { type: string }).type))
})

test('a job that never started tells its ending too', async () => {
  const server = await TestServer.open()
  const ttl = await server.enqueue({ enqueue_ttl: 10 })
  const expiry = await server.enqueue({ expires_at: '+PT10S' })
  await server.advance(10_000)
  expect((await explain(server, ttl)).endings).toMatchObject([
    { attempt: 0, type: 'enqueue_ttl_expired', timeout_kind: 'enqueue_ttl', limit_seconds: 10, deadline: at(10_000) },
  ])
  expect((await explain(server, expiry)).endings).toMatchObject([{ attempt: 0, type: 'expired', deadline: at(10_000) }])
})

test('the wait after a first attempt is no longer under the TTL', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ enqueue_ttl: 60, retry: { jitter: false } })
  await server.nack(id)
  await server.advance(1_000)
  const { spans } = await explain(server, id)
  expect(spans[0]).toMatchObject({ kind: 'waiting', limit: 'enqueue_ttl 60 s' })
  expect(spans.at(-1)?.['limit'] ?? '').not.toMatch(/enqueue_ttl/)
})

test('a hand-back and a retry by hand are part of the story', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } })
  await server.nack(id, { type: 'shutdown', message: 'x' }, { requeue: true })
  await server.fetch()
  await server.nack(id)
  await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
  const { spans, text } = await explain(server, id)
  expect(spans.filter(({ kind }) => kind === 'attempt').map(({ attempt }) => attempt)).toEqual([1, 2])
  expect(text).toMatch(/handed back \(shutdown\), attempt 1 is not counted/)
  expect(text).toMatch(/by hand/)
})

test('an unknown job has no story', async () => {
  const server = await TestServer.open()
  expect((await server.get('/ojs/v1/jobs/nope/explain')).status).toBe(404)
})
