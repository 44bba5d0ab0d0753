/**
 * Texts that repeat from row to row: the limits of a job, its retry policy, the terms of an attempt, the handlers of a
 * worker. Thousands of rows say the same few things, so a text that comes a second time gets a place in the table
 * `texts`, and from then on rows carry the number of that place. Rows become small, and nothing is parsed twice.
 *
 * A column that refers to a text holds either the number or, when the text is not (or not yet) shared, the text itself.
 * Shared texts are never removed; there are at most `MOST` of them, then new ones simply stay in their rows. So does a
 * text of more than `LONGEST`, and nothing here remembers it.
 */
import { broken, type Limit } from '@curfew/core'
import type { HoldTerms as Terms, TextRef } from '../row-reader.ts'
import type { Statements } from './prepared.ts'

const MOST = 10_000
const RECENT = 1_000
/** In characters. What is remembered is bounded by this and by how many there are. */
const LONGEST = 4_096

export class Texts {
  readonly #statements: Statements
  readonly #places = new Map<string, number>()
  readonly #values = new Map<TextRef, object>()
  readonly #refs = new WeakMap<object, TextRef>()
  readonly #seenOnce = new Set<string>()
  /** Texts not in the table that are held in `#values` as well: at most RECENT. */
  #loose = 0
  #added = 0
  #lastTerms: { readonly terms: Terms; readonly place: number } | null = null

  constructor(statements: Statements) {
    this.#statements = statements
    for (const [place, text] of statements.allTexts.all()) this.#learn(place, text)
  }

  /** How to write this record. A record that is used again is not turned into text again. */
  ref(value: object): TextRef {
    const known = this.#refs.get(value)
    if (typeof known === 'number') return known
    const ref = this.refOfText(known ?? JSON.stringify(value))
    if (!isLong(ref)) this.#refs.set(value, ref)
    return ref
  }

  /** As `ref`, for terms of attempts. Most are those of the claim before. */
  termsOf(terms: Terms): TextRef {
    const last = this.#lastTerms
    if (last !== null && areSame(last.terms, terms)) return last.place
    const ref = this.refOfText(JSON.stringify(terms))
    this.#lastTerms = typeof ref === 'number' ? { terms, place: ref } : null
    return ref
  }

  refOfText(text: string): TextRef {
    if (isLong(text)) return text
    return this.#places.get(text) ?? this.#share(text) ?? text
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

  /** The transaction was committed: what it shared is there to stay. */
  settle(): void {
    this.#added = 0
  }

  /** Whether a transaction that is being rolled back had shared texts: then all of this has to be read again. */
  get unsettled(): boolean {
    return this.#added > 0
  }

  #share(text: string): number | null {
    if (!this.#seenOnce.delete(text)) {
      if (this.#seenOnce.size >= RECENT) this.#seenOnce.clear()
      this.#seenOnce.add(text)
      return null
    }
    if (this.#places.size >= MOST) return null
    const place = this.#places.size + 1
    this.#statements.insertText.run(place, text)
    this.#added++
    this.#learn(place, text)
    return place
  }

  #learn(place: number, text: string): void {
    const value = frozen(text)
    this.#places.set(text, place)
    this.#values.set(place, value)
    this.#refs.set(value, place)
  }

  #forgetLoose(): void {
    for (const ref of this.#values.keys()) if (typeof ref === 'string') this.#values.delete(ref)
    this.#loose = 0
  }
}

const isSame = (a: Limit | null, b: Limit | null): boolean =>
  a === b ||
  (a !== null && b !== null && a.ms === b.ms && a.source === b.source && a.asked === b.asked && a.whole === b.whole)

const areSame = (a: Terms, b: Terms): boolean =>
  a.known === b.known &&
  isSame(a.timeout, b.timeout) &&
  isSame(a.grace, b.grace) &&
  isSame(a.heartbeat, b.heartbeat) &&
  isSame(a.visibility, b.visibility) &&
  a.onTimeout === b.onTimeout

function isLong(ref: TextRef): ref is string {
  return typeof ref === 'string' && ref.length > LONGEST
}

function frozen(text: string): object {
  return JSON.parse(text, (_, part: unknown) => Object.freeze(part)) as object
}
