/** What a transaction saves, as one batch: rows with the events that tell of them. */
import type {
  Checkpoint,
  Doc,
  Instant,
  Job,
  JobState,
  Json,
  NewEvent,
  Notice,
  Outage,
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
  /** A queue is only ever added or rewritten. One that another server added meanwhile is left as it is. */
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
  /** For current listeners, on this and other servers; not kept. */
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
