/** What journeys take from the server they run on: its configuration, and the API keys it knows. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { openApiKeys } from '../../packages/server/src/api-keys.ts'
import { idle, TestServer, type Reply, type TestOptions } from '../harness.ts'
import { begin, deploy, jsonata, PLAIN, runUrl, succeed, wait } from '../journey-stage.ts'

let server: TestServer

async function open(options: TestOptions = {}): Promise<void> {
  server = await TestServer.open(options)
}
afterEach(() => server.close())

const settings = (platformConfig: Record<string, unknown>): TestOptions => ({ settings: { platformConfig } })

describe('platform.config', () => {
  const config = {
    baseUrl: { type: 'string', required: true, description: 'where links lead' },
    risk: { type: 'object' },
    limit: { type: 'integer' },
  }
  const link = {
    platform: { config },
    start: 'make',
    states: {
      make: {
        type: 'transform',
        transform: {
          mapper: jsonata('{"link": platform.config.baseUrl & "/verify", "all": $keys(platform.config)}'),
          target: { kind: 'var' },
          resultVar: 'made',
        },
        next: 'done',
      },
      done: { type: 'succeed', outputVar: 'made' },
    },
  }

  test('expressions see the values that the definition names, and no others', async () => {
    await open(settings({ baseUrl: 'https://shop.example', limit: 5, other: 'hidden' }))
    await deploy(server, link)
    expect((await begin(server, {})).body).toMatchObject({
      phase: 'SUCCEEDED',
      output: { link: 'https://shop.example/verify', all: ['baseUrl', 'limit'] },
    })
  })

  test.each([
    ['a value that is required and missing', {}, /platform.config.baseUrl has no value on this server/],
    ['a value of another type', { baseUrl: 'x', limit: 1.5 }, /platform.config.limit is not of the type integer/],
  ])('a definition is refused for %s', async (_, values, message) => {
    await open(settings(values))
    await expect(deploy(server, link)).rejects.toThrow(message)
    const judged = await server.call('POST', '/api/v1/definitions:validate', JSON.stringify(definitionOf(link)), PLAIN)
    expect(judged.text).toMatch(message)
  })

  test('a run fails before its first state where the value is gone since', async () => {
    await open(settings({ baseUrl: 'https://shop.example' }))
    await deploy(server, link)
    Object.assign(server.engine.settings, { platformConfig: {} })
    expect((await begin(server, {})).body).toMatchObject({
      terminationKind: 'RuntimeError',
      terminatedAtState: 'make',
      error: { code: 'RUNTIME_CONFIG', reason: expect.stringContaining('platform.config.baseUrl') as string },
    })
  })

  test('outcomes are named by them too', async () => {
    await open(settings({ baseUrl: 'https://shop.example' }))
    const outcomes = {
      shop: { when: { phase: 'SUCCEEDED', predicate: jsonata('platform.config.baseUrl = "https://shop.example"') } },
    }
    await deploy(server, { ...link, outcomes })
    expect((await begin(server, {})).body).toMatchObject({ outcomeId: 'shop' })
  })
})

const definitionOf = (spec: object): object => ({
  apiVersion: 'v1',
  kind: 'Journey',
  metadata: { name: 'story', version: '1.0.0' },
  spec,
})

describe('apiKeyValidate:v1', () => {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-keys-'))
  const file = join(folder, 'keys.yaml')
  const sha256 = createHash('sha256').update('partner-a-key').digest('hex')
  writeFileSync(
    file,
    `default:
  source: { location: header, name: X-Api-Key }
  keys: { partner-a: { sha256: ${sha256} }, partner-b: { secretRef: partners/b } }
nowhere:
  keys: {}
`,
  )
  const apiKeys = openApiKeys(file, { valueOf: (name) => (name === 'partners/b' ? 'partner-b-key' : null) })
  rmSync(folder, { recursive: true })

  const check = (more: object = {}, next = 'done'): object => ({
    type: 'task',
    task: { kind: 'apiKeyValidate:v1', ...more },
    next,
  })
  const start = (headers: Record<string, string> = {}, query = ''): Promise<Reply> =>
    server.call('POST', `/api/v1/journeys/story/start${query}`, { order: 7 }, { ...PLAIN, ...headers })

  test.each([
    ['a key known by its digest', { 'x-api-key': 'partner-a-key' }, { keyId: 'partner-a' }],
    ['a key known as a secret', { 'x-api-key': 'partner-b-key' }, { keyId: 'partner-b' }],
    ['no key', {}, { problem: { code: 'APIKEY_MISSING', status: 401, type: 'urn:curfew:problem:apikey:missing' } }],
    ['an empty key', { 'x-api-key': '' }, { problem: { code: 'APIKEY_MISSING' } }],
    ['another key', { 'x-api-key': 'guessed' }, { problem: { code: 'APIKEY_INVALID', status: 401 } }],
  ])('%s is written to the context, and the run goes on', async (_, headers, apiKey) => {
    await open({ apiKeys })
    await deploy(server, { start: 'check', states: { check: check(), done: succeed } })
    const { body, text } = await start(headers)
    expect(body).toMatchObject({ phase: 'SUCCEEDED', output: { order: 7, auth: { apiKey } } })
    expect(text).not.toContain('partner-a-key')
    expect(text).not.toContain('guessed')
  })

  test('the key may stand in the query, and its verdict elsewhere in the context', async () => {
    await open({ apiKeys })
    const source = { location: 'query', name: 'key' }
    await deploy(server, { start: 'check', states: { check: check({ source, authVar: 'caller' }), done: succeed } })
    const { body } = await start({}, '?key=partner-a-key')
    expect(body).toMatchObject({ output: { caller: { apiKey: { keyId: 'partner-a' } } } })
  })

  test('after a step, it is the one who submitted that counts', async () => {
    await open({ apiKeys })
    const states = { check: check({}, 'ask'), ask: wait({}, 'again'), again: check(), done: succeed }
    await deploy(server, { lifecycle: { startMode: 'async' }, start: 'check', states })
    const { body } = await start({ 'x-api-key': 'partner-a-key' })
    const id = String(body['journeyId'])
    await idle()
    await server.call('POST', `${runUrl(id)}/steps/ask`, { ok: true }, { ...PLAIN, 'x-api-key': 'guessed' })
    await idle()
    const { output } = (await server.get(`${runUrl(id)}/result`)).body as unknown as {
      output: { auth: { apiKey: object } }
    }
    expect(output.auth.apiKey).toMatchObject({ problem: { code: 'APIKEY_INVALID' } })
    expect(output.auth.apiKey).not.toHaveProperty('keyId')
  })

  test.each([
    ['a profile that is not there', { profile: 'other' }, /no profile other/],
    ['a profile that does not say where the key stands', { profile: 'nowhere' }, /says where the key stands/],
  ])('%s fails the run', async (_, more, message) => {
    await open({ apiKeys })
    await deploy(server, { start: 'check', states: { check: check(more), done: succeed } })
    expect((await start()).body).toMatchObject({
      phase: 'FAILED',
      error: { code: 'APIKEY_CONFIG_INVALID', reason: expect.stringMatching(message) as string },
    })
  })

  test('an Api may check keys, and answer 401', async () => {
    await open({ apiKeys })
    const states = {
      check: check({}, 'known'),
      known: {
        type: 'choice',
        choices: [{ when: { predicate: jsonata('$exists(context.auth.apiKey.keyId)') }, next: 'done' }],
        default: 'no',
      },
      no: { type: 'fail', errorCode: 'UNAUTHENTICATED', reason: 'who are you?' },
      done: succeed,
    }
    const bindings = {
      http: { apiResponses: { rules: [{ when: { phase: 'FAILED', errorType: 'UNAUTHENTICATED' }, status: 401 }] } },
    }
    await deploy(server, { bindings, start: 'check', states }, { kind: 'Api', name: 'quote' })
    const ask = (headers: Record<string, string>): Promise<Reply> =>
      server.call('POST', '/api/v1/apis/quote', {}, { ...PLAIN, ...headers })
    expect((await ask({ 'x-api-key': 'partner-a-key' })).status).toBe(200)
    expect((await ask({})).status).toBe(401)
  })
})
