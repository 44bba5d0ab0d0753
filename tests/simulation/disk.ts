/**
 * The disk under a server: one SQLite database in memory that outlives the processes using it. Each opening gets a
 * fresh store on it, behind a wrapper in which the process can die, or the disk fail, at every await of the store port:
 * before and after each find and read, before and after a save, and on both sides of the commit.
 *
 * What was committed is written into a journal, in order: the ground the checks stand on. What a dying process had not
 * committed is rolled back when it dies.
 */
import type { Database as Connection } from 'better-sqlite3'
import { days, type Checkpoint, type Instant, type Job, type Outage, type Worker } from '@curfew/core'
import { connect } from '../../packages/server/src/store/sqlite/connection.ts'
import { SqliteStore } from '../../packages/server/src/store/sqlite/store.ts'
import {
  StoreUnavailable,
  type Change,
  type Changes,
  type Store,
  type StoredEvent,
  type Transaction,
} from '../../packages/server/src/store/store.ts'

/** One committed transaction. A job that was written twice in it appears twice. */
export interface Commit {
  readonly jobs: Change<Job>[]
  readonly workers: Change<Worker>[]
  readonly checkpoints: { readonly jobId: string; readonly checkpoint: Checkpoint | null }[]
  readonly events: StoredEvent[]
  aliveAt: Instant | null
  outages: readonly Outage[] | null
  /** The first of a process. */
  readonly isFirst: boolean
}

/** Where the process stands when it may die or be refused. */
export type Point = 'begin' | 'find' | 'found' | 'save' | 'saved' | 'commit' | 'committed' | 'read' | 'answered'

/** Points at which the disk may say no; afterwards it is too late for that. */
const REFUSABLE: readonly Point[] = ['begin', 'find', 'save', 'commit', 'read']

export interface Weather {
  /** Asked at every point; true: the process dies here. */
  dies(point: Point): boolean
  /** Asked where the disk may refuse; true: it does. */
  refuses(point: Point, what: string): boolean
}

const EVENTS_KEPT = { maxAgeMs: days(7), maxCount: 1_000_000 }

export class Disk {
  readonly #db: Connection = connect(':memory:')
  #calm: Store | null = null
  #commits: Commit[] = []

  /** A store for a new process. `died` is called when the weather kills it; from then on none of its calls returns. */
  open(weather: Weather, died: (where: string) => void): Store {
    this.#rollBack()
    this.#calm = this.fresh()
    const process = new Process(weather, (where) => {
      this.#rollBack()
      died(where)
    })
    return overDisk(this.#calm, process, (commit) => this.#commits.push(commit))
  }

  /** The store of the process that is running, past all weather. Of no use once that process is dead. */
  get calm(): Store {
    if (this.#calm === null) throw new Error('no process has opened the disk yet')
    return this.#calm
  }

  /** As a new process would find everything, which remembers nothing. */
  fresh(): Store {
    return new SqliteStore(() => this.#db, EVENTS_KEPT, null, null)
  }

  /** What was committed since the last call. */
  takeCommits(): Commit[] {
    const taken = this.#commits
    this.#commits = []
    return taken
  }

  close(): void {
    this.#rollBack()
    this.#db.close()
  }

  #rollBack(): void {
    if (this.#db.inTransaction) this.#db.exec('ROLLBACK')
  }
}

class Process {
  readonly #weather: Weather
  readonly #died: (where: string) => void
  #dead = false

  constructor(weather: Weather, died: (where: string) => void) {
    this.#weather = weather
    this.#died = died
  }

  async at(point: Point, what: string): Promise<void> {
    if (!this.#dead && this.#weather.dies(point)) {
      this.#dead = true
      this.#died(`${point} ${what}`)
    }
    if (this.#dead) return new Promise(() => {})
    if (REFUSABLE.includes(point) && this.#weather.refuses(point, what)) {
      throw new StoreUnavailable(`refused at ${point} ${what}`, undefined)
    }
  }
}

type Method = (...args: unknown[]) => Promise<unknown>

/** Every method of `target` between two points. */
function between<T extends object>(target: T, process: Process, before: Point, after: Point, special: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const key = name as keyof T & string
      if (key in special) return special[key]
      const method = target[key]
      if (typeof method !== 'function') return method
      return async (...args: unknown[]) => {
        await process.at(before, key)
        const result = await (method as unknown as Method).apply(target, args)
        await process.at(after, key)
        return result
      }
    },
  })
}

function overDisk(inner: Store, process: Process, committed: (commit: Commit) => void): Store {
  let isFirst = true
  const transaction: Store['transaction'] = async (work) => {
    await process.at('begin', 'transaction')
    const commit: Commit = {
      jobs: [],
      workers: [],
      checkpoints: [],
      events: [],
      aliveAt: null,
      outages: null,
      isFirst,
    }
    const result = await inner.transaction(async (tx) => {
      const save = async (changes: Changes): Promise<void> => {
        await process.at('save', 'save')
        await tx.save(changes)
        note(commit, changes)
        await process.at('saved', 'save')
      }
      const closing = await work(between<Transaction>(tx, process, 'find', 'found', { save }))
      await process.at('save', 'closing')
      note(commit, closing.changes)
      await process.at('commit', 'transaction')
      return closing
    })
    isFirst = false
    commit.events.push(...result.events)
    committed(commit)
    await process.at('committed', 'transaction')
    return result
  }
  // A process that stops closes its connection; the disk stays.
  const close = (): Promise<void> => Promise.resolve()
  return between<Store>(inner, process, 'read', 'answered', { transaction, close, follow: () => () => {} })
}

function note(commit: Commit, changes: Changes): void {
  commit.jobs.push(...changes.jobs)
  commit.workers.push(...changes.workers)
  commit.checkpoints.push(...changes.checkpoints)
  commit.aliveAt = changes.aliveAt ?? commit.aliveAt
  commit.outages = changes.outages?.after ?? commit.outages
}
