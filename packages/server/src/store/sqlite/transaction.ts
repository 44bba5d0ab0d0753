/** One transaction's view of the store: finds, and the save. It is over when it ends, or with the first error. */
import type { Checkpoint, Doc, DocName, Instant, Job, JobState, Owner, TypePolicy, Worker } from '@curfew/core'
import { datedFirst, isNothing } from '../store.ts'
import type {
  Changes,
  Claimable,
  EventRetention,
  Life,
  Queue,
  StateCounts,
  StoredEvent,
  Transaction,
  WorkerNotice,
} from '../store.ts'
import { above, noJobs, ownerText } from '../records.ts'
import {
  exact,
  toCheckpoint,
  toDoc,
  toJob,
  toNotice,
  toQueue,
  toTypePolicy,
  toWorker,
  type JobRow,
  type WorkerRow,
} from './rows.ts'
import type { Rows } from '../remembered-rows.ts'
import { saveChanges } from './save.ts'
import type { Session } from './session.ts'
import type { Statements, Wanted } from './prepared.ts'

/** Runs a piece of work on the database and turns its troubles into StoreUnavailable. */
export type Attempt = <T>(run: () => T) => T

export class SqliteTransaction implements Transaction {
  readonly #session: Session
  readonly #events: EventRetention
  readonly #attempt: Attempt
  /** What it has added to the log. */
  readonly appended: StoredEvent[] = []
  #hasSaved = false
  #saves = 0
  /** What went wrong in it, or that it is over: it is asked for every transaction, and hardly ever told. */
  #over: Error | 'over' | 'rolled back' | null = null

  constructor(session: Session, events: EventRetention, attempt: Attempt) {
    this.#session = session
    this.#events = events
    this.#attempt = attempt
  }

  async seeLife(): Promise<Life> {
    return this.#use(({ life }) => life)
  }

  async findJobs(ids: readonly string[]): Promise<Job[]> {
    return this.#use(({ statements, texts, remembered }) =>
      each(ids, (id) => {
        const known = remembered.active.get(id)
        if (known !== undefined) return known ?? undefined
        const row = statements.findJob.get(id)
        return row === undefined ? undefined : toJob(row, texts)
      }),
    )
  }

  seeJobs(ids: readonly string[]): Promise<Job[]> {
    return this.findJobs(ids)
  }

  /** One writer: a name is locked with everything else. */
  async lockNames(): Promise<void> {}

  async findClaimable({ queue, limit, order, tenant, without }: Claimable): Promise<Job[]> {
    if (order === 'fifo' && tenant === null && without.length === 0)
      return this.#jobs(({ findClaimable }) => findClaimable.all(queue, limit))
    const wanted = { queue, without: JSON.stringify(without), limit }
    return order === 'fifo' ? this.#inSequence(wanted, tenant) : this.#byDeadline(wanted, tenant)
  }

  #inSequence(wanted: Wanted, tenant: string | null): Job[] {
    return this.#jobs(({ findClaimableWithout, findClaimableOfTenant }) =>
      tenant === null ? findClaimableWithout.all(wanted) : findClaimableOfTenant.all({ ...wanted, tenant }),
    )
  }

  #byDeadline(wanted: Wanted, tenant: string | null): Job[] {
    const { limit } = wanted
    const dated = this.#jobs(({ findDeadlined, findDeadlinedOfTenant }) =>
      tenant === null ? findDeadlined.all(wanted) : findDeadlinedOfTenant.all({ ...wanted, tenant }),
    )
    // When there are enough with a deadline, those without matter only above the lowest priority among them.
    const above = dated.length < limit ? LOWEST : (dated.at(-1)?.priority ?? LOWEST)
    const undated = this.#jobs(({ findUndated, findUndatedOfTenant }) =>
      tenant === null ? findUndated.all({ ...wanted, above }) : findUndatedOfTenant.all({ ...wanted, above, tenant }),
    )
    return datedFirst(dated, undated, limit)
  }

  async findOldestAvailable(queue: string, limit: number): Promise<Job[]> {
    return this.#jobs(({ findOldestAvailable }) => findOldestAvailable.all({ queue, limit }))
  }

  async findOwned(owner: Pick<Owner, 'kind' | 'id'>, open: boolean, limit: number): Promise<Job[]> {
    const asked = { owner: ownerText(owner), after: '', limit }
    return this.#jobs(({ findOwned, findOwnedOpen }) => (open ? findOwnedOpen : findOwned).all(asked))
  }

  async findUnique(key: string, states: readonly JobState[], limit: number): Promise<Job[]> {
    return this.#jobs(({ findUnique }) => findUnique.all({ key, states: JSON.stringify(states), limit }))
  }

  async findDueDocs(now: Instant, limit: number): Promise<Doc[]> {
    return this.#use(({ statements }) => statements.findDueDocs.all(now, limit).map(toDoc))
  }

  async findDocs(names: readonly DocName[]): Promise<Doc[]> {
    const once = new Map(names.map((name) => [`${name.kind}/${name.id}`, name])).values()
    return this.#use(({ statements }) => each([...once], ({ kind, id }) => statements.findDoc.get(kind, id)).map(toDoc))
  }

  seeDocs(names: readonly DocName[]): Promise<Doc[]> {
    return this.findDocs(names)
  }

  async seeDocsUnder(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]> {
    return this.#use(({ statements }) => docsUnder(statements, kind, prefix, after, limit))
  }

  async seeCounts(queues: readonly string[]): Promise<Map<string, StateCounts>> {
    return this.#use(({ statements }) => countsOf(statements, queues))
  }

  async seeLimited(keys: readonly string[]): Promise<Map<string, number>> {
    return this.#use(({ statements }) => {
      const held = new Map<string, number>()
      for (const key of keys) {
        const n = statements.countLimited.get({ key, state: 'active' }) ?? 0
        if (n > 0) held.set(key, n)
      }
      return held
    })
  }

  async findHeldBy(workerId: string): Promise<Job[]> {
    return this.#jobs(({ findHeldBy }) => findHeldBy.all(exact(workerId)))
  }

  async findDueJobs(now: Instant, limit: number): Promise<Job[]> {
    return this.#jobs(({ findDueJobs }) => findDueJobs.all(now, limit))
  }

  async seeHeldBy(workerId: string): Promise<string[]> {
    return this.#use(({ statements }) => statements.seeHeldBy.all(exact(workerId)))
  }

  async findWorkers(ids: readonly string[]): Promise<Worker[]> {
    return this.#use(({ statements, texts, remembered: { workers } }) =>
      remembering(
        workers,
        ids,
        (id) => statements.findWorker.get(exact(id)),
        (row) => toWorker(row, texts),
      ),
    )
  }

  seeWorkers(ids: readonly string[]): Promise<Worker[]> {
    return this.findWorkers(ids)
  }

  async findDueWorkers(now: Instant, limit: number): Promise<Worker[]> {
    return this.#workers(({ findDueWorkers }) => findDueWorkers.all(now, limit))
  }

  async seeQueues(names: readonly string[]): Promise<Queue[]> {
    return this.#use(({ statements, remembered: { queues } }) =>
      remembering(queues, names, (name) => statements.findQueue.get(name), toQueue),
    )
  }

  async seeTypes(types: readonly string[]): Promise<TypePolicy[]> {
    return this.#use(({ statements, remembered }) =>
      remembering(remembered.types, types, (type) => statements.findType.get(type), toTypePolicy),
    )
  }

  async findCheckpoints(jobIds: readonly string[]): Promise<Checkpoint[]> {
    return this.#use(({ statements }) => each(jobIds, (id) => statements.findCheckpoint.get(id)).map(toCheckpoint))
  }

  async findNotices(workerIds: readonly string[], newest: number): Promise<WorkerNotice[]> {
    return this.#use(({ statements }) =>
      workerIds.flatMap((id) => statements.findNotices.all(exact(id), newest).reverse().map(toNotice)),
    )
  }

  /** One server per file: no application could have laid anything down. */
  async findInbox(): Promise<[]> {
    return []
  }

  async findDeadLettersBeyond(keep: number, limit: number): Promise<Job[]> {
    return this.#jobs(({ countDeadLetters, findOldestDeadLetters }) => {
      const beyond = (countDeadLetters.get({ queue: null }) ?? 0) - keep
      return beyond <= 0 ? [] : findOldestDeadLetters.all(Math.min(beyond, limit))
    })
  }

  /** Whether what it writes came in many parts. */
  get isLong(): boolean {
    return this.#saves > LONG
  }

  /** Whether there is something to be brought to the disk. */
  get hasSaved(): boolean {
    return this.#hasSaved
  }

  async save(changes: Changes): Promise<void> {
    if (!this.#hasSaved && !isNothing(changes)) this.#hasSaved = true
    this.#saves += 1
    for (const event of this.#use((session) => saveChanges(session, this.#events, changes))) this.appended.push(event)
  }

  /** Nothing may use it any more. Throws what has gone wrong in it, should its work have swallowed that. */
  end(): void {
    this.#refuseIfOver()
    this.#over = 'over'
  }

  /** It failed, or its work did. */
  abandon(): void {
    this.#over ??= 'rolled back'
  }

  #jobs(find: (statements: Statements) => JobRow[]): Job[] {
    return this.#use(({ statements, texts }) => find(statements).map((row) => toJob(row, texts)))
  }

  #workers(find: (statements: Statements) => WorkerRow[]): Worker[] {
    return this.#use(({ statements, texts }) => find(statements).map((row) => toWorker(row, texts)))
  }

  #refuseIfOver(): void {
    if (this.#over === null) return
    if (this.#over instanceof Error) throw this.#over
    throw new Error(this.#over === 'over' ? 'the transaction is over' : 'the transaction was rolled back')
  }

  /** After an error SQLite may have rolled back by itself; what came next would then be written without a transaction. */
  #use<T>(run: (session: Session) => T): T {
    this.#refuseIfOver()
    try {
      return this.#attempt(() => run(this.#session))
    } catch (error) {
      this.#over = error instanceof Error ? error : new Error(String(error))
      throw this.#over
    }
  }
}

/** Transactions of more saves are long. */
const LONG = 2

/** Below every priority a job can have. */
const LOWEST = -1_000

/** To SQLite every text is less than any bytes. */
const ABOVE_ALL_TEXT = Buffer.alloc(0)

export function countsOf(statements: Statements, queues: readonly string[]): Map<string, StateCounts> {
  return new Map(
    queues.map((queue) => {
      const counts = noJobs()
      for (const [state, n] of statements.countsOf.all(queue)) counts[state] = n
      return [queue, counts]
    }),
  )
}

export function docsUnder(
  { findDocsBetween }: Statements,
  kind: string,
  prefix: string,
  after: string | null,
  limit: number,
): Doc[] {
  const to = above(prefix) ?? ABOVE_ALL_TEXT
  return findDocsBetween.all({ kind, from: prefix, after: after ?? '', to, limit }).map(toDoc)
}

/** What is not remembered is looked up, and remembered. */
function remembering<Row, Found>(
  rows: Rows<Found>,
  names: readonly string[],
  find: (name: string) => Row | undefined,
  to: (row: Row) => Found,
): Found[] {
  return each(names, (name) => {
    const known = rows.get(name)
    if (known !== undefined) return known ?? undefined
    const row = find(name)
    const found = row === undefined ? null : to(row)
    rows.put(name, found)
    return found ?? undefined
  })
}

/** In the order of asking, each once. */
function each<Key, Row>(keys: readonly Key[], find: (key: Key) => Row | undefined): Row[] {
  const found: Row[] = []
  for (const key of keys.length > 1 ? new Set(keys) : keys) {
    const row = find(key)
    if (row !== undefined) found.push(row)
  }
  return found
}
