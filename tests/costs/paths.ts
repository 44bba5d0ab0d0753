/** The paths whose costs are kept: what a server does most, and what time makes it do. */
import { expect } from 'vitest'
import type { JobView, TestServer } from '../harness.ts'

export interface Path {
  readonly name: string
  /** How many jobs it is about; counts are also shown for each. */
  readonly jobs: number
  /** Brings the server to where the path begins, and through everything that happens only once. */
  readonly prepare: (server: TestServer) => Promise<void>
  /** What is counted. */
  readonly run: (server: TestServer) => Promise<void>
  /** That the path was gone to its end. */
  readonly verify: (server: TestServer) => Promise<void>
}

const WORKER = 'counter'
/** Jobs whose attempts run out come back only after the counting. */
const RETRY = { max_attempts: 3, jitter: false, initial_interval: 'PT1H' }

/** Some hundred bytes of arguments, the same length for each job. */
function job(n: number, more: object = {}): object {
  const to = `customer-${String(n).padStart(6, '0')}@example.com`
  return { type: 'mail.send', args: [{ to, subject: 'Your order has been shipped', template: 'shipped-v2' }], ...more }
}

function jobs(count: number, more: object = {}): object[] {
  return Array.from({ length: count }, (_, n) => job(n, more))
}

async function bulk(server: TestServer, count: number, more: object = {}): Promise<void> {
  const { status } = await server.post('/ojs/v1/jobs/batch', { jobs: jobs(count, more) })
  expect(status).toBe(201)
}

async function exchange(server: TestServer, acked: readonly JobView[], count: number, waitMs = 0): Promise<JobView[]> {
  const acks = acked.map(({ id, attempt, x_lease }) => ({ job_id: id, attempt, x_lease: x_lease as number, result: 1 }))
  const { status, body } = await server.post('/ojs/v1/workers/exchange', {
    worker_id: WORKER,
    ...(acks.length === 0 ? {} : { acks }),
    fetch: { queues: ['default'], count, ...(waitMs === 0 ? {} : { wait_ms: waitMs }) },
  })
  expect(status).toBe(200)
  return body.jobs
}

async function countOf(server: TestServer, state: string): Promise<number> {
  const counts = await server.store.counts()
  return (counts.get('default') as Record<string, number> | undefined)?.[state] ?? 0
}

function expectJobs(state: string, count: number): Path['verify'] {
  return async (server) => expect(await countOf(server, state), `jobs ${state}`).toBe(count)
}

async function inTurn(times: number, act: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < times; n++) await act(n)
}

function loneEnqueue(): Path {
  return {
    name: 'enqueue, 20 one after another',
    jobs: 20,
    prepare: (server) => inTurn(5, (n) => server.post('/ojs/v1/jobs', job(n))),
    run: (server) => inTurn(20, (n) => server.post('/ojs/v1/jobs', job(n))),
    verify: expectJobs('available', 25),
  }
}

function groupEnqueue(): Path {
  const group = (server: TestServer): Promise<unknown> =>
    Promise.all(Array.from({ length: 50 }, (_, n) => server.post('/ojs/v1/jobs', job(n))))
  return {
    name: 'enqueue, 50 at once',
    jobs: 50,
    prepare: async (server) => void (await group(server)),
    run: async (server) => void (await group(server)),
    verify: expectJobs('available', 100),
  }
}

function bulkEnqueue(): Path {
  return {
    name: 'bulk of 1 000',
    jobs: 1_000,
    prepare: (server) => bulk(server, 1_000),
    run: (server) => bulk(server, 1_000),
    verify: expectJobs('available', 2_000),
  }
}

function exchanging(): Path {
  let held: JobView[] = []
  const once = async (server: TestServer): Promise<void> => {
    held = await exchange(server, held, 100)
    expect(held).toHaveLength(100)
  }
  return {
    name: 'exchange, 100 acks and 100 fetched',
    jobs: 100,
    prepare: async (server) => {
      // More than are fetched: a search that looks at all of them shows.
      await bulk(server, 900)
      await inTurn(3, () => once(server))
    },
    run: once,
    verify: expectJobs('completed', 300),
  }
}

function idleJob(): Path {
  let poll: Promise<JobView[]> = Promise.resolve([])
  const once = async (server: TestServer): Promise<void> => {
    await server.post('/ojs/v1/jobs', job(1))
    const got = await poll
    expect(got).toHaveLength(1)
    expect(await exchange(server, got, 10)).toEqual([])
    poll = exchange(server, [], 10, 30_000)
    await server.advance(10)
  }
  return {
    name: 'idle job, 10 times: enqueue, long poll, ack, next poll',
    jobs: 10,
    prepare: async (server) => {
      poll = exchange(server, [], 10, 30_000)
      await server.advance(10)
      await inTurn(3, () => once(server))
    },
    run: (server) => inTurn(10, () => once(server)),
    verify: expectJobs('completed', 13),
  }
}

/** `apart`: whether each job has a deadline of its own. The first ones only warm up. */
function expiring(name: string, apart: boolean, { warm, count }: { warm: number; count: number }): Path {
  const timeout = (n: number): number => (n < warm ? 1 : apart ? 2 + n - warm : 2)
  return {
    name,
    jobs: count,
    prepare: async (server) => {
      const all = Array.from({ length: warm + count }, (_, n) => job(n, { timeout: timeout(n), retry: RETRY }))
      await server.post('/ojs/v1/jobs/batch', { jobs: all })
      expect(await exchange(server, [], warm + count)).toHaveLength(warm + count)
      await server.advance(1_500)
      await expectJobs('retryable', warm)(server)
    },
    run: (server) => server.advance(apart ? count * 1_000 : 1_000),
    verify: expectJobs('retryable', warm + count),
  }
}

function expiringTotal(name: string, apart: boolean, { warm, count }: { warm: number; count: number }): Path {
  const total = (n: number): number => (n < warm ? 1 : apart ? 2 + n - warm : 2)
  return {
    name,
    jobs: count,
    prepare: async (server) => {
      const all = Array.from({ length: warm + count }, (_, n) => job(n, { total_timeout: total(n) }))
      await server.post('/ojs/v1/jobs/batch', { jobs: all })
      await server.advance(1_500)
      await expectJobs('discarded', warm)(server)
    },
    run: (server) => server.advance(apart ? count * 1_000 : 1_000),
    verify: expectJobs('discarded', warm + count),
  }
}

/** Made anew for each counting: a path remembers what its worker holds. */
export function paths(): Path[] {
  return [
    loneEnqueue(),
    groupEnqueue(),
    bulkEnqueue(),
    exchanging(),
    idleJob(),
    expiring('attempt timeout, 10 one after another', true, { warm: 2, count: 10 }),
    expiring('attempt timeout, 50 at once', false, { warm: 50, count: 50 }),
    expiringTotal('total timeout, 10 one after another', true, { warm: 2, count: 10 }),
    expiringTotal('total timeout, 50 at once', false, { warm: 50, count: 50 }),
  ]
}
