/**
 * Curfew's memory in PostgreSQL, shared by as many servers as wish. The port tells what it promises; here is how.
 *
 * A server has one connection for its transactions, which take turns, a few for its reads, which never wait for a
 * transaction, and one line on which it hears of the others (`line.ts`). A transaction costs two round trips: the first
 * finds go with its beginning, all writes with its commit. A search by order in between, as for a claim, is a third. One that
 * needs only what is remembered has no finds (`reliance.ts`).
 *
 * When the database cannot serve (gone, full, read-only, too slow), the call ends in StoreUnavailable, nothing of its
 * transaction remains, and the next call tries again, on a fresh connection if need be. Only when the connection is lost
 * while committing is the outcome unknown, and the reason says so.
 */
import type { Host, Random } from '@curfew/core'
import {
  type Batch,
  type Closing,
  type Ended,
  type EventRetention,
  type Inbox,
  type News,
  type SharedClock,
  type Store,
  type StoreHealth,
  StoreUnavailable,
  type Transaction,
} from '../store.ts'
import { Turns } from '../turns.ts'
import { DatabaseClock } from './clock.ts'
import {
  type Address,
  addressOf,
  closedError,
  connect,
  Link,
  openingError,
  told,
  wantsRenewal,
  wasIdle,
} from './connection.ts'
import { Line } from './line.ts'
import { migrate, type Migrated, type Migrating } from './migrations/migrate.ts'
import { PostgresReads } from './reads.ts'
import { columnsOf, listOf } from './rows.ts'
import { Session } from './session.ts'
import * as sql from './statements.ts'
import { MOST, Texts } from './texts.ts'
import { PostgresTransaction } from './transaction.ts'
import type { Answer, Statement, Wire } from './wire.ts'

export interface PostgresOptions {
  /** `postgresql://user:password@host:port/database?schema=…` */
  readonly url: string
  /** Instead of the one the URL names; `curfew` if neither does. */
  readonly schema?: string
  /** How long a transaction may be silent before the database ends it; half a second if it is left out. */
  readonly patienceMs?: number
  readonly events: EventRetention
  readonly host: Host
  readonly random: Random
  /**
   * Whose clock is the judge. `engine`: the engine brings its own, for tests and for a clock that is turned by hand; then
   * only one server may be at work.
   */
  readonly clock?: 'database' | 'engine'
}

/** Opens the store, and brings its schema up to date as far as older servers can bear it. */
export async function openPostgresStore(options: PostgresOptions): Promise<Store> {
  const address = addressOf(options.url, options.schema, options.patienceMs)
  const store = new PostgresStore(address, options)
  try {
    await migrateAt(address, { contract: false, bears: true })
    await store.open()
    return store
  } catch (error) {
    await store.close()
    throw openingError(error, address)
  }
}

export interface MigrateOptions {
  readonly schema?: string
  /** Whether no server of an older version is left. */
  readonly contract: boolean
  readonly log?: (line: string) => void
}

/** Brings a schema up to date, and tells what was done and what waits. */
export async function migrateDatabase(url: string, { schema, contract, log }: MigrateOptions): Promise<Migrated> {
  const address = addressOf(url, schema)
  try {
    const done = await migrateAt(address, { contract })
    for (const name of done.applied) log?.(`applied ${name}`)
    for (const name of done.waiting) log?.(`waiting ${name}: it takes away what older servers need`)
    return done
  } catch (error) {
    throw openingError(error, address)
  }
}

async function migrateAt(address: Address, how: Omit<Migrating, 'schema'>): Promise<Migrated> {
  const client = await connect(address, 'migrate')
  try {
    return await migrate(client, { schema: address.schema, ...how })
  } finally {
    await client.end()
  }
}

const READERS = 4
const MOST_PATIENCE_MS = 8_000

export class PostgresStore extends PostgresReads implements Store {
  readonly shared = true
  readonly clock: SharedClock | null
  readonly inbox: Inbox
  readonly #retention: EventRetention
  readonly #session: Session
  readonly #writer: Link
  readonly #readers: readonly Link[]
  readonly #line: Line
  readonly #turns = new Turns()
  #health: StoreHealth = { kind: 'postgres', version: '' }
  #closed = false
  /** How many transactions in a row were silent for too long. */
  #silences = 0
  readonly #usualPatienceMs: number

  constructor(address: Address, { events, host, random, clock = 'database' }: PostgresOptions) {
    super()
    const measured = new DatabaseClock(host)
    this.clock = clock === 'database' ? measured : null
    this.#retention = events
    this.#usualPatienceMs = address.patienceMs
    this.#writer = new Link(address, 'work')
    this.#readers = Array.from({ length: READERS }, () => new Link(address, 'read'))
    this.#session = new Session(address.schema, random, new Texts((texts) => this.#share(texts)))
    const { me, channel, inboxChannel, schema } = this.#session
    this.inbox = { schema, channel: inboxChannel }
    this.#line = new Line({ link: new Link(address, 'line'), channel, inboxChannel, me, host, clock: measured })
    this.#line.follow((news) => {
      this.#session.seeLast(news?.lastEvent ?? null)
      this.#session.hearWake(news === null ? undefined : news.wakeAt)
    })
  }

  async open(): Promise<void> {
    const [, texts, first, bounds, there] = await Promise.all([
      this.#line.open(),
      this.read<readonly [number, string]>(sql.ALL_TEXTS, [MOST]),
      this.read<readonly [number, number]>(sql.FIRST_EVENT),
      this.read<readonly [number | null, number | null]>(sql.EVENT_BOUNDS),
      this.read<readonly [string, boolean]>(sql.WHO_IS_THERE),
    ])
    this.#session.texts.learn(texts.rows)
    if (first.rows[0] !== undefined) this.#session.oldest = { sequence: first.rows[0][0], at: first.rows[0][1] }
    this.#session.seeLast(bounds.rows[0]?.[1] ?? null)
    this.#health = { kind: 'postgres', version: there.rows[0]?.[0].split(' ')[0] ?? '' }
  }

  protected get texts(): Texts {
    return this.#session.texts
  }

  get health(): StoreHealth {
    return this.#health
  }

  transaction<T>(work: (tx: Transaction) => Promise<Closing<T>>, relies = false): Promise<Ended<T>> {
    return this.#turns.take(async () => {
      await this.#trustTime()
      const wire = await this.#ready(this.#writer)
      const tx = new PostgresTransaction(wire, this.#session, this.#retention, this.#patienceMs(), relies)
      try {
        const { value, changes } = await work(tx)
        const closed = await tx.close(changes)
        this.#silences = 0
        return { value, ...closed, durable: DONE }
      } catch (error) {
        tx.abandon()
        if (wasIdle(error)) this.#silences += 1
        if (wantsRenewal(error)) this.#renew()
        throw error
      }
    })
  }

  follow(listener: (news: News | null) => void): () => void {
    return this.#line.follow(listener)
  }

  /** Nothing of it depends on the time, so it does not matter whether the clock is trusted. */
  restore(batch: Batch, more: boolean): Promise<void> {
    return this.#turns.take(async () => {
      const tx = new PostgresTransaction(
        await this.#ready(this.#writer),
        this.#session,
        this.#retention,
        MOST_PATIENCE_MS,
      )
      try {
        await tx.restore(batch, more)
      } catch (error) {
        tx.abandon()
        if (wantsRenewal(error)) this.#renew()
        throw error
      }
    })
  }

  // ---- The store itself ----

  /** Asks whether it may be written to, because a database that may not still answers readers. */
  async ping(): Promise<void> {
    const { rows } = await this.read<readonly [string, boolean]>(sql.WHO_IS_THERE)
    if (rows[0]?.[1] !== true) return
    this.#renew()
    throw new StoreUnavailable('the database is read-only', undefined)
  }

  reset(): Promise<void> {
    return this.#turns.take(async () => {
      const wire = await this.#ready(this.#writer)
      const whole = [sql.BEGIN, sql.LOCK_TABLES, sql.RESET_TABLES, sql.RESET_LIFE, sql.COMMIT].map((each) =>
        wire.query(each),
      )
      await Promise.all(whole).catch((error: unknown) => {
        if (!wire.lost) wire.query(sql.ROLLBACK).catch(() => {})
        throw told(error)
      })
      this.#session.forgetRows()
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#turns.take(async () => {})
    await this.#session.texts.settled()
    await Promise.all([this.#line.close(), this.#writer.close(), ...this.#readers.map((link) => link.close())])
  }

  /**
   * How long the next transaction may be silent; null: as long as usual. Who was silent once stood still, and may be about
   * to stand still again; who was silent twice in a row has that much to decide.
   */
  #patienceMs(): number | null {
    if (this.#silences < 2) return null
    return Math.min(MOST_PATIENCE_MS, 2 ** (this.#silences - 1) * this.#usualPatienceMs)
  }

  /** After a standstill of this process the clock was not read for long; it may be well. */
  async #trustTime(): Promise<void> {
    if (this.#closed) throw closedError()
    if (this.clock === null || this.clock.distrust() === null) return
    await this.#line.sample()
    const reason = this.clock.distrust()
    if (reason !== null) throw new StoreUnavailable(reason, undefined)
  }

  async #ready(link: Link): Promise<Wire> {
    if (this.#closed) throw closedError()
    try {
      return await link.ready()
    } catch (error) {
      // Whatever hinders connecting, we were connected a moment ago: it may come back.
      const reason = told(error)
      throw reason instanceof StoreUnavailable ? reason : new StoreUnavailable('the database refuses to serve', error)
    }
  }

  /** On the reader that is waited for least. */
  protected async read<Row = readonly unknown[]>(
    statement: Statement,
    values: readonly unknown[] = [],
  ): Promise<Answer<Row>> {
    const reader = this.#readers.reduce((best, link) => (link.load < best.load ? link : best))
    const wire = await this.#ready(reader)
    try {
      return await wire.query<Row>(statement, values)
    } catch (error) {
      if (wantsRenewal(error)) this.#renew()
      throw told(error)
    }
  }

  async #share(texts: readonly (readonly [number, string])[]): Promise<[number, string][]> {
    await this.read(sql.INSERT_TEXTS, columnsOf(texts, 2))
    const places = texts.map(([place]) => place)
    return (await this.read<[number, string]>(sql.FIND_TEXTS, [listOf(places)])).rows
  }

  /** Every connection is opened anew when it is next asked for: the old ones may lead to a server that is no longer it. */
  #renew(): void {
    for (const link of [this.#writer, ...this.#readers]) link.renew()
  }
}

/** A commit is answered when it is on the disk. */
const DONE = Promise.resolve()
