/**
 * One connection to PostgreSQL as its two streams of messages tell it (protocol 3.0): what was asked, what is still
 * unanswered, and what both cost.
 */
import { Tally, shownStatement } from './meter.ts'

const BYTE = { b: 0x42, c: 0x43, d: 0x44, e: 0x45, h: 0x48, p: 0x50, q: 0x51, s: 0x53 } as const

export class WireCounts {
  statements = 0
  parses = 0
  rows = 0
  commits = 0
  bytesSent = 0
  bytesReceived = 0
  readonly tally = new Tally()
}

/** Cuts a stream into messages: a letter, a length that counts itself, and the rest. */
export class Messages {
  #rest: Buffer = Buffer.alloc(0)

  /** Those that are complete now. */
  add(chunk: Buffer): Buffer[] {
    const complete: Buffer[] = []
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    for (;;) {
      if (this.#rest.length < 5) return complete
      const length = 1 + this.#rest.readUInt32BE(1)
      if (this.#rest.length < length) return complete
      const message = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      complete.push(message)
    }
  }
}

interface Question {
  /** The letter of the message: Parse, Bind, Describe, Execute, Close, Sync, Query. */
  readonly letter: number
}

/** Follows a connection that is past its start. */
export class Conversation {
  readonly #questions: Question[] = []
  /** How many of the questions the database was told to answer: by a Sync, a Flush or a Query after them. */
  #due = 0
  /** After an error the database drops all messages up to the next Sync. */
  #skipping = false
  readonly #texts = new Map<string, string>()
  #inBlock = false
  #implicit: 'none' | 'read' | 'written' = 'none'

  /** Whether the database still has to answer. */
  get isWaiting(): boolean {
    return this.#due > 0
  }

  get isIdle(): boolean {
    return this.#questions.length === 0 && !this.#inBlock
  }

  asked(message: Buffer, counts: WireCounts | null): void {
    const letter = message[0]
    if (counts !== null) {
      counts.bytesSent += message.length
      if (letter === BYTE.p) counts.parses += 1
      if (letter === BYTE.q) counts.tally.add(shownStatement(textAt(message, 5)))
      if (letter === BYTE.b) counts.tally.add(this.#nameOf(textAfter(message, 5)))
    }
    switch (letter) {
      case BYTE.p:
        this.#texts.set(textAt(message, 5), shownStatement(textAfter(message, 5)))
        break
      case BYTE.h:
        this.#due = this.#questions.length
        return
      case BYTE.b:
      case BYTE.d:
      case BYTE.e:
      case BYTE.c:
      case BYTE.s:
      case BYTE.q:
        break
      default:
        return
    }
    if (this.#skipping && letter !== BYTE.s) return
    this.#skipping = false
    this.#questions.push({ letter })
    if (letter === BYTE.s || letter === BYTE.q) this.#due = this.#questions.length
  }

  answered(message: Buffer, counts: WireCounts | null): void {
    const letter = String.fromCharCode(message[0] ?? 0)
    // Notifications come whenever they come.
    if (counts !== null && letter !== 'A') counts.bytesReceived += message.length
    switch (letter) {
      case '1': // ParseComplete
      case '2': // BindComplete
      case '3': // CloseComplete
      case 'n': // NoData
        this.#next()
        break
      case 'T': // RowDescription: it also comes before the rows of a Query
        if (this.#questions[0]?.letter === BYTE.d) this.#next()
        break
      case 'D': // DataRow
        if (counts !== null) counts.rows += 1
        break
      case 'C': // CommandComplete
      case 'I': // EmptyQueryResponse
      case 's': // PortalSuspended
        if (counts !== null) counts.statements += 1
        this.#completed(letter === 'C' ? textAt(message, 5) : '', counts)
        if (this.#questions[0]?.letter === BYTE.e) this.#next()
        break
      case 'E': // ErrorResponse
        this.#implicit = 'none'
        if (this.#questions[0]?.letter !== BYTE.q) this.#skip()
        break
      case 'Z': // ReadyForQuery
        if (this.#implicit === 'written' && counts !== null) counts.commits += 1
        this.#implicit = 'none'
        this.#inBlock = message[5] !== 0x49
        this.#next()
        break
    }
  }

  #next(): void {
    this.#questions.shift()
    this.#due = Math.max(0, this.#due - 1)
  }

  #skip(): void {
    while (this.#questions.length > 0 && this.#questions[0]?.letter !== BYTE.s) this.#next()
    this.#skipping = this.#questions.length === 0
  }

  /** A statement outside of BEGIN … COMMIT is a transaction of its own, or shares one with those up to the Sync. */
  #completed(tag: string, counts: WireCounts | null): void {
    const command = tag.split(' ', 1)[0] ?? ''
    if (command === 'BEGIN') {
      this.#inBlock = true
      this.#implicit = 'none'
    } else if (command === 'COMMIT' || command === 'ROLLBACK') {
      this.#inBlock = false
      if (command === 'COMMIT' && counts !== null) counts.commits += 1
    } else if (!this.#inBlock && this.#implicit !== 'written') {
      this.#implicit = READS.has(command) ? 'read' : 'written'
    }
  }

  #nameOf(statement: string): string {
    return statement === '' ? (this.#texts.get('') ?? '(no name)') : statement
  }
}

const READS: ReadonlySet<string> = new Set(['SELECT', 'SHOW', ''])

/** A text ends with a zero byte. */
function textAt(message: Buffer, at: number): string {
  return message.toString('utf8', at, message.indexOf(0, at))
}

/** The text after the one that begins here. */
function textAfter(message: Buffer, at: number): string {
  return textAt(message, message.indexOf(0, at) + 1)
}
