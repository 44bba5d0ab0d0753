/**
 * Records to rows and back. Rows are arrays in the order of the table's columns (a test holds them against the schema).
 *
 * What repeats from row to row goes through `Texts`. Strings that come from outside are kept exactly, half surrogate
 * pairs included, which UTF-8 cannot hold: free text is JSON, and identifiers go through `exact`.
 */
import { broken, errorKeys } from '@curfew/core'
import type { Checkpoint, Doc, Hold, Instant, Job, Notice, TypePolicy, Worker } from '@curfew/core'
import { JOB_COLUMNS, placesOf, WORKER_COLUMNS, type JobColumns, type WorkerColumns } from '../columns.ts'
import type { Queue, Sizes, StoredEvent, WorkerNotice } from '../store.ts'
import { beatText, json, ownerOf, ownerText, parsed, toBeat } from '../records.ts'
import type { TextRef, Texts } from './texts.ts'

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

export type JobRow = readonly [
  /** What the client sent, if it does not lie in the row itself. */
  aside: string | null,
  place: number,
  ...columns: JobColumns<number, TextRef>,
  body: string | null,
  errorType: string | null,
  timeoutKind: string | null,
]

const JOB = placesOf(['aside', 'place', ...JOB_COLUMNS, 'body', 'errorType', 'timeoutKind'])

export function toJob(row: JobRow, texts: Texts): Job {
  const hold = row[JOB.hold]
  const owner = row[JOB.owner]
  return {
    body: row[JOB.body] ?? row[JOB.aside] ?? lost(row[JOB.id]),
    id: row[JOB.id],
    version: row[JOB.version],
    state: row[JOB.state],
    queue: row[JOB.queue],
    type: row[JOB.type],
    priority: row[JOB.priority],
    seq: row[JOB.seq],
    wakeAt: row[JOB.wakeAt],
    deadLetter: row[JOB.deadLetter] === 1,
    attempt: row[JOB.attempt],
    lease: row[JOB.lease],
    interruptions: row[JOB.interruptions],
    createdAt: row[JOB.createdAt],
    anchorAt: row[JOB.anchorAt],
    limitsSetAt: row[JOB.limitsSetAt],
    scheduledAt: row[JOB.scheduledAt],
    expiresAt: row[JOB.expiresAt],
    enqueuedAt: row[JOB.enqueuedAt],
    activatedAt: row[JOB.activatedAt],
    startedAt: row[JOB.startedAt],
    completedAt: row[JOB.completedAt],
    cancelledAt: row[JOB.cancelledAt],
    discardedAt: row[JOB.discardedAt],
    reenqueuedAt: row[JOB.reenqueuedAt],
    nextRetryAt: row[JOB.nextRetryAt],
    retryDelayMs: row[JOB.retryDelayMs],
    resultTtlMs: row[JOB.resultTtlMs],
    purgeAt: row[JOB.purgeAt],
    errorCount: row[JOB.errorCount],
    checkpointSeq: row[JOB.checkpointSeq],
    limits: texts.value(row[JOB.limits]),
    retry: texts.value(row[JOB.retry]),
    ceiling: parsed(row[JOB.ceiling]),
    parent: parsed(row[JOB.parent]),
    hold: hold === null ? null : toHold(hold, row[JOB.workerId], texts),
    closedBy: parsed(row[JOB.closedBy]),
    progress: parsed(row[JOB.progress]),
    traceId: parsed(row[JOB.traceId]),
    cancelReason: parsed(row[JOB.cancelReason]),
    error: row[JOB.error],
    errors: row[JOB.errors],
    result: row[JOB.result],
    given: row[JOB.given],
    life: row[JOB.life],
    owner: owner === null ? null : ownerOf(owner, row[JOB.step]),
    uniqueKey: row[JOB.uniqueKey],
    limitKey: row[JOB.limitKey],
    tenant: row[JOB.tenant],
  }
}

function lost(id: string): never {
  throw broken(`what was sent with job ${id} is not to be found`)
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
    json(job.progress),
    job.result,
    job.life,
  ]
}

/** The rest of what may change, in the order in which UPDATE_JOB names it after that. */
export function otherValues(job: Job, texts: Texts): unknown[] {
  const { type, kind } = errorKeys(job)
  return [
    job.priority,
    job.deadLetter ? 1 : 0,
    job.interruptions,
    job.anchorAt,
    job.limitsSetAt,
    job.scheduledAt,
    job.expiresAt,
    job.activatedAt,
    job.cancelledAt,
    job.discardedAt,
    job.reenqueuedAt,
    job.nextRetryAt,
    job.retryDelayMs,
    job.resultTtlMs,
    job.errorCount,
    job.checkpointSeq,
    texts.ref(job.limits),
    texts.ref(job.retry),
    json(job.ceiling),
    json(job.cancelReason),
    job.error,
    job.errors,
    job.given,
    job.owner === null ? null : ownerText(job.owner),
    job.owner?.step ?? null,
    type === null ? null : exact(type),
    kind,
  ]
}

/** A reservation is what it was granted under, which many have in common, and three clocks of its own. */
export type Terms = Omit<Hold, 'workerId' | 'signAt' | 'visibleFrom' | 'visibleMs' | 'stack'>
type FlatHold = readonly [
  terms: TextRef,
  signAt: Instant,
  visibleFrom: Instant,
  visibleMs: Hold['visibleMs'],
  // Only if there is one. An older server does not look at it.
  stack?: readonly string[],
]

function holdText(hold: Hold, texts: Texts): string {
  const { known, timeout, grace, heartbeat, visibility, onTimeout, signAt, visibleFrom, visibleMs, stack } = hold
  const terms = texts.termsOf({ known, timeout, grace, heartbeat, visibility, onTimeout })
  if (stack === undefined && typeof terms === 'number')
    return `[${String(terms)},${String(signAt)},${String(visibleFrom)},${String(visibleMs)}]`
  const flat: FlatHold = [terms, signAt, visibleFrom, visibleMs]
  return JSON.stringify(stack === undefined ? flat : [...flat, stack])
}

function toHold(text: string, workerId: string | null, texts: Texts): Hold {
  const [ref, signAt, visibleFrom, visibleMs, stack] = JSON.parse(text) as FlatHold
  const { known, timeout, grace, heartbeat, visibility, onTimeout } = texts.value<Terms>(ref)
  return {
    workerId: workerId === null ? null : original(workerId),
    known,
    timeout,
    grace,
    heartbeat,
    visibility,
    onTimeout,
    signAt,
    visibleFrom,
    visibleMs,
    ...(stack === undefined ? {} : { stack }),
  }
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

export type WorkerRow = WorkerColumns<number, TextRef>

const WORKER = placesOf(WORKER_COLUMNS)

export function toWorker(row: WorkerRow, texts: Texts): Worker {
  const beat = row[WORKER.beat]
  return {
    id: original(row[WORKER.id]),
    version: row[WORKER.version],
    known: row[WORKER.known] === 1,
    lastSeenAt: row[WORKER.lastSeenAt],
    wakeAt: row[WORKER.wakeAt],
    diedAt: row[WORKER.diedAt],
    createdAt: row[WORKER.createdAt],
    lastBeatAt: row[WORKER.lastBeatAt],
    state: row[WORKER.state],
    draining: row[WORKER.draining] === 1,
    directive: row[WORKER.directive],
    registered: row[WORKER.registered] === 1,
    activeJobs: row[WORKER.activeJobs],
    beatSeq: row[WORKER.beatSeq],
    pid: row[WORKER.pid],
    concurrency: row[WORKER.concurrency],
    hostname: parsed(row[WORKER.hostname]),
    startedAt: parsed(row[WORKER.startedAt]),
    queues: texts.value(row[WORKER.queues]),
    labels: texts.value(row[WORKER.labels]),
    handlers: texts.value(row[WORKER.handlers]),
    beat: beat === null ? null : toBeat(beat),
  }
}

/** All but id and version, in the order in which INSERT_WORKER and UPDATE_WORKER name it. */
export function workerValues(worker: Worker, texts: Texts): unknown[] {
  return [
    worker.known ? 1 : 0,
    worker.lastSeenAt,
    worker.wakeAt,
    worker.diedAt,
    worker.createdAt,
    worker.lastBeatAt,
    worker.state,
    worker.draining ? 1 : 0,
    worker.directive,
    worker.registered ? 1 : 0,
    worker.activeJobs,
    worker.beatSeq,
    worker.pid,
    worker.concurrency,
    json(worker.hostname),
    json(worker.startedAt),
    texts.ref(worker.queues),
    texts.ref(worker.labels),
    texts.ref(worker.handlers),
    worker.beat === null ? null : beatText(worker.beat),
  ]
}

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
