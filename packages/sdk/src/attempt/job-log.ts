/**
 * What handlers log, on its way to the server. No line is a call of its own: lines go along with reports, with progress and
 * checkpoints, and with heartbeats. A line is kept here until a call that carried it was answered, and is then stored.
 *
 * Lines of an attempt are numbered, and the server leaves out what it has: so it does no harm that a heartbeat and a report
 * carry the same line. Everything is bounded as on the server (`core/job/log.ts`); the number of the first line that is
 * left says how many are gone.
 */
import {
  cutLine,
  lengthOfLine,
  MAX_LOG_CHARACTERS,
  MAX_LOG_LINES,
  writeLog,
  type Instant,
  type LogLine,
  type LogOnWire,
} from '@curfew/core'
import { jsonText } from './json-data.ts'
import { keyOf, type Hold } from './report.ts'

export type LogFields = Readonly<Record<string, unknown>>

/** Lines of one attempt; `from` is the number of the first. */
export interface LogLines {
  readonly from: number
  readonly lines: readonly LogLine[]
}

/** One call carries no more than this of all logs together, in characters: what it is for must not be refused for them. */
export const MAX_CALL_CHARACTERS = 262_144

/** A handler is never harmed by what it logs: what is not JSON is left out, and the line says that it was cut. */
export function logLine(at: Instant, message: string, fields?: LogFields): LogLine {
  const line = { at, message: String(message) }
  if (fields === undefined) return cutLine(line)
  const written = plainFields(fields)
  return cutLine(written === null ? { ...line, isCut: true } : { ...line, fields: written })
}

function plainFields(fields: LogFields): LogFields | null {
  try {
    const told = Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? String(value) : value])
    const text = jsonText(Object.fromEntries(told), 'A log line')
    const plain = text === undefined ? null : (JSON.parse(text) as unknown)
    return typeof plain === 'object' && plain !== null && !Array.isArray(plain) ? (plain as LogFields) : null
  } catch {
    return null
  }
}

/** The newest lines of an attempt that are not known to be stored. */
export class AttemptLog {
  #from = 0
  #lines: { readonly line: LogLine; readonly length: number }[] = []
  #length = 0

  /** The number of the next line. */
  get next(): number {
    return this.#from + this.#lines.length
  }

  get length(): number {
    return this.#length
  }

  /** Lines that were left out before these push out what is older: as many newer ones as are kept follow. */
  add({ from, lines }: LogLines): void {
    if (from > this.next) this.#drop(this.#lines.length, from)
    for (const line of lines.slice(Math.max(0, this.next - from))) {
      const length = lengthOfLine(line)
      this.#lines.push({ line, length })
      this.#length += length
      while (this.#lines.length > MAX_LOG_LINES || this.#length > MAX_LOG_CHARACTERS) this.#drop(1, this.#from + 1)
    }
  }

  /** Null: nothing is left to send. */
  unsent(): LogLines | null {
    return this.#lines.length === 0 ? null : { from: this.#from, lines: this.#lines.map(({ line }) => line) }
  }

  /** The server has all lines before this number. */
  stored(before: number): void {
    if (before > this.#from) this.#drop(Math.min(before - this.#from, this.#lines.length), before)
  }

  #drop(count: number, from: number): void {
    for (const { length } of this.#lines.splice(0, count)) this.#length -= length
    this.#from = from
  }
}

/** Messages to the guard, so that heartbeats carry the lines of attempts that run for long. */
export interface LogOrders {
  logged(key: string, lines: LogLines): void
  stored(key: string, before: number): void
}

/** What the attempts of one worker have logged. */
export class JobLogs {
  readonly #orders: LogOrders
  readonly #logs = new Map<string, AttemptLog>()
  /** The server stores logs; if not, nothing is kept. */
  isKept = false

  constructor(orders: LogOrders) {
    this.#orders = orders
  }

  /** `dropped`: how many lines an isolate has left out before these. */
  add(hold: Hold, lines: readonly LogLine[], dropped: number): void {
    if (!this.isKept) return
    const key = keyOf(hold)
    const log = this.#logs.get(key) ?? new AttemptLog()
    this.#logs.set(key, log)
    const added = { from: log.next + dropped, lines }
    log.add(added)
    this.#orders.logged(key, added)
  }

  /** What a call about this attempt carries besides. For lines that are longer than `room` the call carries their number only. */
  takeAlong(hold: Hold, room = MAX_CALL_CHARACTERS): { readonly x_log?: LogOnWire } {
    // Most attempts log nothing.
    if (this.#logs.size === 0) return NOTHING
    const log = this.#logs.get(keyOf(hold))
    const unsent = log?.unsent() ?? null
    if (log === undefined || unsent === null) return NOTHING
    return { x_log: log.length > room ? writeLog(log.next, []) : writeLog(unsent.from, unsent.lines) }
  }

  /** A call about this attempt that carried these lines was answered. */
  arrived(hold: Hold, carried: LogOnWire | undefined): void {
    if (carried === undefined) return
    const [key, before] = [keyOf(hold), carried.from + carried.lines.length]
    this.#logs.get(key)?.stored(before)
    this.#orders.stored(key, before)
  }

  /** A heartbeat with all lines before this number was answered. */
  beaten(key: string, before: number): void {
    this.#logs.get(key)?.stored(before)
  }

  /** Its report was answered, or there is none. */
  forget(key: string): void {
    this.#logs.delete(key)
  }
}

const NOTHING: { readonly x_log?: LogOnWire } = {}
