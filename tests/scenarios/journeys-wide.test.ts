/** Runs with many branches, and loops: what they cost is counted, and what never rests is ended. */
import { FakeClock, MAX_PIECE } from '@curfew/core'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Store, Transaction } from '../../packages/server/src/store/store.ts'
import { at, idle, TestServer, type Reply } from '../harness.ts'
import { MAX_PER_TURN } from '../../packages/server/src/engine/kernel/turns.ts'
import { begin, call, deploy, EXECUTION, jsonata, PLAIN, runUrl, succeed, timer, wait } from '../journey-stage.ts'
import { openTestStore } from '../stores.ts'

let server: TestServer
afterEach(() => server.close())

interface Written {
  saves: number
  characters: number
}

/** Counts what is written of runs. */
function counting(store: Store, written: Written): Store {
  const transaction: Store['transaction'] = (decide) =>
    store.transaction(async (tx: Transaction) => {
      const decided = await decide(tx)
      for (const { after } of decided.changes.docs)
        if (after?.kind === 'run') {
          written.saves += 1
          written.characters += after.body.length
        }
      return decided
    })
  return new Proxy(store, {
    get: (target, key): unknown => {
      const value: unknown = key === 'transaction' ? transaction : Reflect.get(target, key, target)
      return typeof value === 'function' && key !== 'transaction' ? (value.bind(target) as unknown) : value
    },
  })
}

const transform = { mapper: jsonata('context.n + 1'), target: { kind: 'var' }, resultVar: 'n' }
const COMPUTE = { a: { type: 'transform', transform, next: 'z' }, z: { type: 'succeed', outputVar: 'n' } }
const CALL = { a: call({}, 'z'), z: { type: 'succeed', outputVar: 'n' } }

const fan = (size: number, states: object): object => ({
  start: 'fan',
  states: {
    fan: {
      type: 'parallel',
      parallel: { branches: Array.from({ length: size }, (_, n) => ({ name: `b${String(n)}`, start: 'a', states })) },
      next: 'done',
    },
    done: { type: 'succeed', outputVar: 'n' },
  },
})

const answered = { status: 200, headers: {}, body: '', truncated: false }

async function cost(size: number, states: object): Promise<Written> {
  const written: Written = { saves: 0, characters: 0 }
  const store = counting(await openTestStore(), written)
  server = await TestServer.open({ store, send: () => Promise.resolve(answered) })
  await deploy(server, fan(size, states))
  const reply = begin(server, { n: 1 })
  await server.advance(1_000)
  expect((await reply).body).toMatchObject({ phase: 'SUCCEEDED', output: 1 })
  await server.close()
  return written
}

describe('a run with four times the branches', () => {
  test.each([
    ['compute', COMPUTE],
    ['make a call', CALL],
  ])('that %s writes about four times as much', { timeout: 60_000 }, async (_, states) => {
    const small = await cost(200, states)
    const large = await cost(800, states)
    expect(large.saves).toBeLessThanOrEqual(small.saves + 2)
    expect(large.characters / small.characters).toBeLessThan(6)
  })
})

/** The longest text that is parsed, and the longest that is made, at once. */
async function longest(act: () => Promise<unknown>): Promise<{ parsed: number; made: number }> {
  const seen = { parsed: 0, made: 0 }
  const { parse, stringify } = JSON
  const spies = [
    vi.spyOn(JSON, 'parse').mockImplementation((text, reviver): unknown => {
      seen.parsed = Math.max(seen.parsed, text.length)
      return parse(text, reviver)
    }),
    vi.spyOn(JSON, 'stringify').mockImplementation((...args: Parameters<typeof stringify>) => {
      const text: string | undefined = stringify(...args)
      seen.made = Math.max(seen.made, text?.length ?? 0)
      return text
    }),
  ]
  try {
    await act()
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
  return seen
}

describe('of a run with 1 500 branches, no long text is parsed or made at once', () => {
  // No two branches may have an open step of one name.
  const HOLD = (n: number): object => ({ [`hold${String(n)}`]: wait({}, 'z'), z: succeed })
  const SLEEP = (): object => ({ sleep: timer('PT5S', 'z'), z: succeed })
  const holding = (statesOf: (n: number) => object): object => ({
    lifecycle: { startMode: 'async' },
    execution: EXECUTION,
    start: 'fan',
    states: {
      fan: {
        type: 'parallel',
        parallel: {
          branches: Array.from({ length: 1_500 }, (_, n) => {
            const states = statesOf(n)
            return { name: `b${String(n)}`, start: Object.keys(states)[0], states }
          }),
          join: { strategy: 'firstCompleted', resultVar: 'first' },
        },
        next: 'more',
      },
      more: wait(),
      done: succeed,
    },
  })

  async function submitted(id: string): Promise<void> {
    expect((await server.call('POST', `${runUrl(id)}/steps/hold0`, { ok: true }, PLAIN)).status).toBe(200)
  }

  async function stored(id: string): Promise<number> {
    return (await server.store.doc('run', id))?.body.length ?? 0
  }

  test.each([
    ['as it begins, and for a submission', HOLD, submitted],
    ['as timers of all branches come due', SLEEP, () => server.advance(5_000)],
    ['at its deadline', HOLD, () => server.advance(30_000)],
  ])('%s', { timeout: 60_000 }, async (_, statesOf, happens) => {
    server = await TestServer.open()
    await deploy(server, holding(statesOf))
    let id = ''
    const { parsed, made } = await longest(async () => {
      id = String((await begin(server)).body['journeyId'])
      await server.advance(100)
      expect(await stored(id)).toBeGreaterThan(4 * MAX_PIECE)
      await happens(id)
      await server.advance(100)
    })
    expect(parsed).toBeLessThanOrEqual(MAX_PIECE + 1_024)
    expect(made).toBeLessThanOrEqual(MAX_PIECE + 1_024)
  })
})

test('the time of many runs is up in one instant, and they are decided in turns', { timeout: 60_000 }, async () => {
  class CountingClock extends FakeClock {
    turns = 0
    override defer(run: () => void): void {
      this.turns += 1
      super.defer(run)
    }
  }
  const RUNS = 3 * MAX_PER_TURN
  const clock = new CountingClock()
  server = await TestServer.open({ clock })
  await deploy(server, {
    lifecycle: { startMode: 'async' },
    execution: EXECUTION,
    start: 'hold',
    states: { hold: wait(), done: succeed },
  })
  const started = await Promise.all(Array.from({ length: RUNS }, () => begin(server)))
  await idle()
  const before = clock.turns
  await server.advance(30_000)
  // Once for each of: reading them, deciding about them, writing runs and events.
  expect(clock.turns - before).toBeGreaterThanOrEqual((4 * RUNS) / MAX_PER_TURN)
  const ends = await Promise.all(
    started.map(async ({ body }) => {
      const { body: outcome } = await server.get(`${runUrl(String(body['journeyId']))}/result`)
      return String(outcome['endedAt'])
    }),
  )
  expect(new Set(ends)).toEqual(new Set([at(30_000)]))
})

test('a definition with more branches than a run may have is refused where they stand', async () => {
  server = await TestServer.open()
  const metadata = { name: 'wide', version: '1.0.0' }
  const definition = (size: number): object => ({
    apiVersion: 'v1',
    kind: 'Journey',
    metadata,
    spec: fan(size, { a: succeed }),
  })
  const validate = (size: number): Promise<Reply> =>
    server.call('POST', '/api/v1/definitions:validate', definition(size), PLAIN)
  expect((await validate(5_000)).body).toMatchObject({ valid: true })
  expect((await validate(5_001)).body).toMatchObject({
    valid: false,
    errors: [
      {
        code: 'GRAPH-3',
        path: '/spec/states/fan/parallel/branches',
        message: 'A parallel has at most 5000 branches; these are 5001. Split them over several runs.',
      },
    ],
  })
})

describe('a loop that never rests', () => {
  const again = { when: { predicate: jsonata('false') }, next: 'done' }
  const spin = { start: 'spin', states: { spin: { type: 'choice', choices: [again], default: 'spin' }, done: succeed } }

  test('enters a thousand states at once, then a thousand per second, and is ended after ten thousand', async () => {
    server = await TestServer.open()
    await deploy(server, { lifecycle: { startMode: 'async' }, ...spin })
    const { body } = await begin(server)
    const id = String(body['journeyId'])
    const explained = async (): Promise<number> => {
      const { states, omitted } = (await server.get(`/api/v1/journeys/${id}/explain`)).body
      return (states as unknown[]).length + (omitted as number)
    }
    await idle()
    const [first, second] = [await explained(), await server.advance(1_000).then(explained)]
    expect(first).toBeGreaterThanOrEqual(1_000)
    expect(first).toBeLessThan(1_200)
    expect(second - first).toBeGreaterThan(900)
    expect(second - first).toBeLessThan(1_150)
    await server.advance(9_000)
    const outcome = (await server.get(`/api/v1/journeys/${id}/result`)).body
    expect(outcome).toMatchObject({
      phase: 'FAILED',
      terminationKind: 'RuntimeError',
      terminatedAtState: 'spin',
      error: { code: 'RUNTIME_TOO_MANY_STEPS' },
    })
    expect(outcome['endedAt'] > at(8_000)).toBe(true)
    expect(outcome['endedAt'] < at(10_000)).toBe(true)
  })

  test('is ended by its deadline while it is made to wait', async () => {
    server = await TestServer.open()
    const execution = { maxDurationSec: 3, onTimeout: { errorCode: 'TOO_SLOW', reason: 'it took too long' } }
    await deploy(server, { lifecycle: { startMode: 'async' }, execution, ...spin })
    const { body } = await begin(server)
    await server.advance(3_000)
    const outcome = (await server.get(`/api/v1/journeys/${String(body['journeyId'])}/result`)).body
    expect(outcome).toMatchObject({ terminationKind: 'Timeout', endedAt: at(3_000) })
  })
})
