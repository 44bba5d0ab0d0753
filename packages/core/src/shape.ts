/**
 * Shapes: what a field must look like, said once. A shape reads a value (or refuses it, naming the field and what to
 * send instead) and describes itself as JSON Schema; the HTTP API is documented from the very shapes that validate.
 *
 * `null` counts as absent in every object. A wrong form is a 400; `policy(shape)` makes it a 422, for values that are
 * well formed but ask for something that cannot be (retry policies, timeouts).
 */
import { badField, badPolicy, type OjsError } from './errors.ts'

export type JsonSchema = Readonly<Record<string, unknown>>
export type Fields = Readonly<Record<string, unknown>>

export interface Shape<T> {
  readonly json: JsonSchema
  read(value: unknown, at: string): T
}

type Refuse = (field: string, message: string) => OjsError

const refuser: { current: Refuse } = { current: badField }

function refuse(at: string, expected: string): OjsError {
  return refuser.current(at, `${at === '' ? 'The body' : at} must be ${expected}.`)
}

/** Everything this shape refuses is a 422 `validation_error` instead of a 400. */
export function policy<T>(shape: Shape<T>): Shape<T> {
  return {
    json: shape.json,
    read(value, at) {
      const outer = refuser.current
      refuser.current = badPolicy
      try {
        return shape.read(value, at)
      } finally {
        refuser.current = outer
      }
    },
  }
}

export interface TextRules {
  readonly pattern?: RegExp
  readonly maxBytes?: number
  readonly min?: number
  /** What to say when it does not fit. */
  readonly expected?: string
  readonly format?: string
}

export function text(rules: TextRules = {}): Shape<string> {
  const { pattern, maxBytes = 1_048_576, min = 0 } = rules
  const expected = rules.expected ?? (min > 0 ? 'a non-empty string' : 'a string')
  return {
    json: {
      type: 'string',
      ...(pattern === undefined ? {} : { pattern: pattern.source }),
      ...(min === 0 ? {} : { minLength: min }),
      ...(rules.maxBytes === undefined ? {} : { maxLength: maxBytes }),
      ...(rules.format === undefined ? {} : { format: rules.format }),
    },
    read(value, at) {
      if (typeof value !== 'string' || value.length < min || (pattern !== undefined && !pattern.test(value))) {
        throw refuse(at, expected)
      }
      if (value.length > maxBytes || utf8Length(value) > maxBytes)
        throw refuse(at, `at most ${String(maxBytes)} bytes long`)
      return value
    },
  }
}

export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER): Shape<number> {
  const expected = `a whole number${max === Number.MAX_SAFE_INTEGER ? ` of at least ${String(min)}` : ` between ${String(min)} and ${String(max)}`}`
  return {
    json: { type: 'integer', minimum: min, ...(max === Number.MAX_SAFE_INTEGER ? {} : { maximum: max }) },
    read(value, at) {
      if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
        throw refuse(at, expected)
      return value
    },
  }
}

export function number(): Shape<number> {
  return {
    json: { type: 'number' },
    read(value, at) {
      if (typeof value !== 'number' || !Number.isFinite(value)) throw refuse(at, 'a number')
      return value
    },
  }
}

export function flag(): Shape<boolean> {
  return {
    json: { type: 'boolean' },
    read(value, at) {
      if (typeof value !== 'boolean') throw refuse(at, 'true or false')
      return value
    },
  }
}

export function oneOf<const T extends string>(...choices: readonly T[]): Shape<T> {
  return {
    json: { type: 'string', enum: choices },
    read(value, at) {
      const found = choices.find((choice) => choice === value)
      if (found === undefined) throw refuse(at, `one of ${choices.join(', ')}`)
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
    read(value, at) {
      if (!Array.isArray(value)) throw refuse(at, 'an array')
      return value as readonly unknown[]
    },
  }
}

export function anyObject(): Shape<Fields> {
  return {
    json: { type: 'object' },
    read(value, at) {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse(at, 'an object')
      return value as Fields
    },
  }
}

export function list<T>(of: Shape<T>, min = 0, max = 10_000): Shape<T[]> {
  return {
    json: { type: 'array', items: of.json, ...(min === 0 ? {} : { minItems: min }), maxItems: max },
    read(value, at) {
      if (!Array.isArray(value)) throw refuse(at, 'an array')
      if (value.length < min)
        throw refuse(at, `an array with at least ${String(min)} ${min === 1 ? 'entry' : 'entries'}`)
      if (value.length > max) throw refuse(at, `an array with at most ${String(max)} entries`)
      return value.map((entry, index) => of.read(entry, `${at}[${String(index)}]`))
    },
  }
}

/** A map from any name to values of one shape. */
export function mapOf<T>(of: Shape<T>): Shape<Record<string, T>> {
  return {
    json: { type: 'object', additionalProperties: of.json },
    read(value, at) {
      const read: Record<string, T> = {}
      for (const [key, entry] of Object.entries(anyObject().read(value, at))) {
        if (entry !== null)
          Object.defineProperty(read, key, { value: of.read(entry, `${at}.${key}`), enumerable: true })
      }
      return read
    },
  }
}

/** One of several forms told apart by JSON type. */
export function either<A, B>(a: Shape<A>, b: Shape<B>, isA: (value: unknown) => boolean): Shape<A | B> {
  return {
    json: { anyOf: [a.json, b.json] },
    read: (value, at) => (isA(value) ? a.read(value, at) : b.read(value, at)),
  }
}

type Described = Readonly<Record<string, Shape<unknown>>>
type Read<S extends Described> = { readonly [K in keyof S]?: S[K] extends Shape<infer T> ? T : never }
type With<S extends Described, R extends keyof S> = Read<S> & {
  readonly [K in R]-?: S[K] extends Shape<infer T> ? T : never
}

/** An object with known fields. Unknown ones are ignored, or refused where the caller says so. */
export function object<S extends Described, R extends keyof S & string = never>(
  fields: S,
  rules: { readonly required?: readonly R[]; readonly unknown?: 'ignore' | 'refuse' } = {},
): Shape<With<S, R>> {
  const required = rules.required ?? []
  const names = Object.keys(fields)
  return {
    json: {
      type: 'object',
      properties: Object.fromEntries(names.map((name) => [name, fields[name]?.json])),
      ...(required.length === 0 ? {} : { required }),
      ...(rules.unknown === 'refuse' ? { additionalProperties: false } : {}),
    },
    read(value, at) {
      const given = anyObject().read(value, at)
      const prefix = at === '' ? '' : `${at}.`
      if (rules.unknown === 'refuse') {
        for (const key of Object.keys(given)) {
          if (!Object.hasOwn(fields, key)) {
            throw refuser.current(`${prefix}${key}`, `Unknown key ${JSON.stringify(key)}. Known: ${names.join(', ')}.`)
          }
        }
      }
      const read: Record<string, unknown> = {}
      for (const name of names) {
        const field = Object.hasOwn(given, name) ? given[name] : undefined
        if (field !== undefined && field !== null) read[name] = fields[name]?.read(field, `${prefix}${name}`)
        else if (required.includes(name as R))
          throw refuser.current(`${prefix}${name}`, `${prefix}${name} is required.`)
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
