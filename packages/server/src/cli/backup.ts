/** `curfew backup`: a consistent copy of a SQLite data file, also while a server writes to it. */
import { closeSync, existsSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { placeOf } from '../open-store.ts'
import { SettingsError, type Settings } from '../settings.ts'
import { openingError } from '../store/sqlite/connection.ts'
import { Database, type Connection } from '../store/sqlite/driver.ts'

export interface BackedUp {
  readonly from: string
  readonly bytes: number
}

/** How long another process may keep the file locked before the backup is given up. */
const BUSY_MS = 10_000

/**
 * One read transaction of SQLite (`VACUUM INTO`): it sees one moment of the data and hinders no writer. The copy is read
 * through before it gets its name, so a file with that name is whole.
 */
export function backupFile(settings: Settings, target: string): BackedUp {
  const place = placeOf(settings)
  if (place.kind !== 'file')
    throw new SettingsError(
      place.kind === 'memory'
        ? 'Data in memory cannot be backed up by another process.'
        : 'curfew backup copies SQLite data files. Back up PostgreSQL with pg_dump, or use curfew export.',
    )
  const { file: from } = place
  if (!existsSync(from)) throw new Error(`There is no data: ${from} does not exist.`)
  const to = resolve(target)
  if (existsSync(to)) throw new Error(`${to} already exists. Choose another name, or remove it.`)
  const part = `${to}.part`
  rmSync(part, { force: true })
  // SQLite would let others read it.
  closeSync(openSync(part, 'wx', 0o600))
  try {
    copy(from, part)
    refuseDamage(part)
    renameSync(part, to)
  } catch (error) {
    rmSync(part, { force: true })
    throw error
  }
  return { from, bytes: statSync(to).size }
}

function copy(from: string, to: string): void {
  let db: Connection | null = null
  try {
    db = new Database(from, { readonly: true, fileMustExist: true, timeout: BUSY_MS })
    db.prepare('VACUUM INTO ?').run(to)
  } catch (error) {
    throw openingError(error, from)
  } finally {
    db?.close()
  }
}

function refuseDamage(file: string): void {
  const db = new Database(file, { readonly: true, fileMustExist: true })
  try {
    const problem = db.pragma('quick_check(1)', { simple: true })
    if (problem !== 'ok') throw new Error(`The copy is damaged (${String(problem)}). Look for the cause: curfew check.`)
  } finally {
    db.close()
  }
}
