/** Schemas of arguments as clients register them. */
import { badField, OjsError } from '../errors.ts'
import { schemaProblem } from '../schema/json-schema.ts'
import { defaultUri, fullVersion, type Schema } from '../schema/schema-registry.ts'
import type { Instant } from '../time/clock.ts'
import { TYPE_SHAPE } from './job/job-shapes.ts'
import { either, object, oneNotNull, ruled, text, whole, type Shape } from './shape.ts'

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
  refuseBroken('schema', schema)
  if (fields.args_schema !== undefined && fields.args_schema !== schema) refuseBroken('args_schema', fields.args_schema)
  return { id, uri: fields.uri ?? defaultUri(type, version), type, version, schema, createdAt: now }
}

function refuseBroken(field: string, schema: unknown): void {
  const problem = schemaProblem(schema)
  if (problem === null) return
  throw new OjsError('invalid_request', `The schema cannot be registered: ${problem}.`, {
    details: { field, schema_error: problem },
  })
}

function same(field: string, ...given: readonly (string | undefined)[]): string | undefined {
  const known = [...new Set(given.filter((value) => value !== undefined))]
  if (known.length > 1) throw badField(field, `${field} is given twice, and differently.`)
  return known[0]
}
