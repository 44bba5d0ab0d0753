/**
 * Reads a document that a person wrote, and reports everything that is wrong with it at once. A field knows its place (a
 * JSON pointer), from which a caller with the text derives line and column. A read that fails has reported why and gives
 * null; what was made of the rest is thrown away as long as there are errors.
 *
 * A missing key is reported at its mapping, an unknown one at the key itself.
 */
import type { Fields } from './wire/shape.ts'

export interface Diagnostic {
  readonly code: string
  /** A JSON pointer. */
  readonly path: string
  readonly message: string
  readonly on: 'key' | 'value'
}

/** Findings so far. Their number is bounded: a reader does not use hundreds of them. */
export class Findings {
  readonly errors: Diagnostic[] = []
  readonly warnings: Diagnostic[] = []

  error(code: string, path: string, message: string, on: Diagnostic['on'] = 'value'): void {
    if (this.errors.length < MAX_FINDINGS) this.errors.push({ code, path, message, on })
  }

  warn(code: string, path: string, message: string, on: Diagnostic['on'] = 'value'): void {
    if (this.warnings.length < MAX_FINDINGS) this.warnings.push({ code, path, message, on })
  }
}

const MAX_FINDINGS = 500

/** Codes for what has none of its own: an unknown key, a value of the wrong type, something that must be there. */
export const SHAPE = 'SHAPE-1'

export const isMapping = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const pointerTo = (path: string, key: string | number): string =>
  `${path}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`

export interface TextRules {
  readonly pattern?: RegExp
  readonly most?: number
  readonly expected?: string
}

export class Field {
  constructor(
    readonly value: unknown,
    readonly path: string,
    /** What messages call it. */
    readonly name: string,
    readonly found: Findings,
  ) {}

  error(code: string, message: string): void {
    this.found.error(code, this.path, message)
  }

  errorAtKey(code: string, message: string): void {
    this.found.error(code, this.path, message, 'key')
  }

  warn(code: string, message: string): void {
    this.found.warn(code, this.path, message)
  }

  refuse(code: string, expected: string): null {
    this.error(code, `${this.name} must be ${expected}.`)
    return null
  }

  text(code: string = SHAPE, { pattern, most = 65_536, expected = 'a text that is not empty' }: TextRules = {}) {
    const { value } = this
    const isFit = typeof value === 'string' && value !== '' && (pattern === undefined || pattern.test(value))
    if (!isFit) {
      // `version: 1.0` is a number in YAML.
      const quote = typeof value === 'number' || typeof value === 'boolean' ? '; put it in quotes' : ''
      return this.refuse(code, `${expected}${quote}`)
    }
    return value.length > most ? this.refuse(code, `at most ${String(most)} characters long`) : value
  }

  whole(code: string, min: number, max: number): number | null {
    const { value } = this
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
    const range = typeof value === 'number' && value > max ? `of at most ${String(max)}` : `of at least ${String(min)}`
    return this.refuse(code, `a whole number ${range}`)
  }

  flag(code: string = SHAPE): boolean | null {
    return typeof this.value === 'boolean' ? this.value : this.refuse(code, 'true or false')
  }

  oneOf<const T extends string>(choices: readonly T[], code: string = SHAPE): T | null {
    const choice = choices.find((known) => known === this.value)
    return choice ?? this.refuse(code, choices.length === 1 ? String(choices[0]) : `one of ${choices.join(', ')}`)
  }

  list(code: string = SHAPE, min = 0): readonly Field[] {
    if (!Array.isArray(this.value)) {
      this.refuse(code, 'a list')
      return []
    }
    if (this.value.length < min) this.refuse(code, `a list of at least ${String(min)}`)
    return this.value.map(
      (entry, index) => new Field(entry, pointerTo(this.path, index), `${this.name}[${String(index)}]`, this.found),
    )
  }

  /** A mapping from names of the author's choice. */
  entries(code: string = SHAPE): readonly (readonly [string, Field])[] {
    const mapping = this.mapping(code)
    return mapping === null ? [] : mapping.keys().map((key) => [key, mapping.field(key)] as const)
  }

  mapping(code: string = SHAPE): Mapping | null {
    return isMapping(this.value) ? new Mapping(this, this.value) : this.refuse(code, 'a mapping')
  }

  /** A mapping with these keys and no others; `notHere` are defined by the language, but nothing here acts on them. */
  members(known: readonly string[], { code = SHAPE, notHere = [] }: KeyRules = {}): Mapping | null {
    const mapping = this.mapping(code)
    for (const key of mapping?.keys() ?? []) {
      if (known.includes(key)) continue
      const field = mapping?.field(key)
      if (notHere.includes(key)) field?.errorAtKey(code, `${key} is not supported here.`)
      else field?.errorAtKey(code, `Unknown key ${JSON.stringify(key)}. Known: ${known.join(', ')}.`)
    }
    return mapping
  }
}

export interface KeyRules {
  /** The code for whatever is wrong with its keys. */
  readonly code?: string
  readonly notHere?: readonly string[]
}

export class Mapping {
  constructor(
    readonly at: Field,
    readonly value: Fields,
  ) {}

  keys(): readonly string[] {
    return Object.keys(this.value)
  }

  has(key: string): boolean {
    return Object.hasOwn(this.value, key)
  }

  field(key: string): Field {
    return new Field(this.value[key], pointerTo(this.at.path, key), key, this.at.found)
  }

  /** Null: it is not there. */
  get(key: string): Field | null {
    return this.has(key) ? this.field(key) : null
  }

  /** Null: it is missing, and that has been reported. */
  need(key: string, code: string = SHAPE, why = ''): Field | null {
    if (this.has(key)) return this.field(key)
    this.at.error(code, `${key} is missing${why === '' ? '' : `: ${why}`}.`)
    return null
  }
}

/** Deeper documents are refused: the code that walks through them is recursive. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1))
}
