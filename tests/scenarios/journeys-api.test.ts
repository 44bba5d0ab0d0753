/** Definitions of kind Api: one call, one answer, at the latest at the deadline. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { API_PATH, DEFINITION, DEFINITION_VERSION, instant, versionId } from '@curfew/core'
import type { HttpResponse } from '../../packages/server/src/http/api/message.ts'
import { at, idle, TestServer, type Reply } from '../harness.ts'
import { call, deploy, jsonata, PLAIN, succeed, Upstream } from '../journey-stage.ts'

let server: TestServer
let upstream: Upstream

beforeEach(async () => {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send })
})
afterEach(() => server.close())

const execution = { maxDurationSec: 2, onTimeout: { errorCode: 'QUOTE_TIMEOUT', reason: 'no answer came' } }
const asking = {
  start: 'ask',
  states: { ask: call({ timeoutMs: 60_000 }), done: { type: 'succeed', outputVar: 'answer' } },
}
const failing = { start: 'no', states: { no: { type: 'fail', errorCode: 'NO_SUCH_SKU', reason: 'no ${context.sku}' } } }

const deployApi = (spec: object, name = 'quote'): Promise<void> =>
  deploy(server, { execution, ...spec }, { kind: 'Api', name })
const ask = (body?: unknown, path = 'quote'): Promise<Reply> => server.call('POST', `/api/v1/apis/${path}`, body, PLAIN)
const responses = (...rules: object[]): object => ({ bindings: { http: { apiResponses: { rules } } } })

/** A call whose body is still on its way. */
function dripping(): { answer: Promise<HttpResponse>; finish: (body: string) => void } {
  let finish = (_: string): void => {}
  const arriving = new Promise<string>((resolve) => {
    finish = resolve
  })
  const { signal } = new AbortController()
  const request = {
    method: 'POST',
    url: '/api/v1/apis/quote',
    headers: PLAIN,
    body: '',
    signal,
    arriving: () => arriving,
  }
  return { answer: server.handler(request), finish }
}

describe('an Api', () => {
  test('answers with its output alone', async () => {
    await deployApi({ start: 'done', states: { done: succeed } })
    const reply = await ask({ sku: 7 })
    expect([reply.status, reply.headers['Content-Type'], reply.body]).toEqual([200, 'application/json', { sku: 7 }])
    expect((await ask()).body).toEqual({})
  })

  test('answers at the path it chose and at its own name', async () => {
    const bindings = { http: { route: { path: '/apis/prices/v2/quote', method: 'POST' } } }
    await deployApi({ bindings, start: 'done', states: { done: succeed } })
    for (const path of ['prices/v2/quote', 'quote']) expect((await ask({}, path)).status).toBe(200)
    for (const path of ['prices/v2', 'unknown', 'prices/v2/quote/x']) expect((await ask({}, path)).status).toBe(404)
    const wrong = await server.get('/api/v1/apis/quote')
    expect([wrong.status, wrong.headers['Allow']]).toEqual([405, 'POST'])
  })

  test.each([
    [202, 202],
    [205, 200],
    [199, 200],
  ])('whose statusExpr gives %i answers %i with its output', async (made, status) => {
    const rule = { when: { phase: 'SUCCEEDED' }, statusExpr: jsonata(String(made)) }
    await deployApi({ ...responses(rule), start: 'done', states: { done: succeed } })
    expect(await ask({ sku: 7 })).toMatchObject({ status, body: { sku: 7 } })
  })

  test('cannot be started or listed as a journey, nor a journey called as an Api', async () => {
    await deployApi({ start: 'done', states: { done: succeed } })
    await deploy(server, { start: 'done', states: { done: succeed } })
    expect((await ask({}, 'story')).status).toBe(404)
    expect((await server.call('POST', '/api/v1/journeys/quote/start', {}, PLAIN)).status).toBe(404)
    await ask({})
    expect((await server.get('/api/v1/journeys')).body.items).toEqual([])
  })

  test('refuses what does not fit, and stores nothing', async () => {
    await deployApi({
      input: { schema: { type: 'object', required: ['sku'] } },
      start: 'done',
      states: { done: succeed },
    })
    for (const body of [{}, '[]', '{']) {
      const reply = await ask(body)
      expect([reply.status, reply.headers['Content-Type']]).toEqual([400, 'application/problem+json'])
    }
    expect(await server.eventTypes()).toEqual([])
  })
})

describe('an Api that fails', () => {
  test('answers with a problem whose status is the one that is sent', async () => {
    await deployApi(failing)
    const reply = await ask({ sku: 7 })
    expect([reply.status, reply.headers['Content-Type']]).toEqual([500, 'application/problem+json'])
    expect(reply.body).toMatchObject({
      type: 'NO_SUCH_SKU',
      title: 'no 7',
      status: 500,
      code: 'NO_SUCH_SKU',
      reason: 'no 7',
      instance: expect.stringMatching(/^\/api\/v1\/journeys\//) as string,
    })
  })

  test('answers with the status of the first rule that matches', async () => {
    const failed = { phase: 'FAILED' }
    await deployApi({
      ...failing,
      ...responses(
        { when: { ...failed, errorType: 'OTHER' }, status: 400 },
        { when: { ...failed, predicate: jsonata('context.broken.deeper') }, status: 401 },
        { when: { ...failed, predicate: jsonata('context.sku = 8') }, status: 410 },
        { when: { ...failed, predicate: jsonata('context.sku = 9') }, statusExpr: jsonata('error.status + 9') },
        { when: { ...failed, errorType: 'NO_SUCH_SKU' }, status: 404 },
      ),
    })
    for (const [sku, status] of [
      [7, 404],
      [8, 410],
      [9, 509],
    ] as const)
      expect(await ask({ sku })).toMatchObject({ status, body: { status, code: 'NO_SUCH_SKU' } })
  })

  test('answers in the shape its definition gives to errors', async () => {
    const mapper = jsonata('{ "failed": error.code, "http": error.status, "sku": context.sku }')
    await deployApi({
      ...failing,
      ...responses({ when: { phase: 'FAILED' }, status: 404 }),
      errors: { envelope: { format: 'custom', mapper } },
    })
    const reply = await ask({ sku: 7 })
    expect([reply.status, reply.headers['Content-Type']]).toEqual([404, 'application/json'])
    expect(reply.body).toEqual({ failed: 'NO_SUCH_SKU', http: 404, sku: 7 })
  })

  test('by a fault of its own answers 500', async () => {
    const mapper = jsonata('$number("x")')
    const states = {
      think: { type: 'transform', transform: { mapper, target: { kind: 'context' } }, next: 'done' },
      done: succeed,
    }
    await deployApi({ start: 'think', states })
    expect(await ask({})).toMatchObject({ status: 500, body: { code: 'JN_FUNCTION_ERROR', status: 500 } })
  })

  test('is shown and counted like every run', async () => {
    await deployApi(failing)
    const { body } = await ask({ sku: 7 })
    const id = String(body['instance']).split('/').at(-1) ?? ''
    expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.failed'])
    const names = { journey_name: 'quote', journey_version: '1.0.0', kind: 'Api' }
    expect(await server.metric('journey_runs_completed_total', { ...names, phase: 'FAILED' })).toBe(1)
  })
})

describe('an Api whose time is up', () => {
  const turn = async (): Promise<void> => {
    for (let more = 10; more > 0; more -= 1) await new Promise((resolve) => void setImmediate(resolve))
  }
  const answeredAt = (reply: Promise<unknown>): { ms: number | null } => {
    const seen: { ms: number | null } = { ms: null }
    void reply.then(() => (seen.ms = server.clock.now() - instant(Date.parse(at(0)))))
    return seen
  }

  test('is answered at the deadline, whatever it is waiting for', async () => {
    await deployApi(asking)
    const reply = ask({})
    const answered = answeredAt(reply)
    await server.advance(1_999)
    expect(answered.ms).toBeNull()
    await server.advance(1)
    expect(answered.ms).toBe(2_000)
    expect(await reply).toMatchObject({
      status: 504,
      body: { type: 'QUOTE_TIMEOUT', title: 'no answer came', status: 504, code: 'QUOTE_TIMEOUT' },
    })
    expect(upstream.calls[0]?.signal.aborted).toBe(true)
  })

  test('answers with the status its rules choose for that', async () => {
    await deployApi({ ...asking, ...responses({ when: { phase: 'FAILED', errorType: 'QUOTE_TIMEOUT' }, status: 503 }) })
    const reply = ask({})
    await server.advance(2_000)
    expect(await reply).toMatchObject({ status: 503, body: { status: 503, code: 'QUOTE_TIMEOUT' } })
  })

  test('pays for its body: a call that comes late has less time left', async () => {
    await deployApi(asking)
    const { answer, finish } = dripping()
    await server.advance(1_500)
    finish('{"sku":7}')
    const answered = answeredAt(answer)
    await server.advance(499)
    expect(upstream.calls).toHaveLength(1)
    expect(answered.ms).toBeNull()
    await server.advance(1)
    expect(answered.ms).toBe(2_000)
    expect(await answer).toMatchObject({ status: 504 })
  })

  test('is answered at the deadline even while its body still drips, and counted', async () => {
    await deployApi({ ...asking, input: { schema: { type: 'object', required: ['sku'] } } })
    const { answer, finish } = dripping()
    const answered = answeredAt(answer)
    await server.advance(2_000)
    expect(answered.ms).toBe(2_000)
    expect(await answer).toMatchObject({ status: 504 })
    finish('{}')
    await idle()
    expect(upstream.calls).toEqual([])
    const labels = { journey_name: 'quote', kind: 'Api', limited_by: 'spec', at_state_type: 'none' }
    expect(await server.metric('journey_run_timeouts_total', labels)).toBe(1)
  })

  test('with a body that came in time is served as ever', async () => {
    await deployApi({ start: 'done', states: { done: succeed } })
    const { answer, finish } = dripping()
    await server.advance(1_999)
    finish('{"sku":7}')
    expect(await answer).toMatchObject({ status: 200, body: '{"sku":7}' })
  })

  test('is answered even if the store does not', async () => {
    await deployApi(asking)
    const reply = ask({})
    await idle()
    const answered = answeredAt(reply)
    const { store } = server
    const transaction = store.transaction.bind(store)
    let wakeUp = (): void => {}
    const silence = new Promise<void>((resolve) => {
      wakeUp = resolve
    })
    store.transaction = async (work) => {
      await silence
      return transaction(work)
    }
    // Not by the server's own words, which wait until all that was asked for has come.
    server.clock.advance(2_249)
    await turn()
    expect(answered.ms).toBeNull()
    server.clock.advance(1)
    await turn()
    expect(answered.ms).toBe(2_250)
    expect(await reply).toMatchObject({ status: 504, body: { code: 'QUOTE_TIMEOUT' } })
    expect((await reply).body).not.toHaveProperty('instance')
    wakeUp()
    Reflect.deleteProperty(store, 'transaction')
    await idle()
  })
})

test('a call whose server stops gets the advice to try another one', async () => {
  await deployApi(asking)
  const reply = ask({})
  await idle()
  server.engine.beginClose()
  expect(await reply).toMatchObject({ status: 503 })
})

test('a definition that an older server has accepted goes on, and tells no failure as a success', async () => {
  const bindings = {
    http: { apiResponses: { rules: [{ when: { phase: 'FAILED' }, status: 200 }], default: { FAILED: 150 } } },
  }
  const name = 'old'
  const metadata = { name, version: '1.0.0' }
  const source = { apiVersion: 'v1', kind: 'Api', metadata, spec: { execution, bindings, ...failing } }
  const paths = ['/apis/old']
  await server.engine.run({
    name: 'deploy',
    run: (unit) => {
      const common = { ...metadata, kind: 'Api' as const }
      unit.addDoc(DEFINITION, name, { ...common, versions: ['1.0.0'], paths, updatedAt: unit.now })
      unit.addDoc(DEFINITION_VERSION, versionId(name, '1.0.0'), {
        ...common,
        source,
        warnings: [],
        deployedAt: unit.now,
      })
      unit.addDoc(API_PATH, '/apis/old', { name })
    },
  })
  expect(await ask({ sku: 7 }, 'old')).toMatchObject({ status: 500, body: { code: 'NO_SUCH_SKU', status: 500 } })
})
