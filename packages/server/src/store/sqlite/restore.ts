/** Writes the records of another store as they are: nothing is decided, numbered, told or pruned. */
import type { Life, StoredEvent } from '../store.ts'
import { RowsMoved, type Batch } from '../store.ts'
import { checkpointValues, eventValues, exact, noticeValues, queueValues, typeValues, workerValues } from './rows.ts'
import { Tally } from '../records.ts'
import { duplicateOr, insertDoc, insertJob, reservePlaces } from './save.ts'
import type { Session } from './session.ts'
import type { Statements } from './prepared.ts'

/** Remembered while a restore is under way. */
const MARK = 'half_restored'

export function isHalfRestored({ findMeta }: Statements): boolean {
  return findMeta.get(MARK) !== undefined
}

export function restoreBatch(session: Session, batch: Batch, more: boolean): void {
  session.remembered.clear()
  const { statements, texts, numbers } = session
  if (batch.inbox.length + batch.refused.length > 0) {
    throw new Error(
      'a data file has no inbox, and this would be lost: let a server empty the inbox where it comes from, and remove what was refused there',
    )
  }
  for (const queue of batch.queues) {
    adding('queue', queue.name, () => statements.restoreQueue.run(queueValues(queue), queue.name, queue.version))
  }
  for (const policy of batch.types) adding('type', policy.type, () => statements.restoreType.run(typeValues(policy)))
  for (const worker of batch.workers) {
    const values = workerValues(worker, texts)
    adding('worker', worker.id, () => statements.insertWorker.run(values, exact(worker.id), worker.version))
  }
  for (const notice of batch.notices) statements.insertNotice.run(...noticeValues(notice))
  restoreJobs(session, batch.jobs)
  for (const checkpoint of batch.checkpoints) {
    const values = checkpointValues(checkpoint)
    adding('checkpoint of', checkpoint.jobId, () => statements.restoreCheckpoint.run(values))
  }
  for (const doc of batch.docs) insertDoc(statements, doc, doc.version)
  for (const id of batch.tombstones) statements.insertTombstone.run(++numbers.tombstone, id)
  restoreEvents(session, batch.events)
  if (batch.life !== null) restoreLife(session, batch.life)
  if (more) statements.putMeta.run(MARK, 1)
  else statements.deleteMeta.run(MARK)
}

function restoreJobs(session: Session, jobs: Batch['jobs']): void {
  const { statements, numbers } = session
  const tally = new Tally()
  for (const job of jobs) {
    insertJob(session, job, job.seq, job.version)
    numbers.seq = Math.max(numbers.seq, job.seq)
    tally.count(null, job)
  }
  for (const row of tally.rows()) statements.addToCount.run(...row)
  reservePlaces(session)
}

function restoreEvents({ statements, numbers }: Session, events: readonly StoredEvent[]): void {
  for (const event of events) {
    const { sequence, at } = event
    if (sequence <= numbers.lastEvent) throw new RowsMoved(`the log is already beyond event ${String(sequence)}`)
    if (numbers.firstEvent > numbers.lastEvent) {
      numbers.firstEvent = sequence
      numbers.firstEventAt = at
    }
    statements.insertEvent.run(...eventValues(event))
    numbers.lastEvent = sequence
  }
}

function restoreLife(session: Session, life: Life): void {
  const { statements } = session
  if (life.aliveAt === null) statements.deleteMeta.run('alive_at')
  else statements.putMeta.run('alive_at', life.aliveAt)
  statements.putMeta.run('outages', JSON.stringify(life.outages))
  session.life = life
}

function adding(what: string, id: string, run: () => unknown): void {
  try {
    run()
  } catch (error) {
    throw duplicateOr(error, what, { id })
  }
}
