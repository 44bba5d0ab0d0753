/**
 * An open connection as a pipeline of prepared statements. The driver opens it (address, encryption, password); from
 * then on the socket is ours.
 *
 * What is asked for in one turn of the event loop leaves in one write and is answered in its order. A statement is parsed
 * and described once per connection; after that a query is a Bind and an Execute. A Sync ends what stands or falls
 * together: after an error the database skips everything up to it. `together`: one Sync for all that leaves in one write,
 * for a connection on which one transaction at a time is at work. `each`: one for every query, for queries of callers who
 * know nothing of each other; each is then a transaction of its own, and is answered when that is committed.
 */
import type pg from 'pg'
import type { Timer } from '@curfew/core'
import { nodeHost } from '../../host.ts'
import { columnsIn, commandIn, errorIn, Frames, notificationIn, rowIn, type Column } from './frames.ts'
import { listTypesOf, type ListTypes } from './lists.ts'

/** A statement that is parsed once per connection, under this name; without a name, each time. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Answer<Row = readonly unknown[]> {
  readonly rows: Row[]
  readonly count: number
  readonly command: string
}

export interface WireOptions {
  readonly syncs: 'together' | 'each'
  /** A database that has not answered a query for so long is not there. 0: it is waited for. */
  readonly answerMs: number
}

export type Notified = (message: { readonly channel: string; readonly payload: string }) => void

/** Whether a statement is parsed and described, or will be by messages on their way, and the columns of its rows. */
interface Prepared {
  isParsed: boolean
  isDescribed: boolean
  columns: readonly Column[]
  readonly lists: ListTypes
}

interface Query {
  readonly prepared: Prepared
  /** Whether this query has the statement parsed and described, until the database has done so. */
  parses: boolean
  describes: boolean
  readonly rows: unknown[]
  answer: Answer | null
  readonly resolve: (answer: Answer<never>) => void
  readonly reject: (error: Error) => void
}

/** Stands in the list of what is awaited for the answer to a Sync. */
const READY = null
/** How often an unanswered query is looked at before it is given up. */
const LOOKS = 3
const HEADER_BYTES = 5
const NOTHING = Buffer.alloc(0)

export class Wire {
  readonly #client: pg.Client
  readonly #options: WireOptions
  readonly #frames = new Frames()
  readonly #prepared = new Map<string, Prepared>()
  /** What the database has yet to answer, in this order; the first `#first` of them it has. */
  #awaited: (Query | typeof READY)[] = []
  #first = 0
  /** How many answers there were. */
  #answers = 0
  /** Messages were written since the last Sync. */
  #isOpen = false
  #isScheduled = false
  /** An error was received: the database skips everything up to the next Sync. */
  #isSkipping = false
  #rest: Buffer = NOTHING
  #lost: Error | null = null
  #timer: Timer | null = null
  readonly #whenIdle: (() => void)[] = []
  readonly #last: (() => void)[] = []
  readonly #listeners: Notified[] = []
  waiting = 0

  constructor(client: pg.Client, options: WireOptions) {
    this.#client = client
    this.#options = options
    client.on('error', (error) => {
      this.#lose(error)
    })
    client.on('end', () => {
      this.#lose(new Error('the connection has ended'))
    })
    const { stream } = client.connection
    // The driver reads nothing any more. Its listeners for the end of the socket stay.
    stream.removeAllListeners('data')
    stream.on('data', (chunk: Buffer) => {
      this.#read(chunk)
    })
  }

  get lost(): boolean {
    return this.#lost !== null
  }

  /** Why it is lost, if it is. */
  get loss(): Error | null {
    return this.#lost
  }

  onNotification(listener: Notified): void {
    this.#listeners.push(listener)
  }

  onLost(listener: () => void): void {
    this.#client.once('end', listener)
  }

  /** Asks now, and is answered after everything that was asked before. */
  query<Row = readonly unknown[]>({ name, text }: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    if (this.#lost !== null) return Promise.reject(this.#lost)
    return new Promise<Answer<Row>>((resolve, reject) => {
      const prepared = this.#preparedAs(name, text)
      const [parses, describes] = [!prepared.isParsed, !prepared.isDescribed]
      if (parses) this.#frames.parse(name, text)
      this.#frames.bind(name, values, prepared.lists)
      if (describes) this.#frames.describe()
      this.#frames.execute()
      prepared.isParsed = true
      prepared.isDescribed = true
      this.#awaited.push({ prepared, parses, describes, rows: [], answer: null, resolve, reject })
      this.waiting++
      this.#isOpen = true
      if (this.#options.syncs === 'each') this.sync()
      this.#schedule()
      this.#watch()
    })
  }

  /** What is asked from here on is executed even if something that was asked before fails. */
  sync(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#frames.sync()
    this.#awaited.push(READY)
  }

  /** Lets the caller ask for more when everything else of this turn was asked, before it is written. */
  beforeWriting(ask: () => void): void {
    this.#last.push(ask)
    this.#schedule()
  }

  /** When all is answered. */
  async end(): Promise<void> {
    if (this.waiting > 0 && this.#lost === null) await new Promise<void>((resolve) => this.#whenIdle.push(resolve))
    await this.#client.end().catch(() => {})
  }

  /** Without a goodbye. */
  drop(reason = new Error('the connection was given up')): void {
    this.#lose(reason)
    this.#client.connection.stream.destroy()
  }

  #preparedAs(name: string, text: string): Prepared {
    const known = name === '' ? undefined : this.#prepared.get(name)
    if (known !== undefined) return known
    const prepared: Prepared = { isParsed: false, isDescribed: false, columns: [], lists: listTypesOf(text) }
    if (name !== '') this.#prepared.set(name, prepared)
    return prepared
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    process.nextTick(() => {
      for (const ask of this.#last.splice(0)) ask()
      this.#isScheduled = false
      this.sync()
      const { stream } = this.#client.connection
      if (stream.writable && !this.#frames.isEmpty) stream.write(this.#frames.take())
    })
  }

  // ---- Answers ----

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    try {
      while (bytes.length - at >= HEADER_BYTES) {
        const end = at + 1 + bytes.readUInt32BE(at + 1)
        if (end > bytes.length) break
        this.#hear(String.fromCharCode(bytes[at] ?? 0), bytes, at + HEADER_BYTES, end)
        at = end
      }
    } catch (error) {
      this.drop(error as Error)
      return
    }
    this.#rest = at === bytes.length ? NOTHING : bytes.subarray(at)
  }

  #hear(kind: string, bytes: Buffer, from: number, end: number): void {
    switch (kind) {
      case 'D': {
        const query = this.#current()
        query.rows.push(rowIn(bytes, from, query.prepared.columns))
        break
      }
      case 'C': {
        const query = this.#current()
        const [command, count] = commandIn(bytes, from, end)
        query.answer = { rows: query.rows as Answer['rows'], command, count }
        // An own transaction is committed by the Sync behind it.
        if (this.#options.syncs === 'together') this.#settle(query)
        break
      }
      case '1': // parsed
        this.#current().parses = false
        break
      case 'T': {
        const query = this.#current()
        query.describes = false
        query.prepared.columns = columnsIn(bytes, from)
        break
      }
      case 'n': // described: it has no rows
        this.#current().describes = false
        break
      case 'Z':
        this.#ready()
        break
      case 'E':
        this.#fail(errorIn(bytes, from, end))
        break
      case 'A': {
        const message = notificationIn(bytes, from)
        for (const listener of this.#listeners) listener(message)
        break
      }
      case '2': // bound
      case 'N': // a notice
      case 'S': // the value of a setting
        break
      default:
        throw new Error(`the database sent a message that was not expected: ${kind}`)
    }
  }

  /** The query whose answer is being read. */
  #current(): Query {
    const query = this.#awaited[this.#first]
    if (query === undefined || query === READY) throw new Error('the database answered what was not asked')
    return query
  }

  #next(): void {
    this.#first++
    this.#answers++
    if (this.#first < this.#awaited.length) return
    this.#awaited = []
    this.#first = 0
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #settle(query: Query): void {
    this.#next()
    this.waiting--
    query.resolve(query.answer as Answer<never>)
  }

  #fail(error: Error): void {
    const query = this.#awaited[this.#first]
    // Nothing was asked: the database ends the session, and says why.
    if (query === undefined) return this.#lose(error)
    if (query !== READY) this.#skip(error)
    this.#isSkipping = true
  }

  /** Rejects what the database does not execute after this error. What it did not parse or describe is sent again. */
  #skip(error: Error): void {
    for (;;) {
      const query = this.#awaited[this.#first]
      if (query === undefined || query === READY) return
      if (query.parses) query.prepared.isParsed = false
      if (query.describes) query.prepared.isDescribed = false
      this.#next()
      this.waiting--
      query.reject(error)
    }
  }

  #ready(): void {
    const done = this.#awaited[this.#first]
    if (!this.#isSkipping && done !== READY && done !== undefined && done.answer !== null) this.#settle(done)
    this.#isSkipping = false
    if (this.#awaited[this.#first] !== READY) throw new Error('the database answered what was not asked')
    this.#next()
  }

  // ---- The end ----

  #lose(error: Error): void {
    this.#lost ??= error
    this.#timer?.cancel()
    this.#timer = null
    const unanswered = this.#awaited.slice(this.#first)
    this.#awaited = []
    this.#first = 0
    this.waiting = 0
    for (const query of unanswered) if (query !== READY) query.reject(error)
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** Gives the connection up when the same query stays unanswered for too long. */
  #watch(): void {
    const { answerMs } = this.#options
    if (this.#timer !== null || answerMs === 0) return
    let seen = this.#answers
    let looks = 0
    const look = (): void => {
      this.#timer = null
      if (this.#awaited.length === 0) return
      looks = seen === this.#answers ? looks + 1 : 0
      seen = this.#answers
      if (looks >= LOOKS) this.drop(new Error('the database did not answer in time'))
      else this.#timer = nodeHost.setTimer(answerMs / LOOKS, look)
    }
    this.#timer = nodeHost.setTimer(answerMs / LOOKS, look)
  }
}
