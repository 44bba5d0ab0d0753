/** Jobs that a server remembers between their claim and their result are always what a read would find. */
import { beforeEach, expect, test } from 'vitest'
import type { Job } from '@curfew/core'
import { admitted, at, changes, changesOf, claimed, saveIn, within } from '../builders.suite.ts'
import type { Store } from '../store.ts'
import { openBench, until } from './bench.suite.ts'

const bench = await openBench()

let schema: string
let a: Store
let b: Store
beforeEach(async () => {
  schema = bench.newSchema()
  a = await bench.open(schema)
  b = await bench.open(schema)
  return async () => {
    await Promise.all([a.close(), b.close()])
  }
})

async function claimedAt(store: Store, worker: string, given: Parameters<typeof admitted>[0] = {}): Promise<string> {
  const step = admitted(given)
  await saveIn(store, changesOf(step))
  const [job] = (await within(store, (tx) => tx.findJobs([step.job.id]))) as [Job]
  await saveIn(store, changesOf(claimed(job, worker)))
  return job.id
}

const findIn = (store: Store, ids: readonly string[]): Promise<Job[]> => within(store, (tx) => tx.findJobs(ids))

/** Writes it once more, as a sign of life would. */
async function renewIn(store: Store, id: string, ms: number): Promise<void> {
  const [job] = (await findIn(store, [id])) as [Job]
  await saveIn(store, changes({ jobs: [{ before: job, after: { ...job, wakeAt: at(ms) } }] }))
}

const waiting = async (): Promise<number> => {
  const [row] = await bench.ask<{ n: string }>(
    `SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
    [schema],
  )
  return Number(row?.n)
}

test('a job that was claimed here is found as a read finds it, with each version it gets here', async () => {
  const id = await claimedAt(a, 'worker-1')
  expect(await findIn(a, [id])).toEqual([await b.job(id)])
  await renewIn(a, id, 500)
  expect(await findIn(a, [id])).toEqual([await b.job(id)])
  expect((await findIn(a, [id]))[0]).toMatchObject({ version: 3, wakeAt: at(500) })
})

test('a job that another server has written since is found as it has become', async () => {
  const id = await claimedAt(a, 'worker-1')
  await renewIn(b, id, 700)
  expect((await findIn(a, [id]))[0]).toMatchObject({ version: 3, wakeAt: at(700) })
})

test('a job that another server is about to write is waited for', async () => {
  const id = await claimedAt(a, 'worker-1')
  const found = await b.transaction(async (tx) => {
    const [job] = (await tx.findJobs([id])) as [Job]
    const late = findIn(a, [id])
    await until(waiting, (n) => n > 0)
    return { value: { late }, changes: changes({ jobs: [{ before: job, after: { ...job, wakeAt: at(900) } }] }) }
  })
  expect((await found.value.late)[0]).toMatchObject({ version: 3, wakeAt: at(900) })
})

test('a job that came again under its id is not taken for the one that was', async () => {
  const id = await claimedAt(a, 'worker-1')
  const [gone] = (await findIn(b, [id])) as [Job]
  await saveIn(b, changes({ jobs: [{ before: gone, after: null }] }))
  expect(await findIn(a, [id])).toEqual([])
  await claimedAt(b, 'worker-2', { id })
  const [found] = (await findIn(a, [id])) as [Job]
  expect([found.version, found.hold?.workerId]).toEqual([gone.version, 'worker-2'])
})

test('jobs that are remembered and jobs that are not are found together, in the order of asking', async () => {
  const mine = [await claimedAt(a, 'worker-1'), await claimedAt(a, 'worker-1')]
  const theirs = await claimedAt(b, 'worker-2')
  const ids = [theirs, mine[1] ?? '', 'unheard-of', mine[0] ?? '']
  const found = await findIn(a, ids)
  expect(found.map(({ id }) => id)).toEqual(ids.filter((id) => id !== 'unheard-of'))
  expect(found).toEqual(await Promise.all(found.map(({ id }) => b.job(id))))
})

test('what was rolled back is not remembered', async () => {
  const id = await claimedAt(a, 'worker-1')
  const broken = a.transaction(async (tx) => {
    const [job] = (await tx.findJobs([id])) as [Job]
    await tx.save(changes({ jobs: [{ before: job, after: { ...job, wakeAt: at(900) } }] }))
    throw new Error('it broke')
  })
  await expect(broken).rejects.toThrow('it broke')
  expect(await findIn(a, [id])).toEqual([await b.job(id)])
})

test('nothing is remembered of what a reset removed', async () => {
  const id = await claimedAt(a, 'worker-1')
  await a.reset()
  expect(await findIn(a, [id])).toEqual([])
})
