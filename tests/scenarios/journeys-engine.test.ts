/** Runs of journeys at the engine's own door, on the clock turned by hand. */
import { DEFINITION, DEFINITION_VERSION, FakeClock, OWNED_RUN, seededRandom, versionId } from '@curfew/core'
import type { Run, Timer } from '@curfew/core'
import { afterEach, describe, expect, test } from 'vitest'
import { definitionOf } from '../../packages/server/src/engine/definitions/definitions.ts'
import { cancelRun, findRun, startRun, submitStep } from '../../packages/server/src/engine/journeys/runs.ts'
import { StoreUnavailable } from '../../packages/server/src/store/store.ts'
import { Upstream } from '../journey-stage.ts'
import { openTestStore, outliving } from '../stores.ts'
import { at, idle, TestServer, type TestOptions } from '../harness.ts'

let server: TestServer

async function open(options: TestOptions = {}): Promise<TestServer> {
  server = await TestServer.open(options)
  return server
}

afterEach(() => server.close())

const jsonata = (expr: string): object => ({ lang: 'jsonata', expr })

async function begin(spec: object, context: Record<string, unknown> = {}): Promise<Run> {
  const { engine } = server
  const source = {
    apiVersion: 'v1',
    kind: 'Journey',
    metadata: { name: 'story', version: '1.0.0' },
    spec: {
      execution: { maxDurationSec: 30, onTimeout: { errorCode: 'TOO_SLOW', reason: 'it took too long' } },
      ...spec,
    },
  }
  await engine.run({
    name: 'deploy',
    run: (unit) => {
      unit.addDoc(DEFINITION, 'story', {
        name: 'story',
        version: '1.0.0',
        kind: 'Journey',
        versions: ['1.0.0'],
        paths: [],
        updatedAt: unit.now,
      })
      const version = {
        name: 'story',
        version: '1.0.0',
        kind: 'Journey' as const,
        source,
        warnings: [],
        deployedAt: unit.now,
      }
      unit.addDoc(DEFINITION_VERSION, versionId('story', '1.0.0'), version)
    },
  })
  const deployed = await definitionOf(engine, 'story', null)
  if (deployed === null) throw new Error('not deployed')
  const { definition } = deployed
  const { run } = await startRun(engine, {
    definition,
    context,
    headers: {},
    query: {},
    parent: null,
    inheritDeadline: false,
    receivedAt: null,
    repeatable: null,
  })
  return run
}

const found = async (id: string): Promise<Run> => {
  const run = await findRun(server.engine, id)
  if (run === null) throw new Error('there is no such run')
  return run
}

const succeed = { type: 'succeed' }
const call = (url: string, more: object = {}, next = 'done'): object => ({
  type: 'task',
  task: { kind: 'httpCall:v1', method: 'GET', url, resultVar: 'answer', ...more },
  next,
})
const job = (more: object = {}, next = 'done'): object => ({
  type: 'task',
  task: { kind: 'job:v1', type: 'report.make', resultVar: 'report', ...more },
  next,
})
const wait = (more: object = {}, next = 'done'): object => ({
  type: 'wait',
  wait: { channel: 'manual', input: { schema: { type: 'object', required: ['ok'] } }, ...more },
  next,
})
const timer = (duration: string, next = 'done'): object => ({ type: 'timer', timer: { duration }, next })

/** Time passes while the server works and while it rests from work, which is how a loop without rest meets its deadline. */
class BusyClock extends FakeClock {
  override defer(run: () => void): void {
    this.advance(50)
    super.defer(run)
  }
  override setTimer(ms: number, ...rest: [fire: () => void, isIdle?: () => boolean]): Timer {
    const timer = super.setTimer(ms, ...rest)
    if (ms < 10) super.defer(() => this.advance(ms))
    return timer
  }
}

const SUBMITTED = { headers: {}, query: {} }

test('a run goes through choices and transforms to its end', async () => {
  await open()
  const { id } = await begin(
    {
      start: 'look',
      states: {
        look: {
          type: 'choice',
          choices: [{ when: { predicate: jsonata('context.n > 2') }, next: 'done' }],
          default: 'more',
        },
        more: {
          type: 'transform',
          transform: { mapper: jsonata('context.n + 1'), target: { kind: 'context', path: 'n' } },
          next: 'look',
        },
        done: succeed,
      },
    },
    { n: 0 },
  )
  await idle()
  expect(await found(id)).toMatchObject({
    phase: 'SUCCEEDED',
    end: { output: { n: 3 }, terminatedAtState: 'done' },
    visits: 8,
  })
  expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.completed'])
})

test('a loop that never rests is ended by its deadline, and says where it was', async () => {
  await open({ clock: new BusyClock() })
  const { id } = await begin({
    start: 'round',
    states: {
      round: {
        type: 'transform',
        transform: { mapper: jsonata('1'), target: { kind: 'var' }, resultVar: 'x' },
        next: 'again',
      },
      again: { type: 'choice', choices: [{ when: { predicate: jsonata('false') }, next: 'done' }], default: 'round' },
      done: succeed,
    },
  })
  await idle()
  const run = await found(id)
  expect(run).toMatchObject({
    phase: 'FAILED',
    end: { terminationKind: 'Timeout', error: { code: 'TOO_SLOW', reason: 'it took too long' } },
  })
  expect(run.visits).toBeGreaterThan(100)
  expect(run.trail.length).toBeLessThan(300)
  expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.timeout'])
  const told = (await server.events(id)).at(-1)?.data as Record<string, number>
  expect(told).toMatchObject({ source: told['limited_by'], elapsed_ms: told['duration_ms'] })
  expect(told['elapsed_ms']).toBeGreaterThanOrEqual(told['limit_ms'] ?? Infinity)
})

test.each([
  ['the order ${context.order} took too long', 'the order 42 took too long'],
  ['${context.shop.name}: too late', 'Corner: too late'],
  // The deadline ends the run, whatever its reason lacks.
  ['${context.absent} is missing from ${context.order}', '${context.absent} is missing from 42'],
])('the reason of a timeout is filled in: %s', async (reason, filled) => {
  await open()
  const execution = { maxDurationSec: 30, onTimeout: { errorCode: 'TOO_SLOW', reason } }
  const states = { approve: wait(), done: succeed }
  const { id } = await begin({ execution, start: 'approve', states }, { order: 42, shop: { name: 'Corner' } })
  await idle()
  server.clock.advance(30_000)
  await idle()
  expect((await found(id)).end).toMatchObject({
    terminationKind: 'Timeout',
    error: { code: 'TOO_SLOW', reason: filled },
  })
})

describe('a call', () => {
  test('keeps its answer in the context, and the run goes on', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const { id } = await begin(
      { start: 'ask', states: { ask: call('https://a.example/x/${context.who}'), done: succeed } },
      { who: 'me & you' },
    )
    await idle()
    expect(upstream.calls).toHaveLength(1)
    expect(upstream.calls[0]?.url).toBe('https://a.example/x/me%20%26%20you')
    expect(upstream.calls[0]?.headers).toMatchObject({ 'Idempotency-Key': `${id}/ask/1` })
    await upstream.answer({ price: 3 })
    expect(await found(id)).toMatchObject({
      phase: 'SUCCEEDED',
      end: { output: { answer: { ok: true, body: { price: 3 } } } },
    })
  })

  test('that outlives the run is broken off, and leaves no result', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const { id } = await begin({
      start: 'ask',
      states: { ask: call('https://a.example/', { timeoutMs: 60_000 }), done: succeed },
    })
    await server.advance(29_999)
    expect((await found(id)).phase).toBe('RUNNING')
    expect(upstream.calls[0]?.signal.aborted).toBe(false)
    await server.advance(1)
    expect(upstream.calls[0]?.signal.aborted).toBe(true)
    const run = await found(id)
    expect(run).toMatchObject({ phase: 'FAILED', endedAt: run.deadlineAt, end: { terminatedAtState: 'ask' } })
    expect(run.root.context).toEqual({})
  })

  test('that takes too long by its own limit is an answer like any other', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const { id } = await begin({
      start: 'ask',
      states: { ask: call('https://a.example/', { timeoutMs: 2_000 }), done: succeed },
    })
    await server.advance(2_000)
    expect(await found(id)).toMatchObject({
      phase: 'SUCCEEDED',
      end: { output: { answer: { ok: false, error: { type: 'TIMEOUT' } } } },
    })
  })

  test('without a result does not hold the run up, and is made', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const notice = { mode: 'notify', method: 'POST', body: { hello: '${context.name}' }, resultVar: undefined }
    const { id } = await begin(
      { start: 'tell', states: { tell: call('https://a.example/', notice), done: succeed } },
      { name: 'Ada' },
    )
    await idle()
    expect((await found(id)).phase).toBe('SUCCEEDED')
    expect(upstream.calls[0]).toMatchObject({ method: 'POST', body: '{"hello":"Ada"}' })
    expect(upstream.calls[0]?.signal.aborted).toBe(false)
    await server.advance(30_000)
    expect(upstream.calls[0]?.signal.aborted).toBe(true)
  })
})

describe('a step', () => {
  test('is open until a valid submission comes, and then the run goes on with it', async () => {
    await open()
    const { id } = await begin({
      start: 'approve',
      states: { approve: wait(), done: { type: 'succeed', outputVar: 'payload' } },
    })
    await idle()
    await expect(submitStep(server.engine, id, 'approve', { no: 1 }, SUBMITTED)).rejects.toMatchObject({
      code: 'schema_validation',
    })
    await expect(submitStep(server.engine, id, 'done', {}, SUBMITTED)).rejects.toMatchObject({ code: 'conflict' })
    await submitStep(server.engine, id, 'approve', { ok: true }, SUBMITTED)
    await idle()
    expect(await found(id)).toMatchObject({ phase: 'SUCCEEDED', end: { output: { ok: true } } })
  })

  test('submitted in the millisecond of the deadline is late: it changes nothing', async () => {
    await open()
    const { id } = await begin({ start: 'approve', states: { approve: wait(), done: succeed } })
    await idle()
    server.clock.advance(30_000)
    await expect(submitStep(server.engine, id, 'approve', { ok: true }, SUBMITTED)).rejects.toMatchObject({
      code: 'conflict',
      details: { reason: 'deadline_reached' },
    })
    const run = await found(id)
    expect(run).toMatchObject({ phase: 'FAILED', end: { terminationKind: 'Timeout' } })
    expect(run.root.context).toEqual({})
  })

  test('without an answer in its own time leads elsewhere', async () => {
    await open()
    const { id } = await begin({
      start: 'approve',
      states: {
        approve: wait({ timeoutSec: 5, onTimeout: 'late' }),
        late: { type: 'fail', errorCode: 'LATE', reason: 'no word came' },
        done: succeed,
      },
    })
    await server.advance(4_999)
    expect((await found(id)).phase).toBe('RUNNING')
    await server.advance(1)
    expect(await found(id)).toMatchObject({
      phase: 'FAILED',
      end: { terminationKind: 'Fail', error: { code: 'LATE' } },
    })
  })
})

test('what is larger than a run can keep is refused, and nothing is stored', async () => {
  await open()
  const spec = { start: 'approve', states: { approve: wait(), done: succeed } }
  const large = { ok: 'x'.repeat(2_097_152) }
  await expect(begin(spec, large)).rejects.toMatchObject({ code: 'payload_too_large' })
  expect(await server.eventTypes()).toEqual([])
})

test('a timer holds the run until it is due', async () => {
  await open()
  const { id } = await begin({ start: 'sleep', states: { sleep: timer('PT10S'), done: succeed } })
  await server.advance(9_999)
  expect((await found(id)).phase).toBe('RUNNING')
  await server.advance(1)
  expect((await found(id)).endedAt).toBe(Date.parse(at(10_000)))
})

describe('branches', () => {
  const race = (strategy: string, fast: object, slow: object): object => ({
    start: 'race',
    states: {
      race: {
        type: 'parallel',
        parallel: {
          branches: [
            {
              name: 'fast',
              start: 'a',
              states: {
                a: fast,
                done: { type: 'succeed', outputVar: 'answer' },
                sad: { type: 'fail', errorCode: 'SAD', reason: 'so sad' },
              },
            },
            { name: 'slow', start: 'b', states: { b: slow, done: succeed } },
          ],
          join: {
            strategy,
            mapper: jsonata('{ "won": $keys(branches), "ended": $keys(outcomes)[] }'),
            resultVar: 'joined',
          },
        },
        next: 'done',
      },
      done: { type: 'succeed', outputVar: 'joined' },
    },
  })

  test('allOf waits for all of them', async () => {
    await open()
    const { id } = await begin(race('allOf', timer('PT2S'), timer('PT9S')))
    await server.advance(8_999)
    expect((await found(id)).phase).toBe('RUNNING')
    await server.advance(1)
    expect((await found(id)).end?.output).toEqual({ won: ['fast', 'slow'], ended: ['fast', 'slow'] })
  })

  test('anyOf goes on with the first that succeeds, and breaks the others off', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const { id } = await begin(race('anyOf', timer('PT2S', 'sad'), call('https://a.example/')))
    await server.advance(2_000)
    expect((await found(id)).phase).toBe('RUNNING')
    await upstream.answer({})
    expect((await found(id)).end?.output).toEqual({ won: 'slow', ended: ['fast', 'slow'] })
  })

  test('firstCompleted takes the first that ends in any way; the job of the other is cancelled', async () => {
    await open()
    const { id } = await begin(race('firstCompleted', timer('PT2S', 'sad'), job()))
    await idle()
    const { body } = await server.fetch()
    await server.advance(2_000)
    expect((await found(id)).end?.output).toEqual({ ended: ['fast'] })
    expect(await server.job(body.job.id)).toMatchObject({ state: 'cancelled' })
  })

  test('in which something goes wrong are over at once, while the others go on', async () => {
    await open()
    const wrong = { type: 'fail', errorCode: 'X', reason: 'no ${context.nothing}' }
    const { id } = await begin(race('allOf', wrong, timer('PT9S')))
    await server.advance(1_000)
    const run = await found(id)
    expect(run.phase).toBe('RUNNING')
    expect(run.trail.find(({ path }) => path === 'race/fast/a')).toMatchObject({ to: run.startedAt })
    await server.advance(8_000)
    expect((await found(id)).end?.output).toEqual({ won: 'slow', ended: ['fast', 'slow'] })
  })

  test('are all broken off at the deadline', async () => {
    const upstream = new Upstream()
    await open({ send: upstream.send })
    const long = { timeoutMs: 100_000 }
    const { id } = await begin(race('allOf', call('https://a.example/', long), call('https://b.example/', long)))
    await server.advance(30_000)
    expect(upstream.calls.map(({ signal }) => signal.aborted)).toEqual([true, true])
    expect((await found(id)).end).toMatchObject({ terminationKind: 'Timeout', terminatedAtState: 'race' })
  })
})

describe('an awaited job', () => {
  test('brings its result, and the run goes on', async () => {
    await open()
    const { id } = await begin(
      { start: 'make', states: { make: job({ args: { mapper: jsonata('[context.n]') } }), done: succeed } },
      { n: 7 },
    )
    await idle()
    const { body } = await server.fetch()
    expect(body.job).toMatchObject({ type: 'report.make', args: [7], x_parent: { journey_id: id } })
    await server.ack(body.job.id, { result: { pages: 3 } })
    await idle()
    expect((await found(id)).end?.output).toEqual({
      n: 7,
      report: { ok: true, state: 'completed', jobId: body.job.id, result: { pages: 3 } },
    })
  })

  test('has what is left of the run, says so, and is over at the same instant', async () => {
    await open()
    const { id } = await begin({
      start: 'sleep',
      states: { sleep: timer('PT10S', 'make'), make: job(), done: succeed },
    })
    await server.advance(10_000)
    const { body } = await server.fetch()
    expect(body.job['x_limits']).toMatchObject({
      total_deadline: at(30_000),
      total_ms: 20_000,
      sources: { total: 'parent' },
    })
    await server.advance(20_000)
    const ended = await server.job(body.job.id)
    expect(ended).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
    expect((await found(id)).endedAt).toBe(Date.parse(at(30_000)))
    expect((await found(id)).end).toMatchObject({ terminationKind: 'Timeout', terminatedAtState: 'make' })
    const order = (await server.events()).map(({ type }) => type)
    expect(order.indexOf('job.discarded')).toBeLessThan(order.indexOf('journey.timeout'))
  })

  test('whose worker stops a moment before the deadline of both does not take the run on', async () => {
    await open()
    const { id } = await begin({ start: 'make', states: { make: job(), done: succeed } })
    await idle()
    const { body } = await server.fetch()
    await server.advance(29_990)
    await server.nack(body.job.id, { type: 'timeout', message: 'stopped' })
    expect(await server.job(body.job.id)).toMatchObject({ state: 'retryable' })
    expect((await found(id)).phase).toBe('RUNNING')
    await server.advance(10)
    expect(await server.job(body.job.id)).toMatchObject({ state: 'discarded' })
    expect((await found(id)).end).toMatchObject({ terminationKind: 'Timeout', terminatedAtState: 'make' })
  })

  test('that times out on its own account long before takes the run on', async () => {
    await open()
    const once = { retry: { max_attempts: 1 } }
    const { id } = await begin({ start: 'make', states: { make: job(once), done: succeed } })
    await idle()
    const { body } = await server.fetch()
    await server.advance(5_000)
    await server.nack(body.job.id, { type: 'timeout', message: 'the upstream was slow' })
    await idle()
    expect((await found(id)).end?.output).toMatchObject({ report: { ok: false, error: { type: 'timeout' } } })
  })

  test('is cancelled with the run', async () => {
    await open()
    const { id } = await begin({ start: 'make', states: { make: job(), done: succeed } })
    await idle()
    const { body } = await server.fetch()
    await cancelRun(server.engine, id)
    expect((await found(id)).end).toMatchObject({ terminationKind: 'Cancel', error: { code: 'JOURNEY_CANCELLED' } })
    expect(await server.job(body.job.id)).toMatchObject({ state: 'cancelled' })
    await cancelRun(server.engine, id)
    expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.cancelled'])
  })

  test('that is not waited for is left alone when the run ends, but not past its deadline', async () => {
    await open()
    const { id } = await begin({
      start: 'make',
      states: { make: job({ mode: 'notify', resultVar: undefined }), done: succeed },
    })
    await idle()
    expect((await found(id)).phase).toBe('SUCCEEDED')
    const { body } = await server.fetch()
    expect(body.job['x_limits']).toMatchObject({ total_deadline: at(30_000), sources: { total: 'parent' } })
  })
})

describe('a subjourney', () => {
  const sub = (more: object, states: object): object => ({
    start: 'ship',
    states: {
      ship: { type: 'subjourney', subjourney: { ref: 'shipping', resultVar: 'shipment', ...more }, next: 'done' },
      done: succeed,
    },
    subjourneys: { shipping: { start: 'book', states } },
  })

  test('works on a context of its own, and gives back its output', async () => {
    await open()
    const mapped = { input: { mapper: jsonata('{ "id": context.order }') } }
    const { id } = await begin(sub(mapped, { book: succeed }), { order: 5 })
    await idle()
    expect((await found(id)).end?.output).toEqual({ order: 5, shipment: { id: 5 } })
  })

  test('that fails takes the run with it, unless that is captured', async () => {
    await open()
    const states = { book: { type: 'fail', errorCode: 'NO_SHIP', reason: 'no ship' } }
    const { id } = await begin(sub({}, states))
    await idle()
    expect((await found(id)).end).toMatchObject({ error: { code: 'NO_SHIP' }, terminatedAtState: 'ship/book' })
  })

  test('whose failure is captured is looked at later', async () => {
    await open()
    const states = { book: { type: 'fail', errorCode: 'NO_SHIP', reason: 'no ship' } }
    const { id } = await begin(sub({ resultKind: 'outcome', onFailure: { behavior: 'capture' } }, states))
    await idle()
    expect((await found(id)).end?.output).toMatchObject({ shipment: { phase: 'FAILED', error: { code: 'NO_SHIP' } } })
  })
})

test('what goes wrong inside a run ends it, with the code of what went wrong', async () => {
  await open()
  const { id } = await begin({
    start: 'say',
    states: { say: { type: 'fail', errorCode: 'X', reason: 'no ${context.nothing}' } },
  })
  await idle()
  expect((await found(id)).end).toMatchObject({
    terminationKind: 'RuntimeError',
    error: { code: 'RUNTIME_MISSING_VALUE' },
  })
})

test('a run that timed out is cleaned up after, by a run with a budget of its own', async () => {
  const upstream = new Upstream()
  await open({ send: upstream.send })
  const { id } = await begin(
    {
      start: 'sleep',
      states: { sleep: timer('PT1H'), done: succeed },
      compensation: {
        mode: 'async',
        start: 'undo',
        states: {
          undo: call('https://a.example/undo', {
            method: 'POST',
            body: { mapper: jsonata('{ "order": context.order, "because": outcome.terminationKind }') },
          }),
          done: succeed,
        },
      },
    },
    { order: 9 },
  )
  await server.advance(30_000)
  const run = await found(id)
  expect(run).toMatchObject({ phase: 'FAILED', end: { terminationKind: 'Timeout' } })
  expect(upstream.calls[0]?.body).toBe('{"order":9,"because":"Timeout"}')
  await upstream.answer({})
  const undo = await found(run.compensatedBy ?? '')
  expect(undo).toMatchObject({
    kind: 'Compensation',
    phase: 'SUCCEEDED',
    compensates: { id },
    limitedBy: 'platform-default',
  })
})

describe('a server that is gone', () => {
  const asking = {
    start: 'ask',
    states: { ask: call('https://a.example/', { timeoutMs: 25_000 }), done: { type: 'succeed', outputVar: 'answer' } },
  }

  test('left a call behind: the next one makes it again, and only one answer counts', async () => {
    const store = await openTestStore()
    const [before, after] = [new Upstream(), new Upstream()]
    const lost = await open({ store: outliving(store), send: before.send })
    const { id } = await begin(asking)
    await idle()
    await lost.advance(1_000)
    // The clock of the first stands still from here on.
    await open({ store, clock: new FakeClock(lost.clock.now()), random: seededRandom(8), send: after.send })
    await server.advance(11_000)
    expect(after.calls.map(({ headers }) => headers['Idempotency-Key'])).toEqual([`${id}/ask/1`])
    await after.answer({ from: 'the second' })
    expect((await found(id)).end?.output).toMatchObject({ body: { from: 'the second' } })
    await before.answer({ from: 'the first' })
    expect((await found(id)).end?.output).toMatchObject({ body: { from: 'the second' } })
    expect(await server.eventTypes(id)).toEqual(['journey.started', 'journey.completed'])
    await lost.close()
  })

  test('is looked for again when the store fails just then', async () => {
    const store = await openTestStore()
    const lost = await open({ store: outliving(store), send: new Upstream().send })
    const { id } = await begin(asking)
    await idle()
    await lost.close()
    let failures = 0
    const failing = outliving(store, {
      docs: (kind, ...rest) => {
        if (kind !== OWNED_RUN.kind || failures > 0) return store.docs(kind, ...rest)
        failures += 1
        return Promise.reject(new StoreUnavailable('the disk is full', undefined))
      },
    })
    const upstream = new Upstream()
    await open({ store: failing, clock: lost.clock, random: seededRandom(8), send: upstream.send })
    await idle()
    expect([failures, upstream.calls.length]).toEqual([1, 0])
    await server.advance(1_000)
    expect(upstream.calls.map(({ headers }) => headers['Idempotency-Key'])).toEqual([`${id}/ask/1`])
    await store.close()
  })

  test('leaves nothing to do for a run that only waits', async () => {
    const store = await openTestStore()
    const lost = await open({ store: outliving(store) })
    const { id } = await begin({ start: 'approve', states: { approve: wait(), done: succeed } })
    await idle()
    await lost.close()
    await open({ store, clock: lost.clock, random: seededRandom(8) })
    await submitStep(server.engine, id, 'approve', { ok: true }, SUBMITTED)
    await idle()
    expect((await found(id)).phase).toBe('SUCCEEDED')
  })

  test('does not stop the clock: a deadline that passed meanwhile has passed', async () => {
    const store = await openTestStore()
    const lost = await open({ store: outliving(store), send: new Upstream().send })
    const { id } = await begin(asking)
    await idle()
    await lost.close()
    const upstream = new Upstream()
    lost.clock.advance(40_000)
    await open({ store, clock: lost.clock, random: seededRandom(8), send: upstream.send })
    expect(await found(id)).toMatchObject({ phase: 'FAILED', end: { terminationKind: 'Timeout' } })
    await idle()
    expect(upstream.calls).toEqual([])
  })
})
