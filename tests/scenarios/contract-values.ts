/** Values for a JSON Schema: some that fit it, and some that are one mistake away from fitting. */
import { Validator } from '@cfworker/json-schema'
import fc from 'fast-check'
import type { Random } from '@curfew/core'

export type Schema = Readonly<Record<string, unknown>>
type Fields = Record<string, unknown>

export interface Contract {
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

export type Fits = (value: unknown) => boolean

/** Whether values fit a schema of the description. */
export function checker({ components }: Contract, schema: Schema): Fits {
  const validator = new Validator({ allOf: [schema], components }, '2020-12', true)
  return (value) => validator.validate(value).valid
}

/** What a pattern with conditions admits, which cannot be made from it. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  Duration: ['PT1S', 'P1D', 'PT1H30M', 'P1Y2M3W4DT5H6M7.5S', 'PT0.5S'],
  Retention: ['PT1S', 'P7D', 'P1Y'],
  Timestamp: ['2030-01-01T00:00:00Z', '2024-02-29t23:59:59.123456789+14:00', '1999-12-31 00:00:00z'],
  Moment: ['2030-01-01T00:00:00Z', '+PT5M', '2031-04-30T12:00:00-03:30'],
  CronExpression: ['0 9 * * 1-5', '*/15 * * * *', '30 0 12 * * *'],
  Delay: ['2030-01-01T00:00:00Z', '+PT5M', 'PT5M'],
}
const PLAIN = ['a', 'default', 'some text', 'ä😀', '0', 'x'.repeat(200)]

export class Values {
  readonly #contract: Contract
  readonly #random: Random
  readonly #made = new Map<string, readonly string[]>()

  constructor(contract: Contract, random: Random) {
    this.#contract = contract
    this.#random = random
  }

  /** Up to so many values that fit. */
  some(schema: Schema, fits: Fits, count: number): unknown[] {
    const found: unknown[] = []
    for (let tries = 0; found.length < count && tries < count * 40; tries += 1) {
      // The first is the smallest, the others grow.
      const value = this.#value(schema, 0, found.length === 0 ? 0 : this.#random() * 0.4)
      if (fits(value)) found.push(value)
    }
    return found
  }

  pick<T>(choices: readonly T[]): T {
    const chosen = choices[Math.floor(this.#random() * choices.length)]
    if (chosen === undefined) throw new Error('nothing to choose from')
    return chosen
  }

  /** `rate`: how many of the members that may be left out are there. */
  #value(given: Schema, depth: number, rate: number): unknown {
    const schema = this.#resolved(given)
    if ('const' in schema) return schema['const']
    if (Array.isArray(schema['enum'])) return this.pick(schema['enum'] as unknown[])
    const { anyOf } = schema as { anyOf?: Schema[] }
    if (anyOf !== undefined) return this.#value(this.#merged(schema, this.pick(anyOf)), depth, rate)
    const { oneOf } = schema as { oneOf?: Schema[] }
    if (oneOf !== undefined) return this.#value(this.#merged(schema, this.pick(oneOf)), depth, rate)
    const { allOf } = schema as { allOf?: Schema[] }
    if (allOf !== undefined) {
      const all = allOf.reduce((one, other) => this.#merged(one, this.#chosen(other)), {
        ...schema,
        allOf: undefined,
      } as Schema)
      const { allOf: _done, ...rest } = all
      return this.#value(rest, depth, rate)
    }
    const type = Array.isArray(schema['type']) ? this.#type(schema['type'] as string[]) : schema['type']
    switch (type) {
      case 'object':
        return this.#object(schema, depth, rate)
      case 'array':
        return this.#array(schema, depth, rate)
      case 'string':
        return this.#text(schema)
      case 'integer':
      case 'number':
        return this.#number(schema, type === 'integer')
      case 'boolean':
        return this.#random() < 0.5
      case 'null':
        return null
      default:
        return this.pick([1, 'x', true, [], {}, [1, { a: 'ä' }], -0.5])
    }
  }

  /** With one of its alternatives. */
  #chosen(schema: Schema): Schema {
    const resolved = this.#resolved(schema)
    const { anyOf } = resolved as { anyOf?: Schema[] }
    return anyOf === undefined ? resolved : this.#merged(resolved, this.pick(anyOf))
  }

  #resolved(schema: Schema): Schema {
    const { $ref } = schema as { $ref?: string }
    if ($ref === undefined) return schema
    return this.#resolved(this.#contract.components.schemas[$ref.replace('#/components/schemas/', '')] ?? {})
  }

  /** Both at once, as far as is needed: members of both, the second one's word for what both speak of. */
  #merged(one: Schema, other: Schema): Schema {
    const { anyOf: _any, oneOf: _one, ...base } = one
    const resolved = this.#resolved(other)
    const properties = { ...(base['properties'] as Fields) }
    for (const [name, schema] of Object.entries((resolved['properties'] as Fields | undefined) ?? {})) {
      const before = properties[name] as Schema | undefined
      properties[name] = before === undefined ? schema : this.#both(before, schema as Schema)
    }
    return {
      ...base,
      ...resolved,
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      required: [...((base['required'] as string[]) ?? []), ...((resolved['required'] as string[]) ?? [])],
    }
  }

  /** Of a member that both speak of: `{type}`, `{const}` or `{not: null}` narrow what is there. */
  #both(before: Schema, schema: Schema): Schema {
    const resolved = this.#resolved(before)
    if ('const' in schema || 'enum' in schema || schema['type'] === 'null') return schema
    const narrowed = Array.isArray(resolved['type'])
      ? (resolved['type'] as string[]).filter((type) => type !== 'null')
      : []
    const type = schema['type'] ?? (narrowed.length === 0 ? resolved['type'] : narrowed)
    const items = [resolved['items'], schema['items']] as [Schema | undefined, Schema | undefined]
    const both = items[0] === undefined || items[1] === undefined ? {} : { items: { allOf: items } }
    const choices = (resolved['anyOf'] as Schema[] | undefined)?.filter((one) => one['type'] !== 'null')
    return {
      ...resolved,
      ...schema,
      ...both,
      ...(type === undefined ? {} : { type }),
      ...(choices === undefined ? {} : { anyOf: choices }),
    }
  }

  /** `null` seldom. */
  #type(types: readonly string[]): string {
    const others = types.filter((type) => type !== 'null')
    return others.length < types.length && this.#random() < 0.15 ? 'null' : this.pick(others)
  }

  #object(schema: Schema, depth: number, rate: number): Fields {
    const {
      properties = {},
      required = [],
      additionalProperties,
      propertyNames,
    } = schema as {
      properties?: Record<string, Schema>
      required?: string[]
      additionalProperties?: Schema | boolean
      propertyNames?: Schema
    }
    const value: Fields = {}
    for (const [name, member] of Object.entries(properties))
      if (required.includes(name) || (depth < 4 && this.#random() < rate))
        value[name] = this.#value(member, depth + 1, rate / 2)
    for (const name of required) value[name] ??= this.#value(properties[name] ?? {}, depth + 1, rate / 2)
    if (typeof additionalProperties === 'object' && this.#random() < rate * 2) {
      const name = propertyNames === undefined ? this.pick(['a', 'b-c']) : this.#text(propertyNames)
      value[name] ??= this.#value(additionalProperties, depth + 1, rate / 2)
    }
    return value
  }

  #array(schema: Schema, depth: number, rate: number): unknown[] {
    const {
      items = {},
      minItems = 0,
      maxItems = 3,
    } = schema as { items?: Schema; minItems?: number; maxItems?: number }
    const length = depth > 4 ? minItems : Math.min(maxItems, minItems + Math.floor(this.#random() * 3))
    return Array.from({ length }, () => this.#value(items, depth + 1, rate / 2))
  }

  #number({ minimum = -1e6, maximum = 1e6 }: { minimum?: number; maximum?: number }, isWhole: boolean): number {
    // Large lengths are taken for what they are, and make the clock go far.
    const near = Math.min(maximum, Math.max(minimum, 0) + 1_000)
    const between = minimum + this.#random() * (near - minimum)
    return this.pick([minimum, near, isWhole ? Math.floor(between) : between])
  }

  #text(schema: Schema): string {
    const {
      pattern,
      title = '',
      minLength = 0,
      maxLength = 200,
    } = schema as {
      pattern?: string
      title?: string
      minLength?: number
      maxLength?: number
    }
    if (TEXTS[title] !== undefined) return this.pick(TEXTS[title])
    if (pattern === undefined) {
      const fitting = PLAIN.filter((text) => [...text].length >= minLength && [...text].length <= maxLength)
      return fitting.length === 0 ? 'y'.repeat(minLength) : this.pick(fitting)
    }
    const known = this.#made.get(pattern) ?? matching(pattern, minLength, maxLength)
    this.#made.set(pattern, known)
    return this.pick(known)
  }
}

function matching(pattern: string, min: number, max: number): readonly string[] {
  const form = new RegExp(pattern, 'u')
  const candidates = [
    ...Object.values(TEXTS).flat(),
    'https://example.com/hooks',
    'a-secret-that-is-long',
    'all',
    '1.0',
  ]
  const known = candidates.filter((text) => form.test(text) && text.length >= min && text.length <= max)
  if (pattern.includes('(?=') || pattern.includes('(?!') || known.length > 3) return known
  const made = fc.sample(fc.stringMatching(form, { size: 'xsmall' }), { numRuns: 12, seed: 7 })
  return [...known, ...made.filter((text) => [...text].length >= min && [...text].length <= max)]
}

/** The value with one thing changed, in every place, in every way that is likely to be wrong. */
export function* mutations(value: unknown): Generator<unknown> {
  yield* replacements(value)
  if (Array.isArray(value)) {
    for (const [index, entry] of value.entries())
      for (const changed of mutations(entry)) yield value.with(index, changed)
    return
  }
  if (typeof value !== 'object' || value === null) return
  const fields = value as Fields
  for (const [name, member] of Object.entries(fields)) {
    const { [name]: _left, ...rest } = fields
    yield rest
    for (const changed of mutations(member)) yield { ...fields, [name]: changed }
  }
  yield { ...fields, x_surprise_member: 1 }
}

function* replacements(value: unknown): Generator<unknown> {
  for (const other of [null, true, 1.5, 'ÄÖ !', '', [], {}])
    if (typeof other !== typeof value || other === null) yield other
  if (typeof value === 'number') yield* [-1_000_001.5, value + 0.5, -1e15, 1e300]
  if (typeof value === 'string') yield* ['', 'ÄÖ !', '\u0000', 'z'.repeat(2_000)]
  if (Array.isArray(value)) yield* [{}, [null]]
  else if (typeof value === 'object') yield []
}
