/**
 * One transaction's view of the store: finds, and the save. It is over when it ends, or with the first error.
 *
 * It begins with what is asked first, and what is asked for together travels together. A save does not wait: whatever
 * comes after it, the commit included, is executed after it, or not at all if it failed.
 */
import type { Checkpoint, Instant, Job, Outage, TypePolicy, Worker } from '@curfew/core'
import { RowsMoved, StoreUnavailable } from '../store.ts'
import type {
  Batch,
  Changes,
  Claimable,
  Ended,
  EventRetention,
  Life,
  Queue,
  Transaction,
  WorkerNotice,
} from '../store.ts'
import { codeOf, isLoss, told, type Answer, type Statement, type Wire } from './connection.ts'
import { exact, listOf, toCheckpoint, toJob, toNotice, toQueue, toTypePolicy, toWorker } from './rows.ts'
import { unknownToJobs, unknownToWorkers } from './rows.ts'
import type { CheckpointRow, JobRow, NoticeRow, QueueRow, TypeRow, WorkerRow } from './rows.ts'
import { restoreBatch } from './restore.ts'
import { Pending, saveRest, saveRows } from './save.ts'
import type { Session } from './session.ts'
import * as sql from './statements.ts'

export class PostgresTransaction implements Transaction {
  readonly #wire: Wire
  readonly #session: Session
  readonly #retention: EventRetention
  readonly #pending = new Pending()
  readonly #patienceMs: number | null
  #begun = false
  /** What went wrong first; what went wrong after it only tells that something had. */
  #failure: Error | null = null
  #over: Error | null = null

  /** `patienceMs`: how long it may be silent, if not as long as usual. */
  constructor(wire: Wire, session: Session, retention: EventRetention, patienceMs: number | null) {
    this.#patienceMs = patienceMs
    this.#wire = wire
    this.#session = session
    this.#retention = retention
  }

  async seeLife(): Promise<Life> {
    const { rows } = await this.#ask<LifeRow>(sql.FIND_LIFE)
    return toLife(rows[0])
  }

  async findWorkers(ids: readonly string[]): Promise<Worker[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#workers(sql.LOCK_WORKERS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async seeWorkers(ids: readonly string[]): Promise<Worker[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#workers(sql.SEE_WORKERS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async findJobs(ids: readonly string[]): Promise<Job[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#jobs(sql.LOCK_JOBS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async seeJobs(ids: readonly string[]): Promise<Job[]> {
    if (ids.length === 0) return []
    return inOrder(ids, await this.#jobs(sql.SEE_JOBS, [listOf(ids.map(exact))]), ({ id }) => id)
  }

  async findHeldBy(workerId: string): Promise<Job[]> {
    return this.#jobs(sql.LOCK_HELD_BY, [exact(workerId)])
  }

  // prettier-ignore
  async findDueDocs(): Promise<[]> { return [] }
  lockNames = pending
  findOldestAvailable = pending
  findOwned = pending
  findUnique = pending
  findDocs = pending
  seeDocs = pending
  seeDocsUnder = pending
  seeCounts = pending
  seeLimited = pending

  async findClaimable({ queue, limit }: Claimable): Promise<Job[]> {
    return this.#jobs(sql.LOCK_CLAIMABLE, [exact(queue), limit])
  }

  async findDueJobs(now: Instant, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LOCK_DUE_JOBS, [now, limit])
  }

  async findDueWorkers(now: Instant, limit: number): Promise<Worker[]> {
    return this.#workers(sql.LOCK_DUE_WORKERS, [now, limit])
  }

  async findDeadLettersBeyond(keep: number, limit: number): Promise<Job[]> {
    return this.#jobs(sql.LOCK_DEAD_LETTERS_BEYOND, [keep, limit, this.#pending.tally.deadLetters])
  }

  async seeQueues(names: readonly string[]): Promise<Queue[]> {
    if (names.length === 0) return []
    const { rows } = await this.#ask<QueueRow>(sql.FIND_QUEUES, [listOf(names.map(exact))])
    return inOrder(names, rows.map(toQueue), ({ name }) => name)
  }

  async seeTypes(types: readonly string[]): Promise<TypePolicy[]> {
    if (types.length === 0) return []
    const { rows } = await this.#ask<TypeRow>(sql.FIND_TYPES, [listOf(types.map(exact))])
    return inOrder(types, rows.map(toTypePolicy), ({ type }) => type)
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

  /** Writes what is left and commits. Nothing may use it any more. What is asked last is asked of everybody's rows. */
  async close(changes: Changes): Promise<Pick<Ended<null>, 'events' | 'nextWakeAt'>> {
    if (this.#failure !== null) throw this.#failure
    if (this.#wire.loss !== null) throw told(this.#wire.loss)
    this.#save(changes)
    const { events } = this.#pending
    const ended = this.#begun || !this.#pending.isEmpty ? this.#end() : Promise.resolve(null)
    this.#over = new Error('the transaction is over')
    const nextWakeAt = this.#wire.query<readonly [Instant | null]>(sql.NEXT_WAKE).then(
      ({ rows }) => rows[0]?.[0] ?? null,
      () => undefined,
    )
    const before = ((await ended) ?? 0) - events.length
    return {
      events: events.map((event, index) => ({ sequence: before + index + 1, ...event })),
      nextWakeAt: await nextWakeAt,
    }
  }

  /** Gives the place of the last event it had, if any. */
  async #end(): Promise<number | null> {
    const logged = saveRest(this.#send.bind(this), this.#session, this.#retention, this.#pending)
    logged.catch(() => {})
    await this.#commit()
    return this.#session.seeLog(await logged)
  }

  /** Writes the records of another store and commits. Nothing may use it any more. */
  async restore(batch: Batch, more: boolean): Promise<void> {
    const logged = await restoreBatch(this.#send.bind(this), this.#session, batch, more)
    if (this.#failure !== null) throw this.#failure
    await this.#commit()
    this.#over = new Error('the transaction is over')
    this.#session.seeLog(logged)
  }

  /** It failed, or its work did. What comes next on the connection comes after this. */
  abandon(): void {
    this.#over ??= this.#failure ?? new Error('the transaction was rolled back')
    if (this.#begun && !this.#wire.lost) this.#wire.query(sql.ROLLBACK).catch(() => {})
  }

  #save(changes: Changes): void {
    if (this.#over !== null) throw this.#over
    if (this.#failure !== null) throw this.#failure
    try {
      this.#pending.add(changes)
      saveRows(this.#send.bind(this), this.#session, changes)
    } catch (error) {
      throw (this.#failure ??= error as Error)
    }
  }

  async #commit(): Promise<void> {
    const committed = this.#wire.query(sql.COMMIT)
    this.#begun = false // whatever becomes of it, it ends here
    let answer: Answer
    try {
      answer = await committed
    } catch (error) {
      // An error that the database told before has ended the transaction. Without a word, nobody knows.
      if (this.#failure !== null && !(this.#failure instanceof Lost)) throw this.#failure
      if (isLoss(error)) {
        throw new StoreUnavailable('the connection was lost while committing, and the outcome is unknown', error)
      }
      throw told(error)
    }
    if (this.#failure !== null) throw this.#failure
    if (answer.command !== 'COMMIT') throw new RowsMoved('the transaction was rolled back')
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    this.#track(this.#wire.query(sql.BEGIN)).catch(() => {})
    if (this.#patienceMs !== null) void this.#send(sql.BE_PATIENT, [`${String(this.#patienceMs)}ms`])
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

  async #learn(places: readonly number[]): Promise<void> {
    if (places.length === 0) return
    const { rows } = await this.#ask<readonly [number, string]>(sql.FIND_TEXTS, [listOf(places)])
    this.#session.texts.learn(rows)
  }
}

/** The connection went without a word: whether the last thing sent was done, nobody knows. */
class Lost extends StoreUnavailable {}

function failureOf(error: unknown): Error {
  const failure = told(error) as Error
  return failure instanceof StoreUnavailable && codeOf(error) === null ? new Lost(failure.reason, error) : failure
}

export type LifeRow = readonly [aliveAt: Instant | null, outages: string]

export function toLife(row: LifeRow | undefined): Life {
  return { aliveAt: row?.[0] ?? null, outages: JSON.parse(row?.[1] ?? '[]') as Outage[] }
}

/** In the order of asking, each once. */
function inOrder<Row>(keys: readonly string[], rows: Row[], keyOf: (row: Row) => string): Row[] {
  if (rows.length < 2) return rows
  const found = new Map(rows.map((row) => [keyOf(row), row]))
  return [...new Set(keys)].map((key) => found.get(key)).filter((row) => row !== undefined)
}

const pending = (): never => {
  throw new Error('not yet')
}
