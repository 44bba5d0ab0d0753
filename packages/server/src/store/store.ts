/**
 * The port to memory. A store finds, orders, locks and writes; it never decides and never asks what time it is: `now`
 * is a parameter, and every state and instant it saves was chosen in core.
 *
 * All writing happens in transactions, as a batch: the engine gathers the commands that arrived together, locks what
 * they need, decides in memory, and saves everything at once, rows with the events that tell of them.
 *
 * Many servers may share one store. What a transaction finds is locked until it ends, unless it says "sees": what is
 * only seen may be changed by others meanwhile, and a save refuses rows that were (`RowsMoved`). Locks are always asked
 * for in one order, names before workers before jobs before documents and each by id, so that servers wait for each other
 * but hardly ever in a circle (which the store finds out: `RowsMoved`); whatever is found by order and not by name skips
 * rows that others have locked. Finds that are asked for together
 * (without waiting for one before the next) travel together. With one writer, as in SQLite, all this is true of itself.
 */
import type {
  Checkpoint,
  Clock,
  Doc,
  DocName,
  Fragment,
  Instant,
  Job,
  JobState,
  NewEvent,
  Owner,
  TypePolicy,
  Worker,
} from '@curfew/core'
import type { Changes, InboxEntry, Life, Queue, Refusal, StateChange, StoredEvent, WorkerNotice } from './changes.ts'
import type { Claimable, Reads, StateCounts } from './reads.ts'

export * from './changes.ts'
export * from './reads.ts'

export interface Transaction {
  /** Blocks until other holders of these names end their transactions. For what has no row yet. */
  lockNames(names: readonly string[]): Promise<void>
  /** Sees the signs of life. */
  seeLife(): Promise<Life>
  /** The workers with these ids, as far as they exist. */
  findWorkers(ids: readonly string[]): Promise<Worker[]>
  /** Sees the workers with these ids, as far as they exist. */
  seeWorkers(ids: readonly string[]): Promise<Worker[]>
  /** The jobs with these ids, as far as they exist. `areFree`: most likely none does, for jobs are to be added under them. */
  findJobs(ids: readonly string[], areFree?: boolean): Promise<Job[]>
  /** Sees the jobs with these ids, as far as they exist. */
  seeJobs(ids: readonly string[]): Promise<Job[]>
  /** Active jobs whose reservation names this worker, which must have been found before. */
  findHeldBy(workerId: string): Promise<Job[]>
  /** Sees the ids of the active jobs whose reservation names this worker. */
  seeHeldBy(workerId: string): Promise<string[]>
  /** Available jobs of one queue, in the order in which they are to be handed out. Skips. */
  findClaimable(asked: Claimable): Promise<Job[]>
  /** The available jobs of one queue that have waited longest, oldest first. Skips. */
  findOldestAvailable(queue: string, limit: number): Promise<Job[]>
  /** The jobs of this owner, by id; `open`: only those that are not over. */
  findOwned(owner: Pick<Owner, 'kind' | 'id'>, open: boolean, limit: number): Promise<Job[]>
  /** The jobs with this fingerprint in one of these states, newest first. */
  findUnique(key: string, states: readonly JobState[], limit: number): Promise<Job[]>
  /** Jobs with `wakeAt <= now`, earliest first. Skips. */
  findDueJobs(now: Instant, limit: number): Promise<Job[]>
  /** Workers with `wakeAt <= now`, earliest first. Skips. */
  findDueWorkers(now: Instant, limit: number): Promise<Worker[]>
  /** Documents with `wakeAt <= now`, earliest first. Skips. */
  findDueDocs(now: Instant, limit: number): Promise<Doc[]>
  /** The documents of these names, as far as they exist. */
  findDocs(names: readonly DocName[]): Promise<Doc[]>
  /** Sees the documents of these names, as far as they exist. */
  seeDocs(names: readonly DocName[]): Promise<Doc[]>
  /** Sees the documents of a kind whose ids begin with this, by id: those above `after` (null: from the first). */
  seeDocsUnder(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]>
  /** Sees how many jobs these queues have, by state. */
  seeCounts(queues: readonly string[]): Promise<Map<string, StateCounts>>
  /** Sees how many active jobs hold each of these limiters; those that none holds are left out. */
  seeLimited(keys: readonly string[]): Promise<Map<string, number>>
  /** The oldest members of the dead-letter list beyond the newest `keep`. Skips. */
  findDeadLettersBeyond(keep: number, limit: number): Promise<Job[]>
  /** Sees queues. */
  seeQueues(names: readonly string[]): Promise<Queue[]>
  /** Sees types. */
  seeTypes(types: readonly string[]): Promise<TypePolicy[]>
  /** The checkpoints of jobs that have been found. */
  findCheckpoints(jobIds: readonly string[]): Promise<Checkpoint[]>
  /** What workers that have been found shall hear, oldest first: of each the newest so many. */
  findNotices(workerIds: readonly string[], newest: number): Promise<WorkerNotice[]>
  /** What lies in the inbox, oldest first; without the body, if that is larger than so many bytes. Skips. */
  findInbox(limit: number, largest: number): Promise<{ readonly id: string; readonly body: string | null }[]>
  /** Writes everything. Later finds of the same transaction see it. Refuses rows that moved on (`RowsMoved`). */
  save(changes: Changes): Promise<void>
}

/** Records of another store. */
export interface Batch {
  readonly queues: readonly Queue[]
  readonly types: readonly TypePolicy[]
  readonly workers: readonly Worker[]
  readonly notices: readonly WorkerNotice[]
  readonly jobs: readonly Job[]
  readonly checkpoints: readonly Checkpoint[]
  readonly docs: readonly Doc[]
  /** Ids of removed jobs, oldest first. */
  readonly tombstones: readonly string[]
  /** Each with its place in the log, which grows within the batch and from batch to batch. */
  readonly events: readonly StoredEvent[]
  /** Both oldest first. */
  readonly inbox: readonly InboxEntry[]
  readonly refused: readonly (InboxEntry & Refusal)[]
  readonly life: Life | null
}

export const NOTHING: Batch = {
  queues: [],
  types: [],
  workers: [],
  notices: [],
  jobs: [],
  checkpoints: [],
  docs: [],
  tombstones: [],
  events: [],
  inbox: [],
  refused: [],
  life: null,
}

/** What a commit of another server, or of an application, made true. */
export interface News {
  readonly changes: readonly StateChange[]
  readonly live: readonly NewEvent[]
  /** Workers for which orders were stored. */
  readonly orders: readonly string[]
  /** The last place it took in the log, if any. */
  readonly lastEvent: number | null
  /** The nearest instant at which a row it wrote wants to be woken. */
  readonly wakeAt: Instant | null
  /** Something was laid into the inbox. */
  readonly inbox: boolean
}

export interface StoreHealth {
  readonly kind: string
  readonly version: string
}

/** What a transaction ends with: an answer, and what is left to be saved, which travels with the commit. */
export interface Closing<T> {
  readonly value: T
  readonly changes: Changes
  /** No other work waits behind this transaction, so the store may sync it in the quickest way, whatever it blocks. */
  readonly isAlone?: boolean
}

/** A transaction that was committed. */
export interface Ended<T> {
  readonly value: T
  /** All that it appended to the log, in their order. */
  readonly events: readonly StoredEvent[]
  /**
   * Resolves when it, and everything it has seen, would survive a loss of power; it must not be announced before. The
   * next transaction need not wait for that. Rejects with StoreUnavailable when it is not known whether it would.
   */
  readonly durable: Promise<void>
  /** The nearest instant at which a row wants to be woken by then; undefined when the database could not say. */
  readonly nextWakeAt: Instant | null | undefined
}

/** The database's clock as this server knows it. */
export interface SharedClock extends Clock {
  /** How far this machine's wall clock is ahead of the database's, and by how much that may be wrong. */
  offset(): { readonly ms: number; readonly errorMs: number }
  /** Why instants of this clock must not be decided by, if so. */
  distrust(): string | null
}

/** Where applications lay jobs within transactions of their own, and the channel on which they tell of it. */
export interface Inbox {
  readonly schema: string
  readonly channel: string
}

export interface Store extends Reads {
  readonly health: StoreHealth
  /** Null where no application could have a transaction of its own in the same database. */
  readonly inbox: Inbox | null
  /** Whether other servers may be at work on the same data. */
  readonly shared: boolean
  /** Set where the database's clock is the judge, as it must be when many servers share the store. */
  readonly clock: SharedClock | null
  /**
   * Runs one transaction at a time per caller; saves and commits when `work` returns, rolls back when it throws. `work`
   * must not wait for the reads of the store, which may themselves be waiting for it to end: the transaction has its own
   * finds. `relies`: what a find only sees, and that ids are free, may be answered from memory. If it is no longer so when
   * the transaction ends, nothing was done (`RowsMoved`), even where nothing was to be written: try again without.
   */
  transaction<T>(work: (tx: Transaction) => Promise<Closing<T>>, relies?: boolean): Promise<Ended<T>>
  /** Hears of the commits of others, until the returned function is called. Null: some may have been missed. */
  follow(listener: (news: News | null) => void): () => void
  /** Answers when the database does. */
  ping(): Promise<void>
  /**
   * Writes records of another store in one transaction, exactly as they are: with their versions, jobs with their
   * places in the queue, events with theirs in the log. Later rows get later places. It is not announced, and
   * nothing is pruned. Refuses what is there already (`RowsMoved`). `more`: other batches follow; until one without it
   * was written, the store counts as half restored. Answers when it would survive a loss of power.
   */
  restore(batch: Batch, more: boolean): Promise<void>
  /** Removes everything. Only the test bench asks for it, and an import that failed. */
  reset(): Promise<void>
  close(): Promise<void>
}

/** How long the log is kept, told to the store when it is opened. */
export type { EventRetention } from '@curfew/core'

/** The database cannot serve at the moment (full, locked, read-only, gone). Nothing was written. */
export class StoreUnavailable extends Error {
  readonly reason: string

  constructor(reason: string, cause: unknown) {
    super(`the store cannot serve: ${reason}`, { cause })
    this.name = 'StoreUnavailable'
    this.reason = reason
  }
}

/**
 * What the database holds cannot be read as it was written: a disk or another program damaged it. Other troubles pass, this
 * one does not. What is written on top of it may be lost or make it worse, so nothing may be written any more until an
 * operator has looked.
 */
export class StoreDamaged extends StoreUnavailable {
  /** The damaged file; null where the data does not lie in a file of ours. */
  readonly file: string | null
  /** What an operator should do, step by step. */
  readonly advice: readonly string[]

  constructor(reason: string, file: string | null, advice: readonly string[], cause: unknown) {
    super(reason, cause)
    this.name = 'StoreDamaged'
    this.file = file
    this.advice = advice
  }
}

/** Another server changed what this transaction had only seen, or stood in its way: nothing was written; try again. */
export class RowsMoved extends Error {
  constructor(what: string, cause?: unknown) {
    super(`another server was faster: ${what}`, { cause })
    this.name = 'RowsMoved'
  }
}

export type { Fragment }
