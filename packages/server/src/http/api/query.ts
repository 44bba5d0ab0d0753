/**
 * Query parameters. A route declares them, each with its shape; the app reads the whole query by that declaration before
 * the handler runs, and handlers see nothing but the values that were read. So a parameter that is not declared cannot be
 * read, and one that is declared is checked on every call.
 *
 * - A parameter that the route does not declare is refused (400), with the nearest name that it does.
 * - A parameter may be given once. Lists are one value, separated by commas.
 * - A parameter without a value (`?cursor=`) counts as left out; a filter without one is refused.
 */
import { badField, didYouMean, list, nearestName, OjsError, text, vocabulary, whole, type Shape } from '@curfew/core'

export type QueryShapes = Readonly<Record<string, Shape<unknown>>>
export type QueryRead<S extends QueryShapes> = { readonly [K in keyof S]?: S[K] extends Shape<infer T> ? T : never }

export interface Query {
  readonly declared: QueryShapes
  readonly values: Readonly<Record<string, unknown>>
  /** All parameters as they were written, for definitions that bind them. */
  readonly texts: ReadonlyMap<string, string>
  /** Those that only a definition can know (`Route.bindsQuery`). */
  readonly others: readonly string[]
}

interface Declaration {
  readonly query?: QueryShapes
  readonly bindsQuery?: boolean
}

const NO_SHAPES: QueryShapes = {}
const NO_VALUES: Query['values'] = {}
const NO_TEXTS: Query['texts'] = new Map()

/** `source`: what follows the question mark; empty where there is none. */
export function readQuery(source: string, { query: declared = NO_SHAPES, bindsQuery = false }: Declaration): Query {
  if (source === '') return { declared, values: NO_VALUES, texts: NO_TEXTS, others: [] }
  const texts = textsIn(source)
  const values: Record<string, unknown> = {}
  const others: string[] = []
  for (const [name, value] of texts) {
    const shape = Object.hasOwn(declared, name) ? declared[name] : undefined
    if (shape !== undefined && (value !== '' || mustHaveValue(shape)))
      values[name] = shape.read(valueIn(value, shape), name)
    if (shape !== undefined) continue
    if (!bindsQuery) throw unknownParameter(name, Object.keys(declared))
    others.push(name)
  }
  return { declared, values, texts, others }
}

/** Ignoring an empty filter would select everything. */
const mustHaveValue = ({ json }: Shape<unknown>): boolean => Number(json['minLength'] ?? 0) > 0

function textsIn(source: string): Map<string, string> {
  const texts = new Map<string, string>()
  const all = new URLSearchParams(source)
  for (const [name, value] of all) {
    if (texts.has(name))
      throw badField(name, `${name} is given ${String(all.getAll(name).length)} times; send it once.`)
    texts.set(name, value)
  }
  return texts
}

/** A text as the JSON value that the shape speaks of. What does not look like one stays text, and the shape refuses it. */
function valueIn(value: string, { json }: Shape<unknown>): unknown {
  switch (json['type']) {
    case 'integer':
      return /^-?\d+$/.test(value) ? Number(value) : value
    case 'boolean':
      return value === 'true' ? true : value === 'false' ? false : value
    case 'array':
      return value
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '')
    default:
      return value
  }
}

export function unknownParameter(name: string, allowed: readonly string[]): OjsError {
  const suggestion = nearestName(name, vocabulary(allowed))
  const known = allowed.length === 0 ? 'This path takes no query parameters.' : `Known: ${allowed.join(', ')}.`
  const remedy = suggestion === null ? known : didYouMean(suggestion)
  return new OjsError('invalid_request', `Unknown query parameter ${JSON.stringify(name.slice(0, 100))}. ${remedy}`, {
    details: { field: name.slice(0, 100), ...(suggestion === null ? {} : { suggestion }), allowed },
    hint: 'Correct its name or leave it out; nothing was done.',
  })
}

// ---- Shapes that only queries have ----

/** A whole number of which more than `max` counts as `max`. */
export function upTo(min: number, max: number): Shape<number> {
  const shape = whole(min)
  return {
    json: { type: 'integer', minimum: min, description: `More than ${String(max)} counts as ${String(max)}.` },
    read: (value, at, refuse) => (typeof value === 'number' && value > max ? max : shape.read(value, at, refuse)),
  }
}

/** Several values in one, separated by commas. */
export const commaList = (): Shape<readonly string[]> => list(text())

/** Where a list goes on: by an offset, or by pages. Both pairs are understood on every list. */
export const PAGES = {
  limit: upTo(1, 200),
  offset: upTo(0, 100_000_000),
  page: upTo(1, 1_000_000),
  per_page: upTo(1, 100),
} as const
