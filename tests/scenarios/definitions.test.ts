/** Definitions: judged, deployed, replaced, rolled back and read again. */
import { days, hours } from '@curfew/core'
import { afterEach, describe, expect, test } from 'vitest'
import { TestServer, type Reply } from '../harness.ts'

let server: TestServer
afterEach(() => server.close())

const open = async (options: Parameters<typeof TestServer.open>[0] = {}): Promise<void> => {
  server = await TestServer.open(options)
}
const YAML = { 'content-type': 'application/yaml; charset=utf-8' }
const put = (name: string, text: string, headers: Record<string, string> = YAML): Promise<Reply> =>
  server.call('PUT', `/api/v1/definitions/${name}`, text, headers)
const validate = (text: string): Promise<Reply> => server.call('POST', '/api/v1/definitions:validate', text, YAML)
const get = (path: string): Promise<Reply> => server.get(`/api/v1/definitions${path}`)

const journey = (name: string, version: string, reason = 'no'): string => `# a comment
apiVersion: v1
kind: Journey
metadata: { name: ${name}, version: '${version}' }
spec:
  execution: { maxDurationSec: 30, onTimeout: { errorCode: LATE, reason: too late } }
  start: stop
  states:
    stop: { type: fail, errorCode: NO, reason: '${reason}' }
`
const api = (name: string, version: string, path: string | null = null): string => `apiVersion: v1
kind: Api
metadata: { name: ${name}, version: '${version}' }
spec:
${path === null ? '' : `  bindings: { http: { route: { path: ${path} } } }\n`}  start: end
  states: { end: { type: succeed } }
`

describe('deploying', () => {
  test('a new version is answered with what a run of it may take, and is in force', async () => {
    await open()
    const made = await put('orders', journey('orders', '1.0.0'))
    expect(made.status).toBe(201)
    expect(made.headers['Content-Type']).toBe('application/json')
    expect(made.body).toEqual({
      name: 'orders',
      version: '1.0.0',
      kind: 'Journey',
      effectiveMaxDurationSec: 30,
      warnings: [],
    })
    const { body } = await get('/orders')
    expect(body).toMatchObject({ version: '1.0.0', versions: ['1.0.0'], effectiveMaxDurationSec: 30, warnings: [] })
    expect(body['definition']).toMatchObject({ kind: 'Journey', spec: { start: 'stop' } })
  })

  test('the same content again changes nothing, however it is written', async () => {
    await open()
    await put('orders', journey('orders', '1.0.0'))
    const { definition } = (await get('/orders')).body
    const turned = JSON.stringify(definition, Object.keys(flat(definition)).reverse())
    const again = await put('orders', turned, { 'content-type': 'application/json' })
    expect(again.status).toBe(200)
    expect(again.body).toMatchObject({ name: 'orders', version: '1.0.0' })
    expect((await get('/orders')).body['versions']).toEqual(['1.0.0'])
  })

  test('a version does not change: other content is refused, and leaves it as it was', async () => {
    await open()
    await put('orders', journey('orders', '1.0.0'))
    const other = await put('orders', journey('orders', '1.0.0', 'never'))
    expect(other.status).toBe(409)
    expect(other.headers['Content-Type']).toBe('application/problem+json')
    expect(other.body).toMatchObject({ reason: 'version_exists', detail: expect.stringContaining('1.0.0') })
    expect(JSON.stringify((await get('/orders')).body['definition'])).not.toContain('never')
  })

  test('the last deployment is in force, so a rollback is deploying the old file again', async () => {
    await open()
    await put('orders', journey('orders', '1.0.0'))
    await put('orders', journey('orders', '2.0.0', 'never'))
    expect((await get('/orders')).body).toMatchObject({ version: '2.0.0', versions: ['1.0.0', '2.0.0'] })
    expect((await put('orders', journey('orders', '1.0.0'))).status).toBe(200)
    expect((await get('/orders')).body).toMatchObject({ version: '1.0.0', versions: ['1.0.0', '2.0.0'] })
    expect((await get('/orders?version=2.0.0')).body).toMatchObject({ version: '2.0.0', inForce: '1.0.0' })
  })

  test('a budget above the cap is accepted, clamped and told', async () => {
    await open({ limits: { run: { defaultMs: hours(1), capMs: hours(2) } } })
    const text = journey('orders', '1.0.0').replace('maxDurationSec: 30', 'maxDurationSec: 90000')
    const { status, body } = await put(
      'orders',
      text.replace('  start:', '  lifecycle: { startMode: async }\n  start:'),
    )
    expect(status).toBe(201)
    expect(body).toMatchObject({
      effectiveMaxDurationSec: 7200,
      warnings: [{ code: 'EXEC-2', path: '/spec/execution/maxDurationSec', line: 6, column: 32 }],
    })
    expect((await get('/orders')).body).toMatchObject({ warnings: [{ code: 'EXEC-2', line: 6 }] })
  })

  test('without a budget of its own it has the default', async () => {
    await open({ limits: { run: { defaultMs: hours(1), capMs: days(2) } } })
    expect((await put('quotes', api('quotes', '1'))).body).toMatchObject({ kind: 'Api', effectiveMaxDurationSec: 3600 })
  })

  test('all mistakes are reported together, and nothing is stored', async () => {
    await open()
    const { status, headers, body } = await put('orders', journey('bestellungen', '1.0.0').replace('stop:', 'halt:'))
    expect(status).toBe(422)
    expect(headers['Content-Type']).toBe('application/problem+json')
    expect(body).toMatchObject({ status: 422, code: 'validation_error', warnings: [] })
    expect(body['errors']).toMatchObject([
      { code: 'NAME-2', path: '/metadata/name', line: 4, column: 19 },
      { code: 'GRAPH-1', path: '/spec/start', line: 7, column: 10 },
    ])
    expect((await get('/orders')).status).toBe(404)
    expect((await get('')).body).toEqual({ items: [], nextPageToken: null })
  })

  test('a text that does not parse is reported with its place', async () => {
    await open()
    const { status, body } = await put('orders', 'apiVersion: v1\nkind: [\n')
    expect(status).toBe(422)
    expect(body['errors']).toMatchObject([{ code: 'SYNTAX-1', line: 3 }])
  })

  test.each(['application/yaml', 'text/yaml', 'application/x-yaml', 'application/json'])('%s is read', async (type) => {
    await open()
    expect((await put('orders', journey('orders', '1'), { 'content-type': type })).status).toBe(201)
  })

  test('another media type is refused', async () => {
    await open()
    const { status, body } = await put('orders', journey('orders', '1'), { 'content-type': 'text/html' })
    expect(status).toBe(400)
    expect(body).toMatchObject({ header: 'Content-Type' })
  })

  test('needs the token, like everything else', async () => {
    await open({ token: 'secret' })
    expect((await put('orders', journey('orders', '1'))).status).toBe(401)
    expect((await validate(journey('orders', '1'))).status).toBe(401)
    expect((await put('orders', journey('orders', '1'), { ...YAML, authorization: 'Bearer secret' })).status).toBe(201)
  })
})

describe('paths of Apis', () => {
  test('no two definitions answer at one path, by route or by name', async () => {
    await open()
    expect((await put('quotes', api('quotes', '1', '/apis/prices'))).status).toBe(201)
    const taken = await put('others', api('others', '1', '/apis/prices'))
    expect(taken.status).toBe(409)
    expect(taken.body).toMatchObject({
      code: 'conflict',
      held_by: 'quotes',
      errors: [{ code: 'ROUTE-1', path: '/spec/bindings/http/route/path', line: 5, column: 38 }],
    })
    expect((await put('others', api('others', '1', '/apis/quotes'))).status).toBe(409)
    expect((await put('prices', api('prices', '1'))).status).toBe(409)
    expect((await get('/others')).status).toBe(404)
    expect((await validate(api('prices', '1'))).body).toMatchObject({
      valid: false,
      errors: [{ code: 'ROUTE-1', message: expect.stringContaining('quotes') }],
    })
  })

  test('a path is free again when the version in force no longer has it', async () => {
    await open()
    await put('quotes', api('quotes', '1', '/apis/prices'))
    await put('quotes', api('quotes', '2'))
    expect((await put('prices', api('prices', '1'))).status).toBe(201)
    // And so the old version cannot come back.
    expect((await put('quotes', api('quotes', '1', '/apis/prices'))).status).toBe(409)
    expect((await get('/quotes')).body).toMatchObject({ version: '2' })
  })

  test('two at once: one of them gets it', async () => {
    await open()
    const replies = await Promise.all(['a', 'b', 'c'].map((name) => put(name, api(name, '1', '/apis/shared'))))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, 409, 409])
  })
})

describe('validating', () => {
  test('always answers, with both lists', async () => {
    await open()
    expect(await validate(journey('orders', '1.0.0'))).toMatchObject({
      status: 200,
      body: { valid: true, name: 'orders', effectiveMaxDurationSec: 30, errors: [], warnings: [] },
    })
    const bad = await validate(journey('orders', '1.0.0').replace('Journey', 'Workflow').replace('NO', "''"))
    expect(bad).toMatchObject({
      status: 200,
      body: {
        valid: false,
        errors: [{ code: 'SHAPE-1', path: '/spec/states/stop/errorCode', line: 9, column: 36 }],
        warnings: [{ code: 'DEPR-1', path: '/kind', line: 3, column: 7 }],
      },
    })
    expect(await validate('')).toMatchObject({ status: 200, body: { valid: false, errors: [{ code: 'SYNTAX-1' }] } })
    expect((await get('')).body.items).toEqual([])
  })
})

describe('finding', () => {
  test('lists what is in force by name, page by page', async () => {
    await open()
    for (const name of ['b', 'c', 'a']) await put(name, journey(name, '1'))
    await put('b', journey('b', '2', 'never'))
    const first = (await get('?limit=2')).body
    expect(first).toMatchObject({
      items: [
        { name: 'a', version: '1', kind: 'Journey' },
        { name: 'b', version: '2', versions: ['1', '2'] },
      ],
      nextPageToken: 'b',
    })
    expect((await get(`?limit=2&pageToken=${String(first['nextPageToken'])}`)).body).toMatchObject({
      items: [{ name: 'c' }],
      nextPageToken: null,
    })
    expect((await get('?pageToken=../x')).status).toBe(400)
  })

  test('what is not there is not there', async () => {
    await open()
    await put('orders', journey('orders', '1'))
    for (const path of ['/nothing', '/orders?version=2', '/__proto__']) expect((await get(path)).status).toBe(404)
  })
})

/** Every key there is in it: the order in which JSON.stringify is to write them. */
function flat(value: unknown): Record<string, true> {
  if (typeof value !== 'object' || value === null) return {}
  return Object.assign(
    Object.fromEntries(Object.keys(value).map((key) => [key, true as const])),
    ...Object.values(value).map(flat),
  ) as Record<string, true>
}
