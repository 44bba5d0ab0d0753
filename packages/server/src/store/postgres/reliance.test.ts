/** A transaction that relies on what its store remembers has one round trip, and is refused where that is no longer so. */
import { beforeEach, describe, expect, test } from 'vitest'
import { admitted, aDoc, anEvent, aQueue, at, aTypePolicy, aWorker, changes, changesOf } from '../builders.suite.ts'
import { saveIn } from '../builders.suite.ts'
import { RowsMoved, type Changes, type Store, type Transaction } from '../store.ts'
import { openBench } from './bench.suite.ts'
import { openWiretap, type Wiretap } from './wiretap.suite.ts'

const bench = await openBench()

let a: Store
let b: Store
let tap: Wiretap
beforeEach(async () => {
  const schema = bench.newSchema()
  tap = await openWiretap(bench.url)
  a = await bench.open(schema, undefined, tap.url)
  b = await bench.open(schema)
  await saveIn(b, changes({ queues: [{ before: null, after: aQueue() }], aliveAt: at(0) }))
  return async () => {
    await Promise.all([a.close(), b.close()])
  }
})

/** What a lone enqueue asks for. */
const seen = async (tx: Transaction, id: string): Promise<unknown> => {
  const [jobs, queues, types, life, ...due] = await Promise.all([
    tx.findJobs([id], true),
    tx.seeQueues(['default']),
    tx.seeTypes(['email.send']),
    tx.seeLife(),
    tx.findDueWorkers(at(1), 100),
    tx.findDueJobs(at(1), 100),
    tx.findDueDocs(at(1), 100),
  ])
  return { jobs, queues, types, life, due }
}

async function enqueue(relies = true, step = admitted()): Promise<unknown> {
  const { value } = await a.transaction(async (tx) => {
    const value = await seen(tx, step.job.id)
    return { value, changes: { ...changesOf(step), events: [anEvent()] } }
  }, relies)
  return value
}

const look = (relies: boolean, id = 'free'): Promise<unknown> =>
  a.transaction(async (tx) => ({ value: await seen(tx, id), changes: changes() }), relies).then(({ value }) => value)

test('a lone job is six statements and one round trip, and finds what a look finds', async () => {
  const looked = await enqueue()
  await enqueue()
  expect(await tap.sentDuring(() => enqueue())).toEqual({
    parse: 0,
    describe: 0,
    bind: 6,
    execute: 6,
    sync: 1,
    turns: 1,
  })
  expect(await enqueue()).toEqual(looked)
  expect(await enqueue(false)).toEqual(looked)
})

test('what was written here is relied on as it was written', async () => {
  await enqueue()
  await saveIn(a, changes({ aliveAt: at(700) }))
  expect(await enqueue()).toMatchObject({ life: { aliveAt: at(700) } })
  await saveIn(a, changes({ types: [{ type: 'email.send', policy: aTypePolicy({ type: 'email.send' }) }] }))
  expect(await enqueue()).toMatchObject({ types: [{ type: 'email.send' }] })
  expect(await enqueue()).toMatchObject({ types: [{ type: 'email.send' }] })
  await a.reset()
  expect(await look(true)).toMatchObject({ queues: [], types: [], life: { aliveAt: null } })
})

describe('is refused, and tried again finds it, when another server', () => {
  const step = admitted()
  const pausing = async (): Promise<Changes> => {
    const [before = null] = await b.queues()
    return changes({ queues: [{ before, after: aQueue({ ...before, pausedAt: at(5) }) }] })
  }
  const cases: [string, string, () => Promise<Changes>][] = [
    ['paused the queue', 'queues', pausing],
    [
      'set limits of the type',
      'types',
      async () => changes({ types: [{ type: 'email.send', policy: aTypePolicy({ type: 'email.send' }) }] }),
    ],
    ['gave a sign of life', 'life', async () => changes({ aliveAt: at(900) })],
    ['noted an outage', 'life', async () => changes({ outages: { before: [], after: [{ from: at(1), to: at(2) }] } })],
    ['took the id', 'jobs', async () => changesOf(step)],
    ['has a job that is due', 'due', async () => changesOf(admitted({ scheduledAt: at(1) }))],
    [
      'has a worker that is due',
      'due',
      async () => changes({ workers: [{ before: null, after: aWorker({ wakeAt: at(1) }) }] }),
    ],
    [
      'has a document that is due',
      'due',
      async () => changes({ docs: [{ before: null, after: aDoc({ wakeAt: at(1) }) }] }),
    ],
  ]

  test.each(cases)('%s', async (_what, part, change) => {
    await enqueue()
    const before = (await look(true, step.job.id)) as Record<string, unknown>
    const late = a.transaction(async (tx) => {
      const value = (await seen(tx, step.job.id)) as Record<string, unknown>
      expect(value).toEqual(before)
      await saveIn(b, await change())
      return { value, changes: { ...changesOf(admitted()), events: [anEvent()] } }
    }, true)
    await expect(late).rejects.toBeInstanceOf(RowsMoved)
    const after = (await look(false, step.job.id)) as Record<string, unknown>
    expect(after[part]).not.toEqual(before[part])
  })

  test('paused the queue, where nothing was to be written', async () => {
    await enqueue()
    const late = a.transaction(async (tx) => {
      const value = await seen(tx, 'free')
      await saveIn(b, await pausing())
      return { value, changes: changes() }
    }, true)
    await expect(late).rejects.toBeInstanceOf(RowsMoved)
  })
})

test('a transaction that asks for anything looks in the same round trip', async () => {
  const exchange = (): Promise<unknown> =>
    a.transaction(async (tx) => {
      const [workers, value] = await Promise.all([tx.findWorkers(['none']), seen(tx, 'free')])
      return { value: { workers, value }, changes: changes({ events: [anEvent()] }) }
    }, true)
  for (let n = 0; n < 2; n++) await exchange()
  // Begin, two finds and look; lock, append, commit.
  expect(await tap.sentDuring(exchange)).toMatchObject({ bind: 7, sync: 2, turns: 2 })
})

test('a queue that was not looked at yet is looked at, and nothing is checked beside that', async () => {
  await enqueue()
  const first = (name: string): Promise<unknown> =>
    a.transaction(async (tx) => {
      const [queues, life] = await Promise.all([tx.seeQueues([name]), tx.seeLife()])
      return { value: { queues, life }, changes: changes({ events: [anEvent()] }) }
    }, true)
  for (const name of ['one', 'two']) await first(name)
  // Begin and look; lock, append, commit.
  expect(await tap.sentDuring(() => first('three'))).toMatchObject({ bind: 5, sync: 2, turns: 2 })
})

test('several queues and types are compared in the order of their names, and those that are not there with them', async () => {
  const names = ['z', 'é', '\u{1f600}', '\uffee', 'a b;c', 'none']
  const added = names.slice(0, -1)
  await saveIn(
    b,
    changes({
      queues: added.map((name) => ({ before: null, after: aQueue({ name }) })),
      types: added.map((type) => ({ type, policy: aTypePolicy({ type }) })),
    }),
  )
  const all = (): Promise<unknown> =>
    a.transaction(async (tx) => {
      const value = await Promise.all([tx.seeQueues(names), tx.seeTypes(names), tx.seeLife()])
      return { value, changes: changes({ events: [anEvent()] }) }
    }, true)
  for (let n = 0; n < 2; n++) await all()
  expect(await tap.sentDuring(all)).toMatchObject({ turns: 1 })
})
