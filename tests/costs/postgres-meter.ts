/**
 * Counts what a store does to PostgreSQL, on the wire and in the database's own statistics of its tables:
 *
 *   statements      statements that were completed
 *   parses          statements that the database had to parse: none, once each is prepared
 *   round trips     one after another; what is asked for at the same time is one (see lockstep.ts)
 *   commits         COMMIT, and writing statements outside of a transaction. Each waits for the database's disk
 *   rows returned   rows handed to the server
 *   rows read       rows that the database fetched from its tables, by index or in order
 *   rows written    rows inserted, updated and deleted
 *   bytes sent      from the server to the database
 *   bytes received  from the database to the server, but for notifications
 *
 * The bytes of PostgreSQL's own log are not counted: all tests of the cluster write to it.
 */
import { Client } from 'pg'
import { FakeClock, seededRandom } from '@curfew/core'
import { openPostgresStore } from '../../packages/server/src/store/postgres/store.ts'
import type { EventRetention } from '../../packages/server/src/store/store.ts'
import { alsoBusy, quiet } from '../stores.ts'
import { Lockstep } from './lockstep.ts'
import type { Meter } from './meter.ts'

/** Always the same: locks are numbers made from it, and their length is counted. */
const SCHEMA = 'curfew_counts'
/** Longer than any pause of a busy machine. */
const PATIENCE_MS = 10_000

interface TableTotals {
  readonly read: number
  readonly written: number
}

export async function openPostgresMeter(url: string, events: EventRetention): Promise<Meter> {
  const database = new Client({ connectionString: url })
  await database.connect()
  // Two runs on the same database take turns.
  await database.query(`SELECT pg_advisory_lock(hashtext('${SCHEMA}'))`)
  await database.query(`DROP SCHEMA IF EXISTS ${SCHEMA} CASCADE`)
  const { host, port } = database
  const door = await Lockstep.open(host, port)
  const through = new URL(url)
  through.host = `127.0.0.1:${String(door.port)}`
  const store = await openPostgresStore({
    url: through.href,
    schema: SCHEMA,
    events,
    // Its timers never fire: nothing is asked for because time has passed.
    host: new FakeClock(),
    random: seededRandom(3),
    patienceMs: PATIENCE_MS,
    clock: 'engine',
  })
  const isBusy = (): boolean => door.isBusy
  alsoBusy.add(isBusy)
  await keepVacuumAway(database)
  let before: TableTotals = { read: 0, written: 0 }

  /** What the tables have seen so far. A connection tells it only once a second, if it is not asked to. */
  const totals = async (): Promise<TableTotals> => {
    await door.onEach('SELECT pg_stat_force_next_flush()')
    const { rows } = await database.query<{ read: string; written: string }>(TOTALS)
    return { read: Number(rows[0]?.read), written: Number(rows[0]?.written) }
  }

  return {
    store,
    async start() {
      await quiet()
      before = await totals()
      door.start()
    },
    async stop() {
      await quiet()
      const { wire, roundTrips } = door.stop()
      const after = await totals()
      return {
        counts: {
          statements: wire.statements,
          parses: wire.parses,
          'round trips': roundTrips,
          commits: wire.commits,
          'rows returned': wire.rows,
          'rows read': after.read - before.read,
          'rows written': after.written - before.written,
          'bytes sent': wire.bytesSent,
          'bytes received': wire.bytesReceived,
        },
        statements: wire.tally.counts,
      }
    },
    async close() {
      await store.close()
      alsoBusy.delete(isBusy)
      await door.close()
      await database.query(`DROP SCHEMA ${SCHEMA} CASCADE`)
      await database.end()
    },
  }
}

const TOTALS = `
  SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) AS read, sum(n_tup_ins + n_tup_upd + n_tup_del) AS written
  FROM pg_stat_user_tables WHERE schemaname = '${SCHEMA}'`

/** A vacuum or an analyze in between would change which rows a statement has to look at. */
async function keepVacuumAway(database: Client): Promise<void> {
  const { rows } = await database.query<{ name: string }>(
    `SELECT oid::regclass::text AS name FROM pg_class
     WHERE relnamespace = '${SCHEMA}'::regnamespace AND relkind = 'r'`,
  )
  for (const { name } of rows) await database.query(`ALTER TABLE ${name} SET (autovacuum_enabled = false)`)
}
