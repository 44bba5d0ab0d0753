/** Writes what was decided: rows, the counts that follow from them, and the events that tell of them. */
import { broken, eventData, eventsKeptSince, lastWorker, maxPruned, tagKeys, TAIL } from '@curfew/core'
import type { Doc, Job, NewEvent, Worker } from '@curfew/core'
import { RowsMoved, type Change, type Changes, type EventRetention, type Queue, type StoredEvent } from '../store.ts'
import { Database } from './driver.ts'
import { checkpointValues, eventValues, exact, noticeValues, queueValues, typeValues, workerValues } from './rows.ts'
import { isStillItself, onlyBegins, onlyMoves, Tally } from '../records.ts'
import { firstValues, isLarge, movingValues, otherValues } from './rows.ts'
import type { Numbers, Session } from './session.ts'
import type { Statements } from './prepared.ts'

/** How many removed jobs are remembered. */
export const TOMBSTONES = 100_000

/** How many places in the queues are reserved at once. */
const BLOCK = 10_000

export function saveChanges(session: Session, retention: EventRetention, changes: Changes): StoredEvent[] {
  const { statements, numbers } = session
  saveJobs(session, changes.jobs)
  for (const change of changes.workers) saveWorker(session, change)
  for (const change of changes.queues) saveQueue(session, change)
  for (const { type, policy } of changes.types) {
    session.remembered.types.forget(type)
    if (policy === null) statements.deleteType.run(type)
    else statements.putType.run(typeValues(policy))
  }
  for (const { jobId, checkpoint } of changes.checkpoints) {
    if (checkpoint === null) statements.deleteCheckpoint.run(jobId)
    else statements.putCheckpoint.run(checkpointValues(checkpoint))
  }
  for (const change of changes.docs) saveDoc(session, change)
  for (const { workerId, jobId, lease } of changes.told) {
    if (jobId === null) statements.deleteNotices.run(exact(workerId))
    else statements.deleteNotice.run(exact(workerId), jobId, lease)
  }
  for (const notice of changes.notices) statements.insertNotice.run(...noticeValues(notice))
  saveLife(session, changes)
  const stored = appendEvents(statements, numbers, changes.events)
  pruneEvents(statements, numbers, retention, stored)
  return stored
}

// ---- Jobs ----

function saveJobs(session: Session, changes: Changes['jobs']): void {
  if (changes.length === 0) return
  const { statements, numbers, remembered } = session
  const tally = new Tally()
  const lastTombstone = numbers.tombstone
  for (const { before, after } of changes) {
    if (after === null) removeJob(session, before)
    else {
      const seq = placeOf(after, numbers)
      if (before === null) insertJob(session, after, seq, 1)
      else updateJob(session, before, after, seq)
      if (before !== null || after.state === 'active') remembered.wrote(after, (before?.version ?? 0) + 1, seq)
    }
    remembered.jobWake.moved(before?.wakeAt ?? null, after?.wakeAt ?? null)
    tally.count(before, after)
  }
  for (const row of tally.rows()) statements.addToCount.run(...row)
  reservePlaces(session)
  if (numbers.tombstone > lastTombstone) statements.deleteTombstones.run(numbers.tombstone - TOMBSTONES)
}

export function reservePlaces({ statements, numbers }: Session): void {
  if (numbers.seq <= numbers.seqReserved) return
  numbers.seqReserved = Math.ceil(numbers.seq / BLOCK) * BLOCK
  statements.putMeta.run('seq_reserved', numbers.seqReserved)
}

function placeOf(job: Job, numbers: Numbers): number {
  return job.seq === TAIL ? ++numbers.seq : job.seq
}

export function insertJob({ statements, texts }: Session, job: Job, seq: number, version: number): void {
  const begins = onlyBegins(job)
  const first = begins ? version : version - 1
  try {
    const { lastInsertRowid } = statements.insertJob.run(...firstValues(job, first, seq, texts))
    if (isLarge(job)) statements.insertBody.run(lastInsertRowid, job.body)
    for (const tag of tagKeys(job)) statements.insertTag.run(exact(tag), job.id, lastInsertRowid)
  } catch (error) {
    throw duplicateOr(error, 'job', job)
  }
  // Only a restore adds jobs that have already lived; the rest of such a job follows.
  if (!begins)
    statements.updateJob.run(
      ...movingValues(job, seq, texts, lastWorker(job)),
      ...otherValues(job, texts),
      job.id,
      first,
    )
}

function updateJob({ statements, texts }: Session, before: Job, after: Job, seq: number): void {
  if (!isStillItself(before, after)) {
    throw broken(`job ${before.id} cannot change its queue, type, body, fingerprint, limiter or tenant`)
  }
  const moving = movingValues(after, seq, texts)
  const { changes } = onlyMoves(before, after)
    ? statements.moveJob.run(...moving, before.id, before.version)
    : statements.updateJob.run(...moving, ...otherValues(after, texts), before.id, before.version)
  if (changes !== 1) throw movedOn('job', before)
}

function removeJob({ statements, numbers, remembered }: Session, job: Job | null): void {
  if (job === null) throw broken('a change of nothing into nothing')
  remembered.active.forget(job.id)
  const place = statements.deleteJob.get(job.id, job.version)
  if (place === undefined) throw movedOn('job', job)
  statements.deleteBody.run(place)
  for (const tag of tagKeys(job)) statements.deleteTag.run(exact(tag), job.id)
  statements.deleteCheckpoint.run(job.id)
  statements.insertTombstone.run(++numbers.tombstone, job.id)
}

// ---- Workers ----

function saveWorker(session: Session, change: Change<Worker>): void {
  const { workers, workerWake } = session.remembered
  const { before, after } = change
  writeWorker(session, change)
  workerWake.moved(before?.wakeAt ?? null, after?.wakeAt ?? null)
  if (after !== null) workers.put(after.id, { ...after, version: (before?.version ?? 0) + 1 })
  else if (before !== null) workers.put(before.id, null)
}

function writeWorker({ statements, texts }: Session, { before, after }: Change<Worker>): void {
  if (before === null) {
    if (after === null) throw broken('a change of nothing into nothing')
    try {
      statements.insertWorker.run(workerValues(after, texts), exact(after.id), 1)
    } catch (error) {
      throw duplicateOr(error, 'worker', after)
    }
    return
  }
  const { changes } =
    after === null
      ? statements.deleteWorker.run(exact(before.id), before.version)
      : statements.updateWorker.run(workerValues(after, texts), exact(before.id), before.version)
  if (changes !== 1) throw movedOn('worker', before)
}

// ---- Documents ----

function saveDoc({ statements, remembered }: Session, { before, after }: Change<Doc>): void {
  remembered.docWake.moved(before?.wakeAt ?? null, after?.wakeAt ?? null)
  if (before === null) {
    if (after === null) throw broken('a change of nothing into nothing')
    insertDoc(statements, after, 1)
    return
  }
  const { kind, id, version } = before
  const { changes } =
    after === null
      ? statements.deleteDoc.run(kind, id, version)
      : statements.updateDoc.run(after.wakeAt, after.body, kind, id, version)
  if (changes !== 1) throw movedOn(kind, before)
}

export function insertDoc({ insertDoc: insert }: Statements, doc: Doc, version: number): void {
  try {
    insert.run(doc.wakeAt, doc.body, doc.kind, doc.id, version)
  } catch (error) {
    throw duplicateOr(error, doc.kind, doc)
  }
}

function movedOn(what: string, { id, version }: { id: string; version: number }): Error {
  return new RowsMoved(`${what} ${id} is gone or no longer in version ${String(version)}`)
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Database.SqliteError && /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)$/.test(error.code)
}

export function duplicateOr(error: unknown, what: string, { id }: { id: string }): unknown {
  if (!isDuplicate(error)) return error
  return new RowsMoved(`${what} ${id} is there already and cannot be added`, error)
}

// ---- Queues, and the servers' own life ----

function saveQueue({ statements, remembered }: Session, { before, after }: Change<Queue>): void {
  if (after === null) throw broken('a queue cannot be removed')
  remembered.queues.forget(after.name)

  if (before === null) statements.insertQueue.run(queueValues(after), after.name)
  else {
    const { changes } = statements.updateQueue.run(queueValues(after), before.name, before.version)
    if (changes !== 1) throw movedOn('queue', { id: before.name, version: before.version })
  }
}

function saveLife(session: Session, { aliveAt, outages }: Changes): void {
  const { statements, life } = session
  if (aliveAt !== null && (life.aliveAt === null || aliveAt > life.aliveAt)) {
    statements.putMeta.run('alive_at', aliveAt)
    session.life = { ...session.life, aliveAt }
  }
  if (outages === null) return
  if (JSON.stringify(outages.before) !== JSON.stringify(life.outages)) throw new RowsMoved('the list of outages')
  statements.putMeta.run('outages', JSON.stringify(outages.after))
  session.life = { ...session.life, outages: outages.after }
}

// ---- Events ----

function appendEvents({ insertEvent }: Statements, numbers: Numbers, events: readonly NewEvent[]): StoredEvent[] {
  return events.map((event) => {
    const { type, at, subject, queue, jobType } = event
    const stored = {
      sequence: ++numbers.lastEvent,
      type,
      at,
      subject,
      queue,
      jobType,
      data: eventData(event),
    }
    insertEvent.run(...eventValues(stored))
    return stored
  })
}

/** Removes the oldest events that are too many, or too old beside the newest. The newest itself stays. */
function pruneEvents(
  statements: Statements,
  numbers: Numbers,
  retention: EventRetention,
  appended: readonly StoredEvent[],
): void {
  const newest = appended.at(-1)
  if (newest === undefined) return
  if (numbers.firstEvent === appended[0]?.sequence) numbers.firstEventAt = appended[0].at
  const keptSince = eventsKeptSince(retention, newest.at)
  const tooMany = Math.min(newest.sequence, newest.sequence - retention.maxCount + 1)
  if (numbers.firstEvent >= tooMany && numbers.firstEventAt >= keptSince) return
  const most = Math.min(newest.sequence, numbers.firstEvent + maxPruned(appended.length))
  const tooOld = statements.firstEventSince.get(most, keptSince) ?? most
  statements.deleteEvents.run(Math.min(most, Math.max(tooMany, tooOld)))
  const first = statements.firstEvent.get() ?? [newest.sequence, newest.at]
  numbers.firstEvent = first[0]
  numbers.firstEventAt = first[1]
}
