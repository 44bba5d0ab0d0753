import { describe, expect, test } from 'vitest'
import { days } from '../../time/clock.ts'
import { readDefinition, type DefinitionChecks } from './reader.ts'

const checks: DefinitionChecks = {
  expression: () => Promise.resolve(null),
  schema: () => null,
  limits: { defaultMs: days(1), capMs: days(7) },
}

const OPEN_API = {
  openapi: '3.1.0',
  servers: [
    { url: 'https://{region}.users.example/v2/', variables: { region: { default: 'eu' } } },
    { url: 'https://other' },
  ],
  paths: {
    '/users/{id}': {
      parameters: [{ $ref: '#/components/parameters/Trace' }],
      get: { operationId: 'getUser', parameters: [{ name: 'fields', in: 'query', required: true }] },
      put: { operationId: 'putUser', requestBody: { required: true } },
    },
    '/ping': { post: { operationId: 'ping', servers: [{ url: 'http://ping.example' }] } },
    '/nowhere': { get: { operationId: 'nowhere', servers: [{ url: '/relative' }] } },
  },
  components: { parameters: { Trace: { name: 'X-Trace', in: 'header', required: true } } },
}

async function read(
  task: object,
  apis: unknown = { users: { openApi: OPEN_API } },
  more: Partial<DefinitionChecks> = {},
) {
  const { definition, errors } = await readDefinition(
    {
      apiVersion: 'v1',
      kind: 'Journey',
      metadata: { name: 'a', version: '1.0.0' },
      spec: {
        apis,
        start: 'call',
        states: {
          call: { type: 'task', task: { kind: 'httpCall:v1', ...task }, next: 'end' },
          end: { type: 'succeed' },
        },
      },
    },
    { ...checks, ...more },
  )
  return { call: definition?.states['call'], messages: errors.map(({ message }) => message), errors }
}

describe('a call by the name of an operation', () => {
  test('is a plain call once it is read: first server, path with its parameters, query and headers', async () => {
    const params = { path: { id: 'a b/${context.id}' }, query: { fields: 'all' }, headers: { 'x-trace': '1' } }
    const { call, messages } = await read({ operationRef: 'users.getUser', params, resultVar: 'user' })
    expect(messages).toEqual([])
    expect(call).toMatchObject({
      method: 'GET',
      url: 'https://eu.users.example/v2/users/a%20b%2F${context.id}',
      params: { fields: 'all' },
      headers: { 'x-trace': '1' },
    })
  })

  test('may have a server of its own', async () => {
    expect((await read({ operationRef: 'users.ping' })).call).toMatchObject({
      method: 'POST',
      url: 'http://ping.example/ping',
    })
  })

  test('tells at once everything it needs and does not get', async () => {
    expect((await read({ operationRef: 'users.getUser' })).messages).toEqual([
      'getUser needs params.path.id.',
      'getUser needs params.headers.X-Trace.',
      'getUser needs params.query.fields.',
    ])
    const params = { path: { id: '1' }, headers: { 'X-Trace': '1' } }
    expect((await read({ operationRef: 'users.putUser', params })).messages).toEqual(['putUser needs a body.'])
    expect((await read({ operationRef: 'users.putUser', params, body: {} })).messages).toEqual([])
  })

  test.each([
    ['users.unknown', 'The API users has no operation "unknown".'],
    ['others.getUser', 'There is no API "others" in spec.apis.'],
    ['getUser', 'operationRef must be the name of an API and an operation: users.getUser.'],
    ['users.nowhere', 'The address of nowhere must be absolute, and begin with http:// or https://.'],
    ['__proto__.toString', 'There is no API "__proto__" in spec.apis.'],
  ])('%s is refused', async (operationRef, message) => {
    expect((await read({ operationRef })).messages).toEqual([message])
  })

  test('whom to call does not come from data, by this way either', async () => {
    const openApi = { servers: [{ url: 'https://{host}' }], paths: { '/{p}': { get: { operationId: 'x' } } } }
    const { messages } = await read(
      { operationRef: 'users.x', params: { path: { p: '1' } } },
      { users: { openApi: { ...openApi, servers: [{ url: 'https://${context.host}' }] } } },
    )
    expect(messages[0]).toContain('before the path')
  })

  test('a document in a file needs a reader of files', async () => {
    const apis = { users: { openApiRef: 'users.yaml' } }
    expect((await read({ operationRef: 'users.ping' }, apis)).errors).toMatchObject([
      { code: 'HTTP-1', path: '/spec/apis/users/openApiRef' },
    ])
    const openApi = (): { document: unknown } => ({ document: OPEN_API })
    expect((await read({ operationRef: 'users.ping' }, apis, { openApi })).messages).toEqual([])
    const broken = { openApi: () => ({ document: 'hello' }) }
    expect((await read({ operationRef: 'users.ping' }, apis, broken)).messages).toEqual([
      'users.yaml is not an OpenAPI document.',
    ])
  })

  test.each([null, [], 'x', { users: null }, { users: { openApi: { paths: { '/': null, '/a': { get: 1 } } } } }])(
    'documents that are none do no harm: %j',
    async (apis) => {
      expect((await read({ operationRef: 'users.getUser' }, apis)).messages.length).toBeGreaterThan(0)
    },
  )
})
