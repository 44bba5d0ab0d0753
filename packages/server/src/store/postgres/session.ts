/**
 * What a store is on its database, beside the connections: its name among the servers, its slot in the counts, the
 * locks they agree on, and what it remembers.
 *
 * What is remembered of the log is only a hint of when to prune: it may be behind, but never ahead.
 */
import { createHash } from 'node:crypto'
import type { Random } from '@curfew/core'
import type { Texts } from './texts.ts'

/** So many servers can count at once without waiting for each other. */
const SLOTS = 32

/** The oldest event of the log, as far as it was seen. */
export interface Oldest {
  readonly sequence: number
  readonly at: number
}

export interface Logged {
  /** The place of its last event, if it had any. */
  readonly last: number | null
  readonly lastAt: number
  /** The oldest event, if it was looked for. */
  readonly oldest: Oldest | null
}

export const UNKNOWN: Oldest = { sequence: 0, at: 0 }

export class Session {
  readonly schema: string
  /** What this server calls itself among the others. */
  readonly me: string
  readonly channel: string
  readonly inboxChannel: string
  readonly slot: number
  readonly logLock: string
  readonly pruneLock: string
  /** Of all names together. */
  readonly namesLock: string
  readonly texts: Texts
  lastEvent = 0
  /** Of the last that was appended here; others may have appended since. */
  lastEventAt = 0
  oldest = UNKNOWN

  constructor(schema: string, random: Random, texts: Texts) {
    this.schema = schema
    this.me = Array.from({ length: 4 }, () => Math.floor(random() * 0x10000).toString(16)).join('')
    this.channel = `${schema}_news`
    this.inboxChannel = `${schema}_inbox`
    this.slot = Math.floor(random() * SLOTS)
    this.logLock = lockNumber(schema, 'log')
    this.pruneLock = lockNumber(schema, 'prune')
    this.namesLock = lockNumber(schema, 'names')
    this.texts = texts
  }

  /** The locks of these names, in the order in which every server asks for them. */
  nameLocks(names: Iterable<string>): string[] {
    const numbers = new Set(Array.from(names, (name) => lockNumber(this.schema, `name/${name}`)))
    return [...numbers].sort()
  }

  forgetLog(): void {
    this.lastEvent = 0
    this.oldest = UNKNOWN
  }

  /** What a transaction did to the log, now that it is committed. Gives the place of its last event. */
  seeLog({ last, lastAt, oldest }: Logged): number | null {
    if (oldest !== null) this.oldest = oldest
    if (last !== null) this.lastEventAt = lastAt
    this.seeLast(last)
    return last
  }

  /** Somebody appended up to here. */
  seeLast(sequence: number | null): void {
    if (sequence !== null && sequence > this.lastEvent) this.lastEvent = sequence
  }
}

/** Advisory locks are numbers, and all schemas of a database share them. */
function lockNumber(schema: string, what: string): string {
  return createHash('sha256').update(`curfew/${schema}/${what}`).digest().readBigInt64BE().toString()
}
