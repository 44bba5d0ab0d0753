/** Definitions of journeys under /api/v1: YAML or JSON in, plain JSON out, errors as problem details. */
import { iso, notFound, text, type Definition, type DeployedName, type JsonSchema } from '@curfew/core'
import { definitionOf } from '../../engine/definitions/definitions.ts'
import {
  deploy,
  deployedName,
  deployedVersion,
  effectiveSec,
  listDefinitions,
  validate,
} from '../../engine/definitions/deployments.ts'
import { JSON_MEDIA, OJS_MEDIA, type Answer } from '../api/message.ts'
import { upTo } from '../api/query.ts'
import { param, queryOf, type Call, type Route } from '../api/route.ts'

const YAML_MEDIA = ['application/yaml', 'text/yaml', 'application/x-yaml', JSON_MEDIA, OJS_MEDIA] as const
/** `definitions:validate` lists what a definition lacks, with the place of each error. */
const asJson = (schema: JsonSchema): Record<string, JsonSchema> => ({ [JSON_MEDIA]: schema, [OJS_MEDIA]: schema })
const DEFINITION_TEXT = {
  shape: text({ min: 1, expected: 'a definition, as YAML or JSON' }),
  media: YAML_MEDIA,
} as const
const DEFINITION = { ...DEFINITION_TEXT, described: asJson({ type: 'object' }) } as const
const ANY_DEFINITION = { ...DEFINITION_TEXT, described: asJson({}) } as const
const ONE_QUERY = { version: text() } as const
const LIST_QUERY = {
  limit: upTo(1, 200),
  pageToken: text({ pattern: /^[a-z0-9-]{1,63}$/, expected: 'a nextPageToken of an earlier answer' }),
} as const

const json = (body: unknown, status = 200): Answer => ({ status, body: JSON.stringify(body), media: JSON_MEDIA })

const entryView = ({ name, version, kind, versions, updatedAt }: DeployedName): Record<string, unknown> => ({
  name,
  version,
  kind,
  versions,
  updatedAt: iso(updatedAt),
})

const headOf = ({ engine }: Call, definition: Definition): Record<string, unknown> => ({
  name: definition.name,
  version: definition.version,
  kind: definition.kind,
  effectiveMaxDurationSec: effectiveSec(engine, definition),
})

async function put(call: Call): Promise<Answer> {
  const { created, definition, warnings } = await deploy(call.engine, param(call, 'name'), call.text)
  return json({ ...headOf(call, definition), warnings }, created ? 201 : 200)
}

async function get(call: Call): Promise<Answer> {
  const { engine } = call
  const name = param(call, 'name')
  const entry = await deployedName(engine, name)
  const wanted = queryOf(call, ONE_QUERY).version ?? null
  const version = wanted ?? entry?.version ?? ''
  const [found, stored] = await Promise.all([
    definitionOf(engine, name, version),
    deployedVersion(engine, name, version),
  ])
  if (entry === null || found === null || stored === null)
    throw notFound('definition', wanted === null ? name : `${name}/${wanted}`)
  return json({
    ...headOf(call, found.definition),
    warnings: stored.warnings,
    inForce: entry.version,
    versions: entry.versions,
    deployedAt: iso(stored.deployedAt),
    definition: found.source,
  })
}

async function check(call: Call): Promise<Answer> {
  const { definition, errors, warnings } = await validate(call.engine, call.text)
  const head = definition === null ? {} : headOf(call, definition)
  return json({ valid: errors.length === 0, ...head, errors, warnings })
}

async function list(call: Call): Promise<Answer> {
  const { limit = 50, pageToken: token = null } = queryOf(call, LIST_QUERY)
  const { items, next } = await listDefinitions(call.engine, token, limit)
  return json({ items: items.map(entryView), nextPageToken: next })
}

export const DEFINITION_ROUTES: readonly Route[] = [
  {
    method: 'PUT',
    path: '/api/v1/definitions/:name',
    tag: 'definitions',
    summary: 'Deploy a definition: a new version, or an existing one that becomes the version in force again',
    body: DEFINITION,
    answers: {
      200: 'This version was there already, word for word; it is in force now',
      201: 'A new version, now in force',
      409: 'The version is there with other content, or another definition answers at its path',
      422: 'Not valid; errors and warnings say what and where',
    },
    handle: put,
  },
  {
    method: 'GET',
    path: '/api/v1/definitions/:name',
    tag: 'definitions',
    summary: 'A definition as it was deployed, and its versions',
    query: ONE_QUERY,
    handle: get,
  },
  {
    method: 'GET',
    path: '/api/v1/definitions',
    tag: 'definitions',
    summary: 'What is in force, by name',
    query: LIST_QUERY,
    handle: list,
  },
  {
    method: 'POST',
    path: '/api/v1/definitions:validate',
    tag: 'definitions',
    summary: 'Validate a definition without deploying it',
    body: ANY_DEFINITION,
    handle: check,
  },
]
