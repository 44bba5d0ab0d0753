/** Every operation of the description, with every role and without a token: exactly those that it names may call it. */
import { beforeAll, describe, expect, test } from 'vitest'
import { ROLES, rolesWithin, type Role } from '@curfew/core'
import { ROUTES } from '../../packages/server/src/http/api/app.ts'
import { ROLES_OF, rolesOf } from '../../packages/server/src/http/api/roles.ts'
import { TestServer } from '../harness.ts'

interface Operation {
  readonly operationId: string
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly 'x-roles'?: readonly Role[]
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const ADMIN = { authorization: 'Bearer secret' }
let server: TestServer
let operations: [string, string, Operation][] = []
const tokens = new Map<Role | null, string>()

beforeAll(async () => {
  server = await TestServer.open({ token: 'secret', settings: { conformance: false } })
  const document = JSON.parse((await server.get('/openapi.json', ADMIN)).text) as Document
  operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, Operation] => [
      method.toUpperCase(),
      path,
      operation,
    ]),
  )
  for (const role of ROLES) {
    const { body } = await server.call('POST', '/api/v1/tokens', { name: `only-${role}`, roles: [role] }, ADMIN)
    tokens.set(role, body['token'] as string)
  }
})

/** Whether the call came past the door: whatever it says then, it is neither 401 nor 403. */
async function outcome(method: string, path: string, token: string | null): Promise<number | 'in'> {
  const url = path.replaceAll(/\{\w+\}/g, 'nothing-like-this')
  const gone = new AbortController()
  const authorization = token === null ? {} : { authorization: `Bearer ${token}` }
  // A body that is refused by its form: nothing waits, and nothing changes.
  const headers = { 'content-type': 'application/json', ...authorization }
  const body = method === 'GET' ? '' : '['
  const { status, body: answer } = await server.handler({ method, url, headers, body, signal: gone.signal })
  if (typeof answer !== 'string') gone.abort()
  return status === 401 || status === 403 ? status : 'in'
}

test('every operation says who may call it', () => {
  const silent = operations.filter(([, , { security, 'x-roles': roles }]) =>
    security === undefined ? roles?.includes('admin') !== true : JSON.stringify(security) !== '[{}]',
  )
  expect(silent.map(([method, path]) => `${method} ${path}`)).toEqual([])
  expect(operations.length).toBeGreaterThan(150)
})

describe.each([...ROLES, null])('with the role %s', (role) => {
  test('exactly the operations that name it answer', async () => {
    const wrong: string[] = []
    for (const [method, path, { 'x-roles': roles, security }] of operations) {
      const isOpen = JSON.stringify(security) === '[{}]'
      const may = isOpen || (role !== null && rolesWithin([role]).some((one) => roles?.includes(one) === true))
      const expected = may ? 'in' : role === null ? 401 : 403
      const found = await outcome(method, path, tokens.get(role) ?? null)
      if (found !== expected) wrong.push(`${method} ${path}: ${String(found)} instead of ${String(expected)}`)
    }
    expect(wrong).toEqual([])
  }, 60_000)
})

test('every route that is not a GET is named in the table, and the table names no route that is not there', () => {
  const ways = new Set([...ROUTES.map(({ method, path }) => `${method} ${path}`), 'GET /openapi.json'])
  const unnamed = ROUTES.filter(
    ({ method, path, open }) => method !== 'GET' && open !== true && ROLES_OF[`${method} ${path}`] === undefined,
  )
  expect(unnamed.map(({ method, path }) => `${method} ${path}`)).toEqual([])
  expect(Object.keys(ROLES_OF).filter((way) => !ways.has(way))).toEqual([])
})

test('a route that the table does not name is closed', () => {
  expect(rolesOf({ method: 'POST', path: '/ojs/v1/brand-new' })).toEqual(['admin'])
  expect(rolesOf({ method: 'GET', path: '/ojs/v1/brand-new' })).toEqual(['read'])
})

test('paths that only a fault of a client leads to ask for the same roles', async () => {
  for (const { method, quirks = [] } of ROUTES)
    for (const quirk of quirks) {
      const [verb = method, path = ''] = quirk.split(' ')
      const url = path.replaceAll(/:\w+/g, '{id}')
      expect([quirk, await outcome(verb, url, tokens.get('produce') ?? null)]).toEqual([quirk, 403])
      expect([quirk, await outcome(verb, url, tokens.get('work') ?? null)]).toEqual([quirk, 'in'])
    }
})

test('only callers with a token learn that a path does not exist', async () => {
  for (const role of ROLES) expect(await outcome('GET', '/nowhere', tokens.get(role) ?? null)).toBe('in')
  expect(await outcome('GET', '/nowhere', null)).toBe(401)
})
