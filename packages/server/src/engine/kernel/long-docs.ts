/**
 * Documents that are long: runs with thousands of branches. Their bodies are parsed and made in pieces, a turn of the event
 * loop each. The last ones are remembered, by their text: a body that was read or written here before need not be parsed
 * again, whichever server wrote it, and of a record that was written before only what has changed is made into text.
 */
import { MAX_PIECE, parseStored, readDoc, type Doc, type DocKind, type DocName, type LongText } from '@curfew/core'
import { inPieces, type Turning } from './turns.ts'

/** How many are remembered, and how many characters of them in all. */
const MAX_KNOWN = 64
const MAX_CHARACTERS = 64 * 1024 * 1024

interface Known {
  /** As it was read or written last; empty: neither has happened yet. */
  readonly body: string
  readonly record: unknown
  readonly text: LongText<unknown> | null
}

export class LongDocs {
  readonly #host: Turning
  /** The one remembered first is the first to go. */
  readonly #known = new Map<string, Known>()
  #characters = 0

  constructor(host: Turning) {
    this.#host = host
  }

  /** What is written in it; a promise only where it is long. */
  read(doc: Doc): unknown {
    const { body } = doc
    if (body.length <= MAX_PIECE) return readDoc(doc)
    const known = this.#known.get(keyOf(doc))
    if (known?.body === body) return known.record
    return this.#parsed(doc)
  }

  /** As `read`, of a kind. */
  async recordOf<T>(doc: Doc): Promise<T> {
    return (await this.read(doc)) as T
  }

  async #parsed(doc: Doc): Promise<unknown> {
    const record = await inPieces(this.#host, parseStored(doc.body))
    this.#remember(doc, { body: doc.body, record, text: this.#textOf(doc) })
    return record
  }

  /** Makes the text of what will be written, so that no transaction has to wait for it. */
  async prepare<T>({ kind, long }: DocKind<T>, id: string, record: T): Promise<void> {
    if (long?.isLong(record) !== true) return
    const name = { kind, id }
    const text = this.#textOf<T>(name) ?? long.text()
    await inPieces(this.#host, text.of(record))
    const { body, record: stored } = this.#known.get(keyOf(name)) ?? { body: '', record: null }
    this.#remember(name, { body, record: stored, text: text })
  }

  /** Its body, where it is long; null: it is short, and can be made at once. */
  write<T>({ kind, long }: DocKind<T>, id: string, record: T): string | null | Promise<string> {
    if (long?.isLong(record) !== true) return null
    const name = { kind, id }
    const text = this.#textOf<T>(name) ?? long.text()
    const made = (body: string): string => {
      this.#remember(name, { body, record, text: text })
      return body
    }
    const body = inPieces(this.#host, text.of(record))
    return typeof body === 'string' ? made(body) : body.then(made)
  }

  #textOf<T>(name: DocName): LongText<T> | null {
    return this.#known.get(keyOf(name))?.text ?? null
  }

  #remember(name: DocName, known: Known): void {
    const key = keyOf(name)
    this.#forget(key)
    this.#known.set(key, known)
    this.#characters += known.body.length
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MAX_KNOWN && this.#characters <= MAX_CHARACTERS) return
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    this.#characters -= this.#known.get(key)?.body.length ?? 0
    this.#known.delete(key)
  }
}

/** Kinds have no space. */
const keyOf = ({ kind, id }: DocName): string => `${kind} ${id}`
