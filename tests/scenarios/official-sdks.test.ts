/** What the official SDKs and tools of the Open Job Spec ask for beyond the text of its HTTP binding. */
import { describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { serverOn } from '../../packages/server/src/server.ts'
import { settingsFrom } from '../../packages/server/src/settings.ts'
import { at, TestServer, type Body } from '../harness.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND

describe('the fields of a job stand beside `job` too', () => {
  /** Every field of `job`, and the same values beside it. */
  function expectBoth(body: Body, more: Record<string, unknown> = {}): void {
    const { job, ...beside } = body as unknown as { job: Record<string, unknown> }
    expect(job['id']).toBeTypeOf('string')
    expect(beside).toEqual({ ...job, ...more })
  }

  test('in the answers to an enqueue, a look, a change, an activation and a cancellation', async () => {
    const server = await TestServer.open()
    const job = { type: 'test.job', args: [{ to: 'a' }], pending: true, meta: { trace: 'x' }, tags: ['a'] }
    const enqueued = await server.post('/ojs/v1/jobs', job)
    expect(enqueued.status).toBe(201)
    expectBoth(enqueued.body)
    const path = `/ojs/v1/jobs/${enqueued.body.job.id}`
    expectBoth((await server.get(path)).body)
    expectBoth((await server.call('PATCH', path, { priority: 3 })).body)
    expectBoth((await server.post(`${path}/activate`)).body)
    const cancelled = (await server.call('DELETE', path)).body
    expect(cancelled.job).toMatchObject({ state: 'cancelled', previous_state: 'available' })
    expectBoth(cancelled)
  })

  test('in the answer to an enqueue that met the same work', async () => {
    const server = await TestServer.open()
    const job = { type: 'test.job', args: [], unique: { on_conflict: 'ignore' } }
    await server.post('/ojs/v1/jobs', job)
    const again = await server.post('/ojs/v1/jobs', job)
    expect(again.status).toBe(200)
    expectBoth(again.body, { deduplicated: true })
  })

  test('in the answers about a dead letter', async () => {
    const server = await TestServer.open()
    const { id } = await server.start({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
    await server.nack(id)
    expectBoth((await server.get(`/ojs/v1/dead-letter/${id}`)).body)
    expectBoth((await server.post(`/ojs/v1/dead-letter/${id}/retry`)).body)
  })

  test('a field of the client that is called `job` does not take its place', async () => {
    const server = await TestServer.open()
    const { body } = await server.post('/ojs/v1/jobs', { type: 'test.job', args: [], job: 'mine' })
    expect(body.job).toMatchObject({ type: 'test.job', job: 'mine' })
  })
})

/** Every look at it finds a third of a millisecond gone. */
class FineClock extends FakeClock {
  #looks = 0
  override monotonicMs(): number {
    this.#looks += 1
    return super.monotonicMs() + this.#looks / 3
  }
}

test('the latency of the backend is a whole number of milliseconds', async () => {
  const server = await TestServer.open({ clock: new FineClock() })
  const { backend } = (await server.get('/ojs/v1/health')).body as unknown as { backend: { latency_ms: number } }
  expect(Number.isInteger(backend.latency_ms)).toBe(true)
})

test('a uniqueness period may be given in milliseconds', async () => {
  const server = await TestServer.open()
  const job = { type: 'test.job', args: [], unique: { period_ms: 5 * SECOND } }
  const { id } = (await server.post('/ojs/v1/jobs', job)).body.job
  await server.advance(5 * SECOND - 1)
  const refused = await server.post('/ojs/v1/jobs', job)
  expect(refused.status).toBe(409)
  expect(refused.body.error.details).toMatchObject({ existing_job_id: id })
  await server.advance(1)
  expect((await server.post('/ojs/v1/jobs', job)).status).toBe(201)
})

test('with --media-alias the content type of an answer names its alias', async () => {
  const open = (settings: Record<string, unknown>) => serverOn(settingsFrom({ data: ':memory:', ...settings }), {})
  const typeOf = async (settings: Record<string, unknown>, url: string): Promise<string | undefined> => {
    const server = await open(settings)
    const request = { method: 'GET', url, headers: {}, body: '', signal: new AbortController().signal }
    const { headers } = await server.handler(request)
    await server.close()
    return headers['Content-Type']
  }
  const plain = 'application/openjobspec+json'
  expect(await typeOf({}, '/ojs/v1/queues')).toBe(plain)
  const aliased = { 'media-alias': true }
  expect(await typeOf(aliased, '/ojs/v1/queues')).toBe(`${plain}; alias="application/json"`)
  expect(await typeOf(aliased, '/ojs/v1/jobs/none')).toBe(`${plain}; alias="application/json"`)
  expect(await typeOf(aliased, '/openapi.json')).toBe('application/json')
})

describe('cron entries', () => {
  const register = async (server: TestServer, more: Record<string, unknown> = {}): Promise<void> => {
    const entry = { name: 'tick', cron: '* * * * *', type: 'test.tick', args: [], overlap_policy: 'allow', ...more }
    expect((await server.post('/ojs/v1/cron', entry)).status).toBe(201)
  }
  const historyOf = async (server: TestServer, query = ''): Promise<Record<string, unknown>[]> =>
    (await server.get(`/ojs/v1/cron/tick/history${query}`)).body['executions'] as Record<string, unknown>[]

  test('are paused and resumed by a path of their own', async () => {
    const server = await TestServer.open()
    await register(server)
    const paused = await server.post('/ojs/v1/cron/tick/pause')
    expect(paused.body['cron_job']).toMatchObject({ name: 'tick', enabled: false, next_run_at: null })
    await server.advance(5 * MINUTE)
    expect(await historyOf(server)).toEqual([])
    const resumed = await server.post('/ojs/v1/cron/tick/resume')
    expect(resumed.body['cron_job']).toMatchObject({ enabled: true, next_run_at: at(6 * MINUTE) })
    await server.advance(MINUTE)
    expect(await historyOf(server)).toHaveLength(1)
    expect((await server.post('/ojs/v1/cron/none/pause')).status).toBe(404)
    expect((await server.get('/ojs/v1/cron/none/history')).status).toBe(404)
  })

  test('tell of the jobs they fired, newest first', async () => {
    const server = await TestServer.open()
    await register(server)
    await server.advance(MINUTE)
    const { job } = (await server.fetch()).body
    await server.advance(SECOND)
    await server.ack(job.id)
    await server.post('/ojs/v1/cron/tick/trigger')
    await server.advance(MINUTE - SECOND)
    const executions = await historyOf(server)
    expect(executions).toMatchObject([
      { state: 'available', scheduled_at: at(2 * MINUTE), created_at: at(2 * MINUTE), manual: false },
      { state: 'available', scheduled_at: at(MINUTE + SECOND), manual: true },
      {
        job_id: job.id,
        state: 'completed',
        attempt: 1,
        scheduled_at: at(MINUTE),
        started_at: at(MINUTE),
        completed_at: at(MINUTE + SECOND),
      },
    ])
    expect(await historyOf(server, '?limit=1')).toEqual(executions.slice(0, 1))
    expect((await server.get('/ojs/v1/cron/tick/history?limit=0')).status).toBe(400)
  })

  test('of another tenant are not there', async () => {
    const server = await TestServer.open()
    await register(server)
    const asOther = (method: string, path: string) =>
      server.call(method, `/ojs/v1/cron/tick/${path}`, undefined, { 'x-ojs-tenant': 'other' })
    expect((await asOther('POST', 'pause')).status).toBe(404)
    expect((await asOther('POST', 'resume')).status).toBe(404)
    expect((await asOther('GET', 'history')).status).toBe(404)
  })
})

describe('the retries of a job', () => {
  test('are its attempts that failed, each with its error and what came next', async () => {
    const server = await TestServer.open()
    const retry = { max_attempts: 2, initial_interval_ms: 10 * SECOND, jitter: false }
    const { id } = await server.start({ retry, timeout: 30 })
    const path = `/ojs/v1/jobs/${id}/retries`
    expect((await server.get(path)).body).toMatchObject({ job_id: id, state: 'active', retries: [] })
    await server.advance(SECOND)
    await server.nack(id, { type: 'SmtpError', message: 'no route' })
    const first = {
      attempt: 1,
      state: 'retryable',
      error: 'no route',
      error_type: 'SmtpError',
      started_at: at(0),
      failed_at: at(SECOND),
      next_retry_at: at(11 * SECOND),
    }
    expect((await server.get(path)).body['retries']).toEqual([first])
    await server.advance(10 * SECOND)
    await server.fetch()
    await server.advance(60 * SECOND)
    expect((await server.get(path)).body).toEqual({
      job_id: id,
      state: 'discarded',
      attempt: 2,
      max_attempts: 2,
      policy: expect.objectContaining({ max_attempts: 2, initial_interval: 'PT10S', backoff_strategy: 'exponential' }),
      retries: [
        first,
        expect.objectContaining({
          attempt: 2,
          state: 'discarded',
          error_type: 'timeout',
          started_at: at(11 * SECOND),
          next_retry_at: null,
        }),
      ],
    })
    expect((await server.get('/ojs/v1/jobs/none/retries')).status).toBe(404)
  })

  test('a hand-back is not counted, a success and a cancellation are not failures', async () => {
    const server = await TestServer.open()
    const { id } = await server.start()
    await server.nack(id, { type: 'shutdown', message: 'deploy' }, { requeue: true })
    await server.fetch()
    await server.ack(id)
    const { retries } = (await server.get(`/ojs/v1/jobs/${id}/retries`)).body
    expect(retries).toMatchObject([{ attempt: 1, state: 'available', error: 'deploy', counted: false }])
    const other = await server.start()
    await server.call('DELETE', `/ojs/v1/jobs/${other.id}`)
    expect((await server.get(`/ojs/v1/jobs/${other.id}/retries`)).body['retries']).toEqual([])
  })
})

test('metrics are below /ojs/v1 too', async () => {
  const server = await TestServer.open()
  await server.enqueue()
  const { status, headers, text } = await server.get('/ojs/v1/metrics')
  expect([status, headers['Content-Type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  expect(text).toContain('ojs_queue_depth{queue="default",state="available"} 1')
})
