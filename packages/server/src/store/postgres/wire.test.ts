/** What travels to the database and back, on real connections: how much, in which order, and what an error takes along. */
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Job } from '@curfew/core'
import { admitted, anEvent, at, aWorker, changes, changesOf, claimable, claimed } from '../builders.suite.ts'
import { saveIn, within } from '../builders.suite.ts'
import type { Store, Transaction } from '../store.ts'
import { openBench, until } from './bench.suite.ts'
import { addressOf, codeOf, connect } from './connection.ts'
import { Wire, type WireOptions } from './wire.ts'
import { openWiretap } from './wiretap.suite.ts'

const bench = await openBench()

async function openWire(syncs: WireOptions['syncs'], answerMs = 0): Promise<Wire> {
  const wire = new Wire(await connect(addressOf(bench.url, 'public'), 'work'), { syncs, answerMs })
  onTestFinished(() => {
    wire.drop()
  })
  return wire
}

const statement = (name: string, text: string) => ({ name, text })
const SELECT = statement('chosen', 'SELECT $1::bigint')
const DIVIDE = statement('divided', 'SELECT 1 / $1::int')
const numbers = async (answer: Promise<{ rows: readonly (readonly unknown[])[] }>) => (await answer).rows
const codeIn = (answer: Promise<unknown>): Promise<string | null> =>
  answer.then(
    () => 'it was answered',
    (error: unknown) => codeOf(error),
  )

describe('values', () => {
  test('arrive as they were sent, and as what their column is', async () => {
    const wire = await openWire('together')
    const kinds = statement(
      'kinds',
      'SELECT $1::bigint, $2::int, $3::float8, $4::boolean, $5::text, $6::text, $7::text',
    )
    const values = [-9_007_199_254_740_991, 0, -0.5, true, '', null, 'ß € 😀']
    expect(await numbers(wire.query(kinds, values))).toEqual([values])
    expect(await numbers(wire.query(kinds, [1, -7, 1e21, false, 'x', null, 'y']))).toEqual([
      [1, -7, 1e21, false, 'x', null, 'y'],
    ])
  })

  test('may be larger than what is written or read at once, in either direction', async () => {
    const wire = await openWire('together')
    const echo = statement('echo', 'SELECT $1::text, $2::text')
    const long = 'häß€😀'.repeat(300_000)
    const answers = ['a', long, 'b'].map((text) => wire.query<[string, string]>(echo, [text, 'end']))
    for (const [index, text] of ['a', long, 'b'].entries()) {
      const [row] = (await answers[index])?.rows ?? []
      expect([row?.[0] === text, row?.[1]]).toEqual([true, 'end'])
    }
  })

  test('tell how many rows a command had', async () => {
    const wire = await openWire('together')
    await wire.query(statement('make', 'CREATE TEMPORARY TABLE few (n int)'))
    const added = await wire.query(statement('add', 'INSERT INTO few SELECT generate_series(1, $1::int)'), [3])
    expect(added).toEqual({ rows: [], command: 'INSERT', count: 3 })
    expect((await wire.query(statement('begin', 'BEGIN'))).command).toBe('BEGIN')
  })
})

describe('an error', () => {
  test('takes along what was asked behind it in the same turn, and nothing after that', async () => {
    const wire = await openWire('together')
    const before = numbers(wire.query(SELECT, [1]))
    const failed = [codeIn(wire.query(DIVIDE, [0])), codeIn(wire.query(SELECT, [2]))]
    // Parsed for the first time in the part that is skipped.
    failed.push(codeIn(wire.query(statement('fresh', 'SELECT 5'))))
    expect(await before).toEqual([[1]])
    expect(await Promise.all(failed)).toEqual(['22012', '22012', '22012'])
    const after = [wire.query(SELECT, [3]), wire.query(DIVIDE, [1]), wire.query(statement('fresh', 'SELECT 5'))]
    expect(await Promise.all(after.map(numbers))).toEqual([[[3]], [[1]], [[5]]])
    expect(wire.waiting).toBe(0)
  })

  test('does not reach the queries behind a Sync', async () => {
    const wire = await openWire('together')
    await wire.query(statement('begin', 'BEGIN'))
    const failed = codeIn(wire.query(DIVIDE, [0]))
    wire.sync()
    const ended = wire.query(statement('rollback', 'ROLLBACK'))
    expect(await failed).toBe('22012')
    expect((await ended).command).toBe('ROLLBACK')
    expect(await numbers(wire.query(SELECT, [1]))).toEqual([[1]])
  })

  test('in the first values of a statement leaves its columns to be asked for again', async () => {
    const wire = await openWire('together')
    expect(await codeIn(wire.query(SELECT, ['no number']))).toBe('22P02')
    expect(await numbers(wire.query(SELECT, [7]))).toEqual([[7]])
  })

  test('of a commit is that of the query, where each query is a transaction', async () => {
    const wire = await openWire('each')
    await wire.query(statement('', 'CREATE TEMPORARY TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)'))
    const add = statement('add', 'INSERT INTO once SELECT unnest($1::int[])')
    expect(await Promise.all(['{1,1}', '{2,3}'].map((list) => codeIn(wire.query(add, [list]))))).toEqual([
      '23505',
      'it was answered',
    ])
  })

  test('in what was sent just before a transaction is given up does not reach the next transaction', async () => {
    const store = await bench.open(bench.newSchema())
    const worker = { before: null, after: aWorker({ id: 'worker-1' }) }
    await saveIn(store, changes({ workers: [worker] }))
    // The worker is refused by the database, the change of nothing by the store itself.
    const broken = changes({ workers: [worker], jobs: [{ before: null, after: null }] })
    await expect(saveIn(store, broken)).rejects.toThrow('a change of nothing into nothing')
    expect(await saveIn(store, changes({ events: [anEvent()] }))).toHaveLength(1)
  })

  test('of one caller is not that of another, where each query stands alone', async () => {
    const wire = await openWire('each')
    const asked = [wire.query(SELECT, [1]), wire.query(DIVIDE, [0]), wire.query(SELECT, [2])].map(codeIn)
    expect(await Promise.all(asked)).toEqual(['it was answered', '22012', 'it was answered'])
  })
})

describe('a connection', () => {
  test('that ends in the middle answers what was done, and fails the rest', async () => {
    const wire = await openWire('together')
    const { rows } = await wire.query<readonly [number]>(statement('pid', 'SELECT pg_backend_pid()'))
    const first = wire.query(SELECT, [1])
    wire.sync()
    const asleep = wire.query(statement('sleep', 'SELECT pg_sleep(60)'))
    const behind = wire.query(SELECT, [2])
    const failed = [codeIn(asleep), codeIn(behind)]
    expect(await numbers(first)).toEqual([[1]])
    const sleeping = `SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`
    await until(
      () => bench.ask(sleeping, [rows[0]?.[0]]),
      (found) => found.length > 0,
    )
    await bench.ask('SELECT pg_terminate_backend($1)', [rows[0]?.[0]])
    expect(await Promise.all(failed)).toEqual(['57P01', '57P01'])
    await until(
      () => wire.lost,
      (lost) => lost,
    )
    await expect(wire.query(SELECT, [3])).rejects.toBe(wire.loss)
    expect(wire.waiting).toBe(0)
  })

  test('on which the database does not answer is given up', async () => {
    const wire = await openWire('together', 90)
    const asleep = wire.query(statement('sleep', 'SELECT pg_sleep(60)'))
    await expect(asleep).rejects.toThrow('the database did not answer in time')
    expect(wire.lost).toBe(true)
  })

  test('is closed when all was answered', async () => {
    const wire = await openWire('each')
    const answers = [1, 2, 3].map((n) => numbers(wire.query(SELECT, [n])))
    await wire.end()
    expect(await Promise.all(answers)).toEqual([[[1]], [[2]], [[3]]])
    await until(
      () => wire.lost,
      (lost) => lost,
    )
  })
})

describe('a transaction sends', () => {
  /** What every group of commands begins with. */
  const begin = (tx: Transaction) =>
    Promise.all([
      tx.seeLife(),
      tx.seeQueues(['default']),
      tx.seeTypes(['email.send']),
      tx.findDueWorkers(at(1), 100),
      tx.findDueJobs(at(1), 100),
      tx.findDueDocs(at(1), 100),
    ])
  const told = { events: [anEvent()] }
  const enqueue = (store: Store) =>
    store.transaction(async (tx) => {
      await begin(tx)
      return { value: null, changes: { ...changesOf(admitted()), ...told } }
    })
  const exchange = (store: Store, ids: readonly string[]) =>
    store.transaction(async (tx) => {
      const [found] = await Promise.all([tx.findJobs(ids), tx.findWorkers(['worker-1']), begin(tx)])
      await tx.save(changesOf(...found.map((job) => claimed(job))))
      const more = await tx.findClaimable(claimable('default', ids.length))
      return { value: null, changes: { ...changesOf(...more.map((job) => claimed(job))), ...told } }
    })
  const open = async () => {
    const tap = await openWiretap(bench.url)
    const store = await bench.open(bench.newSchema(), undefined, tap.url)
    const ids = async (n: number): Promise<string[]> => {
      const steps = Array.from({ length: n }, () => admitted())
      await saveIn(store, changesOf(...steps))
      return steps.map(({ job }: { job: Job }) => job.id)
    }
    await saveIn(store, changes({ workers: [{ before: null, after: aWorker({ id: 'worker-1' }) }] }))
    return { tap, store, ids }
  }

  test('six statements and two Syncs for a job, none of them parsed or described again', async () => {
    const { tap, store } = await open()
    for (let n = 0; n < 2; n++) await enqueue(store)
    // Begin and look; insert, count, append, commit.
    expect(await tap.sentDuring(() => enqueue(store))).toEqual({
      parse: 0,
      describe: 0,
      bind: 6,
      execute: 6,
      sync: 2,
      turns: 2,
    })
  })

  test('as many for a hundred jobs as for one', async () => {
    const { tap, ids } = await open()
    await ids(1)
    const { bind, sync } = await tap.sentDuring(() => ids(1))
    expect(await tap.sentDuring(() => ids(100))).toMatchObject({ parse: 0, bind, sync })
  })

  test('ten statements and three Syncs for reports and a claim', async () => {
    const { tap, store, ids } = await open()
    const some = async () => (await ids(6)).slice(0, 3)
    for (let n = 0; n < 2; n++) await exchange(store, await some())
    const jobs = await some()
    // Begin, two finds and look; move, claimable; move, count, append, commit.
    expect(await tap.sentDuring(() => exchange(store, jobs))).toEqual({
      parse: 0,
      describe: 0,
      bind: 10,
      execute: 10,
      sync: 3,
      turns: 3,
    })
  })

  test('a search for what is due only when something may be', async () => {
    const { tap, store } = await open()
    const due = () => store.transaction(async (tx) => ({ value: (await begin(tx))[4], changes: changes() }))
    await saveIn(store, changesOf(admitted({ scheduledAt: at(1) })))
    for (let n = 0; n < 2; n++) expect((await due()).value).toHaveLength(1)
    // The store knows from the last commit that something is due: it searches with the first finds.
    expect(await tap.sentDuring(due)).toMatchObject({ bind: 7, sync: 2, turns: 2 })
    const [job] = (await due()).value
    await saveIn(store, changes({ jobs: [{ before: job ?? null, after: null }] }))
    expect(await tap.sentDuring(due)).toMatchObject({ bind: 4, sync: 2, turns: 2 })
  })

  test('a second round of finds when another server wrote what is due, and finds it', async () => {
    const { store, tap } = await open()
    const due = () => store.transaction(async (tx) => ({ value: (await begin(tx))[4], changes: changes() }))
    await due()
    await bench.ask(`INSERT INTO ${store.inbox?.schema ?? ''}.bodies (id, body) VALUES ('silent', '')`)
    await bench.ask(
      `INSERT INTO ${store.inbox?.schema ?? ''}.jobs (
         id, version, state, queue, type, priority, seq, wake_at, dead_letter, attempt, lease, interruptions, created_at,
         anchor_at, limits_set_at, error_count, checkpoint_seq, limits, retry, errors, given, life)
       VALUES ('silent', 1, 'available', 'default', 't', 0, 1, 5, false, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '', '', '')`,
    )
    expect(await tap.sentDuring(due)).toMatchObject({ turns: 3 })
    expect((await due()).value.map(({ id }) => id)).toEqual(['silent'])
  })
})

test('a server that waits for its counts does not hold up the log', async () => {
  const schema = bench.newSchema()
  const [a, b] = [await bench.open(schema), await bench.open(schema)]
  await saveIn(a, changesOf(admitted()))
  const operator = new Client({ connectionString: bench.url })
  await operator.connect()
  onTestFinished(() => operator.end())
  await operator.query(`BEGIN; SELECT FROM ${schema}.counts FOR UPDATE`)
  const waits = saveIn(a, { ...changesOf(admitted()), events: [anEvent()] })
  await until(
    () => bench.ask(`SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, [schema]),
    (sessions) => sessions.length > 0,
  )
  const [passed] = await saveIn(b, changes({ events: [anEvent()] }))
  await operator.query('ROLLBACK')
  expect((await waits).at(-1)?.sequence).toBeGreaterThan(passed?.sequence ?? NaN)
})

test('a wake that another server tells of while a commit is under way is not forgotten with its answer', async () => {
  const tap = await openWiretap(bench.url)
  const schema = bench.newSchema()
  const [a, b] = [await bench.open(schema, undefined, tap.url), await bench.open(schema)]
  await saveIn(a, changesOf(admitted()))
  const heard: unknown[] = []
  a.follow((news) => heard.push(news?.wakeAt))
  const letGo = tap.holdAnswers()
  const ended = a.transaction(async () => ({ value: null, changes: changesOf(admitted()) }))
  await until(
    () => b.countsOf(['default']),
    (counts) => counts.get('default')?.available === 2,
  )
  await saveIn(b, changesOf(admitted({ scheduledAt: at(5) })))
  await until(
    () => heard,
    (wakes) => wakes.includes(at(5)),
  )
  letGo()
  expect((await ended).nextWakeAt).toBe(at(5))
  expect(await within(a, (tx) => tx.findDueJobs(at(5), 9))).toHaveLength(1)
})
