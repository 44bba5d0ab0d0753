/** Plain JSON: what goes into an evaluation, and what comes out of it. */
import { ExpressionError } from '../engine/expressions.ts'
import type { EvaluationLimits } from './limits.ts'
import { tooLarge } from './limits.ts'
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
  if (isFunction(value)) {
    if (terms.functions === 'as text') return ''
    throw new ExpressionError('JN_TYPE_MISMATCH', 'A function stands where there must be a value.')
  }
  if (typeof value !== 'object' || value === null) return value
  terms.meter.work(20)
  if (Array.isArray(value)) {
    const list = (value as unknown[]).map((item) => (item === undefined ? null : copied(item, terms)))
    terms.made?.(list)
    return list
  }
  const object: Record<string, unknown> = {}
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue
    const copy = copied(member, terms)
    // A plain assignment would set the prototype.
    if (key === '__proto__') Object.defineProperty(object, key, { value: copy, ...ORDINARY })
    else object[key] = copy
  }
  terms.made?.(object)
  return object
}

const ORDINARY = { enumerable: true, configurable: true, writable: true }

/** The result of an expression as JSON, `null` for nothing, or an error if it is none or too large. */
export function plainResult(value: unknown, meter: Meter, limits: EvaluationLimits): unknown {
  if (value === undefined) return null
  const weight = meter.weigh(value)
  const result = copied(value, { meter, functions: 'refused' })
  // No character takes more than six bytes, and no number three times what it was weighed with.
  if (weight * 6 > limits.maxOutputBytes) {
    const bytes = Buffer.byteLength(JSON.stringify(result))
    if (bytes > limits.maxOutputBytes)
      throw tooLarge(`The result is larger than ${String(limits.maxOutputBytes)} bytes.`)
  }
  return result
}

/**
 * Keys by which JSONata knows functions and lists of its own. In data they would be taken for these: an object with
 * `tupleStream` binds its members as variables.
 */
const RESERVED = ['_jsonata_lambda', '_jsonata_function', 'tupleStream', 'outerWrapper']

/**
 * A document as text and back is plain data of our own: JSONata writes into what it is given (an empty list that is
 * grouped gets a member), and takes an object with one of its marks for a function.
 */
export function documentText(document: unknown, most: number): string {
  let text: string | undefined
  try {
    text = JSON.stringify(document)
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge('The document is nested too deeply.')
    throw new ExpressionError('JN_TYPE_MISMATCH', 'The document is not plain JSON.', undefined, error)
  }
  if (text === undefined) throw new ExpressionError('JN_TYPE_MISMATCH', 'The document is not plain JSON.')
  if (text.length > most)
    throw tooLarge(`The document is longer than ${String(most)} characters, too long for expressions.`)
  for (const key of RESERVED) {
    if (text.includes(`"${key}":`))
      throw new ExpressionError('JN_TYPE_MISMATCH', `The document has the key ${key}, which JSONata keeps for itself.`)
  }
  return text
}
