/** Runs on several servers: the one that owns a run may be killed, and another goes on; the deadline is decided once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plusLag } from '../machine-lag.ts'
import { Cluster } from '../postgres/cluster.ts'
import {
  call,
  deploy,
  ended,
  expectTimeout,
  resultOf,
  start,
  statusOf,
  succeed,
  wait,
} from '../process/journeys/stage.ts'
import { drips, json, Upstream } from '../process/journeys/upstream.ts'
import { EventSource } from '../process/event-source.ts'
import { until, type ServerProcess } from '../process/server-process.ts'
import { Fleet, type Member } from './fleet.ts'

let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({
    database: database.url(),
    skewsMs: [60_000, -60_000],
    flags: ['--allow-private-network'],
  })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

const member = (index: number): Member => {
  const found = fleet.members[index]
  if (found === undefined) throw new Error(`there is no server ${String(index)}`)
  return found
}

const server = (index: number): ServerProcess => {
  const found = member(index).server
  if (found === null) throw new Error(`server ${String(index)} is not there`)
  return found
}

describe('the server that keeps a run is killed', () => {
  test(
    'another makes its call again, under the same key, and brings the run to its end',
    { timeout: 90_000 },
    async () => {
      let first = true
      const there = await Upstream.open((response, seen, socket) => {
        const react = first ? drips : json({ fine: true })
        first = false
        react(response, seen, socket)
      })
      await deploy(server(0), 'moved', {
        seconds: 60,
        states: { load: call(there.url, 'done'), done: succeed('answer') },
      })
      const id = await start(server(0), 'moved')
      await until('the call has arrived', () => there.seen.length === 1)
      await fleet.kill(member(0))
      const outcome = await ended(server(1), id, 55_000)
      expect(outcome).toMatchObject({ phase: 'SUCCEEDED', output: { body: { fine: true } } })
      expect(there.seen).toHaveLength(2)
      expect(new Set(there.seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
      await fleet.start(member(0))
      expect((await resultOf(server(0), id)).body).toEqual(outcome)
    },
  )

  test('its deadline is kept by the other', async () => {
    const there = await Upstream.open(drips)
    await deploy(server(0), 'kept', { seconds: 3, states: { load: call(there.url, 'done'), done: succeed() } })
    const id = await start(server(0), 'kept')
    await until('the call has arrived', () => there.seen.length === 1)
    await fleet.kill(member(0))
    expectTimeout(await ended(server(1), id), 500)
    await fleet.start(member(0))
  })
})

test(
  'a server that stands still loses its runs, and cannot take back what was decided meanwhile',
  { timeout: 120_000 },
  async () => {
    let answer = (): void => {}
    const there = await Upstream.open((response, seen, socket) => {
      if (there.seen.length > 1) return json({ by: 'second' })(response, seen, socket)
      answer = () => {
        json({ by: 'first' })(response, seen, socket)
      }
    })
    await deploy(server(0), 'stopped', {
      seconds: 100,
      states: { load: call(there.url, 'done'), done: succeed('answer') },
    })
    const id = await start(server(0), 'stopped')
    await until('the call has arrived', () => there.seen.length === 1)
    fleet.pause(member(0))
    const outcome = await ended(server(1), id, 80_000)
    expect(outcome).toMatchObject({ phase: 'SUCCEEDED', output: { body: { by: 'second' } } })
    // The answer the stopped server was waiting for is there when it wakes up.
    answer()
    fleet.resume(member(0))
    const after = await until('it answers again', () => resultOf(server(0), id).catch(() => null), 20_000)
    expect(after.body).toEqual(outcome)
    const { events } = (await server(1).get('/ojs/v1/events?types=journey.completed&limit=1000')).body
    expect((events as { subject: string }[]).filter(({ subject }) => subject === id)).toHaveLength(1)
  },
)

test('a job that ends at one server takes on the run that another began, and ends with it at the deadline', async () => {
  const work = { type: 'task', task: { kind: 'job:v1', type: 'work', queue: 'work', resultVar: 'job' }, next: 'done' }
  await deploy(server(0), 'working', { seconds: 3, states: { work, done: succeed('job') } })
  const done = await start(server(0), 'working')
  const [job] = await until('the job is there', async () => {
    const jobs = await server(1).fetch({ queues: ['work'], worker_id: 'w' })
    return jobs.length > 0 ? jobs : null
  })
  expect((await server(1).post('/ojs/v1/workers/ack', { job_id: job.id, result: { fine: true } })).status).toBe(200)
  expect(await ended(server(0), done)).toMatchObject({
    phase: 'SUCCEEDED',
    output: { ok: true, result: { fine: true } },
  })

  const late = await start(server(0), 'working')
  const [held] = await until('the job is there', async () => {
    const jobs = await server(1).fetch({ queues: ['work'], worker_id: 'w' })
    return jobs.length > 0 ? jobs : null
  })
  const outcome = await ended(server(1), late)
  expectTimeout(outcome, 500)
  const after = await server(1).job(held.id as string)
  expect(after).toMatchObject({ state: 'discarded', error: { type: 'total_timeout' } })
  expect(after.error.occurred_at).toBe(outcome.endedAt)
})

test('a run started at one server takes submissions at the other at once, each of them once', async () => {
  await deploy(server(0), 'asked', { seconds: 60, states: { one: wait('two'), two: wait('done'), done: succeed() } })
  const id = await start(server(0), 'asked')
  const step = await server(1).post(`/api/v1/journeys/${id}/steps/one`, {})
  expect(step.status, step.text).toBe(200)
  expect((await statusOf(server(0), id)).currentState).toBe('two')
  // Both submit the same step at the same time: it is taken once.
  const both = await Promise.all([0, 1].map((index) => server(index).post(`/api/v1/journeys/${id}/steps/two`, {})))
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  expect(await ended(server(0), id)).toMatchObject({ phase: 'SUCCEEDED' })
})

test('starts with one key at both servers give one run, also after a restart', { timeout: 60_000 }, async () => {
  await deploy(server(0), 'once', { seconds: 60, states: { hold: wait('done'), done: succeed() } })
  const begin = (index: number, key: string, body: object = {}) =>
    server(index).call('POST', '/api/v1/journeys/once/start', body, { 'idempotency-key': key })
  for (let round = 0; round < 5; round += 1) {
    const key = `round-${String(round)}`
    const replies = await Promise.all(Array.from({ length: 10 }, (_, n) => begin(n % 2, key)))
    expect(new Set(replies.map(({ body }) => body.journeyId as string)).size).toBe(1)
    expect(replies.map(({ status }) => status).sort()).toEqual([...Array.from({ length: 9 }, () => 200), 202])
  }
  const { journeyId } = (await begin(0, 'round-0')).body
  await fleet.kill(member(0))
  await fleet.start(member(0))
  expect((await begin(0, 'round-0')).body.journeyId).toBe(journeyId)
  expect(await begin(1, 'round-0', { other: true })).toMatchObject({ status: 409, body: { journeyId } })
})

test('a deadline that both servers see is decided, and told, once', async () => {
  await deploy(server(0), 'many', { seconds: 2, states: { hold: wait('done'), done: succeed() } })
  const ids = await Promise.all(Array.from({ length: 40 }, (_, index) => start(server(index % 2), 'many')))
  for (const id of ids) expectTimeout(await ended(server(1), id), 500)
  const { events } = (await server(0).get('/ojs/v1/events?types=journey.timeout&limit=1000')).body
  const subjects = (events as { subject: string }[]).map(({ subject }) => subject)
  for (const id of ids) expect(subjects.filter((subject) => subject === id)).toHaveLength(1)
  expect(fleet.complaints).toEqual([])
})

test(
  'five hundred runs with one deadline, begun at both servers, are over within a second of it',
  { timeout: 90_000 },
  async () => {
    await deploy(server(0), 'first', { seconds: 15, states: { hold: wait('done'), done: succeed() } })
    await deploy(server(0), 'crowd', { seconds: 60, states: { hold: wait('done'), done: succeed() } })
    const stream = await EventSource.open(server(1), '/ojs/v1/events/stream')
    const parent = await start(server(0), 'first')
    const deadlineAt = Date.parse((await statusOf(server(0), parent)).deadlineAt as string)
    const inherited = `?x_inherit_deadline=true&x_parent=${encodeURIComponent(JSON.stringify({ journey_id: parent }))}`
    const ids: string[] = []
    for (let n = 0; n < 500; n += 25)
      ids.push(
        ...(await Promise.all(Array.from({ length: 25 }, (_, at) => start(server(at % 2), 'crowd', {}, inherited)))),
      )
    const ours = new Set([...ids, parent])
    const timeouts = () =>
      stream.frames.filter(({ event, data }) => event === 'journey.timeout' && ours.has(data.journey_id as string))
    await until('all have ended', () => timeouts().length >= 501, 30_000)
    for (const { data } of timeouts()) expect(data).toMatchObject({ deadline: new Date(deadlineAt).toISOString() })
    // By the clock of the database, which both keep to.
    const late = timeouts().map(({ data }) => data.overshoot_ms as number)
    expect(Math.max(...late)).toBeLessThan(plusLag(1_000))
    stream.close()
  },
)
