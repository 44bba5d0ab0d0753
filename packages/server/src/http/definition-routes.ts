/** Definitions of journeys under /api/v1: YAML or JSON in, plain JSON out, errors as problem details. */
import { badField, iso, notFound, text, whole, type Definition, type DeployedName } from '@curfew/core'
import { definitionOf } from '../engine/definitions.ts'
import {
  deploy,
  deployedName,
  deployedVersion,
  effectiveSec,
  listDefinitions,
  validate,
} from '../engine/deployments.ts'
import { JSON_MEDIA, OJS_MEDIA, type Answer } from './message.ts'
import { param, queryText, queryWhole, type Call, type Route } from './route.ts'

const YAML_MEDIA = ['application/yaml', 'text/yaml', 'application/x-yaml', JSON_MEDIA, OJS_MEDIA] as const
const DEFINITION_TEXT = {
  shape: text({ expected: 'a definition, as YAML or JSON' }),
  media: YAML_MEDIA,
} as const
const MOST_LISTED = 200

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
  const wanted = queryText(call, 'version')
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
  const limit = queryWhole(call, 'limit', 1, MOST_LISTED) ?? 50
  const token = queryText(call, 'pageToken')
  if (token !== null && !/^[a-z0-9-]{1,63}$/.test(token))
    throw badField('pageToken', 'pageToken must be a nextPageToken of an earlier answer.')
  const { items, next } = await listDefinitions(call.engine, token, limit)
  return json({ items: items.map(entryView), nextPageToken: next })
}

export const DEFINITION_ROUTES: readonly Route[] = [
  {
    method: 'PUT',
    path: '/api/v1/definitions/:name',
    tag: 'definitions',
    summary: 'Deploy a definition: a new version of it, or one that is there, which comes into force again',
    body: DEFINITION_TEXT,
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
    summary: 'A definition as it was deployed, and the versions there are',
    query: { version: text() },
    handle: get,
  },
  {
    method: 'GET',
    path: '/api/v1/definitions',
    tag: 'definitions',
    summary: 'What is in force, by name',
    query: { limit: whole(1, MOST_LISTED), pageToken: text() },
    handle: list,
  },
  {
    method: 'POST',
    path: '/api/v1/definitions:validate',
    tag: 'definitions',
    summary: 'What deploying this would be told; nothing is changed',
    body: DEFINITION_TEXT,
    handle: check,
  },
]
