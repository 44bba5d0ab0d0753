/** OpenAPI 3.1, generated from the routes and the very shapes that validate. */
import type { Shape } from '@curfew/core'
import { JSON_MEDIA, OJS_MEDIA, PROBLEM_MEDIA } from './message.ts'
import type { Route } from './route.ts'
import { STATUS_OF } from './errors.ts'

export function openApi(routes: readonly Route[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    const own = `${route.method} ${route.path}`
    for (const way of [own, ...(route.aliases ?? [])]) {
      const [method = 'GET', path = '/'] = way.split(' ')
      const key = path.replaceAll(/[:*](\w+)/g, '{$1}')
      paths[key] = { ...paths[key], [method.toLowerCase()]: operation(route, path, way === own ? null : own) }
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Curfew',
      version,
      summary: 'A job server in which nothing runs past its deadline',
      description:
        'Speaks the Open Job Spec over HTTP. Times are RFC 3339 in UTC; timeouts are whole seconds, or milliseconds with the suffix _ms.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: errorSchema() },
    },
    security: [{}, { token: [] }],
  }
}

function operation(route: Route, path: string, aliasOf: string | null): Record<string, unknown> {
  const media = path.startsWith('/api/') ? JSON_MEDIA : OJS_MEDIA
  const errorMedia = path.startsWith('/api/') ? PROBLEM_MEDIA : OJS_MEDIA
  const answers = { 200: 'Done', ...route.answers }
  if (route.answers !== undefined && (201 in route.answers || 204 in route.answers))
    delete (answers as Record<number, string>)[200]
  return {
    tags: [route.tag],
    summary: route.summary,
    ...(aliasOf === null ? {} : { description: `The same as ${aliasOf}.` }),
    operationId: `${aliasOf === null ? '' : 'alias_'}${operationId(route.method, path)}`,
    ...(route.open === true ? { security: [{}] } : {}),
    parameters: [...pathParameters(path), ...queryParameters(route.query ?? {})],
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: route.body.optional !== true,
            content: Object.fromEntries(
              (route.body.media ?? [media]).map((type) => [type, { schema: route.body?.shape.json }]),
            ),
          },
        }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, description]) => [status, { description }])),
      default: {
        description: 'Refused',
        content: { [errorMedia]: { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  }
}

function operationId(method: string, path: string): string {
  return `${method.toLowerCase()}${path.replaceAll(/[^a-zA-Z0-9]+/g, '_')}`.replace(/_+$/, '')
}

function pathParameters(path: string): Record<string, unknown>[] {
  return [...path.matchAll(/[:*](\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
}

function queryParameters(query: Readonly<Record<string, Shape<unknown>>>): Record<string, unknown>[] {
  return Object.entries(query).map(([name, shape]) => ({ name, in: 'query', required: false, schema: shape.json }))
}

function errorSchema(): Record<string, unknown> {
  return {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['code', 'message', 'retryable', 'request_id'],
        properties: {
          code: { type: 'string', enum: Object.keys(STATUS_OF) },
          type: { type: 'string' },
          message: { type: 'string' },
          retryable: { type: 'boolean' },
          details: { type: 'object' },
          request_id: { type: 'string' },
          hint: { type: 'string' },
          docs_url: { type: 'string' },
        },
      },
    },
  }
}
