/** Calls that outlive their state or lose their race, and Apis whose callers or callees take their time. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../../machine-lag.ts'
import { RawSocket } from '../raw-socket.ts'
import { pause, until, type ServerProcess } from '../server-process.ts'
import { CODE, call, deploy, ended, expectTimeout, jsonata, serve, start, statusOf, succeed, wait } from './stage.ts'
import { drips, json, silent, Upstream } from './upstream.ts'

const SEEN_WITHIN_MS = 250

let server: ServerProcess
beforeAll(async () => {
  server = await serve()
})
afterAll(() => server.stop())

let count = 0
const unique = (name: string): string => `${name}-${String((count += 1))}`

test('a call that is not waited for outlives its run, but not the deadline', async () => {
  const there = await Upstream.open(drips)
  const name = unique('telling')
  const tell = {
    type: 'task',
    task: { kind: 'httpCall:v1', mode: 'notify', method: 'POST', url: there.url, body: { a: 1 } },
    next: 'done',
  }
  await deploy(server, name, { states: { tell, done: succeed() }, seconds: 1 })
  const outcome = await ended(server, await start(server, name))
  expect(outcome.phase).toBe('SUCCEEDED')
  expect(Date.parse(outcome.endedAt) - Date.parse(outcome.startedAt)).toBeLessThan(plusLag(500))
  const seen = await until('it arrived', () => there.seen[0])
  expect(seen).toMatchObject({ body: '{"a":1}', hungUpAt: null })
  const hungUpAt = await until('it is hung up on', () => seen.hungUpAt)
  const lateMs = hungUpAt - Date.parse(outcome.deadlineAt)
  expect(lateMs).toBeGreaterThan(-20)
  expect(lateMs).toBeLessThan(plusLag(SEEN_WITHIN_MS))
})

test('the calls of branches that lose are hung up on at once, and their steps are gone', async () => {
  const there = await Upstream.open((response, seen, socket) => {
    if (seen.path !== '/fast') return drips(response, seen, socket)
    setTimeout(() => {
      json({ fast: true })(response, seen, socket)
    }, 200)
  })
  const branch = (name: string, states: object): object => ({
    name,
    start: 'it',
    states: { ...states, over: succeed('answer') },
  })
  const name = unique('race')
  await deploy(server, name, {
    seconds: 30,
    states: {
      race: {
        type: 'parallel',
        parallel: {
          branches: [
            branch('slow', { it: call(`${there.url}/slow`, 'over') }),
            branch('asks', { it: wait('over') }),
            branch('fast', { it: call(`${there.url}/fast`, 'over') }),
          ],
          join: { strategy: 'anyOf', mapper: jsonata('branches.fast.body'), resultVar: 'won' },
        },
        next: 'done',
      },
      done: succeed('won'),
    },
  })
  const id = await start(server, name)
  expect(await ended(server, id)).toMatchObject({ phase: 'SUCCEEDED', output: { fast: true } })
  const slow = await until('the slow one is hung up on', () =>
    there.seen.find(({ path, hungUpAt }) => path === '/slow' && hungUpAt !== null),
  )
  expect((slow.hungUpAt ?? 0) - slow.at).toBeLessThan(plusLag(2_000))
  expect((await server.post(`/api/v1/journeys/${id}/steps/it`, {})).status).toBe(409)
})

test('cancelling a run hangs up on whom it calls', async () => {
  const there = await Upstream.open(drips)
  const name = unique('cancelled')
  await deploy(server, name, { states: { load: call(there.url, 'done'), done: succeed() }, seconds: 30 })
  const id = await start(server, name)
  const seen = await until('it arrived', () => there.seen[0])
  expect((await server.post(`/api/v1/journeys/${id}/steps/cancel`)).status).toBe(200)
  await until('it is hung up on', () => seen.hungUpAt)
  expect(await ended(server, id)).toMatchObject({ terminationKind: 'Cancel', terminatedAtState: 'load' })
})

test('who starts a run and hangs up does not end it', async () => {
  let answer = (): void => {}
  const there = await Upstream.open((response, seen, socket) => {
    answer = () => {
      json({ late: true })(response, seen, socket)
    }
  })
  const name = unique('left')
  await deploy(server, name, {
    mode: 'sync',
    states: { load: call(there.url, 'done'), done: succeed('answer') },
    seconds: 30,
  })
  const caller = await RawSocket.open(server)
  await caller.send(
    `POST /api/v1/journeys/${name}/start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
  )
  await until('it arrived', () => there.seen[0])
  await caller.hangUp()
  answer()
  const id = await until('it is listed', async () => {
    const { body } = await server.get(`/api/v1/journeys?journeyName=${name}`)
    return (body.items as { journeyId: string }[])[0]?.journeyId
  })
  expect(await ended(server, id)).toMatchObject({ phase: 'SUCCEEDED', output: { body: { late: true } } })
})

describe('an Api', () => {
  test('answers 504 at its deadline, while the one it calls drips', async () => {
    const there = await Upstream.open(drips)
    const name = unique('quote')
    await deploy(server, name, { kind: 'Api', states: { ask: call(there.url, 'done'), done: succeed() } })
    const begun = performance.now()
    const reply = await server.post(`/api/v1/apis/${name}`, {})
    const tookMs = performance.now() - begun
    expect(reply.status, reply.text).toBe(504)
    expect(reply.body).toMatchObject({ type: CODE, status: 504, code: CODE, reason: 'the time was up' })
    expect(tookMs).toBeGreaterThanOrEqual(990)
    expect(tookMs).toBeLessThan(plusLag(1_000 + SEEN_WITHIN_MS))
    await until('it is hung up on', () => there.seen[0]?.hungUpAt ?? null)
  })

  test('answers 504 at its deadline, though the body of the call is not there yet', async () => {
    const there = await Upstream.open(json({}))
    const name = unique('slow-body')
    await deploy(server, name, { kind: 'Api', states: { ask: call(there.url, 'done'), done: succeed() } })
    const caller = await RawSocket.open(server)
    const begun = performance.now()
    await caller.send(
      `POST /api/v1/apis/${name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
    )
    const drip = setInterval(() => void caller.send(' '), 50)
    const [status] = await caller.answers(1)
    clearInterval(drip)
    const tookMs = performance.now() - begun
    expect(status).toBe(504)
    expect(tookMs).toBeGreaterThanOrEqual(990)
    expect(tookMs).toBeLessThan(plusLag(1_000 + 2 * SEEN_WITHIN_MS))
    expect(there.seen).toHaveLength(0)
    await caller.hangUp()
  })

  test('gives its second call only what the first has left', async () => {
    const there = await Upstream.open(silent)
    const name = unique('backup')
    await deploy(server, name, {
      kind: 'Api',
      seconds: 3,
      states: {
        ask: call(`${there.url}/first`, 'again', { timeoutMs: 1_500 }),
        again: call(`${there.url}/second`, 'done', { timeoutMs: 60_000 }),
        done: succeed(),
      },
    })
    const begun = performance.now()
    expect((await server.post(`/api/v1/apis/${name}`, {})).status).toBe(504)
    expect(performance.now() - begun).toBeLessThan(plusLag(3_000 + SEEN_WITHIN_MS))
    const [first, second] = there.seen.map(({ headers }) => Number(headers['x-curfew-remaining-ms']))
    // The own limit of the first call; of 3 s the second has what is left.
    expect(first).toBeLessThanOrEqual(1_500)
    expect(first).toBeGreaterThan(1_500 - plusLag(100))
    expect(second).toBeLessThanOrEqual(1_500)
    expect(second).toBeGreaterThan(1_500 - plusLag(300))
  })
})

test('a loop with much data does not hold up other calls either', async () => {
  const name = unique('heavy')
  await deploy(server, name, {
    seconds: 2,
    states: {
      spin: {
        type: 'transform',
        transform: { mapper: jsonata('context.n + 1'), target: { kind: 'var' }, resultVar: 'n' },
        next: 'again',
      },
      again: {
        type: 'choice',
        choices: [{ when: { predicate: jsonata('context.n < 0') }, next: 'out' }],
        default: 'spin',
      },
      out: succeed(),
    },
  })
  const ballast = Array.from({ length: 1_000 }, (_, n) => ({ n, text: 'x'.repeat(60) }))
  const ids = [await start(server, name, { n: 1, ballast }), await start(server, name, { n: 1, ballast })]
  let slowest = 0
  const endsAt = performance.now() + 1_500
  while (performance.now() < endsAt) {
    const asked = performance.now()
    expect((await server.get('/ojs/v1/health')).status).toBe(200)
    slowest = Math.max(slowest, performance.now() - asked)
    await pause(10)
  }
  expect(slowest).toBeLessThan(plusLag(200))
  for (const id of ids) expectTimeout(await ended(server, id), SEEN_WITHIN_MS)
})

test('a run that gathers more than can be kept ends, and says so', async () => {
  const text = 'x'.repeat(1_000_000)
  const there = await Upstream.open((response) => response.writeHead(200, { 'Content-Type': 'text/plain' }).end(text))
  const name = unique('gathering')
  const numbers = [1, 2, 3, 4, 5, 6]
  await deploy(server, name, {
    seconds: 30,
    states: {
      ...Object.fromEntries(
        numbers.map((n) => [
          `load${String(n)}`,
          call(there.url, n === numbers.length ? 'done' : `load${String(n + 1)}`, { resultVar: `a${String(n)}` }),
        ]),
      ),
      done: succeed(),
    },
  })
  const id = await start(server, name)
  expect(await ended(server, id)).toMatchObject({
    phase: 'FAILED',
    terminationKind: 'RuntimeError',
    error: { code: 'RUNTIME_TOO_LARGE' },
  })
  expect((await statusOf(server, id)).phase).toBe('FAILED')
})

test('on a clock that is turned by hand the deadline comes when it is turned there, and hangs up', async () => {
  const there = await Upstream.open(silent)
  const manual = await serve({ flags: ['--conformance', '--clock', 'manual'] })
  await deploy(manual, 'calling', { seconds: 10, states: { load: call(there.url, 'done'), done: succeed() } })
  const id = await start(manual, 'calling')
  const seen = await until('it arrived', () => there.seen[0])
  await manual.post('/ojs/v1/admin/clock', { advance_ms: 9_999 })
  expect(await statusOf(manual, id)).toMatchObject({ phase: 'RUNNING', remainingMs: 1 })
  expect(seen.hungUpAt).toBeNull()
  await manual.post('/ojs/v1/admin/clock', { advance_ms: 1 })
  expectTimeout(await ended(manual, id), 0)
  await until('it is hung up on', () => seen.hungUpAt)
  await manual.stop()
})
