/** Cron entries and time: what fires, when, beside what, and what is skipped and why. */
import { describe, expect, test } from 'vitest'
import { CRON, FakeClock } from '@curfew/core'
import { at, TestServer, type Body, type EventView, type JobView } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

async function register(server: TestServer, more: Record<string, unknown> = {}): Promise<void> {
  const reply = await server.post('/ojs/v1/cron', {
    name: 'tick',
    expression: '* * * * *',
    job_template: { type: 'test.tick', args: [] },
    ...more,
  })
  if (reply.status > 201) throw new Error(reply.text)
}

const cron = async (server: TestServer, name = 'tick'): Promise<Body> =>
  (await server.get(`/ojs/v1/cron/${name}`)).body['cron'] as Body
const fetchAll = async (server: TestServer): Promise<JobView[]> => (await server.fetch({ count: 1000 })).body.jobs
const told = async (server: TestServer, name = 'tick'): Promise<EventView[]> =>
  (await server.events(name)).filter(({ type }) => type.startsWith('cron.'))
/** What became of each tick, with the instant it was meant for. */
const ticks = async (server: TestServer, name = 'tick'): Promise<string[]> =>
  (await told(server, name)).map(({ type, data }) =>
    type === 'cron.triggered' ? `${data.scheduled_at}` : `${data.scheduled_at} ${data.reason}`,
  )
const openAt = (utc: string): Promise<TestServer> => TestServer.open({ clock: new FakeClock(Date.parse(utc)) })

/** What no request could do to an entry. */
function spoil(server: TestServer, spoiled: Record<string, unknown>): Promise<void> {
  return server.engine.run({
    name: 'spoil',
    needs: { docs: [{ kind: CRON.kind, id: 'tick' }] },
    run: (unit) => {
      const entry = unit.doc(CRON, 'tick')
      if (entry !== null) unit.putDoc(CRON, 'tick', { ...entry, ...spoiled })
    },
  })
}

test('a firing is an enqueue of its instant: a new job with fresh budgets, told of and counted', async () => {
  const server = await TestServer.open()
  const template = { type: 'test.tick', args: [1], meta: { own: true }, total_timeout: 30, scheduled_at: '+PT5S' }
  await register(server, { expression: '@every 90s', job_template: template })
  await server.advance(90_000 - 1)
  expect(await told(server)).toEqual([])
  await server.advance(1)
  const [triggered] = await told(server)
  expect(triggered).toMatchObject({
    type: 'cron.triggered',
    subject: 'tick',
    time: at(90_000),
    data: {
      cron_name: 'tick',
      cron_expr: '@every 90s',
      job_type: 'test.tick',
      queue: 'default',
      run_count: 1,
      scheduled_at: at(90_000),
      actual_time: at(90_000),
    },
  })
  const job = await server.job(String(triggered?.data.job_id))
  expect(job).toMatchObject({
    type: 'test.tick',
    state: 'scheduled',
    args: [1],
    created_at: at(90_000),
    scheduled_at: at(95_000),
    meta: { own: true, cron_name: 'tick', cron_triggered_at: at(90_000) },
    x_limits: { total_deadline: at(120_000), sources: { total: 'publish' } },
  })
  expect(await cron(server)).toMatchObject({ run_count: 1, last_run_at: at(90_000), next_run_at: at(180_000) })
  expect(await server.eventTypes()).toEqual(['job.scheduled', 'cron.triggered'])
  expect(await server.metric('ojs_job_enqueued_total', { queue: 'default', type: 'test.tick' })).toBe(1)
  await server.advance(30_000)
  expect((await server.job(job.id)).error).toMatchObject({ type: 'total_timeout', limit_seconds: 30 })
})

describe('while one of its jobs is open', () => {
  test('skip: nothing fires, whether it runs, waits for a worker or for a retry; then the schedule goes on', async () => {
    const server = await TestServer.open()
    await register(server)
    await server.advance(2 * MINUTE)
    const [job] = await fetchAll(server)
    await server.advance(MINUTE)
    await server.nack(job?.id ?? '', { message: 'boom' })
    expect((await server.job(job?.id ?? '')).state).toBe('retryable')
    expect(await ticks(server)).toEqual([
      at(MINUTE),
      `${at(2 * MINUTE)} overlap_prevention`,
      `${at(3 * MINUTE)} overlap_prevention`,
    ])
    expect((await told(server)).at(-1)?.data).toMatchObject({ existing_job_id: job?.id, active_job_id: job?.id })
    expect(await cron(server)).toMatchObject({ run_count: 1, last_run_at: at(MINUTE), next_run_at: at(4 * MINUTE) })
    await server.advance(30_000)
    const [again] = await fetchAll(server)
    expect(again?.id).toBe(job?.id)
    await server.ack(again?.id ?? '')
    await server.advance(MINUTE)
    expect((await ticks(server)).at(-1)).toBe(at(4 * MINUTE))
  })

  test('allow: they run side by side', async () => {
    const server = await TestServer.open()
    await register(server, { overlap_policy: 'allow' })
    await server.advance(3 * MINUTE)
    expect((await fetchAll(server)).map(({ meta }) => String(meta.cron_triggered_at))).toEqual(
      [1, 2, 3].map((n) => at(n * MINUTE)),
    )
    expect(await cron(server)).toMatchObject({ run_count: 3 })
  })

  test.each(['cancel_previous', 'cancel', 'replace'])('%s: the new one takes its place', async (overlap_policy) => {
    const server = await TestServer.open()
    await register(server, { overlap_policy })
    await server.advance(MINUTE)
    const [first] = (await server.fetch({ worker_id: 'w' })).body.jobs
    await server.advance(MINUTE)
    expect(await server.job(first?.id ?? '')).toMatchObject({ state: 'cancelled', cancel_reason: 'overlap' })
    expect((await server.ack(first?.id ?? '')).status).toBe(409)
    const beat = await server.beat('w', [first?.id ?? ''])
    expect(beat.body.x_cancel_jobs).toMatchObject([{ job_id: first?.id, reason: 'cancelled' }])
    const [second] = await fetchAll(server)
    expect(second?.meta.cron_triggered_at).toBe(at(2 * MINUTE))
    expect(await ticks(server)).toEqual([at(MINUTE), at(2 * MINUTE)])
  })

  test.each(['enqueue', 'queue'])(
    '%s: one waits, and fires the moment the one before it ends',
    async (overlap_policy) => {
      const server = await TestServer.open()
      await register(server, { overlap_policy })
      await server.advance(MINUTE)
      const [first] = await fetchAll(server)
      await server.advance(2 * MINUTE)
      expect(await fetchAll(server)).toEqual([])
      expect((await cron(server)).waiting_since).toBe(at(2 * MINUTE))
      expect(await ticks(server)).toEqual([at(MINUTE), `${at(3 * MINUTE)} already_waiting`])
      await server.advance(10_000)
      // Reported and asked for in one request: the next is handed out at once.
      const { body } = await server.post('/ojs/v1/workers/exchange', {
        worker_id: 'w',
        acks: [{ job_id: first?.id }],
        fetch: { queues: ['default'] },
      })
      expect(body.jobs).toMatchObject([{ created_at: at(190_000), meta: { cron_triggered_at: at(2 * MINUTE) } }])
      expect(await cron(server)).toMatchObject({ run_count: 2, last_run_at: at(190_000), next_run_at: at(4 * MINUTE) })
      expect(await cron(server)).not.toHaveProperty('waiting_since')
      expect((await told(server)).at(-1)).toMatchObject({
        type: 'cron.triggered',
        time: at(190_000),
        data: { scheduled_at: at(2 * MINUTE), actual_time: at(190_000) },
      })
    },
  )

  test('enqueue: it waits for the last of them', async () => {
    const server = await TestServer.open()
    await register(server, { overlap_policy: 'allow' })
    await server.advance(2 * MINUTE)
    const [first, second] = await fetchAll(server)
    await server.call('PATCH', '/ojs/v1/cron/tick', { overlap_policy: 'enqueue' })
    await server.advance(MINUTE)
    await server.ack(first?.id ?? '')
    expect(await cron(server)).toMatchObject({ run_count: 2, waiting_since: at(3 * MINUTE) })
    await server.ack(second?.id ?? '')
    expect((await cron(server)).run_count).toBe(3)
  })

  test('enqueue: the end that a deadline brings is an end too', async () => {
    const server = await TestServer.open()
    const job_template = { type: 'test.tick', args: [], total_timeout: 90 }
    await register(server, { overlap_policy: 'enqueue', job_template })
    await server.advance(MINUTE)
    await fetchAll(server)
    await server.advance(MINUTE)
    expect((await cron(server)).run_count).toBe(1)
    await server.advance(30_000)
    expect(await cron(server)).toMatchObject({ run_count: 2, last_run_at: at(150_000) })
  })

  test.each<[string, (server: TestServer) => Promise<unknown>]>([
    ['switched off', (server) => server.call('PATCH', '/ojs/v1/cron/tick', { enabled: false })],
    ['given another policy', (server) => server.call('PATCH', '/ojs/v1/cron/tick', { overlap_policy: 'skip' })],
    ['removed', (server) => server.call('DELETE', '/ojs/v1/cron/tick')],
  ])('enqueue: a firing that waits is withdrawn when the entry is %s', async (_, change) => {
    const server = await TestServer.open()
    await register(server, { overlap_policy: 'enqueue' })
    await server.advance(MINUTE)
    const [first] = await fetchAll(server)
    await server.advance(MINUTE)
    await change(server)
    await server.ack(first?.id ?? '')
    expect(await fetchAll(server)).toEqual([])
    expect(await ticks(server)).toEqual([at(MINUTE), `${at(2 * MINUTE)} withdrawn`])
  })

  test('an entry is removed, and its job goes on', async () => {
    const server = await TestServer.open()
    await register(server)
    await server.advance(MINUTE)
    const [job] = await fetchAll(server)
    await server.call('DELETE', '/ojs/v1/cron/tick')
    await server.advance(2 * MINUTE)
    expect((await server.ack(job?.id ?? '')).status).toBe(200)
    expect(await ticks(server)).toEqual([at(MINUTE)])
  })
})

describe('on the days on which clocks are changed', () => {
  const overlap_policy = 'allow'
  const timezone = 'Europe/Berlin'

  test('a time that does not come is skipped and told of, at the moment the clocks pass over it', async () => {
    const server = await openAt('2026-03-29T00:15:00Z')
    await register(server, { expression: '30 2 * * *', timezone, overlap_policy })
    await register(server, { name: 'pace', expression: '30 * * * *', timezone, overlap_policy })
    await server.advance(2 * HOUR)
    expect(await ticks(server)).toEqual(['2026-03-29T01:00:00.000Z dst_skip'])
    const [skipped] = await told(server)
    expect(skipped).toMatchObject({ time: '2026-03-29T01:00:00.000Z', data: { local_time: '2026-03-29T02:30:00' } })
    expect(await cron(server)).toMatchObject({ run_count: 0, next_run_at: '2026-03-30T00:30:00.000Z' })
    expect(await ticks(server, 'pace')).toEqual(['2026-03-29T00:30:00.000Z', '2026-03-29T01:30:00.000Z'])
  })

  test('a time that is skipped while the server is away is reported when it is back', async () => {
    const store = await openTestStore()
    const before = await TestServer.open({ store, clock: new FakeClock(Date.parse('2026-03-28T20:00:00Z')) })
    await register(before, { expression: '30 2 * * *', timezone })
    const server = await TestServer.open({ store, clock: new FakeClock(Date.parse('2026-03-31T12:00:00Z')) })
    expect(await ticks(server)).toEqual(['2026-03-29T01:00:00.000Z dst_skip', '2026-03-30T00:30:00.000Z'])
    expect((await cron(server)).next_run_at).toBe('2026-04-01T00:30:00.000Z')
  })

  test('a time that comes twice fires once; a pace goes on', async () => {
    const server = await openAt('2026-10-25T00:15:00Z')
    await register(server, { expression: '30 2 * * *', timezone, overlap_policy })
    await register(server, { name: 'pace', expression: '30 * * * *', timezone, overlap_policy })
    await server.advance(2 * HOUR)
    expect(await ticks(server)).toEqual(['2026-10-25T00:30:00.000Z'])
    expect((await cron(server)).next_run_at).toBe('2026-10-26T01:30:00.000Z')
    expect(await ticks(server, 'pace')).toEqual(['2026-10-25T00:30:00.000Z', '2026-10-25T01:30:00.000Z'])
  })

  test('every twenty seconds through a change of the clocks: each once, none left out', async () => {
    const server = await openAt('2026-10-25T00:30:00Z')
    await register(server, { expression: '*/20 * * * * *', timezone, overlap_policy })
    await server.advance(HOUR)
    const began = Date.parse('2026-10-25T00:30:00Z')
    expect(await ticks(server)).toEqual(
      Array.from({ length: 180 }, (_, n) => new Date(began + (n + 1) * 20_000).toISOString()),
    )
    expect((await cron(server)).run_count).toBe(180)
  })
})

describe('after the server was away', () => {
  test('what was missed is made up for once, and the schedule goes on from now', async () => {
    const store = await openTestStore()
    const before = await TestServer.open({ store })
    await register(before, { overlap_policy: 'allow' })
    await register(before, { name: 'later', expression: '0 18 * * *' })
    await before.advance(MINUTE)
    const server = await TestServer.open({ store, clock: new FakeClock(Date.UTC(2026, 0, 1, 12, 30, 30)) })
    expect(await ticks(server)).toEqual([at(MINUTE), at(2 * MINUTE)])
    expect((await told(server)).at(-1)?.data.actual_time).toBe(at(30.5 * MINUTE))
    expect(await cron(server)).toMatchObject({
      run_count: 2,
      last_run_at: at(30.5 * MINUTE),
      next_run_at: at(31 * MINUTE),
    })
    expect(await told(server, 'later')).toEqual([])
    await server.advance(MINUTE)
    expect((await cron(server)).run_count).toBe(3)
  })

  test('what had fired does not fire again', async () => {
    const store = await openTestStore()
    const before = await TestServer.open({ store })
    await register(before, { overlap_policy: 'allow' })
    await before.advance(MINUTE)
    for (let restarts = 0; restarts < 3; restarts += 1) {
      const server = await TestServer.open({ store, clock: new FakeClock(Date.UTC(2026, 0, 1, 12, 1)) })
      expect(await ticks(server)).toEqual([at(MINUTE)])
      expect(await cron(server)).toMatchObject({ run_count: 1, next_run_at: at(2 * MINUTE) })
    }
  })

  test('@every keeps counting from where it began', async () => {
    const store = await openTestStore()
    const before = await TestServer.open({ store })
    await register(before, { expression: '@every 7m', overlap_policy: 'allow' })
    await before.advance(7 * MINUTE)
    const server = await TestServer.open({ store, clock: new FakeClock(Date.UTC(2026, 0, 1, 12, 30)) })
    expect(await cron(server)).toMatchObject({ run_count: 2, next_run_at: at(35 * MINUTE) })
  })
})

test('an entry that is off fires nothing; switched on again it makes up for nothing', async () => {
  const server = await TestServer.open()
  await register(server, { overlap_policy: 'allow', enabled: false })
  await server.advance(3 * MINUTE)
  await server.call('PATCH', '/ojs/v1/cron/tick', { enabled: true })
  expect(await ticks(server)).toEqual([])
  await server.advance(MINUTE)
  expect(await ticks(server)).toEqual([at(4 * MINUTE)])
  await server.call('PATCH', '/ojs/v1/cron/tick', { enabled: false })
  await server.advance(3 * MINUTE)
  expect(await ticks(server)).toEqual([at(4 * MINUTE)])
})

describe('a firing that cannot be', () => {
  test('is skipped with its reason, and the schedule and everything else go on', async () => {
    const server = await TestServer.open()
    const x_parent = { job_id: '019539a4-b68c-7def-8000-112233445566' }
    await register(server, { job_template: { type: 'test.tick', args: [], x_parent } })
    await register(server, { name: 'zoe', overlap_policy: 'allow' })
    await server.advance(2 * MINUTE)
    expect(await ticks(server)).toEqual([`${at(MINUTE)} validation_error`, `${at(2 * MINUTE)} validation_error`])
    expect((await told(server))[0]?.data.message).toContain('x_parent')
    expect(await cron(server)).toMatchObject({ run_count: 0, last_run_at: null, next_run_at: at(3 * MINUTE) })
    expect(await ticks(server, 'zoe')).toEqual([at(MINUTE), at(2 * MINUTE)])
  })

  test.each(['reject', 'ignore'])('the same work is there already (%s)', async (on_conflict) => {
    const server = await TestServer.open()
    const work = { type: 'test.tick', args: [1], unique: { keys: ['type', 'args'], on_conflict } }
    await register(server, { overlap_policy: 'allow', job_template: work })
    const there = await server.enqueue(work)
    await server.advance(MINUTE)
    expect(await ticks(server)).toEqual([`${at(MINUTE)} duplicate`])
    expect((await told(server))[0]?.data.existing_job_id).toBe(there)
    await server.fetch()
    await server.ack(there)
    await server.advance(MINUTE)
    expect((await ticks(server)).at(-1)).toBe(at(2 * MINUTE))
    expect((await cron(server)).run_count).toBe(1)
  })

  test('the one that is cancelled for it does not count as a duplicate; another is, and then nothing is cancelled', async () => {
    const server = await TestServer.open()
    const work = { type: 'test.tick', args: [1], unique: { keys: ['type', 'args'], states: ['available', 'active'] } }
    await register(server, { overlap_policy: 'cancel_previous', job_template: work })
    await server.advance(2 * MINUTE)
    expect(await ticks(server)).toEqual([at(MINUTE), at(2 * MINUTE)])
    const [running] = await fetchAll(server)
    await server.call('PATCH', '/ojs/v1/cron/tick', { args: [2] })
    const other = await server.enqueue({ ...work, args: [2] })
    await server.advance(MINUTE)
    expect((await ticks(server)).at(-1)).toBe(`${at(3 * MINUTE)} duplicate`)
    expect((await told(server)).at(-1)?.data.existing_job_id).toBe(other)
    expect((await server.job(running?.id ?? '')).state).toBe('active')
  })

  test('its queue is full', async () => {
    const server = await TestServer.open()
    const config = { backpressure: { max_depth: 1, strategy: 'reject' } }
    expect((await server.call('PUT', '/ojs/v1/admin/queues/default/config', config)).status).toBe(200)
    await register(server, { overlap_policy: 'allow' })
    await server.advance(2 * MINUTE)
    expect(await ticks(server)).toEqual([at(MINUTE), `${at(2 * MINUTE)} queue_full`])
    const [job] = await fetchAll(server)
    await server.ack(job?.id ?? '')
    await server.advance(MINUTE)
    expect((await ticks(server)).at(-1)).toBe(at(3 * MINUTE))
  })

  test.each<[string, Record<string, unknown>, string[]]>([
    ['a template that cannot be read', { template: 'this is not JSON' }, [`${at(MINUTE)} invalid_request`]],
    ['a template that breaks us', { template: null }, [`${at(MINUTE)} internal_error`]],
    ['a zone that is gone', { timezone: 'Europe/Atlantis' }, [at(MINUTE), `${at(MINUTE)} invalid_schedule`]],
  ])('%s does not stop other entries', async (_, spoiled, expected) => {
    const server = await TestServer.open()
    await register(server)
    await register(server, { name: 'zoe', overlap_policy: 'allow' })
    await spoil(server, spoiled)
    await server.advance(MINUTE)
    expect((await ticks(server)).slice(0, expected.length)).toEqual(expected)
    expect(await ticks(server, 'zoe')).toEqual([at(MINUTE)])
    expect((await server.get('/ojs/v1/health')).status).toBe(200)
    const other = await server.enqueue({ queue: 'other' })
    expect((await server.job(other)).state).toBe('available')
    await server.advance(MINUTE)
    expect(await ticks(server, 'zoe')).toEqual([at(MINUTE), at(2 * MINUTE)])
  })
})

test('a firing that breaks keeps no server from starting, and no command from its answer', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  await register(before)
  await spoil(before, { template: null })
  const server = await TestServer.open({ store, clock: new FakeClock(Date.UTC(2026, 0, 1, 12, 1)) })
  expect(await ticks(server)).toEqual([`${at(MINUTE)} internal_error`])
  expect(server.logged.filter(({ level }) => level === 'error')).toMatchObject([{ message: 'a firing broke' }])
  await server.advance(MINUTE)
  expect((await ticks(server)).at(-1)).toBe(`${at(2 * MINUTE)} internal_error`)
})

describe('fired by hand', () => {
  const trigger = (server: TestServer) => server.post('/ojs/v1/cron/tick/trigger')

  test('a job comes at once, beside the schedule, also when the entry is off', async () => {
    const server = await TestServer.open()
    await register(server, { expression: '0 18 * * *', enabled: false })
    await server.advance(5_000)
    const reply = await trigger(server)
    expect(reply.status).toBe(201)
    expect(reply.headers['Location']).toBe(`/ojs/v1/jobs/${reply.body.job.id}`)
    expect(reply.body.job).toMatchObject({
      type: 'test.tick',
      state: 'available',
      meta: { cron_name: 'tick', cron_triggered_at: at(5_000), cron_manual: true },
    })
    expect(reply.body['cron']).toMatchObject({
      run_count: 1,
      last_run_at: at(5_000),
      next_run_at: null,
      enabled: false,
    })
    expect((await told(server))[0]?.data).toMatchObject({ manual: true, job_id: reply.body.job.id })
  })

  test('the overlap policy holds here too', async () => {
    const server = await TestServer.open()
    await register(server)
    const { job } = (await trigger(server)).body
    const refused = await trigger(server)
    expect(refused.status).toBe(409)
    expect(refused.body['error'].details).toEqual({ overlap_policy: 'skip', existing_job_id: job.id })
    await register(server, { overlap_policy: 'cancel_previous' })
    const second = (await trigger(server)).body.job
    expect((await server.job(job.id)).state).toBe('cancelled')
    await register(server, { overlap_policy: 'enqueue' })
    const waits = await trigger(server)
    expect([waits.status, waits.body['waiting'], waits.body['cron'].waiting_since]).toEqual([202, true, at(0)])
    expect((await trigger(server)).status).toBe(409)
    await server.fetch()
    await server.ack(second.id)
    expect(await fetchAll(server)).toMatchObject([{ meta: { cron_triggered_at: at(0) } }])
    await register(server, { overlap_policy: 'allow' })
    expect((await trigger(server)).status).toBe(201)
  })

  test('what cannot be enqueued is refused, and nothing is counted', async () => {
    const server = await TestServer.open()
    const x_parent = { job_id: '019539a4-b68c-7def-8000-112233445566' }
    await register(server, { job_template: { type: 'test.tick', args: [], x_parent } })
    expect((await trigger(server)).status).toBe(422)
    expect(await told(server)).toEqual([])
    expect((await cron(server)).run_count).toBe(0)
  })
})
