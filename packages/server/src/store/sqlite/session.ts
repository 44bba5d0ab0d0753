/**
 * A connection and all that is remembered beside it: prepared statements, shared texts, the signs of life, and the
 * numbers that are handed out. What is in memory follows the transaction: `keep` when it is committed, `forget` when it is rolled back.
 *
 * Three rows of numbers are handed out, each strictly growing and never repeated: places in the queues, places in the
 * log, places of tombstones. The log and the tombstones always keep their newest row, which tells how far the numbers
 * went. Places in the queues are reserved in blocks, because every job that had one may be gone.
 */
import type { Database as Connection } from 'better-sqlite3'
import type { Instant, Outage } from '@curfew/core'
import type { Life } from '../store.ts'
import type { LogSync } from './sync.ts'
import { ListStatements } from './job-lists.ts'
import { Remembered } from './remembered.ts'
import { toJob } from './rows.ts'
import { prepare, type Statements } from './prepared.ts'
import { Texts } from './texts.ts'

/** After so many pages the log is copied into the database. */
export const CHECKPOINT_PAGES = 1_000

export interface Numbers {
  seq: number
  /** Up to here places in the queues are reserved: after a restart they go on from there. */
  seqReserved: number
  firstEvent: number
  firstEventAt: number
  lastEvent: number
  tombstone: number
}

/** How the log of a database is brought to the disk at each commit, if it is. */
export type OpenSync = ((database: string) => LogSync) | null

export class Session {
  readonly db: Connection
  readonly statements: Statements
  readonly lists: ListStatements
  readonly remembered = new Remembered()
  texts: Texts
  numbers: Numbers
  /** Asked for by every transaction. */
  life: Life
  #kept: { numbers: Numbers; life: Life }

  /** Null where nothing has to be brought to a disk at each commit. */
  readonly sync: LogSync | null

  constructor(db: Connection, openSync: OpenSync) {
    this.db = db
    this.statements = prepare(db)
    this.lists = new ListStatements(db, this.statements.wide, (row) => toJob(row, this.texts))
    this.texts = new Texts(this.statements)
    this.numbers = findNumbers(this.statements)
    this.life = findLife(this.statements)
    this.#kept = { numbers: { ...this.numbers }, life: this.life }
    this.sync = openSync === null || db.memory ? null : openSync(db.name)
  }

  close(): void {
    this.sync?.close()
    this.db.close()
  }

  /**
   * The commit of a long transaction writes much to the log; to copy all of it into the database as well, in the same
   * call, would take as long again. The next commit does that.
   */
  withoutCheckpoint(commit: () => void): void {
    this.db.pragma('wal_autocheckpoint = 0')
    try {
      commit()
    } finally {
      this.db.pragma(`wal_autocheckpoint = ${String(CHECKPOINT_PAGES)}`)
    }
  }

  keep(): void {
    this.#kept = { numbers: { ...this.numbers }, life: this.life }
    this.texts.settle()
  }

  forget(): void {
    this.numbers = { ...this.#kept.numbers }
    this.life = this.#kept.life
    this.remembered.clear()
    if (this.texts.unsettled) this.texts = new Texts(this.statements)
  }
}

function findLife({ findMeta }: Statements): Life {
  return {
    aliveAt: (findMeta.get('alive_at') as Instant | undefined) ?? null,
    outages: JSON.parse((findMeta.get('outages') as string | undefined) ?? '[]') as Outage[],
  }
}

function findNumbers(statements: Statements): Numbers {
  const seq = (statements.findMeta.get('seq_reserved') as number | undefined) ?? 0
  const lastEvent = statements.lastEvent.get() ?? 0
  const [firstEvent, firstEventAt] = statements.firstEvent.get() ?? [lastEvent + 1, 0]
  return { seq, seqReserved: seq, firstEvent, firstEventAt, lastEvent, tombstone: statements.lastTombstone.get() ?? 0 }
}
