/**
 * The registry of schemas for arguments, by job type and version (OJS schema registry, OJS job versioning §6). A version
 * that is registered never changes. What is validated is said elsewhere: by a job that names its schema, or by the policy
 * of its type (`validation`).
 */
import { badField, OjsError } from '../errors.ts'
import type { Instant } from '../time/clock.ts'
import { docKind } from '../doc.ts'
import { schemaProblem } from './json-schema.ts'
import { either, object, oneNotNull, ruled, text, whole, type Shape } from '../wire/shape.ts'
import { TYPE_SHAPE } from '../wire/job/job-shapes.ts'

export interface Schema {
  /** No other registration has it, not even of the same version after this one was deleted. */
  readonly id: string
  readonly uri: string
  readonly type: string
  /** As it was registered: `2`, `2.0` or `2.0.0`. */
  readonly version: string
  readonly schema: unknown
  readonly createdAt: Instant
}

/** By `type/version`, the version in three parts. */
export const SCHEMA = docKind<Schema>('schema')
/** The versions of a type in three parts, the newest first. Whoever changes the schemas of a type holds it. */
export const SCHEMA_VERSIONS = docKind<{ readonly versions: readonly string[] }>('schema-versions')
export const SCHEMA_URI = docKind<{ readonly type: string; readonly version: string }>('schema-uri')

export const MOST_VERSIONS = 100

const URI_SHAPE = text({
  pattern: /^[a-zA-Z][a-zA-Z0-9+.-]*:[\x21-\x7e]+$/,
  maxLength: 512,
  expected: 'a URI such as "urn:ojs:schema:email.send:v1"',
})
const VERSION_TEXT = text({
  pattern: /^\d{1,9}(\.\d{1,9}){0,2}$/,
  expected: 'a version such as 2, "2.1" or "2.1.0"',
})
const VERSION_SHAPE = either(whole(0, 999_999_999), VERSION_TEXT, (value) => typeof value === 'number')

/** What it says is judged by `schemaProblem`. */
const SCHEMA_SHAPE: Shape<unknown> = { json: { type: ['object', 'boolean'] }, read: (value) => value }

const REGISTER_FIELDS = object(
  {
    job_type: TYPE_SHAPE,
    type: TYPE_SHAPE,
    version: VERSION_SHAPE,
    uri: URI_SHAPE,
    schema: SCHEMA_SHAPE,
    args_schema: SCHEMA_SHAPE,
  },
  { unknown: 'refuse' },
)
const HAS_SCHEMA = oneNotNull('schema', 'args_schema')
/** Where the path names type and version. */
export const REGISTER_AT_SHAPE = ruled(REGISTER_FIELDS, { allOf: [HAS_SCHEMA] })
export const REGISTER_SHAPE = ruled(REGISTER_FIELDS, {
  allOf: [HAS_SCHEMA, oneNotNull('type', 'job_type'), oneNotNull('version')],
})

/** `2` and `2.0` are version 2.0.0. Null when it is no version. */
export function fullVersion(version: unknown): string | null {
  const written = typeof version === 'number' ? String(version) : version
  if (typeof written !== 'string' || !/^\d{1,9}(\.\d{1,9}){0,2}$/.test(written)) return null
  const parts = written.split('.').map((part) => String(Number(part)))
  return [...parts, '0', '0'].slice(0, 3).join('.')
}

/** Newest first. */
export function newerFirst(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  for (const index of [0, 1, 2]) {
    const difference = (y?.[index] ?? 0) - (x?.[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

export const schemaId = (type: string, fullVersion: string): string => `${type}/${fullVersion}`
export const defaultUri = (type: string, version: string): string => `urn:ojs:schema:${type}:v${version}`

/** The path may name type and version; what it names, the body must not contradict. */
export function readSchema(sent: unknown, path: { type?: string; version?: string }, id: string, now: Instant): Schema {
  const fields = REGISTER_SHAPE.read(sent, '')
  const type = TYPE_SHAPE.read(same('type', path.type, fields.type, fields.job_type), 'type')
  const given = fields.version === undefined ? undefined : String(fields.version)
  const version = VERSION_TEXT.read(path.version ?? given, 'version')
  if (path.version !== undefined && given !== undefined && fullVersion(given) !== fullVersion(path.version))
    throw badField('version', 'version differs from the one in the path.')
  const schema = fields.schema ?? fields.args_schema
  if (schema === undefined) throw badField('schema', 'schema is required: a JSON Schema for args.')
  const problem = schemaProblem(schema)
  if (problem !== null)
    throw new OjsError('invalid_request', `The schema cannot be registered: ${problem}.`, {
      details: { field: 'schema', schema_error: problem },
    })
  return { id, uri: fields.uri ?? defaultUri(type, version), type, version, schema, createdAt: now }
}

function same(field: string, ...given: readonly (string | undefined)[]): string | undefined {
  const known = [...new Set(given.filter((value) => value !== undefined))]
  if (known.length > 1) throw badField(field, `${field} is given twice, and differently.`)
  return known[0]
}

/** A mistake in arguments: where (a JSON pointer into `args`), and what. */
export interface Mistake {
  readonly pointer: string
  readonly keyword: string
  readonly message: string
}

export function schemaRefusal({ type, version, uri }: Schema, mistakes: readonly Mistake[]): OjsError {
  const [worst] = mistakes
  const where =
    worst === undefined ? '' : ` ${worst.pointer === '' ? 'args' : `args${worst.pointer}`}: ${worst.message}`
  return new OjsError('schema_validation', `args do not match the schema of ${type} ${version}.${where}`, {
    details: { field: 'args', schema: uri, type, version, pointer: worst?.pointer ?? '', validation_errors: mistakes },
  })
}
