/** Cron entries as people meet them: registered in either dialect, listed, changed, removed, and refused when they are wrong. */
import { describe, expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'

const JOB = { type: 'report.make', args: [{ kind: 'daily' }], options: { queue: 'reports' } }
const register = (server: TestServer, more: Record<string, unknown> = {}): Promise<Reply> =>
  server.post('/ojs/v1/cron', { name: 'daily', expression: '0 9 * * *', job_template: JOB, ...more })
const names = ({ body }: Reply): string[] => (body['crons'] as { name: string }[]).map(({ name }) => name)

test('an entry is registered with a template, and shown in both dialects', async () => {
  const server = await TestServer.open()
  const reply = await register(server, { timezone: 'America/New_York', description: 'Each morning' })
  expect(reply.status).toBe(201)
  expect(reply.headers['Location']).toBe('/ojs/v1/cron/daily')
  expect(reply.body.cron).toEqual({
    name: 'daily',
    expression: '0 9 * * *',
    cron: '0 9 * * *',
    timezone: 'America/New_York',
    overlap_policy: 'skip',
    enabled: true,
    status: 'active',
    description: 'Each morning',
    type: 'report.make',
    queue: 'reports',
    args: [{ kind: 'daily' }],
    meta: {},
    options: { queue: 'reports' },
    job_template: JOB,
    created_at: at(0),
    updated_at: at(0),
    next_run_at: '2026-01-01T14:00:00.000Z',
    last_run_at: null,
    run_count: 0,
  })
  expect(reply.body.cron_job).toEqual(reply.body.cron)
  expect((await server.get('/ojs/v1/cron/daily')).body).toEqual(reply.body)
})

test('the other dialect: `cron`, and the job beside it', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/cron', {
    name: 'sync',
    cron: '*/30 * * * *',
    type: 'integration.sync',
    options: { queue: 'sync', timeout: 900, tags: ['a'], meta: { partner: '1', both: 'options' } },
    meta: { both: 'meta' },
    overlap_policy: 'queue',
    // Kept by the server, and ignored when sent.
    run_count: 40,
    next_run_at: '2000-01-01T00:00:00Z',
    status: 'disabled',
  })
  expect(reply.status).toBe(201)
  expect(reply.body.cron_job).toMatchObject({
    cron: '*/30 * * * *',
    timezone: 'UTC',
    overlap_policy: 'enqueue',
    type: 'integration.sync',
    args: [],
    meta: { partner: '1', both: 'meta' },
    options: { queue: 'sync', timeout: 900, tags: ['a'] },
    run_count: 0,
    status: 'active',
    next_run_at: '2026-01-01T12:30:00.000Z',
  })
  await server.advance(1_800_000)
  const { body } = await server.fetch({ queues: ['sync'] })
  expect(body.job).toMatchObject({
    type: 'integration.sync',
    args: [],
    timeout: 900,
    tags: ['a'],
    meta: { partner: '1', both: 'meta', cron_name: 'sync', cron_triggered_at: '2026-01-01T12:30:00.000Z' },
  })
})

test('arguments and unknown fields reach the job as they were written', async () => {
  const server = await TestServer.open()
  const text =
    '{"name":"exact","expression":"* * * * *","job_template":{"type":"a.b","args":[1.0, 12345678901234567890,"\\ud800"],"x_own":{"n":1e2}}}'
  expect((await server.post('/ojs/v1/cron', text)).text).toContain('"args":[1.0, 12345678901234567890,"\\ud800"]')
  await server.advance(60_000)
  const { text: fetched } = await server.fetch()
  expect(fetched).toContain('"args":[1.0, 12345678901234567890,"\\ud800"]')
  expect(fetched).toContain('"x_own":{"n":1e2}')
})

describe('registered again', () => {
  test('with the same schedule it keeps its next run and its count, and takes the new template', async () => {
    const server = await TestServer.open()
    await register(server, { expression: '@every 10m' })
    await server.advance(600_000)
    await server.advance(60_000)
    const again = await register(server, { expression: '@every 10m', job_template: { ...JOB, type: 'report.other' } })
    expect(again.status).toBe(200)
    expect(again.body.cron).toMatchObject({
      type: 'report.other',
      run_count: 1,
      last_run_at: at(600_000),
      next_run_at: at(1_200_000),
      created_at: at(0),
      updated_at: at(660_000),
    })
  })

  test('with another schedule it computes its next run anew', async () => {
    const server = await TestServer.open()
    await register(server, { expression: '@every 10m' })
    await server.advance(120_000)
    expect((await register(server, { expression: '@every 20m' })).body.cron.next_run_at).toBe(at(1_320_000))
    const moved = await register(server, { timezone: 'Asia/Tokyo' })
    expect([moved.status, moved.body.cron.next_run_at]).toEqual([200, '2026-01-02T00:00:00.000Z'])
  })

  test('what was switched off stays off, unless it is asked for', async () => {
    const server = await TestServer.open()
    await register(server)
    await server.call('PATCH', '/ojs/v1/cron/daily', { enabled: false })
    expect((await register(server)).body.cron).toMatchObject({ enabled: false, next_run_at: null })
    expect((await register(server, { enabled: true })).body.cron).toMatchObject({
      enabled: true,
      next_run_at: '2026-01-02T09:00:00.000Z',
    })
  })
})

test('entries are listed by name, filtered and paged', async () => {
  const server = await TestServer.open()
  expect((await server.get('/ojs/v1/cron')).body).toMatchObject({ crons: [], cron_jobs: [], count: 0 })
  for (const name of ['c', 'a', 'd', 'b']) await register(server, { name, enabled: name < 'c' })
  const all = await server.get('/ojs/v1/cron')
  expect(names(all)).toEqual(['a', 'b', 'c', 'd'])
  expect(all.body.cron_jobs).toEqual(all.body.crons)
  expect(all.body).toMatchObject({ count: 4, pagination: { total: 4, has_more: false } })
  expect(names(await server.get('/ojs/v1/cron?enabled=true'))).toEqual(['a', 'b'])
  expect(names(await server.get('/ojs/v1/cron?enabled=false'))).toEqual(['c', 'd'])
  const first = await server.get('/ojs/v1/cron?limit=3')
  expect([names(first), first.body.pagination.has_more]).toEqual([['a', 'b', 'c'], true])
  expect(names(await server.get(`/ojs/v1/cron?limit=3&cursor=${String(first.body.pagination.next_cursor)}`))).toEqual([
    'd',
  ])
  expect(names(await server.get('/ojs/v1/cron?limit=2&offset=1'))).toEqual(['b', 'c'])
  expect((await server.get('/ojs/v1/cron?enabled=maybe')).status).toBe(400)
})

test('the next firings are previewed, also of an entry that is off', async () => {
  const server = await TestServer.open()
  await register(server, { expression: '30 2 * * *', timezone: 'Europe/Berlin', enabled: false })
  const { body } = await server.get('/ojs/v1/cron/daily/next?count=2')
  expect(body).toEqual({
    name: 'daily',
    timezone: 'Europe/Berlin',
    next_run_times: ['2026-01-02T01:30:00.000Z', '2026-01-03T01:30:00.000Z'],
  })
  expect((await server.get('/ojs/v1/cron/daily/next')).body.next_run_times).toHaveLength(5)
  expect((await server.get('/ojs/v1/cron/daily/next?count=0')).status).toBe(400)
  expect((await server.get('/ojs/v1/cron/none/next')).status).toBe(404)
})

describe('a change', () => {
  test('of everything that may change; what is not named stays', async () => {
    const server = await TestServer.open()
    await register(server, { description: 'old' })
    const change = (body: unknown) => server.call('PATCH', '/ojs/v1/cron/daily', body)
    expect((await change({ cron: '0 10 * * *' })).body.cron).toMatchObject({
      expression: '0 10 * * *',
      next_run_at: '2026-01-02T10:00:00.000Z',
      description: 'old',
    })
    expect((await change({ timezone: 'Asia/Tokyo' })).body.cron.next_run_at).toBe('2026-01-02T01:00:00.000Z')
    expect((await change({ overlap_policy: 'replace' })).body.cron.overlap_policy).toBe('cancel_previous')
    expect((await change({ description: null })).body.cron.description).toBeNull()
    expect((await change({ args: [7] })).body.cron.job_template).toEqual({ ...JOB, args: [7] })
    expect((await change({ options: null, meta: { a: 1 } })).body.cron).toMatchObject({
      queue: 'default',
      job_template: { type: 'report.make', args: [7], meta: { a: 1 } },
    })
    expect((await change({ job_template: { type: 'whole.new' } })).body.cron).toMatchObject({
      type: 'whole.new',
      job_template: { type: 'whole.new', args: [] },
      timezone: 'Asia/Tokyo',
      overlap_policy: 'cancel_previous',
    })
    expect((await change({ enabled: false })).body.cron).toMatchObject({
      enabled: false,
      status: 'disabled',
      next_run_at: null,
    })
  })

  test.each<[string, unknown, number, string]>([
    ['a key that does not exist', { enabeld: false }, 400, 'enabeld'],
    ['another name', { name: 'other' }, 400, 'name'],
    ['a bad expression', { expression: '61 * * * *' }, 400, 'expression'],
    ['a bad zone', { timezone: 'EST' }, 400, 'timezone'],
    ['a bad template', { job_template: { args: [] } }, 400, 'job_template.type'],
    ['a bad part of the template', { type: 'NOT A TYPE' }, 400, 'type'],
    ['a template and a part of it', { job_template: JOB, args: [] }, 400, 'args'],
    ['a bad flag', { enabled: 'yes' }, 400, 'enabled'],
  ])('with %s is refused and changes nothing', async (_, body, status, field) => {
    const server = await TestServer.open()
    const { cron } = (await register(server)).body
    const reply = await server.call('PATCH', '/ojs/v1/cron/daily', body)
    expect([reply.status, reply.body.error.details.field]).toEqual([status, field])
    expect((await server.get('/ojs/v1/cron/daily')).body.cron).toEqual(cron)
  })
})

test.each<[string, Record<string, unknown>, number, string]>([
  ['no name', { name: null }, 400, 'name'],
  ['a name with a space', { name: 'my cron' }, 400, 'name'],
  ['a name in capitals', { name: 'Daily' }, 400, 'name'],
  ['a name that begins with a dash', { name: '-daily' }, 400, 'name'],
  ['a name that is too long', { name: 'a'.repeat(256) }, 400, 'name'],
  ['no expression', { expression: null }, 400, 'expression'],
  ['an empty expression', { expression: '' }, 400, 'expression'],
  ['an expression that is none', { expression: 'not-a-cron' }, 400, 'expression'],
  ['seven fields', { expression: '0 0 0 * * * 2030' }, 400, 'expression'],
  ['a bad value in the other dialect', { expression: null, cron: '* 24 * * *' }, 400, 'cron'],
  ['two expressions that differ', { cron: '0 8 * * *' }, 400, 'cron'],
  ['a day that never comes', { expression: '0 0 31 2 *' }, 400, 'expression'],
  ['a time the clocks always skip', { expression: '30 2 * 3 SUNL', timezone: 'Europe/Berlin' }, 400, 'expression'],
  ['less than a second', { expression: '@every 500ms' }, 400, 'expression'],
  ['an offset for a zone', { timezone: '+02:00' }, 400, 'timezone'],
  ['an abbreviation for a zone', { timezone: 'EST' }, 400, 'timezone'],
  ['a zone that does not exist', { timezone: 'Mars/Olympus' }, 400, 'timezone'],
  ['an unknown policy', { overlap_policy: 'explode' }, 400, 'overlap_policy'],
  ['a flag that is none', { enabled: 1 }, 400, 'enabled'],
  ['no job', { job_template: null }, 400, 'type'],
  ['a job without a type', { job_template: { args: [] } }, 400, 'job_template.type'],
  ['a job with a bad type', { job_template: { type: 'NO', args: [] } }, 400, 'job_template.type'],
  ['a job with bad arguments', { job_template: { type: 'a', args: {} } }, 400, 'job_template.args'],
  [
    'a job with an id',
    { job_template: { ...JOB, id: '019539a4-b68c-7def-8000-112233445566' } },
    400,
    'job_template.id',
  ],
  ['a job with a bad queue', { job_template: { ...JOB, options: { queue: 'No' } } }, 400, 'job_template.queue'],
  ['a job with a bad limit', { job_template: { ...JOB, options: { timeout: -1 } } }, 422, 'job_template.timeout'],
  [
    'a job with bad retries',
    { job_template: { ...JOB, options: { retry: { max_attempts: -1 } } } },
    422,
    'job_template.retry.max_attempts',
  ],
  ['meta that is not an object', { job_template: { ...JOB, meta: 3 } }, 400, 'job_template.meta'],
  ['a template that is not an object', { job_template: [] }, 400, 'job_template'],
])('an entry with %s is refused, the field is named, and nothing is stored', async (_, more, status, field) => {
  const server = await TestServer.open()
  const reply = await register(server, more)
  expect([reply.status, reply.body.error?.details.field]).toEqual([status, field])
  expect((await server.get('/ojs/v1/cron')).body.count).toBe(0)
})

test('an entry is removed once; what is not there is not found', async () => {
  const server = await TestServer.open()
  await register(server)
  const gone = await server.call('DELETE', '/ojs/v1/cron/daily')
  expect(gone.status).toBe(200)
  expect(gone.body).toMatchObject({
    deleted: true,
    name: 'daily',
    cron: { name: 'daily' },
    cron_job: { name: 'daily' },
  })
  for (const [method, path] of [
    ['DELETE', ''],
    ['GET', ''],
    ['POST', '/trigger'],
  ] as const) {
    const reply = await server.call(method, `/ojs/v1/cron/daily${path}`)
    expect(reply.status).toBe(404)
    expect(reply.body.error).toMatchObject({
      code: 'not_found',
      details: { resource_type: 'cron', resource_id: 'daily' },
    })
  }
  expect((await server.call('PATCH', '/ojs/v1/cron/daily', {})).status).toBe(404)
  await server.advance(86_400_000)
  expect((await server.fetch({ queues: ['reports'] })).body.jobs).toEqual([])
})

test('the entry of a tenant makes jobs of that tenant, and others neither see nor touch it', async () => {
  const server = await TestServer.open()
  const as = (tenant: string, method: string, path: string, body?: unknown) =>
    server.call(method, `/ojs/v1/cron${path}`, body, { 'x-ojs-tenant': tenant })
  const entry = { name: 'daily', expression: '* * * * *', job_template: JOB }
  const made = await as('acme', 'POST', '', entry)
  expect([made.status, made.body.cron.tenant_id, made.body.cron.meta]).toEqual([201, 'acme', { tenant_id: 'acme' }])
  expect((await as('other', 'POST', '', entry)).status).toBe(409)
  for (const [method, path, body] of [
    ['GET', '/daily'],
    ['GET', '/daily/next'],
    ['PATCH', '/daily', { enabled: false }],
    ['POST', '/daily/trigger'],
    ['DELETE', '/daily'],
  ] as const) {
    expect((await as('other', method, path, body)).status).toBe(404)
  }
  expect((await as('other', 'GET', '')).body.count).toBe(0)
  expect((await as('acme', 'GET', '')).body.count).toBe(1)
  const changed = await as('acme', 'PATCH', '/daily', { job_template: { type: 'report.other' } })
  expect(changed.body.cron).toMatchObject({ type: 'report.other', tenant_id: 'acme' })
  await server.advance(60_000)
  expect((await server.fetch()).body.job.meta).toMatchObject({ tenant_id: 'acme', cron_name: 'daily' })
})

test('the manifest tells that there is cron', async () => {
  const server = await TestServer.open()
  expect((await server.get('/ojs/manifest')).body.capabilities.cron_jobs).toBe(true)
})
