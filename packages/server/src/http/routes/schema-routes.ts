/** The registry of schemas, in the three dialects there are: by type and version, by URI, and for administrators. */
import {
  badField,
  fullVersion,
  iso,
  notFound,
  readDoc,
  readSchema,
  REGISTER_AT_SHAPE,
  REGISTER_SHAPE,
  SCHEMA,
  SCHEMA_URI,
  SCHEMA_VERSIONS,
  schemaId,
  TYPE_SHAPE,
  uuidV7,
  type DocKind,
  type Schema,
} from '@curfew/core'
import { deleteSchema, registerSchema } from '../../engine/schemas/schemas.ts'
import type { Answer } from '../api/message.ts'
import { PAGES } from '../api/query.ts'
import { pagingOf, paginationOf, param, type Call, type Route } from '../api/route.ts'

/** A whole number is answered as one. */
const versionView = (version: string): string | number => (/^\d+$/.test(version) ? Number(version) : version)

const headView = ({ uri, type, version, createdAt }: Schema): Record<string, unknown> => ({
  uri,
  type,
  job_type: type,
  version: versionView(version),
  created_at: iso(createdAt),
})

const view = (schema: Schema): Record<string, unknown> => ({ ...headView(schema), schema: schema.schema })

async function doc<T>(call: Call, { kind }: DocKind<T>, id: string): Promise<T | null> {
  const found = await call.engine.read((reads) => reads.doc(kind, id))
  return found === null ? null : readDoc<T>(found)
}

function versionOf(call: Call): string {
  const version = fullVersion(param(call, 'version'))
  if (version === null) throw badField('version', 'version must be a version such as 2, 2.1 or 2.1.0.')
  return version
}

const typeOf = (call: Call, name = 'type'): string => TYPE_SHAPE.read(param(call, name), 'type')

async function versionsOf(call: Call, type: string): Promise<Schema[]> {
  const versions = (await doc(call, SCHEMA_VERSIONS, type))?.versions ?? []
  const found = await Promise.all(versions.map((version) => doc(call, SCHEMA, schemaId(type, version))))
  const schemas = found.filter((schema) => schema !== null)
  if (schemas.length === 0) throw notFound('schema', type)
  return schemas
}

async function latest(call: Call, type: string): Promise<Schema> {
  const [schema] = await versionsOf(call, type)
  if (schema === undefined) throw notFound('schema', type)
  return schema
}

async function one(call: Call, type: string, version: string): Promise<Schema> {
  const schema = await doc(call, SCHEMA, schemaId(type, version))
  if (schema === null) throw notFound('schema', `${type}/${version}`)
  return schema
}

/** A URI has a colon; a type never has. */
async function byName(call: Call): Promise<Schema> {
  const name = param(call, 'name')
  if (!name.includes(':')) return latest(call, typeOf(call, 'name'))
  const place = await doc(call, SCHEMA_URI, name)
  if (place === null) throw notFound('schema', name)
  return one(call, place.type, place.version)
}

async function register(call: Call, path: { type?: string; version?: string }): Promise<Schema> {
  const { engine } = call
  const id = uuidV7(engine.now(), engine.random)
  return engine.run(registerSchema(readSchema(call.json, path, id, engine.now())))
}

async function remove(call: Call, type: string, version: string): Promise<Answer> {
  const schema = await call.engine.run(deleteSchema(type, version))
  return { body: JSON.stringify({ deleted: true, ...headView(schema) }) }
}

const MAX_LISTED = 10_000

async function list(call: Call, key: 'schemas' | 'items', byDefault: number): Promise<Answer> {
  const paging = pagingOf(call, byDefault)
  const docs = await call.engine.read((reads) => reads.docs(SCHEMA.kind, '', null, MAX_LISTED))
  const shown = docs.slice(paging.offset, paging.offset + paging.limit).map((found) => headView(readDoc<Schema>(found)))
  return { body: JSON.stringify({ [key]: shown, pagination: paginationOf(paging, docs.length, shown.length) }) }
}

async function listVersions(call: Call, type: string): Promise<Answer> {
  const versions = (await versionsOf(call, type)).map((schema, index) => ({
    ...headView(schema),
    is_latest: index === 0,
  }))
  return { body: JSON.stringify({ type, versions }) }
}

export const SCHEMA_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/schemas',
    tag: 'schemas',
    summary: 'Register a JSON Schema for the arguments of a job type',
    body: { shape: REGISTER_SHAPE },
    answers: { 201: 'The schema', 409: 'The type has a schema of this version, or another schema has this URI' },
    handle: async (call) => ({ status: 201, body: JSON.stringify({ schema: view(await register(call, {})) }) }),
  },
  {
    method: 'GET',
    path: '/ojs/v1/schemas',
    tag: 'schemas',
    summary: 'All schemas, by type',
    query: PAGES,
    handle: (call) => list(call, 'schemas', 50),
  },
  {
    method: 'GET',
    path: '/ojs/v1/schemas/:name',
    tag: 'schemas',
    summary: 'The schema with a URI, or the newest of a type',
    handle: async (call) => ({ body: JSON.stringify({ schema: view(await byName(call)) }) }),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/schemas/:name',
    tag: 'schemas',
    summary: 'Delete the schema with a URI, or the newest of a type',
    handle: async (call) => {
      const { type, version } = await byName(call)
      return remove(call, type, fullVersion(version) ?? version)
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/schemas/:name/versions',
    tag: 'schemas',
    summary: 'The versions of a type, newest first',
    handle: (call) => listVersions(call, typeOf(call, 'name')),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/schemas/:name/:version',
    tag: 'schemas',
    summary: 'Delete one version',
    handle: (call) => remove(call, typeOf(call, 'name'), versionOf(call)),
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/schemas',
    tag: 'schemas',
    summary: 'All schemas, by type',
    query: PAGES,
    handle: (call) => list(call, 'items', 20),
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/schemas/:type',
    tag: 'schemas',
    summary: 'The newest schema of a type',
    handle: async (call) => ({ body: JSON.stringify(view(await latest(call, typeOf(call)))) }),
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/schemas/:type/versions',
    tag: 'schemas',
    summary: 'The versions of a type, newest first',
    handle: (call) => listVersions(call, typeOf(call)),
  },
  {
    method: 'PUT',
    path: '/ojs/v1/admin/schemas/:type/:version',
    tag: 'schemas',
    summary: 'Register a JSON Schema for the arguments of one version of a job type; versions do not change',
    body: { shape: REGISTER_AT_SHAPE },
    answers: { 201: 'The schema', 409: 'The type has a schema of this version' },
    handle: async (call) => {
      const path = { type: typeOf(call), version: param(call, 'version') }
      return { status: 201, body: JSON.stringify(view(await register(call, path))) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/admin/schemas/:type/:version',
    tag: 'schemas',
    summary: 'The schema of one version',
    handle: async (call) => ({ body: JSON.stringify(view(await one(call, typeOf(call), versionOf(call)))) }),
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/admin/schemas/:type/:version',
    tag: 'schemas',
    summary: 'Delete one version',
    handle: (call) => remove(call, typeOf(call), versionOf(call)),
  },
]
