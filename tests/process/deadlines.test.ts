/**
 * Deadlines on the real clock. An ending is seen by a listener within half a second of its deadline, and no answer ever shows
 * a state that its deadline no longer allows. Long polls wait as long as they were asked to, and no longer than needed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { EventSource } from './event-source.ts'
import { RawSocket, requestText } from './raw-socket.ts'
import { ServerProcess, until } from './server-process.ts'

const SEEN_WITHIN_MS = 500
/** The engine's clock and ours are the same wall clock read at different moments; they differ by a rounding. */
const ROUNDING_MS = 5

let server: ServerProcess
let stream: EventSource

beforeAll(async () => {
  server = await ServerProcess.start()
  stream = await EventSource.open(server, '/ojs/v1/events/stream')
})

afterAll(() => server.stop())

interface Case {
  readonly options: Record<string, number>
  readonly claimed: boolean
  readonly deadline: (job: { started_at: string; x_limits: Record<string, string> }) => number
  readonly event: string
  readonly state: string
  readonly error: Record<string, unknown>
}

const LIMIT_MS = 1_000

const cases: Readonly<Record<string, Case>> = {
  'an attempt at its execution timeout, after its grace': {
    options: { timeout_ms: 900, grace_period_ms: 100 },
    claimed: true,
    deadline: ({ x_limits }) => Date.parse(x_limits['hard_deadline'] ?? ''),
    event: 'job.timeout',
    state: 'retryable',
    error: { type: 'timeout', timeout_kind: 'execution', limit_seconds: 0.9 },
  },
  'a running job at its total timeout': {
    options: { total_timeout_ms: LIMIT_MS },
    claimed: true,
    deadline: ({ x_limits }) => Date.parse(x_limits['total_deadline'] ?? ''),
    event: 'job.total_timeout',
    state: 'discarded',
    error: { type: 'total_timeout', timeout_kind: 'total', limit_seconds: 1 },
  },
  'a waiting job at its total timeout': {
    options: { total_timeout_ms: LIMIT_MS },
    claimed: false,
    deadline: ({ x_limits }) => Date.parse(x_limits['total_deadline'] ?? ''),
    event: 'job.total_timeout',
    state: 'discarded',
    error: { type: 'total_timeout', timeout_kind: 'total', limit_seconds: 1 },
  },
  'a waiting job at its TTL': {
    options: { enqueue_ttl_ms: LIMIT_MS },
    claimed: false,
    deadline: ({ x_limits }) => Date.parse(x_limits['ttl_deadline'] ?? ''),
    event: 'job.ttl_expired',
    state: 'discarded',
    error: { type: 'enqueue_ttl_expired', timeout_kind: 'enqueue_ttl', limit_seconds: 1 },
  },
  'a silent attempt at its heartbeat timeout': {
    options: { heartbeat_timeout_ms: LIMIT_MS },
    claimed: true,
    deadline: ({ started_at }) => Date.parse(started_at) + LIMIT_MS,
    event: 'job.stalled',
    state: 'retryable',
    error: { type: 'stalled', timeout_kind: 'stalled', limit_seconds: 1 },
  },
  'a reservation at its visibility timeout': {
    options: { visibility_timeout_ms: LIMIT_MS },
    claimed: true,
    deadline: ({ x_limits }) => Date.parse(x_limits['visibility_deadline'] ?? ''),
    event: 'job.retrying',
    state: 'available',
    error: { type: 'visibility_timeout' },
  },
}

describe('ends, and shows within half a second,', () => {
  test.each(Object.entries(cases))('%s', async (_, { options, claimed, deadline, event, state, error }) => {
    const queue = `q${String(queues++)}`
    const enqueued = await server.enqueue({ queue, options })
    const job = claimed ? (await server.fetch({ queues: [queue] }))[0] : enqueued
    const id = job.id as string
    const deadlineAt = deadline(job as Parameters<typeof deadline>[0])

    const watching = watch(id, deadlineAt, claimed ? 'active' : 'available')
    const seen = await stream.frame(event, id)
    expect(seen.readAt).toBeGreaterThanOrEqual(deadlineAt - ROUNDING_MS)
    expect(seen.readAt).toBeLessThanOrEqual(plusLag(deadlineAt + SEEN_WITHIN_MS))

    const ended = await server.job(id)
    expect(ended).toMatchObject({ state, error })
    expect(Date.parse(ended.error.deadline as string)).toBe(deadlineAt)
    expect(ended.error.overshoot_ms).toBeLessThanOrEqual(plusLag(SEEN_WITHIN_MS))
    expect(await watching).toEqual([])
  })
})

let queues = 0

/** Asks until the deadline has passed; answers whatever was shown although its deadline no longer allowed it. */
async function watch(id: string, deadlineAt: number, open: string): Promise<string[]> {
  const stale: string[] = []
  for (;;) {
    const askedAt = Date.now()
    const { state } = await server.job(id)
    if (askedAt > deadlineAt + ROUNDING_MS && state === open)
      stale.push(`${open} at +${String(askedAt - deadlineAt)} ms`)
    if (askedAt > deadlineAt + 50) return stale
  }
}

describe('a late report', () => {
  test('is refused once the deadline has passed, changes nothing and is counted', async () => {
    await server.enqueue({ queue: 'late', options: { timeout_ms: 200 } })
    const [{ id, attempt, x_lease }] = await server.fetch({ queues: ['late'], worker_id: 'slow' })
    await stream.frame('job.timeout', id as string)
    const fence = { job_id: id as string, worker_id: 'slow', attempt: attempt as number, x_lease: x_lease as number }
    for (const path of ['/ojs/v1/workers/ack', '/ojs/v1/workers/nack', `/ojs/v1/jobs/${String(id)}/checkpoint`]) {
      const reply = await server.post(path, { ...fence, state: 1, error: { message: 'too late' } })
      expect(reply).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
      expect(reply.body.error.details.reason).toBe('not_active')
    }
    expect(await server.job(id as string)).toMatchObject({ state: 'retryable', error: { type: 'timeout' } })
    const { text } = await server.get('/metrics')
    for (const operation of ['ack', 'nack', 'checkpoint'])
      expect(text).toContain(`curfew_late_results_total{operation="${operation}",reason="not_active"} 1`)
  })
})

describe('a long poll', () => {
  test('is answered as soon as there is a job, long before its wait is over', async () => {
    const queue = `q${String(queues++)}`
    const began = performance.now()
    const polls = [1, 2, 3].map(() => server.fetch({ queues: [queue], wait_ms: 20_000 }))
    await server.get('/health') // the polls have arrived before this is answered
    const answered = Promise.race(polls)
    const { id } = await server.enqueue({ queue })
    expect(await answered).toMatchObject([{ id: id as string, state: 'active' }])
    expect(performance.now() - began).toBeLessThan(plusLag(1_000))
    // One job, one poll: the others go on waiting, until there is something for them too.
    await server.post('/ojs/v1/jobs/batch', { jobs: [1, 2].map(() => ({ type: 'test.job', args: [], queue })) })
    const all = (await Promise.all(polls)).flat().map((job) => job.id as string)
    expect(new Set(all).size).toBe(3)
  })

  test('is answered when a scheduled job falls due', async () => {
    const queue = `q${String(queues++)}`
    const dueAt = Date.now() + 400
    await server.enqueue({ queue, scheduled_at: new Date(dueAt).toISOString() })
    expect(await server.fetch({ queues: [queue], wait_ms: 20_000 })).toHaveLength(1)
    expect(Date.now() - dueAt).toBeLessThan(plusLag(SEEN_WITHIN_MS))
    expect(Date.now() - dueAt).toBeGreaterThanOrEqual(-ROUNDING_MS)
  })

  test('is answered with nothing when its wait is over', async () => {
    const began = performance.now()
    expect(await server.fetch({ queues: ['empty'], wait_ms: 600 })).toEqual([])
    const waitedMs = performance.now() - began
    expect(waitedMs).toBeGreaterThanOrEqual(599)
    expect(waitedMs).toBeLessThan(plusLag(600 + SEEN_WITHIN_MS))
  })

  test('does not poll at all without wait_ms', async () => {
    const began = performance.now()
    expect(await server.fetch({ queues: ['empty'] })).toEqual([])
    expect(performance.now() - began).toBeLessThan(plusLag(SEEN_WITHIN_MS))
  })

  test('that was hung up takes no job with it', async () => {
    const queue = `q${String(queues++)}`
    const poll = await RawSocket.open(server)
    const asked = { queues: [queue], worker_id: 'gone', wait_ms: 20_000 }
    await poll.send(requestText('POST', '/ojs/v1/workers/fetch', JSON.stringify(asked)))
    await until('the poll has arrived', async () => (await server.get('/ojs/v1/workers/gone')).status === 200)
    await poll.hangUp()
    await server.get('/health')
    const { id } = await server.enqueue({ queue })
    expect(await server.job(id as string)).toMatchObject({ state: 'available' })
  })
})
