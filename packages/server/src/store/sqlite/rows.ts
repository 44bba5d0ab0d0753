/**
 * Records to rows and back. Rows are arrays in the order of the table's columns (a test holds them against the schema).
 *
 * What repeats from row to row goes through `Texts`. Strings that come from outside are kept exactly, half surrogate
 * pairs included, which UTF-8 cannot hold: free text is JSON, and identifiers go through `exact`.
 */
import { broken } from '@curfew/core'
import type { Checkpoint, Doc, Hold, Instant, Job, Notice, TypePolicy, Worker } from '@curfew/core'
import { cell, JOB_COLUMNS, type Place } from '../columns.ts'
import { holdExtras, json, ownerText, progressText } from '../records.ts'
import { jobReader, workerReader, type Dialect, type FlatHold, type TextRef } from '../row-reader.ts'
import { otherValuesWith, workerValuesWith, type WriteDialect } from '../row-values.ts'
import type { Queue, Sizes, StoredEvent, WorkerNotice } from '../store.ts'
import type { Texts } from './texts.ts'

// ---- Text ----

/** With the flag `u` a whole pair is one character, so only halves match. */
const HALF_PAIR = /\p{Surrogate}/u
const ESCAPED = '\u0001'

/** An identifier as SQLite can hold it: itself, unless it has half a surrogate pair (or looks escaped). */
export function exact(id: string): string {
  return HALF_PAIR.test(id) || id.startsWith(ESCAPED) ? ESCAPED + JSON.stringify(id) : id
}

function original(text: string): string {
  return text.startsWith(ESCAPED) ? (JSON.parse(text.slice(1)) as string) : text
}

// ---- Jobs ----

/** What the client sent if it does not lie in the row itself, its place, the columns, the body, and two keys of its error. */
export type JobRow = readonly unknown[]

const DIALECT: Dialect<number, TextRef> & WriteDialect<number> = {
  isSet: (flag) => flag === 1,
  flag: (value) => (value ? 1 : 0),
  refOf: (column) => column,
  name: (column) => column,
  nameOrNull: (column) => column,
  workerName: original,
  exact,
}

/** `aside` and `place` come before the columns. */
const BEFORE = 2
const ASIDE: Place<string | null> = 0
const BODY: Place<string | null> = BEFORE + Object.keys(JOB_COLUMNS).length
const ID: Place<string> = BEFORE

const readJob = jobReader(DIALECT, BEFORE)

export function toJob(row: JobRow, texts: Texts): Job {
  return readJob(row, cell(row, BODY) ?? cell(row, ASIDE) ?? lost(cell(row, ID)), texts)
}

function lost(id: string): never {
  throw broken(`the stored body of job ${id} is missing`)
}

/** A job as it begins, in the order in which INSERT_JOB names it. */
export function firstValues(job: Job, version: number, seq: number, texts: Texts): unknown[] {
  return [
    job.id,
    version,
    job.state,
    job.queue,
    job.type,
    job.priority,
    seq,
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
    job.owner === null ? null : ownerText(job.owner),
    job.owner?.step ?? null,
    job.uniqueKey,
    job.limitKey,
    job.tenant,
    isLarge(job) ? null : job.body,
  ]
}

/** A row is written again whenever its job moves on; up to this, what the client sent is not worth a row of its own. */
const MAX_INSIDE = 500

/** Whether what the client sent with it lies aside. */
export function isLarge({ body }: Job): boolean {
  return body.length > MAX_INSIDE
}

/** Who holds it; undefined while it is held by none, and the row keeps who held it last. */
const holderOf = ({ hold }: Job): string | null | undefined => (hold === null ? undefined : hold.workerId)

/** What a claim, a result or a sign of life changes, in the order in which MOVE_JOB names it. */
export function movingValues(job: Job, seq: number, texts: Texts, worker = holderOf(job)): unknown[] {
  const { hold } = job
  return [
    job.state,
    seq,
    job.wakeAt,
    worker === undefined ? 0 : 1,
    worker === undefined || worker === null ? null : exact(worker),
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

/** The rest of what may change, in the order in which UPDATE_JOB names it after that. */
export const otherValues = otherValuesWith(DIALECT)

function holdText(hold: Hold, texts: Texts): string {
  const { known, timeout, grace, heartbeat, visibility, onTimeout, signAt, visibleFrom, visibleMs, stack, saved } = hold
  const terms = texts.termsOf({ known, timeout, grace, heartbeat, visibility, onTimeout })
  if (stack === undefined && saved === undefined && typeof terms === 'number')
    return `[${String(terms)},${String(signAt)},${String(visibleFrom)},${String(visibleMs)}]`
  const flat: FlatHold = [terms, signAt, visibleFrom, visibleMs]
  return JSON.stringify([...flat, ...holdExtras(hold)])
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
  return { jobId, sequence, state, stepIndex, metadata, createdAt }
}

export function checkpointValues(checkpoint: Checkpoint): CheckpointRow {
  const { jobId, sequence, state, stepIndex, metadata, createdAt } = checkpoint
  return [jobId, sequence, state, stepIndex, metadata, createdAt]
}

// ---- Documents ----

export type DocRow = readonly [kind: string, id: string, version: number, wakeAt: Instant | null, body: string]

export function toDoc([kind, id, version, wakeAt, body]: DocRow): Doc {
  return { kind, id, version, wakeAt, body }
}

// ---- Workers ----

export type WorkerRow = readonly unknown[]

export const toWorker: (row: WorkerRow, texts: Texts) => Worker = workerReader(DIALECT)

/** All but id and version, in the order in which INSERT_WORKER and UPDATE_WORKER name it. */
export const workerValues = workerValuesWith(DIALECT)

export type NoticeRow = readonly [workerId: string, jobId: string, lease: number, reason: Notice['reason'], at: Instant]

export function toNotice([workerId, jobId, lease, reason, at]: readonly [...NoticeRow, ...unknown[]]): WorkerNotice {
  return { workerId: original(workerId), notice: { jobId, lease, reason, at } }
}

export function noticeValues({ workerId, notice: { jobId, lease, reason, at } }: WorkerNotice): NoticeRow {
  return [exact(workerId), jobId, lease, reason, at]
}

// ---- Queues, types, events ----

export type QueueRow = readonly [
  name: string,
  createdAt: Instant,
  pausedAt: Instant | null,
  config: string,
  version: number,
  drainingAt: Instant | null,
]

export function toQueue([name, createdAt, pausedAt, config, version, drainingAt]: QueueRow): Queue {
  return { name, version, createdAt, pausedAt, drainingAt, config: JSON.parse(config) as Queue['config'] }
}

/** All but name and version, in the order in which INSERT_QUEUE and UPDATE_QUEUE name it. */
export function queueValues({ createdAt, pausedAt, drainingAt, config }: Queue): unknown[] {
  return [createdAt, pausedAt, drainingAt, JSON.stringify(config)]
}

export type TypeRow = readonly [type: string, asked: string, caps: string, sent: string, updatedAt: Instant]

export function toTypePolicy([type, asked, caps, sent, updatedAt]: TypeRow): TypePolicy {
  return {
    type,
    asked: JSON.parse(asked) as TypePolicy['asked'],
    caps: JSON.parse(caps) as TypePolicy['caps'],
    sent: JSON.parse(sent) as TypePolicy['sent'],
    updatedAt,
  }
}

export function typeValues({ type, asked, caps, sent, updatedAt }: TypePolicy): TypeRow {
  return [type, JSON.stringify(asked), JSON.stringify(caps), JSON.stringify(sent), updatedAt]
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
  return { sequence, type, at, subject: original(subject), queue, jobType, data }
}

export function eventValues({ sequence, type, at, subject, queue, jobType, data }: StoredEvent): EventRow {
  return [sequence, type, at, exact(subject), queue, jobType, data]
}

// ---- Sizes ----

export type SizesRow = readonly [
  queues: number,
  types: number,
  workers: number,
  notices: number,
  jobs: number,
  checkpoints: number,
  tombstones: number,
  events: number,
  docs: number,
]

export function toSizes(row: SizesRow): Sizes {
  const [queues, types, workers, notices, jobs, checkpoints, tombstones, events, docs] = row
  return { queues, types, workers, notices, jobs, checkpoints, docs, tombstones, events, inbox: 0, refused: 0 }
}
