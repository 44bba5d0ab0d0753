/**
 * Writes the records of another store as they are: nothing is decided, numbered, told or pruned. What is there already
 * is refused by the database itself, but for the log, which only ever grows at its end.
 */
import type { Doc, Job, TypePolicy, Worker } from '@curfew/core'
import { RowsMoved, type Batch, type Queue, type StoredEvent } from '../store.ts'
import { checkpointValues, columnsOf, docValues, eventValues, exact, firstValues, listOf, livedValues } from './rows.ts'
import { noticeValues, queueValues, tagRows, typeValues, workerValues } from './rows.ts'
import { Tally } from '../records.ts'
import { outagesText } from './rows.ts'
import { countRows, type Send } from './save.ts'
import type { Logged, Session } from './session.ts'
import * as sql from './statements.ts'

/** Sends everything but the commit, in the order of every transaction: rows, then counts, then the log. */
export async function restoreBatch(send: Send, session: Session, batch: Batch, more: boolean): Promise<Logged> {
  const { texts } = session
  restoreWorkers(send, batch.workers, texts)
  restoreJobs(send, batch.jobs, texts)
  restoreDocs(send, batch.docs)
  restoreQueues(send, batch.queues)
  restoreTypes(send, batch.types)
  if (batch.checkpoints.length > 0)
    void send(sql.RESTORE_CHECKPOINTS, columnsOf(batch.checkpoints.map(checkpointValues), 6))
  if (batch.notices.length > 0) void send(sql.INSERT_NOTICES, columnsOf(batch.notices.map(noticeValues), 5))
  if (batch.tombstones.length > 0) void send(sql.RESTORE_TOMBSTONES, [listOf(batch.tombstones.map(exact))])
  restoreInbox(send, batch)
  if (batch.life !== null) void send(sql.RESTORE_LIFE, [batch.life.aliveAt, outagesText(batch.life.outages)])
  void send(sql.PUT_HALF_RESTORED, [more])
  restoreCounts(send, session, batch.jobs)
  void send(sql.LOCK_LOG, [session.logLock])
  return restoreEvents(send, batch.events)
}

function restoreWorkers(send: Send, workers: readonly Worker[], texts: Session['texts']): void {
  const rows = workers.map((worker) => [...workerValues(worker, texts), worker.version])
  if (rows.length > 0) void send(sql.RESTORE_WORKERS, columnsOf(rows, 22))
}

function restoreJobs(send: Send, jobs: readonly Job[], texts: Session['texts']): void {
  if (jobs.length === 0) return
  const rows = jobs.map((job) => [...firstValues(job, job.version, texts), ...livedValues(job, texts)])
  void send(sql.RESTORE_JOBS, columnsOf(rows, 53))
  const tags = tagRows(jobs)
  if (tags.length > 0) void send(sql.INSERT_TAGS, columnsOf(tags, 2))
  const last = jobs.reduce((greatest, { seq }) => Math.max(greatest, seq), 0)
  if (last > 0) void send(sql.PUSH_PLACES, [last])
}

function restoreDocs(send: Send, docs: readonly Doc[]): void {
  const rows = docs.map((doc) => [...docValues(doc), doc.version])
  if (rows.length > 0) void send(sql.RESTORE_DOCS, columnsOf(rows, 5))
}

function restoreQueues(send: Send, queues: readonly Queue[]): void {
  const rows = queues.map((queue) => [...queueValues(queue), queue.version])
  if (rows.length > 0) void send(sql.RESTORE_QUEUES, columnsOf(rows, 6))
}

function restoreTypes(send: Send, types: readonly TypePolicy[]): void {
  if (types.length > 0) void send(sql.RESTORE_TYPES, columnsOf(types.map(typeValues), 5))
}

function restoreInbox(send: Send, { inbox, refused }: Batch): void {
  const [entries, reasons] = [
    inbox.map(({ id, body }) => [id, body]),
    refused.map(({ id, body, error, at }) => [id, body, error, at]),
  ]
  if (entries.length > 0) void send(sql.RESTORE_INBOX, columnsOf(entries, 2))
  if (reasons.length > 0) void send(sql.RESTORE_REFUSED, columnsOf(reasons, 4))
}

function restoreCounts(send: Send, { slot }: Session, jobs: readonly Job[]): void {
  const tally = new Tally()
  for (const job of jobs) tally.count(null, job)
  const rows = countRows(tally)
  if (rows.length > 0) void send(sql.ADD_TO_COUNTS, [slot, ...columnsOf(rows, 3)])
}

async function restoreEvents(send: Send, events: readonly StoredEvent[]): Promise<Logged> {
  const [first, newest] = [events[0], events.at(-1)]
  if (first === undefined || newest === undefined) return { last: null, lastAt: 0, oldest: null }
  const { rows } = await send<readonly [number | null, number | null]>(sql.EVENT_BOUNDS)
  let last = rows[0]?.[1] ?? 0
  const oldest = last === 0 ? { sequence: first.sequence, at: first.at } : null
  for (const { sequence } of events) {
    if (sequence <= last) throw new RowsMoved(`the log is already beyond event ${String(sequence)}`)
    last = sequence
  }
  const values = events.map((event) => [...eventValues(event), event.sequence])
  void send(sql.RESTORE_EVENTS, columnsOf(values, 7))
  return { last, lastAt: newest.at, oldest }
}
