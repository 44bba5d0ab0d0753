/** The client of the SDK against the whole server, without sockets: what an application sees. */
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { seededRandom } from '@curfew/core'
import { Client, DeadlineError, defineJob, entry, JobFailedError, RequestError, timeout } from '@curfew/sdk'
import type { CurfewEvent, InProcessServer, JobFilter } from '@curfew/sdk'
import { at, idle, TestServer, type TestOptions } from '../harness.ts'

const transcode = defineJob('video.transcode', {
  input: z.tuple([z.string(), z.enum(['720p', '1080p'])]),
  output: z.object({ url: z.string(), at: z.string().transform((text) => new Date(text)) }),
  queue: 'media',
  limits: { timeout: '1h', gracePeriod: '1m' },
})
const mail = defineJob<[to: string]>('mail.send')
const UNKNOWN = '01890000-0000-7000-8000-00000000000a'

type Handler = InProcessServer['handler']

async function open(options: TestOptions = {}, around: (handler: Handler) => Handler = (handler) => handler) {
  const server = await TestServer.open(options)
  const asked: string[] = []
  const handler = around(async (request) => {
    asked.push(`${request.method} ${request.url}`)
    return server.handler(request)
  })
  const client = new Client({ server: { handler }, host: server.clock, random: seededRandom(11) })
  return { server, client, asked }
}

/** The first answers to these calls get lost on the way back. */
function losing(...calls: readonly string[]): (handler: Handler) => Handler {
  const lost = new Set(calls)
  return (handler) => async (request) => {
    const answer = await handler(request)
    if (lost.delete(`${request.method} ${request.url}`)) throw new Error('the line went dead')
    return answer
  }
}

/** Turns the clock until the promise is settled. */
async function turning<T>(server: TestServer, promised: Promise<T>): Promise<T> {
  let isOver = false
  const outcome = promised.finally(() => (isOver = true))
  outcome.catch(() => {})
  for (await idle(); !isOver;) await server.advance(100)
  return outcome
}

const total = async (server: TestServer): Promise<number> =>
  (await server.get('/ojs/v1/jobs')).body.pagination.total as number

describe('enqueue', () => {
  test('the job is stored as the kind of job and the publish say, and tells who said what', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(transcode, ['v1', '720p'], { timeout: '90s', totalTimeout: '1d', meta: { a: 1 } })
    expect(job).toMatchObject({ type: 'video.transcode', queue: 'media', args: ['v1', '720p'], state: 'available' })
    expect(await client.get(job)).toEqual(job)
    expect(await server.job(job.id)).toMatchObject({
      meta: { a: 1 },
      x_limits: {
        timeout_ms: 90_000,
        grace_ms: 60_000,
        total_ms: 86_400_000,
        sources: { timeout: 'publish', grace: 'publish', total: 'publish' },
      },
    })
  })

  test('limits below a second, modes, moments, tags and retries arrive', async () => {
    const { client } = await open()
    const job = await client.enqueue(mail, ['a'], {
      ...timeout({ seconds: 0.25, mode: 'discard' }),
      totalTimeout: { ms: 1_500 },
      heartbeatTimeout: '5s',
      delay: '10s',
      expiresAt: new Date(Date.UTC(2026, 0, 2)),
      priority: 7,
      tags: ['x'],
      retry: { maxAttempts: 5, initialInterval: '2s', backoffStrategy: 'linear' },
    })
    expect(job).toMatchObject({
      state: 'scheduled',
      scheduled_at: at(10_000),
      expires_at: '2026-01-02T00:00:00.000Z',
      priority: 7,
      tags: ['x'],
      max_attempts: 5,
      x_limits: { timeout_ms: 250, total_ms: 1_500, heartbeat_timeout_ms: 5_000, on_timeout: 'discard' },
    })
    expect((await client.enqueue(mail, ['b'], { pending: true })).state).toBe('pending')
  })

  test('calls of one turn travel together, and a refused job does not affect the others of its request', async () => {
    const { server, client, asked } = await open()
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 20 }, (_, n) => client.enqueue(mail, [`u${String(n)}`])),
      client.enqueue(mail, ['bad'], { priority: 1_000 }),
      client.enqueue(transcode, ['v1', '1080p']),
    ])
    expect(asked).toEqual(['GET /ojs/manifest', 'POST /ojs/v1/jobs/bulk'])
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(21)
    expect(outcomes[20]).toMatchObject({
      reason: { status: 400, code: 'invalid_request', details: { field: 'priority' } },
    })
    expect(outcomes[21]).toMatchObject({ value: { queue: 'media', args: ['v1', '1080p'] } })
    expect(await total(server)).toBe(21)
  })

  test('a child ends no later than its parent, and none is made when there is no time left', async () => {
    const { server, client } = await open()
    const parent = await client.enqueue(mail, ['a'], { totalTimeout: '1m' })
    await server.advance(20_000)
    const family = { parent: { jobId: parent.id }, inheritDeadline: true }
    const child = await client.enqueue(mail, ['b'], family)
    expect(child.x_limits).toMatchObject({ total_ms: 40_000, sources: { total: 'parent' } })
    await server.advance(40_000)
    await expect(client.enqueue(mail, ['c'], family)).rejects.toMatchObject({ code: 'deadline_exceeded', status: 422 })
  })

  test('the token is asked for', async () => {
    const server = await TestServer.open({ token: 'secret' })
    const stranger = new Client({ server, host: server.clock })
    await expect(stranger.enqueue(mail, ['a'])).rejects.toMatchObject({ code: 'unauthenticated', status: 401 })
    const friend = new Client({ server, host: server.clock, token: 'secret' })
    expect(await friend.enqueue(mail, ['a'])).toMatchObject({ state: 'available' })
  })
})

describe('answers that get lost', () => {
  test('one job: it is stored once, and found', async () => {
    const { server, client } = await open({}, losing('POST /ojs/v1/jobs'))
    const job = await turning(server, client.enqueue(mail, ['a']))
    expect(job).toMatchObject({ args: ['a'], state: 'available' })
    expect(await total(server)).toBe(1)
  })

  test('many that travelled together: each is stored once, and found', async () => {
    const { server, client } = await open({}, losing('POST /ojs/v1/jobs/bulk'))
    const jobs = await turning(server, Promise.all(['a', 'b', 'c'].map((to) => client.enqueue(mail, [to]))))
    expect(jobs.map(({ args }) => args)).toEqual([['a'], ['b'], ['c']])
    expect(await total(server)).toBe(3)
  })

  test('many that stand or fall together, too', async () => {
    const { server, client } = await open({}, losing('POST /ojs/v1/jobs/batch'))
    const jobs = await turning(server, client.enqueueMany(mail, [['a'], ['b']]))
    expect(jobs.map(({ args }) => args)).toEqual([['a'], ['b']])
    expect(await total(server)).toBe(2)
  })

  test('a cancel that was heard is done', async () => {
    const { server, client } = await open({}, losing(`DELETE /ojs/v1/jobs/${UNKNOWN}`))
    await client.enqueue(mail, ['a'], { id: UNKNOWN })
    expect(await turning(server, client.cancel(UNKNOWN))).toMatchObject({ state: 'cancelled' })
  })

  test('an id of the caller’s that another job has is refused', async () => {
    const { server, client } = await open({}, losing('POST /ojs/v1/jobs'))
    await server.enqueue({ id: UNKNOWN, type: 'mail.send', args: ['another job'] })
    const mine = turning(server, client.enqueue(mail, ['mine'], { id: UNKNOWN }))
    await expect(mine).rejects.toMatchObject({ code: 'duplicate', details: { existing_job_id: UNKNOWN } })
  })
})

test('enqueueMany: all or none, and the refusal names the entry', async () => {
  const { server, client } = await open()
  const jobs = await client.enqueueMany([entry(mail, ['a']), entry(transcode, ['v1', '720p'], { priority: 3 })])
  expect(jobs).toMatchObject([
    { type: 'mail.send', queue: 'default' },
    { type: 'video.transcode', queue: 'media', priority: 3 },
  ])
  const bad = client.enqueueMany([entry(mail, ['b']), entry(mail, ['c'], { priority: 1_000 })])
  await expect(bad).rejects.toMatchObject({ status: 400, details: { index: 1, field: 'priority' } })
  expect(await total(server)).toBe(2)
})

describe('waiting for a result', () => {
  test('it comes as soon as there is one, read by the schema', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(transcode, ['v1', '720p'])
    const result = client.waitForResult(job, { job: transcode })
    await server.advance(65_000)
    const { body } = await server.fetch({ queues: ['media'] })
    await server.ack(body.job.id, { result: { url: 'u', at: at(0) } })
    expect(await turning(server, result)).toEqual({ url: 'u', at: new Date(at(0)) })
  })

  test('a result that does not fit the schema is reported', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(transcode, ['v1', '720p'])
    await server.fetch({ queues: ['media'] })
    await server.ack(job.id, { result: { url: 5 } })
    await expect(client.waitForResult(job, { job: transcode })).rejects.toMatchObject({ details: { path: '/url' } })
    expect(await client.waitForResult(job)).toEqual({ url: 5 })
  })

  test('a job that a deadline ended throws with the limit that ended it', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(mail, ['a'], { totalTimeout: '5s' })
    const thrown: unknown = await turning(
      server,
      client.waitForResult(job).catch((error: unknown) => error),
    )
    expect(thrown).toBeInstanceOf(JobFailedError)
    expect(thrown).toMatchObject({
      code: 'total_timeout',
      state: 'discarded',
      error: { timeout_kind: 'total', limit_seconds: 5 },
    })
    expect(server.clock.now()).toBe(Date.parse(at(5_000)))
  })

  test('a cancelled job throws; a patience of its own ends the wait to the millisecond', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(mail, ['a'])
    const impatient = client.waitForResult(job, { timeout: { ms: 2_500 } })
    const [outcome] = await turning(server, Promise.allSettled([impatient]))
    expect(outcome).toMatchObject({ reason: expect.any(DeadlineError) })
    expect(server.clock.now()).toBe(Date.parse(at(2_500)))
    const patient = client.waitForResult(job)
    patient.catch(() => {})
    await idle()
    await client.cancel(job)
    await expect(turning(server, patient)).rejects.toMatchObject({ state: 'cancelled', jobId: job.id })
  })

  test('a job that never was', async () => {
    const { client } = await open()
    await expect(client.waitForResult(UNKNOWN)).rejects.toMatchObject({ status: 404 })
  })
})

describe('one job', () => {
  test('plan shows what an enqueue would mean, and stores nothing', async () => {
    const { server, client } = await open()
    const plan = await client.plan(transcode, ['v1', '720p'], { totalTimeout: '90m', retry: { maxAttempts: 2 } })
    expect(plan.limits).toMatchObject({ timeout_ms: 3_600_000, total_ms: 5_400_000 })
    expect(plan.attempts.map(({ fits }) => fits)).toEqual([true, false])
    expect(plan.warnings).not.toEqual([])
    expect(await total(server)).toBe(0)
  })

  test('explain tells why it went as it did', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(mail, ['a'], { enqueueTtl: '5s' })
    await server.advance(5_000)
    const told = await client.explain(job.id)
    expect(told).toMatchObject({ state: 'discarded', endings: [{ type: 'enqueue_ttl_expired', limit_seconds: 5 }] })
    expect(told.text).toContain('enqueue_ttl')
  })

  test('patch changes what waits; null takes away what was given, in seconds or not', async () => {
    const { client } = await open()
    const job = await client.enqueue(mail, ['a'], {
      timeout: '10s',
      totalTimeout: '1m',
      gracePeriod: { ms: 1_500 },
      enqueueTtl: { ms: 500_500 },
      onTimeout: 'discard',
    })
    const longer = await client.patch(job, { timeout: { ms: 20_500 }, totalTimeout: '2m', priority: 5, delay: '1m' })
    expect(longer).toMatchObject({
      state: 'scheduled',
      priority: 5,
      scheduled_at: at(60_000),
      x_limits: { timeout_ms: 20_500, total_ms: 120_000, grace_ms: 1_500 },
    })
    const without = await client.patch(job, {
      timeout: null,
      totalTimeout: null,
      gracePeriod: null,
      enqueueTtl: null,
      onTimeout: null,
    })
    expect(without.x_limits).toMatchObject({ timeout_ms: 1_800_000, on_timeout: 'retry' })
    for (const key of ['total_ms', 'grace_ms', 'enqueue_ttl_ms']) expect(without.x_limits).not.toHaveProperty(key)
  })

  test('cancel and activate; what cannot be is refused with the server’s own words', async () => {
    const { client } = await open()
    const job = await client.enqueue(mail, ['a'], { pending: true })
    expect(await client.activate(job)).toMatchObject({ state: 'available' })
    expect(await client.cancel(job)).toMatchObject({ state: 'cancelled', previous_state: 'available' })
    const again: unknown = await client.cancel(job).catch((error: unknown) => error)
    expect(again).toBeInstanceOf(RequestError)
    expect(again).toMatchObject({
      code: 'conflict',
      status: 409,
      hint: expect.any(String),
      requestId: expect.any(String),
    })
    await expect(client.get(UNKNOWN)).rejects.toMatchObject({ code: 'not_found', status: 404 })
  })
})

test('list goes through every page, newest first, and tells each job once', async () => {
  const { server, client, asked } = await open()
  await client.enqueue(mail, ['oldest'])
  await server.advance(1)
  await client.enqueueMany(
    mail,
    Array.from({ length: 450 }, (_, n): [string] => [String(n)]),
  )
  await client.enqueue(mail, ['other'], { queue: 'other' })
  asked.length = 0
  const seen: unknown[] = []
  for await (const job of client.list({ queue: 'default', state: 'available' })) seen.push(job.args[0])
  expect(seen.at(-1)).toBe('oldest')
  expect(new Set(seen.slice(0, -1))).toEqual(new Set(Array.from({ length: 450 }, (_, n) => String(n))))
  expect(seen).toHaveLength(451)
  expect(asked).toHaveLength(3)
})

test('list takes the filters of the server', async () => {
  const { server, client } = await open()
  const { id } = await server.start(
    { type: 'a', tags: ['red'], timeout: 1, grace_period: 10, retry: { max_attempts: 1 } },
    { worker_id: 'w' },
  )
  await server.advance(1_000)
  await server.nack(id, { type: 'timeout', message: '' })
  await server.enqueue({ type: 'a' })
  const filters: JobFilter[] = [
    { errorType: 'timeout' },
    { timeoutKind: 'execution' },
    { tag: 'red' },
    { worker: 'w' },
    { endedAfter: new Date(Date.parse(at(0))), endedBefore: new Date(Date.parse(at(2_000))) },
    { createdBefore: new Date(Date.parse(at(1_000))) },
    { state: ['discarded', 'completed'], priority: 0 },
  ]
  for (const filter of filters) {
    const seen: string[] = []
    for await (const job of client.list(filter)) seen.push(job.id)
    expect([filter, seen]).toEqual([filter, [id]])
  }
  expect((await client.list({ createdAfter: new Date(Date.parse(at(1_000))) }).next()).done).toBe(true)
})

describe('operators', () => {
  test('queues: list, look, pause, resume', async () => {
    const { server, client } = await open()
    await client.enqueue(mail, ['a'], { queue: 'q' })
    expect(await client.queues.list()).toMatchObject([{ name: 'q', paused: false, counts: { available: 1 } }])
    expect(await client.queues.pause('q')).toMatchObject({ name: 'q', paused: true })
    expect((await server.fetch({ queues: ['q'] })).body.jobs).toEqual([])
    expect(await client.queues.get('q')).toMatchObject({ paused: true })
    expect(await client.queues.stats('q')).toMatchObject({ name: 'q', available: 1, stats: { depth: 1 } })
    expect(await client.queues.resume('q')).toMatchObject({ paused: false })
    expect((await server.fetch({ queues: ['q'] })).body.jobs).toHaveLength(1)
  })

  test('queues come whole, however many', async () => {
    const { client } = await open()
    await client.enqueueMany(Array.from({ length: 230 }, (_, n) => entry(mail, ['a'], { queue: `q${String(n)}` })))
    expect(await client.queues.list()).toHaveLength(230)
  })

  test('dead letters: list, look, retry, delete', async () => {
    const { server, client } = await open()
    const retry = { maxAttempts: 1, onExhaustion: 'dead_letter' } as const
    const jobs = await client.enqueueMany(mail, [['a'], ['b'], ['c'], ['d']], { retry })
    for (const { id } of jobs) {
      await server.fetch()
      await server.nack(id)
    }
    const ids = jobs.map(({ id }) => id)
    const listed: string[] = []
    for await (const { id } of client.deadLetter.list({ type: 'mail.send' })) listed.push(id)
    expect(listed.sort()).toEqual([...ids].sort())
    expect(await client.deadLetter.stats()).toEqual({ total: 4, by_queue: { default: 4 } })
    const [first = '', second = '', third = ''] = ids
    expect(await client.deadLetter.get(first)).toMatchObject({ state: 'discarded' })
    expect(await client.deadLetter.retry(first)).toMatchObject({ state: 'available', attempt: 0 })
    await client.deadLetter.delete(second)
    await expect(client.get(second)).rejects.toMatchObject({ status: 404 })
    expect(await client.deadLetter.retryMany({ ids: [third, second] })).toMatchObject({ succeeded: 1, failed: 1 })
    expect(await client.deadLetter.retryMany({ type: 'a.other' })).toMatchObject({ matched: 0 })
    await expect(client.deadLetter.retryMany()).rejects.toMatchObject({ status: 400 })
    await expect(client.deadLetter.retryMany({ limit: 5 })).rejects.toMatchObject({ status: 400 })
    expect(await client.deadLetter.retryMany({ all: true })).toMatchObject({ matched: 1, succeeded: 1 })
  })

  test('workers: list, look, quiet, resume, terminate', async () => {
    const { server, client } = await open()
    await server.register('w/1?')
    expect(await client.workers.list()).toMatchObject([{ worker_id: 'w/1?', state: 'running' }])
    expect(await client.workers.quiet('w/1?')).toMatchObject({ directive: 'quiet' })
    expect(await client.workers.resume('w/1?')).toMatchObject({ directive: 'continue' })
    expect(await client.workers.terminate('w/1?')).toMatchObject({ directive: 'terminate' })
    expect(await client.workers.get('w/1?')).toMatchObject({ directive: 'terminate' })
    await expect(client.workers.resume('w/1?')).rejects.toMatchObject({ status: 409 })
  })

  test('policies of types: set, look, delete; refusals have the same form as everywhere', async () => {
    const { client } = await open()
    await client.jobTypes.set(mail, { timeout: '20s', onTimeout: 'discard', caps: { totalTimeout: '1h' } })
    expect(await client.jobTypes.get('mail.send')).toMatchObject({ type: 'mail.send', timeout_ms: 20_000 })
    expect(await client.jobTypes.list()).toHaveLength(1)
    expect(await client.enqueue(mail, ['a'], { totalTimeout: '2h' })).toMatchObject({
      x_limits: { timeout_ms: 20_000, total_ms: 3_600_000, on_timeout: 'discard', sources: { timeout: 'type' } },
    })
    await client.jobTypes.delete(mail)
    await expect(client.jobTypes.get(mail)).rejects.toMatchObject({ code: 'not_found', status: 404 })
  })

  test('the server about itself', async () => {
    const { client } = await open()
    expect(await client.health()).toMatchObject({ status: 'ok' })
    const { extensions, implementation } = await client.manifest()
    expect(implementation?.name).toBe('curfew')
    expect(extensions).toEqual(
      expect.arrayContaining(['urn:curfew:ext:limits', 'urn:curfew:ext:bulk-enqueue', 'urn:curfew:ext:exchange']),
    )
  })
})

describe('events', () => {
  async function hearing(client: Client, filter: Parameters<Client['events']>[0] = {}) {
    const heard: CurfewEvent[] = []
    let isOver = false
    const events = client.events(filter)
    void (async () => {
      for await (const event of { [Symbol.asyncIterator]: () => events }) heard.push(event)
      isOver = true
    })()
    await idle()
    return { heard, events, isOver: () => isOver, types: () => heard.map(({ type }) => type) }
  }

  test('tell what happens, filtered, and end when the listener goes', async () => {
    const { server, client } = await open()
    const all = await hearing(client)
    const some = await hearing(client, { types: ['job.completed', 'queue.*'], queues: ['a'] })
    await client.enqueueMany([entry(mail, ['a'], { queue: 'a' }), entry(mail, ['b'], { queue: 'b' })])
    const { body } = await server.fetch({ queues: ['a', 'b'], count: 2 })
    for (const { id } of body.jobs) await server.ack(id)
    await client.queues.pause('a')
    await idle()
    expect(some.types()).toEqual(['job.completed', 'queue.paused'])
    expect(some.heard[0]).toMatchObject({ subject: body.jobs[0]?.id, data: { queue: 'a', job_type: 'mail.send' } })
    expect(all.types().filter((type) => type === 'job.completed')).toHaveLength(2)
    await all.events.return?.()
    await some.events.return?.()
    await idle()
    expect([all.isOver(), some.isOver()]).toEqual([true, true])
  })

  test('of one job end with it; of one that is over they say so', async () => {
    const { server, client } = await open()
    const job = await client.enqueue(mail, ['a'], { totalTimeout: '5s' })
    const alive = await hearing(client, { jobId: job.id })
    await server.advance(5_000)
    await turning(server, until(alive.isOver))
    expect(alive.types()).toEqual(['job.total_timeout', 'job.discarded', 'job.state_changed'])
    const late = await hearing(client, { jobId: job.id })
    await turning(server, until(late.isOver))
    expect(late.heard).toMatchObject([{ type: 'job.state_changed', data: { to: 'discarded' } }])
  })

  test('nothing is missed and nothing told twice when the line breaks', async () => {
    const lines: AbortController[] = []
    const { server, client } = await open({}, (handler) => async (request) => {
      if (!request.url.startsWith('/ojs/v1/events/stream')) return handler(request)
      const line = new AbortController()
      lines.push(line)
      request.signal.addEventListener('abort', () => {
        line.abort()
      })
      return handler({ ...request, signal: line.signal })
    })
    const { types, events } = await hearing(client, { types: ['job.enqueued'] })
    for (let n = 0; n < 5; n += 1) {
      await client.enqueue(mail, [String(n)])
      await idle()
      lines.at(-1)?.abort()
      await idle()
      await client.enqueue(mail, [`${String(n)} while no listener was there`])
      await server.advance(1_000)
    }
    expect(types()).toEqual(Array.from({ length: 10 }, () => 'job.enqueued'))
    expect(lines).toHaveLength(6)
    await events.return?.()
  })

  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await idle()
  }
})
