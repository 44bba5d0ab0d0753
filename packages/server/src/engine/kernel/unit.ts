/**
 * A unit of work: what one transaction has found and what it will write. Commands that arrived together share a unit;
 * each row is found once, decided about in memory, and saved with everything else in one batch.
 *
 * Rows are loaded by name, all that the commands of a group need at once, and then looked at without waiting. Loading
 * locks them; what is only seen (queues, types, the holder of a job that is judged) is not locked.
 *
 * A command that is refused leaves nothing behind: its writes are undone here, before anything reached the store. After
 * a flush (searches by order must see what was decided so far) they can no longer be undone alone, and `spoiled` says
 * so: then the whole transaction is given up and its commands are tried one by one.
 */
import {
  depthOf,
  expire,
  nextDue,
  isDue,
  isTerminal,
  broken,
  TAIL,
  type Checkpoint,
  type Doc,
  type DocKind,
  type DocName,
  type Job,
  type JobState,
  type LimitKind,
  type Liveness,
  type Moment,
  type NewEvent,
  type Notice,
  type OjsError,
  type Outage,
  type Owner,
  type Instant,
  type Transition,
  type TypePolicy,
  type Worker,
  type Millis,
} from '@curfew/core'
import { isNothing, NO_CHANGES } from '../../store/store.ts'
import type {
  Change,
  Changes,
  Claimable,
  Life,
  Queue,
  StateCounts,
  Transaction,
  WorkerNotice,
} from '../../store/store.ts'
import type { LongDocs } from './long-docs.ts'
import { partsOf, type AllButDocs, type DocChange } from './parts.ts'
import { MAX_PER_TURN, nextTurn, Pace, type Turning } from './turns.ts'

/** The rows a command will ask for, by name. */
export interface Needs {
  readonly workers?: readonly string[]
  readonly jobs?: readonly string[]
  readonly queues?: readonly string[]
  readonly types?: readonly string[]
  /** Workers whose notices are wanted. */
  readonly notices?: readonly string[]
  /** Workers of which it is wanted which jobs they hold. */
  readonly held?: readonly string[]
  readonly docs?: readonly DocName[]
  /** Names that nobody else may use meanwhile, for what has no row yet. */
  readonly names?: readonly string[]
  /** Jobs by their fingerprint. */
  readonly unique?: readonly Fingerprint[]
}

/** Jobs that share a fingerprint, as far as they are in one of these states. */
export interface Fingerprint {
  readonly key: string
  readonly states: readonly JobState[]
}

/** An entry of the inbox; null: its body is too large. */
export interface Laid {
  readonly id: string
  readonly body: string | null
}

/** A worker that does not list a job it lost is told for this long, and of no more than so many. */
export const TOLD_FOR_MS = 60_000
const MOST_NOTICES = 1_000

const NONE: readonly string[] = []
const NO_DOCS: readonly DocName[] = []
const NO_FINGERPRINTS: readonly Fingerprint[] = []

/** A document with its record read. */
interface OpenDoc extends DocName {
  readonly version: number
  readonly wakeAt: Instant | null
  readonly record: unknown
  /** Its body, once it is known: large ones are not made into text twice. */
  readonly text: { body: string | null }
  /** Makes the body in turns, where it is long. */
  readonly write?: (docs: LongDocs) => string | null | Promise<string>
}

const open = (doc: Doc, record: unknown): OpenDoc => ({
  kind: doc.kind,
  id: doc.id,
  version: doc.version,
  wakeAt: doc.wakeAt,
  record,
  text: { body: doc.body },
})
function closed(doc: OpenDoc | null): Doc | null {
  if (doc === null) return null
  const { kind, id, version, wakeAt, record, text } = doc
  text.body ??= JSON.stringify(record)
  return { kind, id, version, wakeAt, body: text.body }
}

const writtenOut = ({ before, after }: Change<OpenDoc>): DocChange => ({ before: closed(before), after: closed(after) })

const askFor = ({ key, states }: Fingerprint): string => `${key} ${states.join(' ')}`

/** Kinds have no space. */
const keyOf = ({ kind, id }: DocName): string => `${kind} ${id}`

/** More than any owner has. */
const MOST_OWNED = 100_000
const MOST_UNIQUE = 1_000
const DOCS_A_PAGE = 1_000

/** What a unit finds when it is opened: besides what was asked for, all that is due. */
export interface Opened {
  readonly life: Life
  readonly dueWorkers: readonly Worker[]
  readonly dueJobs: readonly Job[]
  readonly dueDocs: readonly Doc[]
}

const NOTHING_DUE = { dueWorkers: [], dueJobs: [], dueDocs: [] } as const

interface Row<T> {
  stored: T | null
  current: T | null
}

class Table<T> {
  readonly #what: string
  readonly #rows = new Map<string, Row<T>>()
  /** Ids in the order in which they were first written: places at the tail are given in this order. */
  readonly #written = new Set<string>()

  constructor(what: string) {
    this.#what = what
  }

  has(id: string): boolean {
    return this.#rows.has(id)
  }

  row(id: string): Row<T> {
    const row = this.#rows.get(id)
    if (row === undefined) throw broken(`${this.#what} ${id} is looked at without having been loaded`)
    return row
  }

  /** What was found is taken over, unless it is known already; what is known may have been decided about since. */
  found(id: string, value: T | null): Row<T> {
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    const row: Row<T> = { stored: value, current: value }
    this.#rows.set(id, row)
    return row
  }

  missing(ids: readonly string[]): readonly string[] {
    return ids.every((id) => this.#rows.has(id)) ? NONE : [...new Set(ids)].filter((id) => !this.#rows.has(id))
  }

  written(id: string): void {
    this.#written.add(id)
  }

  changes(): (Change<T> & { readonly id: string })[] {
    const changed: (Change<T> & { id: string })[] = []
    for (const id of this.#written) {
      const row = this.#rows.get(id)
      if (row !== undefined && row.stored !== row.current) changed.push({ id, before: row.stored, after: row.current })
    }
    return changed
  }

  /** The changes were saved. `again` tells how a row reads now, or null if it has to be found again. */
  saved(again: (before: T | null, after: T | null) => Row<T> | null): void {
    for (const id of this.#written) {
      const row = this.#rows.get(id)
      if (row === undefined || row.stored === row.current) continue
      const fresh = again(row.stored, row.current)
      if (fresh === null) this.#rows.delete(id)
      else this.#rows.set(id, fresh)
    }
    this.#written.clear()
  }
}

export class Unit {
  readonly moment: Moment
  #transaction: Transaction | null = null
  readonly #workerTimeoutMs: Millis
  #outages: readonly Outage[] = []
  #stampedAt: Instant | null = null
  readonly #jobs = new Table<Job>('job')
  readonly #workers = new Table<Worker>('worker')
  readonly #queues = new Table<Queue>('queue')
  readonly #types = new Table<TypePolicy>('type')
  readonly #checkpoints = new Table<Checkpoint>('checkpoint')
  readonly #docs = new Table<OpenDoc>('document')
  readonly #names = new Set<string>()
  readonly #seenDocs = new Map<string, unknown>()
  /** Jobs that the store found by fingerprint, and those that were written since; both since the last flush. */
  readonly #sought = new Map<string, readonly string[]>()
  readonly #fingerprints = new Map<string, Set<string>>()
  /** How deep queues were at the last flush, and by how much the transitions since then have changed that. */
  readonly #depths = new Map<string, number>()
  readonly #risen = new Map<string, { upTo: number; by: number }>()
  #flushedTransitions = 0
  /** Holders that were looked at without a lock. */
  readonly #seen = new Map<string, Worker | null>()
  /** The ids of the jobs that workers held when they were looked for. */
  readonly #held = new Map<string, readonly string[]>()
  /** What workers are to be told, of those whose notices were loaded: as it is now. */
  readonly #toTell = new Map<string, readonly Notice[]>()
  #events: NewEvent[] = []
  #notices: WorkerNotice[] = []
  #told: Changes['told'][number][] = []
  #untold: NewEvent[] = []
  #ordered: string[] = []
  #undo: (() => void)[] = []
  #aliveAt: Instant | null = null
  #noted: Changes['outages'] = null
  #inbox: Changes['inbox'][number][] = []
  #hasLooked = false
  #flushed = false
  #saved = false
  /** An event was told. */
  #dated = false
  /** Jobs that ended and whose owner has not heard of it yet. */
  #ended: Job[] = []

  /** Everything decided so far, for those who count and notify after the commit. */
  readonly transitions: Transition[] = []
  /** For those who listen now; not kept in the log. */
  readonly live: NewEvent[] = []
  /** Workers for which orders were stored. */
  readonly orders: string[] = []
  /** Deadlines of others than jobs that ran out, and how late that was decided. */
  readonly ranOut: { readonly kind: LimitKind; readonly overshootMs: Millis }[] = []
  /** What was refused from the inbox, and whether more may lie there. */
  readonly refused: { readonly id: string; readonly error: OjsError }[] = []
  moreInInbox = false
  /** What is to be done once all of it is on disk. */
  readonly followUps: (() => void)[] = []

  /** Whoever works through a list within a transaction steps with each entry, so that the event loop has its turns. */
  readonly pace: Pace
  readonly #host: Turning

  readonly #longDocs: LongDocs

  constructor(moment: Moment, workerTimeoutMs: Millis, host: Turning, longDocs: LongDocs) {
    this.#longDocs = longDocs
    this.moment = moment
    this.#host = host
    this.pace = new Pace(host)
    this.#workerTimeoutMs = workerTimeoutMs
  }

  get now(): Instant {
    return this.moment.now
  }

  get #tx(): Transaction {
    if (this.#transaction === null) throw broken('a unit is used before it was opened')
    return this.#transaction
  }

  // ---- Finding ----

  /**
   * Everything at once, so that it travels together; locks in the order the port asks for. What is due is looked for
   * unless `mostDue` is zero: somebody knows that nothing is.
   */
  async open(tx: Transaction, needs: Needs, mostDue: number): Promise<Opened> {
    this.#transaction = tx
    if (mostDue === 0) {
      await this.load(needs)
      return { life: await this.#tx.seeLife(), ...NOTHING_DUE }
    }
    const [life, , dueWorkers, dueJobs, , dueDocs] = await Promise.all([
      this.#tx.seeLife(),
      this.load({ ...needs, docs: NO_DOCS }),
      this.#tx.findDueWorkers(this.now, mostDue),
      this.#tx.findDueJobs(this.now, mostDue),
      this.load({ docs: needs.docs ?? NO_DOCS }),
      this.#tx.findDueDocs(this.now, mostDue),
    ])
    for (const worker of dueWorkers) this.#workers.found(worker.id, worker)
    for (const job of dueJobs) this.#jobs.found(job.id, job)
    await this.#foundDocs(dueDocs)
    return { life, dueWorkers, dueJobs, dueDocs }
  }

  /** Outages are credited to liveness clocks from here on. `stampedAt`: the last stamp of life; null: one is due. */
  credit(outages: readonly Outage[], stampedAt: Instant | null): void {
    this.#outages = outages
    this.#stampedAt = stampedAt
  }

  /**
   * Whether the stored sign of life of this worker may stand for one of now, while a poll of it is open. It may if it is no
   * older than the server's last stamp: a crash from here on is credited from that stamp on, so the worker is given as much
   * time as if the sign of now had been written.
   */
  isFresh({ lastSeenAt, version }: Worker): boolean {
    return version > 0 && this.#stampedAt !== null && lastSeenAt >= this.#stampedAt
  }

  misses({ workers = NONE, jobs = NONE, queues = NONE, types = NONE, notices = NONE, ...more }: Needs): boolean {
    const { docs, names, unique, held } = more
    return (
      (unique !== undefined && unique.some((one) => !this.#sought.has(askFor(one)))) ||
      (docs !== undefined && docs.some((name) => !this.#docs.has(keyOf(name)))) ||
      (held !== undefined && held.some((id) => !this.#held.has(id))) ||
      (names !== undefined && names.some((name) => !this.#names.has(name))) ||
      notices.some((id) => !this.#toTell.has(id)) ||
      this.#workers.missing(workers).length > 0 ||
      this.#jobs.missing(jobs).length > 0 ||
      this.#queues.missing(queues).length > 0 ||
      this.#types.missing(types).length > 0
    )
  }

  async load({
    workers = NONE,
    jobs = NONE,
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
        this.#workers,
        workers,
        (ids) => this.#tx.findWorkers(ids),
        ({ id }) => id,
      ),
      fill(
        this.#jobs,
        jobs,
        (ids) => this.#tx.findJobs(ids),
        ({ id }) => id,
      ),
      fill(
        this.#queues,
        queues,
        (names) => this.#tx.seeQueues(names),
        ({ name }) => name,
      ),
      fill(
        this.#types,
        types,
        (names) => this.#tx.seeTypes(names),
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
      if (from > 0) await nextTurn(this.#host)
      await Promise.all(unique.slice(from, from + MAX_PER_TURN).map((one) => this.#seek(one)))
    }
  }

  async #seek(one: Fingerprint): Promise<void> {
    const ask = askFor(one)
    if (this.#sought.has(ask)) return
    // Jobs that were found by name meanwhile may have been decided about; they are what counts.
    const found = this.#adopt(await this.#tx.findUnique(one.key, one.states, MOST_UNIQUE))
    this.#sought.set(
      ask,
      found.map(({ id }) => id),
    )
  }

  async lockNames(names: readonly string[]): Promise<void> {
    const missing = names.filter((name) => !this.#names.has(name))
    if (missing.length === 0) return
    await this.#tx.lockNames(missing)
    for (const name of missing) this.#names.add(name)
  }

  async #loadDocs(names: readonly DocName[]): Promise<void> {
    const missing = names.filter((name) => !this.#docs.has(keyOf(name)))
    if (missing.length === 0) return
    await this.#foundDocs(await this.#tx.findDocs(missing))
    for (const name of missing) this.#docs.found(keyOf(name), null)
  }

  /** Their records are read: many of them, and long ones, in turns. */
  async #foundDocs(docs: readonly Doc[]): Promise<void> {
    for (const doc of docs) {
      if (this.#docs.has(keyOf(doc))) continue
      const pause = this.pace.step()
      if (pause !== undefined) await pause
      const record = this.#longDocs.read(doc)
      this.#docs.found(keyOf(doc), open(doc, record instanceof Promise ? await record : record))
    }
  }

  async #loadNotices(workerIds: readonly string[]): Promise<void> {
    const missing = [...new Set(workerIds)].filter((id) => !this.#toTell.has(id))
    if (missing.length === 0) return
    const found = new Map<string, Notice[]>(missing.map((id) => [id, []]))
    for (const { workerId, notice } of await this.#tx.findNotices(missing, MOST_NOTICES))
      found.get(workerId)?.push(notice)
    for (const [id, notices] of found) this.#toTell.set(id, notices)
  }

  async #loadHeld(workerId: string): Promise<void> {
    if (!this.#held.has(workerId)) this.#held.set(workerId, await this.#tx.seeHeldBy(workerId))
  }

  job(id: string): Job | null {
    return this.#jobs.row(id).current
  }

  worker(id: string): Worker | null {
    return this.#workers.row(id).current
  }

  queue(name: string): Queue | null {
    return this.#queues.row(name).current
  }

  type(type: string): TypePolicy | null {
    return this.#types.row(type).current
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
    const missing = this.#jobs.missing(ids)
    const seen = missing.length === 0 ? [] : await this.#tx.seeJobs(missing)
    const loaded = this.jobs(ids.filter((id) => this.#jobs.has(id)))
    return new Map([...seen, ...loaded].map((job) => [job.id, job]))
  }

  async checkpoint(jobId: string): Promise<Checkpoint | null> {
    if (!this.#checkpoints.has(jobId)) {
      const [checkpoint] = await this.#tx.findCheckpoints([jobId])
      this.#checkpoints.found(jobId, checkpoint ?? null)
    }
    return this.#checkpoints.row(jobId).current
  }

  /** A document that was loaded. */
  doc<T>({ kind }: DocKind<T>, id: string): T | null {
    const doc = this.#docs.row(keyOf({ kind, id })).current
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
    if (this.#docs.has(key)) return (this.#docs.row(key).current?.record ?? null) as T | null
    if (!this.#seenDocs.has(key)) {
      const [doc] = await this.#tx.seeDocs([{ kind, id }])
      this.#seenDocs.set(key, doc === undefined ? null : await this.#longDocs.read(doc))
    }
    return (this.#seenDocs.get(key) ?? null) as T | null
  }

  /** Every document of a kind whose id begins with this, by id. Seen, not locked: whoever writes them locks another first. */
  async docsUnder<T>(kind: DocKind<T>, prefix: string): Promise<{ id: string; record: T }[]> {
    await this.flush()
    const found: { id: string; record: T }[] = []
    for (let after: string | null = null, more = true; more;) {
      const page: Doc[] = await this.#tx.seeDocsUnder(kind.kind, prefix, after, DOCS_A_PAGE)
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
    return this.#adopt(await this.#tx.findOwned(owner, open, MOST_OWNED))
  }

  /** The jobs with this fingerprint that are in one of these states by now. */
  unique(one: Fingerprint): Job[] {
    const sought = this.#sought.get(askFor(one))
    if (sought === undefined) throw broken(`jobs are looked for by a fingerprint that was not loaded`)
    const ids = new Set([...sought, ...(this.#fingerprints.get(one.key) ?? NONE)])
    return this.jobs([...ids]).filter(({ state }) => one.states.includes(state))
  }

  /** Nobody else adds to this queue by request until the transaction ends, so that its depth is known. */
  async measure(queue: string): Promise<void> {
    await this.lockNames([`queue ${queue}`])
    if (this.#depths.has(queue)) return
    const counts = (await this.#tx.seeCounts([queue])).get(queue)
    if (counts === undefined) throw broken(`the store does not know how many jobs ${queue} has`)
    this.#depths.set(queue, depthOf(counts))
  }

  isMeasured(queue: string): boolean {
    return this.#depths.has(queue)
  }

  /** How many jobs of a measured queue are not over by now. */
  depth(queue: string): number {
    const stored = this.#depths.get(queue)
    if (stored === undefined) throw broken(`the depth of ${queue} is looked at without having been measured`)
    const risen = this.#risen.get(queue) ?? { upTo: this.#flushedTransitions, by: 0 }
    for (; risen.upTo < this.transitions.length; risen.upTo += 1) {
      const transition = this.transitions[risen.upTo]
      if (transition !== undefined && (transition.job ?? transition.before)?.queue === queue)
        risen.by += rise(transition)
    }
    this.#risen.set(queue, risen)
    return stored + risen.by
  }

  /** How many jobs a queue has by now, by state. */
  async counts(queue: string): Promise<StateCounts> {
    await this.flush()
    const counts = (await this.#tx.seeCounts([queue])).get(queue)
    if (counts === undefined) throw broken(`the store does not know how many jobs ${queue} has`)
    return counts
  }

  /** How many active jobs hold each of these limiters by now. */
  async limited(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    await this.flush()
    return this.#tx.seeLimited(keys)
  }

  /** What a worker is still to be told, oldest first. */
  notices(workerId: string): readonly Notice[] {
    const notices = this.#toTell.get(workerId)
    if (notices === undefined) throw broken(`the notices of ${workerId} are looked at without having been loaded`)
    return notices
  }

  /** What lies in the inbox, at most so many; once. */
  async lookIntoInbox(limit: number, largest: number): Promise<readonly Laid[]> {
    if (this.#hasLooked) return []
    this.#hasLooked = true
    const laid = await this.#tx.findInbox(limit, largest)
    this.moreInInbox = laid.length === limit
    return laid
  }

  /** Jobs to hand out, in their order. */
  async claimable(asked: Claimable): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findClaimable(asked))
  }

  async oldestAvailable(queue: string, limit: number): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findOldestAvailable(queue, limit))
  }

  async heldBy(workerId: string): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findHeldBy(workerId))
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
    return this.#adopt(await this.#tx.findDeadLettersBeyond(keep, limit))
  }

  #adopt(found: readonly Job[]): Job[] {
    return found.map((job) => this.#jobs.found(job.id, job).current).filter((job) => job !== null)
  }

  // ---- Judging ----

  /** What is known of the worker that holds this job. It is judged as it is seen: a beat under way comes after. */
  async liveness(job: Job): Promise<Liveness> {
    const workerId = job.hold?.workerId ?? null
    if (workerId === null) return this.livenessWith(null)
    if (this.#workers.has(workerId)) return this.livenessWith(this.worker(workerId))
    if (!this.#seen.has(workerId)) await this.seeHolders([job])
    return this.livenessWith(this.#seen.get(workerId) ?? null)
  }

  async seeHolders(jobs: readonly Job[]): Promise<void> {
    const ids = new Set<string>()
    for (const { hold } of jobs) {
      const id = hold?.workerId ?? null
      if (id !== null && !this.#workers.has(id) && !this.#seen.has(id)) ids.add(id)
    }
    if (ids.size === 0) return
    for (const worker of await this.#tx.seeWorkers([...ids])) this.#seen.set(worker.id, worker)
    for (const id of ids) if (!this.#seen.has(id)) this.#seen.set(id, null)
  }

  livenessWith(worker: Worker | null): Liveness {
    return { worker, outages: this.#outages, workerTimeoutMs: this.#workerTimeoutMs }
  }

  /** Lets time do to this job whatever is due, one thing after the other. Returns the job as it then is. */
  async settle(job: Job): Promise<Job | null> {
    let current: Job | null = job
    // Every step leads on (scheduled → available → … → discarded → gone); a circle would be a broken promise.
    for (let steps = 0; current !== null; steps += 1) {
      if (steps > 12) throw broken(`job ${job.id} does not come to rest`)
      const life = await this.liveness(current)
      const transition = expire(current, life, this.moment)
      if (transition === null) return current
      this.apply(transition)
      const due = transition.job === null ? null : nextDue(transition.job, life)
      current = transition.job
      if (due === null || !isDue(due.at, this.now)) return current
    }
    return current
  }

  // ---- Writing ----

  apply(transition: Transition): void {
    const { before, job, notice } = transition
    const id = (job ?? before)?.id
    if (id === undefined) throw broken('a transition without a job')
    if (before === null) this.#jobs.found(id, null)
    this.#put(this.#jobs, id, job)
    this.#push(this.#events, transition.events)
    this.#push(this.transitions, [transition])
    if (job !== null && job.uniqueKey !== null) this.#mark(job.uniqueKey, id)
    if (before !== null && before.owner !== null && hasEnded(transition)) this.#push(this.#ended, [job ?? before])
    if (notice !== undefined) this.#notify(notice)
  }

  #mark(fingerprint: string, jobId: string): void {
    const ids = this.#fingerprints.get(fingerprint)
    if (ids === undefined) this.#fingerprints.set(fingerprint, new Set([jobId]))
    else ids.add(jobId)
  }

  /** A job's row changes without anything having happened to it (a renewed clock, a checkpoint's number). */
  keep(job: Job): void {
    this.#put(this.#jobs, job.id, job)
  }

  putWorker(worker: Worker): void {
    this.#put(this.#workers, worker.id, worker)
  }

  /** With a worker goes what it was to be told. */
  removeWorker(id: string): void {
    this.#put(this.#workers, id, null)
    this.forgetNotices(id)
  }

  /** The worker has heard it, or (without a notice) need not hear anything any more. */
  forgetNotices(workerId: string, notice?: Notice): void {
    const { jobId = null, lease = null } = notice ?? {}
    this.#push(this.#told, [{ workerId, jobId, lease }])
    const meant = (one: WorkerNotice): boolean =>
      one.workerId === workerId && (notice === undefined || (one.notice.jobId === jobId && one.notice.lease === lease))
    if (this.#notices.some(meant)) {
      const before = this.#notices
      this.#notices = before.filter((one) => !meant(one))
      this.#undo.push(() => {
        this.#notices = before
      })
    }
    this.#retell(workerId, (kept) => kept.filter((one) => !meant({ workerId, notice: one })))
  }

  /** A worker whose row is gone needs no telling. One that was declared dead may come back. */
  #notify(told: WorkerNotice): void {
    const { workerId, notice } = told
    const holder = this.#workers.has(workerId) ? this.worker(workerId) : this.#seen.get(workerId)
    if (holder === null) return
    this.#push(this.#notices, [told])
    this.noteOrders(workerId)
    this.#retell(workerId, (kept) => [...kept, notice])
  }

  /** There is something that this worker should hear at once. */
  noteOrders(workerId: string): void {
    this.#push(this.#ordered, [workerId])
    this.#push(this.orders, [workerId])
  }

  #retell(workerId: string, change: (kept: readonly Notice[]) => readonly Notice[]): void {
    const before = this.#toTell.get(workerId)
    if (before === undefined) return
    this.#toTell.set(workerId, change(before))
    this.#undo.push(() => {
      this.#toTell.set(workerId, before)
    })
  }

  putQueue(queue: Queue): void {
    this.#put(this.#queues, queue.name, queue)
  }

  putType(type: string, policy: TypePolicy | null): void {
    this.#put(this.#types, type, policy)
  }

  putCheckpoint(jobId: string, checkpoint: Checkpoint | null): void {
    this.#put(this.#checkpoints, jobId, checkpoint)
  }

  putDoc<T>(kind: DocKind<T>, id: string, record: T | null): void {
    const name = { kind: kind.kind, id }
    const write =
      record === null || kind.long === undefined ? {} : { write: (docs: LongDocs) => docs.write(kind, id, record) }
    const doc =
      record === null
        ? null
        : { ...name, version: 0, wakeAt: kind.wakeAt(record), record, text: { body: null }, ...write }
    this.#put(this.#docs, keyOf(name), doc)
  }

  /** A document that surely is not there yet: it need not be looked for. */
  addDoc<T>(kind: DocKind<T>, id: string, record: T): void {
    this.#docs.found(keyOf({ kind: kind.kind, id }), null)
    this.putDoc(kind, id, record)
  }

  /** The jobs that ended since this was last asked and that belong to somebody. */
  takeEnded(): readonly Job[] {
    const ended = this.#ended
    if (ended.length === 0) return ended
    this.#ended = []
    this.#undo.push(() => {
      this.#ended = ended
    })
    return ended
  }

  emit(event: NewEvent): void {
    this.#push(this.#events, [event])
  }

  /** Done once this is durable; not at all if it is undone, or never gets there. */
  afterwards(act: () => void): void {
    this.#push(this.followUps, [act])
  }

  noteRunOut(kind: LimitKind, overshootMs: Millis): void {
    this.#push(this.ranOut, [{ kind, overshootMs }])
  }

  emitLive(event: NewEvent): void {
    this.#push(this.#untold, [event])
    this.#push(this.live, [event])
  }

  /**
   * Rows were written that speak of this instant, and no event does. After a restart the clock goes on from the latest
   * event or sign of life, so then a sign of life has to tell.
   */
  get writesUndated(): boolean {
    return !this.#dated && this.#events.length === 0 && (this.#saved || !this.#isUnchanged())
  }

  stampAlive(outages: Changes['outages']): void {
    this.#aliveAt = this.now
    this.#noted = outages
  }

  /** An entry of the inbox was admitted, or refused. */
  takeFromInbox(id: string, refused: OjsError | null): void {
    if (refused === null) {
      this.#push(this.#inbox, [{ id, refused }])
      return
    }
    const { code, message, details, hint } = refused
    const error = JSON.stringify({ code, message, details, hint })
    this.#push(this.#inbox, [{ id, refused: { error, at: this.now } }])
    this.#push(this.refused, [{ id, error: refused }])
  }

  // ---- Undoing one command ----

  begin(): void {
    this.#undo = []
    this.#flushed = false
  }

  /** True when what this command wrote has already gone to the store and cannot be taken back alone. */
  get spoiled(): boolean {
    return this.#flushed
  }

  revert(): void {
    for (const undo of this.#undo.reverse()) undo()
    this.#undo = []
    this.#risen.clear()
  }

  #put<T>(table: Table<T>, id: string, value: T | null): void {
    const row = table.row(id)
    const previous = row.current
    row.current = value
    table.written(id)
    this.#undo.push(() => {
      row.current = previous
    })
  }

  #push<T>(into: T[], values: readonly T[]): void {
    if (values.length === 0) return
    const length = into.length
    for (const value of values) into.push(value)
    this.#undo.push(() => {
      into.length = length
    })
  }

  // ---- Saving ----

  /** What is decided and not yet saved, in parts that are short to write each. */
  parts(): Generator<Changes> {
    return partsOf(this.#changes(), this.#docs.changes(), writtenOut)
  }

  /** Writes all of it but the last part, a turn each, and answers that one: it can travel with the commit. */
  async saveButTheLast(): Promise<Changes> {
    for (const { after } of this.#docs.changes()) {
      if (after?.write === undefined || after.text.body !== null) continue
      const body = after.write(this.#longDocs)
      after.text.body = body instanceof Promise ? await body : body
    }
    let last = NO_CHANGES
    let isFirst = true
    for (const part of this.parts()) {
      if (!isFirst) {
        await this.#tx.save(last)
        await nextTurn(this.#host)
      }
      isFirst = false
      last = part
    }
    return last
  }

  #changes(): AllButDocs {
    return {
      jobs: this.#jobs.changes(),
      workers: this.#workers.changes(),
      queues: this.#queues.changes(),
      types: this.#types.changes().map(({ id, after }) => ({ type: id, policy: after })),
      checkpoints: this.#checkpoints.changes().map(({ id, after }) => ({ jobId: id, checkpoint: after })),
      notices: this.#notices,
      told: this.#told,
      events: this.#events,
      live: this.#untold,
      orders: this.#ordered,
      aliveAt: this.#aliveAt,
      outages: this.#noted,
      inbox: this.#inbox,
    }
  }

  #isUnchanged(): boolean {
    return this.#docs.changes().length === 0 && isNothing({ ...this.#changes(), docs: [] })
  }

  async flush(): Promise<void> {
    if (this.#isUnchanged()) return
    await this.#tx.save(await this.saveButTheLast())
    this.#saved = true
    if (this.#events.length > 0) this.#dated = true
    this.#events = []
    this.#notices = []
    this.#told = []
    this.#untold = []
    this.#ordered = []
    this.#aliveAt = null
    this.#noted = null
    this.#inbox = []
    // A job that got a place at the tail has to be found again; of everything else we know how it reads now.
    this.#jobs.saved((before, after) => (after?.seq === TAIL ? null : nextVersion(before, after)))
    this.#workers.saved(nextVersion)
    this.#queues.saved(nextVersion)
    this.#types.saved((_, after) => ({ stored: after, current: after }))
    this.#checkpoints.saved((_, after) => ({ stored: after, current: after }))
    this.#docs.saved(nextVersion)
    this.#sought.clear()
    this.#fingerprints.clear()
    this.#depths.clear()
    this.#risen.clear()
    this.#flushedTransitions = this.transitions.length
    if (this.#undo.length > 0) this.#flushed = true
    this.#undo = []
  }
}

/** By how much a transition makes its queue deeper. */
function rise({ before, job }: Transition): number {
  return Number(job !== null && !isTerminal(job.state)) - Number(before !== null && !isTerminal(before.state))
}

function hasEnded({ before, job }: Transition): boolean {
  if (before === null || isTerminal(before.state)) return false
  return job === null || isTerminal(job.state)
}

function nextVersion<T extends { readonly version: number }>(before: T | null, after: T | null): Row<T> {
  const row = after === null ? null : { ...after, version: (before?.version ?? 0) + 1 }
  return { stored: row, current: row }
}
