/**
 * OpenAPI 3.1, generated from the routes, the very shapes that validate, and the schemas of the answers. It is the
 * contract: `tests/scenarios/contract.test.ts` plays every operation of it.
 */
import { anything, broken, type JsonSchema } from '@curfew/core'
import { ANSWERS } from './answer-schemas.ts'
import { ERROR, PROBLEM } from './job-schemas.ts'
import type { Described } from './schema-parts.ts'
import { JSON_MEDIA, OJS_MEDIA, PROBLEM_MEDIA } from './message.ts'
import { paramSchema } from './path-params.ts'
import type { QueryShapes } from './query.ts'
import { rolesOf } from './roles.ts'
import type { Route } from './route.ts'

type Member = Record<string, unknown>

export function openApi(routes: readonly Route[], version: string): Member {
  const paths: Record<string, Member> = {}
  for (const route of routes) {
    const own = `${route.method} ${route.path}`
    for (const way of [own, ...(route.aliases ?? [])]) {
      const [method = 'GET', path = '/'] = way.split(' ')
      const key = path.replaceAll(/\/[:*](\w+)/g, '/{$1}')
      paths[key] = { ...paths[key], [method.toLowerCase()]: operation(route, path, method, way === own ? null : own) }
    }
  }
  return hoisted({
    openapi: '3.1.0',
    info: {
      title: 'Curfew',
      version,
      summary: 'A job server in which nothing runs past its deadline',
      description:
        'Speaks the Open Job Spec over HTTP. Times are RFC 3339 in UTC; timeouts are whole seconds, or milliseconds with the suffix _ms. A member that is null counts as left out. A query parameter may be given once; without a value it counts as left out.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'curfew_session',
          description:
            'From POST /api/v1/session; over TLS its name is __Host-curfew_session. What is not a GET also needs the header X-Curfew-Request.',
        },
      },
      responses: {
        Refused: { description: 'Refused', content: ERROR_CONTENT },
        RefusedAsProblem: { description: 'Refused', content: PROBLEM_CONTENT },
      },
    },
    security: [{}, { token: [] }, { session: [] }],
  })
}

function operation(route: Route, path: string, method: string, aliasOf: string | null): Member {
  const described = ANSWERS[`${route.method} ${route.path}`] ?? { body: { type: 'object' } }
  return {
    tags: [route.tag],
    summary: route.summary,
    ...(aliasOf === null ? {} : { description: `The same as ${aliasOf}.` }),
    operationId: `${aliasOf === null ? '' : 'alias_'}${operationId(method, path)}`,
    ...access(route),
    parameters: [
      ...pathParameters(path),
      ...queryParameters(route.query ?? {}),
      ...boundParameters(route),
      ...(route.prefersReturn === true ? [PREFER] : []),
    ],
    ...(route.body === undefined ? {} : { requestBody: requestBody(route) }),
    responses: responses(route, path, described),
  }
}

/** Which roles may call it: one is enough. How a caller proves its roles is the same for all operations (`security`). */
function access(route: Route): Member {
  if (route.open === true) return { security: [{}] }
  const roles = rolesOf(route)
  return { 'x-roles': roles.includes('admin') ? roles : [...roles, 'admin'] }
}

export function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}${path.replaceAll(/[^a-zA-Z0-9]+/g, '_')}`.replace(/_+$/, '')
}

function requestBody({ method, path, body }: Route): Member {
  const { shape, optional, media = [OJS_MEDIA, JSON_MEDIA], described = {} } = body ?? { shape: anything() }
  const isNamed = shape.json['title'] !== undefined || body?.media !== undefined
  // Named, so that it is said once for all media and aliases.
  const schema = isNamed ? shape.json : { title: `${operationId(method, path)}_body`, ...shape.json }
  const content = media.map((type) => [type, { schema: described[type] ?? schema }])
  return { required: optional !== true, content: Object.fromEntries(content) as Member }
}

function pathParameters(path: string): Member[] {
  return [...path.matchAll(/\/[:*](\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: paramSchema(path, name),
  }))
}

function queryParameters(query: QueryShapes): Member[] {
  return Object.entries(query).map(([name, { json }]) => ({
    name,
    in: 'query',
    required: false,
    allowEmptyValue: true,
    ...(json['type'] === 'array' ? { style: 'form', explode: false } : {}),
    schema: json,
  }))
}

/** Parameters that the called definition binds. */
function boundParameters({ bindsQuery }: Route): Member[] {
  if (bindsQuery !== true) return []
  const schema = { type: 'object', additionalProperties: { type: 'string' } }
  const description = 'What the definition binds (queryToContext), each as a parameter of its own'
  return [{ name: 'bound', in: 'query', required: false, style: 'form', explode: true, description, schema }]
}

const PREFER: Member = {
  name: 'Prefer',
  in: 'header',
  required: false,
  description:
    'With return=minimal each job is answered with its id, its state and its x_warnings, if there are any, and the answer says Preference-Applied (RFC 7240). Other preferences are ignored',
  schema: { type: 'string' },
}

// ---- Answers ----

function responses(route: Route, path: string, described: Described): Member {
  const isPlain = path.startsWith('/api/')
  const media = isPlain ? JSON_MEDIA : OJS_MEDIA
  const refused = { $ref: `#/components/responses/${isPlain ? 'RefusedAsProblem' : 'Refused'}` }
  const told = Object.entries(route.answers ?? {})
  const succeeds = told.some(([status]) => Number(status) < 400)
  const all: Record<string, Member> = succeeds ? {} : { 200: success('Done', described.body, described, media) }
  for (const status of usualRefusals(route)) all[status] = refused
  for (const [status, schema] of Object.entries(described.others ?? {}))
    all[status] = success('In its own form', schema, described, media)
  for (const [status, description] of told) {
    const own = described.others?.[Number(status)]
    if (Number(status) < 400) all[status] = success(description, own ?? described.body, described, media)
    else if (own !== undefined) all[status] = { ...all[status], description }
    else all[status] = { description, content: isPlain ? PROBLEM_CONTENT : ERROR_CONTENT }
  }
  return { ...all, default: described.anyStatus === true ? ANY_ANSWER : refused }
}

/** JSON, and whatever else the route may answer with. */
function success(description: string, body: JsonSchema | null, described: Described, media: string): Member {
  const content: Member = {}
  if (body !== null && described.media !== JSON_MEDIA) content[media] = { schema: body }
  if (described.media !== undefined) content[described.media] = { schema: described.media === JSON_MEDIA ? body : TEXT }
  return { description, ...(Object.keys(content).length === 0 ? {} : { content }) }
}

function usualRefusals({ method, path, open, body }: Route): number[] {
  return [
    400,
    ...(open === true ? [] : [401, 403]),
    ...(/\/[:*]/.test(path) || body !== undefined ? [404] : []),
    ...(method === 'GET' ? [] : [409]),
    ...(body === undefined ? [] : [413]),
    422,
    503,
  ]
}

const TEXT: JsonSchema = { type: 'string' }
const ERROR_CONTENT = { [OJS_MEDIA]: { schema: ERROR } }
const PROBLEM_CONTENT = { [PROBLEM_MEDIA]: { schema: PROBLEM } }
const ANY_ANSWER = {
  description: 'Refused, or what the definition chose',
  content: { ...PROBLEM_CONTENT, [JSON_MEDIA]: { schema: {} } },
}

// ---- Schemas that have a name are said once ----

function hoisted(document: Member): Member {
  const schemas: Record<string, unknown> = {}
  const written: Record<string, string> = {}
  const walk = (node: unknown, isSchema: boolean): unknown => {
    if (Array.isArray(node)) return node.map((entry) => walk(entry, isSchema))
    if (typeof node !== 'object' || node === null) return node
    const { title } = node as { title?: unknown }
    if (!isSchema || typeof title !== 'string') return inside(node, isSchema)
    const text = JSON.stringify(node)
    if (written[title] !== undefined && written[title] !== text) throw broken(`two schemas are named ${title}`)
    if (written[title] === undefined) {
      written[title] = text
      schemas[title] = inside(node, true)
    }
    return { $ref: `#/components/schemas/${title}` }
  }
  const inside = (node: object, isSchema: boolean): Member =>
    Object.fromEntries(Object.entries(node).map(([key, value]) => [key, walk(value, isSchema || key === 'schema')]))
  const walked = inside(document, false)
  return { ...walked, components: { ...(walked['components'] as Member), schemas } }
}
