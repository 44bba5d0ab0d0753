/** A call in the very millisecond of a run's deadline comes too late, and changes nothing. */
import { afterEach, describe, expect, test } from 'vitest'
import { at, idle, TestServer } from '../harness.ts'

let open: TestServer[] = []
afterEach(async () => {
  for (const server of open) await server.close()
  open = []
})

const JSON_TYPE = { 'content-type': 'application/json' }
const LIMIT_MS = 10_000

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type States = Record<string, any>

async function begin(states: States, options: { manual?: boolean } = {}): Promise<{ server: TestServer; id: string }> {
  const server = await TestServer.open(options)
  open.push(server)
  const definition = {
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name: 'tie', version: '1.0.0' },
    spec: {
      execution: { maxDurationSec: LIMIT_MS / 1000, onTimeout: { errorCode: 'LATE', reason: 'too late' } },
      lifecycle: { startMode: 'async' },
      start: Object.keys(states)[0],
      states: { ...states, done: { type: 'succeed' }, other: { type: 'fail', errorCode: 'OTHER', reason: 'not this' } },
    },
  }
  const deployed = await server.call('PUT', '/api/v1/definitions/tie', definition, JSON_TYPE)
  expect(deployed.status, deployed.text).toBe(201)
  const started = await server.call('POST', '/api/v1/journeys/tie/start', {}, JSON_TYPE)
  await idle()
  return { server, id: started.body['journeyId'] as string }
}

const hold = (more: object = {}): object => ({
  type: 'wait',
  wait: { channel: 'manual', input: { schema: { type: 'object' } }, ...more },
  next: 'done',
})

const submit = (server: TestServer, id: string, payload: object = { yes: true }) =>
  server.call('POST', `/api/v1/journeys/${id}/steps/hold`, payload, JSON_TYPE)

const TIMED_OUT = {
  phase: 'FAILED',
  terminationKind: 'Timeout',
  error: { code: 'LATE', reason: 'too late' },
  endedAt: at(LIMIT_MS),
  deadlineAt: at(LIMIT_MS),
}

describe('a step', () => {
  test('in the millisecond before is taken', async () => {
    const { server, id } = await begin({ hold: hold() })
    await server.advance(LIMIT_MS - 1)
    const reply = await submit(server, id)
    expect(reply.status, reply.text).toBe(200)
    expect(reply.body).toMatchObject({ phase: 'SUCCEEDED' })
  })

  test('in the very millisecond is refused, changes nothing, and is counted', async () => {
    const { server, id } = await begin({ hold: hold() })
    await server.advance(LIMIT_MS - 1)
    // The time comes and the step comes: the run was not looked at in between.
    server.clock.advance(1)
    const reply = await submit(server, id)
    expect(reply.status, reply.text).toBe(409)
    expect(await server.metric('curfew_late_results_total', { operation: 'step', reason: 'deadline_reached' })).toBe(1)
    const result = await server.get(`/api/v1/journeys/${id}/result`)
    expect(result.body).toMatchObject({ ...TIMED_OUT, terminatedAtState: 'hold' })
    expect(result.text).not.toContain('yes')
    expect((await submit(server, id)).status).toBe(409)
    expect((await server.get(`/api/v1/journeys/${id}/result`)).text).toBe(result.text)
    expect((await server.eventTypes(id)).filter((type) => type !== 'journey.started')).toEqual(['journey.timeout'])
  })

  test('the same on a clock that stands still until it is turned', async () => {
    const { server, id } = await begin({ hold: hold() }, { manual: true })
    await server.post('/ojs/v1/admin/clock', { advance_ms: LIMIT_MS - 1 })
    expect((await server.get(`/api/v1/journeys/${id}`)).body).toMatchObject({ phase: 'RUNNING', remainingMs: 1 })
    await server.post('/ojs/v1/admin/clock', { advance_ms: 1 })
    expect((await submit(server, id)).status).toBe(409)
    expect((await server.get(`/api/v1/journeys/${id}/result`)).body).toMatchObject(TIMED_OUT)
  })

  test('of many, submitted together in the millisecond before: one is taken', async () => {
    const { server, id } = await begin({ hold: hold() })
    await server.advance(LIMIT_MS - 1)
    const replies = await Promise.all([1, 2, 3].map(() => submit(server, id)))
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409, 409])
  })
})

describe("limits of a state that are due with the run's", () => {
  test.each([
    ['a wait', { hold: hold({ timeoutSec: LIMIT_MS / 1000, onTimeout: 'other' }) }],
    ['a timer', { hold: { type: 'timer', timer: { duration: 'PT10S' }, next: 'done' } }],
    ['a timer until an instant', { hold: { type: 'timer', timer: { until: at(LIMIT_MS) }, next: 'done' } }],
  ])('%s: the run ends by its own', async (_, states) => {
    const { server, id } = await begin(states)
    await server.advance(LIMIT_MS)
    expect((await server.get(`/api/v1/journeys/${id}/result`)).body).toMatchObject({
      ...TIMED_OUT,
      terminatedAtState: 'hold',
    })
  })

  test.each([
    ['a wait', { hold: hold({ timeoutSec: 9, onTimeout: 'done' }) }],
    ['a timer', { hold: { type: 'timer', timer: { duration: 'PT9.999S' }, next: 'done' } }],
  ])('%s that is due before goes on', async (_, states) => {
    const { server, id } = await begin(states)
    await server.advance(LIMIT_MS)
    expect((await server.get(`/api/v1/journeys/${id}/result`)).body).toMatchObject({ phase: 'SUCCEEDED' })
  })
})

test('cancelling in the very millisecond finds a run that is over, and leaves it as it ended', async () => {
  const { server, id } = await begin({ hold: hold() })
  await server.advance(LIMIT_MS - 1)
  server.clock.advance(1)
  const reply = await server.call('POST', `/api/v1/journeys/${id}/steps/cancel`, {}, JSON_TYPE)
  expect(reply.status, reply.text).toBe(200)
  expect((await server.get(`/api/v1/journeys/${id}/result`)).body).toMatchObject(TIMED_OUT)
})

test('a job that is done in the very millisecond is done too late', async () => {
  const { server, id } = await begin({
    hold: { type: 'task', task: { kind: 'job:v1', type: 'work', queue: 'work', resultVar: 'job' }, next: 'done' },
  })
  const { body } = await server.fetch({ queues: ['work'] })
  await server.advance(LIMIT_MS - 1)
  server.clock.advance(1)
  expect((await server.ack(body.job.id)).status).toBe(409)
  expect(await server.job(body.job.id)).toMatchObject({
    state: 'discarded',
    error: { type: 'total_timeout', occurred_at: at(LIMIT_MS) },
  })
  expect((await server.get(`/api/v1/journeys/${id}/result`)).body).toMatchObject(TIMED_OUT)
})
