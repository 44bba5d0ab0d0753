/**
 * Texts that repeat from row to row: the limits of a job, its retry policy, the terms of an attempt, the handlers of a
 * worker. Thousands of rows say the same few things, so a text that comes a second time gets a place in the table
 * `texts`, and from then on rows carry the number of that place. Rows become small, and nothing is parsed twice.
 *
 * A column that refers to a text holds either the number or, when the text is not (or not yet) shared, the text itself.
 * JSON of an object or a list never begins with a digit, so the two cannot be confused. A text of more than `LONGEST`
 * stays in its rows, and nothing here remembers it.
 *
 * Many servers share the table without asking each other: a text's place follows from its hash. It is added by itself,
 * outside of any transaction, and only used when it is committed; so no row can refer to what was rolled back, and
 * no transaction waits for it. Shared texts are never removed; a server adds none when it knows `MOST`.
 */
import { createHash } from 'node:crypto'
import { broken } from '@curfew/core'
import type { TextRef } from '../row-reader.ts'

export const MOST = 10_000
const RECENT = 1_000
/** In characters. What is remembered is bounded by this and by how many there are. */
const LONGEST = 4_096

/** Adds texts, and gives those that are then at these places. */
export type Share = (texts: readonly (readonly [place: number, text: string])[]) => Promise<[number, string][]>

/** Gives the texts at these places. */
export type Load = (places: readonly number[]) => Promise<[number, string][]>

export class Texts {
  readonly #share: Share
  readonly #places = new Map<string, number>()
  readonly #values = new Map<TextRef, object>()
  readonly #refs = new WeakMap<object, TextRef>()
  readonly #seenOnce = new Set<string>()
  /** Texts whose place is taken by another, or that are on their way. */
  readonly #unshared = new Set<string>()
  #asked: [number, string][] = []
  #sharing: Promise<void> | null = null
  /** Texts not in the table that are held in `#values` as well: at most RECENT. */
  #loose = 0

  constructor(share: Share) {
    this.#share = share
  }

  /** How to write this record. A record that is used again is not turned into text again. */
  ref(value: object): TextRef {
    const known = this.#refs.get(value)
    if (typeof known === 'number') return known
    const ref = this.refOfText(known ?? JSON.stringify(value))
    if (!isLong(ref)) this.#refs.set(value, ref)
    return ref
  }

  refOfText(text: string): TextRef {
    if (isLong(text)) return text
    const place = this.#places.get(text)
    if (place !== undefined) return place
    this.#ask(text)
    return text
  }

  /** Whether `value` can tell what is at this place. */
  knows(place: number): boolean {
    return this.#values.has(place)
  }

  learn(texts: readonly (readonly [place: number, text: string])[]): void {
    for (const [place, text] of texts) {
      if (this.#values.has(place)) continue
      const value = frozen(text)
      this.#places.set(text, place)
      this.#values.set(place, value)
      this.#refs.set(value, place)
    }
  }

  /** The record that was written. It is shared (unless it is long), and frozen. */
  value<Value extends object>(ref: TextRef): Value {
    if (isLong(ref)) return frozen(ref) as Value
    const known = this.#values.get(ref)
    if (known !== undefined) return known as Value
    if (typeof ref === 'number') throw broken(`there is no text at place ${String(ref)}`)
    const value = frozen(ref)
    this.#refs.set(value, ref)
    if (this.#loose >= RECENT) this.#forgetLoose()
    this.#loose++
    this.#values.set(ref, value)
    return value as Value
  }

  /** When all texts that were asked to be shared are, or could not be. */
  async settled(): Promise<void> {
    while (this.#sharing !== null) await this.#sharing
  }

  /** A text that came a second time is shared from when the table has it. */
  #ask(text: string): void {
    if (this.#unshared.has(text)) return
    if (!this.#seenOnce.delete(text)) {
      if (this.#seenOnce.size >= RECENT) this.#seenOnce.clear()
      this.#seenOnce.add(text)
      return
    }
    if (this.#places.size + this.#unshared.size >= MOST) return
    this.#unshared.add(text)
    this.#asked.push([placeOf(text), text])
    this.#sharing ??= this.#shareAsked()
  }

  async #shareAsked(): Promise<void> {
    // Let those that were asked for together go together.
    await Promise.resolve()
    while (this.#asked.length > 0) {
      const asked = this.#asked
      this.#asked = []
      try {
        this.learn(await this.#share(asked))
        // One whose place another text has remains in `#unshared`, for good.
        for (const [, text] of asked) if (this.#places.has(text)) this.#unshared.delete(text)
      } catch {
        // The database is away; they will come again.
        for (const [, text] of asked) this.#unshared.delete(text)
      }
    }
    this.#sharing = null
  }

  #forgetLoose(): void {
    for (const ref of this.#values.keys()) if (typeof ref === 'string') this.#values.delete(ref)
    this.#loose = 0
  }
}

const PLACE_BITS = 53n

/** Never 0, and safe as a number of JavaScript. */
export function placeOf(text: string): number {
  const hash = createHash('sha256').update(text).digest().readBigUInt64BE()
  return Number(hash & ((1n << PLACE_BITS) - 1n)) || 1
}

function isLong(ref: TextRef): ref is string {
  return typeof ref === 'string' && ref.length > LONGEST
}

function frozen(text: string): object {
  return JSON.parse(text, (_, part: unknown) => Object.freeze(part)) as object
}
