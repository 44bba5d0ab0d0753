/** A database that goes away in the middle of runs: callers that wait are answered in time, and no deadline is forgotten. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Cluster } from '../postgres/cluster.ts'
import { call, deploy, ended, expectTimeout, start, succeed, wait } from '../process/journeys/stage.ts'
import { drips, json, Upstream } from '../process/journeys/upstream.ts'
import { pause, until, type ServerProcess } from '../process/server-process.ts'
import { Fleet } from './fleet.ts'

let database: Cluster
let fleet: Fleet

beforeAll(async () => {
  database = await Cluster.start()
  fleet = await Fleet.start({ database: database.url(), skewsMs: [0], flags: ['--allow-private-network'] })
})
afterAll(async () => {
  await fleet.stop()
  await database.remove()
})

const server = (): ServerProcess => {
  const found = fleet.members[0]?.server
  if (found == null) throw new Error('the server is not there')
  return found
}

test('an Api is answered at its deadline, though nothing can be written down', { timeout: 60_000 }, async () => {
  const there = await Upstream.open(drips)
  await deploy(server(), 'quote', {
    kind: 'Api',
    seconds: 2,
    states: { ask: call(there.url, 'done'), done: succeed() },
  })
  const begun = performance.now()
  const answered = server().post('/api/v1/apis/quote', {})
  await until('the call has arrived', () => there.seen.length === 1)
  await database.stop('immediate')
  const reply = await answered
  expect(reply.status, reply.text).toBe(504)
  expect(performance.now() - begun).toBeLessThan(3_000)
  await until('whom it called is hung up on', () => there.seen[0]?.hungUpAt ?? null, 2_000)
  await database.start()
})

test('a run whose answer came while nothing could be written goes on with it', { timeout: 60_000 }, async () => {
  let answer = (): void => {}
  const there = await Upstream.open((response, seen, socket) => {
    answer = () => {
      json({ fine: true })(response, seen, socket)
    }
  })
  await until('the database is back', async () => (await server().get('/ojs/v1/health')).status === 200)
  await deploy(server(), 'patient', { seconds: 50, states: { load: call(there.url, 'done'), done: succeed('answer') } })
  await deploy(server(), 'short', { seconds: 2, states: { hold: wait('done'), done: succeed() } })
  const id = await start(server(), 'patient')
  const short = await start(server(), 'short')
  await until('the call has arrived', () => there.seen.length === 1)
  await database.stop('immediate')
  answer()
  await pause(3_000)
  await database.start()
  await until('the database is back', async () => (await server().get('/ojs/v1/health')).status === 200)
  expect(await ended(server(), id, 30_000)).toMatchObject({ phase: 'SUCCEEDED', output: { body: { fine: true } } })
  expect(there.seen).toHaveLength(1)
  const outcome = await ended(server(), short)
  expectTimeout(outcome, 20_000)
})
