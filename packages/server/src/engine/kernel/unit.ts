/**
 * A unit of work: what one transaction has found and what it will write. Commands that arrived together share a unit;
 * each row is found once, decided about in memory, and saved with everything else in one batch.
 *
 * How rows are found and saved: `unit-rows.ts`. The kinds of change, and how they are undone: `pending-changes.ts`.
 *
 * A command that is refused leaves nothing behind: its writes are undone here, before anything reached the store. After
 * a flush (searches by order must see what was decided so far) they can no longer be undone alone, and `spoiled` says
 * so: then the whole transaction is given up and its commands are tried one by one.
 */
import {
  broken,
  expire,
  isDue,
  isTerminal,
  nextDue,
  type Checkpoint,
  type DocKind,
  type Instant,
  type Job,
  type LimitKind,
  type Liveness,
  type Millis,
  type Moment,
  type NewEvent,
  type Notice,
  type OjsError,
  type Outage,
  type Transition,
  type TypePolicy,
  type Worker,
} from '@curfew/core'
import type { Changes, Queue, WorkerNotice } from '../../store/store.ts'
import type { LongDocs } from './long-docs.ts'
import { keyOf } from './open-doc.ts'
import type { Turning } from './turns.ts'
import { UnitRows } from './unit-rows.ts'

/** How long a worker that does not list a job it lost is given notice of that. */
export const TOLD_FOR_MS = 60_000

export class Unit extends UnitRows {
  readonly #workerTimeoutMs: Millis
  #outages: readonly Outage[] = []
  #stampedAt: Instant | null = null
  /** Holders that were looked at without a lock. */
  readonly #seen = new Map<string, Worker | null>()
  /** Jobs that ended and whose owner has not heard of it yet. */
  #ended: Job[] = []

  /** For live streams; not kept in the log. */
  readonly live: NewEvent[] = []
  /** Workers for which orders were stored. */
  readonly orders: string[] = []
  /** Deadlines of others than jobs that ran out, and how late that was decided. */
  readonly ranOut: { readonly kind: LimitKind; readonly overshootMs: Millis }[] = []
  /** What was refused from the inbox. */
  readonly refused: { readonly id: string; readonly error: OjsError }[] = []
  /** What is to be done once all of it is on disk. */
  readonly followUps: (() => void)[] = []

  constructor(moment: Moment, workerTimeoutMs: Millis, host: Turning, longDocs: LongDocs) {
    super(moment, host, longDocs)
    this.#workerTimeoutMs = workerTimeoutMs
  }

  // ---- Judging ----

  /** Outages are credited to liveness clocks from here on. `stampedAt`: the last stamp of life; null: one is due. */
  credit(outages: readonly Outage[], stampedAt: Instant | null): void {
    this.#outages = outages
    this.#stampedAt = stampedAt
  }

  /**
   * Whether the stored sign of life of this worker may stand for one of now, while a poll of it is open. It may unless the
   * server's last stamp is newer: a crash from here on is credited from that stamp on, so the worker is given as much time
   * as if the sign of now had been written.
   */
  isFresh({ lastSeenAt, version }: Worker): boolean {
    return version > 0 && this.#stampedAt !== null && lastSeenAt >= this.#stampedAt
  }

  /** What is known of the worker that holds this job. It is judged as it is seen: a beat under way comes after. */
  async liveness(job: Job): Promise<Liveness> {
    const workerId = job.hold?.workerId ?? null
    if (workerId === null) return this.livenessWith(null)
    if (this.tables.workers.has(workerId)) return this.livenessWith(this.worker(workerId))
    if (!this.#seen.has(workerId)) await this.seeHolders([job])
    return this.livenessWith(this.#seen.get(workerId) ?? null)
  }

  async seeHolders(jobs: readonly Job[]): Promise<void> {
    const ids = new Set<string>()
    for (const { hold } of jobs) {
      const id = hold?.workerId ?? null
      if (id !== null && !this.tables.workers.has(id) && !this.#seen.has(id)) ids.add(id)
    }
    if (ids.size === 0) return
    for (const worker of await this.tx.seeWorkers([...ids])) this.#seen.set(worker.id, worker)
    for (const id of ids) if (!this.#seen.has(id)) this.#seen.set(id, null)
  }

  livenessWith(worker: Worker | null): Liveness {
    return { worker, outages: this.#outages, workerTimeoutMs: this.#workerTimeoutMs }
  }

  /** Lets time do to this job whatever is due, one thing after the other. Returns the job as it then is. */
  async settle(job: Job): Promise<Job | null> {
    let current: Job | null = job
    // Every step leads on (scheduled → available → … → discarded → gone); a circle would be a broken promise.
    for (let steps = 0; current !== null; steps += 1) {
      if (steps > 12) throw broken(`job ${job.id} does not come to rest`)
      const life = await this.liveness(current)
      const transition = expire(current, life, this.moment)
      if (transition === null) return current
      this.apply(transition)
      const due = transition.job === null ? null : nextDue(transition.job, life)
      current = transition.job
      if (due === null || !isDue(due.at, this.now)) return current
    }
    return current
  }

  // ---- Writing ----

  apply(transition: Transition): void {
    const { before, job, notice } = transition
    const id = (job ?? before)?.id
    if (id === undefined) throw broken('a transition without a job')
    if (before === null) this.tables.jobs.found(id, null)
    this.pending.put(this.tables.jobs, id, job)
    this.pending.push(this.pending.lists.events, transition.events)
    this.pending.push(this.transitions, [transition])
    if (job !== null && job.uniqueKey !== null) this.mark(job.uniqueKey, id)
    if (before !== null && before.owner !== null && hasEnded(transition))
      this.pending.push(this.#ended, [job ?? before])
    if (notice !== undefined) this.#notify(notice)
  }

  /** A job's row changes without anything having happened to it (a renewed clock, a checkpoint's number). */
  keep(job: Job): void {
    this.pending.put(this.tables.jobs, job.id, job)
  }

  putWorker(worker: Worker): void {
    this.pending.put(this.tables.workers, worker.id, worker)
  }

  /** With a worker goes what it was to be told. */
  removeWorker(id: string): void {
    this.pending.put(this.tables.workers, id, null)
    this.forgetNotices(id)
  }

  /** The worker has heard it, or (without a notice) need not hear anything any more. */
  forgetNotices(workerId: string, notice?: Notice): void {
    const { jobId = null, lease = null } = notice ?? {}
    this.pending.push(this.pending.lists.told, [{ workerId, jobId, lease }])
    const meant = (one: WorkerNotice): boolean =>
      one.workerId === workerId && (notice === undefined || (one.notice.jobId === jobId && one.notice.lease === lease))
    if (this.pending.lists.notices.some(meant)) {
      const before = this.pending.lists.notices
      this.pending.lists.notices = before.filter((one) => !meant(one))
      this.pending.onRevert(() => {
        this.pending.lists.notices = before
      })
    }
    this.#retell(workerId, (kept) => kept.filter((one) => !meant({ workerId, notice: one })))
  }

  /** A worker whose row is gone needs no telling. One that was declared dead may come back. */
  #notify(told: WorkerNotice): void {
    const { workerId, notice } = told
    const holder = this.tables.workers.has(workerId) ? this.worker(workerId) : this.#seen.get(workerId)
    if (holder === null) return
    this.pending.push(this.pending.lists.notices, [told])
    this.noteOrders(workerId)
    this.#retell(workerId, (kept) => [...kept, notice])
  }

  /** There is something that this worker should hear at once. */
  noteOrders(workerId: string): void {
    this.pending.push(this.pending.lists.orders, [workerId])
    this.pending.push(this.orders, [workerId])
  }

  #retell(workerId: string, change: (kept: readonly Notice[]) => readonly Notice[]): void {
    const before = this.toTell.get(workerId)
    if (before === undefined) return
    this.toTell.set(workerId, change(before))
    this.pending.onRevert(() => {
      this.toTell.set(workerId, before)
    })
  }

  putQueue(queue: Queue): void {
    this.pending.put(this.tables.queues, queue.name, queue)
  }

  putType(type: string, policy: TypePolicy | null): void {
    this.pending.put(this.tables.types, type, policy)
  }

  putCheckpoint(jobId: string, checkpoint: Checkpoint | null): void {
    this.pending.put(this.tables.checkpoints, jobId, checkpoint)
  }

  putDoc<T>(kind: DocKind<T>, id: string, record: T | null): void {
    const name = { kind: kind.kind, id }
    const write =
      record === null || kind.long === undefined ? {} : { write: (docs: LongDocs) => docs.write(kind, id, record) }
    const doc =
      record === null
        ? null
        : { ...name, version: 0, wakeAt: kind.wakeAt(record), record, text: { body: null }, ...write }
    this.pending.put(this.tables.docs, keyOf(name), doc)
  }

  /** A document that surely is not there yet: it need not be looked for. */
  addDoc<T>(kind: DocKind<T>, id: string, record: T): void {
    this.tables.docs.found(keyOf({ kind: kind.kind, id }), null)
    this.putDoc(kind, id, record)
  }

  /** The jobs with an owner that ended since the last call. */
  takeEnded(): readonly Job[] {
    const ended = this.#ended
    if (ended.length === 0) return ended
    this.#ended = []
    this.pending.onRevert(() => {
      this.#ended = ended
    })
    return ended
  }

  emit(event: NewEvent): void {
    this.pending.push(this.pending.lists.events, [event])
  }

  /** Done once this is durable; not at all if it is undone, or never gets there. */
  afterwards(act: () => void): void {
    this.pending.push(this.followUps, [act])
  }

  noteRunOut(kind: LimitKind, overshootMs: Millis): void {
    this.pending.push(this.ranOut, [{ kind, overshootMs }])
  }

  emitLive(event: NewEvent): void {
    this.pending.push(this.pending.lists.live, [event])
    this.pending.push(this.live, [event])
  }

  /**
   * Rows were written that speak of this instant, and no event does. After a restart the clock goes on from the latest
   * event or sign of life, so then a sign of life has to tell.
   */
  get writesUndated(): boolean {
    return !this.hasSavedEvents && this.pending.lists.events.length === 0 && (this.hasSaved || !this.pending.isEmpty)
  }

  stampAlive(outages: Changes['outages']): void {
    this.pending.marks = { aliveAt: this.now, outages }
  }

  /** An entry of the inbox was admitted, or refused. */
  takeFromInbox(id: string, refused: OjsError | null): void {
    if (refused === null) {
      this.pending.push(this.pending.lists.inbox, [{ id, refused }])
      return
    }
    const { code, message, details, hint } = refused
    const error = JSON.stringify({ code, message, details, hint })
    this.pending.push(this.pending.lists.inbox, [{ id, refused: { error, at: this.now } }])
    this.pending.push(this.refused, [{ id, error: refused }])
  }
}

function hasEnded({ before, job }: Transition): boolean {
  if (before === null || isTerminal(before.state)) return false
  return job === null || isTerminal(job.state)
}
