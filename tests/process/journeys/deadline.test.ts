/**
 * A run ends at its deadline, whatever it is doing: reading an answer that never ends, in several branches at once, going
 * round in circles, together with five hundred others, and while the wall clock jumps.
 */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../../machine-lag.ts'
import { EventSource } from '../event-source.ts'
import { pause, until, type ServerProcess } from '../server-process.ts'
import {
  CODE,
  call,
  deploy,
  ended,
  expectTimeout,
  jsonata,
  resultOf,
  serve,
  start,
  statusOf,
  succeed,
  wait,
  type Outcome,
} from './stage.ts'
import { drips, silent, Upstream } from './upstream.ts'

const SEEN_WITHIN_MS = 250

let server: ServerProcess
beforeAll(async () => {
  server = await serve()
})
afterAll(() => server.stop())

test('in the middle of an answer that drips: the caller is answered, and the other side hung up on', async () => {
  const there = await Upstream.open(drips)
  const name = unique('dripping')
  await deploy(server, name, { mode: 'sync', states: { load: call(there.url, 'done'), done: succeed() } })
  const begun = performance.now()
  const reply = await server.post(`/api/v1/journeys/${name}/start`, {})
  const tookMs = performance.now() - begun
  expect(reply.status, reply.text).toBe(200)
  expectTimeout(reply.body as Outcome, SEEN_WITHIN_MS)
  expect(reply.body).toMatchObject({ terminatedAtState: 'load', limitedBy: 'spec' })
  expect(tookMs).toBeGreaterThanOrEqual(990)
  expect(tookMs).toBeLessThan(plusLag(1_000 + SEEN_WITHIN_MS))
  const [seen] = there.seen
  await until('the other side sees it', () => seen?.hungUpAt ?? null)
  expect((seen?.hungUpAt ?? 0) - Date.parse((reply.body as Outcome).deadlineAt)).toBeLessThan(plusLag(SEEN_WITHIN_MS))
})

test('in several branches: all are aborted together, and none is joined', async () => {
  const there = await Upstream.open((response, seen, socket) => {
    const react = seen.path === '/drips' ? drips : silent
    react(response, seen, socket)
  })
  const branch = (name: string, state: object): object => ({
    name,
    start: 'it',
    states: { it: state, over: succeed() },
  })
  const name = unique('fanout')
  await deploy(server, name, {
    seconds: 3,
    states: {
      fan: {
        type: 'parallel',
        parallel: {
          branches: [
            branch('one', call(`${there.url}/drips`, 'over')),
            branch('two', call(`${there.url}/silent`, 'over')),
            branch('three', { type: 'timer', timer: { duration: 'PT1H' }, next: 'over' }),
            branch('four', wait('over')),
          ],
          join: { strategy: 'allOf', mapper: jsonata('{ "joined": true }'), resultVar: 'joined' },
        },
        next: 'done',
      },
      done: succeed(),
    },
  })
  const id = await start(server, name)
  await until('both calls have arrived', () => there.seen.length === 2)
  expect((await statusOf(server, id)).activeStates).toEqual(['fan/one/it', 'fan/two/it', 'fan/three/it', 'fan/four/it'])
  const outcome = await ended(server, id)
  expectTimeout(outcome, SEEN_WITHIN_MS)
  expect(outcome.terminatedAtState).toBe('fan')
  await until('both are hung up on', () => there.seen.every(({ hungUpAt }) => hungUpAt !== null))
  for (const { hungUpAt } of there.seen)
    expect(Math.abs((hungUpAt ?? 0) - Date.parse(outcome.deadlineAt))).toBeLessThan(plusLag(SEEN_WITHIN_MS))
  expect((await server.post(`/api/v1/journeys/${id}/steps/it`, {})).status).toBe(409)
})

describe('going round in circles', () => {
  const circle = {
    spin: {
      type: 'transform',
      transform: { mapper: jsonata('$merge([context, { "n": context.n + 1 }])'), target: { kind: 'context' } },
      next: 'again',
    },
    again: {
      type: 'choice',
      choices: [{ when: { predicate: jsonata('context.n < 0') }, next: 'out' }],
      default: 'spin',
    },
    out: succeed(),
  }

  test.each([1, 5])('%d runs that never rest do not hold up other calls, and end at their deadline', async (count) => {
    const name = unique('circle')
    await deploy(server, name, { states: circle, seconds: 2 })
    const ids = await Promise.all(Array.from({ length: count }, () => start(server, name, { n: 1 })))
    const slowest = { ms: 0, looks: 0 }
    const endsAt = performance.now() + 1_700
    while (performance.now() < endsAt) {
      const asked = performance.now()
      expect((await server.get('/ojs/v1/health')).status).toBe(200)
      slowest.ms = Math.max(slowest.ms, performance.now() - asked)
      slowest.looks += 1
      await pause(10)
    }
    expect(slowest.ms).toBeLessThan(plusLag(200))
    expect(slowest.looks).toBeGreaterThan(2)
    for (const id of ids) {
      const outcome = await ended(server, id)
      expectTimeout(outcome, SEEN_WITHIN_MS)
      expect(['spin', 'again']).toContain(outcome.terminatedAtState)
    }
  })
})

test('five hundred runs with one deadline are all over within a second of it', { timeout: 60_000 }, async () => {
  const there = await Upstream.open(drips)
  const names = [unique('crowd'), unique('crowd'), unique('crowd'), unique('crowd')] as const
  await deploy(server, names[0], { states: { hold: wait('done'), done: succeed() }, seconds: 12 })
  await deploy(server, names[1], { states: { hold: wait('done'), done: succeed() }, seconds: 60 })
  await deploy(server, names[2], {
    states: { hold: { type: 'timer', timer: { duration: 'PT1H' }, next: 'done' }, done: succeed() },
    seconds: 60,
  })
  await deploy(server, names[3], { states: { hold: call(there.url, 'done'), done: succeed() }, seconds: 60 })
  const stream = await EventSource.open(server, '/ojs/v1/events/stream')
  const parent = await start(server, names[0])
  const deadlineAt = Date.parse((await statusOf(server, parent)).deadlineAt as string)
  const inherited = `?x_inherit_deadline=true&x_parent=${encodeURIComponent(JSON.stringify({ journey_id: parent }))}`
  const ids: string[] = []
  for (let n = 0; n < 500; n += 25) {
    const some = Array.from({ length: 25 }, (_, index) =>
      start(server, names[1 + ((n + index) % 3)] ?? '', {}, inherited),
    )
    ids.push(...(await Promise.all(some)))
  }
  expect(Date.now()).toBeLessThan(deadlineAt - 500)
  const timeouts = () => stream.frames.filter(({ event }) => event === 'journey.timeout')
  await until('all have ended', () => timeouts().length >= 501, 20_000)
  const late = ids.map((id) => {
    const frame = timeouts().find(({ data }) => data.journey_id === id)
    return (frame?.readAt ?? Infinity) - deadlineAt
  })
  expect(Math.max(...late)).toBeLessThan(plusLag(1_000))
  for (const id of ids.filter((_, index) => index % 25 < 3)) {
    const outcome = (await resultOf(server, id)).body as Outcome
    expectTimeout(outcome, 1_000)
    expect(outcome.limitedBy).toBe('parent')
    expect(Math.abs(Date.parse(outcome.deadlineAt) - deadlineAt)).toBeLessThanOrEqual(1)
  }
  stream.close()
})

describe('a step of the wall clock', () => {
  const preload = fileURLToPath(new URL('../shifted-clock.mjs', import.meta.url))

  test.each([
    ['ahead', 3_600_000],
    ['back', -3_600_000],
  ])('of an hour %s ends no run early, and lets none live longer', async (_, shiftMs) => {
    const shifted = await serve({ node: ['--import', preload], channel: true })
    const there = await Upstream.open(drips)
    const limit = { seconds: 2 }
    await deploy(shifted, 'waiting', { ...limit, states: { hold: wait('done'), done: succeed() } })
    await deploy(shifted, 'calling', { ...limit, states: { hold: call(there.url, 'done'), done: succeed() } })
    await deploy(shifted, 'resting', {
      ...limit,
      states: { rest: { type: 'timer', timer: { duration: 'PT1S' }, next: 'done' }, done: succeed() },
    })
    const begun = performance.now()
    const waiting = await start(shifted, 'waiting')
    const calling = await start(shifted, 'calling')
    const resting = await start(shifted, 'resting')
    await shifted.tell({ shiftMs })
    /** An answer that came before the limit of the run could pass says that the run goes on. */
    const expectRunning = async (id: string, limitMs: number): Promise<void> => {
      const { phase } = await statusOf(shifted, id)
      if (performance.now() - begun < limitMs) expect(phase).toBe('RUNNING')
    }
    while (performance.now() - begun < 900) {
      for (const id of [waiting, calling, resting]) await expectRunning(id, 1_000)
      await pause(50)
    }
    const rested = await ended(shifted, resting)
    expect(rested.phase).toBe('SUCCEEDED')
    expect(Date.parse(rested.endedAt) - Date.parse(rested.startedAt)).toBeLessThan(plusLag(1_000 + SEEN_WITHIN_MS))
    while (performance.now() - begun < 1_800) {
      for (const id of [waiting, calling]) await expectRunning(id, 2_000)
      await pause(50)
    }
    for (const id of [waiting, calling]) expectTimeout(await ended(shifted, id), SEEN_WITHIN_MS)
    expect(performance.now() - begun).toBeLessThan(plusLag(2_000 + 3 * SEEN_WITHIN_MS))
    await shifted.stop()
  })
})

test('a run that ended is never seen running again, and never seen running past its deadline', async () => {
  const name = unique('looked-at')
  await deploy(server, name, { states: { hold: wait('done'), done: succeed() } })
  const id = await start(server, name)
  const deadlineAt = Date.parse((await statusOf(server, id)).deadlineAt as string)
  for (let isOver = false; !isOver;) {
    const askedAt = Date.now()
    const { phase, remainingMs } = await statusOf(server, id)
    if (askedAt > deadlineAt + 5) expect(phase).toBe('FAILED')
    if (phase === 'FAILED') expect(remainingMs).toBe(0)
    isOver = askedAt > deadlineAt + 50
  }
  expect((await resultOf(server, id)).body).toMatchObject({ error: { code: CODE } })
})

let count = 0
const unique = (name: string): string => `${name}-${String((count += 1))}`
