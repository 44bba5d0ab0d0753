/** `curfew backup`: a consistent copy of a SQLite data file, also while a server writes to it. */
import { closeSync, existsSync, fsyncSync, openSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
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

export interface BackupOptions {
  /** An earlier file of this name is replaced. */
  readonly mayReplace?: boolean
  readonly disk?: Disk
}

/** What makes a new file last through a loss of power. */
export interface Disk {
  /** Of a file or a folder. */
  sync(path: string): void
  rename(from: string, to: string): void
}

const DISK: Disk = {
  sync(path) {
    // Windows keeps names without being asked, and refuses to open a folder.
    if (process.platform === 'win32' && statSync(path).isDirectory()) return
    const file = openSync(path, process.platform === 'win32' ? 'r+' : 'r')
    try {
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  },
  rename: renameSync,
}

/** Whether a file with this name is there already; refuses names that no backup may have. */
export function isTaken(settings: Settings, target: string): boolean {
  const from = dataFileOf(settings)
  const to = resolve(target)
  const own = existsSync(from) ? realpathSync(from) : from
  if ([own, `${own}-wal`, `${own}-shm`, `${own}.lock`].includes(realTarget(to)))
    throw new SettingsError(`${to} belongs to the data itself. Choose another name for the copy.`)
  const found = statSync(to, { throwIfNoEntry: false })
  if (found?.isDirectory() === true)
    throw new SettingsError(`${to} is a directory. Name the file to write the copy to.`)
  return found !== undefined
}

/** As the file system knows it, also where the file is not there yet. */
function realTarget(to: string): string {
  if (existsSync(to)) return realpathSync(to)
  return existsSync(dirname(to)) ? join(realpathSync(dirname(to)), basename(to)) : to
}

/**
 * One read transaction of SQLite (`VACUUM INTO`): it sees one moment of the data and hinders no writer. The copy is read
 * through and on disk before it gets its name, so a file with that name is whole; and the name is on disk before this
 * returns, so a backup that was reported done outlives a loss of power.
 */
export function backupFile(settings: Settings, target: string, options: BackupOptions = {}): BackedUp {
  const { mayReplace = false, disk = DISK } = options
  const from = dataFileOf(settings)
  if (!existsSync(from)) throw new Error(`There is no data: ${from} does not exist.`)
  const to = resolve(target)
  if (isTaken(settings, to) && !mayReplace) throw new Error(`${to} already exists.`)
  const part = `${to}.part`
  rmSync(part, { force: true })
  // SQLite would let others read it.
  closeSync(openSync(part, 'wx', 0o600))
  try {
    copy(from, part)
    refuseDamage(part)
    disk.sync(part)
    disk.rename(part, to)
    disk.sync(dirname(to))
  } catch (error) {
    rmSync(part, { force: true })
    throw error
  }
  return { from, bytes: statSync(to).size }
}

function dataFileOf(settings: Settings): string {
  const place = placeOf(settings)
  if (place.kind === 'file') return place.file
  throw new SettingsError(
    place.kind === 'memory'
      ? 'Data in memory cannot be backed up by another process.'
      : 'curfew backup copies SQLite data files. Back up PostgreSQL with pg_dump, or use curfew export.',
  )
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
