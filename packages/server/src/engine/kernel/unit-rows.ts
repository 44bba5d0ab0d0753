/**
 * The rows of a unit of work: found once, looked at without waiting, and saved in one batch. `Unit` decides about them.
 *
 * Rows are loaded by name, all that the commands of a group need at once. Loading locks them; what is only seen (queues,
 * types, the holder of a job that is judged) is not locked. Searches by order (claimable, held, owned) must find what was
 * decided so far, so they save it first.
 */
import {
  broken,
  depthOf,
  type Checkpoint,
  type Doc,
  type DocKind,
  type DocName,
  type Instant,
  type Job,
  type Moment,
  type Notice,
  type Owner,
  type Transition,
  type TypePolicy,
  type Worker,
} from '@curfew/core'
import {
  NO_CHANGES,
  type Changes,
  type Claimable,
  type Life,
  type Queue,
  type StateCounts,
  type Transaction,
} from '../../store/store.ts'
import type { LongDocs } from './long-docs.ts'
import type { Fingerprint, Laid, Needs } from './needs.ts'
import { keyOf, open, writtenOut } from './open-doc.ts'
import { partsOf } from './parts.ts'
import { PendingChanges } from './pending-changes.ts'
import { QueueDepths } from './queue-depths.ts'
import type { Table } from './table.ts'
import { MAX_PER_TURN, nextTurn, Pace, type Turning } from './turns.ts'

const MAX_NOTICES = 1_000
/** More than any owner has. */
const MAX_OWNED = 100_000
const MAX_UNIQUE = 1_000
const DOCS_A_PAGE = 1_000

const NONE: readonly string[] = []
const NO_DOCS: readonly DocName[] = []
const NO_FINGERPRINTS: readonly Fingerprint[] = []

const askFor = ({ key, states }: Fingerprint): string => `${key} ${states.join(' ')}`

/** What a unit finds when it is opened: besides what was asked for, all that is due. */
export interface Opened {
  readonly life: Life
  readonly dueWorkers: readonly Worker[]
  readonly dueJobs: readonly Job[]
  readonly dueDocs: readonly Doc[]
}

const NOTHING_DUE = { dueWorkers: [], dueJobs: [], dueDocs: [] } as const

export class UnitRows {
  readonly moment: Moment
  /** Everything decided so far, for what counts and notifies after the commit. */
  readonly transitions: Transition[] = []
  /** More may lie in the inbox. */
  moreInInbox = false
  /** Work through a list within a transaction steps with each entry, so that the event loop has its turns. */
  readonly pace: Pace

  protected readonly pending = new PendingChanges()
  protected readonly tables = this.pending.tables
  /** Notices to workers, of those whose notices were loaded: as they are by now. */
  protected readonly toTell = new Map<string, readonly Notice[]>()
  protected hasSaved = false
  protected hasSavedEvents = false

  #transaction: Transaction | null = null
  protected readonly host: Turning
  protected readonly longDocs: LongDocs
  readonly #names = new Set<string>()
  readonly #seenDocs = new Map<string, unknown>()
  /** Jobs that the store found by fingerprint, and those that were written since; both since the last flush. */
  readonly #sought = new Map<string, readonly string[]>()
  readonly #fingerprints = new Map<string, Set<string>>()
  readonly #depths = new QueueDepths(this.transitions)
  /** The ids of the jobs that workers held when they were looked for. */
  readonly #held = new Map<string, readonly string[]>()
  #hasLooked = false

  constructor(moment: Moment, host: Turning, longDocs: LongDocs) {
    this.moment = moment
    this.host = host
    this.longDocs = longDocs
    this.pace = new Pace(host)
  }

  get now(): Instant {
    return this.moment.now
  }

  protected get tx(): Transaction {
    if (this.#transaction === null) throw broken('a unit is used before it was opened')
    return this.#transaction
  }

  // ---- Finding ----

  /**
   * Everything at once, so that it travels together; locks in the order the port asks for. What is due is looked for
   * unless `maxDue` is zero: the caller knows that nothing is.
   */
  async open(tx: Transaction, needs: Needs, maxDue: number): Promise<Opened> {
    this.#transaction = tx
    if (maxDue === 0) {
      await this.load(needs)
      return { life: await this.tx.seeLife(), ...NOTHING_DUE }
    }
    // The signs of life come last: a store that has to ask for anything else asks for them with it.
    const loaded = this.load({ ...needs, docs: NO_DOCS })
    const [life, , dueWorkers, dueJobs, , dueDocs] = await Promise.all([
      this.tx.seeLife(),
      loaded,
      this.tx.findDueWorkers(this.now, maxDue),
      this.tx.findDueJobs(this.now, maxDue),
      this.load({ docs: needs.docs ?? NO_DOCS }),
      this.tx.findDueDocs(this.now, maxDue),
    ])
    for (const worker of dueWorkers) this.tables.workers.found(worker.id, worker)
    for (const job of dueJobs) this.tables.jobs.found(job.id, job)
    await this.#foundDocs(dueDocs)
    return { life, dueWorkers, dueJobs, dueDocs }
  }

  misses({
    workers = NONE,
    jobs = NONE,
    added = NONE,
    queues = NONE,
    types = NONE,
    notices = NONE,
    ...more
  }: Needs): boolean {
    const { docs, names, unique, held } = more
    return (
      (unique !== undefined && unique.some((one) => !this.#sought.has(askFor(one)))) ||
      (docs !== undefined && docs.some((name) => !this.tables.docs.has(keyOf(name)))) ||
      (held !== undefined && held.some((id) => !this.#held.has(id))) ||
      (names !== undefined && names.some((name) => !this.#names.has(name))) ||
      notices.some((id) => !this.toTell.has(id)) ||
      this.tables.workers.missing(workers).length > 0 ||
      this.tables.jobs.missing(jobs).length > 0 ||
      this.tables.jobs.missing(added).length > 0 ||
      this.tables.queues.missing(queues).length > 0 ||
      this.tables.types.missing(types).length > 0
    )
  }

  async load({
    workers = NONE,
    jobs = NONE,
    added = NONE,
    queues = NONE,
    types = NONE,
    notices = NONE,
    docs = NO_DOCS,
    names = NONE,
    unique = NO_FINGERPRINTS,
    held = NONE,
  }: Needs): Promise<void> {
    const fill = async <T>(
      table: Table<T>,
      wanted: readonly string[],
      find: (ids: readonly string[]) => Promise<T[]>,
      idOf: (row: T) => string,
    ): Promise<void> => {
      const missing = table.missing(wanted)
      if (missing.length === 0) return
      for (const row of await find(missing)) table.found(idOf(row), row)
      for (const id of missing) table.found(id, null)
    }
    await Promise.all([
      this.lockNames(names),
      fill(
        this.tables.workers,
        workers,
        (ids) => this.tx.findWorkers(ids),
        ({ id }) => id,
      ),
      fill(
        this.tables.jobs,
        jobs.length === 0 ? added : [...jobs, ...added], // in one find, which locks them in one order
        (ids) => this.tx.findJobs(ids, jobs.length === 0),
        ({ id }) => id,
      ),
      fill(
        this.tables.queues,
        queues,
        (names) => this.tx.seeQueues(names),
        ({ name }) => name,
      ),
      fill(
        this.tables.types,
        types,
        (names) => this.tx.seeTypes(names),
        ({ type }) => type,
      ),
      this.#seekAll(unique),
      this.#loadNotices(notices),
      ...held.map((id) => this.#loadHeld(id)),
      this.#loadDocs(docs),
    ])
  }

  /** In turns: each is a look into the store, which SQLite answers at once, and a batch may ask for ten thousand. */
  async #seekAll(unique: readonly Fingerprint[]): Promise<void> {
    for (let from = 0; from < unique.length; from += MAX_PER_TURN) {
      if (from > 0) await nextTurn(this.host)
      await Promise.all(unique.slice(from, from + MAX_PER_TURN).map((one) => this.#seek(one)))
    }
  }

  async #seek(one: Fingerprint): Promise<void> {
    const ask = askFor(one)
    if (this.#sought.has(ask)) return
    // Jobs that were found by name meanwhile may have been decided about; they are what counts.
    const found = this.adopt(await this.tx.findUnique(one.key, one.states, MAX_UNIQUE))
    this.#sought.set(
      ask,
      found.map(({ id }) => id),
    )
  }

  async lockNames(names: readonly string[]): Promise<void> {
    const missing = names.filter((name) => !this.#names.has(name))
    if (missing.length === 0) return
    await this.tx.lockNames(missing)
    for (const name of missing) this.#names.add(name)
  }

  async #loadDocs(names: readonly DocName[]): Promise<void> {
    const missing = names.filter((name) => !this.tables.docs.has(keyOf(name)))
    if (missing.length === 0) return
    await this.#foundDocs(await this.tx.findDocs(missing))
    for (const name of missing) this.tables.docs.found(keyOf(name), null)
  }

  /** Their records are read: many of them, and long ones, in turns. */
  async #foundDocs(docs: readonly Doc[]): Promise<void> {
    for (const doc of docs) {
      if (this.tables.docs.has(keyOf(doc))) continue
      const pause = this.pace.step()
      if (pause !== undefined) await pause
      const record = this.longDocs.read(doc)
      this.tables.docs.found(keyOf(doc), open(doc, record instanceof Promise ? await record : record))
    }
  }

  async #loadNotices(workerIds: readonly string[]): Promise<void> {
    const missing = [...new Set(workerIds)].filter((id) => !this.toTell.has(id))
    if (missing.length === 0) return
    const found = new Map<string, Notice[]>(missing.map((id) => [id, []]))
    for (const { workerId, notice } of await this.tx.findNotices(missing, MAX_NOTICES))
      found.get(workerId)?.push(notice)
    for (const [id, notices] of found) this.toTell.set(id, notices)
  }

  async #loadHeld(workerId: string): Promise<void> {
    if (!this.#held.has(workerId)) this.#held.set(workerId, await this.tx.seeHeldBy(workerId))
  }

  job(id: string): Job | null {
    return this.tables.jobs.row(id).current
  }

  worker(id: string): Worker | null {
    return this.tables.workers.row(id).current
  }

  queue(name: string): Queue | null {
    return this.tables.queues.row(name).current
  }

  type(type: string): TypePolicy | null {
    return this.tables.types.row(type).current
  }

  /** Those of these jobs that exist, and were loaded. */
  jobs(ids: readonly string[]): Job[] {
    return ids.map((id) => this.job(id)).filter((job) => job !== null)
  }

  async loadedJobs(ids: readonly string[]): Promise<Job[]> {
    await this.load({ jobs: ids })
    return this.jobs(ids)
  }

  async loadedWorker(id: string): Promise<Worker | null> {
    await this.load({ workers: [id] })
    return this.worker(id)
  }

  /** Another job, only to be looked at. */
  async seeJob(id: string): Promise<Job | null> {
    return (await this.seeJobs([id])).get(id) ?? null
  }

  /** Those of these jobs that exist, by id, only to be looked at. */
  async seeJobs(ids: readonly string[]): Promise<ReadonlyMap<string, Job>> {
    const missing = this.tables.jobs.missing(ids)
    const seen = missing.length === 0 ? [] : await this.tx.seeJobs(missing)
    const loaded = this.jobs(ids.filter((id) => this.tables.jobs.has(id)))
    return new Map([...seen, ...loaded].map((job) => [job.id, job]))
  }

  async checkpoint(jobId: string): Promise<Checkpoint | null> {
    if (!this.tables.checkpoints.has(jobId)) {
      const [checkpoint] = await this.tx.findCheckpoints([jobId])
      this.tables.checkpoints.found(jobId, checkpoint ?? null)
    }
    return this.tables.checkpoints.row(jobId).current
  }

  /** A document that was loaded. */
  doc<T>({ kind }: DocKind<T>, id: string): T | null {
    const doc = this.tables.docs.row(keyOf({ kind, id })).current
    return doc === null ? null : (doc.record as T)
  }

  async loadedDoc<T>(kind: DocKind<T>, id: string): Promise<T | null> {
    await this.load({ docs: [{ kind: kind.kind, id }] })
    return this.doc(kind, id)
  }

  async loadDocs({ kind }: DocKind<unknown>, ids: readonly string[]): Promise<void> {
    await this.load({ docs: ids.map((id) => ({ kind, id })) })
  }

  /** A document, only to be looked at: what is not loaded is seen as it was committed. */
  async seeDoc<T>({ kind }: DocKind<T>, id: string): Promise<T | null> {
    const key = keyOf({ kind, id })
    if (this.tables.docs.has(key)) return (this.tables.docs.row(key).current?.record ?? null) as T | null
    if (!this.#seenDocs.has(key)) {
      const [doc] = await this.tx.seeDocs([{ kind, id }])
      this.#seenDocs.set(key, doc === undefined ? null : await this.longDocs.read(doc))
    }
    return (this.#seenDocs.get(key) ?? null) as T | null
  }

  /** Every document of a kind whose id begins with this, by id. Seen, not locked: their writers lock another document first. */
  async docsUnder<T>(kind: DocKind<T>, prefix: string): Promise<{ id: string; record: T }[]> {
    await this.flush()
    const found: { id: string; record: T }[] = []
    for (let after: string | null = null, more = true; more;) {
      const page: Doc[] = await this.tx.seeDocsUnder(kind.kind, prefix, after, DOCS_A_PAGE)
      await this.#foundDocs(page)
      for (const doc of page) {
        const known = this.doc(kind, doc.id)
        if (known !== null) found.push({ id: doc.id, record: known })
      }
      more = page.length === DOCS_A_PAGE
      after = page.at(-1)?.id ?? null
    }
    return found
  }

  /** The jobs of an owner, by id; `open`: only those that are not over. */
  async owned(owner: Pick<Owner, 'kind' | 'id'>, open: boolean): Promise<Job[]> {
    await this.flush()
    return this.adopt(await this.tx.findOwned(owner, open, MAX_OWNED))
  }

  /** The jobs with this fingerprint that are in one of these states by now. */
  unique(one: Fingerprint): Job[] {
    const sought = this.#sought.get(askFor(one))
    if (sought === undefined) throw broken(`jobs are looked for by a fingerprint that was not loaded`)
    const ids = new Set([...sought, ...(this.#fingerprints.get(one.key) ?? NONE)])
    return this.jobs([...ids]).filter(({ state }) => one.states.includes(state))
  }

  /** Locks out other requests that add to this queue until the transaction ends, so that its depth is known. */
  async measure(queue: string): Promise<void> {
    await this.lockNames([`queue ${queue}`])
    if (this.#depths.has(queue)) return
    const counts = (await this.tx.seeCounts([queue])).get(queue)
    if (counts === undefined) throw broken(`the store does not know how many jobs ${queue} has`)
    this.#depths.counted(queue, depthOf(counts))
  }

  isMeasured(queue: string): boolean {
    return this.#depths.has(queue)
  }

  /** How many jobs of a measured queue are not over by now. */
  depth(queue: string): number {
    return this.#depths.of(queue)
  }

  /** How many jobs a queue has by now, by state. */
  async counts(queue: string): Promise<StateCounts> {
    await this.flush()
    const counts = (await this.tx.seeCounts([queue])).get(queue)
    if (counts === undefined) throw broken(`the store does not know how many jobs ${queue} has`)
    return counts
  }

  /** How many active jobs hold each of these limiters by now. */
  async limited(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    await this.flush()
    return this.tx.seeLimited(keys)
  }

  /** What a worker is still to be told, oldest first. */
  notices(workerId: string): readonly Notice[] {
    const notices = this.toTell.get(workerId)
    if (notices === undefined) throw broken(`the notices of ${workerId} are looked at without having been loaded`)
    return notices
  }

  /** What lies in the inbox, at most so many; once. */
  async lookIntoInbox(limit: number, largest: number): Promise<readonly Laid[]> {
    if (this.#hasLooked) return []
    this.#hasLooked = true
    const laid = await this.tx.findInbox(limit, largest)
    this.moreInInbox = laid.length === limit
    return laid
  }

  /** Jobs to hand out, in their order. */
  async claimable(asked: Claimable): Promise<Job[]> {
    await this.flush()
    return this.adopt(await this.tx.findClaimable(asked))
  }

  async oldestAvailable(queue: string, limit: number): Promise<Job[]> {
    await this.flush()
    return this.adopt(await this.tx.findOldestAvailable(queue, limit))
  }

  async heldBy(workerId: string): Promise<Job[]> {
    await this.flush()
    return this.adopt(await this.tx.findHeldBy(workerId))
  }

  /**
   * Active jobs that name this worker as their holder and are not among these, only to be looked at: at most so many, as
   * they are by now. Those it was handed in this very transaction may be missing.
   */
  async heldBeside(workerId: string, known: ReadonlySet<string>, most: number): Promise<Job[]> {
    const held = this.#held.get(workerId)
    if (held === undefined) throw broken(`what ${workerId} holds is looked at without having been loaded`)
    const ids = held.filter((id) => !known.has(id)).slice(0, most)
    if (ids.length === 0) return []
    return [...(await this.seeJobs(ids)).values()].filter(({ hold }) => hold?.workerId === workerId)
  }

  async deadLettersBeyond(keep: number, limit: number): Promise<Job[]> {
    await this.flush()
    return this.adopt(await this.tx.findDeadLettersBeyond(keep, limit))
  }

  protected adopt(found: readonly Job[]): Job[] {
    return found.map((job) => this.tables.jobs.found(job.id, job).current).filter((job) => job !== null)
  }

  /** A job with this fingerprint was written. */
  protected mark(fingerprint: string, jobId: string): void {
    const ids = this.#fingerprints.get(fingerprint)
    if (ids === undefined) this.#fingerprints.set(fingerprint, new Set([jobId]))
    else ids.add(jobId)
  }

  // ---- Saving ----

  /** What is decided and not yet saved, in parts that are short to write each. */
  parts(): Generator<Changes> {
    return partsOf(this.pending.batch(), this.tables.docs.changes(), writtenOut)
  }

  /** Writes all of it but the last part, a turn each, and answers that one: it can travel with the commit. */
  async saveButTheLast(): Promise<Changes> {
    for (const { after } of this.tables.docs.changes()) {
      if (after?.write === undefined || after.text.body !== null) continue
      const body = after.write(this.longDocs)
      after.text.body = body instanceof Promise ? await body : body
    }
    let last = NO_CHANGES
    let isFirst = true
    for (const part of this.parts()) {
      if (!isFirst) {
        await this.tx.save(last)
        await nextTurn(this.host)
      }
      isFirst = false
      last = part
    }
    return last
  }

  async flush(): Promise<void> {
    if (this.pending.isEmpty) return
    await this.tx.save(await this.saveButTheLast())
    this.hasSaved = true
    if (this.pending.lists.events.length > 0) this.hasSavedEvents = true
    this.pending.saved()
    this.#sought.clear()
    this.#fingerprints.clear()
    this.#depths.saved()
  }

  // ---- Undoing one command ----

  begin(): void {
    this.pending.begin()
  }

  /** True when what this command wrote has already gone to the store and cannot be taken back alone. */
  get spoiled(): boolean {
    return this.pending.spoiled
  }

  revert(): void {
    this.pending.revert()
    this.#depths.reverted()
  }
}
