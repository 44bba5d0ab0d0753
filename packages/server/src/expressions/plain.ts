/** Plain JSON: the input of an evaluation, and its result. */
import { ExpressionError } from '../engine/expressions.ts'
import { MAX_WEIGHT, tooLarge, type EvaluationLimits } from './limits.ts'
import { isFunction, type Meter } from './meter.ts'

export interface CopyTerms {
  readonly meter: Meter
  /** `$clone` makes empty strings of them, as JSONata does; nowhere else is there a place for them. */
  readonly functions: 'as text' | 'refused'
  readonly made?: (object: object) => void
}

/**
 * A copy that shares nothing with the original and has none of JSONata's own marks on arrays. The depth of what is copied
 * was measured before.
 */
export function copied(value: unknown, terms: CopyTerms): unknown {
  terms.meter.work(8)
  if (isFunction(value)) {
    if (terms.functions === 'as text') return ''
    throw new ExpressionError('JN_TYPE_MISMATCH', 'A function stands where there must be a value.')
  }
  if (value === 0) return 0 // JSON writes -0 as 0: a run must see the same before it is stored and after
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const list = (value as unknown[]).map((item) => (item === undefined ? null : copied(item, terms)))
    terms.made?.(list)
    return list
  }
  const object: Record<string, unknown> = {}
  for (const key of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[key]
    if (member === undefined) continue
    set(object, key, copied(member, terms))
  }
  terms.made?.(object)
  return object
}

/** A plain assignment to `__proto__` would set the prototype. */
function set(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
  else object[key] = value
}

/** The result of an expression as JSON, `null` for nothing, or an error if it is none or too large. */
export function plainResult(value: unknown, meter: Meter, limits: EvaluationLimits): unknown {
  if (value === undefined) return null
  const weight = meter.weigh(value)
  const result = copied(value, { meter, functions: 'refused' })
  // No character takes more than six bytes, and no number three times what it was weighed with.
  if (weight * 6 > limits.maxOutputBytes && bytesOf(result, meter) > limits.maxOutputBytes)
    throw tooLarge(`The result is larger than ${String(limits.maxOutputBytes)} bytes.`)
  return result
}

/** How long a value is as JSON, in UTF-8. Counted piece by piece, because the whole takes too long to write at once. */
function bytesOf(value: unknown, meter: Meter): number {
  meter.work(8)
  if (typeof value === 'string') return PLAIN.test(value) ? value.length + 2 : Buffer.byteLength(JSON.stringify(value))
  if (typeof value !== 'object' || value === null) return String(value).length
  let bytes = 2
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) bytes += bytesOf(item, meter) + 1
    return value.length === 0 ? bytes : bytes - 1
  }
  const keys = Object.keys(value)
  for (const key of keys) bytes += bytesOf(key, meter) + bytesOf((value as Record<string, unknown>)[key], meter) + 2
  return keys.length === 0 ? bytes : bytes - 1
}

const PLAIN = /^[ !#-[\]-~]*$/

/**
 * Keys by which JSONata knows functions and lists of its own. In data they would be taken for these: an object with
 * `tupleStream` binds its members as variables.
 */
const RESERVED = new Set(['_jsonata_lambda', '_jsonata_function', 'tupleStream', 'outerWrapper'])

/** Deeper than any value an expression may build: it may still be able to pick something out of it. */
const MAX_DOCUMENT_DEPTH = 1_000

const notPlain = (): ExpressionError => new ExpressionError('JN_TYPE_MISMATCH', 'The document is not plain JSON.')

/**
 * The document, as plain data of our own: JSONata writes into what it is given (an empty list that is grouped gets a
 * member). Made step by step and not by way of its text, because a large one takes longer than an evaluation may.
 */
export function ownDocument(document: unknown, meter: Meter): unknown {
  return new DocumentCopy(meter).of(document, 0)
}

class DocumentCopy {
  readonly #meter: Meter
  #length = 0

  constructor(meter: Meter) {
    this.#meter = meter
  }

  of(value: unknown, depth: number): unknown {
    switch (typeof value) {
      case 'string':
        this.#add(value.length)
        return value
      case 'number':
        this.#add(4)
        return Number.isFinite(value) ? value : null
      case 'boolean':
        return value
      case 'object':
        if (value === null) return null
        if (depth > MAX_DOCUMENT_DEPTH) throw tooLarge('The document is nested too deeply.')
        return Array.isArray(value) ? this.#list(value, depth) : this.#object(value, depth)
      default:
        throw notPlain()
    }
  }

  #add(length: number): void {
    this.#length += length + 2
    this.#meter.work(8)
    if (this.#length > MAX_WEIGHT)
      throw tooLarge(`The document is longer than ${String(MAX_WEIGHT)} characters, too long for expressions.`)
  }

  #list(value: readonly unknown[], depth: number): unknown[] {
    this.#add(0)
    return value.map((item) => (isLeftOut(item) ? null : this.of(item, depth + 1)))
  }

  #object(value: object, depth: number): unknown {
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== null && prototype !== Object.prototype) throw notPlain()
    const object: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const member = (value as Record<string, unknown>)[key]
      if (isLeftOut(member)) continue
      if (RESERVED.has(key))
        throw new ExpressionError(
          'JN_TYPE_MISMATCH',
          `The document has the key ${key}, which JSONata keeps for itself.`,
        )
      this.#add(key.length)
      set(object, key, this.of(member, depth + 1))
    }
    return object
  }
}

/** JSON has no place for them, and leaves them out. */
const isLeftOut = (value: unknown): boolean => value === undefined || typeof value === 'function'
