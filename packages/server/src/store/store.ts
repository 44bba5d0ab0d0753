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
  DatedSpot,
  Clock,
  Doc,
  DocName,
  Fragment,
  Instant,
  Job,
  JobFilter,
  JobState,
  Json,
  NewEvent,
  Notice,
  Outage,
  Owner,
  Spot,
  TypePolicy,
  Worker,
} from '@curfew/core'

/** A queue exists from its first use. Its configuration is kept as it was sent. */
export interface Queue {
  readonly name: string
  readonly version: number
  readonly createdAt: Instant
  readonly pausedAt: Instant | null
  /** Since when it takes no jobs and hands out those it has. */
  readonly drainingAt: Instant | null
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
  /** A queue is only ever added or rewritten. One that somebody else added meanwhile is left as it is. */
  readonly queues: readonly Change<Queue>[]
  /** The last word counts. */
  readonly types: readonly { readonly type: string; readonly policy: TypePolicy | null }[]
  readonly checkpoints: readonly { readonly jobId: string; readonly checkpoint: Checkpoint | null }[]
  readonly docs: readonly Change<Doc>[]
  /** What workers need not hear any more; without a job, all that was kept for the worker. Removed before any is added. */
  readonly told: readonly { readonly workerId: string; readonly jobId: string | null; readonly lease: number | null }[]
  /** What workers shall hear with their next beat, in this order. */
  readonly notices: readonly WorkerNotice[]
  /** Appended to the log in this order. */
  readonly events: readonly NewEvent[]
  /** For those who listen now, on this and other servers; not kept. */
  readonly live: readonly NewEvent[]
  /** Workers that should hear of new orders at once; not kept. */
  readonly orders: readonly string[]
  /** A sign of life; one that is earlier than what is kept changes nothing. */
  readonly aliveAt: Instant | null
  /** Rewrites the list of outages, if it is still what was seen. */
  readonly outages: { readonly before: readonly Outage[]; readonly after: readonly Outage[] } | null
  /** Entries of the inbox that were found and leave it now; what was refused is kept elsewhere, with the reason. */
  readonly inbox: readonly { readonly id: string; readonly refused: Refusal | null }[]
}

export const NO_CHANGES: Changes = {
  jobs: [],
  workers: [],
  queues: [],
  types: [],
  checkpoints: [],
  docs: [],
  notices: [],
  told: [],
  events: [],
  live: [],
  orders: [],
  aliveAt: null,
  outages: null,
  inbox: [],
}

export function isNothing(changes: Changes): boolean {
  return (
    changes.jobs.length +
      changes.workers.length +
      changes.queues.length +
      changes.types.length +
      changes.checkpoints.length +
      changes.docs.length +
      changes.notices.length +
      changes.told.length +
      changes.events.length +
      changes.live.length +
      changes.orders.length +
      changes.inbox.length ===
      0 &&
    changes.aliveAt === null &&
    changes.outages === null
  )
}

/** A job that an application laid into the inbox: an enqueue request as it wrote it. */
export interface InboxEntry {
  readonly id: string
  readonly body: string
}

export interface Refusal {
  /** JSON. */
  readonly error: Json
  readonly at: Instant
}

export interface WorkerNotice {
  readonly workerId: string
  readonly notice: Notice
}

/** When a server last stood by this data, and the times in which none did. */
export interface Life {
  readonly aliveAt: Instant | null
  readonly outages: readonly Outage[]
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

/** Which jobs of a queue are to be handed out, and in what order. */
export interface Claimable {
  readonly queue: string
  readonly limit: number
  /**
   * Always by priority first, highest to lowest. `fifo`: by sequence. `edf`: those with a deadline before those without,
   * by their deadline (the `wakeAt` of a job that is available), then by sequence.
   */
  readonly order: 'fifo' | 'edf'
  /** Only the jobs of this tenant; null: anybody's. */
  readonly tenant: string | null
  /** Not those that wait for one of these limiters. */
  readonly without: readonly string[]
}

/** Rows of a queue before one of its jobs, as `Reads.ahead` finds them: each is counted up to a bound. */
export interface RowsAhead {
  readonly above: number
  /** Of its own priority: all that came earlier, and those among them that have no deadline. */
  readonly earlier: number
  readonly earlierUndated: number
  /** Of its own priority: those whose deadline is nearer. */
  readonly nearer: number
}

/** Above every deadline: all jobs that have one are nearer. */
export const NO_DEADLINE = 9e15

/** How many of them are handed out first. */
export function countAhead(rows: RowsAhead, order: Claimable['order'], isDated: boolean, look: number): JobCount {
  const { above, earlier, earlierUndated, nearer } = rows
  const counted = order === 'fifo' ? [above, earlier] : isDated ? [above, nearer] : [above, nearer, earlier]
  const isExact = counted.every((count) => count < look)
  if (order === 'fifo') return { total: above + earlier, isExact }
  return { total: above + nearer + (isDated ? 0 : earlierUndated), isExact }
}

/** Of jobs that have a deadline and jobs that have none, both in their order: by priority, and within one the dated first. */
export function datedFirst(dated: readonly Job[], undated: readonly Job[], limit: number): Job[] {
  const merged: Job[] = []
  let next = 0
  for (const job of dated) {
    for (let other = undated[next]; other !== undefined && other.priority > job.priority; other = undated[next]) {
      merged.push(other)
      next += 1
    }
    merged.push(job)
  }
  return [...merged, ...undated.slice(next)].slice(0, limit)
}

export interface Transaction {
  /** Whoever asked for one of these names first is waited for until its transaction ends. For what has no row yet. */
  lockNames(names: readonly string[]): Promise<void>
  /** Sees the signs of life. */
  seeLife(): Promise<Life>
  /** The workers with these ids, as far as they exist. */
  findWorkers(ids: readonly string[]): Promise<Worker[]>
  /** Sees the workers with these ids, as far as they exist. */
  seeWorkers(ids: readonly string[]): Promise<Worker[]>
  /** The jobs with these ids, as far as they exist. */
  findJobs(ids: readonly string[]): Promise<Job[]>
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

export interface Page {
  readonly limit: number
  readonly offset: number
}

/** So many rows are looked at for one page of a list, and for one total. */
export const LOOK = 1_000
/** Up to so many entries of an index are counted for a total. */
export const MAX_COUNTED = 10_000

export interface JobPage {
  readonly jobs: Job[]
  /** Where the next page begins; null: there is nothing more. It may be set although the page is not full, or empty. */
  readonly next: string | null
}

export interface JobCount {
  readonly total: number
  /** If not, there are at least so many. */
  readonly isExact: boolean
}

export interface DeadLetterFilter {
  readonly queue: string | null
  readonly type: string | null
  /** Only this tenant's; null or left out: anybody's. */
  readonly tenant?: string | null
}

/** A part of what is in an order: `look` entries after the first `skip`. */
export interface Stretch {
  readonly skip: number
  readonly look: number
}

/** A part of the log: the events between two places that are of these types (none: of any). */
export interface LogPart {
  readonly above: number
  readonly below: number
  readonly types: readonly string[]
  readonly limit: number
  readonly order: 'oldest' | 'newest'
}

/** A stretch of time, in parts: `look` jobs, beginning after `skip` of those that are woken at `from`. */
export interface Waking extends Stretch {
  readonly from: Instant
  /** Inclusive. */
  readonly until: Instant
}

export interface Woken {
  /** When each of the jobs that were looked at is woken, including those that are over and wait for their removal. */
  readonly wakes: readonly Instant[]
  /** Those of them that are not over, without their bodies. */
  readonly jobs: readonly Job[]
}

export interface WorkerTotal {
  readonly state: string
  readonly count: number
  readonly silent: number
}

export type StateCounts = Readonly<Record<JobState, number>>

/** Reads for people: what is committed, without locks. */
export interface Reads {
  job(id: string): Promise<Job | null>
  /**
   * Newest first (`orderOf`); `cursor`: from the `next` of an earlier page. Looks at a bounded number of jobs
   * (`job-lists.ts`). What the filter says of metadata is left to the caller.
   */
  jobs(filter: JobFilter, cursor: string | null, page: Page): Promise<JobPage>
  /** How many jobs the filter means; of many that no count is kept of, at least how many. Metadata as above. */
  countJobs(filter: JobFilter): Promise<JobCount>
  deadLetters(filter: DeadLetterFilter, page: Page): Promise<{ jobs: Job[]; total: number }>
  deadLetterCounts(): Promise<{ queue: string; count: number }[]>
  /** True while a job that was removed by retention is remembered. */
  wasPurged(id: string): Promise<boolean>
  checkpoint(jobId: string): Promise<Checkpoint | null>
  workers(): Promise<Worker[]>
  /** Some of the workers that are not dead, by id. */
  workersPage(page: Page): Promise<Worker[]>
  /** How many workers that are not dead are in each state, and how many of them are known and silent since. */
  workerTotals(silentSince: Instant): Promise<readonly WorkerTotal[]>
  worker(id: string): Promise<Worker | null>
  queues(): Promise<Queue[]>
  queue(name: string): Promise<Queue | null>
  /** Some of the queues by name, and how many there are. */
  queuesPage(page: Page): Promise<{ queues: Queue[]; total: number }>
  /** The queues that came first. */
  firstQueues(limit: number): Promise<Queue[]>
  queueTotals(): Promise<{ readonly total: number; readonly paused: number }>
  /** Exact counts of every queue that has, or had, jobs. Takes as long as there are queues: not for what a caller asks. */
  counts(): Promise<Map<string, StateCounts>>
  /** Exact counts of these queues. */
  countsOf(queues: readonly string[]): Promise<Map<string, StateCounts>>
  /** Exact counts of all queues together. */
  totals(): Promise<StateCounts>
  types(): Promise<TypePolicy[]>
  doc(kind: string, id: string): Promise<Doc | null>
  /** The documents of a kind whose ids begin with this, by id: those above `after` (null: from the first). */
  docs(kind: string, prefix: string, after: string | null, limit: number): Promise<Doc[]>
  /** The documents of a kind, highest id first: those below `before` (null: from the last). */
  docsBelow(kind: string, before: string | null, limit: number): Promise<Doc[]>
  /** The jobs of this owner by id: those above `after` (null: from the first). */
  owned(owner: Pick<Owner, 'kind' | 'id'>, after: string | null, limit: number): Promise<Job[]>
  /** The jobs of this owner with the highest ids, highest first. */
  lastOwned(owner: Pick<Owner, 'kind' | 'id'>, limit: number): Promise<Job[]>
  /** How many jobs wait for a limiter, and how many hold it. */
  limited(key: string): Promise<{ available: number; active: number }>
  /** How many jobs a tenant has, by state. */
  tenantCounts(tenant: string): Promise<StateCounts>
  /** How many available jobs of its queue are handed out before this one; looks at so many of each kind at most. */
  ahead(
    job: Pick<Job, 'queue' | 'priority' | 'seq' | 'wakeAt'>,
    order: Claimable['order'],
    look: number,
  ): Promise<JobCount>
  /** Available jobs of a queue by priority and sequence. Only an index is read. */
  line(queue: string, part: Stretch): Promise<Spot[]>
  /** Available jobs of a queue that have a deadline, in the order of `edf`. Only an index is read. */
  datedLine(queue: string, part: Stretch): Promise<DatedSpot[]>
  /** The jobs that stand at these places, without their bodies; in any order. */
  jobsInLine(spots: readonly (Spot & { readonly queue: string })[]): Promise<Job[]>
  /**
   * Scheduled and retryable jobs (of a queue; null: of any) that are woken before the moment they wait for, as a limit of
   * theirs comes first: without their bodies, among a part of the jobs of all kinds in the order in which they are woken.
   */
  outwaited(queue: string | null, part: Stretch): Promise<Job[]>
  /** Jobs that are woken within a stretch of time, the nearest first. */
  waking(asked: Waking): Promise<Woken>
  /** Available jobs of a queue that have a deadline, in the order of `edf`. */
  deadlined(queue: string, limit: number): Promise<Job[]>
  /** Active jobs without their bodies, for the age of their last sign of life. */
  activeJobs(limit: number): Promise<Job[]>
  /** Events after this place, oldest first. */
  eventsAfter(sequence: number, limit: number): Promise<StoredEvent[]>
  /** Events of a part of the log. It takes as long as the part is, however few are found. */
  eventsAmong(part: LogPart): Promise<StoredEvent[]>
  event(sequence: number): Promise<StoredEvent | null>
  /** First and last place in the log (0 and 0 when nothing was ever logged; first = last + 1 when all is pruned). */
  eventBounds(): Promise<{ first: number; last: number }>
  nextWakeAt(): Promise<Instant | null>
  /** As `nextWakeAt`, without workers: the nearest instant at which a job or a document wants to be woken. */
  nextWorkAt(): Promise<Instant | null>
  life(): Promise<Life>

  // ---- Everything, page by page, for a copy. Together with workers, queues, types, events and life that is all there is.

  sizes(): Promise<Sizes>
  /** Every job, by id: those whose id sorts above this one (null: from the first). */
  jobsAfter(id: string | null, limit: number): Promise<Job[]>
  /** Every checkpoint, by the id of its job. */
  checkpointsAfter(jobId: string | null, limit: number): Promise<Checkpoint[]>
  /** Every document, by kind and id. */
  docsAfter(name: DocName | null, limit: number): Promise<Doc[]>
  /** What all workers shall hear, oldest first. Begins after place 0; places only grow. */
  noticesAfter(place: number, limit: number): Promise<(WorkerNotice & { readonly place: number })[]>
  /** Every removed job that is remembered, oldest first. Begins after place 0; places only grow. */
  tombstonesAfter(place: number, limit: number): Promise<{ readonly place: number; readonly id: string }[]>
  /** Everything in the inbox, oldest first. Begins after place 0; places only grow. */
  inboxAfter(place: number, limit: number): Promise<(InboxEntry & { readonly place: number })[]>
  /** Everything that was refused there, oldest first. Begins after place 0; places only grow. */
  refusedAfter(place: number, limit: number): Promise<(InboxEntry & Refusal & { readonly place: number })[]>
  /** True from the first batch of a restore until its last: what is there so far is only a part. */
  isHalfRestored(): Promise<boolean>
}

/** How many there are of each kind of record. */
export interface Sizes {
  readonly queues: number
  readonly types: number
  readonly workers: number
  readonly notices: number
  readonly jobs: number
  readonly checkpoints: number
  readonly docs: number
  readonly tombstones: number
  readonly events: number
  readonly inbox: number
  readonly refused: number
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

/** A job was written. `from: null` = it is new, `to: null` = it is gone. */
export interface StateChange {
  readonly id: string
  readonly queue: string
  readonly type: string
  readonly from: JobState | null
  readonly to: JobState | null
  readonly tenant: string | null
}

export function stateChangesOf(jobs: readonly Change<Job>[]): StateChange[] {
  const changes: StateChange[] = []
  for (const { before, after } of jobs) {
    const job = after ?? before
    if (job === null) continue
    changes.push({
      id: job.id,
      queue: job.queue,
      type: job.type,
      from: before?.state ?? null,
      to: after?.state ?? null,
      tenant: job.tenant,
    })
  }
  return changes
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
   * Resolves when it, and everything it has seen, would survive a loss of power; nobody may be told of it before. The
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
   * finds.
   */
  transaction<T>(work: (tx: Transaction) => Promise<Closing<T>>): Promise<Ended<T>>
  /** Hears of the commits of others, until the returned function is called. Null: some may have been missed. */
  follow(listener: (news: News | null) => void): () => void
  /** Answers when the database does. */
  ping(): Promise<void>
  /**
   * Writes records of another store in one transaction, exactly as they are: with their versions, jobs with their
   * places in the queue, events with theirs in the log. What comes later gets later places. Nobody is told of it, and
   * nothing is pruned. Refuses what is there already (`RowsMoved`). `more`: other batches follow; until one without it
   * was written, the store counts as half restored. Answers when it would survive a loss of power.
   */
  restore(batch: Batch, more: boolean): Promise<void>
  /** Removes everything. Only the test bench asks for it, and an import that failed. */
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
