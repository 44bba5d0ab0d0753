/**
 * The SQLite driver: the one built into Node where it has all we use (22.16 and newer, 24 and newer), better-sqlite3
 * elsewhere.
 *
 * Neither is measurably faster (docs/adr/0058); the built-in one needs no native module and therefore no compiler. The
 * rest of the store is written for the interface of better-sqlite3, of which `BuiltInDatabase` implements the part in use.
 *
 * Differences that are levelled here: names of errors, rows as arrays or single values, pragmas, lists of parameters, and
 * parameters that a statement does not name. One stays: the built-in driver binds every number as a floating-point value,
 * which columns of type INTEGER store as an integer.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import type BetterSqlite3 from 'better-sqlite3'

type Rows = 'objects' | 'arrays' | 'values'

/** What we use of `node:sqlite`, which the types of Node 20 do not have. */
interface NodeStatement {
  run(...params: unknown[]): { changes: number; lastInsertRowid: number | bigint }
  get(...params: unknown[]): unknown
  all(...params: unknown[]): unknown[]
  iterate(...params: unknown[]): Iterable<unknown>
  columns(): { name: string }[]
  setReturnArrays(enabled: boolean): void
  setAllowUnknownNamedParameters(enabled: boolean): void
}
interface NodeDatabase {
  readonly isOpen: boolean
  readonly isTransaction: boolean
  exec(sql: string): void
  prepare(sql: string): NodeStatement
  function(name: string, options: object, run: (...values: unknown[]) => unknown): void
  close(): void
}
interface NodeSqlite {
  DatabaseSync: { new (file: string, options: object): NodeDatabase; readonly prototype: object }
  StatementSync: { readonly prototype: object }
}

interface OpenOptions {
  readonly timeout?: number
  readonly readonly?: boolean
  readonly fileMustExist?: boolean
}

const builtIn = findBuiltIn()

function findBuiltIn(): NodeSqlite | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major < 22 || (major === 22 && minor < 16) || major === 23) return null
  return withoutExperimentalWarning(() => process.getBuiltinModule('node:sqlite') as NodeSqlite)
}

/** Node 22 warns on stderr that the module is experimental. What we use of it is covered by the tests of the store. */
function withoutExperimentalWarning<T>(load: () => T): T {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- put back as it was, never called here
  const emit = process.emitWarning
  process.emitWarning = () => {}
  try {
    return load()
  } finally {
    process.emitWarning = emit
  }
}

/** An error of SQLite, with the name of its code, as better-sqlite3 has it. */
class BuiltInError extends Error {
  override readonly name = 'SqliteError'
  readonly code: string

  constructor(message: string, code: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

/** By SQLite's result codes. */
const CODES: Readonly<Record<number, string>> = Object.fromEntries(
  'OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
    .split(' ')
    .map((name, code) => [code, `SQLITE_${name}`]),
)
const EXTENDED: Readonly<Record<number, string>> = {
  1555: 'SQLITE_CONSTRAINT_PRIMARYKEY',
  2067: 'SQLITE_CONSTRAINT_UNIQUE',
}

/** Errors of SQLite get the name of their code; errors that a function of ours threw are passed on. */
function named(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error
  const code = EXTENDED[error.errcode] ?? CODES[error.errcode & 0xff] ?? 'SQLITE_ERROR'
  return new BuiltInError(error.message, code, error)
}

/** A list among the parameters stands for its values. */
function spread(params: unknown[]): unknown[] {
  return params.some(Array.isArray) ? params.flat() : params
}

class BuiltInStatement {
  readonly database: BuiltInDatabase
  readonly source: string
  readonly #statement: NodeStatement
  #rows: Rows = 'objects'

  constructor(database: BuiltInDatabase, statement: NodeStatement, source: string) {
    this.database = database
    this.source = source
    this.#statement = statement
    statement.setAllowUnknownNamedParameters(true)
  }

  raw(): this {
    return this.#as('arrays')
  }

  pluck(): this {
    return this.#as('values')
  }

  #as(rows: Rows): this {
    this.#rows = rows
    this.#statement.setReturnArrays(true)
    return this
  }

  columns(): { name: string }[] {
    return this.#statement.columns()
  }

  run(...params: unknown[]): { changes: number; lastInsertRowid: number | bigint } {
    try {
      return this.#statement.run(...spread(params))
    } catch (error) {
      throw named(error)
    }
  }

  get(...params: unknown[]): unknown {
    try {
      const row = this.#statement.get(...spread(params))
      return this.#rows === 'values' && row !== undefined ? (row as unknown[])[0] : row
    } catch (error) {
      throw named(error)
    }
  }

  all(...params: unknown[]): unknown[] {
    try {
      const rows = this.#statement.all(...spread(params))
      return this.#rows === 'values' ? (rows as unknown[][]).map(([value]) => value) : rows
    } catch (error) {
      throw named(error)
    }
  }

  *iterate(...params: unknown[]): Generator<unknown> {
    try {
      for (const row of this.#statement.iterate(...spread(params)))
        yield this.#rows === 'values' ? (row as unknown[])[0] : row
    } catch (error) {
      throw named(error)
    }
  }
}

class BuiltInDatabase {
  static readonly SqliteError = BuiltInError

  readonly name: string
  readonly memory: boolean
  readonly #db: NodeDatabase

  constructor(file: string, options: OpenOptions = {}) {
    this.name = file
    this.memory = file === ':memory:' || file === ''
    if (options.fileMustExist === true && !existsSync(file))
      throw new BuiltInError('unable to open database file', 'SQLITE_CANTOPEN')
    if (builtIn === null) throw new Error('This Node has no built-in SQLite.')
    const { DatabaseSync } = builtIn
    const { timeout = 5_000, readonly: readOnly = false } = options
    this.#db = attempt(() => new DatabaseSync(file, { timeout, readOnly, enableForeignKeyConstraints: false }))
  }

  get open(): boolean {
    return this.#db.isOpen
  }

  get inTransaction(): boolean {
    return this.#db.isOpen && this.#db.isTransaction
  }

  exec(sql: string): this {
    attempt(() => {
      this.#db.exec(sql)
    })
    return this
  }

  prepare(sql: string): BuiltInStatement {
    return new BuiltInStatement(
      this,
      attempt(() => this.#db.prepare(sql)),
      sql,
    )
  }

  pragma(text: string, { simple = false }: { readonly simple?: boolean } = {}): unknown {
    const statement = this.prepare(`PRAGMA ${text}`)
    return simple ? statement.pluck().get() : statement.all()
  }

  function(name: string, given: object, run?: (...values: unknown[]) => unknown): this {
    const [options, body] = typeof given === 'function' ? [{}, given as typeof run] : [given, run]
    if (body !== undefined) this.#db.function(name, options, body)
    return this
  }

  /** Runs `work` in a transaction of its own; `immediate` takes the write lock first. */
  transaction<Params extends unknown[], T>(work: (...params: Params) => T) {
    const within =
      (begin: string) =>
      (...params: Params): T => {
        this.exec(begin)
        try {
          const result = work(...params)
          this.exec('COMMIT')
          return result
        } catch (error) {
          if (this.inTransaction) this.exec('ROLLBACK')
          throw error
        }
      }
    return Object.assign(within('BEGIN'), { immediate: within('BEGIN IMMEDIATE') })
  }

  /** Closing twice does nothing. */
  close(): this {
    if (this.#db.isOpen) this.#db.close()
    return this
  }
}

function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw named(error)
  }
}

/** npm leaves it out without a word where it cannot be compiled, because it is optional. */
function loadBetterSqlite3(): typeof BetterSqlite3 {
  try {
    return createRequire(import.meta.url)('better-sqlite3') as typeof BetterSqlite3
  } catch (error) {
    throw new Error(
      `SQLite is missing: Node ${process.versions.node} has none that is complete, and better-sqlite3 is not installed or does not load. ` +
        'Use Node 22.16, 24 or newer; or run npm install better-sqlite3, which needs Python 3, make and a C++ compiler where ' +
        'there is no ready-made binary; or keep the data in PostgreSQL (--database).',
      { cause: error },
    )
  }
}

/** Which driver this process uses, for the log. */
export const DRIVER = builtIn === null ? 'better-sqlite3' : 'node:sqlite'

export const Database: typeof BetterSqlite3 =
  builtIn === null ? loadBetterSqlite3() : (BuiltInDatabase as unknown as typeof BetterSqlite3)
export type Connection = BetterSqlite3.Database
