/** What an operator sees of one job: the record endpoint, the clocks that run, and what is announced and then comes. */
import { describe, expect, test } from 'vitest'
import { readBoardJob, timeline, type BoardJob, type Timeline } from '@curfew/core'
import { at, TestServer } from '../harness.ts'

async function record(server: TestServer, id: string): Promise<BoardJob> {
  const reply = await server.get(`/api/v1/board/jobs/${id}`)
  expect(reply.status).toBe(200)
  return readBoardJob(reply.body)
}

async function drawn(server: TestServer, id: string): Promise<Timeline> {
  const document = await record(server, id)
  return timeline(document, document.now)
}

interface Announced {
  readonly kind: string
  readonly at: string
  readonly latest_at?: string
  readonly then: string
  readonly state: string
}

interface Told {
  readonly state: string
  readonly next: Announced | null
  readonly next_steps: Announced[]
  readonly clocks: Record<string, unknown>[]
  readonly spans: { from: string; to?: string; kind: string }[]
}

async function explain(server: TestServer, id: string): Promise<Told> {
  return (await server.get(`/ojs/v1/jobs/${id}/explain`)).body as unknown as Told
}

const LIMITS = { timeout: 3, grace_period: 1, total_timeout: 20, retry: { max_attempts: 2, jitter: false } }

describe('the record of a job', () => {
  test('carries what its clocks depend on: the worker and its last beat', async () => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start({ heartbeat_timeout: 10 }, { worker_id: 'w' })
    await server.advance(2_000)
    await server.beat('w', [id])
    await server.advance(1_000)
    const { now, job, life } = await record(server, id)
    expect(new Date(now).toISOString()).toBe(at(3_000))
    expect(job).toMatchObject({ id, state: 'active', attempt: 1, hold: { workerId: 'w' } })
    expect(life.worker).toMatchObject({ id: 'w' })
    expect(life.worker?.beat?.jobs.has(id)).toBe(true)
    expect(life.workerTimeoutMs).toBe(30_000)
  })

  test('a job that is not there is a 404, and one of another tenant is as well', async () => {
    const server = await TestServer.open()
    expect((await server.get('/api/v1/board/jobs/nope')).status).toBe(404)
    const reply = await server.call('POST', '/ojs/v1/jobs', { type: 'test.job', args: [] }, { 'x-ojs-tenant': 'acme' })
    const path = `/api/v1/board/jobs/${reply.body.job.id}`
    expect((await server.get(path, { 'x-ojs-tenant': 'acme' })).status).toBe(200)
    expect((await server.get(path, { 'x-ojs-tenant': 'other' })).status).toBe(404)
  })

  test('says what holds the job back, and that its queue is paused', async () => {
    const server = await TestServer.open()
    const id = await server.enqueue()
    await server.post('/ojs/v1/queues/default/pause')
    const { heldBy, isHeld, queue } = await record(server, id)
    expect(heldBy).toMatchObject({ kind: 'paused_queue' })
    expect([isHeld, queue?.name, queue?.pausedAt === null]).toEqual([true, 'default', false])
  })
})

describe('signs of life and late results', () => {
  test('beats are marks, and the fuse runs from the last sign', async () => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start({ heartbeat_timeout: 10 }, { worker_id: 'w' })
    for (let beat = 0; beat < 3; beat += 1) {
      await server.advance(1_000)
      await server.beat('w', [id])
    }
    await server.advance(500)
    const signs = (await drawn(server, id)).lanes.find(({ kind }) => kind === 'signs')
    expect(signs?.marks.map(({ kind, at: when }) => [kind, new Date(when).toISOString()])).toEqual([
      ['beat', at(1_000)],
      ['beat', at(2_000)],
      ['beat', at(3_000)],
      ['heartbeat', at(13_000)],
    ])
  })

  test('a result that came after its attempt was ended is shown with its worker, and changed nothing', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 2, grace_period: 0, retry: { max_attempts: 1 } }, { worker_id: 'w' })
    await server.advance(2_500)
    expect((await server.ack(id, { worker_id: 'w', result: 1 })).status).toBe(409)
    const { lanes } = await drawn(server, id)
    expect(lanes.find(({ name }) => name === 'try 1')?.marks.at(-1)).toMatchObject({
      kind: 'late_result',
      at: Date.parse(at(2_500)),
      text: 'ack by w refused',
    })
    expect((await server.job(id)).state).toBe('discarded')
  })
})

describe('the place in the queue', () => {
  test('is counted in the order in which jobs are handed out', async () => {
    const server = await TestServer.open()
    const first = await server.enqueue()
    const second = await server.enqueue({ enqueue_ttl: 60 })
    const urgent = await server.enqueue({ options: { priority: 9 } })
    const places = async (): Promise<unknown[]> =>
      Promise.all([first, second, urgent].map(async (id) => (await record(server, id)).place))
    expect(await places()).toMatchObject([{ ahead: 1, isExact: true }, { ahead: 2 }, { ahead: 0 }])
    await server.call('PUT', '/ojs/v1/admin/queues/default/config', { order: 'edf' })
    expect(await places()).toMatchObject([{ ahead: 2 }, { ahead: 1 }, { ahead: 0 }])
    await server.fetch({ worker_id: 'w' })
    expect((await record(server, urgent)).place).toBeNull()
  })
})

describe('the timeline over HTTP', () => {
  test('follows a job through soft deadline, grace, timeout, backoff and its second attempt', async () => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start(LIMITS, { worker_id: 'w' })
    await server.advance(1_000)
    expect((await drawn(server, id)).sentence).toBe(
      'Next: asked to stop in 2 s, attempt ends in 3 s, retry 1 s later. Total deadline in 19 s.',
    )
    await server.advance(2_500)
    const inGrace = (await drawn(server, id)).lanes.find(({ name }) => name === 'try 1')
    expect(inGrace?.marks.map(({ kind }) => kind)).toEqual(['started', 'asked_to_stop', 'hard_deadline'])
    await server.advance(500)
    const backoff = await drawn(server, id)
    expect(backoff.headline).toBe('retryable, attempt 1 of 2')
    expect(backoff.lanes.map(({ name, isForeseen }) => [name, isForeseen])).toEqual([
      ['life', false],
      ['try 1', false],
      ['try 2', true],
    ])
    await server.advance(1_000)
    await server.fetch({ worker_id: 'w' })
    await server.advance(4_000)
    const over = await drawn(server, id)
    expect(over.lanes.map(({ name, marks }) => [name, marks.at(-1)?.text])).toEqual([
      ['life', 'discarded (timeout)'],
      ['try 1', 'timeout'],
      ['try 2', 'discarded (timeout)'],
    ])
    expect(over.sentence).toBe('Ended discarded.')
  })

  test('what is announced comes, step by step, at its instant', async () => {
    const server = await TestServer.open()
    const { id } = await server.start(LIMITS, { worker_id: 'w' })
    const { next, next_steps: steps } = await explain(server, id)
    expect(steps.map(({ kind, then }) => [kind, then])).toEqual([
      ['soft_deadline', 'grace'],
      ['hard_deadline', 'retry'],
      ['retry', 'available'],
      ['total', 'discard'],
    ])
    expect(steps[0]).toMatchObject(next ?? {})
    for (const step of steps) {
      const wait = Date.parse(step.at) - server.clock.now()
      await server.advance(wait - 1)
      const before = await explain(server, id)
      expect(before.next?.at).toBe(step.at)
      await server.advance(1)
      expect((await explain(server, id)).state).toBe(step.state)
    }
  })

  test('every clock that runs is listed with who set it, the first to end first', async () => {
    const server = await TestServer.open()
    await server.call('PUT', '/ojs/v1/admin/queues/default/config', { default_timeout: 60 })
    const id = await server.enqueue({ enqueue_ttl: 30, total_timeout: 20 })
    expect((await explain(server, id)).clocks).toMatchObject([
      {
        kind: 'total',
        limit: 'total_timeout',
        limit_ms: 20_000,
        source: 'publish',
        until: at(20_000),
        renewable: false,
      },
      { kind: 'ttl', limit: 'enqueue_ttl', until: at(30_000), cut_by: 'total_timeout' },
    ])
    await server.register('w')
    await server.fetch({ worker_id: 'w' })
    const { clocks } = await explain(server, id)
    expect(clocks.map(({ kind }) => kind)).toEqual([
      'soft_deadline',
      'total',
      'worker_death',
      'hard_deadline',
      'heartbeat',
      'visibility',
    ])
    expect(clocks.find(({ kind }) => kind === 'heartbeat')).toMatchObject({ renewable: true, cut_by: 'total_timeout' })
    await server.ack(id)
    expect(await explain(server, id)).toMatchObject({ clocks: [], next: null, next_steps: [] })
  })
})
