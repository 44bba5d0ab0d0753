/** What a job may look like: every refusal names its field and leaves nothing behind; everything else is kept. */
import { expect, test } from 'vitest'
import { at, TestServer } from '../harness.ts'

const V7 = '01890000-0000-7000-8000-00000000000a'

const BAD_TOP: [string, unknown, string?][] = [
  ['type', undefined],
  ['type', null],
  ['type', ''],
  ['type', 'UPPER'],
  ['type', '1st'],
  ['type', 'a..b'],
  ['type', 'a b'],
  ['type', 'x'.repeat(256)],
  ['type', 5],
  ['args', undefined],
  ['args', null],
  ['args', {}],
  ['args', 'x'],
  ['args', 1],
  ['id', ''],
  ['id', V7.toUpperCase()],
  ['id', '01890000-0000-4000-8000-00000000000a'],
  ['id', 7],
  ['specversion', '2.0'],
  ['specversion', 1],
  ['meta', []],
  ['meta', 'x'],
]

const BAD_OPTION: [string, unknown, string?][] = [
  ['queue', 'UPPER'],
  ['queue', ''],
  ['queue', '-a'],
  ['queue', 'x'.repeat(129)],
  ['priority', 101],
  ['priority', -101],
  ['priority', 1.5],
  ['priority', '5'],
  ['tags', 'x'],
  ['tags', [1], 'tags[0]'],
  ['pending', 'yes'],
  ['scheduled_at', '2030-01-01T00:00:00'],
  ['scheduled_at', 'tomorrow'],
  ['scheduled_at', '2026-02-30T00:00:00Z'],
  ['scheduled_at', '2026-01-01T24:00:00Z'],
  ['scheduled_at', 'PT5S'],
  ['scheduled_at', '+5s'],
  ['scheduled_at', '+P11Y'],
  ['scheduled_at', 1893456000],
  ['delay_until', 'soon'],
  ['expires_at', '2030-01-01'],
  ['metadata', []],
]

const BAD_POLICY: [string, unknown, string?][] = [
  ...['timeout', 'total_timeout', 'enqueue_ttl', 'heartbeat_timeout', 'visibility_timeout'].flatMap(
    (field): [string, unknown][] => [
      [field, 0],
      [field, -1],
      [field, 1.5],
      [field, true],
      [field, 315_360_001],
    ],
  ),
  ['timeout', '30'],
  ['grace_period', -1],
  ['grace_period', 0.5],
  ['grace_period_ms', -1],
  ['timeout_ms', -1],
  ['timeout_ms', 0.5],
  ['total_timeout_ms', 315_360_000_001],
  ['visibility_timeout', '30 seconds'],
  ['visibility_timeout', 'PT0S'],
  ['x_on_timeout', 'explode'],
  ['retry', 5],
  ['retry', { max_attempts: -1 }, 'retry.max_attempts'],
  ['retry', { max_attempts: 1.5 }, 'retry.max_attempts'],
  ['retry', { initial_interval: '1s' }, 'retry.initial_interval'],
  ['retry', { initial_interval: 'PT0S' }, 'retry.initial_interval'],
  ['retry', { backoff_coefficient: 0.5 }, 'retry.backoff_coefficient'],
  ['retry', { initial_interval: 'PT10S', max_interval: 'PT5S' }, 'retry.max_interval'],
  ['retry', { jitter: 'yes' }, 'retry.jitter'],
  ['retry', { non_retryable_errors: 'x' }, 'retry.non_retryable_errors'],
  ['retry', { on_exhaustion: 'explode' }, 'retry.on_exhaustion'],
  ['retry', { backoff_strategy: 'random' }, 'retry.backoff_strategy'],
  ['retry_policy', { max_attempts: -1 }, 'retry_policy.max_attempts'],
]

async function refusals(
  cases: [string, unknown, string?][],
  wrap: (fields: object) => object,
  code: string,
  status: number,
) {
  const server = await TestServer.open()
  for (const [field, value, named] of cases) {
    const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...wrap({ [field]: value }) })
    const seen = `${field} = ${JSON.stringify(value)}`
    expect([seen, reply.status, reply.body.error?.code]).toEqual([seen, status, code])
    expect([seen, reply.body.error.details.field, reply.body.error.type]).toEqual([seen, named ?? field, code])
  }
  expect((await server.get('/ojs/v1/jobs')).body.pagination.total).toBe(0)
  expect((await server.get('/ojs/v1/queues')).body.queues).toEqual([])
  expect(await server.events()).toEqual([])
}

test('a field of the wrong form at the top is a 400 that names it', () =>
  refusals([...BAD_TOP, ...BAD_OPTION], (fields) => fields, 'invalid_request', 400))

test('a field of the wrong form in options is a 400 that names it', () =>
  refusals(BAD_OPTION, (options) => ({ options }), 'invalid_request', 400))

test('a limit or a policy that cannot be is a 422 that names it', () =>
  refusals(BAD_POLICY, (fields) => fields, 'validation_error', 422))

test('and the same in options', () => refusals(BAD_POLICY, (options) => ({ options }), 'validation_error', 422))

test('a total shorter than the timeout is refused within one request, in every mix of units and places', async () => {
  const server = await TestServer.open()
  const mixes = [
    { timeout: 10, total_timeout: 9 },
    { timeout_ms: 10_000, total_timeout: 9 },
    { timeout: 10, options: { total_timeout_ms: 9_999 } },
  ]
  for (const mix of mixes) {
    const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...mix })
    expect([reply.status, reply.body.error.details.field]).toEqual([422, 'total_timeout'])
  }
  expect((await server.post('/ojs/v1/jobs', { type: 'a', args: [], timeout: 10, total_timeout: 10 })).status).toBe(201)
})

test('twins that agree are fine, twins that differ are not', async () => {
  const server = await TestServer.open()
  const post = (fields: object) => server.post('/ojs/v1/jobs', { type: 'a', args: [], ...fields })
  expect((await post({ timeout: 10, timeout_ms: 10_000 })).status).toBe(201)
  expect((await post({ timeout: 10, timeout_ms: 10_001 })).body.error.details.field).toBe('timeout')
  expect((await post({ timeout: 10, timeout_ms: 0 })).status).toBe(201)
})

test('what is at the edge is accepted', async () => {
  const server = await TestServer.open()
  const edges = [
    { type: `a.${'b'.repeat(253)}` },
    { type: 'a-b_c.d-1' },
    { queue: '0'.repeat(128) },
    { queue: 'a.b-c.' },
    { priority: -100 },
    { priority: 100 },
    { timeout: 315_360_000 },
    { grace_period: 0 },
    { timeout_ms: 1 },
    { total_timeout_ms: 315_360_000_000 },
    { id: V7 },
    { retry: { max_attempts: 0, unknown_field: 1, initialInterval: 'PT2S' } },
    { retry: { initial_interval: 'PT10M' } },
  ]
  for (const fields of edges) {
    const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [], ...fields })
    expect([fields, reply.status]).toEqual([fields, 201])
  }
})

test('a 201 has the whole job and its place', async () => {
  const server = await TestServer.open()
  const reply = await server.post('/ojs/v1/jobs', { type: 'a', args: [1, null, { b: 2 }], id: V7 })
  expect(reply.headers['Location']).toBe(`/ojs/v1/jobs/${V7}`)
  expect(reply.body.job).toEqual({
    specversion: '1.0',
    id: V7,
    type: 'a',
    queue: 'default',
    args: [1, null, { b: 2 }],
    meta: {},
    priority: 0,
    state: 'available',
    attempt: 0,
    max_attempts: 3,
    created_at: at(0),
    enqueued_at: at(0),
    x_limits: expect.any(Object),
  })
})

test('ids the server makes are UUIDv7', async () => {
  const server = await TestServer.open()
  expect(await server.enqueue()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('an id that is taken is a duplicate, whatever became of the job', async () => {
  const server = await TestServer.open()
  await server.enqueue({ id: V7 })
  await server.call('DELETE', `/ojs/v1/jobs/${V7}`)
  const reply = await server.post('/ojs/v1/jobs', { type: 'b', args: [], id: V7 })
  expect(reply.status).toBe(409)
  expect(reply.body.error).toMatchObject({ code: 'duplicate', details: { existing_job_id: V7 } })
  expect((await server.job(V7)).type).toBe('test.job')
})

test('options and top level say the same; the top wins', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({
    queue: 'top',
    timeout: 5,
    options: { queue: 'low', priority: 3, tags: ['x'], timeout: 9, retry_policy: { max_attempts: 7 } },
  })
  expect(await server.job(id)).toMatchObject({
    queue: 'top',
    timeout: 5,
    priority: 3,
    tags: ['x'],
    max_attempts: 7,
    retry: { max_attempts: 7 },
  })
})

test('metadata merges under meta, which wins', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ meta: { a: 1 }, options: { metadata: { a: 2, b: 3 } } })
  expect((await server.job(id)).meta).toEqual({ a: 1, b: 3 })
})

test('null is absent: nothing of it is kept or answered', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({
    meta: null,
    timeout: null,
    tags: null,
    x_own: null,
    scheduled_at: null,
    options: null,
  })
  const job = await server.job(id)
  expect(job.meta).toEqual({})
  for (const key of ['timeout', 'tags', 'x_own', 'scheduled_at', 'options']) expect(job).not.toHaveProperty(key)
})

test('unknown fields are kept and echoed by every answer', async () => {
  const server = await TestServer.open()
  const own = { x_tenant: 'acme', ext_trace: { a: [1] }, version: 2, schema: 'urn:x' }
  const id = await server.enqueue(own)
  expect(await server.job(id)).toMatchObject(own)
  expect((await server.fetch()).body.job).toMatchObject(own)
  expect((await server.get('/ojs/v1/jobs')).body.jobs[0]).toMatchObject(own)
  expect((await server.ack(id)).body.job).toMatchObject(own)
})

test('fields that belong to the server are ignored when a client sends them', async () => {
  const server = await TestServer.open()
  const spoofed = {
    state: 'completed',
    attempt: 9,
    max_attempts: 99,
    created_at: 'x',
    enqueued_at: 'x',
    started_at: 'x',
    completed_at: 'x',
    discarded_at: 'x',
    cancelled_at: 'x',
    activated_at: 'x',
    re_enqueued_at: 'x',
    error: {},
    errors: [1],
    result: 1,
    worker_id: 'x',
    progress: 1,
    progress_message: 'x',
    progress_data: 1,
    checkpoint: 1,
    last_checkpoint: 1,
    retry_delay_ms: 5,
    next_retry_at: 'x',
    cancel_reason: 'x',
    previous_state: 'x',
    x_lease: 7,
    x_limits: 7,
    x_interruptions: 7,
    x_purge_at: 7,
    x_warnings: 7,
  }
  const plain = await server.job(await server.enqueue())
  const { x_warnings: warnings, ...job } = await server.job(await server.enqueue(spoofed))
  expect({ ...job, id: '' }).toEqual({ ...plain, id: '' })
  // Of these only max_attempts can have been meant as a limit.
  expect(warnings).toEqual([expect.stringContaining('Did you mean retry.max_attempts?')])
})

test('moments are echoed byte for byte, relative ones resolved', async () => {
  const server = await TestServer.open()
  const zones = ['2099-12-31T23:59:59Z', '2099-12-31T23:59:59.5Z', '2099-12-31T23:59:59+02:00', '2099-12-31t23:59:59z']
  for (const text of zones) {
    expect(await server.job(await server.enqueue({ scheduled_at: text, expires_at: text }))).toMatchObject({
      scheduled_at: text,
      expires_at: text,
    })
  }
  const relative = { scheduled_at: '+PT2S', expires_at: '+P1DT1M' }
  expect(await server.job(await server.enqueue(relative))).toMatchObject({
    scheduled_at: at(2_000),
    expires_at: at(86_460_000),
  })
  const bare = await server.job(await server.enqueue({ options: { delay_until: 'PT1.5S' } }))
  expect(bare).toMatchObject({ state: 'scheduled', scheduled_at: at(1_500) })
})

test('meta above 64 KiB is too large, whatever the characters', async () => {
  const server = await TestServer.open()
  const post = (text: string) => server.post('/ojs/v1/jobs', { type: 'a', args: [], meta: { a: text } })
  expect((await post('x'.repeat(65_536 - 8))).status).toBe(201)
  const reply = await post('x'.repeat(65_536 - 7))
  expect([reply.status, reply.body.error.code, reply.body.error.details.field]).toEqual([
    413,
    'payload_too_large',
    'meta',
  ])
  expect((await post('ä'.repeat(32_768))).status).toBe(413)
})

test('a result above 1 MiB is refused and the job stays active', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  const reply = await server.ack(id, { result: 'x'.repeat(1_048_576) })
  expect([reply.status, reply.body.error.code]).toEqual([413, 'result_too_large'])
  expect((await server.job(id)).state).toBe('active')
  expect((await server.ack(id, { result: 'x'.repeat(1_048_574) })).status).toBe(200)
})
