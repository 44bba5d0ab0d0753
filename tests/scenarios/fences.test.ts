/** Who may report on an attempt: lease, attempt and owner; late and stale reports change nothing and are counted. */
import { expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

type Report = (server: TestServer, id: string, fence: object) => Promise<Reply>

const REPORTS: [string, Report][] = [
  ['ack', (server, id, fence) => server.ack(id, { ...fence })],
  ['nack', (server, id, fence) => server.nack(id, { message: 'boom' }, fence)],
  ['checkpoint', (server, id, fence) => server.call('PUT', `/ojs/v1/jobs/${id}/checkpoint`, { state: 1, ...fence })],
]
const PROGRESS: Report = (server, id, fence) =>
  server.call('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.5, ...fence })

/** A job whose first attempt (of w) lapsed and whose second runs at v. */
async function reclaimed() {
  const server = await TestServer.open()
  const first = await server.start({ visibility_timeout: 10, timeout: 600 }, { worker_id: 'w' })
  await server.advance(10_000)
  const second = (await server.fetch({ worker_id: 'v' })).body.job
  expect([first.x_lease, second.x_lease, first.attempt, second.attempt]).toEqual([1, 2, 1, 2])
  return { server, id: first.id }
}

const STALE: [string, object, string][] = [
  ['the owner of an earlier attempt', { worker_id: 'w' }, 'not_owner'],
  ['another worker', { worker_id: 'x' }, 'not_owner'],
  ['the owner with an earlier attempt', { worker_id: 'v', attempt: 1 }, 'stale_attempt'],
  ['the owner with an earlier lease', { worker_id: 'v', x_lease: 1 }, 'stale_attempt'],
  ['no worker, with an earlier attempt', { attempt: 1 }, 'stale_attempt'],
  ['no worker, with an earlier lease', { x_lease: 1 }, 'stale_attempt'],
  ['a wrong owner with an earlier lease', { worker_id: 'w', attempt: 1, x_lease: 1 }, 'not_owner'],
  ['the owner with a lease yet to come', { worker_id: 'v', x_lease: 3 }, 'stale_attempt'],
]

test.each(REPORTS)(
  '%s by anybody but the owner of the running attempt is refused, and counted',
  async (operation, report) => {
    const { server, id } = await reclaimed()
    for (const [who, fence, reason] of STALE) {
      const counted = await server.metric('curfew_late_results_total', { operation, reason })
      const reply = await report(server, id, fence)
      expect([who, reply.status]).toEqual([who, 409])
      expect(reply.body.error).toMatchObject({
        code: 'conflict',
        details: { job_id: id, current_state: 'active', expected_state: 'active', reason },
      })
      expect(await server.metric('curfew_late_results_total', { operation, reason })).toBe(counted + 1)
    }
    expect(await server.job(id)).toMatchObject({ state: 'active', worker_id: 'v', attempt: 2 })
  },
)

test.each(REPORTS)(
  '%s is accepted from the owner with the right attempt and lease, and without any fence',
  async (_, report) => {
    for (const fence of [{ worker_id: 'v', attempt: 2, x_lease: 2 }, {}]) {
      const { server, id } = await reclaimed()
      expect((await report(server, id, fence)).status).toBe(200)
    }
  },
)

test.each(REPORTS)(
  '%s with an attempt that has not begun is not called one of an earlier attempt',
  async (_, report) => {
    const { server, id } = await reclaimed()
    const { error } = (await report(server, id, { worker_id: 'v', attempt: 7 })).body
    expect(error.details.reason).toBe('stale_attempt')
    expect(error.message).toBe('The report is about attempt 7; the one that is running is attempt 2.')
    const wrong = (await report(server, id, { worker_id: 'v', attempt: 2, x_lease: 9 })).body.error
    expect(wrong.message).toBe('The report carries a lease that has not been given yet.')
  },
)

test.each(REPORTS)('%s for an unknown job is not found', async (_, report) => {
  const server = await TestServer.open()
  const reply = await report(server, '01890000-0000-7000-8000-000000000000', {})
  expect(reply.status).toBe(404)
  expect(reply.body.error.details).toMatchObject({ resource_type: 'job' })
})

test('progress of a non-owner or an earlier attempt is answered and ignored; with a wrong lease it is refused', async () => {
  const { server, id } = await reclaimed()
  for (const fence of [{ worker_id: 'w' }, { attempt: 1 }, { worker_id: 'w', attempt: 1 }]) {
    expect(await PROGRESS(server, id, fence)).toMatchObject({ status: 200, body: { progress: null } })
  }
  const stale = await PROGRESS(server, id, { worker_id: 'v', x_lease: 1 })
  expect(stale.status).toBe(409)
  expect(stale.body.error.details.reason).toBe('stale_attempt')
  const wrong = { operation: 'progress', reason: 'stale_attempt' }
  expect(await server.metric('curfew_late_results_total', wrong)).toBe(1)
  expect(await server.job(id)).not.toHaveProperty('progress')
  expect((await PROGRESS(server, id, { worker_id: 'v', attempt: 2, x_lease: 2 })).body.progress).toBe(0.5)
})

test('progress for a job that is not active is answered and ignored, wrong lease or not', async () => {
  const server = await TestServer.open()
  const { id } = await server.start()
  await server.nack(id)
  expect((await PROGRESS(server, id, {})).status).toBe(200)
  expect((await PROGRESS(server, id, { x_lease: 1 })).status).toBe(200)
  expect((await PROGRESS(server, id, { x_lease: 9 })).status).toBe(200)
  expect(await server.job(id)).not.toHaveProperty('progress')
})

test('not_active comes before not_owner and not_owner before stale_attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({}, { worker_id: 'w' })
  const fence = { worker_id: 'x', attempt: 9, x_lease: 9 }
  expect((await server.ack(id, fence)).body.error.details.reason).toBe('not_owner')
  await server.ack(id)
  expect((await server.ack(id, fence)).body.error.details.reason).toBe('not_active')
})

const ENDINGS: [string, (server: TestServer, id: string) => Promise<unknown>, string][] = [
  ['a timeout', (server) => server.advance(20_000), 'retryable'],
  ['a cancel', (server, id) => server.call('DELETE', `/ojs/v1/jobs/${id}`), 'cancelled'],
  ['a lapse', (server) => server.advance(10_000), 'available'],
  ['an ACK', (server, id) => server.ack(id), 'completed'],
  ['a FAIL', (server, id) => server.nack(id), 'retryable'],
  ['a hand-back', (server, id) => server.nack(id, { message: 'x' }, { requeue: true }), 'available'],
]

test.each(ENDINGS)('after %s a report comes too late', async (how, ending, state) => {
  const server = await TestServer.open()
  const limits = how === 'a lapse' ? { visibility_timeout: 10 } : { timeout: 20 }
  const { id } = await server.start({ ...limits, retry: { jitter: false, initial_interval: 'PT1H' } })
  await ending(server, id)
  expect((await server.job(id)).state).toBe(state)
  for (const [operation, report] of REPORTS) {
    const reply = await report(server, id, { x_lease: 1 })
    expect(reply.status).toBe(409)
    expect(reply.body.error.details).toMatchObject({ current_state: state, reason: 'not_active' })
    expect(await server.metric('curfew_late_results_total', { operation, reason: 'not_active' })).toBe(1)
  }
  expect((await server.job(id)).state).toBe(state)
})

test('a repeat without a lease is refused, and says who ended the attempt', async () => {
  const server = await TestServer.open()
  const acked = await server.start({}, { worker_id: 'w' })
  const failed = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
  await server.ack(acked.id, { worker_id: 'w' })
  await server.nack(failed.id, { message: 'x' })
  const mine = { worker_id: 'w', attempt: 1 }
  const closer = { ...mine, x_lease: 1 }
  expect((await server.ack(acked.id, mine)).body.error.details.completed_by).toEqual(closer)
  expect((await server.nack(failed.id, { message: 'x' }, mine)).body.error.details.completed_by).toEqual(closer)
})

test('no worker is named when time ended the attempt, and the next claim clears the name', async () => {
  const server = await TestServer.open()
  const timedOut = await server.start({ timeout: 10, retry: { jitter: false } })
  await server.advance(10_000)
  expect((await server.ack(timedOut.id)).body.error.details).not.toHaveProperty('completed_by')
  const { id } = await server.start({ queue: 'b', visibility_timeout: 10, retry: { jitter: false } })
  await server.nack(id)
  expect((await server.ack(id)).body.error.details.completed_by).toMatchObject({ x_lease: 1 })
  await server.advance(1_000)
  await server.fetch({ queues: ['b'] })
  await server.advance(10_000)
  expect((await server.ack(id)).body.error.details).not.toHaveProperty('completed_by')
})

test('the lease grows with every claim and survives a manual retry, which resets the attempt', async () => {
  const server = await TestServer.open()
  const { id } = await server.start({ retry: { max_attempts: 1 } })
  await server.nack(id)
  await server.post(`/ojs/v1/admin/jobs/${id}/retry`)
  expect((await server.fetch()).body.job).toMatchObject({ id, attempt: 1, x_lease: 2 })
  expect((await server.ack(id, { attempt: 1, x_lease: 1 })).body.error.details.reason).toBe('stale_attempt')
  expect((await server.ack(id, { attempt: 1, x_lease: 2 })).status).toBe(200)
})

test('an anonymous reservation may be reported on by anybody, with a name or without', async () => {
  const server = await TestServer.open()
  const named = await server.start()
  expect((await server.ack(named.id, { worker_id: 'w' })).status).toBe(200)
  const unnamed = await server.start()
  expect((await server.ack(unnamed.id)).status).toBe(200)
  const stale = await server.start()
  expect((await server.ack(stale.id, { worker_id: 'w', x_lease: 2 })).body.error.details.reason).toBe('stale_attempt')
})

test('with requireOwner a report must name its worker', async () => {
  const server = await TestServer.open({ settings: { requireOwner: true } })
  const { id } = await server.start({}, { worker_id: 'w' })
  expect((await server.ack(id)).body.error.details.reason).toBe('not_owner')
  expect((await server.nack(id)).body.error.details.reason).toBe('not_owner')
  expect((await server.ack(id, { worker_id: 'w' })).status).toBe(200)
})

test('only one of many fetches in the same instant gets a job', async () => {
  const server = await TestServer.open()
  await server.enqueue()
  const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => server.fetch({ worker_id: `w${String(n)}` })))
  expect(replies.filter(({ body }) => body.jobs.length === 1)).toHaveLength(1)
})

const REPEATS: [string, Report, string, string][] = [
  ['ack', (server, id, fence) => server.ack(id, { result: 7, ...fence }), 'completed', 'job.completed'],
  ['nack', (server, id, fence) => server.nack(id, { type: 'boom', message: 'x' }, fence), 'retryable', 'job.retrying'],
  [
    'nack',
    (server, id, fence) => server.nack(id, { type: 'shutdown', message: 'x' }, { requeue: true, ...fence }),
    'available',
    'job.interrupted',
  ],
]

test.each(REPEATS)(
  'a repeated %s of the same worker with the same lease is answered as done already, and changes nothing',
  async (operation, report, state, event) => {
    const server = await TestServer.open()
    const { id } = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
    const fence = { worker_id: 'w', x_lease: 1 }
    const first = await report(server, id, fence)
    expect(first.body).not.toHaveProperty('already')
    const [before, events] = [await server.job(id), await server.eventTypes(id)]
    expect(events).toContain(event)
    await server.advance(500)
    for (const proof of [fence, { ...fence, attempt: 1 }, { ...fence, result: 'another' }]) {
      const again = await report(server, id, proof)
      expect(again.status).toBe(200)
      expect(again.body).toMatchObject({ already: true, id, state })
    }
    const refused = [
      {},
      { worker_id: 'w' },
      { x_lease: 1 },
      { worker_id: 'v', x_lease: 1 },
      { worker_id: 'w', x_lease: 2 },
      { ...fence, attempt: 2 },
    ]
    expect(await server.metric('curfew_late_results_total', { operation, reason: 'not_active' })).toBe(0)
    for (const proof of refused) expect([proof, (await report(server, id, proof)).status]).toEqual([proof, 409])
    expect(await server.metric('curfew_late_results_total', { operation, reason: 'not_active' })).toBe(refused.length)
    expect(await server.job(id)).toEqual(before)
    expect(await server.eventTypes(id)).toEqual(events)
  },
)

test('a nack of an attempt that was acknowledged, or the other way round, does not count as a repeat', async () => {
  const server = await TestServer.open()
  const fence = { worker_id: 'w', x_lease: 1 }
  const done = await server.start({}, { worker_id: 'w' })
  await server.ack(done.id, fence)
  expect((await server.nack(done.id, { message: 'x' }, fence)).status).toBe(409)
  const failed = await server.start({}, { worker_id: 'w' })
  await server.nack(failed.id, { message: 'x' }, fence)
  expect((await server.ack(failed.id, fence)).status).toBe(409)
})

test('after the next claim a repeat is refused again, and so it is when the server itself ended the attempt', async () => {
  const server = await TestServer.open()
  const fence = { worker_id: 'w', x_lease: 1 }
  const { id } = await server.start({ retry: { jitter: false } }, { worker_id: 'w' })
  await server.nack(id, { message: 'x' }, fence)
  await server.advance(1_000)
  await server.fetch({ worker_id: 'w' })
  const late = await server.nack(id, { message: 'x' }, fence)
  expect([late.status, late.body['error'].details.reason]).toEqual([409, 'stale_attempt'])
  const slow = await server.start({ queue: 'q', timeout: 5, grace_period: 0 }, { worker_id: 'w' })
  await server.advance(5_000)
  expect((await server.nack(slow.id, { type: 'timeout', message: 'x' }, fence)).status).toBe(409)
})

test('in an exchange a repeat is an entry that is fine, and says that it was there already', async () => {
  const server = await TestServer.open()
  const done = await server.start({}, { worker_id: 'w' })
  const failed = await server.start({ queue: 'q' }, { worker_id: 'w' })
  const reports = {
    worker_id: 'w',
    acks: [{ job_id: done.id, x_lease: 1 }],
    nacks: [{ job_id: failed.id, x_lease: 1, error: { message: 'x' } }],
  }
  const first = (await server.post('/ojs/v1/workers/exchange', reports)).body
  expect([first['acks'][0], first['nacks'][0]].map((entry) => 'already' in (entry as object))).toEqual([false, false])
  const again = (await server.post('/ojs/v1/workers/exchange', reports)).body
  expect(again['acks']).toMatchObject([{ job_id: done.id, ok: true, already: true, state: 'completed' }])
  expect(again['nacks']).toMatchObject([{ job_id: failed.id, ok: true, already: true, state: 'retryable' }])
})
