/** Servers are killed while they admit what applications lay into the inbox: all of it comes through, each job once. */
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { instant, seededRandom, uuidV7 } from '@curfew/core'
import { Cluster } from '../postgres/cluster.ts'
import { pause, until } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

/** At least so many, and as many as pass until servers were killed often enough. */
const TRANSACTIONS = 200
const KILLS = 3
const ROWS = 10

let database: Cluster
let fleet: Fleet
let app: Client

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [0, 0] })
  app = new Client({ connectionString: database.url() })
  await app.connect()
})
afterAll(async () => {
  await app.end()
  await fleet.stop()
  await database.remove()
})

const rows = async <Row>(sql: string): Promise<Row[]> => (await app.query(sql)).rows as Row[]

test('what was committed is admitted once, what was rolled back never, whichever server is killed meanwhile', async () => {
  const random = seededRandom(3)
  const committed: string[] = []
  let kills = 0
  let isOver = false
  const killing = (async () => {
    while (!isOver) {
      const victim = fleet.members[kills % 2]
      if (victim === undefined) throw new Error('there is no server')
      await pause(50 + 150 * random())
      await fleet.kill(victim)
      kills += 1
      await fleet.start(victim)
    }
  })()
  for (let n = 0; n < TRANSACTIONS || kills < KILLS; n += 1) {
    const ids = Array.from({ length: ROWS }, () => uuidV7(instant(Date.now()), random))
    await app.query('BEGIN')
    for (const id of ids) {
      const body = JSON.stringify({ id, type: 'a', args: [n] })
      await app.query('INSERT INTO curfew.inbox (id, body) VALUES ($1, $2)', [id, body])
    }
    await app.query("SELECT pg_notify('curfew_inbox', '')")
    const isKept = n % 5 !== 0
    await app.query(isKept ? 'COMMIT' : 'ROLLBACK')
    if (isKept) committed.push(...ids)
    await pause(10)
  }
  isOver = true
  await killing
  await until('the inbox is empty', async () => (await rows('SELECT 1 FROM curfew.inbox')).length === 0)
  const told = await rows<{ subject: string }>("SELECT subject FROM curfew.events WHERE type = 'job.enqueued'")
  expect(told.map(({ subject }) => subject).sort()).toEqual([...committed].sort())
  const jobs = await rows<{ id: string }>('SELECT id FROM curfew.jobs')
  expect(jobs.map(({ id }) => id).sort()).toEqual([...committed].sort())
  expect(await rows('SELECT 1 FROM curfew.inbox_refused')).toEqual([])
})
