/**
 * Explanations tell the truth: the limit that really bounds an attempt, the cause of every ending, downtime as downtime,
 * and what happens next if no signal arrives. The same facts stand in errors, events and `x_limits`.
 */
import { describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { at, TestServer, type JobView } from '../harness.ts'
import { openTestStore } from '../stores.ts'

interface Told {
  readonly state: string
  readonly limits: Record<string, unknown>
  readonly spans: Record<string, unknown>[]
  readonly endings: Record<string, unknown>[]
  readonly next: Record<string, unknown> | null
  readonly held_by: Record<string, unknown> | null
  readonly text: string
}

async function explain(server: TestServer, id: string): Promise<Told> {
  const reply = await server.get(`/ojs/v1/jobs/${id}/explain`)
  expect(reply.status).toBe(200)
  return reply.body as unknown as Told
}

const lastLine = ({ text }: Told): string => text.split('\n').at(-1) ?? ''
const ONCE = { retry: { max_attempts: 1 } }

async function eventData(server: TestServer, id: string, type: string): Promise<Record<string, unknown> | undefined> {
  const found = (await server.events(id)).find((event) => event.type === type)
  return found?.data as Record<string, unknown> | undefined
}

describe('the limit that counts', () => {
  test.each([
    [60, 10_000],
    [50, 0],
  ])('an attempt that a total of %i s cuts short after a wait of %i ms says so', async (...given) => {
    const server = await TestServer.open()
    await server.call('PUT', '/ojs/v1/admin/queues/default/config', { default_timeout: 60 })
    const [total, waitedMs] = given
    const id = await server.enqueue({ total_timeout: total })
    await server.advance(waitedMs)
    await server.fetch({ worker_id: 'w' })
    const told = await explain(server, id)
    expect(told.spans.at(-1)).toMatchObject({
      kind: 'attempt',
      limit: 'timeout 60 s',
      limit_ms: 60_000,
      source: 'queue',
      effective_ms: 50_000,
      clamped_by: 'total_timeout',
      clamp_source: 'publish',
    })
    expect(told.text).toContain('may run 50 s: total_timeout (job) leaves 50 s of timeout 60 s (queue)')
  })

  test('it says so as well when the total has been changed since', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ total_timeout: 30, retry: { jitter: false } })
    await server.nack(id)
    await server.call('PATCH', `/ojs/v1/jobs/${id}`, { timeout: 50, total_timeout: 600 })
    await server.advance(1_000)
    await server.fetch()
    const attempts = (await explain(server, id)).spans.filter(({ kind }) => kind === 'attempt')
    expect(attempts.map((span) => [span['effective_ms'], span['clamped_by']])).toEqual([
      [30_000, 'total_timeout'],
      [50_000, undefined],
    ])
  })

  test('a grace that the total cuts off says what is left of it', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 10, grace_period: 10, total_timeout: 20 })
    await server.advance(10_000)
    expect((await explain(server, id)).spans.at(-1)).toMatchObject({ kind: 'grace', effective_ms: 10_000 })
    const cut = await server.start({ timeout: 10, grace_period: 4, total_timeout: 12, queue: 'b' }, { queues: ['b'] })
    await server.advance(9_000)
    const told = await explain(server, cut.id)
    expect(told.spans.at(-1)).toMatchObject({ kind: 'grace', from: at(18_000), effective_ms: 4_000 })
    expect(told.text).toContain('asked to stop after 8 s: total_timeout (job) keeps the last 4 s for that')
  })

  test('a wait is bounded by whichever limit comes first', async () => {
    const server = await TestServer.open()
    const id = await server.enqueue({ enqueue_ttl: 60, total_timeout: 40, timeout: 10 })
    expect((await explain(server, id)).spans[0]).toMatchObject({
      kind: 'waiting',
      limit: 'enqueue_ttl 60 s',
      effective_ms: 40_000,
      clamped_by: 'total_timeout',
    })
  })
})

describe('the cause of every ending', () => {
  test('a member of a workflow whose deadline passed was cancelled by that', async () => {
    const server = await TestServer.open()
    const body = {
      type: 'chain',
      name: 'two',
      steps: [
        { type: 'a', args: [] },
        { type: 'b', args: [] },
      ],
    }
    const reply = await server.post('/ojs/v1/workflows', { ...body, workflow_timeout: 10 })
    expect(reply.status).toBe(201)
    const [job] = (await server.fetch({ worker_id: 'w' })).body.jobs
    await server.advance(10_000)
    const told = await explain(server, job?.id ?? '')
    expect(told.endings).toMatchObject([
      {
        type: 'cancelled',
        cause: 'workflow_timeout',
        limit_ms: 10_000,
        elapsed_ms: 10_000,
        deadline: at(10_000),
        overshoot_ms: 0,
        late_ms: 0,
        source: 'workflow',
      },
    ])
    expect(lastLine(told)).toBe(
      'Ended cancelled: the deadline of its workflow passed (workflow_timeout 10 s, 10 s passed, decided 0 ms after the deadline).',
    )
    expect(await eventData(server, job?.id ?? '', 'job.cancelled')).toMatchObject({
      reason: 'workflow_timeout',
      limit_ms: 10_000,
      elapsed_ms: 10_000,
      source: 'workflow',
      overshoot_ms: 0,
      worker_id: 'w',
    })
    expect((await server.job(job?.id ?? '')).x_limits).toMatchObject({
      ended_by: { limit: 'workflow_timeout', limit_ms: 10_000, source: 'workflow', deadline: at(10_000) },
    })
  })

  const CANCELS: [string, (server: TestServer, id: string) => Promise<unknown>, string, string][] = [
    ['a request', (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`), 'request', 'by a request'],
    [
      'a bulk action',
      (server, id) => server.post('/ojs/v1/jobs/bulk/cancel', { job_ids: [id] }),
      'bulk',
      'by a bulk action',
    ],
    [
      'its replacement',
      (server) =>
        server.post('/ojs/v1/jobs', { type: 'test.job', args: [], unique: { keys: ['type'], on_conflict: 'replace' } }),
      'replaced',
      'replaced by',
    ],
  ]

  test.each(CANCELS)('a job cancelled by %s says so', async (_, act, reason, words) => {
    const server = await TestServer.open()
    const id = await server.enqueue({ unique: { keys: ['type'] } })
    await act(server, id)
    expect(await server.job(id)).toMatchObject({ state: 'cancelled', cancel_reason: reason })
    const told = await explain(server, id)
    expect(told.endings).toMatchObject([{ type: 'cancelled', cause: reason }])
    expect(lastLine(told)).toMatch(new RegExp(`^Ended cancelled: .*${words}`))
    expect(lastLine(told)).not.toContain('cancelled: cancelled')
    expect(await eventData(server, id, 'job.cancelled')).toMatchObject({ reason })
  })

  test('a timeout that was not retried because of x_on_timeout says so', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 10, x_on_timeout: 'discard' })
    await server.advance(10_000)
    const told = await explain(server, id)
    expect(told.endings.at(-1)).toMatchObject({ type: 'timeout', no_retry: 'x_on_timeout' })
    expect(lastLine(told)).toMatch(/^Ended discarded: timeout \(.*\)\. No retry: x_on_timeout is discard \(job\)\.$/)
    expect(await eventData(server, id, 'job.discarded')).toMatchObject({ no_retry: 'x_on_timeout' })
  })

  test('a timeout after its grace names both lengths, and they add up to what passed', async () => {
    const server = await TestServer.open()
    await server.register('w', { handlers: { 'test.job': { timeout_ms: 500, grace_period_ms: 100 } } })
    const { id } = await server.start({ ...ONCE }, { worker_id: 'w' })
    await server.advance(600)
    expect(lastLine(await explain(server, id))).toContain(
      'Ended discarded: timeout (timeout 0.5 s (handler) and grace 0.1 s, 0.6 s passed, decided 0 ms after the deadline).',
    )
    const without = await server.start({ timeout_ms: 500, grace_period_ms: 0, ...ONCE })
    await server.advance(500)
    expect(lastLine(await explain(server, without.id))).toContain('timeout 0.5 s (job), 0.5 s passed')
    const reported = await server.start({ timeout: 10, grace_period: 5, ...ONCE })
    await server.advance(12_000)
    await server.nack(reported.id, { type: 'timeout', message: 'stopped' })
    expect(lastLine(await explain(server, reported.id))).toContain('(timeout 10 s (job), 12 s passed)')
    const total = await server.start({ timeout: 10, grace_period: 5, total_timeout: 12, ...ONCE })
    await server.advance(12_000)
    expect(lastLine(await explain(server, total.id))).toContain('(total_timeout 12 s (job), 12 s passed')
  })

  const FINAL: [string, Record<string, unknown>, Record<string, unknown>, string, RegExp][] = [
    ['its attempts are used up', ONCE, { message: 'x' }, 'max_attempts', /No retry: its only attempt is used/],
    [
      'its error is not retryable',
      {},
      { message: 'x', retryable: false },
      'not_retryable',
      /reported as not retryable/,
    ],
    [
      'its policy lists the error',
      { retry: { non_retryable_errors: ['Bad'] } },
      { type: 'Bad', message: 'x' },
      'non_retryable_errors',
      /non_retryable_errors/,
    ],
    ['its handler said so', {}, { code: 'DISCARD', message: 'x' }, 'error_code', /error code DISCARD/],
  ]

  test.each(FINAL)('a job that is not tried again since %s says so', async (_, job, error, cause, words) => {
    const server = await TestServer.open()
    const { id } = await server.start(job)
    await server.nack(id, error)
    const told = await explain(server, id)
    expect(told.endings.at(-1)).toMatchObject({ no_retry: cause })
    expect(lastLine(told)).toMatch(words)
  })

  test('the death of a worker and the TTL are named with their limits', async () => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start({ ...ONCE }, { worker_id: 'w' })
    const old = await server.enqueue({ enqueue_ttl: 5, queue: 'b' })
    await server.advance(30_000)
    expect(lastLine(await explain(server, id))).toMatch(
      /^Ended discarded: worker_death \(worker_timeout 30 s \(default\), 30 s passed.*No retry: its only attempt is used/,
    )
    expect(lastLine(await explain(server, old))).toMatch(
      /^Ended discarded: enqueue_ttl_expired \(enqueue_ttl 5 s \(job\), 5 s passed/,
    )
  })
})

describe('downtime', () => {
  test('is shown as downtime, with the true lateness beside what is charged to the decision', async () => {
    const store = await openTestStore()
    const before = await TestServer.open({ store })
    const total = await before.enqueue({ total_timeout: 20 })
    const running = await before.start({ timeout: 20, queue: 'b', ...ONCE }, { queues: ['b'] })
    await before.advance(10_000)
    const noon = Date.UTC(2026, 0, 1, 12)
    const server = await TestServer.open({ store, clock: new FakeClock(noon + 27_000) })
    for (const id of [total, running.id]) {
      const job = await server.job(id)
      expect(job.error).toMatchObject({ overshoot_ms: 0, late_ms: 7_000, downtime_ms: 7_000, elapsed_ms: 27_000 })
      const told = await explain(server, id)
      expect(told.endings.at(-1)).toMatchObject({ overshoot_ms: 0, late_ms: 7_000, downtime_ms: 7_000 })
      expect(lastLine(told)).toContain(
        'decided 7000 ms after the deadline: the server was down for 7000 ms of them, and 0 ms are charged to the decision',
      )
    }
    expect(await eventData(server, total, 'job.total_timeout')).toMatchObject({ late_ms: 7_000, downtime_ms: 7_000 })
  })

  const SILENCES: [string, Record<string, unknown>, string, number][] = [
    ['stalled', { heartbeat_timeout: 20 }, 'heartbeat_timeout', 20_000],
    ['visibility_timeout', { visibility_timeout: 20 }, 'visibility_timeout', 20_000],
    ['worker_death', {}, 'worker_timeout', 30_000],
  ]

  test.each(SILENCES)('is not counted for %s, and the ending says how much that is', async (...given) => {
    const [type, limits, limit, limitMs] = given
    const store = await openTestStore()
    const before = await TestServer.open({ store })
    await before.register('w')
    const { id } = await before.start({ ...limits, ...ONCE }, { worker_id: 'w' })
    const noon = Date.UTC(2026, 0, 1, 12)
    const server = await TestServer.open({ store, clock: new FakeClock(noon + 40_000) })
    await server.advance(limitMs)
    const facts = { limit_ms: limitMs, elapsed_ms: 40_000 + limitMs, excused_ms: 40_000, late_ms: 0, downtime_ms: 0 }
    const job = await server.job(id)
    expect(job).toMatchObject({ state: 'discarded', error: { type, ...facts } })
    expect(await eventData(server, id, 'job.stalled')).toMatchObject(facts)
    const { late_ms: _late, downtime_ms: _down, ...brief } = facts
    expect(await eventData(server, id, 'job.failed')).toMatchObject({ error: brief })
    const told = await explain(server, id)
    expect(told.endings.at(-1)).toMatchObject({ type, ...facts })
    const passed = `${String(40 + limitMs / 1000)} s passed, of which 40 s are not counted because no server was listening`
    expect(lastLine(told)).toContain(`(${limit} ${String(limitMs / 1000)} s (`)
    expect(lastLine(told)).toContain(`), ${passed}, decided 0 ms after the deadline)`)
  })

  test('that did not happen is not mentioned', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ heartbeat_timeout: 20, ...ONCE })
    await server.advance(20_000)
    expect((await server.job(id)).error).not.toHaveProperty('excused_ms')
    expect(await eventData(server, id, 'job.stalled')).not.toHaveProperty('excused_ms')
    expect(lastLine(await explain(server, id))).toContain('20 s passed, decided 0 ms after the deadline')
  })
})

describe('what happens next', () => {
  const NEXT: [string, Record<string, unknown>, Record<string, unknown> | null][] = [
    ['without limits, nothing', {}, null],
    [
      'with a TTL, the TTL',
      { enqueue_ttl: 60 },
      { kind: 'ttl', at: at(60_000), limit: 'enqueue_ttl', limit_ms: 60_000, source: 'publish', then: 'discard' },
    ],
    [
      'with a total, the total',
      { total_timeout: 60 },
      { kind: 'total', at: at(60_000), limit: 'total_timeout', limit_ms: 60_000, source: 'publish', then: 'discard' },
    ],
    [
      'scheduled, its moment',
      { scheduled_at: '+PT20S' },
      { kind: 'scheduled_at', at: at(20_000), limit: 'scheduled_at', source: 'publish', then: 'available' },
    ],
  ]

  test.each(NEXT)('of a waiting job: %s', async (_, job, next) => {
    const server = await TestServer.open()
    const told = await explain(server, await server.enqueue(job))
    expect(told.next).toEqual(next)
    expect(told.text).not.toContain('something')
    if (next !== null) expect(lastLine(told)).toContain(String(next['at']))
  })

  test('of an active job: its soft deadline, then its hard one, or the silence of its worker', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 10, grace_period: 5 })
    expect((await explain(server, id)).next).toEqual({
      kind: 'soft_deadline',
      at: at(10_000),
      limit: 'timeout',
      limit_ms: 10_000,
      source: 'publish',
      then: 'grace',
    })
    await server.advance(10_000)
    const told = await explain(server, id)
    expect(told.next).toMatchObject({ kind: 'hard_deadline', at: at(15_000), limit: 'grace_period', then: 'retry' })
    expect(lastLine(told)).toContain(`next automatic transition at ${at(15_000)}`)
    const silent = await server.start({ heartbeat_timeout: 3, queue: 'b', ...ONCE }, { queues: ['b'] })
    expect((await explain(server, silent.id)).next).toMatchObject({
      kind: 'heartbeat',
      at: at(13_000),
      limit: 'heartbeat_timeout',
      limit_ms: 3_000,
      then: 'discard',
    })
    await server.register('w')
    const held = await server.start({ queue: 'c' }, { queues: ['c'], worker_id: 'w' })
    expect((await explain(server, held.id)).next).toMatchObject({
      kind: 'worker_death',
      limit: 'worker_timeout',
      limit_ms: 30_000,
      then: 'available',
    })
  })

  test('of a failed one: its retry; of an ended one: nothing', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ retry: { jitter: false, max_attempts: 2 } })
    await server.nack(id)
    expect((await explain(server, id)).next).toMatchObject({ kind: 'retry', at: at(1_000), then: 'available' })
    await server.advance(1_000)
    await server.fetch()
    await server.nack(id)
    expect((await explain(server, id)).next).toBeNull()
  })

  test('a workflow cancels its members', async () => {
    const server = await TestServer.open()
    await server.post('/ojs/v1/workflows', { type: 'chain', steps: [{ type: 'a', args: [] }], workflow_timeout: 10 })
    const [job] = (await server.fetch()).body.jobs
    expect((await explain(server, job?.id ?? '')).next).toMatchObject({
      kind: 'total',
      limit: 'workflow_timeout',
      source: 'workflow',
      then: 'cancel',
    })
  })
})

describe('an available job that no worker gets', () => {
  test('says that its queue is paused, and until when that may last', async () => {
    const server = await TestServer.open()
    const id = await server.enqueue()
    const limited = await server.enqueue({ enqueue_ttl: 60 })
    expect(await explain(server, id)).toMatchObject({ held_by: null, next: null })
    await server.post('/ojs/v1/queues/default/pause')
    const told = await explain(server, id)
    expect(told).toMatchObject({ held_by: { kind: 'paused_queue', name: 'default' }, next: null })
    expect(lastLine(told)).toBe('Now available: its queue is paused; waits until that changes, with no limit.')
    expect(lastLine(await explain(server, limited))).toMatch(
      /^Now available: its queue is paused; next automatic transition at .*enqueue_ttl 60 s/,
    )
    await server.post('/ojs/v1/queues/default/resume')
    const resumed = await explain(server, id)
    expect(resumed.held_by).toBeNull()
    expect(lastLine(resumed)).toBe('Now available; waits for a worker to fetch it, with no limit.')
  })

  test('names the limit of its key, and what it waits for', async () => {
    const server = await TestServer.open()
    const first = await server.start({ rate_limit: { key: 'k', concurrency: 1 } })
    const id = await server.enqueue({ rate_limit: { key: 'k' } })
    const told = await explain(server, id)
    expect(told.held_by).toEqual({ kind: 'key_limit', name: 'k', awaits_end: true })
    expect(lastLine(told)).toBe(
      'Now available: held back by the limit of key "k", which has room when one of its active jobs ends; waits until that changes, with no limit.',
    )
    expect((await explain(server, first.id)).held_by).toBeNull()
    await server.ack(first.id)
    expect((await explain(server, id)).held_by).toBeNull()
  })

  test('names the limit of its queue, and when that has room', async () => {
    const server = await TestServer.open()
    await server.call('PUT', '/ojs/v1/admin/queues/default/rate-limit', { rate: { limit: 1, period: 'PT10S' } })
    await server.start()
    const id = await server.enqueue()
    const told = await explain(server, id)
    expect(told.held_by).toEqual({ kind: 'queue_limit', name: 'default', until: at(10_000) })
    expect(lastLine(told)).toContain(`held back by the limit of its queue, which has room at ${at(10_000)};`)
    await server.advance(10_000)
    expect((await explain(server, id)).held_by).toBeNull()
    await server.call('PUT', '/ojs/v1/admin/queues/default/rate-limit', { concurrency: 0 })
    const closed = await explain(server, id)
    expect(closed.held_by).toEqual({ kind: 'queue_limit', name: 'default' })
    expect(lastLine(closed)).toContain('held back by the limit of its queue, which lets no job start;')
  })

  test('that does not wait for its limit says what a fetch would do', async () => {
    const server = await TestServer.open()
    const rate = { key: 'k', rate: { limit: 1, period: 'PT10S' } }
    await server.start({ rate_limit: rate })
    const dropped = await explain(server, await server.enqueue({ rate_limit: { ...rate, on_limit: 'drop' } }))
    expect(dropped.held_by).toMatchObject({ kind: 'key_limit', name: 'k', on_limit: 'drop' })
    expect(lastLine(dropped)).toContain('the limit of key "k" has no room, and a fetch now discards the job;')
    const moved = await explain(server, await server.enqueue({ rate_limit: { ...rate, on_limit: 'reschedule' } }))
    expect(lastLine(moved)).toContain(
      `the limit of key "k" has no room, and a fetch now puts the job off until ${at(10_000)};`,
    )
  })
})

describe('a timeout that a worker reports', () => {
  const timeout = { type: 'timeout', message: 'stopped' }

  test('long before the soft deadline is an ordinary failure', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 60, x_on_timeout: 'discard', retry: { jitter: false } })
    await server.advance(5_000)
    await server.nack(id, timeout)
    const job = await server.job(id)
    expect(job).toMatchObject({ state: 'retryable', error: { type: 'timeout', early_ms: 55_000 } })
    expect(job.error).not.toHaveProperty('timeout_kind')
    expect(await server.eventTypes(id)).not.toContain('job.timeout')
    expect((await explain(server, id)).text).toContain(
      'failed (timeout, reported 55 s before the soft deadline: an ordinary failure)',
    )
  })

  const EARLY_ENDS: [string, Record<string, unknown>, RegExp][] = [
    ['its attempts are used up', ONCE, /No retry: its only attempt is used \(max_attempts\)\.$/],
    ['its policy lists the error', { retry: { non_retryable_errors: ['timeout'] } }, /No retry: non_retryable_errors/],
  ]

  test.each(EARLY_ENDS)('long before the soft deadline is one as well where it ends the job: %s', async (...given) => {
    const [, more, retry] = given
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 60, ...more })
    await server.advance(5_000)
    await server.nack(id, timeout)
    const told = await explain(server, id)
    expect(lastLine(told)).toContain(
      'Ended discarded: timeout (reported 55 s before the soft deadline: an ordinary failure). No retry: ',
    )
    expect(lastLine(told)).toMatch(retry)
  })

  test('long before the soft deadline is shown as one before a predicted end', async () => {
    const server = await TestServer.open()
    const ended = async (type: string): Promise<string> => {
      const { id } = await server.start({ timeout: 10, total_timeout: 15 })
      await server.advance(6_000)
      await server.nack(id, { ...timeout, type })
      return lastLine(await explain(server, id))
    }
    const told = '("stopped"), reported 4 s before the soft deadline: an ordinary failure.'
    expect(await ended('timeout')).toContain(`Before that: timeout ${told}`)
    expect(await ended('total_timeout')).toContain(`Before that: total_timeout ${told}`)
    expect(await ended('other')).toMatch(/Before that: other \("stopped"\)\.$/)
  })

  test('a little early counts, and what passed is not below the limit', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ timeout: 60, ...ONCE })
    await server.advance(59_980)
    await server.nack(id, timeout)
    expect((await server.job(id)).error).toMatchObject({
      timeout_kind: 'execution',
      limit_seconds: 60,
      limit_ms: 60_000,
      elapsed_seconds: 60,
      elapsed_ms: 60_000,
      early_ms: 20,
      details: { reported: true },
    })
  })

  const IN_RESERVE: [string, Record<string, unknown>][] = [
    ['another attempt does not fit', {}],
    ['its attempts are used up', ONCE],
    ['timeouts are not retried', { x_on_timeout: 'discard' }],
  ]

  test.each(IN_RESERVE)('because the total runs out does not end the job before it: %s', async (_, more) => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start({ total_timeout: 5, timeout: 5, ...more }, { worker_id: 'w' })
    await server.advance(4_878)
    const reply = await server.nack(id, { ...timeout, type: 'total_timeout', code: 'timeout' }, { worker_id: 'w' })
    expect(reply.body).toMatchObject({ state: 'retryable' })
    expect(reply.body).not.toHaveProperty('next_retry_at')
    expect(await server.eventTypes(id)).toEqual([
      'job.enqueued',
      'job.started',
      'job.timeout',
      'job.failed',
      'job.retrying',
    ])
    expect(await eventData(server, id, 'job.retrying')).toMatchObject({ next_retry_at: null })
    expect(await server.metric('ojs_job_retried_total', { queue: 'default', type: 'test.job' })).toBe(0)
    const told = await explain(server, id)
    expect(told.next).toMatchObject({ kind: 'total', at: at(5_000), then: 'discard' })
    expect(told.endings).toMatchObject([
      { type: 'timeout', timeout_kind: 'execution', soft_limit: 'total', limit_ms: 4_500, elapsed_ms: 4_878 },
    ])
    await server.advance(121)
    expect((await server.job(id)).state).toBe('retryable')
    expect((await server.fetch()).body.jobs).toEqual([])
    await server.advance(1)
    const job = await server.job(id)
    expect(job).toMatchObject({
      state: 'discarded',
      error: {
        type: 'total_timeout',
        elapsed_ms: 5_000,
        limit_ms: 5_000,
        details: { last_error: { type: 'timeout' } },
      },
    })
    expect(job.error.details).not.toHaveProperty('predicted')
  })

  test('a total moved later gives such a job another attempt, unless it has used them all', async () => {
    const server = await TestServer.open()
    await server.register('w')
    const held = async (queue: string, more: object): Promise<string> => {
      const job = { total_timeout: 5, timeout: 5, queue, ...more }
      const { id } = await server.start(job, { worker_id: 'w', queues: [queue] })
      await server.advance(4_900)
      await server.nack(id, timeout, { worker_id: 'w' })
      expect((await server.call('PATCH', `/ojs/v1/jobs/${id}`, { total_timeout: 60 })).status).toBe(200)
      await server.advance(100)
      return id
    }
    expect((await server.job(await held('a', {}))).state).toBe('available')
    const spent = await held('b', ONCE)
    expect((await server.job(spent)).state).toBe('discarded')
    expect((await explain(server, spent)).endings.at(-1)).toMatchObject({ type: 'timeout', no_retry: 'max_attempts' })
  })
})

describe('an ended job', () => {
  test('shows in x_limits what ended it, also where a handler or a beat had set that', async () => {
    const server = await TestServer.open()
    await server.register('w', { handlers: { 'test.job': { timeout_ms: 7_000, grace_period_ms: 0 } } })
    const { id } = await server.start({ ...ONCE }, { worker_id: 'w' })
    await server.advance(7_000)
    expect((await server.job(id)).x_limits).toMatchObject({
      timeout_ms: 7_000,
      grace_ms: 0,
      sources: { timeout: 'handler', grace: 'handler' },
      ended_by: { limit: 'timeout', limit_ms: 7_000, source: 'handler', deadline: at(7_000) },
    })
    const done = await server.start({ queue: 'b' }, { queues: ['b'] })
    await server.ack(done.id)
    expect((await server.job(done.id)).x_limits).not.toHaveProperty('ended_by')
    const foreseen = await server.start({ timeout: 10, total_timeout: 15, queue: 'c' }, { queues: ['c'] })
    await server.advance(6_000)
    await server.nack(foreseen.id)
    expect((await server.job(foreseen.id)).x_limits).toMatchObject({
      ended_by: { limit: 'total_timeout', limit_ms: 15_000, source: 'publish', predicted: true },
    })
  })
})

describe('the events of timeouts', () => {
  const data = async (job: Record<string, unknown>, ms: number, type: string): Promise<unknown> => {
    const server = await TestServer.open()
    await server.register('w')
    const { id } = await server.start(job, { worker_id: 'w' })
    await server.advance(ms)
    return eventData(server, id, type)
  }
  const EVENTS: [string, Record<string, unknown>, number, Record<string, unknown>][] = [
    ['job.timeout', { timeout_ms: 1_500, grace_period: 0 }, 1_500, { source: 'publish', limit_ms: 1_500 }],
    ['job.total_timeout', { total_timeout: 5 }, 5_000, { source: 'publish', limit_ms: 5_000 }],
    [
      'job.stalled',
      { heartbeat_timeout: 5 },
      5_000,
      { source: 'publish', limit_ms: 5_000, timeout_kind: 'stalled', cause: 'heartbeat_timeout' },
    ],
    [
      'job.stalled',
      {},
      30_000,
      { source: 'default', limit_ms: 30_000, timeout_kind: 'stalled', cause: 'worker_death' },
    ],
    [
      'job.stalled',
      { visibility_timeout: 5 },
      5_000,
      { source: 'publish', limit_ms: 5_000, timeout_kind: 'stalled', cause: 'visibility_timeout' },
    ],
  ]

  test.each(EVENTS)('%s of %j carries source, worker, limit and lateness', async (type, job, ms, more) => {
    expect(await data(job, ms, type)).toMatchObject({
      worker_id: 'w',
      overshoot_ms: 0,
      late_ms: 0,
      elapsed_ms: ms,
      attempt: 1,
      ...more,
    })
  })

  test('job.failed and job.discarded name the limit of their error', async () => {
    const facts = { timeout_kind: 'execution', limit_ms: 2_000, elapsed_ms: 2_000, source: 'publish', overshoot_ms: 0 }
    const job = { timeout: 2, grace_period: 0, ...ONCE }
    expect(await data(job, 2_000, 'job.failed')).toMatchObject({ worker_id: 'w', error: facts })
    expect(await data(job, 2_000, 'job.discarded')).toMatchObject({ last_error: facts })
  })

  test('an error of a limit has its lengths in milliseconds as well', async () => {
    const server = await TestServer.open()
    const ids: JobView[] = [await server.start({ timeout_ms: 1_250, grace_period: 0, ...ONCE })]
    await server.advance(1_250)
    expect((await server.job(ids[0]?.id ?? '')).error).toMatchObject({
      limit_seconds: 1.25,
      limit_ms: 1_250,
      elapsed_seconds: 1.25,
      elapsed_ms: 1_250,
    })
  })
})
