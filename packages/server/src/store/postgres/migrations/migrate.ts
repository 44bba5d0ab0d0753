/**
 * Brings a schema up to date. Migrations are numbered by their place in the list and never edited; each is applied in a
 * transaction of its own, while all other servers that would migrate wait.
 *
 * Servers of two versions share a schema while one replaces the other. So each migration says what it does to the older
 * one: `expand` only adds what an older server does not look at, and is applied by any server that opens the store; `contract`
 * takes something away, and waits until an operator says that no older server is left. An older server opens a schema
 * that was expanded, and refuses one that was contracted.
 */
import type { Client } from 'pg'
import { jobsWorkersEvents } from './0001-jobs-workers-events.ts'
import { inbox } from './0002-inbox.ts'
import { docsOwners } from './0003-docs-owners.ts'
import { drainingUnique } from './0004-draining-unique.ts'
import { tenants } from './0005-tenants.ts'
import { tenantsByDeadline } from './0006-tenants-by-deadline.ts'
import { listKeys } from './0007-list-keys.ts'
import { listIndexes } from './0008-list-indexes.ts'

export interface Migration {
  readonly name: string
  readonly kind: 'expand' | 'contract'
  /** Works through the rows, in transactions of its own, before the rest; it may be begun anew. */
  readonly fill?: (client: Client) => Promise<void>
  readonly sql: string
}

export const MIGRATIONS: readonly Migration[] = [
  jobsWorkersEvents,
  inbox,
  docsOwners,
  drainingUnique,
  tenants,
  tenantsByDeadline,
  listKeys,
  listIndexes,
]

export interface Migrating {
  readonly schema: string
  /** Whether older servers are gone, so that what only they needed may go too. */
  readonly contract: boolean
  /** Whether what a newer version has only added may be there: a server can serve beside it, and has nothing to migrate. */
  readonly bears?: boolean
  readonly migrations?: readonly Migration[]
}

export interface Migrated {
  /** The names of the migrations that were applied now. */
  readonly applied: readonly string[]
  /** Those that wait for an operator. */
  readonly waiting: readonly string[]
}

/** Any number will do, as long as all servers have the same. */
const MIGRATING = 7_305_462

export async function migrate(client: Client, options: Migrating): Promise<Migrated> {
  const { schema, contract, bears = false, migrations = MIGRATIONS } = options
  await client.query(`SELECT pg_advisory_lock(${String(MIGRATING)}, hashtext($1))`, [schema])
  try {
    const seen = await findSeen(client, schema)
    refuseNewer(schema, seen, migrations.length, bears)
    const isNew = seen.size === 0
    const applied: string[] = []
    const waiting: string[] = []
    for (const [index, migration] of migrations.entries()) {
      if (seen.has(index + 1)) continue
      if (migration.kind === 'contract' && !contract && !isNew) {
        waiting.push(migration.name)
        continue
      }
      await apply(client, index + 1, migration)
      applied.push(migration.name)
    }
    return { applied, waiting }
  } finally {
    await client.query(`SELECT pg_advisory_unlock(${String(MIGRATING)}, hashtext($1))`, [schema])
  }
}

type Seen = ReadonlyMap<number, { name: string; kind: string }>

async function findSeen(client: Client, schema: string): Promise<Seen> {
  const there = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
  if (there.rowCount === 0) await client.query(`CREATE SCHEMA "${schema}"`)
  await client.query(`
CREATE TABLE IF NOT EXISTS schema_migrations (
  version  integer PRIMARY KEY,
  name     text NOT NULL,
  kind     text NOT NULL
)`)
  const found = await client.query<{ version: number; name: string; kind: string }>(
    'SELECT version, name, kind FROM schema_migrations ORDER BY version',
  )
  return new Map(found.rows.map(({ version, name, kind }) => [version, { name, kind }]))
}

function refuseNewer(schema: string, seen: Seen, known: number, bears: boolean): void {
  for (const [version, { name, kind }] of seen) {
    if (version <= known || (bears && kind === 'expand')) continue
    throw new Error(
      `the schema ${schema} belongs to a newer version of Curfew: it has seen ${name}, this program knows ` +
        `${String(known)} migrations. Start the newer version; the schema was left as it is.`,
    )
  }
}

async function apply(client: Client, version: number, { name, kind, fill, sql }: Migration): Promise<void> {
  await fill?.(client)
  await client.query('BEGIN')
  try {
    await client.query(sql)
    await client.query('INSERT INTO schema_migrations (version, name, kind) VALUES ($1, $2, $3)', [version, name, kind])
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}
