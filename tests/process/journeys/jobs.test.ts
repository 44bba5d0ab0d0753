/** A journey that waits for a job: one deadline for both, and one end. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineJob, Worker } from '@curfew/sdk'
import { plusLag } from '../../machine-lag.ts'
import { until, type ServerProcess } from '../server-process.ts'
import { deploy, ended, expectTimeout, resultOf, serve, start, statusOf, succeed } from './stage.ts'

const QUICK = ['--workers-heartbeat-interval', '200ms', '--workers-heartbeat-timeout', '2s']

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

let server: ServerProcess
beforeAll(async () => {
  server = await serve({ flags: QUICK })
})
afterAll(() => server.stop())

const awaiting = (type: string, task: object = {}): object => ({
  type: 'task',
  task: { kind: 'job:v1', type, queue: type, resultVar: 'job', ...task },
  next: 'done',
})

// eslint-disable-next-line @typescript-eslint/no-explicit-any
async function jobOf(queue: string, runId: string): Promise<any> {
  return until('the job is there', async () => {
    const { body } = await server.get(`/ojs/v1/jobs?queue=${queue}`)
    const jobs = (body.jobs ?? body.items) as { id: string; x_parent?: { journey_id?: string } }[]
    return jobs.find(({ x_parent }) => x_parent?.journey_id === runId)
  })
}

describe('the deadline of a run', () => {
  test('is the deadline of the job it waits for, and says so', async () => {
    await deploy(server, 'bounded', {
      seconds: 2,
      states: { work: awaiting('bounded', { totalTimeoutSec: 600 }), done: succeed() },
    })
    const id = await start(server, 'bounded')
    const { deadlineAt } = await statusOf(server, id)
    const job = await jobOf('bounded', id)
    expect(
      Math.abs(Date.parse(job.x_limits.total_deadline as string) - Date.parse(deadlineAt as string)),
    ).toBeLessThanOrEqual(50)
    expect(job.x_limits.sources.total).toBe('parent')

    const [claimed] = await server.fetch({ queues: ['bounded'] })
    expect(claimed.id).toBe(job.id)
    const outcome = await ended(server, id)
    expectTimeout(outcome, 250)
    expect(outcome.terminatedAtState).toBe('work')
    const after = await server.job(job.id as string)
    expect(after).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
    expect(after.error.occurred_at).toBe(outcome.endedAt)
    const late = await server.post('/ojs/v1/workers/ack', { job_id: job.id })
    expect(late.status).toBe(409)
    expect((await resultOf(server, id)).body).toEqual(outcome)
  })

  test('stops the handler of an SDK worker', async () => {
    await deploy(server, 'stopped', { seconds: 2, states: { work: awaiting('stopped'), done: succeed() } })
    const heard = await handled('stopped')
    const id = await start(server, 'stopped')
    const { deadlineAt } = await statusOf(server, id)
    const { at, reason } = await heard.stopped
    expect(Math.abs(at - Date.parse(deadlineAt as string))).toBeLessThan(plusLag(500))
    expect((reason as Error).name).toBe('DeadlineError')
    expectTimeout(await ended(server, id), 250)
    await heard.close()
  })
})

describe('cancelling a run', () => {
  test('cancels the job it waits for, and stops its handler', async () => {
    await deploy(server, 'cancelled', { seconds: 60, states: { work: awaiting('cancelled'), done: succeed() } })
    const heard = await handled('cancelled')
    const id = await start(server, 'cancelled')
    const job = await jobOf('cancelled', id)
    await heard.begun
    const reply = await server.post(`/api/v1/journeys/${id}/steps/cancel`)
    expect(reply.status, reply.text).toBe(200)
    expect((await server.job(job.id as string)).state).toBe('cancelled')
    const { reason } = await heard.stopped
    expect((reason as Error).name).toBe('CancelledError')
    expect((await resultOf(server, id)).body).toMatchObject({
      phase: 'FAILED',
      terminationKind: 'Cancel',
      error: { code: 'JOURNEY_CANCELLED' },
    })
    await heard.close()
  })
})

test('what the job brings takes the run on', async () => {
  await deploy(server, 'worked', {
    seconds: 30,
    states: {
      work: awaiting('worked', { args: { mapper: { lang: 'jsonata', expr: '[context.n]' } } }),
      done: succeed('job'),
    },
  })
  const worker = new Worker({ url: server.url, queues: ['worked'], concurrency: 1, drain: '100ms', log: silent })
  worker.handle(defineJob<[n: number]>('worked'), (_, [n]) => Promise.resolve({ twice: 2 * n }))
  await worker.start()
  const id = await start(server, 'worked', { n: 21 })
  expect(await ended(server, id)).toMatchObject({
    phase: 'SUCCEEDED',
    output: { ok: true, state: 'completed', result: { twice: 42 } },
  })
  await worker.stop()
})

interface Heard {
  readonly begun: Promise<void>
  readonly stopped: Promise<{ at: number; reason: unknown }>
  close(): Promise<void>
}

/** A worker whose handler does nothing but wait to be told to stop. */
async function handled(type: string): Promise<Heard> {
  const worker = new Worker({ url: server.url, queues: [type], concurrency: 1, drain: '100ms', log: silent })
  let begin = (): void => {}
  const begun = new Promise<void>((resolve) => (begin = resolve))
  const stopped = new Promise<{ at: number; reason: unknown }>((resolve) => {
    worker.handle(
      defineJob(type),
      ({ signal }) =>
        new Promise((_, reject) => {
          begin()
          signal.addEventListener('abort', () => {
            resolve({ at: Date.now(), reason: signal.reason })
            reject(signal.reason as Error)
          })
        }),
    )
  })
  await worker.start()
  return {
    begun,
    stopped,
    close: async () => {
      await worker.stop()
    },
  }
}
