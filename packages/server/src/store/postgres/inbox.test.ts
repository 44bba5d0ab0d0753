/** The inbox, as a store keeps it: what is found there, what leaves it, and what is copied and emptied with the rest. */
import { beforeEach, describe, expect, test } from 'vitest'
import { Client } from 'pg'
import { instant } from '@curfew/core'
import { exportLines } from '../../cli/export.ts'
import { fill, headerOf } from '../../cli/import.ts'
import { linesOf } from '../../cli/lines.ts'
import { at, changes, saveIn, within } from '../builders.suite.ts'
import { openSqliteStore } from '../sqlite/store.ts'
import { NO_CHANGES, type News, type Store } from '../store.ts'
import { KEPT, openBench, until } from './bench.suite.ts'
import { REFUSED } from './save.ts'

const bench = await openBench()

let schema: string
let store: Store
beforeEach(async () => {
  schema = bench.newSchema()
  store = await bench.open(schema)
  return () => store.close()
})

const lay = (id: string, body = '{}'): Promise<unknown> =>
  bench.ask(`INSERT INTO ${schema}.inbox (id, body) VALUES ($1, $2)`, [id, body])
const found = (limit = 10, largest = 1_000) => within(store, (tx) => tx.findInbox(limit, largest))
const refusal = (id: string, error = '{"code":"x"}') => ({ id, refused: { error, at: at(5) } })

test('says where it is, by the name of the schema', () => {
  expect(store.inbox).toEqual({ schema, channel: `${schema}_inbox` })
})

describe('a transaction', () => {
  test('finds what lies there in its order, so many, and bodies that are not too large', async () => {
    for (const id of ['c', 'a', 'b']) await lay(id, `{"n":"${id}ä"}`)
    expect(await found(2)).toEqual([
      { id: 'c', body: '{"n":"cä"}' },
      { id: 'a', body: '{"n":"aä"}' },
    ])
    expect((await found(9, 11)).map(({ body }) => body)).toEqual(['{"n":"cä"}', '{"n":"aä"}', '{"n":"bä"}'])
    expect((await found(9, 10)).map(({ body }) => body)).toEqual([null, null, null])
  })

  test('does not find what another server has found, nor waits for it', async () => {
    const other = await bench.open(schema)
    for (const id of ['a', 'b', 'c']) await lay(id)
    await store.transaction(async (tx) => {
      expect((await tx.findInbox(2, 9)).map(({ id }) => id)).toEqual(['a', 'b'])
      expect((await within(other, (its) => its.findInbox(9, 9))).map(({ id }) => id)).toEqual(['c'])
      return { value: null, changes: NO_CHANGES }
    })
    expect(await found()).toHaveLength(3)
    await other.close()
  })

  test('takes out what was admitted and lays aside what was refused, or leaves both when it fails', async () => {
    for (const id of ['a', 'b', 'c']) await lay(id, `"${id}"`)
    const taken = changes({ inbox: [{ id: 'a', refused: null }, refusal('b')] })
    const failed = store.transaction(async (tx) => {
      await tx.save(taken)
      throw new Error('never mind')
    })
    await expect(failed).rejects.toThrow('never mind')
    expect([await found(), await store.refusedAfter(0, 9)]).toEqual([expect.objectContaining({ length: 3 }), []])
    await saveIn(store, taken)
    expect(await found()).toEqual([{ id: 'c', body: '"c"' }])
    expect(await store.refusedAfter(0, 9)).toEqual([
      { id: 'b', body: '"b"', error: '{"code":"x"}', at: at(5), place: expect.any(Number) },
    ])
  })

  test('keeps only the newest of what was refused', async () => {
    const sql = `INSERT INTO ${schema}.inbox_refused (id, body, error, refused_at)
      SELECT n, '', '{}', 0 FROM generate_series(1, ${String(REFUSED)}) n`
    await bench.ask(sql)
    await lay('new')
    await saveIn(store, changes({ inbox: [refusal('new')] }))
    expect((await store.sizes()).refused).toBe(REFUSED)
    expect((await store.refusedAfter(0, 1))[0]?.id).toBe('2')
  })
})

test('who follows hears of what was laid there when that is committed, and not when it is rolled back', async () => {
  const heard: (News | null)[] = []
  store.follow((news) => void heard.push(news))
  const client = new Client({ connectionString: bench.url })
  await client.connect()
  const told = async (ending: string): Promise<void> => {
    await client.query('BEGIN')
    await client.query('SELECT pg_notify($1, $2)', [`${schema}_inbox`, ''])
    await client.query(ending)
  }
  await told('ROLLBACK')
  await told('COMMIT')
  await until(
    () => heard.length,
    (n) => n > 0,
  )
  expect(heard).toEqual([{ changes: [], live: [], orders: [], lastEvent: null, wakeAt: null, inbox: true }])
  await client.end()
})

test('a reset empties it', async () => {
  await lay('a')
  await lay('b')
  await saveIn(store, changes({ inbox: [refusal('b')] }))
  expect(await store.sizes()).toMatchObject({ inbox: 1, refused: 1 })
  await store.reset()
  expect(await store.sizes()).toMatchObject({ inbox: 0, refused: 0 })
})

describe('a copy', () => {
  const exported = async (from: Store): Promise<string> => {
    let text = ''
    for await (const lines of exportLines(from, await from.sizes(), '1', instant(0))) text += lines.join('')
    return text
  }
  const imported = async (text: string, into: Store): Promise<number> => {
    const lines = linesOf([Buffer.from(text)] as unknown as AsyncIterable<Uint8Array>)
    await headerOf(lines)
    return fill(into, lines, new AbortController().signal, { advance: () => {} })
  }
  beforeEach(async () => {
    for (const id of ['b', 'a', 'c', 'd']) await lay(id, `{"id":"${id}",  "x":1.0}`)
    await saveIn(store, changes({ inbox: [refusal('d'), refusal('c')] }))
  })

  test('to another database has what waits, and what was refused', async () => {
    const target = await bench.open(bench.newSchema())
    const text = await exported(store)
    expect(await imported(text, target)).toBe(5)
    expect(await exported(target)).toBe(text)
    expect((await target.inboxAfter(0, 9)).map(({ id }) => id)).toEqual(['b', 'a'])
    expect((await target.refusedAfter(0, 9)).map(({ id }) => id).sort()).toEqual(['c', 'd'])
    await target.close()
  })

  test('to a file is refused rather than leaving it out', async () => {
    const file = await openSqliteStore({ file: ':memory:', durability: 'normal', events: KEPT })
    await expect(imported(await exported(store), file)).rejects.toThrow('a data file has no inbox')
    expect(file.inbox).toBeNull()
    await file.close()
  })
})
