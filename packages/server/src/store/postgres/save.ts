/**
 * Writes what was decided: rows, the counts that follow from them, and the events that tell of them.
 *
 * Nothing here waits: statements are sent one behind the other, and the database answers them in that order. What must
 * be found in the version it was read in is checked by the database itself, because the commit may already be under way
 * when the answer arrives.
 *
 * What many servers want to write in the same place comes at the very end: counts, then the log. A transaction that holds
 * those locks takes no others, so there is no deadlock, and the rest wait only as long as a commit takes.
 */
import { broken, eventsKeptSince, maxPruned, TAIL, type Doc, type Instant, type Job, type NewEvent } from '@curfew/core'
import {
  stateChangesOf,
  type Change,
  type Changes,
  type EventRetention,
  type Queue,
  type StateChange,
} from '../store.ts'
import type { Worker } from '@curfew/core'
import type { Answer, Statement } from './wire.ts'
import { AFTER_LAST_EVENT, BEFORE_LAST_EVENT, NO_LAST_EVENT, piecesOf } from './news.ts'
import { alikeBut, checkpointValues, columnsOf, docName, docValues, eventValues, exact, listOf } from './rows.ts'
import { noticeValues, queueValues } from './rows.ts'
import { isStillItself, onlyBegins, onlyMoves, Tally } from '../records.ts'
import { firstValues, movingValues, otherValues } from './rows.ts'
import { outagesText, tagRows, typeValues, unplaced, workerValues, type Unplaced } from './rows.ts'
import { UNKNOWN, type Logged, type Oldest, type Session } from './session.ts'
import * as sql from './statements.ts'

/** Sends a statement behind those that were sent before. */
export type Send = <Row = readonly unknown[]>(statement: Statement, values?: readonly unknown[]) => Promise<Answer<Row>>

/** How many removed jobs are remembered. */
export const TOMBSTONES = 100_000
/** How much of what was refused from the inbox is kept. */
export const REFUSED = 10_000

/** What a transaction has yet to write when it ends. */
export class Pending {
  readonly tally = new Tally()
  readonly events: Unplaced[] = []
  readonly live: NewEvent[] = []
  readonly orders = new Set<string>()
  readonly changes: StateChange[] = []
  readonly jobs: Change<Job>[] = []
  wakeAt: Instant | null = null
  removed = 0

  /** Nothing is left to be told. */
  get isEmpty(): boolean {
    const count = this.events.length + this.live.length + this.orders.size + this.changes.length
    return count === 0 && this.wakeAt === null
  }

  add({ jobs, workers, docs, events, live, orders }: Changes): void {
    for (const { before, after } of jobs) {
      this.tally.count(before, after)
      if (after === null) this.removed++
      else this.#wake(after.wakeAt)
    }
    for (const { after } of [...workers, ...docs]) if (after !== null) this.#wake(after.wakeAt)
    for (const event of events) this.events.push(unplaced(event))
    this.live.push(...live)
    for (const workerId of orders) this.orders.add(workerId)
    this.changes.push(...stateChangesOf(jobs))
    this.jobs.push(...jobs)
  }

  #wake(at: Instant | null): void {
    if (at !== null && (this.wakeAt === null || at < this.wakeAt)) this.wakeAt = at
  }
}

/** Sends all rows. */
export function saveRows(send: Send, { texts }: Session, changes: Changes): void {
  saveWorkers(send, changes.workers, texts)
  saveJobs(send, changes.jobs, texts)
  saveDocs(send, changes.docs)
  saveQueues(send, changes.queues)
  saveTypes(send, changes.types)
  saveCheckpoints(send, changes.checkpoints)
  saveNotices(send, changes)
  saveInbox(send, changes.inbox)
  if (changes.aliveAt !== null) void send(sql.PUT_ALIVE, [changes.aliveAt])
  if (changes.outages !== null) {
    const { before, after } = changes.outages
    void send(sql.PUT_OUTAGES, [outagesText(before), outagesText(after)])
  }
}

// ---- Jobs ----

type Kind = 'insert' | 'move' | 'update'

/** How many columns a row of each kind has. */
const WIDTH: Readonly<Record<Kind, number>> = { insert: 28, move: 17, update: 44 }
const STATEMENT: Readonly<Record<Kind, Statement>> = {
  insert: sql.INSERT_JOBS,
  move: sql.MOVE_JOBS,
  update: sql.UPDATE_JOBS,
}

/** The columns of new jobs that INSERT_ALIKE_JOBS takes as lists: id, type, priority, trace, what was given, body, fingerprint. */
const DIFFERING: ReadonlySet<number> = new Set([0, 4, 5, 19, 20, 22, 25])

/**
 * One statement per kind of change. Places at the tail are given as statements are executed; so when jobs of two kinds
 * want one, the statements are cut where the kind changes, and places follow the order of the changes.
 */
class Batches {
  readonly #send: Send
  #rows: Record<Kind, unknown[][]> = { insert: [], move: [], update: [] }
  #tailed: Kind | null = null

  constructor(send: Send) {
    this.#send = send
  }

  add(kind: Kind, seq: number, row: unknown[]): void {
    if (seq === TAIL) {
      if (this.#tailed !== null && this.#tailed !== kind) this.flush()
      this.#tailed = kind
    }
    this.#rows[kind].push(row)
  }

  flush(): void {
    for (const kind of ['insert', 'move', 'update'] as const) {
      const rows = this.#rows[kind]
      if (rows.length === 0) continue
      const alike = kind === 'insert' ? alikeBut(DIFFERING, rows, WIDTH.insert) : null
      if (alike !== null) void this.#send(sql.INSERT_ALIKE_JOBS, alike)
      else void this.#send(STATEMENT[kind], columnsOf(rows, WIDTH[kind]))
    }
    this.#rows = { insert: [], move: [], update: [] }
    this.#tailed = null
  }
}

function saveJobs(send: Send, changes: Changes['jobs'], texts: Session['texts']): void {
  if (changes.length === 0) return
  const batches = new Batches(send)
  const lived: unknown[][] = []
  const removed: unknown[][] = []
  let pushed = 0
  saveTags(send, changes)
  for (const { before, after } of changes) {
    if (after === null) {
      if (before === null) throw broken('a change of nothing into nothing')
      removed.push([exact(before.id), before.version])
    } else if (before === null) {
      const begins = onlyBegins(after)
      batches.add('insert', after.seq, firstValues(after, begins ? 1 : 0, texts))
      if (after.seq !== TAIL) pushed = Math.max(pushed, after.seq)
      if (!begins) lived.push(rewritten(after.id, 0, after, null, texts))
    } else if (!isStillItself(before, after)) {
      throw broken(`job ${before.id} cannot change its queue, type, body, fingerprint, limiter or tenant`)
    } else if (onlyMoves(before, after)) {
      const moving = movingValues(after, after.seq, texts)
      batches.add('move', after.seq, [exact(before.id), before.version, ...moving])
    } else {
      batches.add('update', after.seq, rewritten(before.id, before.version, after, after.seq, texts))
    }
  }
  batches.flush()
  // Nothing of ours adds a job that has already lived; should one come, the rest of it follows.
  if (lived.length > 0) void send(sql.UPDATE_JOBS, columnsOf(lived, WIDTH.update))
  if (pushed > 0) void send(sql.PUSH_PLACES, [pushed])
  if (removed.length > 0) void send(sql.DELETE_JOBS, columnsOf(removed, 2))
}

function saveTags(send: Send, changes: Changes['jobs']): void {
  const added = tagRows(changes.flatMap(({ before, after }) => (before === null && after !== null ? [after] : [])))
  const gone = tagRows(changes.flatMap(({ before, after }) => (before !== null && after === null ? [before] : [])))
  if (added.length > 0) void send(sql.INSERT_TAGS, columnsOf(added, 2))
  if (gone.length > 0) void send(sql.DELETE_TAGS, columnsOf(gone, 2))
}

/** Without a place it keeps the one it has. */
function rewritten(id: string, version: number, after: Job, seq: number | null, texts: Session['texts']): unknown[] {
  return [exact(id), version, ...movingValues(after, seq, texts), ...otherValues(after, texts)]
}

/** In the order in which ADD_TO_COUNTS names it. */
export function countRows(tally: Tally): unknown[][] {
  return tally.rows().map(([counted, queue, n]) => [counted, exact(queue), n])
}

// ---- Documents ----

/** In the order of their names, in which everybody locks them. */
function saveDocs(send: Send, changes: readonly Change<Doc>[]): void {
  if (changes.length === 0) return
  const [added, changed, removed]: [unknown[][], unknown[][], unknown[][]] = [[], [], []]
  for (const { before, after } of changes.toSorted(byName)) {
    if (before === null) {
      if (after === null) throw broken('a change of nothing into nothing')
      added.push(docValues(after))
    } else if (after === null) removed.push([...docName(before), before.version])
    else changed.push([...docValues({ ...after, kind: before.kind, id: before.id }), before.version])
  }
  if (added.length > 0) void send(sql.INSERT_DOCS, columnsOf(added, 4))
  if (changed.length > 0) void send(sql.UPDATE_DOCS, columnsOf(changed, 5))
  if (removed.length > 0) void send(sql.DELETE_DOCS, columnsOf(removed, 3))
}

function byName(one: Change<Doc>, other: Change<Doc>): number {
  const [a, b] = [nameOf(one), nameOf(other)]
  return a < b ? -1 : a > b ? 1 : 0
}

const nameOf = ({ before, after }: Change<Doc>): string => {
  const doc = before ?? after
  return doc === null ? '' : `${doc.kind}/${doc.id}`
}

// ---- Workers, queues and the rest ----

function saveWorkers(send: Send, changes: readonly Change<Worker>[], texts: Session['texts']): void {
  const [added, changed, removed]: [unknown[][], unknown[][], unknown[][]] = [[], [], []]
  for (const { before, after } of changes) {
    if (before === null) {
      if (after === null) throw broken('a change of nothing into nothing')
      added.push(workerValues(after, texts))
    } else if (after === null) removed.push([exact(before.id), before.version])
    else changed.push([...workerValues({ ...after, id: before.id }, texts), before.version])
  }
  if (added.length > 0) void send(sql.INSERT_WORKERS, columnsOf(added, 21))
  if (changed.length > 0) void send(sql.UPDATE_WORKERS, columnsOf(changed, 22))
  if (removed.length > 0) void send(sql.DELETE_WORKERS, columnsOf(removed, 2))
}

function saveQueues(send: Send, changes: readonly Change<Queue>[]): void {
  const added: unknown[][] = []
  const changed: unknown[][] = []
  for (const { before, after } of changes) {
    if (after === null) throw broken('a queue is not removed')
    if (before === null) added.push(queueValues(after))
    else changed.push([...queueValues(after), before.version])
  }
  if (added.length > 0) void send(sql.INSERT_QUEUES, columnsOf(added, 5))
  if (changed.length > 0) void send(sql.UPDATE_QUEUES, columnsOf(changed, 6))
}

function saveTypes(send: Send, changes: Changes['types']): void {
  // The last word counts, and one statement cannot have two.
  const last = new Map(changes.map(({ type, policy }) => [type, policy]))
  const put = [...last.values()].filter((policy) => policy !== null)
  const removed = [...last].filter(([, policy]) => policy === null).map(([type]) => exact(type))
  if (put.length > 0) void send(sql.PUT_TYPES, columnsOf(put.map(typeValues), 5))
  if (removed.length > 0) void send(sql.DELETE_TYPES, [listOf(removed)])
}

function saveCheckpoints(send: Send, changes: Changes['checkpoints']): void {
  const last = new Map(changes.map(({ jobId, checkpoint }) => [jobId, checkpoint]))
  const put = [...last.values()].filter((checkpoint) => checkpoint !== null)
  const removed = [...last].filter(([, checkpoint]) => checkpoint === null).map(([jobId]) => exact(jobId))
  if (put.length > 0) void send(sql.PUT_CHECKPOINTS, columnsOf(put.map(checkpointValues), 6))
  if (removed.length > 0) void send(sql.DELETE_CHECKPOINTS, [listOf(removed)])
}

function saveNotices(send: Send, { told, notices }: Changes): void {
  if (told.length > 0) {
    const rows = told.map(({ workerId, jobId, lease }) => [
      exact(workerId),
      jobId === null ? null : exact(jobId),
      lease,
    ])
    void send(sql.DELETE_NOTICES, columnsOf(rows, 3))
  }
  if (notices.length > 0) void send(sql.INSERT_NOTICES, columnsOf(notices.map(noticeValues), 5))
}

function saveInbox(send: Send, inbox: Changes['inbox']): void {
  if (inbox.length === 0) return
  const gone = inbox.filter(({ refused }) => refused === null).map(({ id }) => id)
  const refused = inbox.flatMap(({ id, refused: why }) => (why === null ? [] : [[id, why.error, why.at]]))
  if (gone.length > 0) void send(sql.DELETE_FROM_INBOX, [listOf(gone)])
  if (refused.length === 0) return
  void send(sql.REFUSE_FROM_INBOX, columnsOf(refused, 3))
  void send(sql.PRUNE_REFUSED, [REFUSED])
}

// ---- The end of a transaction ----

/** What the last statement of a transaction tells. */
export interface Finished {
  readonly logged: Logged
  readonly nextWakeAt: Instant | null
}

type FinishedRow = readonly [last: number | null, nextWakeAt: Instant | null]

/**
 * Sends what is left when all rows are written, all but the commit. The log is locked by a statement of its own kind
 * before the one that appends to it: a statement sees what was committed when it began, and the place of the newest event
 * must be seen when the lock is held.
 */
export async function saveRest(
  send: Send,
  session: Session,
  retention: EventRetention,
  pending: Pending,
): Promise<Finished> {
  const { tally, events, removed } = pending
  const counts = countRows(tally)
  if (removed > 0) void send(sql.DELETE_TOMBSTONES, [TOMBSTONES, maxPruned(removed)])
  const newest = events.at(-1)
  if (newest === undefined) {
    if (counts.length > 0) void send(sql.ADD_TO_COUNTS, [session.slot, ...columnsOf(counts, 3)])
    for (const piece of newsOf(session, pending)) void send(sql.NOTIFY, [session.channel, piece + NO_LAST_EVENT])
    const { rows } = await send<readonly [Instant | null]>(sql.NEXT_WAKE)
    return { logged: { last: null, lastAt: 0, oldest: null }, nextWakeAt: rows[0]?.[0] ?? null }
  }
  const pruning = new Pruning(session, retention, newest, events.length)
  pruning.before(send)
  if (counts.length === 0) void send(sql.LOCK_LOG, [session.logLock])
  else void send(sql.COUNT_AND_LOCK_LOG, [session.slot, ...columnsOf(counts, 3), session.logLock])
  const news = newsOf(session, pending)
  const last = news.pop() ?? ''
  for (const piece of news) void send(sql.NOTIFY, [session.channel, piece + NO_LAST_EVENT])
  // More than the log may keep are counted but not written: they would be pruned at once.
  const kept = events.slice(-Math.max(1, retention.maxCount))
  const appended = send<FinishedRow>(sql.APPEND_EVENTS, [
    ...columnsOf(kept.map(eventValues), 6),
    events.length - kept.length,
    session.channel,
    last + BEFORE_LAST_EVENT,
    AFTER_LAST_EVENT,
  ])
  pruning.after(send)
  const [place, nextWakeAt] = (await appended).rows[0] ?? [null, null]
  return { logged: { last: place, lastAt: newest.at, oldest: await pruning.oldest }, nextWakeAt }
}

/** News for the other servers, in as many pieces as it takes. */
function newsOf({ me }: Session, pending: Pending): string[] {
  const { changes, live, orders, wakeAt } = pending
  return pending.isEmpty ? [] : piecesOf(me, { changes, live, orders: [...orders] }, wakeAt)
}

/**
 * Removes the oldest events that are too many, or too old beside the newest. It is asked for only when the oldest we
 * know of has to go, and before the log is locked, so that no writer waits for it. Only when even the newest that was there
 * before has to go, which tells the numbering where to go on, the rest is done afterwards.
 */
class Pruning {
  readonly #maxCount: number
  readonly #keptSince: Instant
  readonly #added: number
  readonly #isDue: boolean
  readonly #isDueAfter: boolean
  readonly #lock: string
  /** The oldest event that is left, if it was looked for. */
  oldest: Promise<Oldest | null> = Promise.resolve(null)

  constructor(session: Session, retention: EventRetention, newest: Unplaced, added: number) {
    const { oldest, lastEvent, lastEventAt, pruneLock } = session
    const { maxCount } = retention
    const keptSince = eventsKeptSince(retention, newest.at)
    this.#maxCount = maxCount
    this.#keptSince = keptSince
    this.#added = added
    this.#lock = pruneLock
    this.#isDue = lastEvent + added - oldest.sequence >= maxCount || oldest.at < keptSince
    this.#isDueAfter = this.#isDue && (added >= maxCount || lastEventAt < keptSince)
  }

  before(send: Send): void {
    if (!this.#isDue) return
    this.#prune(send, this.#added)
    if (!this.#isDueAfter) this.#look(send)
  }

  after(send: Send): void {
    if (!this.#isDueAfter) return
    this.#prune(send, 0)
    this.#look(send)
  }

  #prune(send: Send, added: number): void {
    void send(sql.PRUNE_EVENTS, [this.#lock, maxPruned(this.#added), this.#maxCount, added, this.#keptSince])
  }

  #look(send: Send): void {
    this.oldest = send<readonly [number, number]>(sql.FIRST_EVENT).then(({ rows: [first] }) =>
      first === undefined ? UNKNOWN : { sequence: first[0], at: first[1] },
    )
    this.oldest.catch(() => {})
  }
}
