/**
 * A connection and all that is remembered beside it: prepared statements, shared texts, and the numbers that are handed
 * out. What is in memory follows the transaction: `keep` when it is committed, `forget` when it is rolled back.
 *
 * Three rows of numbers are handed out, each strictly growing and never repeated: places in the queues, places in the
 * log, places of tombstones. The log and the tombstones always keep their newest row, which tells how far the numbers
 * went. Places in the queues are reserved in blocks, because every job that had one may be gone.
 */
import type { Database as Connection } from 'better-sqlite3'
import { prepare, type Statements } from './statements.ts'
import { Texts } from './texts.ts'

export interface Numbers {
  seq: number
  /** Up to here places in the queues are reserved: after a restart they go on from there. */
  seqReserved: number
  firstEvent: number
  firstEventAt: number
  lastEvent: number
  tombstone: number
}

export class Session {
  readonly db: Connection
  readonly statements: Statements
  texts: Texts
  numbers: Numbers
  #kept: Numbers

  constructor(db: Connection) {
    this.db = db
    this.statements = prepare(db)
    this.texts = new Texts(this.statements)
    this.numbers = findNumbers(this.statements)
    this.#kept = { ...this.numbers }
  }

  keep(): void {
    this.#kept = { ...this.numbers }
    this.texts.settle()
  }

  forget(): void {
    this.numbers = { ...this.#kept }
    if (this.texts.unsettled) this.texts = new Texts(this.statements)
  }
}

function findNumbers(statements: Statements): Numbers {
  const seq = (statements.findMeta.get('seq_reserved') as number | undefined) ?? 0
  const lastEvent = statements.lastEvent.get() ?? 0
  const [firstEvent, firstEventAt] = statements.firstEvent.get() ?? [lastEvent + 1, 0]
  return { seq, seqReserved: seq, firstEvent, firstEventAt, lastEvent, tombstone: statements.lastTombstone.get() ?? 0 }
}
