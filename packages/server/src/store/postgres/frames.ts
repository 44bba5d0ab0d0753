/**
 * The part of PostgreSQL's protocol that a pipeline of prepared statements needs: messages to the database as bytes, and
 * rows and errors read from its bytes. Lists of rows travel in binary (`lists.ts`); all else is text.
 */
import { DatabaseError } from 'pg'
import { binaryType, ColumnList, type ElementType, type ListTypes } from './lists.ts'

// ---- To the database ----

const SLAB_BYTES = 64 * 1024
/** A text of at most so many characters is written into room for its longest encoding, without measuring it first. */
const SHORT_TEXT = 1_000
const LONGEST_ENCODING = 3

export type Value = string | number | boolean | null

/** Collects messages one behind the other, so that they leave in one write. What was taken is never written to again. */
export class Frames {
  #buffer = Buffer.allocUnsafe(SLAB_BYTES)
  #from = 0
  #at = 0

  get isEmpty(): boolean {
    return this.#at === this.#from
  }

  /** All messages since the last time. */
  take(): Buffer {
    const taken = this.#buffer.subarray(this.#from, this.#at)
    this.#from = this.#at
    return taken
  }

  parse(name: string, text: string): void {
    const start = this.#begin('P', 16 + LONGEST_ENCODING * (name.length + text.length))
    this.#cstring(name)
    this.#cstring(text)
    this.#int16(0) // the database finds the types of the parameters itself
    this.#end(start)
  }

  /** `lists`: the types of lists that travel in binary. All else is text. */
  bind(name: string, values: readonly unknown[], lists: ListTypes = []): void {
    const start = this.#begin('B', 32 + LONGEST_ENCODING * name.length + 2 * values.length)
    this.#cstring('') // the unnamed portal
    this.#cstring(name)
    const formats = this.#formats(values, lists)
    this.#int16(values.length)
    for (const [index, value] of values.entries()) {
      const type = binaryType(value, lists[index])
      if (!(value instanceof ColumnList)) this.#value(value as Value)
      else if (type === undefined) this.#value(value.toString())
      else if (!this.#list(value, type)) {
        this.#buffer.writeUInt16BE(TEXT, this.#from + formats + 2 * index)
        this.#value(value.toString())
      }
    }
    this.#room(2)
    this.#int16(0) // all results are text
    this.#end(start)
  }

  /** Asks which columns the unnamed portal will give. */
  describe(): void {
    const start = this.#begin('D', 8)
    this.#buffer[this.#at++] = code('P')
    this.#cstring('')
    this.#end(start)
  }

  /** Runs the unnamed portal to its end. */
  execute(): void {
    const start = this.#begin('E', 12)
    this.#cstring('')
    this.#int32At(this.#at, 0)
    this.#at += 4
    this.#end(start)
  }

  sync(): void {
    this.#end(this.#begin('S', 8))
  }

  #value(value: Value): void {
    if (value === null || value === undefined) {
      this.#room(4)
      this.#int32At(this.#at, -1)
      this.#at += 4
      return
    }
    this.#text(typeof value === 'string' ? value : String(value))
  }

  /** How each parameter is written: nothing is said if all are text. Gives the place of the first, as `#begin` does. */
  #formats(values: readonly unknown[], lists: ListTypes): number {
    const isBinary = (value: unknown, index: number): boolean => binaryType(value, lists[index]) !== undefined
    const hasBinary = values.some(isBinary)
    this.#int16(hasBinary ? values.length : 0)
    const place = this.#at - this.#from
    if (hasBinary) for (const [index, value] of values.entries()) this.#int16(isBinary(value, index) ? BINARY : TEXT)
    return place
  }

  /**
   * An array of one dimension: its shape, and each element behind its length. False, and nothing is written, if an element
   * is not of the type: as text, the database says what is wrong with it.
   */
  #list(list: ColumnList, { oid, bytes }: ElementType): boolean {
    const start = this.#at - this.#from
    this.#room(4 + 20)
    this.#at += 4
    this.#int32(list.length === 0 ? 0 : 1) // dimensions
    this.#int32(0) // whether it has nulls: the database looks for itself
    this.#int32(oid)
    if (list.length > 0) {
      this.#int32(list.length)
      this.#int32(1) // where it begins to count
    }
    for (let index = 0; index < list.length; index++) {
      const element = list.at(index)
      if (element === null || element === undefined) {
        this.#room(4)
        this.#int32(-1)
      } else if (bytes === null) this.#text(typeof element === 'string' ? element : String(element))
      else if (!this.#fixed(oid, bytes, element)) {
        this.#at = this.#from + start
        return false
      }
    }
    const place = this.#from + start
    this.#int32At(place, this.#at - place - 4)
    return true
  }

  #text(text: string): void {
    this.#room(4 + (text.length <= SHORT_TEXT ? LONGEST_ENCODING * text.length : Buffer.byteLength(text)))
    const bytes = this.#buffer.write(text, this.#at + 4)
    this.#int32(bytes)
    this.#at += bytes
  }

  /** An element whose type has a length of its own; false if it is not of that type. */
  #fixed(oid: number, bytes: number, element: string | number | boolean): boolean {
    if (typeof element !== (oid === BOOLEAN ? 'boolean' : 'number')) return false
    const value = Number(element)
    this.#room(4 + bytes)
    this.#int32(bytes)
    switch (oid) {
      case BOOLEAN:
        this.#buffer[this.#at++] = value
        return true
      case DOUBLE:
        this.#at = this.#buffer.writeDoubleBE(value, this.#at)
        return true
      case INTEGER:
        if (value !== (value | 0)) return false
        this.#int32(value)
        return true
      default:
        // Instants, versions and places are safe integers.
        if (!Number.isSafeInteger(value)) return false
        this.#int32(Math.floor(value / WORD))
        this.#int32(value % WORD)
        return true
    }
  }

  /** Gives the place of the message's length, counted from the first byte that was not taken yet. */
  #begin(kind: string, bytes: number): number {
    this.#room(bytes)
    this.#buffer[this.#at] = code(kind)
    this.#at += 5
    return this.#at - 4 - this.#from
  }

  #end(start: number): void {
    const place = this.#from + start
    this.#int32At(place, this.#at - place)
  }

  #cstring(text: string): void {
    this.#at += this.#buffer.write(text, this.#at)
    this.#buffer[this.#at++] = 0
  }

  #int16(value: number): void {
    this.#at = this.#buffer.writeUInt16BE(value, this.#at)
  }

  #int32(value: number): void {
    this.#int32At(this.#at, value)
    this.#at += 4
  }

  #int32At(place: number, value: number): void {
    const buffer = this.#buffer
    buffer[place] = value >>> 24
    buffer[place + 1] = value >>> 16
    buffer[place + 2] = value >>> 8
    buffer[place + 3] = value
  }

  /** Bytes that were taken may still be on their way out: what does not fit goes on in other memory. */
  #room(bytes: number): void {
    if (this.#buffer.length - this.#at >= bytes) return
    const used = this.#at - this.#from
    const larger = Buffer.allocUnsafe(Math.max(SLAB_BYTES, 2 * used + bytes))
    this.#buffer.copy(larger, 0, this.#from, this.#at)
    this.#buffer = larger
    this.#from = 0
    this.#at = used
  }
}

const TEXT = 0
const BINARY = 1
/** The numbers of types that are written in a way of their own. */
const BOOLEAN = 16
const INTEGER = 23
const DOUBLE = 701
/** What fits into four bytes. */
const WORD = 2 ** 32

const code = (letter: string): number => letter.charCodeAt(0)

// ---- From the database ----

/** How a column is read. */
export type Column = 'text' | 'integer' | 'float' | 'boolean'

/** By the number of their type. */
const COLUMNS: ReadonlyMap<number, Column> = new Map([
  [16, 'boolean'],
  [20, 'integer'], // int8
  [21, 'integer'], // int2
  [23, 'integer'], // int4
  [26, 'integer'], // oid
  [700, 'float'],
  [701, 'float'],
])

/** The columns that a RowDescription names. */
export function columnsIn(buffer: Buffer, at: number): Column[] {
  const columns: Column[] = []
  let place = at + 2
  for (let left = buffer.readUInt16BE(at); left > 0; left--) {
    place = buffer.indexOf(0, place) + 1
    columns.push(COLUMNS.get(buffer.readUInt32BE(place + 6)) ?? 'text')
    place += 18
  }
  return columns
}

/** A DataRow. Whole numbers of eight bytes are safe integers here: instants, places, versions. */
export function rowIn(buffer: Buffer, at: number, columns: readonly Column[]): unknown[] {
  const count = buffer.readUInt16BE(at)
  const row: unknown[] = new Array(count)
  let place = at + 2
  for (let index = 0; index < count; index++) {
    const length = buffer.readInt32BE(place)
    place += 4
    if (length < 0) {
      row[index] = null
      continue
    }
    row[index] = valueIn(buffer, place, place + length, columns[index])
    place += length
  }
  return row
}

const ZERO = 48
const MINUS = 45

function valueIn(buffer: Buffer, from: number, to: number, column: Column | undefined): unknown {
  switch (column) {
    case 'integer': {
      const isNegative = buffer[from] === MINUS
      let value = 0
      for (let at = isNegative ? from + 1 : from; at < to; at++) value = value * 10 + ((buffer[at] ?? ZERO) - ZERO)
      return isNegative ? -value : value
    }
    case 'float':
      return Number(buffer.toString('latin1', from, to))
    case 'boolean':
      return buffer[from] === code('t')
    default:
      return buffer.toString('utf8', from, to)
  }
}

/** "INSERT 0 5" and its like: the command, and how many rows it had. */
export function commandIn(buffer: Buffer, from: number, to: number): [command: string, count: number] {
  const text = buffer.toString('latin1', from, to - 1)
  const end = text.indexOf(' ')
  return end < 0 ? [text, 0] : [text.slice(0, end), Number(text.slice(text.lastIndexOf(' ') + 1))]
}

/** An ErrorResponse. */
export function errorIn(buffer: Buffer, from: number, to: number): DatabaseError {
  const fields = new Map<string, string>()
  for (let at = from; at < to && buffer[at] !== 0;) {
    const end = buffer.indexOf(0, at)
    fields.set(String.fromCharCode(buffer[at] ?? 0), buffer.toString('utf8', at + 1, end))
    at = end + 1
  }
  const error = new DatabaseError(fields.get('M') ?? '', to - from, 'error')
  error.severity = fields.get('S')
  error.code = fields.get('C')
  error.detail = fields.get('D')
  error.hint = fields.get('H')
  error.where = fields.get('W')
  error.schema = fields.get('s')
  error.table = fields.get('t')
  error.column = fields.get('c')
  error.constraint = fields.get('n')
  return error
}

/** A NotificationResponse. */
export function notificationIn(buffer: Buffer, from: number): { channel: string; payload: string } {
  const channelEnd = buffer.indexOf(0, from + 4)
  return {
    channel: buffer.toString('utf8', from + 4, channelEnd),
    payload: buffer.toString('utf8', channelEnd + 1, buffer.indexOf(0, channelEnd + 1)),
  }
}
