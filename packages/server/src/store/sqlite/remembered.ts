/**
 * What is remembered of rows beside a connection. One server owns the file and only this connection writes, so a row that
 * was read or written here is what a read would find. All of it is forgotten when a transaction is rolled back.
 */
import type { Instant, Job, TypePolicy, Worker } from '@curfew/core'
import { ActiveJobs, Rows } from '../remembered-rows.ts'
import type { Queue } from '../store.ts'

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

export class Remembered {
  readonly queues = new Rows<Queue>(MAX_NAMES)
  readonly types = new Rows<TypePolicy>(MAX_NAMES)
  readonly workers = new Rows<Worker>(MAX_WORKERS)
  readonly active = new ActiveJobs()
  readonly jobWake = new Nearest()
  readonly workerWake = new Nearest()
  readonly docWake = new Nearest()

  /** The job was written like this. */
  wrote(job: Job, version: number, seq: number): void {
    this.active.wrote(job, version, seq)
  }

  clear(): void {
    for (const rows of [this.queues, this.types, this.workers, this.active]) rows.clear()
    for (const nearest of [this.jobWake, this.workerWake, this.docWake]) nearest.at = undefined
  }
}
