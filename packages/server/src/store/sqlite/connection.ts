/**
 * The file: how it is opened, who may open it, and what its errors mean.
 *
 * One server per file. A lock on `<file>.lock` is held for the store's life; it is the operating system's, so it dies
 * with the process, however that ends. The database itself stays open to others: an operator may read it, and may even
 * lock it for a while; then we answer that we cannot serve, and go on when it is free.
 */
import { accessSync, closeSync, constants, existsSync, openSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { StoreDamaged, StoreUnavailable } from '../store.ts'
import { Database, type Connection } from './driver.ts'
import { IN_MEMORY } from './in-memory.ts'
import { migrate, refuseNewer, schemaVersion } from './migrations/migrate.ts'
import { CHECKPOINT_PAGES } from './session.ts'

export { IN_MEMORY }

/**
 * `full`: what was answered survives a power cut. `normal`: faster where commits are not shared; a power cut may lose
 * the last moments, a crash of the process loses nothing.
 */
export type Durability = 'full' | 'normal'

/** How long to wait for the lock of another process. Short: nothing else is served meanwhile. */
const BUSY_MS = 100

export function connect(file: string, mustExist = false): Connection {
  refuseReadOnly(file)
  refuseEmpty(file)
  if (!mustExist && file !== IN_MEMORY) makePrivate(file)
  const db = new Database(file, { timeout: BUSY_MS, fileMustExist: mustExist && file !== IN_MEMORY })
  try {
    refuseNewer(db, file)
    const mode = db.pragma('journal_mode = WAL', { simple: true })
    if (mode !== 'wal' && file !== IN_MEMORY) {
      throw new Error(`${file} lies where SQLite cannot keep a write-ahead log (${String(mode)}); use a local disk.`)
    }
    db.pragma('synchronous = NORMAL') // full durability adds its own sync after each commit (sync.ts)
    db.pragma('cache_size = -65536') // 64 MiB
    db.pragma('temp_store = MEMORY')
    db.pragma('foreign_keys = OFF')
    db.pragma(`wal_autocheckpoint = ${String(CHECKPOINT_PAGES)}`)
    db.pragma('journal_size_limit = 67108864') // a log that grew during a long read is cut back to 64 MiB
    migrate(db)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Brings a file up to date that no server has open. */
export function migrateFile(file: string): { from: number; to: number } {
  let lock: Connection | null = null
  try {
    lock = lockFile(file)
    const before = new Database(file, { timeout: BUSY_MS, fileMustExist: true, readonly: true })
    const from = schemaVersion(before)
    before.close()
    const db = connect(file, true)
    const to = schemaVersion(db)
    db.close()
    return { from, to }
  } catch (error) {
    throw openingError(error, file)
  } finally {
    lock?.close()
  }
}

/** SQLite would open it, and leave a log beside it that stays read-only when the file no longer is. */
function refuseReadOnly(file: string): void {
  if (file !== IN_MEMORY && existsSync(file)) accessSync(file, constants.W_OK)
}

/** The file is there and holds nothing. */
class EmptyFile extends Error {}

/** SQLite would take it for a new database, and what was in it before would be forgotten without a word. */
export function refuseEmpty(file: string): void {
  if (file !== IN_MEMORY && statSync(file, { throwIfNoEntry: false })?.size === 0)
    throw new EmptyFile(`${file} is empty`)
}

/**
 * Takes the file for this process, or refuses. The lock is an open transaction on an empty database beside the file.
 * Trap: POSIX drops a process's locks on a file when it closes any descriptor of it, so no code here may read `.lock`.
 */
export function lockFile(file: string): Connection {
  const path = `${realPath(file)}.lock`
  makePrivate(path)
  const lock = new Database(path, { timeout: 0 })
  try {
    lock.exec('BEGIN EXCLUSIVE')
    return lock
  } catch (error) {
    lock.close()
    if (codeOf(error)?.startsWith('SQLITE_BUSY')) {
      throw new Error(`${file} is in use by another Curfew server; one file serves one server. Stop it first.`, {
        cause: error,
      })
    }
    throw error
  }
}

/**
 * Makes the file where there is none, for its owner alone. SQLite would let the group and all others read it; the files
 * that it makes beside it later have the same rights. One that is there is not opened (see the trap above).
 */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch {
    // It is there, or SQLite will say what is wrong.
  }
}

/** One name for one file, by whatever links it is called. */
function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    // Not there yet: its directory has to be.
    return join(realpathSync(dirname(file)), basename(file))
  }
}

interface Trouble {
  readonly reason: string
  /** Whether SQLite wants a fresh connection when the cause is gone. */
  readonly reconnect: boolean
}

const TROUBLES: Readonly<Record<string, Trouble>> = {
  SQLITE_FULL: { reason: 'the disk is full', reconnect: false },
  SQLITE_BUSY: { reason: 'the database is locked by another process', reconnect: false },
  SQLITE_LOCKED: { reason: 'the database is locked by another process', reconnect: false },
  SQLITE_PROTOCOL: { reason: 'the database is locked by another process', reconnect: false },
  SQLITE_READONLY: { reason: 'the database file is read-only', reconnect: true },
  EACCES: { reason: 'the database file is read-only', reconnect: true },
  EROFS: { reason: 'the database file is read-only', reconnect: true },
  EIO: { reason: 'disk I/O error', reconnect: true },
  ENOSPC: { reason: 'the disk is full', reconnect: true },
  EDQUOT: { reason: 'the disk is full', reconnect: true },
  SQLITE_IOERR: { reason: 'disk I/O error', reconnect: true },
  SQLITE_CANTOPEN: { reason: 'the database file cannot be opened', reconnect: true },
  SQLITE_NOMEM: { reason: 'out of memory', reconnect: true },
}

/** What hinders the database, if that is what the error tells. */
export function troubleOf(error: unknown): Trouble | null {
  const kind = kindOf(error)
  return kind === undefined ? null : (TROUBLES[kind] ?? null)
}

export function unavailable(error: unknown, file: string): unknown {
  if (isDamage(error)) return damaged(file, error)
  const trouble = troubleOf(error)
  return trouble === null ? error : new StoreUnavailable(trouble.reason, error)
}

const DAMAGE = new Set(['SQLITE_CORRUPT', 'SQLITE_NOTADB'])

/** Whether the error tells that the file no longer holds what was written. */
export function isDamage(error: unknown): boolean {
  return error instanceof EmptyFile || DAMAGE.has(kindOf(error) ?? '')
}

export function damaged(file: string, cause: unknown): StoreDamaged {
  return new StoreDamaged('the database file is damaged', file, adviceFor(file), cause)
}

/** What to do about a damaged file. */
export function adviceFor(file: string): readonly string[] {
  const beside = ['-wal', '-shm'].map((suffix) => basename(file) + suffix)
  return [
    'Stop the server.',
    `Copy ${basename(file)}, ${beside.join(' and ')} to another disk, before anything else is done with them.`,
    `Run: curfew check ${file}`,
    'Restore the newest backup. Without a backup, run curfew export on the copy and curfew import into an empty directory: ' +
      'that saves what can still be read. Check the disk before you use it again.',
  ]
}

/** Extended codes (SQLITE_IOERR_WRITE) count as their kind. */
function kindOf(error: unknown): string | undefined {
  return codeOf(error)?.split('_', 2).join('_')
}

/** Why a file cannot be opened and what helps, in one line. */
export function openingError(error: unknown, file: string): unknown {
  const told = (reason: string, remedy = ''): Error =>
    new Error(`cannot open ${file}: ${reason}.${remedy}`, { cause: error })
  const elsewhere = 'or choose another directory with --data.'
  const kind = kindOf(error)
  if (error instanceof EmptyFile)
    return told(
      'it is empty (0 bytes), as a database file is after it was truncated',
      ` Put a backup in its place, or remove it to begin without data, ${elsewhere}`,
    )
  if (kind === 'SQLITE_NOTADB') return told('it is not an SQLite database', ` Move it away, ${elsewhere}`)
  if (kind === 'SQLITE_CORRUPT')
    return told('it is damaged', ` Run curfew check ${file}, and put a backup in its place, ${elsewhere}`)
  if (kind !== undefined && isDirectory(file)) return told('it is a directory', ` Move it away, ${elsewhere}`)
  const barred =
    kind !== undefined && BARRED.has(kind)
      ? [file, dirname(file), ...BESIDE.map((suffix) => file + suffix)].find((path) => !isWritable(path))
      : undefined
  if (barred !== undefined)
    return told(`${barred === file ? 'it' : barred} is read-only for this user`, ` Make it writable, ${elsewhere}`)
  const trouble = troubleOf(error)
  return trouble === null ? error : told(trouble.reason)
}

/** The codes of a file or a directory that cannot be written. */
const BARRED = new Set(['SQLITE_CANTOPEN', 'SQLITE_READONLY', 'EACCES', 'EPERM', 'EROFS'])
const BESIDE = ['.lock', '-wal', '-shm']

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}

/** One that is not there is not what hinders. */
function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return !existsSync(path)
  }
}

/** SQLite's code, or the operating system's. */
function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
