/** `schedule:v1`: runs that begin by themselves, one after the other, with the context of the one before. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { at, TestServer, type Reply } from '../harness.ts'
import { begin, call, deploy, jsonata, runUrl, succeed, timer, Upstream, wait } from '../journey-stage.ts'

let server: TestServer
let upstream: Upstream

beforeEach(async () => {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send })
})
afterEach(() => server.close())

const MINUTE = 60_000
const schedule = (more: object = {}, next = 'done'): object => ({
  type: 'task',
  task: { kind: 'schedule:v1', start: 'count', interval: 'PT1M', maxRuns: 3, ...more },
  next,
})
const count = {
  type: 'transform',
  transform: { mapper: jsonata('context.runs + 1'), target: { kind: 'var' }, resultVar: 'runs' },
  next: 'done',
}
const states = (more: object = {}): object => ({ plan: schedule(more), count, done: succeed })

async function plan(more: object = {}, body: object = { runs: 0 }): Promise<Reply> {
  await deploy(server, { start: 'plan', states: states(more) })
  const reply = await begin(server, body)
  await pass(0)
  return reply
}

/** The outputs of all scheduled runs, in their order. */
async function ran(): Promise<unknown[]> {
  const { body } = await server.get('/api/v1/journeys')
  const items = (body.items as unknown as { journeyId: string; scheduleId?: string }[]).filter(
    ({ scheduleId }) => scheduleId !== undefined,
  )
  const outputs: unknown[] = []
  for (const { journeyId } of items.reverse())
    outputs.push((await server.get(`${runUrl(journeyId)}/result`)).body['output'])
  return outputs
}

/** What is due by then has happened, and so has what follows from it: a run that begins at once has gone as far as it can. */
const pass = (ms: number): Promise<void> => server.advance(ms)

const schedules = async (): Promise<Record<string, unknown>[]> => (await server.get('/api/v1/schedules')).body.items

test('the first run begins at once, each goes on where the one before ended, and after the last it is gone', async () => {
  expect((await plan()).body).toMatchObject({ phase: 'SUCCEEDED', output: { runs: 0 } })
  expect(await ran()).toEqual([{ runs: 1 }])
  expect(await schedules()).toMatchObject([
    { journeyName: 'story', start: 'count', runsEnded: 1, maxRuns: 3, intervalMs: MINUTE, nextAt: at(MINUTE) },
  ])
  await pass(MINUTE - 1)
  expect(await ran()).toHaveLength(1)
  await pass(1)
  expect(await ran()).toEqual([{ runs: 1 }, { runs: 2 }])
  await pass(MINUTE)
  expect(await ran()).toEqual([{ runs: 1 }, { runs: 2 }, { runs: 3 }])
  expect(await schedules()).toEqual([])
  await pass(10 * MINUTE)
  expect(await ran()).toHaveLength(3)
})

test('startAt, interval, maxRuns, subject and context may be made by expressions', async () => {
  const mapped = (expr: string): object => ({ mapper: jsonata(expr) })
  await plan(
    {
      startAt: mapped('context.first'),
      interval: mapped('context.every'),
      maxRuns: mapped('context.times'),
      subjectId: mapped('context.user'),
      context: mapped('{"runs": 40}'),
    },
    { first: at(5_000), every: 'PT10S', times: 2, user: 'ada', secret: 'not passed on' },
  )
  expect(await schedules()).toMatchObject([
    { subjectId: 'ada', nextAt: at(5_000), intervalMs: 10_000, scheduleId: 'story~1.0.0~count~ada' },
  ])
  await pass(5_000)
  await pass(10_000)
  expect(await ran()).toEqual([{ runs: 41 }, { runs: 42 }])
  const { body } = await server.get('/api/v1/journeys?subjectId=ada')
  expect(body.items).toHaveLength(2)
})

test('a run that takes longer than the interval leaves out what passes meanwhile', async () => {
  const slow = { plan: schedule({ start: 'nap', maxRuns: 2 }), nap: timer('PT2M30S'), done: succeed }
  await deploy(server, {
    execution: { maxDurationSec: 600, onTimeout: { errorCode: 'LATE', reason: 'late' } },
    lifecycle: { startMode: 'async' },
    start: 'plan',
    states: slow,
  })
  await begin(server, {})
  await pass(0)
  const [first] = await schedules()
  expect(first).toMatchObject({ runId: expect.any(String) as string, runsEnded: 0 })
  expect(first).not.toHaveProperty('nextAt')
  await pass(150_000)
  expect(await schedules()).toMatchObject([{ runsEnded: 1, nextAt: at(3 * MINUTE) }])
})

test('a run that fails counts, and the next one begins with the context it left', async () => {
  const failing = {
    plan: schedule({ start: 'count', maxRuns: 2 }),
    count: { ...count, next: 'no' },
    no: { type: 'fail', errorCode: 'NO', reason: 'no' },
    done: succeed,
  }
  await deploy(server, { start: 'plan', states: failing })
  await begin(server, { runs: 0 })
  await pass(0)
  expect(await schedules()).toMatchObject([{ runsEnded: 1 }])
  await pass(MINUTE)
  expect(await schedules()).toEqual([])
})

test('a scheduled run keeps to the deadline of its definition', async () => {
  const asking = { plan: schedule({ start: 'ask' }), ask: call({ timeoutMs: 600_000 }), done: succeed }
  await deploy(server, { start: 'plan', states: asking })
  await begin(server, {})
  await pass(0)
  await pass(30_000)
  expect(await schedules()).toMatchObject([{ runsEnded: 1, nextAt: at(MINUTE) }])
  const { body } = await server.get('/api/v1/journeys?phase=FAILED')
  expect(body.items).toHaveLength(1)
})

describe('a second schedule for the same journey and subject', () => {
  test('fails by default', async () => {
    await plan({ startAt: at(MINUTE) })
    expect((await begin(server, { runs: 0 })).body).toMatchObject({
      phase: 'FAILED',
      terminationKind: 'RuntimeError',
      error: { code: 'RUNTIME_SCHEDULE_EXISTS' },
    })
    expect(await schedules()).toHaveLength(1)
  })

  test('takes the place of the first with upsert', async () => {
    await plan({ onExisting: 'upsert', startAt: { mapper: jsonata('context.first') } }, { first: at(MINUTE), runs: 0 })
    await begin(server, { first: at(2 * MINUTE), runs: 7 })
    expect(await schedules()).toMatchObject([{ nextAt: at(2 * MINUTE) }])
    await pass(2 * MINUTE)
    expect(await ran()).toMatchObject([{ runs: 8 }])
  })

  test('stands beside it with addAnother', async () => {
    await plan({ onExisting: 'addAnother', startAt: at(MINUTE) })
    await begin(server, { runs: 0 })
    expect(await schedules()).toHaveLength(2)
  })
})

test('a schedule can be looked at and removed; its run goes on', async () => {
  await plan({ startAt: at(MINUTE) })
  const [{ scheduleId } = {}] = await schedules()
  const url = `/api/v1/schedules/${String(scheduleId)}`
  expect((await server.get(url)).body).toMatchObject({ scheduleId, nextAt: at(MINUTE) })
  expect((await server.call('DELETE', url)).status).toBe(200)
  expect((await server.get(url)).status).toBe(404)
  await pass(MINUTE)
  expect(await ran()).toEqual([])
})

test.each([
  ['interval', { interval: { mapper: jsonata('"every day"') } }, /interval .* ISO 8601/],
  ['startAt', { startAt: { mapper: jsonata('"soon"') } }, /startAt .* RFC 3339/],
  ['maxRuns', { maxRuns: { mapper: jsonata('0') } }, /maxRuns .* from 1/],
  ['context', { context: { mapper: jsonata('[]') } }, /context .* object/],
  ['subjectId', { subjectId: { mapper: jsonata('7') } }, /subjectId .* text/],
])('an expression that gives no %s fails the run, and nothing is scheduled', async (_, more, message) => {
  const { body } = await plan(more)
  expect(body).toMatchObject({
    error: { code: 'RUNTIME_BAD_SCHEDULE', reason: expect.stringMatching(message) as string },
  })
  expect(await schedules()).toEqual([])
})

describe('a definition is refused', () => {
  const refusal = async (given: object): Promise<string> => {
    try {
      await deploy(server, { start: 'plan', states: given })
      return 'deployed'
    } catch (error) {
      return String(error)
    }
  }

  test.each([
    ['an entry that is not there', states({ start: 'gone' }), /not a state in spec.states/],
    ['an interval that is none', states({ interval: 'daily' }), /interval must be an ISO 8601 duration/],
    ['an interval below a second', states({ interval: 'PT0.5S' }), /at least one second/],
    ['no runs', states({ maxRuns: 0 }), /whole number of at least 1/],
    [
      'no interval',
      { ...states(), plan: { type: 'task', task: { kind: 'schedule:v1', start: 'count', maxRuns: 1 }, next: 'done' } },
      /interval is missing/,
    ],
    [
      'an entry that comes to a step',
      { plan: schedule({ start: 'ask' }), ask: wait(), done: succeed },
      /would come to ask/,
    ],
  ])('for %s', async (_, given, message) => {
    expect(await refusal(given)).toMatch(message)
  })
})
