/**
 * Curfew's memory in one SQLite file. The port tells what it promises; here is how.
 *
 * There is one connection, and everything takes its turn on it: transactions one after another, and reads between
 * them, so that a read never sees what may still be rolled back. The sync of the log is not part of the turn: it runs
 * beside it, and a caller that waits for the disk holds up no other. (Hence the one trap: awaiting a read of the store
 * inside the work of a transaction would wait for ever. A transaction has its own finds.)
 *
 * When the database cannot serve (full, locked, read-only, a broken disk), the call ends in StoreUnavailable, nothing
 * of its transaction remains, and the next call tries again, on a fresh connection if SQLite needs one.
 */
import type { Database as Connection } from 'better-sqlite3'
import { earliest, type Checkpoint, type Doc, type DocName, type Instant, type Job, type JobState } from '@curfew/core'
import type { DatedSpot, JobFilter, Owner, Spot, TypePolicy, Worker } from '@curfew/core'
import { countAhead, NO_CHANGES, NO_DEADLINE, StoreUnavailable } from '../store.ts'
import type {
  Claimable,
  Batch,
  Closing,
  DeadLetterFilter,
  Ended,
  EventRetention,
  JobCount,
  JobPage,
  Life,
  LogPart,
  Page,
  Queue,
  Sizes,
  StateCounts,
  Store,
  StoredEvent,
  Stretch,
  WorkerNotice,
  Waking,
  WorkerTotal,
  Woken,
} from '../store.ts'
import type { StoreHealth, Transaction } from '../store.ts'
import { connect, damaged, IN_MEMORY, isDamage, lockFile, openingError } from './connection.ts'
import { troubleOf, unavailable, type Durability } from './connection.ts'
import { countJobs, listJobs } from '../job-lists.ts'
import { noJobs, ownerText } from '../records.ts'
import {
  exact,
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
import { isHalfRestored, restoreBatch } from './restore.ts'
import { Session, type OpenSync } from './session.ts'
import type { Statements } from './prepared.ts'
import { RESET } from './statements.ts'
import { LogSync } from './sync.ts'
import { countsOf, docsUnder, SqliteTransaction } from './transaction.ts'
import { Turns } from '../turns.ts'

export interface SqliteOptions {
  /** A path, or `:memory:`. */
  readonly file: string
  readonly durability: Durability
  readonly events: EventRetention
  /** Measures syncs; without it they never block the main thread. */
  readonly monotonicMs?: () => number
}

export async function openSqliteStore({ file, durability, events, monotonicMs }: SqliteOptions): Promise<Store> {
  let lock: Connection | null = null
  try {
    if (file !== IN_MEMORY) lock = lockFile(file)
    const openSync = durability === 'full' ? (database: string) => new LogSync(database, monotonicMs ?? null) : null
    return new SqliteStore((again) => connect(file, again), events, lock, openSync)
  } catch (error) {
    lock?.close()
    throw openingError(error, file)
  }
}

export class SqliteStore implements Store {
  readonly health: StoreHealth
  readonly shared = false
  readonly clock = null
  readonly inbox = null
  readonly #connect: (again: boolean) => Connection
  readonly #events: EventRetention
  readonly #lock: Connection | null
  readonly #openSync: OpenSync
  readonly #turns = new Turns()
  #session: Session
  /** Trouble calls for a fresh connection. */
  #stale = false
  #closed = false

  constructor(
    connect: (again: boolean) => Connection,
    events: EventRetention,
    lock: Connection | null,
    openSync: OpenSync,
  ) {
    this.#connect = connect
    this.#events = events
    this.#lock = lock
    this.#openSync = openSync
    this.#session = new Session(connect(false), openSync)
    this.health = { kind: 'sqlite', version: this.#session.statements.sqliteVersion.get() ?? '' }
  }

  /** One server per file: there are no other writers to follow. */
  follow(): () => void {
    return () => {}
  }

  transaction<T>(work: (tx: Transaction) => Promise<Closing<T>>): Promise<Ended<T>> {
    return this.#turns.take(async () => {
      const session = this.#ready()
      const { begin, commit } = session.statements
      this.#attempt(() => begin.run())
      const tx = new SqliteTransaction(session, this.#events, (run) => this.#attempt(run))
      try {
        const { value, changes, isAlone } = await work(tx)
        await tx.save(changes)
        tx.end()
        const nextWakeAt = this.#nextWakeAt(session)
        this.#attempt(() => (tx.isLong ? session.withoutCheckpoint(() => commit.run()) : commit.run()))
        session.keep()
        const durable = this.#durable(session, tx.hasSaved, isAlone)
        return { value, events: tx.appended, durable, nextWakeAt }
      } catch (error) {
        tx.abandon()
        this.#rollBack(session)
        throw error
      }
    })
  }

  // ---- Jobs ----

  job(id: string): Promise<Job | null> {
    return this.#read(({ findJob }, { texts }) => one(findJob.get(id), (row) => toJob(row, texts)))
  }

  jobs(filter: JobFilter, cursor: string | null, page: Page): Promise<JobPage> {
    return this.#readInSteps(({ lists }) => listJobs(lists, filter, cursor, page))
  }

  countJobs(filter: JobFilter): Promise<JobCount> {
    return this.#readInSteps(({ lists }) => countJobs(lists, filter))
  }

  deadLetters({ queue, type, tenant = null }: DeadLetterFilter, page: Page): Promise<{ jobs: Job[]; total: number }> {
    const isAny = type === null && tenant === null
    return this.#read(({ listDeadLetters, countDeadLetters, countDeadLettersAmong }, { texts }) => ({
      jobs: listDeadLetters.all({ queue, type, tenant, ...page }).map((row) => toJob(row, texts)),
      total: (isAny ? countDeadLetters.get({ queue }) : countDeadLettersAmong.get({ queue, type, tenant })) ?? 0,
    }))
  }

  tenantCounts(tenant: string): Promise<StateCounts> {
    return this.#read(({ tenantCounts }) => {
      const counts = noJobs()
      for (const [state, n] of tenantCounts.all(tenant)) counts[state] = n
      return counts
    })
  }

  ahead(
    { queue, priority, seq, wakeAt }: Pick<Job, 'queue' | 'priority' | 'seq' | 'wakeAt'>,
    order: Claimable['order'],
    look: number,
  ): Promise<JobCount> {
    const asked = { queue, priority, seq, wakeAt: wakeAt ?? NO_DEADLINE, look }
    return this.#read(({ rowsAhead }) => {
      const [above = 0, earlier = 0, earlierUndated = 0, nearer = 0] = rowsAhead.all(asked)[0] ?? []
      return countAhead({ above, earlier, earlierUndated, nearer }, order, wakeAt !== null, look)
    })
  }

  line(queue: string, part: Stretch): Promise<Spot[]> {
    return this.#read(({ lineSequences, linePriorities }) => {
      const asked = { queue, ...part }
      const sequences = lineSequences.all(asked)
      const spots: Spot[] = []
      for (const [priority, count] of linePriorities.all(asked))
        for (const seq of sequences.slice(spots.length, spots.length + count)) spots.push({ priority, seq })
      return spots
    })
  }

  datedLine(queue: string, part: Stretch): Promise<DatedSpot[]> {
    return this.#read(({ datedLine }) =>
      datedLine.all({ queue, ...part }).map(([priority, seq, wakeAt]) => ({ priority, seq, wakeAt })),
    )
  }

  jobsInLine(spots: readonly (Spot & { readonly queue: string })[]): Promise<Job[]> {
    return this.#read(({ jobInLine }, { texts }) =>
      spots.flatMap(({ queue, priority, seq }) => {
        const row = jobInLine.get({ queue, priority, seq })
        return row === undefined ? [] : [toJob(row, texts)]
      }),
    )
  }

  outwaited(queue: string | null, part: Stretch): Promise<Job[]> {
    return this.#read(({ outwaited }, { texts }) => outwaited.all({ queue, ...part }).map((row) => toJob(row, texts)))
  }

  waking(asked: Waking): Promise<Woken> {
    return this.#read(({ wakes, wakingJobs }, { texts }) => ({
      wakes: wakes.all(asked),
      jobs: wakingJobs.all(asked).map((row) => toJob(row, texts)),
    }))
  }

  deadLetterCounts(): Promise<{ queue: string; count: number }[]> {
    return this.#read(({ deadLetterCounts }) => deadLetterCounts.all().map(([queue, count]) => ({ queue, count })))
  }

  wasPurged(id: string): Promise<boolean> {
    return this.#read(({ findTombstone }) => findTombstone.get(id) !== undefined)
  }

  checkpoint(jobId: string): Promise<Checkpoint | null> {
    return this.#read(({ findCheckpoint }) => one(findCheckpoint.get(jobId), toCheckpoint))
  }

  activeJobs(limit: number): Promise<Job[]> {
    return this.#read(({ listActiveJobs }, { texts }) => listActiveJobs.all(limit).map((row) => toJob(row, texts)))
  }

  counts(): Promise<Map<string, StateCounts>> {
    return this.#read(({ allCounts, listQueues }) => {
      const counts = new Map<string, Record<JobState, number>>()
      const of = (queue: string): Record<JobState, number> => {
        const known = counts.get(queue) ?? noJobs()
        counts.set(queue, known)
        return known
      }
      for (const [name] of listQueues.all()) of(name)
      for (const [queue, state, n] of allCounts.all()) of(queue)[state] = n
      return counts
    })
  }

  countsOf(queues: readonly string[]): Promise<Map<string, StateCounts>> {
    return this.#read((statements) => countsOf(statements, queues))
  }

  totals(): Promise<StateCounts> {
    return this.#read(({ totals }) => {
      const counts = noJobs()
      for (const [state, n] of totals.all()) counts[state] = n
      return counts
    })
  }

  async nextWakeAt(): Promise<Instant | null> {
    return this.#read(nextWakeOf)
  }

  async nextWorkAt(): Promise<Instant | null> {
    return this.#read(nextWorkOf)
  }

  // ---- Workers, queues, types ----

  workers(): Promise<Worker[]> {
    return this.#read(({ listWorkers }, { texts }) => listWorkers.all().map((row) => toWorker(row, texts)))
  }

  workersPage(page: Page): Promise<Worker[]> {
    return this.#read(({ workersPage }, { texts }) => workersPage.all(page).map((row) => toWorker(row, texts)))
  }

  workerTotals(silentSince: Instant): Promise<WorkerTotal[]> {
    return this.#read(({ workerTotals }) =>
      workerTotals.all(silentSince).map(([state, count, silent]) => ({ state, count, silent })),
    )
  }

  worker(id: string): Promise<Worker | null> {
    return this.#read(({ findWorker }, { texts }) => one(findWorker.get(exact(id)), (row) => toWorker(row, texts)))
  }

  queues(): Promise<Queue[]> {
    return this.#read(({ listQueues }) => listQueues.all().map(toQueue))
  }

  queuesPage(page: Page): Promise<{ queues: Queue[]; total: number }> {
    return this.#read(({ queuesPage, queueTotals }) => ({
      queues: queuesPage.all(page).map(toQueue),
      total: queueTotals.get()?.[0] ?? 0,
    }))
  }

  firstQueues(limit: number): Promise<Queue[]> {
    return this.#read(({ firstQueues }) => firstQueues.all(limit).map(toQueue))
  }

  queueTotals(): Promise<{ total: number; paused: number }> {
    return this.#read(({ queueTotals }) => {
      const [total, paused] = queueTotals.get() ?? [0, 0]
      return { total, paused }
    })
  }

  queue(name: string): Promise<Queue | null> {
    return this.#read(({ findQueue }) => one(findQueue.get(name), toQueue))
  }

  types(): Promise<TypePolicy[]> {
    return this.#read(({ listTypes }) => listTypes.all().map(toTypePolicy))
  }

  // ---- Documents, and what ties jobs to others ----

  doc(kind: string, id: string): Promise<Doc | null> {
    return this.#read(({ findDoc }) => one(findDoc.get(kind, id), toDoc))
  }

  docs(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]> {
    return this.#read((statements) => docsUnder(statements, kind, prefix, after, limit))
  }

  docsBelow(kind: string, before: string | null, limit: number): Promise<Doc[]> {
    return this.#read(({ docsBelow, lastDocs }) =>
      (before === null ? lastDocs.all(kind, limit) : docsBelow.all(kind, before, limit)).map(toDoc),
    )
  }

  owned(owner: Pick<Owner, 'kind' | 'id'>, after: string | null, limit: number): Promise<Job[]> {
    const asked = { owner: ownerText(owner), after: after ?? '', limit }
    return this.#read(({ findOwned }, { texts }) => findOwned.all(asked).map((row) => toJob(row, texts)))
  }

  lastOwned(owner: Pick<Owner, 'kind' | 'id'>, limit: number): Promise<Job[]> {
    const asked = { owner: ownerText(owner), limit }
    return this.#read(({ findLastOwned }, { texts }) => findLastOwned.all(asked).map((row) => toJob(row, texts)))
  }

  limited(key: string): Promise<{ available: number; active: number }> {
    return this.#read(({ countLimited }) => ({
      available: countLimited.get({ key, state: 'available' }) ?? 0,
      active: countLimited.get({ key, state: 'active' }) ?? 0,
    }))
  }

  deadlined(queue: string, limit: number): Promise<Job[]> {
    return this.#read(({ findDeadlined }, { texts }) =>
      findDeadlined.all({ queue, without: '[]', limit }).map((row) => toJob(row, texts)),
    )
  }

  // ---- Events, and the server's own life ----

  eventsAfter(sequence: number, limit: number): Promise<StoredEvent[]> {
    return this.#read(({ findEventsAfter }) => findEventsAfter.all(sequence, limit).map(toEvent))
  }

  eventsAmong({ above, below, types, limit, order }: LogPart): Promise<StoredEvent[]> {
    const asked = { above, below, types: JSON.stringify(types), limit }
    return this.#read(({ findEventsAmong, findLastEventsAmong }) =>
      (order === 'oldest' ? findEventsAmong : findLastEventsAmong).all(asked).map(toEvent),
    )
  }

  event(sequence: number): Promise<StoredEvent | null> {
    return this.#read(({ findEvent }) => one(findEvent.get(sequence), toEvent))
  }

  eventBounds(): Promise<{ first: number; last: number }> {
    return this.#read((_, { numbers: { firstEvent, lastEvent } }) => ({
      first: lastEvent === 0 ? 0 : firstEvent,
      last: lastEvent,
    }))
  }

  life(): Promise<Life> {
    return this.#read((_, { life }) => life)
  }

  // ---- Everything, for a copy ----

  sizes(): Promise<Sizes> {
    return this.#read(({ sizes }) => toSizes(sizes.get() ?? [0, 0, 0, 0, 0, 0, 0, 0, 0]))
  }

  jobsAfter(id: string | null, limit: number): Promise<Job[]> {
    return this.#read(({ jobsAfter }, { texts }) => jobsAfter.all(id ?? '', limit).map((row) => toJob(row, texts)))
  }

  checkpointsAfter(jobId: string | null, limit: number): Promise<Checkpoint[]> {
    return this.#read(({ checkpointsAfter }) => checkpointsAfter.all(jobId ?? '', limit).map(toCheckpoint))
  }

  docsAfter(name: DocName | null, limit: number): Promise<Doc[]> {
    return this.#read(({ docsAfter }) => docsAfter.all(name?.kind ?? '', name?.id ?? '', limit).map(toDoc))
  }

  noticesAfter(place: number, limit: number): Promise<(WorkerNotice & { place: number })[]> {
    return this.#read(({ noticesAfter }) =>
      noticesAfter.all(place, limit).map((row) => ({ ...toNotice(row), place: row[5] })),
    )
  }

  tombstonesAfter(place: number, limit: number): Promise<{ place: number; id: string }[]> {
    return this.#read(({ tombstonesAfter }) => tombstonesAfter.all(place, limit).map(([at, id]) => ({ place: at, id })))
  }

  async inboxAfter(): Promise<[]> {
    return []
  }

  async refusedAfter(): Promise<[]> {
    return []
  }

  isHalfRestored(): Promise<boolean> {
    return this.#read(isHalfRestored)
  }

  async restore(batch: Batch, more: boolean): Promise<void> {
    const { durable } = await this.#turns.take(async () => {
      const session = this.#ready()
      const { begin, commit } = session.statements
      this.#attempt(() => begin.run())
      try {
        this.#attempt(() => {
          restoreBatch(session, batch, more)
          commit.run()
        })
        session.keep()
        return { durable: this.#durable(session, true) }
      } catch (error) {
        this.#rollBack(session)
        throw error
      }
    })
    await durable
  }

  // ---- The store itself ----

  /** Asks for the right to write, because a database that is locked or read-only still answers readers. */
  ping(): Promise<void> {
    return this.transaction(async () => ({ value: undefined, changes: NO_CHANGES })).then(() => {})
  }

  reset(): Promise<void> {
    return this.#turns.take(async () => {
      const session = this.#ready()
      try {
        this.#attempt(() => session.db.exec(RESET))
        session.sync?.close()
        this.#session = this.#attempt(() => new Session(session.db, this.#openSync))
      } catch (error) {
        this.#rollBack(session)
        throw error
      }
    })
  }

  close(): Promise<void> {
    return this.#turns.take(async () => {
      if (this.#closed) return
      this.#closed = true
      await this.#session.sync?.settled().catch(() => {})
      this.#session.close()
      this.#lock?.close()
    })
  }

  /** A caller may pass on what it reads, so an answer waits until what it shows is on the disk. */
  async #read<T>(run: (statements: Statements, session: Session) => T): Promise<T> {
    const { found, durable } = await this.#turns.take(async () => {
      const session = this.#ready()
      return { found: this.#attempt(() => run(session.statements, session)), durable: this.#durable(session, false) }
    })
    await durable
    return found
  }

  /** The same for reads that are made of several; nothing is written between them. */
  async #readInSteps<T>(run: (session: Session) => Promise<T>): Promise<T> {
    const { found, durable } = await this.#turns.take(async () => {
      const session = this.#ready()
      try {
        return { found: await run(session), durable: this.#durable(session, false) }
      } catch (error) {
        return this.#attempt(() => {
          throw error
        })
      }
    })
    await durable
    return found
  }

  /** What was committed stays committed, whether or not this can be read. */
  #nextWakeAt({ statements, remembered }: Session): Instant | null | undefined {
    const { jobWake, workerWake, docWake } = remembered
    try {
      return this.#attempt(() => {
        if (jobWake.at === undefined) jobWake.at = statements.nextJobWake.get() ?? null
        if (workerWake.at === undefined) workerWake.at = statements.nextWorkerWake.get() ?? null
        if (docWake.at === undefined) docWake.at = statements.nextDocWake.get() ?? null
        return earliest(earliest(jobWake.at, workerWake.at), docWake.at)
      })
    } catch {
      return undefined
    }
  }

  /** When what was committed so far is on the disk. */
  #durable({ sync }: Session, hasSaved: boolean, isAlone = false): Promise<void> {
    if (sync === null) return DONE
    const synced = hasSaved ? sync.committed(isAlone) : sync.settled()
    return synced.catch((error: unknown) => {
      this.#stale = true
      throw unavailable(error, this.#session.db.name)
    })
  }

  #ready(): Session {
    if (this.#closed) throw new StoreUnavailable('it is closed', undefined)
    if (this.#stale) {
      this.#session.close()
      try {
        this.#session = new Session(this.#connect(true), this.#openSync)
      } catch (error) {
        if (isDamage(error)) throw damaged(this.#session.db.name, error)
        // Whatever hinders opening it, the file was ours a moment ago: it may come back.
        throw new StoreUnavailable(troubleOf(error)?.reason ?? 'the database file cannot be opened', error)
      }
      this.#stale = false
    }
    return this.#session
  }

  #attempt<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      // A database in memory would be lost with its connection.
      if (troubleOf(error)?.reconnect === true && !this.#session.db.memory) this.#stale = true
      throw unavailable(error, this.#session.db.name)
    }
  }

  /** SQLite may have done it by itself. */
  #rollBack(session: Session): void {
    try {
      if (session.db.inTransaction) session.statements.rollback.run()
      session.forget()
    } catch {
      // Nothing is committed by a connection that is closed, and the next call begins with a fresh one.
      this.#stale = !session.db.memory
    }
  }
}

const DONE = Promise.resolve()

function nextWakeOf(statements: Statements): Instant | null {
  return earliest(statements.nextWorkerWake.get() ?? null, nextWorkOf(statements))
}

function nextWorkOf({ nextJobWake, nextDocWake }: Statements): Instant | null {
  return earliest(nextJobWake.get() ?? null, nextDocWake.get() ?? null)
}

function one<Row, Found>(row: Row | undefined, to: (row: Row) => Found): Found | null {
  return row === undefined ? null : to(row)
}
