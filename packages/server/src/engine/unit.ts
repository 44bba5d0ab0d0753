/**
 * A unit of work: what one transaction has found and what it will write. Commands that arrived together share a unit;
 * each row is found once, decided about in memory, and saved with everything else in one batch.
 *
 * A command that is refused leaves nothing behind: its writes are undone here, before anything reached the store. After
 * a flush (searches by order must see what was decided so far) they can no longer be undone alone, and `spoiled` says
 * so: then the whole transaction is given up and its commands are tried one by one.
 */
import {
  expire,
  nextDue,
  isDue,
  broken,
  type Checkpoint,
  type Job,
  type Liveness,
  type Moment,
  type NewEvent,
  type Notice,
  type Outage,
  type Instant,
  type Transition,
  type TypePolicy,
  type Worker,
  type Millis,
} from '@curfew/core'
import type { Changes, Queue, StoredEvent, Transaction } from '../store/store.ts'

/** A worker that does not list a job it lost is told for this long, and of no more than so many. */
export const TOLD_FOR_MS = 60_000
const MOST_NOTICES = 1_000

interface Row<T> {
  readonly stored: T | null
  current: T | null
}

class Table<T> {
  readonly #rows = new Map<string, Row<T>>()
  /** Ids in the order in which they were first written: places at the tail are given in this order. */
  readonly #written = new Set<string>()

  get(id: string): Row<T> | undefined {
    return this.#rows.get(id)
  }

  found(id: string, value: T | null): Row<T> {
    const row: Row<T> = { stored: value, current: value }
    this.#rows.set(id, row)
    return row
  }

  written(id: string): void {
    this.#written.add(id)
  }

  changes(): { id: string; before: T | null; after: T | null }[] {
    const changed: { id: string; before: T | null; after: T | null }[] = []
    for (const id of this.#written) {
      const row = this.#rows.get(id)
      if (row !== undefined && row.stored !== row.current) changed.push({ id, before: row.stored, after: row.current })
    }
    return changed
  }

  clear(): void {
    this.#rows.clear()
    this.#written.clear()
  }
}

export class Unit {
  readonly moment: Moment
  readonly #tx: Transaction
  readonly #outages: readonly Outage[]
  readonly #workerTimeoutMs: Millis
  readonly #jobs = new Table<Job>()
  readonly #workers = new Table<Worker>()
  readonly #queues = new Table<Queue>()
  readonly #types = new Table<TypePolicy>()
  readonly #checkpoints = new Table<Checkpoint>()
  #events: NewEvent[] = []
  #undo: (() => void)[] = []
  #aliveAt: Instant | null = null
  #flushed = false

  /** Everything decided so far, for those who count and notify after the commit. */
  readonly transitions: Transition[] = []
  readonly stored: StoredEvent[] = []
  /** For those who listen now; not kept in the log. */
  readonly live: NewEvent[] = []

  constructor(tx: Transaction, moment: Moment, outages: readonly Outage[], workerTimeoutMs: Millis) {
    this.#tx = tx
    this.moment = moment
    this.#outages = outages
    this.#workerTimeoutMs = workerTimeoutMs
  }

  get now(): Instant {
    return this.moment.now
  }

  // ---- Finding ----

  async jobs(ids: readonly string[]): Promise<Job[]> {
    const missing = ids.filter((id) => this.#jobs.get(id) === undefined)
    if (missing.length > 0) {
      for (const job of await this.#tx.findJobs(missing)) this.#jobs.found(job.id, job)
      for (const id of missing) if (this.#jobs.get(id) === undefined) this.#jobs.found(id, null)
    }
    return ids.map((id) => this.#jobs.get(id)?.current ?? null).filter((job) => job !== null)
  }

  async job(id: string): Promise<Job | null> {
    const [job] = await this.jobs([id])
    return job ?? null
  }

  async workers(ids: readonly string[]): Promise<void> {
    const missing = [...new Set(ids)].filter((id) => this.#workers.get(id) === undefined)
    if (missing.length === 0) return
    for (const worker of await this.#tx.findWorkers(missing)) this.#workers.found(worker.id, worker)
    for (const id of missing) if (this.#workers.get(id) === undefined) this.#workers.found(id, null)
  }

  async worker(id: string): Promise<Worker | null> {
    await this.workers([id])
    return this.#workers.get(id)?.current ?? null
  }

  async queue(name: string): Promise<Queue | null> {
    const known = this.#queues.get(name)
    if (known !== undefined) return known.current
    const [queue] = await this.#tx.findQueues([name])
    return this.#queues.found(name, queue ?? null).current
  }

  async type(type: string): Promise<TypePolicy | null> {
    const known = this.#types.get(type)
    if (known !== undefined) return known.current
    const [policy] = await this.#tx.findTypes([type])
    return this.#types.found(type, policy ?? null).current
  }

  async checkpoint(jobId: string): Promise<Checkpoint | null> {
    const known = this.#checkpoints.get(jobId)
    if (known !== undefined) return known.current
    const [checkpoint] = await this.#tx.findCheckpoints([jobId])
    return this.#checkpoints.found(jobId, checkpoint ?? null).current
  }

  /** Jobs to hand out, in their order. */
  async claimable(queue: string, limit: number): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findClaimable(queue, limit))
  }

  async heldBy(workerId: string): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findHeldBy(workerId))
  }

  async dueJobs(limit: number): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findDueJobs(this.now, limit))
  }

  async dueWorkers(limit: number): Promise<Worker[]> {
    await this.flush()
    const due = await this.#tx.findDueWorkers(this.now, limit)
    for (const worker of due) if (this.#workers.get(worker.id) === undefined) this.#workers.found(worker.id, worker)
    return due
  }

  async deadLettersBeyond(keep: number, limit: number): Promise<Job[]> {
    await this.flush()
    return this.#adopt(await this.#tx.findDeadLettersBeyond(keep, limit))
  }

  #adopt(found: readonly Job[]): Job[] {
    return found
      .map((job) => (this.#jobs.get(job.id) ?? this.#jobs.found(job.id, job)).current)
      .filter((job) => job !== null)
  }

  // ---- Judging ----

  /** What is known of the worker that holds this job. */
  async liveness(job: Job): Promise<Liveness> {
    const workerId = job.hold?.workerId ?? null
    return this.livenessWith(workerId === null ? null : await this.worker(workerId))
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
    if (before === null && this.#jobs.get(id) === undefined) this.#jobs.found(id, null)
    this.#put(this.#jobs, id, job)
    this.#push(this.#events, transition.events)
    this.#push(this.transitions, [transition])
    if (notice !== undefined) this.#pendingNotices.push(notice)
  }

  /** A job's row changes without anything having happened to it (a renewed clock, a checkpoint's number). */
  keep(job: Job): void {
    this.#put(this.#jobs, job.id, job)
  }

  readonly #pendingNotices: NonNullable<Transition['notice']>[] = []

  /** What holders must hear is written on their rows; a worker that is gone needs no telling. */
  async deliverNotices(): Promise<void> {
    const notices = this.#pendingNotices.splice(0)
    if (notices.length === 0) return
    const byWorker = new Map<string, Notice[]>()
    for (const { workerId, notice } of notices) byWorker.set(workerId, [...(byWorker.get(workerId) ?? []), notice])
    await this.workers([...byWorker.keys()])
    for (const [workerId, told] of byWorker) {
      const worker = this.#workers.get(workerId)?.current ?? null
      if (worker === null || worker.diedAt !== null) continue
      const fresh = worker.notices.filter(
        ({ jobId, at }) => this.now - at < TOLD_FOR_MS || worker.beat?.jobs.has(jobId) === true,
      )
      this.putWorker({ ...worker, notices: [...fresh, ...told].slice(-MOST_NOTICES) })
    }
  }

  putWorker(worker: Worker): void {
    this.#put(this.#workers, worker.id, worker)
  }

  removeWorker(id: string): void {
    this.#put(this.#workers, id, null)
  }

  putQueue(queue: Queue): void {
    this.#put(this.#queues, queue.name, queue)
  }

  putType(type: string, policy: TypePolicy | null): void {
    this.#put(this.#types, type, policy)
  }

  putCheckpoint(jobId: string, checkpoint: Checkpoint | null): void {
    this.#put(this.#checkpoints, jobId, checkpoint)
  }

  emit(event: NewEvent): void {
    this.#push(this.#events, [event])
  }

  emitLive(event: NewEvent): void {
    this.#push(this.live, [event])
  }

  stampAlive(): void {
    this.#aliveAt = this.now
  }

  /** How many events this unit has decided on: none and no rows means nothing to commit. */
  get hasWrites(): boolean {
    return this.#undo.length > 0 || this.#flushed
  }

  // ---- Undoing one command ----

  begin(): void {
    this.#undo = []
    this.#flushed = false
  }

  /** True when what this command wrote has already gone to the store and cannot be taken back alone. */
  get spoiled(): boolean {
    return this.#flushed
  }

  revert(): void {
    for (const undo of this.#undo.reverse()) undo()
    this.#undo = []
    this.#pendingNotices.length = 0
  }

  #put<T>(table: Table<T>, id: string, value: T | null): void {
    const row = table.get(id)
    if (row === undefined) throw broken(`${id} is written without having been found since the last flush`)
    const previous = row.current
    row.current = value
    table.written(id)
    this.#undo.push(() => {
      row.current = previous
    })
  }

  #push<T>(into: T[], values: readonly T[]): void {
    if (values.length === 0) return
    const length = into.length
    into.push(...values)
    this.#undo.push(() => {
      into.length = length
    })
  }

  // ---- Saving ----

  async flush(): Promise<void> {
    await this.deliverNotices()
    const changes: Changes = {
      jobs: this.#jobs.changes(),
      workers: this.#workers.changes(),
      queues: this.#queues
        .changes()
        .map(({ after }) => after)
        .filter((queue) => queue !== null),
      types: this.#types.changes().map(({ id, after }) => ({ type: id, policy: after })),
      checkpoints: this.#checkpoints.changes().map(({ id, after }) => ({ jobId: id, checkpoint: after })),
      events: this.#events,
      aliveAt: this.#aliveAt,
      outages: null,
    }
    const nothing =
      changes.jobs.length +
        changes.workers.length +
        changes.queues.length +
        changes.types.length +
        changes.checkpoints.length +
        changes.events.length ===
      0
    if (nothing && changes.aliveAt === null) return
    this.stored.push(...(await this.#tx.save(changes)))
    this.#events = []
    this.#aliveAt = null
    // Rows have new versions and places now: whoever needs one again finds it again.
    for (const table of [this.#jobs, this.#workers, this.#queues, this.#types, this.#checkpoints]) table.clear()
    if (this.#undo.length > 0) this.#flushed = true
    this.#undo = []
  }
}
