/** The client against the real server: the handle of a job, many jobs, and what operators set. */
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { Client } from './client.ts'
import { defineJob } from '../job/define-job.ts'
import { InputError, JobFailedError, UnsupportedError } from '../errors.ts'
import { ScriptedServer, world } from '../scripted.suite.ts'
import { openTestKit, type TestKit } from '../testing/kit.ts'
import type { JobView } from '../wire/jobs.ts'

const mail = defineJob<[to: string]>('mail.send', { queue: 'mail' })
const sum = defineJob('math.sum', { input: z.array(z.number()), output: z.object({ sum: z.number() }) })

let kit: TestKit
// One server for all: each test has its own queue or its own type.
beforeAll(async () => {
  kit = await openTestKit({ settings: { 'allow-private-network': true } })
  return () => kit.close()
}, 240_000)

async function all<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const each of pages) found.push(each)
  return found
}

const ids = (jobs: readonly JobView[]): string[] => jobs.map(({ id }) => id).sort()

describe('the handle of a job', () => {
  test('waits for the result that the job defines, and sees how it went', async () => {
    const worker = kit.worker({ queues: ['sums'] })
    worker.handle(sum, (_ctx, numbers) => ({ sum: numbers.reduce((a, b) => a + b, 0) }))
    await worker.start()
    onTestFinished(() => worker.stop())
    const job = await kit.client.enqueue(sum, [1, 2], { queue: 'sums' })
    await kit.settle()
    expect(await job.result()).toEqual({ sum: 3 })
    expect((await job.refresh()).state).toBe('completed')
    expect((await job.explain()).text).toContain('completed')
    const told: string[] = []
    for await (const { type } of job.events()) told.push(type)
    expect(told.length).toBeGreaterThan(0)
  })

  test('is the job as the server answered it: copies and JSON hold no methods', async () => {
    const job = await kit.client.enqueue(mail, ['a'], { queue: 'plain', priority: 3 })
    const seen = await kit.client.get(job)
    expect(JSON.parse(JSON.stringify(job))).toEqual(seen)
    expect(Object.keys(job).filter((key) => typeof job[key] === 'function')).toEqual([])
    expect({ ...job }).toMatchObject({ id: job.id, state: 'available', priority: 3 })
    expect(structuredClone(job)).toMatchObject({ id: job.id })
    // It may be sent on as data.
    await expect(kit.client.enqueue(defineJob('any.data', { queue: 'plain' }), [job])).resolves.toHaveProperty('id')
  })

  test('changes, cancels and retries its job', async () => {
    const job = await kit.client.enqueue(mail, ['a'], { queue: 'handled' })
    expect(await job.patch({ priority: 7 })).toMatchObject({ priority: 7 })
    expect(await job.cancel()).toMatchObject({ state: 'cancelled' })
    await expect(job.result()).rejects.toBeInstanceOf(JobFailedError)
    expect(await job.retry({ changes: { priority: 2, timeout: '5s' } })).toMatchObject({
      state: 'available',
      priority: 2,
      x_limits: { timeout_ms: 5_000 },
    })
    await expect(job.retry()).rejects.toMatchObject({ code: 'conflict' })
  })
})

describe('many jobs', () => {
  async function three(queue: string): Promise<JobView[]> {
    return kit.client.enqueueMany(mail, [['a'], ['b'], ['c']], { queue, tags: ['t'], meta: { customer: queue } })
  }

  test('a plan names what the action would do, and does nothing', async () => {
    const jobs = await three('planned')
    const plan = await kit.client.bulk.plan('cancel', { filter: { queue: 'planned' } })
    expect(plan).toMatchObject({ action: 'cancel', matched: 3, would_act_on: 3, by_queue: { planned: 3 } })
    expect([...plan.job_ids].sort()).toEqual(ids(jobs))
    expect(await all(kit.client.list({ queue: 'planned', state: 'available' }))).toHaveLength(3)
  })

  test('are cancelled, retried and deleted by filter or by ids', async () => {
    const [first, ...others] = await three('acted')
    const { bulk } = kit.client
    expect(await bulk.cancel({ filter: { queue: 'acted' } }, { limit: 2 })).toMatchObject({ done: 2, skipped: 0 })
    const cancelled = await all(kit.client.list({ queue: 'acted', state: 'cancelled' }))
    const open = [first, ...others].find((job) => !cancelled.some(({ id }) => id === job?.id))
    const mixed = await bulk.delete({ ids: [open?.id ?? '', cancelled[0]?.id ?? ''] })
    expect(mixed).toMatchObject({ matched: 2, done: 1, skipped: 1 })
    expect(mixed.items[0]).toMatchObject({ job_id: open?.id, status: 'skipped', code: 'conflict' })
    // None could be done: an answer, not an error.
    expect(await bulk.retry({ ids: [open?.id ?? ''] })).toMatchObject({ done: 0, skipped: 1 })
  })

  test('something must say which jobs are meant', async () => {
    await expect(kit.client.bulk.cancel({} as never)).rejects.toBeInstanceOf(InputError)
    await expect(kit.client.bulk.cancel({ ids: [], all: true } as never)).rejects.toBeInstanceOf(InputError)
    await expect(kit.client.bulk.cancel({ filter: {} })).rejects.toMatchObject({ status: 400 })
    await expect(kit.client.deadLetter.deleteMany({})).rejects.toBeInstanceOf(InputError)
  })

  test('a server that does not announce dry runs is not asked for one: it would act', async () => {
    const server = new ScriptedServer(() => ({ body: { extensions: [] } }))
    const client = new Client({ server, ...world() })
    await expect(client.bulk.plan('delete', { all: true })).rejects.toBeInstanceOf(UnsupportedError)
    expect(server.urls).toEqual(['GET /ojs/manifest'])
  })

  test('are listed by every filter of the server', async () => {
    const jobs = await three('filtered')
    const [before, after] = [new Date(kit.now().getTime() - 60_000), new Date(kit.now().getTime() + 60_000)]
    const within = { createdAfter: before, createdBefore: after, enqueuedAfter: before, enqueuedBefore: after }
    const filter = { queue: 'filtered', type: 'mail.send', tag: 't', priority: 0, meta: { customer: 'filtered' } }
    expect(ids(await all(kit.client.list({ ...filter, ...within, state: ['available', 'active'] })))).toEqual(ids(jobs))
    expect(await all(kit.client.list({ ...filter, meta: { customer: 'other' } }))).toEqual([])
    expect(await all(kit.client.list({ ...filter, enqueuedAfter: after }))).toEqual([])
    expect(await all(kit.client.list({ queue: 'filtered', endedAfter: before, worker: 'w' }))).toEqual([])
  })

  test('dead letters are listed, planned, retried and deleted by filter', async () => {
    const worker = kit.worker({ queues: ['dying'] })
    worker.handle(mail, () => {
      throw new TypeError('no')
    })
    await worker.start()
    onTestFinished(() => worker.stop())
    const retry = { maxAttempts: 1, onExhaustion: 'dead_letter' } as const
    const jobs = await kit.client.enqueueMany(mail, [['a'], ['b'], ['c']], { queue: 'dying', retry, tags: ['dead'] })
    await kit.settle()
    const { deadLetter } = kit.client
    expect(ids(await all(deadLetter.list({ errorType: 'TypeError', tag: 'dead' })))).toEqual(ids(jobs))
    expect(await all(deadLetter.list({ errorType: 'RangeError' }))).toEqual([])
    expect(await deadLetter.plan('retry', { tag: 'dead' })).toMatchObject({ would_act_on: 3 })
    expect(await deadLetter.plan('delete', { tag: 'dead', limit: 1 })).toMatchObject({ action: 'delete' })
    await worker.stop()
    const again = await deadLetter.retry(jobs[0]?.id ?? '', { changes: { totalTimeout: '1h' } })
    expect(again).toMatchObject({ state: 'available', x_limits: { total_ms: 3_600_000 } })
    expect(await deadLetter.deleteMany({ queue: 'dying' })).toMatchObject({ succeeded: 2, failed: 0 })
    expect((await kit.client.retries(jobs[0]?.id ?? '')).max_attempts).toBe(1)
  })
})

describe('what operators set', () => {
  test('the configuration of a queue, in the words of the SDK', async () => {
    const { queues } = kit.client
    const config = await queues.configure('set', {
      defaults: { timeout: '1m', onTimeout: 'discard' },
      backpressure: { maxDepth: 2, strategy: 'reject' },
      retention: { completed: '1h', deadLetter: '30d' },
      order: 'edf',
      rateLimit: { concurrency: 5, rate: { limit: 10, period: '1s' } },
    })
    expect(config).toMatchObject({ default_timeout_ms: 60_000, order: 'edf', backpressure: { max_depth: 2 } })
    expect(await queues.config('set')).toEqual(config)
    expect(await kit.client.enqueue(mail, ['a'], { queue: 'set' })).toMatchObject({ x_limits: { timeout_ms: 60_000 } })
    const less = await queues.configure('set', { defaults: { timeout: null }, backpressure: null })
    expect(less).not.toHaveProperty('default_timeout_ms')
    expect(less).toMatchObject({ order: 'edf' })
  })

  test('limiters of queues and keys', async () => {
    const { queues, limiters } = kit.client
    await queues.limit('limited', { concurrency: 1 })
    expect(await queues.limiter('limited')).toMatchObject({ concurrency: { limit: 1 } })
    await queues.limit('limited', null)
    await expect(queues.limiter('limited')).rejects.toMatchObject({ code: 'not_found' })
    await kit.client.enqueue(mail, ['a'], { queue: 'keyed', rateLimit: { key: 'stripe', concurrency: 2 } })
    expect(await limiters.get('stripe')).toMatchObject({ key: 'stripe', concurrency: { limit: 2 }, waiting: 1 })
    expect((await all(limiters.list())).map(({ key }) => key)).toContain('stripe')
  })

  test('jobs at risk, and totals', async () => {
    const job = await kit.client.enqueue(mail, ['a'], { queue: 'risky', enqueueTtl: '1m' })
    const { items } = await kit.client.atRisk({ queue: 'risky', limit: 5 })
    expect(items).toMatchObject([{ job_id: job.id, limit: 'enqueue_ttl' }])
    expect((await kit.client.stats()).jobs.available).toBeGreaterThan(0)
    expect(await kit.client.progress(job)).toMatchObject({ job_id: job.id, progress: null })
  })

  test('pools', async () => {
    const { pools } = kit.client
    const made = await pools.set('shared', { strategy: 'weighted', queues: { 'p-a': { weight: 3 }, 'p-b': {} } })
    expect(made).toMatchObject({ name: 'shared', strategy: 'weighted' })
    expect(await pools.get('shared')).toMatchObject({ name: 'shared' })
    expect((await pools.list()).map(({ name }) => name)).toEqual(['shared'])
    await pools.delete('shared')
    await expect(pools.get('shared')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('schemas, and that a type holds its jobs to them', async () => {
    const { schemas, jobTypes } = kit.client
    const strict = defineJob<[number]>('schema.strict', { queue: 'checked' })
    await schemas.register(strict, '1', { type: 'array', prefixItems: [{ type: 'number' }], minItems: 1 })
    await jobTypes.set(strict, { validation: 'strict', timeout: '1m' })
    await expect(kit.client.enqueue(strict, ['x'] as never)).rejects.toMatchObject({ code: 'schema_validation' })
    await kit.client.enqueue(strict, [1])
    expect(await schemas.get(strict)).toMatchObject({ schema: { minItems: 1 } })
    expect(await schemas.get(strict, { version: '1' })).toHaveProperty('uri')
    expect(await schemas.versions(strict)).toMatchObject([{ is_latest: true }])
    expect((await schemas.list()).map(({ type }) => type)).toEqual(['schema.strict'])
    await schemas.delete(strict, '1')
    await expect(schemas.get(strict)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('webhooks: the secret is shown once, and rotated', async () => {
    const { webhooks } = kit.client
    const made = await webhooks.subscribe({
      url: 'https://example.com/hook',
      events: ['job.completed'],
      filter: { queues: ['none'], jobTypes: ['none.such'] },
      timeout: '5s',
    })
    expect(made).toMatchObject({ timeout: 5, filter: { queues: ['none'], job_types: ['none.such'] } })
    expect(made.secret).toMatch(/^whsec_/)
    expect(await webhooks.get(made.id)).not.toHaveProperty('secret')
    expect(await webhooks.patch(made.id, { active: false })).toMatchObject({ active: false, timeout: 5 })
    expect((await webhooks.rotateSecret(made.id)).secret).not.toBe(made.secret)
    expect(await webhooks.list()).toHaveLength(1)
    expect(await webhooks.deliveries({ subscription: made.id })).toEqual([])
    await expect(webhooks.subscribe({ url: 'x', events: [], timeout: { ms: 1_500 } })).rejects.toThrow(/whole seconds/)
    await webhooks.delete(made.id)
    expect(await webhooks.list()).toEqual([])
  })

  test('workers and what cron entries have fired', async () => {
    const worker = kit.worker({ queues: ['healthy'] })
    worker.handle(mail, () => {})
    await worker.start()
    expect(await kit.client.workers.health(worker.id)).toMatchObject({ healthy: true, state: 'running' })
    await worker.stop()
    await kit.client.crons.upsert('each', { cron: '@every 1h', job: mail, input: ['a'], options: { queue: 'cron' } })
    await kit.client.crons.trigger('each')
    expect(await kit.client.crons.history('each', { limit: 1 })).toHaveLength(1)
    await kit.client.crons.delete('each')
  })
})
