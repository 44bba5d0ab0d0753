/** The statements of `statements.ts`, prepared once per connection. */
import type { Database } from 'better-sqlite3'
import type { Instant, JobState, Spot } from '@curfew/core'
import type {
  CheckpointRow,
  DocRow,
  EventRow,
  JobRow,
  NoticeRow,
  QueueRow,
  SizesRow,
  TypeRow,
  WorkerRow,
} from './rows.ts'
import * as sql from './statements.ts'
import type { Stretch, Waking } from '../store.ts'
import { WideRows } from './wide-rows.ts'

type Values = readonly unknown[]

// The words that are used of a prepared statement: the driver's own type has no name that a declaration could use.
interface Finds<Row> {
  get(...params: unknown[]): Row | undefined
  all(...params: unknown[]): Row[]
}
interface FindsBy<Params, Row> {
  get(params: Params): Row | undefined
  all(params: Params): Row[]
}
interface Writes {
  run(...params: unknown[]): { readonly changes: number; readonly lastInsertRowid: number | bigint }
}

export type Statements = ReturnType<typeof prepare>

/** Prepared once per connection. Rows come as arrays in the order of the table's columns, which is the cheapest. */
export function prepare(db: Database) {
  const write = (sql: string): Writes => db.prepare(sql)
  const rows = <Row extends Values>(sql: string): Finds<Row> => db.prepare<unknown[], Row>(sql).raw()
  const wide = new WideRows(db)
  const jobs = <Params extends unknown[]>(sql: string) => wide.prepare<Params, JobRow>(sql)
  const value = <Value>(sql: string): Finds<Value> => db.prepare<unknown[], Value>(sql).pluck()
  const valueBy = <Params extends object>(sql: string): FindsBy<Params, number> =>
    db.prepare<[Params], number>(sql).pluck()
  return {
    begin: write('BEGIN IMMEDIATE'),
    commit: write('COMMIT'),
    rollback: write('ROLLBACK'),

    findJob: jobs<[id: string]>(sql.FIND_JOB),
    findClaimable: jobs<[queue: string, limit: number]>(sql.FIND_CLAIMABLE),
    findClaimableWithout: jobs<[Wanted]>(sql.FIND_CLAIMABLE_WITHOUT),
    findClaimableOfTenant: jobs<[Wanted & OfTenant]>(sql.FIND_CLAIMABLE_OF_TENANT),
    lineSequences: value<number>(sql.LINE_SEQUENCES),
    linePriorities: rows<readonly [priority: number, count: number]>(sql.LINE_PRIORITIES),
    datedLine: rows<readonly [priority: number, seq: number, wakeAt: Instant]>(sql.DATED_LINE),
    jobInLine: jobs<[Spot & { queue: string }]>(sql.JOB_IN_LINE),
    rowsAhead: rows<readonly [above: number, earlier: number, earlierUndated: number, nearer: number]>(sql.ROWS_AHEAD),
    outwaited: jobs<[Stretch & { queue: string | null }]>(sql.OUTWAITED),
    wakes: value<Instant>(sql.WAKES),
    wakingJobs: jobs<[Waking]>(sql.WAKING_JOBS),
    tenantCounts: rows<readonly [state: JobState, n: number]>(sql.TENANT_COUNTS),
    findDeadlined: jobs<[Wanted]>(sql.FIND_DEADLINED),
    findDeadlinedOfTenant: jobs<[Wanted & OfTenant]>(sql.FIND_DEADLINED_OF_TENANT),
    findUndated: jobs<[Wanted & { above: number }]>(sql.FIND_UNDATED),
    findUndatedOfTenant: jobs<[Wanted & OfTenant & { above: number }]>(sql.FIND_UNDATED_OF_TENANT),
    findOldestAvailable: jobs<[{ queue: string; limit: number }]>(sql.FIND_OLDEST_AVAILABLE),
    findOwned: jobs<[Owned]>(sql.FIND_OWNED),
    findOwnedOpen: jobs<[Owned]>(sql.FIND_OWNED_OPEN),
    findLastOwned: jobs<[Omit<Owned, 'after'>]>(sql.FIND_LAST_OWNED),
    findUnique: jobs<[{ key: string; states: string; limit: number }]>(sql.FIND_UNIQUE),
    countLimited: valueBy<{ key: string; state: JobState }>(sql.COUNT_LIMITED),
    findHeldBy: jobs<[workerId: string]>(sql.FIND_HELD_BY),
    seeHeldBy: value<string>(sql.SEE_HELD_BY),
    findDueJobs: jobs<[now: Instant, limit: number]>(sql.FIND_DUE_JOBS),
    findOldestDeadLetters: jobs<[limit: number]>(sql.FIND_OLDEST_DEAD_LETTERS),
    insertJob: write(sql.INSERT_JOB),
    insertBody: write(sql.INSERT_BODY),
    updateJob: write(sql.UPDATE_JOB),
    moveJob: write(sql.MOVE_JOB),
    deleteJob: value<number>(sql.DELETE_JOB),
    deleteBody: write(sql.DELETE_BODY),
    insertTag: write(sql.INSERT_TAG),
    deleteTag: write(sql.DELETE_TAG),
    listDeadLetters: jobs<[DeadLettersAsked & Slice]>(sql.LIST_DEAD_LETTERS),
    countDeadLettersAmong: valueBy<DeadLettersAsked>(sql.COUNT_DEAD_LETTERS_AMONG),
    listActiveJobs: jobs<[limit: number]>(sql.LIST_ACTIVE_JOBS),
    jobsAfter: jobs<[id: string, limit: number]>(sql.JOBS_AFTER),
    nextJobWake: value<Instant>(sql.NEXT_JOB_WAKE),

    addToCount: write(sql.ADD_TO_COUNT),
    allCounts: rows<readonly [queue: string, state: JobState, n: number]>(sql.ALL_COUNTS),
    countsOf: rows<readonly [state: JobState, n: number]>(sql.COUNTS_OF),
    totals: rows<readonly [state: JobState, n: number]>(sql.TOTALS),
    deadLetterCounts: rows<readonly [queue: string, count: number]>(sql.DEAD_LETTER_COUNTS),
    countDeadLetters: valueBy<Pick<DeadLettersAsked, 'queue'>>(sql.COUNT_DEAD_LETTERS),
    insertTombstone: write(sql.INSERT_TOMBSTONE),
    deleteTombstones: write(sql.DELETE_TOMBSTONES),
    findTombstone: value<number>(sql.FIND_TOMBSTONE),
    tombstonesAfter: rows<readonly [place: number, id: string]>(sql.TOMBSTONES_AFTER),

    findCheckpoint: rows<CheckpointRow>(sql.FIND_CHECKPOINT),
    checkpointsAfter: rows<CheckpointRow>(sql.CHECKPOINTS_AFTER),
    putCheckpoint: write(sql.PUT_CHECKPOINT),
    restoreCheckpoint: write(sql.RESTORE_CHECKPOINT),
    deleteCheckpoint: write(sql.DELETE_CHECKPOINT),

    findDoc: rows<DocRow>(sql.FIND_DOC),
    findDueDocs: rows<DocRow>(sql.FIND_DUE_DOCS),
    findDocsBetween: rows<DocRow>(sql.FIND_DOCS_BETWEEN),
    lastDocs: rows<DocRow>(sql.LAST_DOCS),
    docsBelow: rows<DocRow>(sql.DOCS_BELOW),
    docsAfter: rows<DocRow>(sql.DOCS_AFTER),
    insertDoc: write(sql.INSERT_DOC),
    updateDoc: write(sql.UPDATE_DOC),
    deleteDoc: write(sql.DELETE_DOC),
    nextDocWake: value<Instant>(sql.NEXT_DOC_WAKE),

    findWorker: rows<WorkerRow>(sql.FIND_WORKER),
    findDueWorkers: rows<WorkerRow>(sql.FIND_DUE_WORKERS),
    insertWorker: write(sql.INSERT_WORKER),
    updateWorker: write(sql.UPDATE_WORKER),
    deleteWorker: write(sql.DELETE_WORKER),
    listWorkers: rows<WorkerRow>(sql.LIST_WORKERS),
    workersPage: rows<WorkerRow>(sql.WORKERS_PAGE),
    workerTotals: rows<readonly [state: string, count: number, silent: number]>(sql.WORKER_TOTALS),
    nextWorkerWake: value<Instant>(sql.NEXT_WORKER_WAKE),
    findNotices: rows<NoticeRow>(sql.FIND_NOTICES),
    noticesAfter: rows<readonly [...NoticeRow, place: number]>(sql.NOTICES_AFTER),
    insertNotice: write(sql.INSERT_NOTICE),
    deleteNotice: write(sql.DELETE_NOTICE),
    deleteNotices: write(sql.DELETE_NOTICES),

    findQueue: rows<QueueRow>(sql.FIND_QUEUE),
    listQueues: rows<QueueRow>(sql.LIST_QUEUES),
    queuesPage: rows<QueueRow>(sql.QUEUES_PAGE),
    firstQueues: rows<QueueRow>(sql.FIRST_QUEUES),
    queueTotals: rows<readonly [total: number, paused: number]>(sql.QUEUE_TOTALS),
    insertQueue: write(sql.INSERT_QUEUE),
    restoreQueue: write(sql.RESTORE_QUEUE),
    updateQueue: write(sql.UPDATE_QUEUE),
    findType: rows<TypeRow>(sql.FIND_TYPE),
    listTypes: rows<TypeRow>(sql.LIST_TYPES),
    putType: write(sql.PUT_TYPE),
    restoreType: write(sql.RESTORE_TYPE),
    deleteType: write(sql.DELETE_TYPE),

    insertEvent: write(sql.INSERT_EVENT),
    findEvent: rows<EventRow>(sql.FIND_EVENT),
    findEventsAfter: rows<EventRow>(sql.FIND_EVENTS_AFTER),
    findEventsAmong: rows<EventRow>(sql.FIND_EVENTS_AMONG),
    findLastEventsAmong: rows<EventRow>(sql.FIND_LAST_EVENTS_AMONG),
    firstEvent: rows<readonly [sequence: number, at: number]>(sql.FIRST_EVENT),
    lastEvent: value<number | null>(sql.LAST_EVENT),
    firstEventSince: value<number>(sql.FIRST_EVENT_SINCE),
    deleteEvents: write(sql.DELETE_EVENTS),

    allTexts: rows<readonly [place: number, text: string]>(sql.ALL_TEXTS),
    insertText: write(sql.INSERT_TEXT),

    findMeta: value<unknown>(sql.FIND_META),
    putMeta: write(sql.PUT_META),
    deleteMeta: write(sql.DELETE_META),
    sizes: rows<SizesRow>(sql.SIZES),
    lastTombstone: value<number | null>(sql.LAST_TOMBSTONE),
    sqliteVersion: value<string>(sql.SQLITE_VERSION),

    wide,
  }
}

export interface Wanted {
  queue: string
  /** JSON: names of limiters. */
  without: string
  limit: number
}

interface OfTenant {
  tenant: string
}

interface Owned {
  owner: string
  after: string
  limit: number
}

interface DeadLettersAsked {
  queue: string | null
  type: string | null
  tenant: string | null
}

interface Slice {
  limit: number
  offset: number
}
