/**
 * Curfew's memory in PostgreSQL, shared by as many servers as wish. The port tells what it promises; here is how.
 *
 * A server has one connection for its transactions, which take turns, a few for its reads, which never wait for a
 * transaction, and one line on which it hears of the others (`line.ts`). A transaction costs two round trips: the first
 * finds go with its beginning, all writes with its commit. A search by order in between, as for a claim, is a third.
 *
 * When the database cannot serve (gone, full, read-only, too slow), the call ends in StoreUnavailable, nothing of its
 * transaction remains, and the next call tries again, on a fresh connection if need be. Only when the connection is lost
 * while committing is the outcome unknown, and the reason says so.
 */
import { JOB_STATES, type Checkpoint, type Doc, type DocName, type Host, type Instant } from '@curfew/core'
import type { DatedSpot, Job, JobFilter, JobState, Owner, Random, Spot, TypePolicy, Worker } from '@curfew/core'
import { countAhead, NO_DEADLINE, StoreUnavailable } from '../store.ts'
import type {
  Batch,
  Claimable,
  Closing,
  DeadLetterFilter,
  Ended,
  EventRetention,
  Inbox,
  InboxEntry,
  JobCount,
  JobPage,
  Life,
  LogPart,
  News,
  Page,
  Queue,
  Refusal,
  SharedClock,
  Sizes,
  StateCounts,
  Store,
  Stretch,
  WorkerNotice,
  Waking,
  WorkerTotal,
  Woken,
} from '../store.ts'
import type { StoredEvent, StoreHealth, Transaction } from '../store.ts'
import { DatabaseClock } from './clock.ts'
import { addressOf, closedError, connect, Link, openingError, told, type Address } from './connection.ts'
import { wantsRenewal, wasIdle } from './connection.ts'
import { countJobs, listJobs } from '../job-lists.ts'
import { noJobs, ownerText } from '../records.ts'
import { ListStatements } from './job-lists.ts'
import { Line } from './line.ts'
import { migrate, type Migrated, type Migrating } from './migrations/migrate.ts'
import {
  columnsOf,
  docName,
  exact,
  exactOrNull,
  listOf,
  original,
  toCheckpoint,
  toDoc,
  toEvent,
  toJob,
  toNotice,
  toQueue,
  toSizes,
  toTypePolicy,
  toWorker,
} from './rows.ts'
import { unknownToJobs, unknownToWorkers } from './rows.ts'
import type { CheckpointRow, DocRow, EventRow, JobRow, NoticeRow, QueueRow, SizesRow } from './rows.ts'
import type { TypeRow, WorkerRow } from './rows.ts'
import { Session } from './session.ts'
import * as sql from './statements.ts'
import { MOST, Texts } from './texts.ts'
import { docsUnder, PostgresTransaction, toLife, type LifeRow } from './transaction.ts'
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

export class PostgresStore implements Store {
  readonly shared = true
  readonly clock: SharedClock | null
  readonly inbox: Inbox
  readonly #retention: EventRetention
  readonly #session: Session
  readonly #writer: Link
  readonly #readers: readonly Link[]
  readonly #line: Line
  readonly #turns = new Turns()
  readonly #lists = new ListStatements({
    read: (statement, values) => this.#read(statement, values),
    jobs: (statement, values) => this.#jobs(statement, values),
  })
  #health: StoreHealth = { kind: 'postgres', version: '' }
  #closed = false
  /** How many transactions in a row were silent for too long. */
  #silences = 0
  readonly #usualPatienceMs: number

  constructor(address: Address, { events, host, random, clock = 'database' }: PostgresOptions) {
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
      this.#read<readonly [number, string]>(sql.ALL_TEXTS, [MOST]),
      this.#read<readonly [number, number]>(sql.FIRST_EVENT),
      this.#read<readonly [number | null, number | null]>(sql.EVENT_BOUNDS),
      this.#read<readonly [string, boolean]>(sql.WHO_IS_THERE),
    ])
    this.#session.texts.learn(texts.rows)
    if (first.rows[0] !== undefined) this.#session.oldest = { sequence: first.rows[0][0], at: first.rows[0][1] }
    this.#session.seeLast(bounds.rows[0]?.[1] ?? null)
    this.#health = { kind: 'postgres', version: there.rows[0]?.[0].split(' ')[0] ?? '' }
  }

  get health(): StoreHealth {
    return this.#health
  }

  transaction<T>(work: (tx: Transaction) => Promise<Closing<T>>): Promise<Ended<T>> {
    return this.#turns.take(async () => {
      await this.#trustTime()
      const wire = await this.#ready(this.#writer)
      const tx = new PostgresTransaction(wire, this.#session, this.#retention, this.#patienceMs())
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

  // ---- Jobs ----

  async job(id: string): Promise<Job | null> {
    const [job] = await this.#jobs(sql.SEE_JOBS, [listOf([exact(id)])])
    return job ?? null
  }

  jobs(filter: JobFilter, cursor: string | null, page: Page): Promise<JobPage> {
    return listJobs(this.#lists, filter, cursor, page)
  }

  countJobs(filter: JobFilter): Promise<JobCount> {
    return countJobs(this.#lists, filter)
  }

  async deadLetters(filter: DeadLetterFilter, { limit, offset }: Page): Promise<{ jobs: Job[]; total: number }> {
    const [queue, type] = [exactOrNull(filter.queue), exactOrNull(filter.type)]
    const tenant = exactOrNull(filter.tenant ?? null)
    const [jobs, total] = await Promise.all([
      this.#jobs(sql.LIST_DEAD_LETTERS, [queue, type, tenant, limit, offset]),
      type === null && tenant === null
        ? this.#number(sql.COUNT_DEAD_LETTERS, [queue])
        : this.#number(sql.COUNT_DEAD_LETTERS_AMONG, [queue, type, tenant]),
    ])
    return { jobs, total }
  }

  async tenantCounts(tenant: string): Promise<StateCounts> {
    const { rows } = await this.#read<readonly [JobState, number]>(sql.TENANT_COUNTS, [exact(tenant)])
    const counts = noJobs()
    for (const [state, n] of rows) counts[state] = n
    return counts
  }

  async ahead(
    { queue, priority, seq, wakeAt }: Pick<Job, 'queue' | 'priority' | 'seq' | 'wakeAt'>,
    order: Claimable['order'],
    look: number,
  ): Promise<JobCount> {
    const asked = [exact(queue), priority, seq, wakeAt ?? NO_DEADLINE, look]
    const { rows } = await this.#read<readonly [number, number, number, number]>(sql.ROWS_AHEAD, asked)
    const [above = 0, earlier = 0, earlierUndated = 0, nearer = 0] = rows[0] ?? []
    return countAhead({ above, earlier, earlierUndated, nearer }, order, wakeAt !== null, look)
  }

  async line(queue: string, { skip, look }: Stretch): Promise<Spot[]> {
    const { rows } = await this.#read<readonly [number, number]>(sql.LINE, [exact(queue), skip, look])
    return rows.map(([priority, seq]) => ({ priority, seq }))
  }

  async datedLine(queue: string, { skip, look }: Stretch): Promise<DatedSpot[]> {
    const asked = [exact(queue), skip, look]
    const { rows } = await this.#read<readonly [number, number, Instant]>(sql.DATED_LINE, asked)
    return rows.map(([priority, seq, wakeAt]) => ({ priority, seq, wakeAt }))
  }

  jobsInLine(spots: readonly (Spot & { readonly queue: string })[]): Promise<Job[]> {
    return this.#jobs(sql.JOBS_IN_LINE, [
      listOf(spots.map(({ queue }) => exact(queue))),
      listOf(spots.map(({ priority }) => priority)),
      listOf(spots.map(({ seq }) => seq)),
    ])
  }

  outwaited(queue: string | null, { skip, look }: Stretch): Promise<Job[]> {
    return this.#jobs(sql.OUTWAITED, [exactOrNull(queue), skip, look])
  }

  async waking({ from, until, skip, look }: Waking): Promise<Woken> {
    const asked = [from, until, skip, look]
    const [{ rows }, jobs] = await Promise.all([
      this.#read<readonly [Instant]>(sql.WAKES, asked),
      this.#jobs(sql.WAKING_JOBS, asked),
    ])
    return { wakes: rows.map(([wakeAt]) => wakeAt), jobs }
  }

  async deadLetterCounts(): Promise<{ queue: string; count: number }[]> {
    const { rows } = await this.#read<readonly [string, number]>(sql.DEAD_LETTER_COUNTS)
    return rows.map(([queue, count]) => ({ queue: original(queue), count }))
  }

  async wasPurged(id: string): Promise<boolean> {
    const { rows } = await this.#read(sql.FIND_TOMBSTONE, [exact(id)])
    return rows.length > 0
  }

  async checkpoint(jobId: string): Promise<Checkpoint | null> {
    const { rows } = await this.#read<CheckpointRow>(sql.FIND_CHECKPOINTS, [listOf([exact(jobId)])])
    return rows[0] === undefined ? null : toCheckpoint(rows[0])
  }

  activeJobs(limit: number): Promise<Job[]> {
    return this.#jobs(sql.LIST_ACTIVE_JOBS, [limit])
  }

  owned(owner: Pick<Owner, 'kind' | 'id'>, after: string | null, limit: number): Promise<Job[]> {
    return this.#jobs(sql.OWNED_AFTER, [exact(ownerText(owner)), exact(after ?? ''), limit])
  }

  lastOwned(owner: Pick<Owner, 'kind' | 'id'>, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LAST_OWNED, [exact(ownerText(owner)), limit])
  }

  async limited(key: string): Promise<{ available: number; active: number }> {
    const { rows } = await this.#read<readonly [number, number]>(sql.COUNT_WAITING_AND_LIMITED, [exact(key)])
    return { available: rows[0]?.[0] ?? 0, active: rows[0]?.[1] ?? 0 }
  }

  deadlined(queue: string, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LIST_DEADLINED, [exact(queue), limit])
  }

  async counts(): Promise<Map<string, StateCounts>> {
    const [queues, numbers] = await Promise.all([
      this.queues(),
      this.#read<readonly [string, JobState, number]>(sql.ALL_COUNTS),
    ])
    const counts = new Map<string, Record<JobState, number>>()
    const of = (queue: string): Record<JobState, number> => {
      const known = counts.get(queue) ?? noJobs()
      counts.set(queue, known)
      return known
    }
    for (const { name } of queues) of(name)
    for (const [queue, state, n] of numbers.rows) of(original(queue))[state] = n
    return counts
  }

  async countsOf(queues: readonly string[]): Promise<Map<string, StateCounts>> {
    const counts = new Map(queues.map((queue) => [queue, noJobs()]))
    const { rows } = await this.#read<readonly [string, JobState, number]>(sql.COUNTS_OF, [
      listOf(queues.map(exact)),
      listOf(JOB_STATES),
    ])
    for (const [queue, state, n] of rows) {
      const numbers = counts.get(original(queue))
      if (numbers !== undefined) numbers[state] = n
    }
    return counts
  }

  async totals(): Promise<StateCounts> {
    const { rows } = await this.#read<readonly [JobState, number]>(sql.TOTALS)
    const counts = noJobs()
    for (const [state, n] of rows) counts[state] = n
    return counts
  }

  async nextWakeAt(): Promise<Instant | null> {
    const { rows } = await this.#read<readonly [Instant | null]>(sql.NEXT_WAKE)
    return rows[0]?.[0] ?? null
  }

  async nextWorkAt(): Promise<Instant | null> {
    const { rows } = await this.#read<readonly [Instant | null]>(sql.NEXT_WORK)
    return rows[0]?.[0] ?? null
  }

  // ---- Documents ----

  async doc(kind: string, id: string): Promise<Doc | null> {
    const [doc] = await this.#docs(sql.SEE_DOCS, columnsOf([docName({ kind, id })], 2))
    return doc ?? null
  }

  docs(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]> {
    return this.#docs(...docsUnder(kind, prefix, after, limit))
  }

  docsBelow(kind: string, before: string | null, limit: number): Promise<Doc[]> {
    if (before === null) return this.#docs(sql.LAST_DOCS, [exact(kind), limit])
    return this.#docs(sql.DOCS_BELOW, [...docName({ kind, id: before }), limit])
  }

  // ---- Workers, queues, types ----

  workers(): Promise<Worker[]> {
    return this.#workers(sql.LIST_WORKERS, [])
  }

  workersPage({ limit, offset }: Page): Promise<Worker[]> {
    return this.#workers(sql.WORKERS_PAGE, [limit, offset])
  }

  async workerTotals(silentSince: Instant): Promise<WorkerTotal[]> {
    const { rows } = await this.#read<readonly [string, number, number]>(sql.WORKER_TOTALS, [silentSince])
    return rows.map(([state, count, silent]) => ({ state, count, silent }))
  }

  async worker(id: string): Promise<Worker | null> {
    const [worker] = await this.#workers(sql.SEE_WORKERS, [listOf([exact(id)])])
    return worker ?? null
  }

  async queues(): Promise<Queue[]> {
    const { rows } = await this.#read<QueueRow>(sql.LIST_QUEUES)
    return rows.map(toQueue)
  }

  async queuesPage({ limit, offset }: Page): Promise<{ queues: Queue[]; total: number }> {
    const [{ rows }, { total }] = await Promise.all([
      this.#read<QueueRow>(sql.QUEUES_PAGE, [limit, offset]),
      this.queueTotals(),
    ])
    return { queues: rows.map(toQueue), total }
  }

  async firstQueues(limit: number): Promise<Queue[]> {
    const { rows } = await this.#read<QueueRow>(sql.FIRST_QUEUES, [limit])
    return rows.map(toQueue)
  }

  async queueTotals(): Promise<{ total: number; paused: number }> {
    const { rows } = await this.#read<readonly [number, number]>(sql.QUEUE_TOTALS)
    const [total, paused] = rows[0] ?? [0, 0]
    return { total, paused }
  }

  async queue(name: string): Promise<Queue | null> {
    const { rows } = await this.#read<QueueRow>(sql.FIND_QUEUES, [listOf([exact(name)])])
    return rows[0] === undefined ? null : toQueue(rows[0])
  }

  async types(): Promise<TypePolicy[]> {
    const { rows } = await this.#read<TypeRow>(sql.LIST_TYPES)
    return rows.map(toTypePolicy)
  }

  // ---- Events, and the servers' life ----

  async eventsAfter(sequence: number, limit: number): Promise<StoredEvent[]> {
    const { rows } = await this.#read<EventRow>(sql.FIND_EVENTS_AFTER, [sequence, limit])
    return rows.map(toEvent)
  }

  async eventsAmong({ above, below, types, limit, order }: LogPart): Promise<StoredEvent[]> {
    const statement = order === 'oldest' ? sql.FIND_EVENTS_AMONG : sql.FIND_LAST_EVENTS_AMONG
    const { rows } = await this.#read<EventRow>(statement, [above, below, listOf(types.map(exact)), limit])
    return rows.map(toEvent)
  }

  async event(sequence: number): Promise<StoredEvent | null> {
    const { rows } = await this.#read<EventRow>(sql.FIND_EVENT, [sequence])
    return rows[0] === undefined ? null : toEvent(rows[0])
  }

  async eventBounds(): Promise<{ first: number; last: number }> {
    const { rows } = await this.#read<readonly [number | null, number | null]>(sql.EVENT_BOUNDS)
    return { first: rows[0]?.[0] ?? 0, last: rows[0]?.[1] ?? 0 }
  }

  async life(): Promise<Life> {
    const { rows } = await this.#read<LifeRow>(sql.FIND_LIFE)
    return toLife(rows[0])
  }

  // ---- Everything, for a copy ----

  async sizes(): Promise<Sizes> {
    const { rows } = await this.#read<SizesRow>(sql.SIZES)
    return toSizes(rows[0] ?? [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
  }

  jobsAfter(id: string | null, limit: number): Promise<Job[]> {
    return this.#jobs(sql.JOBS_AFTER, [exact(id ?? ''), limit])
  }

  async checkpointsAfter(jobId: string | null, limit: number): Promise<Checkpoint[]> {
    const { rows } = await this.#read<CheckpointRow>(sql.CHECKPOINTS_AFTER, [exact(jobId ?? ''), limit])
    return rows.map(toCheckpoint)
  }

  docsAfter(name: DocName | null, limit: number): Promise<Doc[]> {
    return this.#docs(sql.DOCS_AFTER, [...docName(name ?? { kind: '', id: '' }), limit])
  }

  async noticesAfter(place: number, limit: number): Promise<(WorkerNotice & { place: number })[]> {
    const { rows } = await this.#read<readonly [...NoticeRow, place: number]>(sql.NOTICES_AFTER, [place, limit])
    return rows.map((row) => ({ ...toNotice(row), place: row[5] }))
  }

  async tombstonesAfter(place: number, limit: number): Promise<{ place: number; id: string }[]> {
    const { rows } = await this.#read<readonly [number, string]>(sql.TOMBSTONES_AFTER, [place, limit])
    return rows.map(([at, id]) => ({ place: at, id: original(id) }))
  }

  async inboxAfter(place: number, limit: number): Promise<(InboxEntry & { place: number })[]> {
    const { rows } = await this.#read<readonly [string, string, number]>(sql.INBOX_AFTER, [place, limit])
    return rows.map(([id, body, found]) => ({ id, body, place: found }))
  }

  async refusedAfter(place: number, limit: number): Promise<(InboxEntry & Refusal & { place: number })[]> {
    const { rows } = await this.#read<readonly [string, string, string, Instant, number]>(sql.REFUSED_AFTER, [
      place,
      limit,
    ])
    return rows.map(([id, body, error, at, found]) => ({ id, body, error, at, place: found }))
  }

  async isHalfRestored(): Promise<boolean> {
    const { rows } = await this.#read<readonly [boolean]>(sql.IS_HALF_RESTORED)
    return rows[0]?.[0] === true
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
    const { rows } = await this.#read<readonly [string, boolean]>(sql.WHO_IS_THERE)
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
  async #read<Row = readonly unknown[]>(statement: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    const reader = this.#readers.reduce((best, link) => (link.load < best.load ? link : best))
    const wire = await this.#ready(reader)
    try {
      return await wire.query<Row>(statement, values)
    } catch (error) {
      if (wantsRenewal(error)) this.#renew()
      throw told(error)
    }
  }

  async #number(statement: Statement, values: readonly unknown[]): Promise<number> {
    const { rows } = await this.#read<readonly [number]>(statement, values)
    return rows[0]?.[0] ?? 0
  }

  async #jobs(statement: Statement, values: readonly unknown[]): Promise<Job[]> {
    const { texts } = this.#session
    const { rows } = await this.#read<JobRow>(statement, values)
    await this.#learn(unknownToJobs(rows, texts))
    return rows.map((row) => toJob(row, texts))
  }

  async #workers(statement: Statement, values: readonly unknown[]): Promise<Worker[]> {
    const { texts } = this.#session
    const { rows } = await this.#read<WorkerRow>(statement, values)
    await this.#learn(unknownToWorkers(rows, texts))
    return rows.map((row) => toWorker(row, texts))
  }

  async #docs(statement: Statement, values: readonly unknown[]): Promise<Doc[]> {
    const { rows } = await this.#read<DocRow>(statement, values)
    return rows.map(toDoc)
  }

  async #learn(places: readonly number[]): Promise<void> {
    if (places.length === 0) return
    const { rows } = await this.#read<readonly [number, string]>(sql.FIND_TEXTS, [listOf(places)])
    this.#session.texts.learn(rows)
  }

  async #share(texts: readonly (readonly [number, string])[]): Promise<[number, string][]> {
    await this.#read(sql.INSERT_TEXTS, columnsOf(texts, 2))
    const places = texts.map(([place]) => place)
    return (await this.#read<[number, string]>(sql.FIND_TEXTS, [listOf(places)])).rows
  }

  /** Every connection is opened anew when it is next asked for: the old ones may lead to a server that is no longer it. */
  #renew(): void {
    for (const link of [this.#writer, ...this.#readers]) link.renew()
  }
}

/** One at a time, in the order of asking. */
class Turns {
  #last: Promise<unknown> = Promise.resolve()

  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => {})
    return turn
  }
}

/** A commit is answered when it is on the disk. */
const DONE = Promise.resolve()
