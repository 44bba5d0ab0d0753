/** Work whose length a caller chooses: it is bounded, or it is done in turns, so that other calls do not wait for it. */
import { CHARS_AT_ONCE, FakeClock, MAX_FIELDS, MAX_VALUES, MAX_VALUES_OF_MANY } from '@curfew/core'
import { describe, expect, test, vi } from 'vitest'
import { QUEUES_PER_TURN } from '../../packages/server/src/engine/jobs/fetch.ts'
import { MAX_SERIES } from '../../packages/server/src/engine/metrics/series.ts'
import { MAX_PER_TURN } from '../../packages/server/src/engine/kernel/turns.ts'
import { TestServer } from '../harness.ts'
import { openTestStore } from '../stores.ts'

/** Counts the turns of the event loop that the server asks for. */
class CountingClock extends FakeClock {
  turns = 0

  override defer(run: () => void): void {
    this.turns += 1
    super.defer(run)
  }
}

const jobs = (count: number, queueOf = (_: number): string => 'default'): unknown[] =>
  Array.from({ length: count }, (_, n) => ({ type: 'test.job', args: [n], queue: queueOf(n) }))

/** How many turns a call takes; it must be answered with this status. */
async function turnsOf(
  method: string,
  path: string,
  body: unknown,
  status: number,
  prepare: (server: TestServer) => Promise<unknown> = () => Promise.resolve(),
): Promise<number> {
  const clock = new CountingClock()
  const server = await TestServer.open({ clock })
  await prepare(server)
  const before = clock.turns
  expect((await server.call(method, path, body)).status).toBe(status)
  return clock.turns - before
}

describe('a long list is worked through in turns', () => {
  const COUNT = 10 * MAX_PER_TURN

  test('a batch: read, decided, written and shown', async () => {
    const turns = await turnsOf('POST', '/ojs/v1/jobs/batch', { jobs: jobs(COUNT) }, 201)
    // Once for each of: reading, deciding, the rows of jobs, the rows of events, the answer.
    expect(turns).toBeGreaterThanOrEqual((5 * COUNT) / MAX_PER_TURN)
  })

  test('a workflow: read, decided, written and shown', async () => {
    const turns = await turnsOf('POST', '/ojs/v1/workflows', { type: 'group', jobs: jobs(COUNT) }, 201)
    expect(turns).toBeGreaterThanOrEqual((6 * COUNT) / MAX_PER_TURN)
  })

  test('a body, before anything is done with it', async () => {
    const args = Array.from({ length: MAX_VALUES - 10 }, () => 'twelve signs')
    const [long, short] = [
      await turnsOf('POST', '/ojs/v1/jobs', { type: 'test.job', args }, 201),
      await turnsOf('POST', '/ojs/v1/jobs', { type: 'test.job', args: [] }, 201),
    ]
    expect(long - short).toBeGreaterThanOrEqual(20)
  })

  test('what a batch of unique jobs is compared with', async () => {
    const unique = { keys: ['type', 'args'] }
    const uniqueJobs = jobs(COUNT).map((job) => ({ ...(job as object), unique }))
    const [compared, plain] = [
      await turnsOf('POST', '/ojs/v1/jobs/batch', { jobs: uniqueJobs }, 201),
      await turnsOf('POST', '/ojs/v1/jobs/batch', { jobs: jobs(COUNT) }, 201),
    ]
    expect(compared - plain).toBeGreaterThanOrEqual(COUNT / MAX_PER_TURN - 1)
  })

  test('jobs with long texts: fewer are read in one turn', async () => {
    const fields = { own: 'x'.repeat(CHARS_AT_ONCE) }
    const long = jobs(50).map((job) => ({ ...(job as object), ...fields }))
    const [slow, quick] = [
      await turnsOf('POST', '/ojs/v1/jobs/batch', { jobs: long }, 201),
      await turnsOf('POST', '/ojs/v1/jobs/batch', { jobs: jobs(50) }, 201),
    ]
    // The body itself is parsed in pieces of four times that length.
    expect(slow - quick).toBeGreaterThanOrEqual(49 + 12)
  })

  test.each([
    ['by filter', { filter: { queue: 'default' } }, COUNT / 500 - 1],
    ['by filter and metadata', { filter: { queue: 'default', meta: { a: 'b' } } }, COUNT / 500 - 1],
    ['by ids', { job_ids: Array.from({ length: COUNT }, () => 'x') }, COUNT / MAX_PER_TURN - 1],
  ])('a dry run of a bulk action, %s', async (_, meant, least) => {
    const path = '/ojs/v1/admin/jobs/bulk/cancel'
    const turns = await turnsOf('POST', path, { ...meant, dry_run: true }, 200, (server) =>
      server.post('/ojs/v1/jobs/batch', { jobs: jobs(COUNT) }),
    )
    expect(turns).toBeGreaterThanOrEqual(least)
  })

  test('the queues of a fetch', async () => {
    const queues = Array.from({ length: 10 * QUEUES_PER_TURN }, (_, n) => `queue-${String(n)}`)
    const [many, one] = [
      await turnsOf('POST', '/ojs/v1/workers/fetch', { queues }, 200),
      await turnsOf('POST', '/ojs/v1/workers/fetch', { queues: ['queue-0'] }, 200),
    ]
    expect(many - one).toBeGreaterThanOrEqual(9)
  })

  test('and stays all or nothing', async () => {
    const server = await TestServer.open()
    const [first, ...others] = jobs(COUNT)
    const reply = await server.post('/ojs/v1/jobs/batch', { jobs: [...others, { ...(first as object), timeout: 0 }] })
    expect(reply).toMatchObject({ status: 422, body: { error: { details: { index: COUNT - 1 } } } })
    expect((await server.get('/ojs/v1/jobs')).body['pagination']).toMatchObject({ total: 0 })
  })

  test('no write of a long batch takes more rows than fit a turn', async () => {
    const store = await openTestStore()
    const saved: number[] = []
    const transaction = store.transaction.bind(store)
    store.transaction = (work) =>
      transaction((tx) => {
        const save = tx.save.bind(tx)
        tx.save = (changes) => {
          saved.push(changes.jobs.length + changes.events.length + changes.docs.length)
          return save(changes)
        }
        return work(tx)
      })
    const server = await TestServer.open({ store })
    expect((await server.post('/ojs/v1/jobs/batch', { jobs: jobs(COUNT) })).status).toBe(201)
    expect(Math.max(...saved)).toBeLessThanOrEqual(MAX_PER_TURN)
    expect(saved.reduce((sum, rows) => sum + rows, 0)).toBeGreaterThanOrEqual(2 * COUNT)
  })
})

describe('a body with too many values is refused with their number, the bound and what to do', () => {
  test.each([
    ['/ojs/v1/jobs', { type: 'test.job', args: Array.from({ length: MAX_VALUES }, () => ({})) }, MAX_VALUES],
    ['/ojs/v1/jobs/batch', { jobs: Array.from({ length: MAX_VALUES_OF_MANY }, () => 1) }, MAX_VALUES_OF_MANY],
  ] as const)('%s', async (path, body, most) => {
    const server = await TestServer.open()
    const reply = await server.post(path, body)
    expect(reply).toMatchObject({
      status: 413,
      body: { error: { code: 'payload_too_large', details: { max_values: most, values: expect.any(Number) } } },
    })
    expect(reply.body['error'].details.values).toBeGreaterThan(most)
    expect(reply.body['error'].hint).toContain('fewer values')
  })

  test('the manifest tells the bounds', async () => {
    const server = await TestServer.open()
    expect((await server.get('/ojs/manifest')).body['x_limits']).toMatchObject({
      body_values: MAX_VALUES,
      list_values: MAX_VALUES_OF_MANY,
      beat_jobs: 10_000,
    })
  })
})

describe('many queues', () => {
  const MANY = MAX_SERIES + 50
  const nameOf = (n: number): string => `queue-${String(n).padStart(4, '0')}`

  async function crowded(): Promise<TestServer> {
    const server = await TestServer.open()
    await server.post('/ojs/v1/jobs/batch', { jobs: jobs(MANY, nameOf) })
    await server.post('/ojs/v1/jobs/batch', { jobs: jobs(MANY, nameOf) })
    return server
  }

  test('have so many series in the metrics, and the rest as one', async () => {
    const { text } = await (await crowded()).get('/metrics')
    const available = text.split('\n').filter((line) => /^ojs_queue_depth\{.*state="available"/.test(line))
    expect(available).toHaveLength(MAX_SERIES + 1)
    expect(available).toContain('ojs_queue_depth{queue="queue-0000",state="available"} 2')
    expect(available).toContain(`ojs_queue_depth{queue="other",state="available"} ${String(2 * (MANY - MAX_SERIES))}`)
    const enqueued = text.split('\n').filter((line) => line.startsWith('ojs_job_enqueued_total{'))
    expect(enqueued).toHaveLength(MAX_SERIES + 1)
    expect(enqueued).toContain(`ojs_job_enqueued_total{queue="other",type="other"} ${String(2 * (MANY - MAX_SERIES))}`)
  })

  test('are shown page by page, in every list', async () => {
    const server = await crowded()
    const offset = String(MANY - 10)
    const { body } = await server.get(`/ojs/v1/queues?limit=50&offset=${offset}`)
    expect(body['queues']).toHaveLength(10)
    expect(body['queues'][9]).toMatchObject({ name: nameOf(MANY - 1), counts: { available: 2 } })
    expect(body['pagination']).toMatchObject({ total: MANY, has_more: false })
    expect((await server.get('/ojs/v1/admin/stats')).body).toMatchObject({
      queues: MANY,
      jobs: { available: 2 * MANY },
    })
  })

  test('are never all read for what a caller asks', async () => {
    const server = await crowded()
    const all = vi.fn(() => Promise.reject(new Error('all of them were read')))
    Object.assign(server.store, { queues: all, counts: all, workers: all })
    for (const path of [
      '/metrics',
      '/health',
      '/ojs/v1/queues',
      `/ojs/v1/queues/${nameOf(7)}`,
      `/ojs/v1/queues/${nameOf(7)}/stats`,
      '/ojs/v1/admin/queues',
      `/ojs/v1/admin/queues/${nameOf(7)}`,
      '/ojs/v1/admin/stats',
      '/ojs/v1/admin/workers',
      '/ojs/v1/admin/pools',
      '/ojs/v1/admin/at-risk',
      '/ojs/v1/admin/scheduling/stats',
      '/ojs/v1/workers',
    ])
      expect((await server.get(path)).status, path).toBe(200)
    expect(all).not.toHaveBeenCalled()
  })
})

test('a beat speaks of at most 10 000 jobs', async () => {
  const server = await TestServer.open()
  const ids = Array.from({ length: 10_001 }, (_, n) => `019a0000-0000-7000-8000-${String(n).padStart(12, '0')}`)
  const beat = (more: object) => server.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', ...more })
  expect((await beat({ active_job_ids: ids })).body['error']).toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('at most 10000'),
  })
  const leases = Object.fromEntries(ids.map((id) => [id, 1]))
  expect((await beat({ x_leases: leases })).body['error']).toMatchObject({
    code: 'invalid_request',
    message: 'x_leases must have at most 10000 entries.',
  })
})

test('arguments too long to be compared cannot be unique as a whole, and the refusal says what can', async () => {
  const server = await TestServer.open()
  const args = [{ id: 7, text: 'x'.repeat(70_000) }]
  const push = (unique: object) => server.post('/ojs/v1/jobs', { type: 'test.job', args, unique })
  expect(await push({ keys: ['type', 'args'] })).toMatchObject({
    status: 413,
    body: { error: { hint: expect.stringContaining('unique.args_keys') } },
  })
  expect((await push({ keys: ['type', 'args'], args_keys: ['id'] })).status).toBe(201)
})

describe('an object whose fields are all looked at has a bounded number of them', () => {
  const many = Object.fromEntries(Array.from({ length: MAX_FIELDS + 1 }, (_, n) => [`own_${String(n)}`, n]))
  const long = { own: 'x'.repeat(300_000) }
  const job = { type: 'test.job', args: [] }
  const cron = { name: 'c', cron: '* * * * *' }

  test.each([
    ['a job', '/ojs/v1/jobs', { ...job, ...many }],
    ['the options of a job', '/ojs/v1/jobs', { ...job, options: many }],
    ['its retry policy', '/ojs/v1/jobs', { ...job, retry: many }],
    ['the retry policy in its options', '/ojs/v1/jobs', { ...job, options: { retry: many } }],
    ['long options', '/ojs/v1/jobs', { ...job, options: long }],
    ['a job of a batch', '/ojs/v1/jobs/batch', { jobs: [{ ...job, ...many }] }],
    ['a workflow', '/ojs/v1/workflows', { type: 'chain', steps: [job], ...many }],
    ['the options of a workflow', '/ojs/v1/workflows', { type: 'chain', steps: [job], options: many }],
    ['a step', '/ojs/v1/workflows', { type: 'chain', steps: [{ ...job, ...many }] }],
    ['the options of a step', '/ojs/v1/workflows', { type: 'chain', steps: [{ ...job, options: many }] }],
    ['a cron entry', '/ojs/v1/cron', { ...cron, ...job, ...many }],
    ['a job template', '/ojs/v1/cron', { ...cron, job_template: { ...job, ...many } }],
    ['the options of a job template', '/ojs/v1/cron', { ...cron, job_template: { ...job, options: many } }],
  ])('%s', async (_, path, body) => {
    const server = await TestServer.open()
    expect(await server.post(path, body)).toMatchObject({
      status: 413,
      body: { error: { code: 'payload_too_large' } },
    })
  })

  test('and so many are taken and given back', async () => {
    const server = await TestServer.open()
    const { own_0: _0, own_1: _1, own_2: _2, ...few } = many as Record<string, number>
    const { body } = await server.post('/ojs/v1/jobs', { ...job, ...few })
    expect(body['job']).toMatchObject(few)
  })
})
