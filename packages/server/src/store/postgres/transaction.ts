/**
 * One transaction's view of the store: finds, and the save. It is over when it ends, or with the first error.
 *
 * It begins with what is asked first, and what is asked for together travels together. A save does not wait: whatever
 * comes after it, the commit included, is executed after it, or not at all if it failed.
 */
import {
  type Checkpoint,
  type Doc,
  type DocName,
  type Instant,
  type Job,
  JOB_STATES,
  type JobState,
  type Owner,
  TAIL,
  type TypePolicy,
  type Worker,
} from '@curfew/core'
import { noJobs, ownerText } from '../records.ts'
import {
  type Batch,
  type Changes,
  type Claimable,
  type Ended,
  type EventRetention,
  type Life,
  type Queue,
  RowsMoved,
  type StateCounts,
  StoreUnavailable,
  type Transaction,
  type WorkerNotice,
} from '../store.ts'
import { codeOf, isLoss, told } from './connection.ts'
import { inOrder, ofThese } from './in-order.ts'
import { type Looked, type Looking, type LookRow, toLooked } from './look.ts'
import { Reliance } from './reliance.ts'
import { restoreBatch } from './restore.ts'
import {
  type CheckpointRow,
  columnsOf,
  docName,
  type DocRow,
  exact,
  type JobRow,
  listOf,
  type NoticeRow,
  original,
  rangeUnder,
  toCheckpoint,
  toDoc,
  toJob,
  toNotice,
  toWorker,
  unknownToJobs,
  unknownToWorkers,
  type WorkerRow,
} from './rows.ts'
import { Pending, saveRest, saveRows } from './save.ts'
import type { Session } from './session.ts'
import * as sql from './statements.ts'
import type { Answer, Statement, Wire } from './wire.ts'

/** So many names are locked one by one. A transaction that needs more locks them all: locks have to fit into the database's memory. */
export const MOST_NAMES = 500

export class PostgresTransaction implements Transaction {
  readonly #wire: Wire
  readonly #session: Session
  readonly #retention: EventRetention
  readonly #pending = new Pending()
  readonly #patienceMs: number | null
  readonly #names = new Set<string>()
  readonly #reliance: Reliance | null
  readonly #saved: Changes[] = []
  #looking: Looking | null = null
  #begun = false
  /** What went wrong first; what went wrong after it only tells that something had. */
  #failure: Error | null = null
  #over: Error | null = null

  /** `patienceMs`: how long it may be silent, if not as long as usual. `relies`: on what the store remembers. */
  constructor(wire: Wire, session: Session, retention: EventRetention, patienceMs: number | null, relies = false) {
    this.#reliance = relies ? new Reliance(session.lastLook) : null
    this.#patienceMs = patienceMs
    this.#wire = wire
    this.#session = session
    this.#retention = retention
  }

  async lockNames(names: readonly string[]): Promise<void> {
    const fresh = names.filter((name) => !this.#names.has(name))
    if (fresh.length === 0) return
    for (const name of fresh) this.#names.add(name)
    const { namesLock } = this.#session
    if (this.#names.size > MOST_NAMES) {
      await this.#ask(sql.LOCK_NAMES, [listOf([namesLock])])
      return
    }
    const shared = this.#ask(sql.SHARE_NAMES, [namesLock])
    await Promise.all([shared, this.#ask(sql.LOCK_NAMES, [listOf(this.#session.nameLocks(fresh))])])
  }

  async seeLife(): Promise<Life> {
    return this.#memory?.onLife() ?? (await this.#look()).life
  }

  async findWorkers(ids: readonly string[]): Promise<Worker[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#workers(sql.LOCK_WORKERS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async seeWorkers(ids: readonly string[]): Promise<Worker[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#workers(sql.SEE_WORKERS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async findJobs(ids: readonly string[], areFree = false): Promise<Job[]> {
    if (ids.length === 0) return []
    if (areFree && this.#memory !== null) {
      this.#memory.onFree(ids)
      return []
    }
    const { active } = this.#session
    const known = new Map(ids.flatMap((id) => pairOf(id, active.get(id))))
    const found =
      2 * known.size < ids.length
        ? await this.#jobs(sql.LOCK_JOBS, [listOf(ids.map(exact))])
        : await this.#lockRemembered(ids, known)
    return inOrder(ids, found, ({ id }) => id)
  }

  /**
   * Locks all rows with one statement, in the order of their ids. A row that is still what was committed here need not be
   * read again; the others are read by a statement that begins when all are locked.
   */
  async #lockRemembered(ids: readonly string[], known: ReadonlyMap<string, Job>): Promise<Job[]> {
    const [{ rows }, read] = await Promise.all([
      this.#ask<LockedRow>(sql.LOCK_JOB_VERSIONS, [listOf(ids.map(exact))]),
      this.seeJobs(ids.filter((id) => !known.has(id))),
    ])
    const locked = new Set<string>()
    const jobs: Job[] = []
    const moved: string[] = []
    for (const [name, version, seq, createdAt] of rows) {
      const id = original(name)
      const job = known.get(id)
      locked.add(id)
      if (job === undefined) continue
      if (job.version === version && job.seq === seq && job.createdAt === createdAt) jobs.push(job)
      else moved.push(id)
    }
    // A job that was added between the two statements is not locked. Adding it again meets the duplicate key.
    jobs.push(...read.filter(({ id }) => locked.has(id)), ...(await this.seeJobs(moved)))
    return jobs
  }

  async seeJobs(ids: readonly string[]): Promise<Job[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#jobs(sql.SEE_JOBS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async findHeldBy(workerId: string): Promise<Job[]> {
    return this.#jobs(sql.LOCK_HELD_BY, [exact(workerId)])
  }

  async seeHeldBy(workerId: string): Promise<string[]> {
    const { rows } = await this.#ask<readonly [string]>(sql.SEE_HELD_BY, [exact(workerId)])
    return rows.map(([id]) => original(id))
  }

  async findClaimable({ queue, limit, order, tenant, without }: Claimable): Promise<Job[]> {
    const values = [exact(queue), limit]
    if (order === 'fifo' && tenant === null && without.length === 0) return this.#jobs(sql.LOCK_CLAIMABLE, values)
    const filtered = [...values, listOf(without.map(exact))]
    if (tenant === null) {
      return this.#jobs(order === 'edf' ? sql.LOCK_BY_DEADLINE : sql.LOCK_CLAIMABLE_WITHOUT, filtered)
    }
    const ofTenant = order === 'edf' ? sql.LOCK_BY_DEADLINE_OF_TENANT : sql.LOCK_CLAIMABLE_OF_TENANT
    return this.#jobs(ofTenant, [...filtered, exact(tenant)])
  }

  async findOldestAvailable(queue: string, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LOCK_OLDEST_AVAILABLE, [exact(queue), limit])
  }

  async findOwned(owner: Pick<Owner, 'kind' | 'id'>, open: boolean, limit: number): Promise<Job[]> {
    return this.#jobs(open ? sql.LOCK_OWNED_OPEN : sql.LOCK_OWNED, [exact(ownerText(owner)), limit])
  }

  async findUnique(key: string, states: readonly JobState[], limit: number): Promise<Job[]> {
    return this.#jobs(sql.LOCK_UNIQUE, [exact(key), listOf(states), limit])
  }

  async findDueJobs(now: Instant, limit: number): Promise<Job[]> {
    return (await this.#isDue('jobs', now)) ? this.#jobs(sql.LOCK_DUE_JOBS, [now, limit]) : []
  }

  async findDueWorkers(now: Instant, limit: number): Promise<Worker[]> {
    return (await this.#isDue('workers', now)) ? this.#workers(sql.LOCK_DUE_WORKERS, [now, limit]) : []
  }

  async findDueDocs(now: Instant, limit: number): Promise<Doc[]> {
    return (await this.#isDue('docs', now)) ? this.#docs(sql.LOCK_DUE_DOCS, [now, limit]) : []
  }

  /**
   * Most of the time nothing is due, and one statement says so of all three kinds. When something may be, each kind is
   * looked for at once; when only the database knew, with the next round trip. Either way rows of others are skipped, so
   * that it does not matter what was locked before.
   */
  #isDue(kind: keyof Looked['next'], now: Instant): true | Promise<boolean> {
    if (this.#session.mayBeDue(now)) return true
    if (this.#memory !== null && this.#session.knowsNothingDue(now)) {
      this.#memory.onNothingDueAt(now)
      return Promise.resolve(false)
    }
    return this.#look().then(({ next }) => {
      const at = next[kind]
      return at !== null && at <= now
    })
  }

  async findDocs(names: readonly DocName[]): Promise<Doc[]> {
    return this.#docsNamed(sql.LOCK_DOCS, names)
  }

  async seeDocs(names: readonly DocName[]): Promise<Doc[]> {
    return this.#docsNamed(sql.SEE_DOCS, names)
  }

  async seeDocsUnder(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]> {
    const [statement, values] = docsUnder(kind, prefix, after, limit)
    return this.#docs(statement, values)
  }

  /** What it has saved itself is counted at its end, and so not there yet. */
  async seeCounts(queues: readonly string[]): Promise<Map<string, StateCounts>> {
    if (queues.length === 0) return new Map()
    const { tally } = this.#pending
    const counts = new Map(queues.map((queue) => [queue, noJobs()]))
    for (const [queue, numbers] of counts) {
      for (const state of JOB_STATES) numbers[state] = tally.added(queue, state)
    }
    const values = [listOf(queues.map(exact)), listOf(JOB_STATES)]
    const { rows } = await this.#ask<readonly [string, JobState, number]>(sql.COUNTS_OF, values)
    for (const [queue, state, n] of rows) {
      const numbers = counts.get(original(queue))
      if (numbers !== undefined) numbers[state] += n
    }
    return counts
  }

  async seeLimited(keys: readonly string[]): Promise<Map<string, number>> {
    if (keys.length === 0) return new Map()
    const values = [listOf(keys.map(exact)), 'active']
    const { rows } = await this.#ask<readonly [string, number]>(sql.COUNT_LIMITED, values)
    return new Map(rows.map(([key, n]) => [original(key), n]))
  }

  async findDeadLettersBeyond(keep: number, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LOCK_DEAD_LETTERS_BEYOND, [keep, limit, this.#pending.tally.deadLetters])
  }

  async seeQueues(names: readonly string[]): Promise<Queue[]> {
    if (names.length === 0) return []
    const known = this.#memory?.onQueues(names) ?? null
    if (known !== null) return known
    const { queues } = await this.#look(names)
    return ofThese(names, queues, ({ name }) => name)
  }

  async seeTypes(types: readonly string[]): Promise<TypePolicy[]> {
    if (types.length === 0) return []
    const known = this.#memory?.onTypes(types) ?? null
    if (known !== null) return known
    const { types: policies } = await this.#look([], types)
    return ofThese(types, policies, ({ type }) => type)
  }

  async findCheckpoints(jobIds: readonly string[]): Promise<Checkpoint[]> {
    if (jobIds.length === 0) return []
    const { rows } = await this.#ask<CheckpointRow>(sql.FIND_CHECKPOINTS, [listOf(jobIds.map(exact))])
    return inOrder(jobIds, rows.map(toCheckpoint), ({ jobId }) => jobId)
  }

  async findNotices(workerIds: readonly string[], newest: number): Promise<WorkerNotice[]> {
    if (workerIds.length === 0) return []
    const { rows } = await this.#ask<NoticeRow>(sql.FIND_NOTICES, [listOf(workerIds.map(exact)), newest])
    return rows.map(toNotice)
  }

  async findInbox(limit: number, largest: number): Promise<{ id: string; body: string | null }[]> {
    const { rows } = await this.#ask<readonly [string, string | null]>(sql.LOCK_INBOX, [limit, largest])
    return rows.map(([id, body]) => ({ id, body }))
  }

  /** Its events wait for the end of the transaction: only then is their place in the log known. */
  async save(changes: Changes): Promise<void> {
    this.#save(changes)
  }

  /**
   * Writes what is left and commits. Nothing may use it any more. The next wake is asked for before the commit, so that
   * the commit is the last answer to wait for; later commits of other servers arrive as news (`session.ts`).
   */
  async close(changes: Changes): Promise<Pick<Ended<null>, 'events' | 'nextWakeAt'>> {
    if (this.#failure !== null) throw this.#failure
    if (this.#wire.loss !== null) throw told(this.#wire.loss)
    this.#save(changes)
    this.#session.askNextWake()
    if (!this.#begun && this.#pending.isEmpty && (this.#reliance?.values() ?? null) === null) {
      this.#over = new Error('the transaction is over')
      return { events: [], nextWakeAt: await this.#nextWake() }
    }
    const { events } = this.#pending
    const finished = saveRest(this.#send.bind(this), this.#session, this.#retention, this.#pending)
    finished.catch(() => {})
    const committed = this.#commit()
    this.#over = new Error('the transaction is over')
    await committed
    this.#remember()
    const { logged, nextWakeAt } = await finished
    const before = (this.#session.seeLog(logged) ?? 0) - events.length
    return {
      events: events.map((event, index) => ({ sequence: before + index + 1, ...event })),
      nextWakeAt: this.#session.seeNextWake(nextWakeAt),
    }
  }

  /** What was committed is what others find, until they write it. A place at the tail is not known here. */
  #remember(): void {
    const { active, lastLook } = this.#session
    for (const changes of this.#saved) lastLook.committed(changes)
    for (const { before, after } of this.#pending.jobs) {
      if (after === null || after.seq === TAIL) active.forget((after ?? before)?.id ?? '')
      else active.wrote(after, (before?.version ?? 0) + 1, after.seq)
    }
  }

  async #nextWake(): Promise<Instant | null | undefined> {
    try {
      const { rows } = await this.#wire.query<readonly [Instant | null]>(sql.NEXT_WAKE)
      return this.#session.seeNextWake(rows[0]?.[0] ?? null)
    } catch {
      return undefined
    }
  }

  /** Writes the records of another store and commits. Nothing may use it any more. */
  async restore(batch: Batch, more: boolean): Promise<void> {
    const logged = await restoreBatch(this.#send.bind(this), this.#session, batch, more)
    if (this.#failure !== null) throw this.#failure
    await this.#commit()
    this.#over = new Error('the transaction is over')
    this.#session.active.clear()
    this.#session.lastLook.clear()
    this.#session.seeLog(logged)
  }

  /** It failed, or its work did. The next statement on the connection comes after this. */
  abandon(): void {
    this.#over ??= this.#failure ?? new Error('the transaction was rolled back')
    if (!this.#begun || this.#wire.lost) return
    this.#wire.sync() // whatever was sent just now may fail, and must not take this along
    this.#wire.query(sql.ROLLBACK).catch(() => {})
  }

  #save(changes: Changes): void {
    if (this.#over !== null) throw this.#over
    if (this.#failure !== null) throw this.#failure
    try {
      this.#pending.add(changes)
      this.#saved.push(changes)
      saveRows(this.#send.bind(this), this.#session, changes)
    } catch (error) {
      throw (this.#failure ??= error as Error)
    }
  }

  async #commit(): Promise<void> {
    const committed = this.#wire.query(sql.COMMIT)
    let answer: Answer
    try {
      answer = await committed
      this.#begun = false
    } catch (error) {
      // It was not executed if a statement before it failed: then the transaction waits for its end (`abandon`).
      // An error that the database told before has ended the transaction. Without a word, the outcome is unknown.
      if (this.#failure !== null && !(this.#failure instanceof Lost)) throw this.#failure
      if (isLoss(error)) {
        throw new StoreUnavailable('the connection was lost while committing, and the outcome is unknown', error)
      }
      throw told(error)
    }
    if (this.#failure !== null) throw this.#failure
    if (answer.command !== 'COMMIT') throw new RowsMoved('the transaction was rolled back')
  }

  /** What may be relied on, as long as nothing was asked. */
  get #memory(): Reliance | null {
    if (this.#begun || this.#over !== null) return null
    return this.#reliance?.isPossible === true ? this.#reliance : null
  }

  /** What is looked for in one turn is one statement, sent with everything else. */
  async #look(queues: readonly string[] = [], types: readonly string[] = []): Promise<Looked> {
    if (this.#over !== null) throw this.#over
    if (this.#failure !== null) throw this.#failure
    this.#looking ??= this.#startLooking()
    for (const name of queues) this.#looking.queues.add(name)
    for (const type of types) this.#looking.types.add(type)
    return this.#looking.looked
  }

  #startLooking(): Looking {
    const [queues, types] = [new Set<string>(), new Set<string>()]
    const { lastLook } = this.#session
    const looked = new Promise<Looked>((resolve, reject) => {
      this.#begin()
      this.#wire.beforeWriting(() => {
        this.#looking = null
        if (this.#over !== null) reject(this.#over)
        else
          this.#send<LookRow>(sql.LOOK, [listOf(Array.from(queues, exact)), listOf(Array.from(types, exact))]).then(
            ({ rows }) => {
              const seen = toLooked(rows)
              if (this.#saved.length === 0) lastLook.saw(seen, queues, types)
              resolve(seen)
            },
            reject,
          )
      })
    })
    looked.catch(() => {})
    return { queues, types, looked }
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    this.#track(this.#wire.query(sql.BEGIN)).catch(() => {})
    if (this.#patienceMs !== null) void this.#send(sql.BE_PATIENT, [`${String(this.#patienceMs)}ms`])
    const reliedOn = this.#reliance?.values() ?? null
    if (reliedOn !== null) void this.#send(sql.EXPECT_UNCHANGED, reliedOn)
  }

  /** Sends a statement whose failure is the transaction's. */
  #send<Row>(statement: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    this.#begin()
    const answer = this.#track(this.#wire.query<Row>(statement, values))
    answer.catch(() => {})
    return answer
  }

  async #ask<Row>(statement: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    if (this.#over !== null) throw this.#over
    if (this.#failure !== null) throw this.#failure
    return this.#send<Row>(statement, values)
  }

  async #track<Row>(answer: Promise<Answer<Row>>): Promise<Answer<Row>> {
    try {
      return await answer
    } catch (error) {
      // A connection that is gone refuses all that comes after; why it went was told before.
      const reason = codeOf(error) === null && this.#wire.loss !== null ? this.#wire.loss : error
      throw (this.#failure ??= failureOf(reason))
    }
  }

  async #jobs(statement: Statement, values: readonly unknown[]): Promise<Job[]> {
    const { texts } = this.#session
    const { rows } = await this.#ask<JobRow>(statement, values)
    await this.#learn(unknownToJobs(rows, texts))
    return rows.map((row) => toJob(row, texts))
  }

  async #workers(statement: Statement, values: readonly unknown[]): Promise<Worker[]> {
    const { texts } = this.#session
    const { rows } = await this.#ask<WorkerRow>(statement, values)
    await this.#learn(unknownToWorkers(rows, texts))
    return rows.map((row) => toWorker(row, texts))
  }

  async #docs(statement: Statement, values: readonly unknown[]): Promise<Doc[]> {
    const { rows } = await this.#ask<DocRow>(statement, values)
    return rows.map(toDoc)
  }

  async #docsNamed(statement: Statement, names: readonly DocName[]): Promise<Doc[]> {
    if (names.length === 0) return []
    const keyOf = ({ kind, id }: DocName): string => `${kind}/${id}`
    const once = new Map(names.map((name) => [keyOf(name), name]))
    const docs = await this.#docs(statement, columnsOf([...once.values()].map(docName), 2))
    return inOrder([...once.keys()], docs, keyOf)
  }

  async #learn(places: readonly number[]): Promise<void> {
    if (places.length === 0) return
    const { rows } = await this.#ask<readonly [number, string]>(sql.FIND_TEXTS, [listOf(places)])
    this.#session.texts.learn(rows)
  }
}

/** How the documents of a kind whose ids begin with this are asked for. */
export function docsUnder(
  kind: string,
  prefix: string,
  after: string | null,
  limit: number,
): [statement: Statement, values: readonly unknown[]] {
  const [from, below] = rangeUnder(prefix, after)
  const values = [exact(kind), from, limit]
  return below === null ? [sql.DOCS_FROM, values] : [sql.DOCS_BETWEEN, [...values, below]]
}

/** What tells whether a job's row is the one that is remembered. A place is never given twice. */
type LockedRow = readonly [id: string, version: number, seq: number, createdAt: Instant]

const pairOf = (id: string, job: Job | undefined): [string, Job][] => (job === undefined ? [] : [[id, job]])

/** The connection went without a word: it is unknown whether the last thing sent was done. */
class Lost extends StoreUnavailable {}

function failureOf(error: unknown): Error {
  const failure = told(error) as Error
  return failure instanceof StoreUnavailable && codeOf(error) === null ? new Lost(failure.reason, error) : failure
}
