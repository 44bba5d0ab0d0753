/** HTTP calls of runs, told through the API: what is sent, what is kept of the answer, and whose time is up first. */
import { afterEach, describe, expect, test } from 'vitest'
import {
  BLOCKED,
  CallFailed,
  CallRefused,
  type OutgoingAnswer,
  type OutgoingCall,
} from '../../packages/server/src/engine/outgoing.ts'
import { at, idle, TestServer, type Reply } from '../harness.ts'

type Reaction = Partial<OutgoingAnswer> | Error | 'silence'

/** Others: what they were sent and when, how long they take, and what they say to it. */
class World {
  readonly calls: (OutgoingCall & { readonly at: number })[] = []
  react: (call: OutgoingCall, count: number) => Reaction = () => ({})
  afterMs = 0
  server: TestServer | null = null

  readonly send = async (call: OutgoingCall): Promise<OutgoingAnswer> => {
    this.calls.push({ ...call, at: (this.server?.clock.now() ?? 0) - Date.parse(at(0)) })
    const reaction = this.react(call, this.calls.length)
    await new Promise<void>((resolve, reject) => {
      call.signal.addEventListener('abort', () => {
        reject(new CallFailed('the time was up', null))
      })
      if (reaction === 'silence') return
      if (this.afterMs === 0) resolve()
      else this.server?.clock.setTimer(this.afterMs, resolve)
    })
    if (reaction instanceof Error) throw reaction
    return { status: 200, headers: {}, body: '', truncated: false, ...(reaction as object) }
  }
}

let open: TestServer[] = []
afterEach(async () => {
  for (const server of open) await server.close()
  open = []
})

interface Told {
  readonly server: TestServer
  readonly world: World
  readonly id: string
}

/** A run of one call, which then says what came of it. */
async function run(
  task: object,
  more: { spec?: object; context?: object; seconds?: number; world?: World } = {},
): Promise<Told> {
  const world = more.world ?? new World()
  const server = await TestServer.open({ send: world.send })
  world.server = server
  open.push(server)
  const definition = {
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name: 'one-call', version: '1.0.0' },
    spec: {
      execution: { maxDurationSec: more.seconds ?? 10, onTimeout: { errorCode: 'LATE', reason: 'too late' } },
      lifecycle: { startMode: 'async' },
      ...more.spec,
      start: 'load',
      states: {
        load: {
          type: 'task',
          task: { kind: 'httpCall:v1', method: 'GET', url: 'https://a.example/x', resultVar: 'answer', ...task },
          next: 'done',
        },
        done: { type: 'succeed', outputVar: 'answer' },
      },
    },
  }
  const deployed = await server.call('PUT', '/api/v1/definitions/one-call', definition, JSON_TYPE)
  expect(deployed.status, deployed.text).toBe(201)
  const started = await server.call('POST', '/api/v1/journeys/one-call/start', more.context ?? {}, JSON_TYPE)
  expect(started.status, started.text).toBe(202)
  await idle()
  return { server, world, id: started.body['journeyId'] as string }
}

const JSON_TYPE = { 'content-type': 'application/json' }
const result = ({ server, id }: Told): Promise<Reply> => server.get(`/api/v1/journeys/${id}/result`)
const answered = (reaction: Reaction, afterMs = 0): World => {
  const world = new World()
  world.react = () => reaction
  world.afterMs = afterMs
  return world
}
const policy = (more: object = {}): object => ({
  policies: {
    httpResilience: {
      default: 'calm',
      definitions: {
        calm: {
          maxAttempts: 3,
          retryOn: ['NETWORK_ERROR', 'TIMEOUT', 'HTTP_5XX', 'HTTP_429'],
          backoff: { kind: 'fixed', baseDelayMs: 400, maxDelayMs: 400, jitter: 'none' },
          ...more,
        },
      },
    },
  },
})

describe('what is sent', () => {
  test('values of the context, encoded; headers of the definition and of the call; a key and the time', async () => {
    const told = await run(
      {
        method: 'POST',
        url: 'https://a.example/orders/${context.order.id}',
        params: { query: { q: '${context.q}' } },
        headers: { 'X-User': '${context.user}' },
        body: { id: '${context.order.id}', deep: ['${context.n}', 1] },
        timeoutMs: 2_000,
      },
      {
        spec: { defaults: { http: { headers: { 'X-All': 'yes', 'x-user': 'unknown' } } } },
        context: { order: { id: 'a/b' }, q: 'x&y', user: 'Ada', n: 5 },
      },
    )
    expect(told.world.calls).toMatchObject([
      {
        method: 'POST',
        url: 'https://a.example/orders/a%2Fb?q=x%26y',
        body: '{"id":"a/b","deep":["5",1]}',
      },
    ])
    expect(told.world.calls[0]?.headers).toEqual({
      Accept: 'application/json',
      'Content-Type': 'application/json',
      'X-All': 'yes',
      'X-User': 'Ada',
      'Idempotency-Key': `${told.id}/load/1`,
      'X-Curfew-Remaining-Ms': '2000',
    })
  })

  test('a body that an expression makes', async () => {
    const body = { mapper: { lang: 'jsonata', expr: '{ "sum": $sum(context.n) }' } }
    const { world } = await run({ method: 'PUT', body }, { context: { n: [1, 2, 3] } })
    expect(world.calls[0]?.body).toBe('{"sum":6}')
  })

  test.each([
    ['a value that is missing', { url: 'https://a.example/${context.none}' }, 'RUNTIME_MISSING_VALUE'],
    ['a value that is null', { headers: { 'X-A': '${context.nothing}' } }, 'RUNTIME_MISSING_VALUE'],
    ['a header with a line break in it', { headers: { 'X-A': '${context.lines}' } }, 'RUNTIME_BAD_HEADER'],
    ['a path that would be another', { url: 'https://a.example/a/${context.dots}/b' }, 'RUNTIME_BAD_URL'],
  ])('%s is a fault: nothing is sent, and the run ends', async (_, task, code) => {
    const told = await run(task, { context: { nothing: null, lines: 'a\r\nX-B: 1', dots: '..' } })
    expect((await result(told)).body).toMatchObject({
      phase: 'FAILED',
      terminationKind: 'RuntimeError',
      error: { code },
      terminatedAtState: 'load',
    })
    expect(told.world.calls).toHaveLength(0)
    expect((await result(told)).text).not.toContain('X-B')
  })
})

describe('what is kept', () => {
  test.each<[string, Reaction, object]>([
    [
      'JSON is read',
      { status: 201, headers: { 'content-type': 'application/json' }, body: '{"a":[1]}' },
      { status: 201, ok: true, headers: { 'Content-Type': 'application/json' }, body: { a: [1] } },
    ],
    ['text is text', { body: 'fine' }, { status: 200, ok: true, headers: {}, body: 'fine' }],
    ['a failure is an answer', { status: 404, body: 'no' }, { status: 404, ok: false, headers: {}, body: 'no' }],
    [
      'no answer is reported as such',
      new CallFailed('the connection was refused', null),
      {
        ok: false,
        headers: {},
        body: null,
        error: { type: 'NETWORK', message: 'no answer: the connection was refused' },
      },
    ],
    [
      'what the guard blocks is a network error',
      new CallRefused(BLOCKED),
      { ok: false, headers: {}, body: null, error: { type: 'NETWORK', message: BLOCKED } },
    ],
    [
      'an answer that is too long is a network error',
      { truncated: true },
      {
        ok: false,
        headers: {},
        body: null,
        error: { type: 'NETWORK', message: 'the answer is longer than 1048576 bytes' },
      },
    ],
  ])('%s', async (_, reaction, output) => {
    expect((await result(await run({}, { world: answered(reaction) }))).body).toMatchObject({
      phase: 'SUCCEEDED',
      output,
    })
  })
})

describe('whose time is up first', () => {
  test("the call's: the run goes on with a timeout for a result", async () => {
    const told = await run({ timeoutMs: 3_000 }, { world: answered('silence') })
    await told.server.advance(2_999)
    expect((await result(told)).status).toBe(409)
    await told.server.advance(1)
    expect((await result(told)).body).toMatchObject({
      phase: 'SUCCEEDED',
      output: { ok: false, error: { type: 'TIMEOUT', message: 'no answer within 3000 ms' } },
      endedAt: at(3_000),
    })
  })

  test('a call without a timeout gets ten seconds, and one whose definition sets it gets that', async () => {
    const told = await run({}, { world: answered('silence'), seconds: 60 })
    await told.server.advance(9_999)
    expect((await result(told)).status).toBe(409)
    await told.server.advance(1)
    expect((await result(told)).body).toMatchObject({ output: { error: { type: 'TIMEOUT' } }, endedAt: at(10_000) })
    const spec = { defaults: { http: { timeoutMs: 700 } } }
    const other = await run({}, { world: answered('silence'), seconds: 60, spec })
    await other.server.advance(700)
    expect((await result(other)).body).toMatchObject({ output: { error: { type: 'TIMEOUT' } }, endedAt: at(700) })
  })

  test.each([10_000, 10_001, 3_600_000])(
    "the run's, or both at once (%d ms): no result, and no further state",
    async (timeoutMs) => {
      const told = await run({ timeoutMs }, { world: answered('silence') })
      await told.server.advance(9_999)
      expect((await result(told)).status).toBe(409)
      expect(told.world.calls[0]?.signal.aborted).toBe(false)
      await told.server.advance(1)
      expect((await result(told)).body).toMatchObject({
        phase: 'FAILED',
        terminationKind: 'Timeout',
        error: { code: 'LATE', reason: 'too late' },
        terminatedAtState: 'load',
        endedAt: at(10_000),
      })
      expect(told.world.calls[0]?.signal.aborted).toBe(true)
    },
  )

  test('an answer in the millisecond of the deadline is late, and one in the millisecond before is not', async () => {
    const late = await run({ timeoutMs: 60_000 }, { world: answered({}, 10_000) })
    await late.server.advance(10_000)
    expect((await result(late)).body).toMatchObject({ terminationKind: 'Timeout' })
    const early = await run({ timeoutMs: 60_000 }, { world: answered({}, 9_999) })
    await early.server.advance(9_999)
    expect((await result(early)).body).toMatchObject({ phase: 'SUCCEEDED', endedAt: at(9_999) })
  })
})

describe('calls that are tried again', () => {
  test('rest in between, and tell how much time is left', async () => {
    const world = new World()
    world.react = (_, count) => ({ status: count < 3 ? 503 : 200 })
    const told = await run({ timeoutMs: 60_000 }, { world, spec: policy() })
    await told.server.advance(800)
    expect(world.calls.map((call) => [call.at, call.headers['X-Curfew-Remaining-Ms']])).toEqual([
      [0, '10000'],
      [400, '9600'],
      [800, '9200'],
    ])
    expect((await result(told)).body).toMatchObject({ phase: 'SUCCEEDED', output: { status: 200 }, endedAt: at(800) })
  })

  test('are not tried again when the rest does not fit: the run goes on at once with the last result', async () => {
    const world = answered({ status: 503 })
    const told = await run({ timeoutMs: 60_000 }, { world, spec: policy({ maxAttempts: 100 }), seconds: 1 })
    await told.server.advance(800)
    expect(world.calls).toHaveLength(3)
    expect((await result(told)).body).toMatchObject({ phase: 'SUCCEEDED', output: { status: 503 }, endedAt: at(800) })
  })

  test('are not tried again once blocked', async () => {
    const world = answered(new CallRefused(BLOCKED))
    const told = await run({}, { world, spec: policy() })
    await told.server.advance(5_000)
    expect(world.calls).toHaveLength(1)
  })

  test('each attempt has its own timeout, and all of them one deadline', async () => {
    const world = answered('silence')
    const told = await run({ timeoutMs: 300 }, { world, spec: policy({ maxAttempts: 100 }), seconds: 2 })
    await told.server.advance(2_000)
    expect(world.calls.map((call) => call.at)).toEqual([0, 700, 1_400])
    // 300 ms after the third there are 300 left, and the rest takes 400.
    expect((await result(told)).body).toMatchObject({
      phase: 'SUCCEEDED',
      output: { error: { type: 'TIMEOUT' } },
      endedAt: at(1_700),
    })
  })
})

test('nothing of what is sent or answered is logged', async () => {
  const world = answered({ status: 500, headers: { 'set-cookie': 'hidden-1' }, body: 'hidden-2' })
  const told = await run(
    {
      method: 'POST',
      url: 'https://a.example/x?hidden-3',
      headers: { Authorization: 'hidden-4' },
      body: { a: '${context.a}' },
    },
    { world, context: { a: 'hidden-5' }, spec: policy() },
  )
  await told.server.advance(10_000)
  expect((await result(told)).body).toMatchObject({ phase: 'SUCCEEDED' })
  expect(JSON.stringify(told.server.logged)).not.toContain('hidden')
  expect((await told.server.get('/metrics')).text).not.toContain('hidden')
  const { text } = await told.server.get('/ojs/v1/events?limit=1000')
  expect(text).not.toContain('hidden')
})
