/**
 * Shapes: what a field must look like, said once. A shape reads a value (or refuses it, naming the field and what to
 * send instead) and describes itself as JSON Schema; the HTTP API is documented from the very shapes that validate.
 *
 * What a shape's JSON Schema admits its `read` takes, and what it does not admit is refused: the description is the
 * contract. Rules between fields that JSON Schema can say stand beside them (`ruled`); the others are refused with a message.
 *
 * `null` counts as absent in every object, so fields that may be left out admit it. A wrong form is a 400;
 * `policy(shape)` makes it a 422, for values that are well formed but ask for something that cannot be (retry policies,
 * timeouts).
 */
import { badField, badPolicy, broken, type OjsError } from '../errors.ts'
import { unknownKey } from './names/near-miss-words.ts'
import { vocabulary } from './names/near-miss.ts'

export type JsonSchema = Readonly<Record<string, unknown>>
export type Fields = Readonly<Record<string, unknown>>

export interface Shape<T> {
  readonly json: JsonSchema
  /** `refuse` makes the refusal of a wrong form; a shape that holds others passes it on to them. */
  read(value: unknown, at: string, refuse?: Refuse): T
}

export type Refuse = (field: string, message: string) => OjsError

function wrongForm(refuse: Refuse, at: string, expected: string): OjsError {
  return refuse(at, `${at === '' ? 'The body' : at} must be ${expected}.`)
}

/** Everything this shape refuses is a 422 `validation_error` instead of a 400. */
export function policy<T>(shape: Shape<T>): Shape<T> {
  return { json: shape.json, read: (value, at) => shape.read(value, at, badPolicy) }
}

export interface TextRules {
  /** Without flags: JSON Schema has none. */
  readonly pattern?: RegExp
  /** In characters (code points), as JSON Schema counts. */
  readonly maxLength?: number
  readonly min?: number
  /** What to say when it does not fit. */
  readonly expected?: string
  readonly format?: string
}

export function text(rules: TextRules = {}): Shape<string> {
  const { maxLength = 1_048_576, min = 0 } = rules
  if (rules.pattern !== undefined && rules.pattern.flags !== '') throw broken('a shape with a pattern that has flags')
  // As JSON Schema reads patterns.
  const pattern = rules.pattern === undefined ? undefined : new RegExp(rules.pattern.source, 'u')
  const expected = rules.expected ?? (min > 0 ? 'a non-empty string' : 'a string')
  return {
    json: {
      type: 'string',
      ...(pattern === undefined ? {} : { pattern: pattern.source }),
      ...(min === 0 ? {} : { minLength: min }),
      maxLength,
      ...(rules.format === undefined ? {} : { format: rules.format }),
    },
    read(value, at, refuse = badField) {
      if (typeof value !== 'string' || isShorter(value, min) || (pattern !== undefined && !pattern.test(value))) {
        throw wrongForm(refuse, at, expected)
      }
      if (value.length > maxLength && !isShorter(value, maxLength + 1))
        throw wrongForm(refuse, at, `at most ${String(maxLength)} characters long`)
      return value
    },
  }
}

/** Counted in characters; a pair of surrogates is one. */
function isShorter(value: string, than: number): boolean {
  if (value.length < than) return true
  if (value.length >= 2 * than) return false
  let characters = 0
  for (const _ of value) characters += 1
  return characters < than
}

export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER): Shape<number> {
  const expected = `a whole number${max === Number.MAX_SAFE_INTEGER ? ` of at least ${String(min)}` : ` between ${String(min)} and ${String(max)}`}`
  return {
    json: { type: 'integer', minimum: min, maximum: max },
    read(value, at, refuse = badField) {
      if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
        throw wrongForm(refuse, at, expected)
      return value
    },
  }
}

export function number(): Shape<number> {
  return {
    json: { type: 'number' },
    read(value, at, refuse = badField) {
      if (typeof value !== 'number' || !Number.isFinite(value)) throw wrongForm(refuse, at, 'a number')
      return value
    },
  }
}

export function between(min: number, max: number): Shape<number> {
  return {
    json: { type: 'number', minimum: min, maximum: max },
    read(value, at, refuse = badField) {
      if (typeof value !== 'number' || !(value >= min && value <= max))
        throw wrongForm(refuse, at, `a number between ${String(min)} and ${String(max)}`)
      return value
    },
  }
}

export function flag(): Shape<boolean> {
  return {
    json: { type: 'boolean' },
    read(value, at, refuse = badField) {
      if (typeof value !== 'boolean') throw wrongForm(refuse, at, 'true or false')
      return value
    },
  }
}

export function oneOf<const T extends string>(...choices: readonly T[]): Shape<T> {
  return {
    json: { type: 'string', enum: choices },
    read(value, at, refuse = badField) {
      const found = choices.find((choice) => choice === value)
      if (found === undefined) throw wrongForm(refuse, at, `one of ${choices.join(', ')}`)
      return found
    },
  }
}

/** Any JSON value. */
export function anything(): Shape<unknown> {
  return { json: {}, read: (value) => value }
}

export function anyList(): Shape<readonly unknown[]> {
  return {
    json: { type: 'array' },
    read(value, at, refuse = badField) {
      if (!Array.isArray(value)) throw wrongForm(refuse, at, 'an array')
      return value as readonly unknown[]
    },
  }
}

export function anyObject(): Shape<Fields> {
  return {
    json: { type: 'object' },
    read(value, at, refuse = badField) {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrongForm(refuse, at, 'an object')
      return value as Fields
    },
  }
}

export function list<T>(of: Shape<T>, min = 0, max = 10_000): Shape<T[]> {
  return {
    json: {
      type: 'array',
      items: of.json,
      ...(min === 0 ? {} : { minItems: min }),
      ...(max === Infinity ? {} : { maxItems: max }),
    },
    read(value, at, refuse = badField) {
      if (!Array.isArray(value)) throw wrongForm(refuse, at, 'an array')
      if (value.length < min)
        throw wrongForm(refuse, at, `an array with at least ${String(min)} ${min === 1 ? 'entry' : 'entries'}`)
      if (value.length > max) throw wrongForm(refuse, at, `an array with at most ${String(max)} entries`)
      return value.map((entry, index) => of.read(entry, `${at}[${String(index)}]`, refuse))
    },
  }
}

/** A map from any name to values of one shape. */
export function mapOf<T>(of: Shape<T>, max = Infinity): Shape<Record<string, T>> {
  return {
    json: {
      type: 'object',
      additionalProperties: orNull(of.json),
      ...(Number.isFinite(max) ? { maxProperties: max } : {}),
    },
    read(value, at, refuse = badField) {
      const read: Record<string, T> = {}
      const entries = Object.entries(anyObject().read(value, at, refuse))
      if (entries.length > max) throw badField(at, `${at} must have at most ${String(max)} entries.`)
      for (const [key, entry] of entries) {
        if (entry !== null)
          Object.defineProperty(read, key, { value: of.read(entry, `${at}.${key}`, refuse), enumerable: true })
      }
      return read
    },
  }
}

/** One of two forms; `isA` says which, by JSON type. */
export function either<A, B>(a: Shape<A>, b: Shape<B>, isA: (value: unknown) => boolean): Shape<A | B> {
  return {
    json: { anyOf: [a.json, b.json] },
    read: (value, at, refuse) => (isA(value) ? a.read(value, at, refuse) : b.read(value, at, refuse)),
  }
}

/** The same shape, with what JSON Schema can say about rules between its fields that `read` leaves to others. */
export function ruled<T>(shape: Shape<T>, rules: JsonSchema): Shape<T> {
  return { json: { ...shape.json, ...rules }, read: (value, at, refuse) => shape.read(value, at, refuse) }
}

/** For `ruled`: at least one of these fields is there, and not `null`. */
export const oneNotNull = (...fields: readonly string[]): JsonSchema => ({
  anyOf: fields.map((field) => ({ required: [field], properties: { [field]: { not: NULL } } })),
})

/** For `ruled`: at most one of these two fields is there. */
export const notBoth = (a: string, b: string): JsonSchema => ({
  not: { required: [a, b], properties: { [a]: { not: NULL }, [b]: { not: NULL } } },
})

/** The same shape under a name: descriptions of the API say it once and refer to it. */
export function named<T>(title: string, shape: Shape<T>): Shape<T> {
  return { json: { title, ...shape.json }, read: (value, at, refuse) => shape.read(value, at, refuse) }
}

/** What a schema admits, and `null`. */
export function orNull(json: JsonSchema): JsonSchema {
  const { type, anyOf, enum: choices, title } = json
  const isPlain = title === undefined && !CONDITIONS.some((keyword) => Object.hasOwn(json, keyword))
  if (isPlain && typeof type === 'string')
    return {
      ...json,
      type: type === 'null' ? type : [type, 'null'],
      ...(Array.isArray(choices) ? { enum: [...(choices as unknown[]), null] } : {}),
    }
  if (isPlain && Array.isArray(anyOf)) return { ...json, anyOf: [...(anyOf as unknown[]), NULL] }
  return Object.keys(json).length === 0 ? json : { anyOf: [json, NULL] }
}

const NULL: JsonSchema = { type: 'null' }
/** Keywords that `null` need not pass, although they speak of objects only. */
const CONDITIONS = ['not', 'oneOf', 'allOf', 'if']

/** What a schema admits but `null`. Only a schema that admits anything admits it by itself. */
const notNull = (json: JsonSchema): JsonSchema => (Object.keys(json).length === 0 ? { not: NULL } : json)

type Described = Readonly<Record<string, Shape<unknown>>>
type Read<S extends Described> = { readonly [K in keyof S]?: S[K] extends Shape<infer T> ? T : never }
type With<S extends Described, R extends keyof S> = Read<S> & {
  readonly [K in R]-?: S[K] extends Shape<infer T> ? T : never
}

/** An object with known fields. Unknown ones are ignored, or refused where the caller says so. */
export function object<S extends Described, R extends keyof S & string = never>(
  fields: S,
  rules: {
    readonly required?: readonly R[]
    readonly unknown?: 'ignore' | 'refuse'
    /** May be left out, but not taken away with `null`. */
    readonly kept?: readonly (keyof S & string)[]
  } = {},
): Shape<With<S, R>> {
  const required = rules.required ?? []
  const kept: readonly string[] = rules.kept ?? []
  const isNullable = (name: string): boolean => !required.includes(name as R) && !kept.includes(name)
  const names = Object.keys(fields)
  const known = vocabulary(rules.unknown === 'refuse' ? names : [])
  return {
    json: {
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [name, (isNullable(name) ? orNull : notNull)(fields[name]?.json ?? {})]),
      ),
      ...(required.length === 0 ? {} : { required }),
      ...(rules.unknown === 'refuse' ? { additionalProperties: false } : {}),
    },
    read(value, at, refuse = badField) {
      const given = anyObject().read(value, at, refuse)
      const prefix = at === '' ? '' : `${at}.`
      if (rules.unknown === 'refuse') {
        for (const key of Object.keys(given)) {
          if (!Object.hasOwn(fields, key)) throw refuse(`${prefix}${key}`, unknownKey(key, known))
        }
      }
      const read: Record<string, unknown> = {}
      for (const name of names) {
        const field = Object.hasOwn(given, name) ? given[name] : undefined
        if (field !== undefined && field !== null) read[name] = fields[name]?.read(field, `${prefix}${name}`, refuse)
        else if (required.includes(name as R)) throw refuse(`${prefix}${name}`, `${prefix}${name} is required.`)
        else if (field === null && kept.includes(name))
          throw refuse(`${prefix}${name}`, `${prefix}${name} cannot be removed.`)
      }
      return read as With<S, R>
    },
  }
}

export function utf8Length(value: string): number {
  let bytes = value.length
  for (let index = 0; index < value.length; index += 1) {
    const unit = value.charCodeAt(index)
    if (unit > 0x7f) bytes += unit > 0x7ff ? 2 : 1
    // A pair of surrogates is four bytes for two units.
    if (unit >= 0xd800 && unit <= 0xdbff && index + 1 < value.length) {
      const next = value.charCodeAt(index + 1)
      if (next >= 0xdc00 && next <= 0xdfff) {
        index += 1
      }
    }
  }
  return bytes
}
