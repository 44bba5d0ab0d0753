/**
 * Counts what a store does to SQLite, at better-sqlite3 and in the write-ahead log:
 *
 *   statements     runs of prepared statements, pragmas included, and statements within `exec`
 *   rows returned  rows handed to the server
 *   rows written   `total_changes()`: inserted, updated and deleted, by triggers too
 *   bytes bound    UTF-8 bytes of texts and bytes of blobs bound to statements; 8 for a number
 *   log bytes      pages appended to the write-ahead log, with their headers
 *   commits        commits in the log: transactions that wrote
 *   syncs          calls of fdatasync and fsync by the process
 *
 * Syncs are counted and answered without asking the disk, so no disk decides which commits share one. SQLite's own
 * syncs at a checkpoint are not seen; a checkpoint within a path is an error.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database, { type Database as Connection, type Statement } from 'better-sqlite3'
import { openSqliteStore } from '../../packages/server/src/store/sqlite/store.ts'
import type { EventRetention, Store } from '../../packages/server/src/store/store.ts'
import { quiet } from '../stores.ts'
import { Tally, shownStatement, type Counted, type Meter } from './meter.ts'
import { readLog, writtenSince, type LogState } from './sqlite-log.ts'

export async function openSqliteMeter(events: EventRetention): Promise<Meter> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'curfew-counts-'))
  const file = join(folder, 'counts.db')
  const driver = new Driver(file)
  let store: Store
  try {
    store = await openSqliteStore({ file, durability: 'full', events })
  } catch (error) {
    driver.restore()
    throw error
  }
  let before: LogState = readLog(file)
  return {
    store,
    async start() {
      await quiet()
      driver.uncounted((db) => db.pragma('wal_checkpoint(RESTART)'))
      before = readLog(file)
      driver.start()
    },
    async stop() {
      await quiet()
      const { counts, statements } = driver.stop()
      const { bytes, commits } = writtenSince(before, readLog(file))
      const { syncs, ...ofStatements } = counts
      return { counts: { ...ofStatements, 'log bytes': bytes, commits, syncs }, statements }
    },
    async close() {
      await store.close()
      driver.restore()
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
}

interface DriverCounts extends Record<string, number> {
  statements: number
  'rows returned': number
  'rows written': number
  'bytes bound': number
  syncs: number
}

type Run = (this: Statement, ...values: unknown[]) => unknown
type SyncDone = (error: Error | null) => void

/** Stands between this process and better-sqlite3, and counts what goes to one file. */
class Driver {
  readonly #file: string
  readonly #undo: (() => void)[] = []
  readonly #connections = new Set<Connection>()
  #counting = false
  #changesBefore = 0
  #counts = noCounts()
  #tally = new Tally()

  constructor(file: string) {
    this.#file = file
    this.#watchStatements()
    this.#watchSyncs()
  }

  start(): void {
    this.#counts = noCounts()
    this.#tally = new Tally()
    this.#changesBefore = this.#totalChanges()
    this.#counting = true
  }

  stop(): Counted & { counts: DriverCounts } {
    this.#counting = false
    this.#counts['rows written'] = this.#totalChanges() - this.#changesBefore
    return { counts: this.#counts, statements: this.#tally.counts }
  }

  uncounted(work: (db: Connection) => void): void {
    const was = this.#counting
    this.#counting = false
    for (const db of this.#connections) if (db.open) work(db)
    this.#counting = was
  }

  restore(): void {
    for (const undo of this.#undo.reverse()) undo()
    syncBuiltinESMExports()
  }

  #totalChanges(): number {
    let sum = 0
    this.uncounted((db) => (sum += db.prepare<[], number>('SELECT total_changes()').pluck().get() ?? 0))
    return sum
  }

  #watchStatements(): void {
    const probe = new Database(':memory:')
    const statement = Object.getPrototypeOf(probe.prepare('SELECT 1')) as Record<string, Run>
    probe.close()
    const seen = (statement: Statement, values: readonly unknown[]): void => {
      this.#see(statement.database, statement.source, 1, values)
    }
    const returned = (rows: number): void => {
      if (this.#counting) this.#counts['rows returned'] += rows
    }
    this.#replace(statement, 'run', (run) => {
      return function (...values) {
        seen(this, values)
        return run.apply(this, values)
      }
    })
    this.#replace(statement, 'get', (get) => {
      return function (...values) {
        seen(this, values)
        const row = get.apply(this, values)
        if (row !== undefined) returned(1)
        return row
      }
    })
    this.#replace(statement, 'all', (all) => {
      return function (...values) {
        seen(this, values)
        const rows = all.apply(this, values)
        returned((rows as unknown[]).length)
        return rows
      }
    })
    this.#replace(statement, 'iterate', (iterate) => {
      return function* (this: Statement, ...values: unknown[]) {
        seen(this, values)
        for (const row of iterate.apply(this, values) as Iterable<unknown>) {
          returned(1)
          yield row
        }
      }
    })
    const see = this.#see.bind(this)
    const connection: Record<'exec', Exec> = Database.prototype
    this.#replace(connection, 'exec', (exec) => {
      return function (source) {
        see(this, source, statementsIn(source), [])
        return exec.call(this, source)
      }
    })
  }

  #see(db: Connection, source: string, statements: number, values: readonly unknown[]): void {
    if (db.name !== this.#file) return
    this.#connections.add(db)
    if (!this.#counting) return
    this.#counts.statements += statements
    this.#counts['bytes bound'] += bytesOf(values)
    this.#tally.add(shownStatement(source))
  }

  #watchSyncs(): void {
    const count = (): void => {
      if (this.#counting) this.#counts.syncs += 1
    }
    const later = (_: (file: number, done: SyncDone) => void) => (_file: number, done: SyncDone) => {
      count()
      process.nextTick(done, null)
    }
    const atOnce = (_: (file: number) => void) => (_file: number) => {
      count()
    }
    const door = fs as unknown as Record<'fdatasync' | 'fsync', (file: number, done: SyncDone) => void> &
      Record<'fdatasyncSync' | 'fsyncSync', (file: number) => void>
    this.#replace(door, 'fdatasync', later)
    this.#replace(door, 'fsync', later)
    this.#replace(door, 'fdatasyncSync', atOnce)
    this.#replace(door, 'fsyncSync', atOnce)
    // `import { fdatasync }` sees it too.
    syncBuiltinESMExports()
  }

  #replace<Name extends string, Function>(
    holder: Record<Name, Function>,
    name: Name,
    make: (before: Function) => Function,
  ): void {
    const before = holder[name]
    holder[name] = make(before)
    this.#undo.push(() => (holder[name] = before))
  }
}

type Exec = (this: Connection, source: string) => Connection

function noCounts(): DriverCounts {
  return { statements: 0, 'rows returned': 0, 'rows written': 0, 'bytes bound': 0, syncs: 0 }
}

/** How many statements a script has: those between semicolons that are not inside a text. */
function statementsIn(script: string): number {
  const parts = script.replace(/'[^']*'/g, "''").split(';')
  return parts.filter((part) => part.trim() !== '').length
}

/** Values are bound one by one, as a list, or by name. */
function bytesOf(value: unknown): number {
  if (value === null || value === undefined) return 0
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (value instanceof Uint8Array) return value.byteLength
  if (typeof value !== 'object') return 8
  return Object.values(value).reduce<number>((sum, part) => sum + bytesOf(part), 0)
}
