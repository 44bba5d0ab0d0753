/** Rows that are remembered between transactions are always what a read would find. */
import { minutes } from '@curfew/core'
import { expect, test } from 'vitest'
import { admitted, aQueue, at, aTypePolicy, aWorker, changes, changesOf, claimed } from '../builders.suite.ts'
import { saveIn, within } from '../builders.suite.ts'
import type { Changes, Store } from '../store.ts'
import { IN_MEMORY } from './connection.ts'
import { openSqliteStore } from './store.ts'

const KEPT = { maxAgeMs: minutes(60), maxCount: 1_000 }
const open = (): Promise<Store> => openSqliteStore({ file: IN_MEMORY, durability: 'full', events: KEPT })

/** What one transaction finds, and what a fresh read does. */
async function seen(store: Store, jobId: string) {
  return within(store, async (tx) => ({
    queue: (await tx.seeQueues(['default']))[0]?.pausedAt,
    type: (await tx.seeTypes(['email.send']))[0]?.updatedAt,
    worker: (await tx.findWorkers(['worker-1']))[0]?.lastSeenAt,
    job: (await tx.findJobs([jobId]))[0]?.state,
  }))
}

async function failing(store: Store, what: Changes): Promise<void> {
  const work = store.transaction(async (tx) => {
    await tx.save(what)
    await seenIn(tx)
    throw new Error('rolled back')
  })
  await expect(work).rejects.toThrow('rolled back')
}

/** Remembers what is not committed, if anything does. */
async function seenIn(tx: Parameters<Parameters<Store['transaction']>[0]>[0]): Promise<void> {
  await tx.seeQueues(['default'])
  await tx.seeTypes(['email.send'])
  await tx.findWorkers(['worker-1'])
}

async function furnished() {
  const store = await open()
  const step = admitted()
  await saveIn(store, changesOf(step))
  await saveIn(
    store,
    changes({
      queues: [{ before: null, after: aQueue() }],
      types: [{ type: 'email.send', policy: aTypePolicy() }],
      workers: [{ before: null, after: aWorker() }],
    }),
  )
  const [job] = await within(store, (tx) => tx.findJobs([step.job.id]))
  const [worker] = await within(store, (tx) => tx.findWorkers(['worker-1']))
  const [queue] = await within(store, (tx) => tx.seeQueues(['default']))
  if (job === undefined || worker === undefined || queue === undefined) throw new Error('nothing was stored')
  const started = claimed(job)
  const all = changes({
    ...changesOf(started),
    queues: [{ before: queue, after: { ...queue, pausedAt: at(7) } }],
    types: [{ type: 'email.send', policy: aTypePolicy({ updatedAt: at(7) }) }],
    workers: [{ before: worker, after: { ...worker, lastSeenAt: at(7), wakeAt: at(9) } }],
  })
  return { store, id: job.id, all, started }
}

test('what a transaction changed is what the next one finds', async () => {
  const { store, id, all } = await furnished()
  expect(await seen(store, id)).toEqual({ queue: null, type: at(0), worker: at(0), job: 'available' })
  await saveIn(store, all)
  expect(await seen(store, id)).toEqual({ queue: at(7), type: at(7), worker: at(7), job: 'active' })
  expect(await store.job(id)).toEqual((await within(store, (tx) => tx.findJobs([id])))[0])
  expect(await store.worker('worker-1')).toEqual((await within(store, (tx) => tx.findWorkers(['worker-1'])))[0])
})

test('what was rolled back is not found, and is not what the store wakes for', async () => {
  const { store, id, all } = await furnished()
  await failing(store, all)
  expect(await seen(store, id)).toEqual({ queue: null, type: at(0), worker: at(0), job: 'available' })
  const ended = await store.transaction(() => Promise.resolve({ value: null, changes: changes() }))
  expect(ended.nextWakeAt).toBe(at(30_000))
})

test('rows that came, moved and went leave the nearest instant at which the store wakes', async () => {
  const store = await open()
  const wakes: unknown[] = []
  const commit = async (what: Changes): Promise<void> => {
    const { nextWakeAt } = await store.transaction(() => Promise.resolve({ value: null, changes: what }))
    wakes.push(nextWakeAt)
    expect(nextWakeAt).toBe(await store.nextWakeAt())
  }
  const stored = async (id: string) => (await within(store, (tx) => tx.findWorkers([id])))[0] ?? null
  const w = (id: string, ms: number | null) => aWorker({ id, wakeAt: ms === null ? null : at(ms) })
  await commit(changes())
  await commit(changes({ workers: [{ before: null, after: w('a', 500) }] }))
  await commit(changes({ workers: [{ before: null, after: w('b', 300) }] }))
  await commit(changes({ workers: [{ before: null, after: w('c', 300) }] }))
  await commit(changes({ workers: [{ before: await stored('b'), after: w('b', 900) }] }))
  await commit(changes({ workers: [{ before: await stored('c'), after: null }] }))
  await commit(changes({ workers: [{ before: await stored('a'), after: w('a', null) }] }))
  expect(wakes).toEqual([null, at(500), at(300), at(300), at(300), at(500), at(900)])
})

test('a job that is long is found as it is, though it is not remembered', async () => {
  const store = await open()
  const step = admitted({ body: `"args":["${'x'.repeat(5_000)}"]` })
  await saveIn(store, changesOf(step))
  const [job] = await within(store, (tx) => tx.findJobs([step.job.id]))
  if (job === undefined) throw new Error('nothing was stored')
  await saveIn(store, changesOf(claimed(job)))
  expect((await within(store, (tx) => tx.findJobs([job.id])))[0]).toEqual(await store.job(job.id))
})
