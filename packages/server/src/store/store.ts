/**
 * The port to memory. A store finds, orders, locks and writes; it never decides and never asks what time it is: `now`
 * is a parameter, and every state and instant it saves was chosen in core.
 *
 * All writing happens in transactions, as a batch: the engine gathers the commands that arrived together, locks what
 * they need, decides in memory, and saves everything at once, rows with the events that tell of them. Whatever a
 * transaction finds is locked until it ends (with one writer, as in SQLite, that is true of itself).
 */
import type {
  Checkpoint,
  Fragment,
  Instant,
  Job,
  JobState,
  Json,
  NewEvent,
  Outage,
  TypePolicy,
  Worker,
} from '@curfew/core'

/** A queue exists from its first use. Its configuration is kept as it was sent. */
export interface Queue {
  readonly name: string
  readonly createdAt: Instant
  readonly pausedAt: Instant | null
  readonly config: Readonly<Record<string, unknown>>
}

/**
 * A row as it was found and as it shall be. `before: null` = new, `after: null` = removed.
 *
 * The store numbers versions itself: a new row has version 1, each save adds one to the version of `before`, and the
 * version of `after` is not looked at. A job's id, queue, type, body, parent, trace and creation never change.
 */
export interface Change<Row> {
  readonly before: Row | null
  readonly after: Row | null
}

export interface Changes {
  /**
   * In the order in which they were decided; at most one change per job. Jobs that ask for a place at the tail (`TAIL`)
   * get it in this order; numbers of places grow strictly and are never given twice.
   */
  readonly jobs: readonly Change<Job>[]
  readonly workers: readonly Change<Worker>[]
  readonly queues: readonly Queue[]
  readonly types: readonly { readonly type: string; readonly policy: TypePolicy | null }[]
  readonly checkpoints: readonly { readonly jobId: string; readonly checkpoint: Checkpoint | null }[]
  /** Appended to the log in this order. */
  readonly events: readonly NewEvent[]
  /** The server's sign of life, when it is time for one. */
  readonly aliveAt: Instant | null
  /** Replaces the list of outages. */
  readonly outages: readonly Outage[] | null
}

/** An event with its place in the log; `data` is a JSON object as text. */
export interface StoredEvent {
  readonly sequence: number
  readonly type: string
  readonly at: Instant
  readonly subject: string
  readonly queue: string | null
  readonly jobType: string | null
  readonly data: Json
}

export interface Transaction {
  /** The jobs with these ids, as far as they exist. */
  findJobs(ids: readonly string[]): Promise<Job[]>
  /** Available jobs of one queue, in the order they are to be handed out: priority descending, then sequence. */
  findClaimable(queue: string, limit: number): Promise<Job[]>
  /** Active jobs whose reservation names this worker. */
  findHeldBy(workerId: string): Promise<Job[]>
  /** Jobs with `wakeAt <= now`, earliest first. */
  findDueJobs(now: Instant, limit: number): Promise<Job[]>
  findWorkers(ids: readonly string[]): Promise<Worker[]>
  /** Workers with `wakeAt <= now`, earliest first. */
  findDueWorkers(now: Instant, limit: number): Promise<Worker[]>
  findQueues(names: readonly string[]): Promise<Queue[]>
  findTypes(types: readonly string[]): Promise<TypePolicy[]>
  findCheckpoints(jobIds: readonly string[]): Promise<Checkpoint[]>
  /** The oldest members of the dead-letter list beyond the newest `keep`. */
  findDeadLettersBeyond(keep: number, limit: number): Promise<Job[]>
  /** Writes everything. Later finds of the same transaction see it. Refuses a row whose version moved on. */
  save(changes: Changes): Promise<StoredEvent[]>
}

export interface Page {
  readonly limit: number
  readonly offset: number
}

export interface JobFilter {
  readonly queue: string | null
  readonly state: JobState | null
  readonly type: string | null
}

export type StateCounts = Readonly<Record<JobState, number>>

/** Reads for people: what is committed, without locks. */
export interface Reads {
  job(id: string): Promise<Job | null>
  /** Newest first. `before`: only jobs whose id sorts below this one (the cursor). */
  jobs(filter: JobFilter, before: string | null, page: Page): Promise<{ jobs: Job[]; total: number }>
  deadLetters(filter: Pick<JobFilter, 'queue' | 'type'>, page: Page): Promise<{ jobs: Job[]; total: number }>
  deadLetterCounts(): Promise<{ queue: string; count: number }[]>
  /** True while a job that was removed by retention is remembered. */
  wasPurged(id: string): Promise<boolean>
  checkpoint(jobId: string): Promise<Checkpoint | null>
  workers(): Promise<Worker[]>
  worker(id: string): Promise<Worker | null>
  queues(): Promise<Queue[]>
  queue(name: string): Promise<Queue | null>
  /** Exact counts of every queue that has, or had, jobs. */
  counts(): Promise<Map<string, StateCounts>>
  types(): Promise<TypePolicy[]>
  /** Active jobs, for the age of their last sign of life. */
  activeJobs(limit: number): Promise<Job[]>
  /** Events after this place, oldest first. */
  eventsAfter(sequence: number, limit: number): Promise<StoredEvent[]>
  event(sequence: number): Promise<StoredEvent | null>
  /** First and last place in the log (0 and 0 when nothing was ever logged; first = last + 1 when all is pruned). */
  eventBounds(): Promise<{ first: number; last: number }>
  nextWakeAt(): Promise<Instant | null>
  /** The last sign of life of a server, the latest instant any row speaks of as past, and known outages. */
  lastLife(): Promise<{ aliveAt: Instant | null; outages: Outage[]; activeJobs: number }>
}

export interface StoreHealth {
  readonly kind: string
  readonly version: string
}

export interface Store extends Reads {
  readonly health: StoreHealth
  /**
   * Runs one transaction at a time per caller; commits when `work` returns, rolls back when it throws. `work` must not
   * wait for the reads of the store, which may themselves be waiting for it to end: the transaction has its own finds.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /** Answers when the database does. */
  ping(): Promise<void>
  /** Removes everything. Only the test bench asks for it. */
  reset(): Promise<void>
  close(): Promise<void>
}

/** How long the log is kept, told to the store when it is opened. */
export interface EventRetention {
  readonly maxAgeMs: number
  readonly maxCount: number
}

/** The database cannot serve at the moment (full, locked, read-only, gone). Nothing was written. */
export class StoreUnavailable extends Error {
  readonly reason: string

  constructor(reason: string, cause: unknown) {
    super(`the store cannot serve: ${reason}`, { cause })
    this.name = 'StoreUnavailable'
    this.reason = reason
  }
}

export type { Fragment }
