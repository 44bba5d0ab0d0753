/**
 * What a JSON Schema may look like to be registered here. It is checked before it is stored, so that a schema that could
 * never have meant what its author thought is refused at once, and so that the one who validates (`engine/schemas/schemas.ts`)
 * meets nothing it does not know: no reference to anything outside the schema, no dynamic ones, bounded in size and depth.
 *
 * Keywords that are not known are allowed, as the specification has it (JSON Schema 2020-12, §6.5); they mean nothing.
 */
import type { Fields } from '../wire/shape.ts'

const DRAFT = 'https://json-schema.org/draft/2020-12/schema'
export const MAX_SCHEMA_LENGTH = 65_536
const MAX_SCHEMA_DEPTH = 32
const MAX_SUBSCHEMAS = 2_000
const MAX_PATTERN_LENGTH = 512

const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'integer', 'string']

type Problem = string | null
type Check = (value: unknown) => Problem

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const whole: Check = (value) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 ? null : 'must be a whole number of at least 0'
const anyNumber: Check = (value) => (typeof value === 'number' && Number.isFinite(value) ? null : 'must be a number')
const flag: Check = (value) => (typeof value === 'boolean' ? null : 'must be true or false')
const texts: Check = (value) =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string') ? null : 'must be a list of strings'

function pattern(value: unknown): Problem {
  if (typeof value !== 'string') return 'must be a string'
  if (value.length > MAX_PATTERN_LENGTH) return `must not be longer than ${String(MAX_PATTERN_LENGTH)} characters`
  try {
    new RegExp(value, 'u')
    return null
  } catch {
    return 'must be a regular expression (ECMA-262, with the flag u)'
  }
}

const VALUES: Readonly<Record<string, Check>> = {
  type: (value) =>
    (Array.isArray(value) ? value : [value]).every((entry) => TYPES.includes(entry as string))
      ? null
      : `must be one of ${TYPES.join(', ')}, or a list of them`,
  enum: (value) => (Array.isArray(value) ? null : 'must be a list'),
  required: texts,
  dependentRequired: (value) =>
    isObject(value) && Object.values(value).every((entry) => texts(entry) === null) ? null : 'must map names to lists',
  pattern,
  format: (value) => (typeof value === 'string' ? null : 'must be a string'),
  uniqueItems: flag,
  multipleOf: (value) => (typeof value === 'number' && value > 0 ? null : 'must be a number above 0'),
  minimum: anyNumber,
  maximum: anyNumber,
  exclusiveMinimum: anyNumber,
  exclusiveMaximum: anyNumber,
  minLength: whole,
  maxLength: whole,
  minItems: whole,
  maxItems: whole,
  minContains: whole,
  maxContains: whole,
  minProperties: whole,
  maxProperties: whole,
}

const ONE = new Set([
  'not',
  'if',
  'then',
  'else',
  'contains',
  'propertyNames',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
])
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const MAPS = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'])
/** What they would mean here is not what they mean elsewhere, so they are refused rather than misread. */
const NOT_TAKEN = ['$dynamicRef', '$dynamicAnchor', '$recursiveRef', '$recursiveAnchor', '$anchor', '$vocabulary']

/** Why this cannot be registered, with the place (a JSON pointer); null when it can. */
export function schemaProblem(schema: unknown): string | null {
  if (typeof schema === 'boolean') return null
  if (!isObject(schema)) return 'schema must be an object, or true or false'
  if (JSON.stringify(schema).length > MAX_SCHEMA_LENGTH)
    return `schema must not be larger than ${String(MAX_SCHEMA_LENGTH)} bytes`
  if (schema['$schema'] !== undefined && trimmed(schema['$schema']) !== DRAFT)
    return `$schema must be ${DRAFT}, or be left out`
  const budget = { left: MAX_SUBSCHEMAS }
  return walk(schema, schema, '', 0, budget)
}

const trimmed = (uri: unknown): unknown => (typeof uri === 'string' ? uri.replace(/#$/, '') : uri)

function walk(schema: unknown, root: Fields, at: string, depth: number, budget: { left: number }): Problem {
  if (typeof schema === 'boolean') return null
  if (!isObject(schema)) return `${at === '' ? 'schema' : at} must be a schema: an object, or true or false`
  budget.left -= 1
  if (budget.left < 0) return `schema must not have more than ${String(MAX_SUBSCHEMAS)} subschemas`
  if (depth > MAX_SCHEMA_DEPTH) return `schema must not be nested deeper than ${String(MAX_SCHEMA_DEPTH)} levels`
  for (const [key, value] of Object.entries(schema)) {
    const here = `${at}/${escaped(key)}`
    const check = Object.hasOwn(VALUES, key) ? VALUES[key] : undefined
    const problem =
      check !== undefined
        ? check(value)
        : NOT_TAKEN.includes(key)
          ? 'is not supported'
          : key === '$ref'
            ? refProblem(value, root)
            : key === '$id'
              ? at === '' && typeof value === 'string'
                ? null
                : 'is supported only at the top'
              : null
    if (problem !== null) return `${here} ${problem}`
    const inner = (sub: unknown, place: string): Problem => walk(sub, root, place, depth + 1, budget)
    let found: Problem = null
    if (ONE.has(key) || (key === 'items' && !Array.isArray(value))) found = inner(value, here)
    else if (LISTS.has(key) || key === 'items') {
      // A list under `items` is how earlier drafts wrote `prefixItems`; it is understood.
      if (!Array.isArray(value)) return `${here} must be a list of schemas`
      found = first(value.map((sub, index) => () => inner(sub, `${here}/${String(index)}`)))
    } else if (MAPS.has(key)) {
      if (!isObject(value)) return `${here} must be an object`
      found = first(
        Object.entries(value).map(([name, sub]) => () => {
          const place = `${here}/${escaped(name)}`
          const bad = key === 'patternProperties' ? pattern(name) : null
          return bad === null ? inner(sub, place) : `${place} ${bad}`
        }),
      )
    }
    if (found !== null) return found
  }
  return null
}

function first(checks: readonly (() => Problem)[]): Problem {
  for (const check of checks) {
    const problem = check()
    if (problem !== null) return problem
  }
  return null
}

/** Only into the schema itself: nothing is ever fetched. */
function refProblem(ref: unknown, root: Fields): Problem {
  if (typeof ref !== 'string' || !(ref === '#' || ref.startsWith('#/')))
    return 'must point into the schema itself, such as "#/$defs/address"; nothing is fetched'
  let found: unknown = root
  for (const part of ref.split('/').slice(1)) {
    const name = decoded(part)
    found = Array.isArray(found)
      ? found[Number(name)]
      : isObject(found) && Object.hasOwn(found, name)
        ? found[name]
        : undefined
  }
  return typeof found === 'boolean' || isObject(found) ? null : 'points to nothing in the schema'
}

const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function decoded(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return part
  }
}
