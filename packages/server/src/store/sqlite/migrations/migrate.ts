/**
 * Brings a file's schema up to date. Migrations are numbered by their place in this list, applied one transaction each
 * (those that work through all rows, in many), and never edited: a file remembers how many it has seen (`PRAGMA user_version`).
 */
import type { Database } from 'better-sqlite3'
import { jobsWorkersEvents } from './0001-jobs-workers-events.ts'
import { jobsAside } from './0002-jobs-aside.ts'
import { notices } from './0003-notices.ts'
import { jobsAsidePlainly } from './0004-jobs-aside-plainly.ts'
import { documents } from './0005-documents.ts'
import { drainingUnique } from './0006-draining-unique.ts'
import { tenants } from './0007-tenants.ts'
import { tenantsByDeadline } from './0008-tenants-by-deadline.ts'
import { claimByLimiter } from './0009-claim-by-limiter.ts'
import { bodiesInside } from './0010-bodies-inside.ts'
import { listKeys } from './0011-list-keys.ts'
import { fillListKeys } from './0012-fill-list-keys.ts'
import { listIndexes } from './0013-list-indexes.ts'

/** SQL, or a function that works through the rows in transactions of its own and may be begun anew. */
type Migration = string | ((db: Database) => void)

const MIGRATIONS: readonly Migration[] = [
  jobsWorkersEvents,
  jobsAside,
  notices,
  jobsAsidePlainly,
  documents,
  drainingUnique,
  tenants,
  tenantsByDeadline,
  claimByLimiter,
  bodiesInside,
  listKeys,
  fillListKeys,
  listIndexes,
]

export const SCHEMA_VERSION = MIGRATIONS.length

/** Refuses a file that a later version of the program has written. */
export function refuseNewer(db: Database, file: string): void {
  const version = schemaVersion(db)
  if (version <= SCHEMA_VERSION) return
  throw new Error(
    `${file} was written by a newer version of Curfew: its schema is ${String(version)}, this program knows ` +
      `${String(SCHEMA_VERSION)}. Start the newer version; the file was left as it is.`,
  )
}

export function migrate(db: Database): void {
  for (let done = schemaVersion(db); done < SCHEMA_VERSION; done = schemaVersion(db)) {
    const migration = MIGRATIONS[done] ?? ''
    if (typeof migration === 'function') migration(db)
    db.exec('BEGIN IMMEDIATE')
    try {
      if (typeof migration === 'string') db.exec(migration)
      db.pragma(`user_version = ${String(done + 1)}`)
      db.exec('COMMIT')
    } catch (error) {
      if (db.inTransaction) db.exec('ROLLBACK')
      throw error
    }
  }
}

export function schemaVersion(db: Database): number {
  return db.pragma('user_version', { simple: true }) as number
}
