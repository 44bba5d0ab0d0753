/**
 * What a store is on its database, beside the connections: its name among the servers, its slot in the counts, the
 * locks they agree on, and what it remembers.
 *
 * What is remembered of the log is only a hint of when to prune: it may be behind, but never ahead.
 */
import { createHash } from 'node:crypto'
import type { Instant, Random } from '@curfew/core'
import { ActiveJobs } from '../remembered-rows.ts'
import { LastLook } from './reliance.ts'
import type { Texts } from './texts.ts'

/** So many servers can count at once without waiting for each other. */
const SLOTS = 32

/** The oldest event of the log, as far as it was seen. */
export interface Oldest {
  readonly sequence: number
  readonly at: number
}

/** When the next row wants to be woken, as the database said it. Null: none does. */
export type NextWake = Instant | null

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
  /** Active jobs as they were committed here. Others may have written them since: a row is used only in its version. */
  readonly active = new ActiveJobs()
  readonly lastLook = new LastLook()
  lastEvent = 0
  /** Of the last that was appended here; others may have appended since. */
  lastEventAt = 0
  oldest = UNKNOWN
  /** The nearest instant at which a row wants to be woken, as far as it was seen; undefined: unknown. */
  #nextWakeAt: NextWake | undefined = undefined
  /** What others told since the database was asked for it last. */
  #told: NextWake | undefined = null

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

  /** Whether a row may want to be woken by now. If not, that is for the database to say. */
  mayBeDue(now: Instant): boolean {
    return isAtMost(this.#nextWakeAt, now)
  }

  /** Whether, as far as this server has heard, nothing wants to be woken by now. */
  knowsNothingDue(now: Instant): boolean {
    return this.#nextWakeAt !== undefined && !this.mayBeDue(now)
  }

  /** The database is asked which row wants to be woken next; what others tell from here on it may not have seen. */
  askNextWake(): void {
    this.#told = null
  }

  /** What the database said, or what others have told since it was asked. */
  seeNextWake(said: NextWake): NextWake | undefined {
    const told = this.#told
    this.#nextWakeAt = told === undefined ? undefined : isAtMost(told, said) ? told : said
    return this.#nextWakeAt
  }

  /** Another server wrote a row that wants to be woken then; undefined: it may have. */
  hearWake(at: NextWake | undefined): void {
    if (at === null) return
    this.#told = at === undefined || this.#told === undefined ? undefined : isAtMost(this.#told, at) ? this.#told : at
    if (at === undefined) this.#nextWakeAt = undefined
    else if (this.#nextWakeAt !== undefined && !isAtMost(this.#nextWakeAt, at)) this.#nextWakeAt = at
  }

  /** All rows are gone, or others have come. */
  forgetRows(): void {
    this.active.clear()
    this.lastLook.clear()
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

  /** The log was appended to up to here, by any server. */
  seeLast(sequence: number | null): void {
    if (sequence !== null && sequence > this.lastEvent) this.lastEvent = sequence
  }
}

/** Whether there is one, and not after this. Null as a bound: there is none. */
function isAtMost(at: NextWake | undefined, bound: NextWake): boolean {
  return at !== null && at !== undefined && (bound === null || at <= bound)
}

/** Advisory locks are numbers, and all schemas of a database share them. */
function lockNumber(schema: string, what: string): string {
  return createHash('sha256').update(`curfew/${schema}/${what}`).digest().readBigInt64BE().toString()
}
