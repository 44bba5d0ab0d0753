import { describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { Connection } from '../client/connection.ts'
import type { Report } from '../attempt/report.ts'
import type { Call, CallAnswer, Listen } from './inputs.ts'
import { exchangeTransport, singleTransport, type WorkerTransport } from './transport.ts'

const ACK: Report = { kind: 'ack', hold: { jobId: 'a', attempt: 1, lease: 7 }, result: 5 }
const NACK: Report = {
  kind: 'nack',
  hold: { jobId: 'b', attempt: 1, lease: 8 },
  requeue: true,
  error: { type: 'shutdown', message: 'bye' },
}

interface Asked {
  readonly url: string
  readonly body: Record<string, unknown>
}

/** A server that answers by a table; calls that are not in it are answered {}. */
function server(answers: Record<string, [number, unknown]>): { connection: Connection; asked: Asked[] } {
  const asked: Asked[] = []
  const handler = async ({ url, body }: { url: string; body: string }) => {
    asked.push({ url, body: JSON.parse(body || '{}') as Record<string, unknown> })
    const [status, answer] = answers[url] ?? [200, {}]
    return { status, headers: {}, body: JSON.stringify(answer) }
  }
  return { connection: new Connection({ server: { handler }, retries: 0 }), asked }
}

function route(connection: Connection): Parameters<typeof exchangeTransport>[0] {
  return { connection, host: new FakeClock(), workerId: 'me', queues: ['q'] }
}

const carried = (by: WorkerTransport, reports: readonly Report[], more: Partial<Call> = {}): Promise<CallAnswer> =>
  by.carry({ id: 1, seq: 9, reports, count: 0, waitMs: 0, listen: null, ...more }, new AbortController().signal)

const refusedBy = (workerId: string, lease: number): unknown => ({
  code: 'conflict',
  message: 'over',
  details: { reason: 'not_active', completed_by: { worker_id: workerId, x_lease: lease } },
})

describe.each(['exchange', 'single'])('by %s', (way) => {
  const reach = (answer: unknown, status: number): { by: WorkerTransport; asked: Asked[] } => {
    const { connection, asked } = server(
      way === 'exchange'
        ? { '/ojs/v1/workers/exchange': [200, { acks: [{ ok: status === 200, status, error: answer }] }] }
        : { '/ojs/v1/workers/ack': [status, { error: answer }] },
    )
    const by =
      way === 'exchange' ? exchangeTransport(route(connection), true) : singleTransport(route(connection), true, true)
    return { by, asked }
  }

  test('a report is delivered with the proof of its attempt', async () => {
    const { by, asked } = reach(undefined, 200)
    expect((await carried(by, [ACK])).deliveries).toEqual([{ kind: 'done' }])
    const entry = way === 'exchange' ? (asked[0]?.body['acks'] as unknown[])[0] : asked[0]?.body
    expect(entry).toMatchObject({ job_id: 'a', attempt: 1, x_lease: 7, result: 5 })
    expect(asked[0]?.body).toMatchObject({ worker_id: 'me' })
  })

  test('a report whose first answer was lost is known by its own lease', async () => {
    const { by } = reach(refusedBy('me', 7), 409)
    expect((await carried(by, [ACK])).deliveries).toEqual([{ kind: 'done' }])
  })

  test.each([
    ['another worker', refusedBy('you', 7)],
    ['another lease', refusedBy('me', 6)],
  ])('a report that came too late is refused: closed by %s', async (_who, error) => {
    const { by } = reach(error, 409)
    expect((await carried(by, [ACK])).deliveries).toMatchObject([{ kind: 'refused', code: 'conflict' }])
  })

  test('a report that the server could not store is to be sent again', async () => {
    const { by } = reach({ code: 'unavailable', message: 'disk' }, 503)
    // Alone, it is a call without an answer: nothing shows that the server can be reached.
    if (way === 'single') await expect(carried(by, [ACK])).rejects.toThrow('disk')
    else expect((await carried(by, [ACK])).deliveries).toMatchObject([{ kind: 'unsent' }])
  })
})

test('one exchange takes acks, nacks and the call for jobs, and tells each report its own fate', async () => {
  const job = { id: 'c', x_lease: 1 }
  const { connection, asked } = server({
    '/ojs/v1/workers/exchange': [
      200,
      {
        acks: [{ ok: true }],
        nacks: [{ ok: false, status: 409, error: { code: 'conflict', message: 'm' } }],
        jobs: [job],
        x_waited_ms: 30,
      },
    ],
  })
  const back = await carried(exchangeTransport(route(connection), true), [NACK, ACK], { count: 2 })
  expect(asked).toHaveLength(1)
  expect(asked[0]?.body).toMatchObject({ nacks: [{ job_id: 'b', requeue: true }], fetch: { queues: ['q'], count: 2 } })
  expect(back.deliveries.map(({ kind }) => kind)).toEqual(['refused', 'done'])
  expect(back.jobs).toEqual([job])
  expect(back.asked.waitedMs).toBe(30)
})

test('reports that were delivered one by one stay delivered when no jobs could be asked for', async () => {
  const { connection } = server({ '/ojs/v1/workers/fetch': [503, { error: { code: 'unavailable' } }] })
  const back = await carried(singleTransport(route(connection), true, true), [ACK], { count: 1 })
  expect(back.deliveries).toEqual([{ kind: 'done' }])
  expect(back.failure).not.toBeNull()
})

test('a server that knows no leases is sent none', async () => {
  const { connection, asked } = server({})
  const plain: Report = { kind: 'ack', hold: { jobId: 'a', attempt: 1, lease: null }, result: 5 }
  await carried(singleTransport(route(connection), false, false), [plain], { count: 1, waitMs: 20 })
  expect(asked.map(({ body }) => body)).toEqual([
    { job_id: 'a', result: 5 },
    { worker_id: 'me', queues: ['q'], count: 1 },
  ])
})

test('an open call says in which state the worker is and which orders it has heard, and is answered with orders', async () => {
  const stop = { job_id: 'a', reason: 'cancelled', x_lease: 2 }
  const { connection, asked } = server({
    '/ojs/v1/workers/exchange': [200, { jobs: [], orders: { state: 'quiet', x_cancel_jobs: [stop] } }],
  })
  const listen: Listen = { state: 'running', heard: [{ jobId: 'b', lease: 1 }] }
  const back = await carried(exchangeTransport(route(connection), true), [], { waitMs: 20, listen })
  expect(asked[0]?.body).toEqual({
    worker_id: 'me',
    seq: 9,
    fetch: { queues: ['q'], count: 0, wait_ms: 20 },
    listen: { state: 'running', seq: 9, heard: [{ job_id: 'b', x_lease: 1 }] },
  })
  expect(back.orders).toEqual({ state: 'quiet', stops: [stop], isForgotten: false })
})
