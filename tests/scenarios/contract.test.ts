/**
 * The description is the contract. Every operation of `/openapi.json` is played: requests that fit it are never refused
 * for their form, requests that do not fit it are always refused, and every answer has a status, a media type and a body
 * that the description announces.
 */
import { validate } from '@hyperjump/json-schema/openapi-3-1'
import { seededRandom } from '@curfew/core'
import { beforeAll, describe, expect, test } from 'vitest'
import { ROUTES } from '../../packages/server/src/http/api/app.ts'
import { ANSWERS } from '../../packages/server/src/http/api/answer-schemas.ts'
import type { Store } from '../../packages/server/src/store/store.ts'
import { idle, TestServer } from '../harness.ts'
import { breakable, onPostgres, openTestStore } from '../stores.ts'
import { checker, mutations, Values, type Contract, type Schema } from './contract-values.ts'

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly schema: Schema
}
interface Response {
  readonly $ref?: string
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>
}
interface Operation {
  readonly operationId: string
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { required: boolean; content: Readonly<Record<string, { readonly schema: Schema }>> }
  readonly responses: Readonly<Record<string, Response>>
}
interface Document extends Contract {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: Contract['components'] & { readonly responses: Readonly<Record<string, Response>> }
}

/** What does not fit is refused before any store is asked: that is played at length on one of them. */
const [VALID, INVALID] = [6, onPostgres() ? 4 : 40]

/** Refusals of requests that fit: rules that JSON Schema cannot say, each with a message that names the field. */
const RULES: readonly RegExp[] = [
  /are both given and differ|workflow_timeout_ms must not differ/,
  /must not be shorter than/,
  /job_id differs from the id in the path/,
  /x_inherit_deadline needs x_parent|x_parent names a \w+ that does not exist/,
  /(type is given twice|version differs|name differs)/,
  /weights names|Weights have an effect only/,
  /(timezone|expression|cron) must be|cron expression|cron and expression mean the same/,
  /The schema cannot be registered/,
  /The definition has /,
  /only with --clock manual/,
  /must not lie in the future/,
  /x_parent must (be JSON|be an object|name exactly one)/,
  /This filter is empty and means every job/,
  /is given beside job_template/,
  /every job would end by it/,
  /meta must be a JSON object/,
  /must be the id of an event of this server/,
  /0 is allowed only with listen/,
  /Two steps have the id|There is no step/,
  /cursor must be a next_cursor from an earlier answer to the same filter/,
  /is not counted by/,
  /from is further back than the series is kept|(from|to) must not lie in the future|to must not be before from/,
]

let server: TestServer
let document: Document
let values: Values

async function open(store?: Store): Promise<void> {
  const answer = { status: 200, headers: {}, body: '{}', truncated: false }
  server = await TestServer.open({
    ...(store === undefined ? {} : { store }),
    send: () => Promise.resolve(answer as never),
    settings: { allowPrivateNetwork: true },
    // Tokens are made and revoked here: the one of the command line stays.
    token: 'secret',
    headers: TOKEN,
  })
}

const TOKEN = { authorization: 'Bearer secret' }

const DEFINITION = `
apiVersion: v1
kind: Journey
metadata: { name: quote, version: 1.0.0 }
spec:
  start: ask
  states:
    ask: { type: wait, wait: { channel: manual, input: { schema: {} } }, next: done }
    done: { type: succeed }
`

/** Made anew now and then: operations remove what they find. */
let found: { readonly there: Record<string, readonly string[]>; uses: number } = { there: {}, uses: 0 }
async function furnished(): Promise<Record<string, readonly string[]>> {
  if (found.uses === 0) {
    await open()
    found = { there: await furnish(), uses: 12 }
  }
  found.uses -= 1
  return found.there
}

/** What there is to be found by a path. */
async function furnish(): Promise<Record<string, readonly string[]>> {
  const body = async (method: string, url: string, sent?: unknown): Promise<Record<string, string>> =>
    (await server.call(method, url, sent)).body
  const idle = await server.enqueue()
  await server.register('w1')
  await server.enqueue({ queue: 'busy' })
  const active = (await server.fetch({ queues: ['busy'], worker_id: 'w1' })).body.job.id
  const dead = await server.enqueue({ queue: 'dead', retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  await server.fetch({ queues: ['dead'] })
  await server.nack(dead)
  await body('POST', '/ojs/v1/cron', { name: 'nightly', expression: '0 0 * * *', type: 'a', args: [] })
  await body('PUT', '/ojs/v1/admin/pools/p', { queues: ['default'] })
  await body('PUT', '/ojs/v1/admin/schemas/a.b/1', { schema: {} })
  await body('PUT', '/api/v1/job-types/a.b', { timeout: 5 })
  await body('PUT', '/ojs/v1/admin/queues/busy/rate-limit', { concurrency: 5 })
  await server.call('PUT', '/api/v1/definitions/quote', DEFINITION, { 'content-type': 'application/yaml' })
  const run = (await body('POST', '/api/v1/journeys/quote/start', {}))['journeyId'] ?? 'none'
  const flow = await body('POST', '/ojs/v1/workflows', { type: 'chain', steps: [{ type: 'a', args: [] }] })
  const hook = await body('POST', '/ojs/v1/webhooks/subscriptions', {
    url: 'https://a.example/',
    events: ['queue.drained'],
  })
  await body('POST', '/api/v1/tokens', { name: 'ci', roles: ['read'] })
  await body('POST', '/api/v1/tokens', { name: 'gone', roles: ['read'] })
  await body('DELETE', '/api/v1/tokens/gone')
  const jobs = [idle, active, dead]
  return {
    jobs,
    checkpoints: jobs,
    'dead-letter': [dead],
    queues: ['default', 'busy'],
    workers: ['w1'],
    cron: ['nightly'],
    pools: ['p'],
    schemas: ['a.b'],
    version: ['1'],
    'job-types': ['a.b'],
    definitions: ['quote'],
    journeys: [run, 'quote'],
    steps: ['ask'],
    workflows: [flow['id'] ?? 'none'],
    subscriptions: [hook['id'] ?? 'none'],
    tenants: ['acme'],
    tokens: ['ci', 'gone'],
    apis: ['quote'],
  }
}

interface Played {
  readonly status: number
  readonly media: string
  readonly body: unknown
  readonly text: string
}

/** Calls that wait are let wait to their end; streams are only opened. */
async function play(method: string, url: string, body: string | null, media: string): Promise<Played> {
  const gone = new AbortController()
  const headers = { ...TOKEN, ...(body === null ? {} : { 'content-type': media }) }
  const calling = server.handler({ method, url, headers, body: body ?? '', signal: gone.signal })
  const state = { isOver: false }
  void calling.finally(() => (state.isOver = true))
  for (let turns = 0; !state.isOver && turns < 20; turns += 1) await idle()
  for (let turns = 0; !state.isOver && turns < 50; turns += 1) await server.advance(10_000)
  const { status, headers: sent, body: text } = await calling
  const type = (sent['Content-Type'] ?? '').split(';')[0] ?? ''
  if (typeof text !== 'string') {
    gone.abort()
    return { status, media: type, body: '', text: '' }
  }
  const isJson = type.endsWith('json')
  return { status, media: type, body: isJson ? (JSON.parse(text) as unknown) : text, text }
}

/** What is wrong with an answer; null: nothing. */
function fault({ responses, operationId }: Operation, { status, media, body }: Played): string | null {
  const isChosen = operationId.startsWith('post_api_v1_apis')
  const declared = responses[String(status)] ?? (isChosen ? responses['default'] : undefined)
  if (declared === undefined) return `status ${String(status)} is not declared`
  const { content } =
    declared.$ref === undefined
      ? declared
      : (document.components.responses[declared.$ref.split('/').at(-1) ?? ''] ?? {})
  if (content === undefined) return media === '' ? null : `a body that is not declared, as ${media}`
  const schema = content[media]?.schema
  if (schema === undefined) return `${media} is not declared for ${String(status)}`
  return answerFits(schema)(body) ? null : `an answer that does not fit: ${JSON.stringify(body).slice(0, 300)}`
}

const checkers = new Map<Schema, (value: unknown) => boolean>()
function answerFits(schema: Schema): (value: unknown) => boolean {
  const known = checkers.get(schema) ?? checker(document, schema)
  checkers.set(schema, known)
  return known
}

function urlOf(
  path: string,
  operation: Operation,
  there: Record<string, readonly string[]>,
  withQuery: boolean,
): string {
  const filled = path
    .replaceAll(/([\w-]+)\/\{(\w+)\}/g, (_, before: string, name: string) => {
      const known = there[name === 'version' ? 'version' : before] ?? ['unknown']
      return `${before}/${encodeURIComponent(values.pick(known))}`
    })
    .replaceAll(/\{version\}/g, '1')
  if (!withQuery) return filled
  const query = new URLSearchParams()
  for (const { name, schema } of operation.parameters.filter(
    (parameter) => parameter.in === 'query' && parameter.name !== 'bound',
  )) {
    const [value] = values.some(schema, answerFits(schema), 1)
    if (values.pick([true, false, false])) query.set(name, Array.isArray(value) ? value.join(',') : String(value))
  }
  return `${filled}?${query.toString()}`
}

const operations = (): [string, string, Operation][] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, Operation] => [
      method.toUpperCase(),
      path,
      operation,
    ]),
  )

/** Every so many of them, up to a number. */
function some(all: Iterable<unknown>): unknown[] {
  const list = [...all]
  const step = Math.max(1, Math.ceil(list.length / 100))
  return list.filter((_, index) => index % step === 0)
}

const textOf = (value: unknown, media: string): string =>
  media.includes('yaml') && typeof value === 'string' ? value : JSON.stringify(value)

/** Where each entry is answered by itself, nothing was said about the whole. */
function messageIn({ body }: Played): string | null {
  const { error, detail, items } = body as { error?: { message?: string }; detail?: string; items?: unknown }
  return error?.message ?? detail ?? (items === undefined ? '' : null)
}

beforeAll(async () => {
  await open()
  document = JSON.parse((await server.get('/openapi.json')).text) as Document
  values = new Values(document, seededRandom(2_026))
})

test('is a valid OpenAPI 3.1 document, its schemas included', async () => {
  const checked = await validate('https://spec.openapis.org/oas/3.1/schema-base', document as never, 'BASIC')
  expect(checked).toMatchObject({ valid: true })
})

test('says what every route answers, of no route that is not there, and is small and quick', async () => {
  const known = [...ROUTES.map(({ method, path }) => `${method} ${path}`), 'GET /openapi.json']
  expect(known.filter((way) => ANSWERS[way] === undefined)).toEqual([])
  expect(Object.keys(ANSWERS).filter((way) => !known.includes(way))).toEqual([])
  const { text } = await server.get('/openapi.json')
  expect(text.length).toBeLessThan(350_000)
  expect((await server.get('/openapi.json')).text).toBe(text)
})

test('names no path twice, no parameter that is not in its path, and no version prefix twice', () => {
  const paths = Object.keys(document.paths)
  expect(paths.filter((path) => /\/v1\/.*\/v1\//.test(path) || /[^/]\{/.test(path))).toEqual([])
  const ids = operations().map(([, , { operationId }]) => operationId)
  expect(new Set(ids).size).toBe(ids.length)
})

describe('every operation', () => {
  test('takes what fits, and answers as announced', async () => {
    const faults: string[] = []
    for (const [method, path, operation] of operations()) {
      if (path === '/ojs/v1/admin/reset') continue
      const there = await furnished()
      const contents = Object.entries(operation.requestBody?.content ?? { none: { schema: {} } }).slice(0, 1)
      for (const [media, { schema }] of contents) {
        const isNone = operation.requestBody === undefined
        const samples = isNone ? [null, null] : values.some(schema, answerFits(schema), VALID)
        if (samples.length === 0) faults.push(`${method} ${path}: no value fits its schema`)
        for (const sample of samples) {
          const url = urlOf(path, operation, there, true)
          const sent = isNone ? null : textOf(sample, media)
          const played = await play(method, url, sent, media)
          const wrong = fault(operation, played)
          const message = messageIn(played)
          const isRule = message === null || RULES.some((rule) => rule.test(message))
          if (wrong !== null) faults.push(`${method} ${url} ${wrong} <- ${String(sent).slice(0, 300)}`)
          if ((played.status === 400 || played.status === 422) && !isRule)
            faults.push(`${method} ${url} ${String(played.status)} ${String(message)} <- ${String(sent).slice(0, 400)}`)
        }
      }
    }
    expect(faults).toEqual([])
  }, 120_000)

  test('refuses what does not fit', async () => {
    const faults: string[] = []
    for (const [method, path, operation] of operations()) {
      const [media, described] =
        Object.entries(operation.requestBody?.content ?? {}).find(([type]) => type.endsWith('json')) ?? []
      if (media === undefined || described === undefined) continue
      const there = await furnished()
      const fits = answerFits(described.schema)
      const [first, ...more] = values.some(described.schema, fits, VALID)
      const all = [...some(mutations(more.at(-1) ?? first)), ...some(mutations(first))].filter((value) => !fits(value))
      const step = Math.max(1, Math.floor(all.length / INVALID))
      for (const value of all.filter((_, index) => index % step === 0)) {
        const url = urlOf(path, operation, there, false)
        const played = await play(method, url, JSON.stringify(value), media)
        const wrong = fault(operation, played)
        if (wrong !== null) faults.push(`${method} ${url} ${wrong}`)
        // An id that is not known may be found out first.
        if (played.status < 400 || played.status >= 500)
          faults.push(`${method} ${url} ${String(played.status)} <- ${JSON.stringify(value).slice(0, 400)}`)
      }
    }
    expect(faults).toEqual([])
  }, 120_000)

  test('refuses query parameters that do not fit', async () => {
    const faults: string[] = []
    for (const [method, path, operation] of operations()) {
      const there = await furnished()
      for (const { name, schema } of operation.parameters.filter((parameter) => parameter.in === 'query')) {
        for (const value of ['-1', '1.5', 'ÄÖ !', 'maybe']) {
          const isNumber = schema['type'] === 'integer'
          const read = isNumber ? Number(value) : value
          if (name === 'bound' || schema['type'] === 'array' || answerFits(schema)(read)) continue
          const { status } = await play(
            method,
            `${urlOf(path, operation, there, false)}?${name}=${encodeURIComponent(value)}`,
            operation.requestBody === undefined ? null : '{}',
            'application/json',
          )
          if (status < 400 || status >= 500) faults.push(`${method} ${path} ${name}=${value}: ${String(status)}`)
        }
      }
    }
    expect(faults).toEqual([])
  }, 120_000)

  test('is refused or answered while the store fails, and is never a fault of the server', async () => {
    const { store, fails } = breakable(await openTestStore())
    await open(store)
    const there = await furnish()
    fails(true)
    const faults: string[] = []
    for (const [method, path, operation] of operations()) {
      if (path === '/ojs/v1/admin/reset') continue
      const [media = '', described] = Object.entries(operation.requestBody?.content ?? {})[0] ?? []
      const [sample = null] =
        described === undefined ? [] : values.some(described.schema, answerFits(described.schema), 1)
      const sent = described === undefined ? null : textOf(sample, media)
      const url = urlOf(path, operation, there, false)
      const { status } = await play(method, url, sent, media)
      if (status >= 500 && status !== 503) faults.push(`${method} ${url} ${String(status)}`)
    }
    expect(faults).toEqual([])
  }, 120_000)
})
