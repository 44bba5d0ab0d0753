/**
 * What is remembered of rows beside a connection. One server owns the file and only this connection writes, so a row that
 * was read or written here is what a read would find. All of it is forgotten when a transaction is rolled back.
 */
import type { Instant, Job, TypePolicy, Worker } from '@curfew/core'
import type { Queue } from '../store.ts'

/** Rows by name, at most so many; `null`: there is none. */
export class Rows<Row> {
  readonly #max: number
  readonly #rows = new Map<string, Row | null>()

  constructor(max: number) {
    this.#max = max
  }

  /** The row, or undefined if it is not remembered. */
  get(name: string): Row | null | undefined {
    return this.#rows.get(name)
  }

  put(name: string, row: Row | null): void {
    if (this.#rows.size >= this.#max && !this.#rows.has(name)) this.#rows.clear()
    this.#rows.set(name, row)
  }

  forget(name: string): void {
    this.#rows.delete(name)
  }

  clear(): void {
    this.#rows.clear()
  }
}

/** The nearest `wakeAt` of a table; undefined: it has to be asked for. */
export class Nearest {
  #at: Instant | null | undefined = undefined

  get at(): Instant | null | undefined {
    return this.#at
  }

  set at(at: Instant | null | undefined) {
    this.#at = at
  }

  /** A row was written. If it was the nearest and is no longer, another is. */
  moved(before: Instant | null, after: Instant | null): void {
    if (this.#at === undefined) return
    if (after !== null && (this.#at === null || after < this.#at)) this.#at = after
    else if (before !== null && before === this.#at && before !== after) this.#at = undefined
  }
}

const MAX_NAMES = 1_000
const MAX_WORKERS = 1_000
const MAX_ACTIVE = 10_000
/** In characters. A job with more is not remembered: what is, is bounded by this and by how many there are. */
const MAX_LENGTH = 1_000

export class Remembered {
  readonly queues = new Rows<Queue>(MAX_NAMES)
  readonly types = new Rows<TypePolicy>(MAX_NAMES)
  readonly workers = new Rows<Worker>(MAX_WORKERS)
  /** Between its claim and its result a job is looked at again: few jobs are active, and each of them will be. */
  readonly active = new Rows<Job>(MAX_ACTIVE)
  readonly jobWake = new Nearest()
  readonly workerWake = new Nearest()
  readonly docWake = new Nearest()

  /** The job was written like this. */
  wrote(job: Job, version: number, seq: number): void {
    if (job.state === 'active' && lengthOf(job) <= MAX_LENGTH) this.active.put(job.id, { ...job, version, seq })
    else this.active.forget(job.id)
  }

  clear(): void {
    for (const rows of [this.queues, this.types, this.workers, this.active]) rows.clear()
    for (const nearest of [this.jobWake, this.workerWake, this.docWake]) nearest.at = undefined
  }
}

const lengthOf = ({ body, errors, error, progress, life, given }: Job): number =>
  body.length +
  errors.length +
  (error?.length ?? 0) +
  (progress?.data?.length ?? 0) +
  (progress?.message?.length ?? 0) +
  life.length +
  given.length
