/**
 * Connections: how they are opened, what a session is set to, and what their errors mean.
 *
 * A `Link` is a connection that comes back: when it is lost, the queries under way fail, and the next query gets a fresh
 * one. How queries travel on it is in `wire.ts`.
 */
import pg, { DatabaseError, type ClientConfig } from 'pg'
import { RowsMoved, StoreDamaged, StoreUnavailable } from '../store.ts'
import { Wire } from './wire.ts'

// ---- Where the database is ----

export interface Address {
  readonly connectionString: string
  readonly schema: string
  /** Settings that the URL asks for; ours come after them. */
  readonly options: string
  /** How long a transaction may be silent, holding its rows, before the database ends it. */
  readonly patienceMs: number
  /** Without the password, for people. */
  readonly shown: string
}

export const DEFAULT_SCHEMA = 'curfew'
/** Long for deciding about a group, and short for other servers that wait for one that was stopped in the middle of it. */
const PATIENCE_MS = 500

/** Reads `postgresql://user:password@host:port/database?schema=…`. */
export function addressOf(url: string, schemaOption?: string, patienceMs = PATIENCE_MS): Address {
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch (error) {
    throw new Error('the database URL cannot be read; it looks like postgresql://user:password@host:5432/database', {
      cause: error,
    })
  }
  if (!/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw new Error(`the database URL begins with ${parsed.protocol}//, not with postgresql://`)
  }
  const schema = schemaOption ?? parsed.searchParams.get('schema') ?? DEFAULT_SCHEMA
  if (!/^[a-z_][a-z0-9_]{0,49}$/.test(schema)) {
    throw new Error(
      `the name of a schema has lower-case letters, digits and _, at most 50 of them, not ${JSON.stringify(schema)}`,
    )
  }
  const options = parsed.searchParams.get('options') ?? ''
  parsed.searchParams.delete('schema')
  // The driver would let the URL's options replace ours.
  parsed.searchParams.delete('options')
  const connectionString = parsed.href
  const shown = new URL(connectionString)
  shown.password = ''
  shown.search = ''
  return { connectionString, schema, options, patienceMs, shown: shown.href }
}

// ---- Sessions ----

/**
 * `work` writes: whatever takes longer than these limits ends, so that a server that was stopped in the middle holds
 * nothing for long. Its plans are made once and always go by an index, however small a table looked when they were made.
 */
const SETTINGS = {
  work: {
    statement_timeout: '10s',
    lock_timeout: '3s',
    // The limit for a transaction that says nothing does not reach one that cannot hand over what it found. Less than a
    // lock is waited for, so that waiting sessions get its rows.
    tcp_user_timeout: '2000',
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
  },
  read: { statement_timeout: '10s', lock_timeout: '3s', idle_in_transaction_session_timeout: '2s' },
  line: { statement_timeout: '3s', lock_timeout: '3s', idle_in_transaction_session_timeout: '2s' },
  migrate: { statement_timeout: '0', lock_timeout: '60s', idle_in_transaction_session_timeout: '60s' },
} as const

export type Purpose = keyof typeof SETTINGS

/** Both ends notice a peer that is gone without a word, or that no longer takes what it is sent. */
const KEEP_ALIVE = {
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '15000',
}

const CONNECT_MS = 5_000
/** Longer than any statement may take: a database that has not answered by then is gone. */
const ANSWER_MS = { work: 15_000, read: 15_000, line: 5_000, migrate: 0 } as const

function configOf({ connectionString, schema, options, patienceMs }: Address, purpose: Purpose): ClientConfig {
  const settings = {
    search_path: schema,
    default_transaction_isolation: 'read\\ committed',
    jit: 'off',
    ...KEEP_ALIVE,
    idle_in_transaction_session_timeout: `${String(patienceMs)}ms`,
    ...SETTINGS[purpose],
  }
  return {
    connectionString,
    application_name: 'curfew',
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    options: [options, ...Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)].join(' '),
  }
}

export async function connect(address: Address, purpose: Purpose): Promise<pg.Client> {
  const client = new pg.Client(configOf(address, purpose))
  // Who waits for an answer hears of it there; without this an idle connection that ends would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    client.end().catch(() => {})
    throw error
  }
}

// ---- Links ----

export class Link {
  readonly #address: Address
  readonly #purpose: Purpose
  #wire: Wire | null = null
  #opening: Promise<Wire> | null = null
  #closed = false

  constructor(address: Address, purpose: Purpose) {
    this.#address = address
    this.#purpose = purpose
  }

  /** How many answers are outstanding: what a further question would wait for. */
  get load(): number {
    return this.#wire === null || this.#wire.lost ? 0 : this.#wire.waiting
  }

  /** The connection, opened anew if it was lost. */
  async ready(): Promise<Wire> {
    if (this.#closed) throw closedError()
    if (this.#wire !== null && !this.#wire.lost) return this.#wire
    this.#opening ??= this.#open()
    try {
      return await this.#opening
    } finally {
      this.#opening = null
    }
  }

  async #open(): Promise<Wire> {
    const purpose = this.#purpose
    const client = await connect(this.#address, purpose)
    const wire = new Wire(client, { syncs: purpose === 'work' ? 'together' : 'each', answerMs: ANSWER_MS[purpose] })
    if (this.#closed) {
      await wire.end()
      throw closedError()
    }
    this.#wire = wire
    return wire
  }

  /** The next one who asks gets a fresh connection. */
  renew(): void {
    this.#wire?.drop()
    this.#wire = null
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#wire?.end()
  }
}

export function closedError(): StoreUnavailable {
  return new StoreUnavailable('it is closed', undefined)
}

// ---- What errors mean ----

/** A row was not as it was found; raised by `expect_all`. */
const MOVED = 'CF001'
const UNIQUE_VIOLATION = '23505'

/** The database ended a transaction that said nothing for too long: its server stood still, or had too much to decide. */
const IDLE = '25P03'

const CONFLICTS: Readonly<Record<string, string>> = {
  [IDLE]: 'the transaction was idle for too long and the database ended it',
  '40P01': 'deadlock: two transactions waited for each other',
  '40001': 'two transactions changed the same rows',
}

const TROUBLES: Readonly<Record<string, string>> = {
  '25006': 'the database is read-only',
  '26000': 'a prepared statement is missing',
  '53100': 'the disk of the database is full',
  '53200': 'the database is out of memory',
  '53300': 'the database has too many connections',
  '55P03': 'a lock could not be acquired in time',
  '57014': 'the database took too long',
  '57P01': 'the database is shutting down',
  '57P02': 'the database has crashed and is recovering',
  '57P03': 'the database is starting up',
  '57P04': 'the database was dropped',
  '57P05': 'the session was idle for too long and the database ended it',
  '58030': 'the database has a disk I/O error',
  '0A000': 'the schema has changed',
}

/** Troubles that a fresh connection may be without: it may lead to another server, or to a changed schema. */
const RENEWED_BY: ReadonlySet<string> = new Set(['25006', '0A000'])

/** The database's code, if it was the database that spoke. */
export function codeOf(error: unknown): string | null {
  return error instanceof DatabaseError && error.code !== undefined ? error.code : null
}

export function wasIdle(error: unknown): boolean {
  return codeOf(error instanceof RowsMoved ? error.cause : error) === IDLE
}

export function wantsRenewal(error: unknown): boolean {
  const code = codeOf(error instanceof StoreUnavailable ? error.cause : error)
  return code !== null && RENEWED_BY.has(code)
}

/** Whether the connection is gone: then the outcome of the last statement is unknown. */
export function isLoss(error: unknown): boolean {
  const code = codeOf(error)
  return code === null ? error instanceof Error && !(error instanceof StoreUnavailable) : /^(08|57P)/.test(code)
}

/** data_corrupted and index_corrupted. */
const DAMAGE = new Set(['XX001', 'XX002'])
const ADVICE = [
  'Stop the servers that use this database.',
  'Copy the data directory of PostgreSQL, before anything else is done with it.',
  'Look into the log of PostgreSQL for the table or index it names, and check it with pg_amcheck.',
  'REINDEX repairs an index. For a table, restore the newest backup. Check the disk before you use it again.',
]

/** An error of the database as the port knows it. */
export function told(error: unknown): unknown {
  if (error instanceof StoreUnavailable || error instanceof RowsMoved) return error
  const code = codeOf(error)
  if (code === null) return new StoreUnavailable(lossReason(error), error)
  if (code === MOVED) return new RowsMoved((error as DatabaseError).message, error)
  if (code === UNIQUE_VIOLATION) return new RowsMoved(duplicateOf(error as DatabaseError), error)
  const conflict = CONFLICTS[code]
  if (conflict !== undefined) return new RowsMoved(conflict, error)
  if (DAMAGE.has(code)) return new StoreDamaged('the database reports damaged data', null, ADVICE, error)
  const reason = TROUBLES[code] ?? (/^(08|53|57|58)/.test(code) ? (error as DatabaseError).message : null)
  return reason === null ? error : new StoreUnavailable(reason, error)
}

/** "job 0190… is there already". The detail is made for people, and so is this. */
function duplicateOf({ table, detail }: DatabaseError): string {
  const id = /=\((.*)\) already exists/s.exec(detail ?? '')?.[1]
  return `${(table ?? 'row').replace(/s$/, '')} ${id ?? ''} is there already`
}

function lossReason(error: unknown): string {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
  switch (code) {
    case 'ECONNREFUSED':
      return 'the database does not accept connections'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'the host of the database cannot be found'
    case 'ENOENT':
      return 'the socket of the database is not there'
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'the database cannot be reached'
    default:
      return error instanceof Error && error.message === 'timeout expired'
        ? 'the database cannot be reached'
        : 'the connection to the database was lost'
  }
}

/** Why a store cannot be opened, in one line. */
export function openingError(error: unknown, { shown }: Address): Error {
  const told = (reason: string): Error => new Error(`cannot open ${shown}: ${reason}`, { cause: error })
  switch (codeOf(error)) {
    case null:
      break
    case '28P01':
    case '28000':
      return told('the user or the password is wrong')
    case '3D000':
      return told('there is no such database; create it first')
    case '42501':
      return told(`the user may not do this: ${(error as Error).message}`)
    default: {
      const code = codeOf(error) ?? ''
      return told(TROUBLES[code] ?? (error as Error).message)
    }
  }
  if (error instanceof StoreUnavailable) return told(error.reason)
  if (error instanceof Error && /SASL|password/i.test(error.message)) return told('it asks for a password')
  return error instanceof Error && 'code' in error ? told(lossReason(error)) : told((error as Error).message)
}
