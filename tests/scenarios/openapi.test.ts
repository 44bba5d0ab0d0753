/** The description of the API: complete, sound, and true to what the routes accept and refuse. */
import { expect, test } from 'vitest'
import { ROUTES } from '../../packages/server/src/http/api/app.ts'
import { TestServer } from '../harness.ts'
import { checker, type Schema } from './contract-values.ts'

interface Operation {
  readonly operationId: string
  readonly parameters: { name: string; in: string; required: boolean; schema: Schema }[]
  readonly requestBody?: { required: boolean; content: Record<string, { schema: Schema }> }
  readonly responses: Record<string, unknown>
}
interface Description {
  readonly openapi: string
  readonly info: { title: string; version: string }
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { schemas: Record<string, Schema> }
}

async function described(): Promise<Description> {
  const server = await TestServer.open()
  const reply = await server.get('/openapi.json')
  expect([reply.status, reply.headers['Content-Type']]).toEqual([200, 'application/json'])
  return reply.body as unknown as Description
}

const braces = (path: string): string => path.replaceAll(/\/[:*](\w+)/g, '/{$1}')
const operationsOf = (paths: Description['paths']): [string, Operation][] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
  )

test('every route and every alias is described', async () => {
  const { openapi, info, paths } = await described()
  expect(openapi).toMatch(/^3\.1\./)
  expect(info).toMatchObject({ title: 'Curfew', version: '0.0.0-test' })
  const missing = ROUTES.flatMap(({ method, path, aliases = [] }) => [`${method} ${path}`, ...aliases]).filter(
    (way) => {
      const [method = '', path = ''] = way.split(' ')
      return paths[braces(path)]?.[method.toLowerCase()] === undefined
    },
  )
  expect(missing).toEqual([])
})

test('operation ids are unique, path parameters declared, bodies have schemas, references lead somewhere', async () => {
  const description = await described()
  const operations = operationsOf(description.paths)
  const ids = operations.map(([, { operationId }]) => operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const [way, { parameters, requestBody, responses }] of operations) {
    const named = [...way.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const declared = parameters.filter((parameter) => parameter.in === 'path' && parameter.required)
    expect(declared.map(({ name }) => name)).toEqual(named)
    if (requestBody !== undefined) expect(Object.values(requestBody.content)[0]?.schema).toBeTypeOf('object')
    expect(Object.keys(responses).length).toBeGreaterThan(1)
  }
  for (const [, name] of JSON.stringify(description).matchAll(/#\/components\/schemas\/(\w+)/g)) {
    expect(description.components.schemas).toHaveProperty(name ?? '')
  }
})

test('errors are what the description says they are', async () => {
  const server = await TestServer.open()
  const description = await described()
  const { Error: error = {}, Problem: problem = {} } = description.components.schemas
  for (const url of ['/ojs/v1/jobs/nope', '/nowhere', '/ojs/v1/events?limit=0'])
    expect(checker(description, error)((await server.get(url)).body)).toBe(true)
  for (const url of ['/api/v1/journeys/nope', '/api/v1/nowhere', '/api/v1/journeys?limit=0'])
    expect(checker(description, problem)((await server.get(url)).body)).toBe(true)
})

const ACCEPTED: [string, string, Record<string, unknown>][] = [
  ['POST', '/ojs/v1/jobs', { type: 'a.b', args: [] }],
  [
    'POST',
    '/ojs/v1/jobs',
    { type: 'a', args: [1], timeout: 5, options: { timeout_ms: 5_000, priority: -100 }, x_own: 1 },
  ],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], visibility_timeout: 'PT30S', retry: { max_attempts: 0 } }],
  ['POST', '/ojs/v1/jobs/batch', { jobs: [{ type: 'a', args: [] }] }],
  ['POST', '/ojs/v1/jobs/bulk', { jobs: [{ type: 'a', args: [] }], atomicity: 'partial' }],
  ['POST', '/ojs/v1/jobs/plan', { type: 'a', args: [] }],
  ['POST', '/ojs/v1/workers/fetch', { queues: ['default'], count: 1000, wait_ms: 0, labels: ['x'], runtime: 'wasi' }],
  ['POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: 3, state: 'draining' }],
  ['POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: ['x'], x_leases: { x: 1 } }],
  [
    'POST',
    '/ojs/v1/workers/exchange',
    {
      worker_id: 'w',
      acks: [{ job_id: 'x', x_lease: 1, result: null }],
      nacks: [{ job_id: 'x', requeue: true }],
      checkpoints: [{ job_id: 'x', state: { a: 1 } }],
      beat: { active_jobs: ['x'] },
      fetch: { queues: ['default'] },
    },
  ],
  ['PUT', '/api/v1/job-types/a', { timeout: 5, caps: { total_timeout_ms: 9_000 } }],
  ['PUT', '/ojs/v1/admin/queues/q/config', { default_timeout: 5, default_x_on_timeout: 'retry' }],
]

const REFUSED: [string, string, Record<string, unknown>][] = [
  ['POST', '/ojs/v1/jobs', { args: [] }],
  ['POST', '/ojs/v1/jobs', { type: 'UPPER', args: [] }],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: {} }],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], priority: 101 }],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], timeout: 0 }],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { timeout: 0 } }],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], x_on_timeout: 'x' }],
  ['POST', '/ojs/v1/jobs/batch', { jobs: [] }],
  ['POST', '/ojs/v1/jobs/bulk', { jobs: [] }],
  ['POST', '/ojs/v1/workers/fetch', { queues: [] }],
  ['POST', '/ojs/v1/workers/fetch', { queues: ['a'], count: 0 }],
  ['POST', '/ojs/v1/workers/fetch', { queues: ['a'], count: 1001 }],
  ['POST', '/ojs/v1/workers/heartbeat', { worker_id: '' }],
  ['POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w', state: 'asleep' }],
  ['POST', '/ojs/v1/workers/exchange', { acks: [] }],
  ['POST', '/ojs/v1/workers/exchange', { worker_id: 'w', acks: [{ x_lease: 1 }] }],
  ['POST', '/ojs/v1/workers/exchange', { worker_id: 'w', fetch: {} }],
  ['PUT', '/api/v1/job-types/a', { unknown: 1 }],
  ['PUT', '/ojs/v1/admin/queues/q/config', { default_timeout: 0 }],
]

function schemaOf({ paths }: Description, method: string, url: string): Schema {
  const path = url.replace(/job-types\/a$/, 'job-types/{type}').replace(/queues\/q\//, 'queues/{name}/')
  const content = paths[path]?.[method.toLowerCase()]?.requestBody?.content ?? {}
  return Object.values(content)[0]?.schema ?? {}
}

test('what a schema admits the route takes, and what it does not admit the route refuses', async () => {
  const server = await TestServer.open()
  const description = await described()
  for (const [expected, cases] of [
    [true, ACCEPTED],
    [false, REFUSED],
  ] as const) {
    for (const [method, url, body] of cases) {
      const { status } = await server.call(method, url, body)
      const seen = [method, url, JSON.stringify(body)]
      expect([...seen, status < 300, checker(description, schemaOf(description, method, url))(body)]).toEqual([
        ...seen,
        expected,
        expected,
      ])
    }
  }
})
