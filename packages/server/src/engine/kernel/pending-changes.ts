/**
 * What a unit of work has decided and not yet saved. Every kind of change is declared here once: as a table of rows, as a list
 * that is appended to, or as a mark. Each can be undone, command by command, until it is saved.
 */
import { TAIL, type Checkpoint, type Job, type TypePolicy, type Worker } from '@curfew/core'
import { isNothing, type Changes, type Queue } from '../../store/store.ts'
import type { OpenDoc } from './open-doc.ts'
import type { AllButDocs } from './parts.ts'
import { asWritten, nextVersion, Table } from './table.ts'

/** Rows: found, changed in memory, and saved with the version they were found at. */
function tables() {
  return {
    // A job that got a place at the tail has to be found again; of everything else we know how it reads now.
    jobs: new Table<Job>('job', (before, after) => (after?.seq === TAIL ? null : nextVersion(before, after))),
    workers: new Table<Worker>('worker', nextVersion),
    queues: new Table<Queue>('queue', nextVersion),
    types: new Table<TypePolicy>('type', asWritten),
    checkpoints: new Table<Checkpoint>('checkpoint', asWritten),
    docs: new Table<OpenDoc>('document', nextVersion),
  }
}

type Writable<T> = T extends readonly (infer Entry)[] ? Entry[] : never

/** Lists: appended to, and empty again once they were saved. */
type ListKind = 'notices' | 'told' | 'events' | 'live' | 'orders' | 'inbox'
type Lists = { [Kind in ListKind]: Writable<Changes[Kind]> }

const emptyLists = (): Lists => ({ notices: [], told: [], events: [], live: [], orders: [], inbox: [] })

/** Marks: one value for the whole transaction. */
type Marks = Pick<Changes, 'aliveAt' | 'outages'>

const NO_MARKS: Marks = { aliveAt: null, outages: null }

export class PendingChanges {
  readonly tables = tables()
  lists = emptyLists()
  marks = NO_MARKS
  #undo: (() => void)[] = []
  #flushed = false

  // ---- Undoing one command ----

  begin(): void {
    this.#undo = []
    this.#flushed = false
  }

  /** True when what this command wrote was saved already, and cannot be taken back alone. */
  get spoiled(): boolean {
    return this.#flushed
  }

  revert(): void {
    for (const undo of this.#undo.reverse()) undo()
    this.#undo = []
  }

  onRevert(undo: () => void): void {
    this.#undo.push(undo)
  }

  // ---- Writing ----

  put<T>(table: Table<T>, id: string, value: T | null): void {
    const row = table.row(id)
    const previous = row.current
    row.current = value
    table.written(id)
    this.#undo.push(() => {
      row.current = previous
    })
  }

  push<T>(into: T[], values: readonly T[]): void {
    if (values.length === 0) return
    const length = into.length
    for (const value of values) into.push(value)
    this.#undo.push(() => {
      into.length = length
    })
  }

  // ---- Saving ----

  batch(): AllButDocs {
    const { jobs, workers, queues, types, checkpoints } = this.tables
    return {
      jobs: jobs.changes(),
      workers: workers.changes(),
      queues: queues.changes(),
      types: types.changes().map(({ id, after }) => ({ type: id, policy: after })),
      checkpoints: checkpoints.changes().map(({ id, after }) => ({ jobId: id, checkpoint: after })),
      ...this.lists,
      ...this.marks,
    }
  }

  get isEmpty(): boolean {
    return this.tables.docs.changes().length === 0 && isNothing({ ...this.batch(), docs: [] })
  }

  saved(): void {
    for (const table of Object.values(this.tables)) table.saved()
    this.lists = emptyLists()
    this.marks = NO_MARKS
    if (this.#undo.length > 0) this.#flushed = true
    this.#undo = []
  }
}
