/**
 * Records to rows and back. Rows are arrays in the order of the table's columns (a test holds them against the schema).
 *
 * What repeats from row to row goes through `Texts`. Strings that come from outside are kept exactly, half surrogate
 * pairs and NUL included, which a text of PostgreSQL cannot hold: free text is JSON, and identifiers go through `exact`.
 */
import type { Checkpoint, Doc, DocName, Hold, Instant, Job, Notice, TypePolicy, Worker } from '@curfew/core'
import { errorKeys, eventData, lastWorker, tagKeys, type NewEvent } from '@curfew/core'
import { cell, JOB_COLUMNS, placesOf, WORKER_COLUMNS, type Place } from '../columns.ts'
import { above, holdExtras, json, ownerText, progressText } from '../records.ts'
import { jobReader, workerReader, type Dialect, type FlatHold, type HoldTerms, type TextRef } from '../row-reader.ts'
import { otherValuesWith, workerValuesWith, type WriteDialect } from '../row-values.ts'
import type { Queue, Sizes, StoredEvent, WorkerNotice } from '../store.ts'
import { ColumnList, elementText } from './lists.ts'
import type { Texts } from './texts.ts'

// ---- Text ----

/** With the flag `u` a whole pair is one character, so only halves match. */
// eslint-disable-next-line no-control-regex -- NUL is what it looks for
const NOT_IN_TEXT = /\p{Surrogate}|\u0000/u
const ESCAPED = '\u0001'

/** An identifier as PostgreSQL can hold it: itself, unless it has NUL or half a surrogate pair (or looks escaped). */
export function exact(id: string): string {
  return NOT_IN_TEXT.test(id) || id.startsWith(ESCAPED) ? ESCAPED + JSON.stringify(id) : id
}

export function original(text: string): string {
  return text.startsWith(ESCAPED) ? (JSON.parse(text.slice(1)) as string) : text
}

export const exactOrNull = (id: string | null): string | null => (id === null ? null : exact(id))
const originalOrNull = (text: string | null): string | null => (text === null ? null : original(text))

const ZERO = 48
const NINE = 57

/** A reference as a column holds it. */
function refOf(column: string): TextRef {
  const first = column.charCodeAt(0)
  return first >= ZERO && first <= NINE ? Number(column) : column
}

// ---- Lists ----

/** The columns of a list of rows, each as an array of the database. */
export function columnsOf(rows: readonly (readonly unknown[])[], width: number): ColumnList[] {
  const columns: ColumnList[] = []
  for (let column = 0; column < width; column++) columns.push(new ColumnList(rows, column))
  return columns
}

/**
 * The columns of rows that differ only in these: a list for each of them, and for every other the value they share. Null
 * if they differ in others.
 */
export function alikeBut(
  differing: ReadonlySet<number>,
  rows: readonly (readonly unknown[])[],
  width: number,
): unknown[] | null {
  const [first = []] = rows
  const columns: unknown[] = []
  for (let column = 0; column < width; column++) {
    const shared = first[column]
    if (differing.has(column)) columns.push(new ColumnList(rows, column))
    else if (rows.every((row) => row[column] === shared)) columns.push(shared)
    else return null
  }
  return columns
}

export function listOf(values: readonly (string | number)[]): string {
  return `{${values.map(elementText).join()}}`
}

// ---- Jobs ----

/** The body, the columns, and two keys of its error. */
export type JobRow = readonly unknown[]

const WRITES: WriteDialect<boolean> = { flag: (value) => value, name: exact, exact }
const DIALECT: Dialect<boolean, string> = {
  isSet: (flag) => flag,
  refOf,
  name: original,
  nameOrNull: originalOrNull,
  workerName: original,
}

/** `body` comes before the columns. */
const BODY: Place<string> = 0
const JOB = placesOf<boolean, string, typeof JOB_COLUMNS>(JOB_COLUMNS, 1)

/** The places of shared texts that these rows refer to and this server has not seen. */
export function unknownToJobs(rows: readonly JobRow[], texts: Texts): number[] {
  const unknown = new Set<number>()
  const look = (ref: TextRef): void => {
    if (typeof ref === 'number' && !texts.knows(ref)) unknown.add(ref)
  }
  for (const row of rows) {
    look(refOf(cell(row, JOB.limits)))
    look(refOf(cell(row, JOB.retry)))
    const hold = cell(row, JOB.hold)
    if (hold !== null) look(termsOf(hold))
  }
  return [...unknown]
}

const readJob = jobReader(DIALECT, 1)

export function toJob(row: JobRow, texts: Texts): Job {
  return readJob(row, cell(row, BODY), texts)
}

/** A job as it begins, in the order in which INSERT_JOBS and RESTORE_JOBS name it. */
export function firstValues(job: Job, version: number, texts: Texts): unknown[] {
  return [
    exact(job.id),
    version,
    job.state,
    exact(job.queue),
    exact(job.type),
    job.priority,
    job.seq,
    job.wakeAt,
    job.createdAt,
    job.anchorAt,
    job.limitsSetAt,
    job.scheduledAt,
    job.expiresAt,
    job.enqueuedAt,
    job.resultTtlMs,
    texts.ref(job.limits),
    texts.ref(job.retry),
    json(job.ceiling),
    json(job.parent),
    json(job.traceId),
    job.given,
    job.life,
    job.body,
    ...ownerValues(job),
    exactOrNull(job.uniqueKey),
    exactOrNull(job.limitKey),
    exactOrNull(job.tenant),
  ]
}

/** What has happened to a job since, in the order in which RESTORE_JOBS names it after that. */
export function livedValues(job: Job, texts: Texts): unknown[] {
  const { hold } = job
  return [
    exactOrNull(lastWorker(job)),
    job.deadLetter,
    job.attempt,
    job.lease,
    job.interruptions,
    job.activatedAt,
    job.startedAt,
    job.completedAt,
    job.cancelledAt,
    job.discardedAt,
    job.reenqueuedAt,
    job.nextRetryAt,
    job.retryDelayMs,
    job.purgeAt,
    job.errorCount,
    job.checkpointSeq,
    hold === null ? null : holdText(hold, texts),
    json(job.closedBy),
    progressText(job),
    json(job.cancelReason),
    job.error,
    job.errors,
    job.result,
    ...errorValues(job),
  ]
}

/** What a claim, a result or a sign of life changes, in the order in which MOVE_JOBS names it. */
export function movingValues(job: Job, seq: number | null, texts: Texts): unknown[] {
  const { hold } = job
  return [
    job.state,
    seq,
    job.wakeAt,
    hold === null || hold.workerId === null ? null : exact(hold.workerId),
    job.attempt,
    job.lease,
    job.enqueuedAt,
    job.startedAt,
    job.completedAt,
    job.purgeAt,
    hold === null ? null : holdText(hold, texts),
    json(job.closedBy),
    progressText(job),
    job.result,
    job.life,
  ]
}

/** The rest of what may change, in the order in which UPDATE_JOBS names it after that. */
export const otherValues = otherValuesWith(WRITES)

/** Each tag of these jobs, in the order in which INSERT_TAGS and DELETE_TAGS name it. */
export function tagRows(jobs: readonly Job[]): [tag: string, id: string][] {
  return jobs.flatMap((job) => tagKeys(job).map((tag): [string, string] => [exact(tag), exact(job.id)]))
}

function errorValues(job: Job): [type: string | null, kind: string | null] {
  const { type, kind } = errorKeys(job)
  return [exactOrNull(type), kind]
}

function ownerValues({ owner }: Job): [owner: string | null, step: string | null] {
  return owner === null ? [null, null] : [exact(ownerText(owner)), exactOrNull(owner.step)]
}

function holdText(hold: Hold, texts: Texts): string {
  const { known, timeout, grace, heartbeat, visibility, onTimeout, signAt, visibleFrom, visibleMs } = hold
  const terms: HoldTerms = { known, timeout, grace, heartbeat, visibility, onTimeout }
  const flat: FlatHold = [texts.refOfText(JSON.stringify(terms)), signAt, visibleFrom, visibleMs]
  return JSON.stringify([...flat, ...holdExtras(hold)])
}

/** What a reservation was granted under, read off its text: only a place matters, so nothing is parsed. */
function termsOf(hold: string): TextRef {
  const end = hold.indexOf(',')
  const first = hold.charCodeAt(1)
  return first >= ZERO && first <= NINE ? Number(hold.slice(1, end)) : hold
}

export type CheckpointRow = readonly [
  jobId: string,
  sequence: number,
  state: string,
  stepIndex: number | null,
  metadata: string | null,
  createdAt: Instant,
]

export function toCheckpoint([jobId, sequence, state, stepIndex, metadata, createdAt]: CheckpointRow): Checkpoint {
  return { jobId: original(jobId), sequence, state, stepIndex, metadata, createdAt }
}

export function checkpointValues(checkpoint: Checkpoint): CheckpointRow {
  const { jobId, sequence, state, stepIndex, metadata, createdAt } = checkpoint
  return [exact(jobId), sequence, state, stepIndex, metadata, createdAt]
}

// ---- Documents ----

export type DocRow = readonly [kind: string, id: string, version: number, wakeAt: Instant | null, body: string]

export function toDoc([kind, id, version, wakeAt, body]: DocRow): Doc {
  return { kind: original(kind), id: original(id), version, wakeAt, body }
}

export function docName({ kind, id }: DocName): [kind: string, id: string] {
  return [exact(kind), exact(id)]
}

/** All but the version, in the order in which the statements that write documents name it. */
export function docValues(doc: Doc): unknown[] {
  return [...docName(doc), doc.wakeAt, doc.body]
}

const FIRST = '\u0001'

/**
 * Where the ids that begin with this, above `after`, begin and end, in the order of their bytes; an end of null is the
 * end of all. (NUL is in no text, so the next text after a text is that text and \u0001. An id that had to be escaped
 * stands at the beginning of its kind, and is not among those that begin as it did before.)
 */
export function rangeUnder(prefix: string, after: string | null): [from: string, below: string | null] {
  const begin = exact(prefix)
  const next = after === null ? begin : exact(after) + FIRST
  const from = Buffer.compare(Buffer.from(next), Buffer.from(begin)) < 0 ? begin : next
  return [from, above(begin)]
}

// ---- Workers ----

export type WorkerRow = readonly unknown[]

const WORKER = placesOf<boolean, string, typeof WORKER_COLUMNS>(WORKER_COLUMNS)

export function unknownToWorkers(rows: readonly WorkerRow[], texts: Texts): number[] {
  const unknown = new Set<number>()
  for (const row of rows) {
    for (const ref of [WORKER.queues, WORKER.labels, WORKER.handlers].map((place) => refOf(cell(row, place)))) {
      if (typeof ref === 'number' && !texts.knows(ref)) unknown.add(ref)
    }
  }
  return [...unknown]
}

export const toWorker: (row: WorkerRow, texts: Texts) => Worker = workerReader(DIALECT)

const restOfWorker = workerValuesWith(WRITES)

/** All but the version, in the order in which the statements that write workers name it. */
export function workerValues(worker: Worker, texts: Texts): unknown[] {
  return [exact(worker.id), ...restOfWorker(worker, texts)]
}

export type NoticeRow = readonly [workerId: string, jobId: string, lease: number, reason: Notice['reason'], at: Instant]

export function toNotice([workerId, jobId, lease, reason, at]: readonly [...NoticeRow, ...unknown[]]): WorkerNotice {
  return { workerId: original(workerId), notice: { jobId: original(jobId), lease, reason, at } }
}

export function noticeValues({ workerId, notice: { jobId, lease, reason, at } }: WorkerNotice): unknown[] {
  return [exact(workerId), exact(jobId), lease, reason, at]
}

// ---- Queues, types, events ----

export type QueueRow = readonly [
  name: string,
  version: number,
  createdAt: Instant,
  pausedAt: Instant | null,
  config: string,
  drainingAt: Instant | null,
]

export function toQueue([name, version, createdAt, pausedAt, config, drainingAt]: QueueRow): Queue {
  return {
    name: original(name),
    version,
    createdAt,
    pausedAt,
    drainingAt,
    config: JSON.parse(config) as Queue['config'],
  }
}

/** All but the version, in the order in which the statements that write queues name it. */
export function queueValues({ name, createdAt, pausedAt, drainingAt, config }: Queue): unknown[] {
  return [exact(name), createdAt, pausedAt, drainingAt, JSON.stringify(config)]
}

export type TypeRow = readonly [type: string, asked: string, caps: string, sent: string, updatedAt: Instant]

export function toTypePolicy([type, asked, caps, sent, updatedAt]: TypeRow): TypePolicy {
  return {
    type: original(type),
    asked: JSON.parse(asked) as TypePolicy['asked'],
    caps: JSON.parse(caps) as TypePolicy['caps'],
    sent: JSON.parse(sent) as TypePolicy['sent'],
    updatedAt,
  }
}

export function typeValues({ type, asked, caps, sent, updatedAt }: TypePolicy): TypeRow {
  return [exact(type), JSON.stringify(asked), JSON.stringify(caps), JSON.stringify(sent), updatedAt]
}

/** Always written alike, because it is compared. */
export function outagesText(outages: readonly { from: Instant; to: Instant }[]): string {
  return JSON.stringify(outages.map(({ from, to }) => ({ from, to })))
}

export type EventRow = readonly [
  sequence: number,
  type: string,
  at: Instant,
  subject: string,
  queue: string | null,
  jobType: string | null,
  data: string,
]

export function toEvent([sequence, type, at, subject, queue, jobType, data]: EventRow): StoredEvent {
  return {
    sequence,
    type,
    at,
    subject: original(subject),
    queue: originalOrNull(queue),
    jobType: originalOrNull(jobType),
    data,
  }
}

/** An event that has no place yet. */
export type Unplaced = Omit<StoredEvent, 'sequence'>

export function unplaced(event: NewEvent): Unplaced {
  const { type, at, subject, queue, jobType } = event
  return { type, at, subject, queue, jobType, data: eventData(event) }
}

/** All but the place, in the order in which APPEND_EVENTS and RESTORE_EVENTS name it. */
export function eventValues({ type, at, subject, queue, jobType, data }: Unplaced): unknown[] {
  return [type, at, exact(subject), exactOrNull(queue), exactOrNull(jobType), data]
}

// ---- Sizes ----

export type SizesRow = readonly [
  queues: number,
  types: number,
  workers: number,
  notices: number,
  jobs: number,
  checkpoints: number,
  docs: number,
  tombstones: number,
  events: number,
  inbox: number,
  refused: number,
]

export function toSizes(row: SizesRow): Sizes {
  const [queues, types, workers, notices, jobs, checkpoints, docs, tombstones, events, inbox, refused] = row
  return { queues, types, workers, notices, jobs, checkpoints, docs, tombstones, events, inbox, refused }
}
