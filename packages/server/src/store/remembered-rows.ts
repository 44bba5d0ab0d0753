/** Rows that a store remembers between transactions. Both stores bound them alike; each has its own reason to trust them. */
import { lengthOfLine, type Job } from '@curfew/core'

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

const MAX_ACTIVE = 10_000
/** In characters. A job with more is not remembered: what is, is bounded by this and by how many there are. */
const MAX_LENGTH = 1_000

/** Between its claim and its result a job is looked at again: few jobs are active, and each of them will be. */
export class ActiveJobs {
  readonly #rows = new Rows<Job>(MAX_ACTIVE)

  get(id: string): Job | undefined {
    return this.#rows.get(id) ?? undefined
  }

  /** The job was written like this. */
  wrote(job: Job, version: number, seq: number): void {
    if (job.state === 'active' && lengthOf(job) <= MAX_LENGTH) this.#rows.put(job.id, { ...job, version, seq })
    else this.#rows.forget(job.id)
  }

  forget(id: string): void {
    this.#rows.forget(id)
  }

  clear(): void {
    this.#rows.clear()
  }
}

const lengthOf = ({ body, errors, error, progress, log, life, given }: Job): number =>
  body.length +
  errors.length +
  (error?.length ?? 0) +
  (progress?.data?.length ?? 0) +
  (progress?.message?.length ?? 0) +
  (log?.lines.reduce((length, line) => length + lengthOfLine(line), 0) ?? 0) +
  life.length +
  given.length
