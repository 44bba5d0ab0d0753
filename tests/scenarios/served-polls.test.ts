/** Polls that wait are served inside the transaction that makes their jobs available. */
import { FakeClock } from '@curfew/core'
import { expect, test } from 'vitest'
import type { Store } from '../../packages/server/src/store/store.ts'
import { idle, TestServer, type Reply } from '../harness.ts'
import { openTestStore } from '../stores.ts'

const NOON = Date.UTC(2026, 0, 1, 12)
const ids = ({ body }: Reply): string[] => body.jobs.map(({ id }) => id)

/** How many transactions were begun, and how many of them saved something. */
function counting(store: Store): { transactions: number; saves: number; workerRows: number } {
  const seen = { transactions: 0, saves: 0, workerRows: 0 }
  const transaction = store.transaction.bind(store)
  store.transaction = (work) =>
    transaction(async (tx) => {
      seen.transactions += 1
      const closing = await work(tx)
      const { jobs, workers } = closing.changes
      if (jobs.length + workers.length > 0) seen.saves += 1
      seen.workerRows += workers.length
      return closing
    })
  return seen
}

test('the transaction of an enqueue serves the poll that waits: one commit for both', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const poll = server.fetch({ worker_id: 'w', wait_ms: 30_000 })
  await idle()
  const seen = counting(store)
  const id = await server.enqueue()
  expect(ids(await poll)).toEqual([id])
  expect(seen.transactions).toBe(1)
  expect(await server.job(id)).toMatchObject({ state: 'active', attempt: 1, worker_id: 'w' })
  expect(await server.eventTypes(id)).toEqual(['job.enqueued', 'job.started'])
})

test('a bulk serves as many polls as it has jobs for, oldest first, and wakes no other', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const polls = [2, 2, 1].map((count) => server.fetch({ count, wait_ms: 30_000 }))
  await idle()
  const seen = counting(store)
  const jobs = [1, 2, 3].map(() => ({ type: 'test.job', args: [] }))
  const { body } = await server.post('/ojs/v1/jobs/batch', { jobs })
  const made = body.jobs.map(({ id }) => id)
  expect([ids(await polls[0]!), ids(await polls[1]!)]).toEqual([made.slice(0, 2), made.slice(2)])
  expect(seen.transactions).toBe(1)
  const id = await server.enqueue()
  expect(ids(await polls[2]!)).toEqual([id])
})

test('a poll of a queue that is paused stays open, and costs one look', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  await server.post('/ojs/v1/queues/default/pause')
  const polls = [1, 2, 3].map(() => server.fetch({ wait_ms: 30_000 }))
  await idle()
  const seen = counting(store)
  const id = await server.enqueue()
  await idle()
  expect(seen.transactions).toBe(1)
  await server.post('/ojs/v1/queues/default/resume')
  expect(ids(await polls[0]!)).toEqual([id])
})

test('jobs that become due serve the poll at their own instant', async () => {
  const server = await TestServer.open()
  const id = await server.enqueue({ scheduled_at: '+PT5S' })
  const poll = server.fetch({ wait_ms: 30_000 })
  await server.advance(5_000)
  expect((await poll).body.jobs).toMatchObject([{ id, started_at: new Date(NOON + 5_000).toISOString() }])
})

test('a poll that hangs up while it is served loses no job, and the attempt does not count', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const gone = new AbortController()
  const request = { method: 'POST', url: '/ojs/v1/workers/fetch', headers: {}, signal: gone.signal }
  const asked = { queues: ['default'], worker_id: 'w', wait_ms: 30_000 }
  const poll = server.handler({ ...request, body: JSON.stringify(asked) })
  await idle()
  const transaction = store.transaction.bind(store)
  store.transaction = async (work) => {
    const ended = await transaction(work)
    gone.abort() // committed, and not yet answered
    return ended
  }
  const id = await server.enqueue({ retry: { max_attempts: 1 } })
  await poll
  store.transaction = transaction
  await idle()
  expect(await server.job(id)).toMatchObject({ state: 'available', attempt: 1, x_interruptions: 1 })
  expect(ids(await server.fetch())).toEqual([id])
})

test('a look that breaks inside an enqueue costs the enqueue nothing', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const poll = server.fetch({ wait_ms: 30_000 })
  await idle()
  const transaction = store.transaction.bind(store)
  let breaks = 1
  store.transaction = (work) =>
    transaction((tx) => {
      const find = tx.findClaimable.bind(tx)
      tx.findClaimable = (asked) => {
        if (breaks > 0) {
          breaks -= 1
          throw new Error('a bug')
        }
        return find(asked)
      }
      return work(tx)
    })
  const id = await server.enqueue()
  expect(ids(await poll)).toEqual([id])
  expect(await server.eventTypes(id)).toEqual(['job.enqueued', 'job.started'])
  expect(server.logged.filter(({ level }) => level === 'error')).toHaveLength(1)
})

test('a served poll is refused when the disk fails, as its enqueue is', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  const poll = server.fetch({ wait_ms: 30_000 })
  await idle()
  const { StoreUnavailable } = await import('../../packages/server/src/store/store.ts')
  const transaction = store.transaction.bind(store)
  store.transaction = async (work) => {
    const ended = await transaction(work)
    const durable = ended.durable.then(() => Promise.reject(new StoreUnavailable('the disk is full', null)))
    durable.catch(() => {})
    return { ...ended, durable }
  }
  const made = server.post('/ojs/v1/jobs', { type: 'test.job', args: [] })
  expect([(await made).status, (await poll).status]).toEqual([503, 503])
  store.transaction = transaction
})

test('a poll that finds nothing right after its worker was heard writes nothing', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  await server.register('w')
  await server.advance(500)
  const seen = counting(store)
  const poll = server.fetch({ worker_id: 'w', wait_ms: 10_000 })
  await idle()
  expect([seen.transactions, seen.saves]).toEqual([1, 0])
  await server.advance(10_000)
  await poll
  expect(seen.workerRows).toBe(1) // its end is the last sign of life
})

test('no worker is declared dead because the begin of its poll was not written', async () => {
  const store = await openTestStore()
  const server = await TestServer.open({ store })
  await server.register('w')
  const job = await server.start({}, { worker_id: 'w' })
  for (let beats = 0; beats < 40; beats += 1) {
    const poll = server.fetch({ worker_id: 'w', queues: ['empty'], wait_ms: 700 })
    await server.advance(700)
    await poll
  }
  expect((await server.job(job.id)).state).toBe('active')
  await server.advance(29_999)
  expect((await server.job(job.id)).state).toBe('active')
  await server.advance(1)
  expect((await server.job(job.id)).error).toMatchObject({ type: 'worker_death' })
})

test('after a crash under an open poll its worker is given the whole time of silence', async () => {
  const store = await openTestStore()
  const before = await TestServer.open({ store })
  await before.register('w')
  const job = await before.start({}, { worker_id: 'w' })
  await before.advance(5_000)
  await before.enqueue({ queue: 'other' }) // stamps the life of the server
  await before.advance(500)
  void before.fetch({ worker_id: 'w', queues: ['empty'], wait_ms: 30_000 }).catch(() => {})
  await idle()
  const server = await TestServer.open({ store, clock: new FakeClock(NOON + 600_000) })
  await server.advance(29_999)
  expect((await server.job(job.id)).state).toBe('active')
})
