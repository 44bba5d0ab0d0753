/** What can be read outside of a transaction, and how it is asked for. */
import type {
  Checkpoint,
  DatedSpot,
  Doc,
  DocName,
  Instant,
  Job,
  JobFilter,
  JobState,
  Owner,
  Spot,
  TypePolicy,
  Worker,
} from '@curfew/core'
import type { InboxEntry, Life, Queue, Refusal, StoredEvent, WorkerNotice } from './changes.ts'

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
