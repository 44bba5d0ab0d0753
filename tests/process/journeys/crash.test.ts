/** kill -9 in the middle of runs: what was due is over before anybody looks, and the rest goes on where it was. */
import { expect, test } from 'vitest'
import { plusLag } from '../../machine-lag.ts'
import { pause, until } from '../server-process.ts'
import { call, deploy, ended, expectTimeout, resultOf, serve, start, statusOf, succeed, wait } from './stage.ts'
import { drips, json, silent, Upstream } from './upstream.ts'

test('a deadline that passed while no server was up: the first look says so', async () => {
  const there = await Upstream.open(drips)
  const server = await serve()
  await deploy(server, 'calling', { states: { load: call(there.url, 'done'), done: succeed() } })
  await deploy(server, 'waiting', { states: { hold: wait('done'), done: succeed() } })
  await deploy(server, 'resting', {
    states: { rest: { type: 'timer', timer: { duration: 'PT0.9S' }, next: 'done' }, done: succeed() },
  })
  const ids = [await start(server, 'calling'), await start(server, 'waiting'), await start(server, 'resting')]
  await until('the call has arrived', () => there.seen.length === 1)
  await server.kill()
  await pause(1_200)
  const again = await serve({ data: server.data })
  for (const id of ids) {
    const reply = await resultOf(again, id)
    expect(reply.status, reply.text).toBe(200)
    expect(reply.body).toMatchObject({ phase: 'FAILED', terminationKind: 'Timeout' })
    expect((await again.post(`/api/v1/journeys/${id}/steps/hold`, {})).status).toBe(409)
  }
  await pause(100)
  expect(there.seen).toHaveLength(1)
  await again.stop()
})

test('a deadline still to come: the run goes on, and makes its call again under the same key', async () => {
  let first = true
  const there = await Upstream.open((response, seen, socket) => {
    if (seen.path === '/told' || !first) return json({ path: seen.path })(response, seen, socket)
    first = false
    silent(response, seen, socket)
  })
  const server = await serve()
  await deploy(server, 'story', {
    seconds: 30,
    states: {
      before: call(`${there.url}/told`, 'load', { resultVar: 'told' }),
      load: call(`${there.url}/load`, 'done'),
      done: succeed('answer'),
    },
  })
  const id = await start(server, 'story')
  await until('the second call has arrived', () => there.seen.length === 2)
  const { deadlineAt } = await statusOf(server, id)
  await server.kill()
  const again = await serve({ data: server.data })
  const outcome = await ended(again, id)
  expect(outcome).toMatchObject({ phase: 'SUCCEEDED', output: { status: 200, body: { path: '/load' } }, deadlineAt })
  expect(there.seen.map(({ path }) => path)).toEqual(['/told', '/load', '/load'])
  const [, one, two] = there.seen.map(({ headers }) => headers['idempotency-key'])
  expect(one).toBe(`${id}/load/2`)
  expect(two).toBe(one)
  await again.stop()
})

test('time that passed while no server was up is counted: the call that is made again has less of it', async () => {
  const there = await Upstream.open(drips)
  const server = await serve()
  await deploy(server, 'calling', { seconds: 8, states: { load: call(there.url, 'done'), done: succeed() } })
  const id = await start(server, 'calling')
  await until('the call has arrived', () => there.seen.length === 1)
  await server.kill()
  await pause(1_000)
  const again = await serve({ data: server.data })
  await until('it is made again', () => there.seen.length === 2)
  const [before, after] = there.seen.map(({ headers }) => Number(headers['x-curfew-remaining-ms']))
  expect(before).toBeLessThanOrEqual(8_000)
  expect(after).toBeLessThanOrEqual((before ?? 0) - 1_000)
  expectTimeout(await ended(again, id), 250)
  await again.stop()
})

test('steps, timers and calls that are not waited for: nothing is done twice, and nothing is forgotten', async () => {
  const there = await Upstream.open(json({}))
  const server = await serve()
  await deploy(server, 'long', {
    seconds: 30,
    states: {
      tell: {
        type: 'task',
        task: { kind: 'httpCall:v1', mode: 'notify', method: 'POST', url: `${there.url}/told` },
        next: 'hold',
      },
      hold: wait('rest'),
      rest: { type: 'timer', timer: { duration: 'PT1S' }, next: 'done' },
      done: succeed('payload'),
    },
  })
  const id = await start(server, 'long')
  await until('it waits', async () => (await statusOf(server, id)).currentState === 'hold')
  await until('it was told', () => there.seen.length === 1)
  await server.kill()

  const second = await serve({ data: server.data })
  expect(await statusOf(second, id)).toMatchObject({ phase: 'RUNNING', currentState: 'hold' })
  const step = await second.post(`/api/v1/journeys/${id}/steps/hold`, { yes: true })
  expect(step.status, step.text).toBe(200)
  expect(step.body).toMatchObject({ phase: 'RUNNING', currentState: 'rest' })
  await second.kill()

  const third = await serve({ data: server.data })
  const outcome = await ended(third, id)
  expect(outcome).toMatchObject({ phase: 'SUCCEEDED', output: { yes: true } })
  expect((await third.post(`/api/v1/journeys/${id}/steps/hold`, {})).status).toBe(409)
  expect(there.seen).toHaveLength(1)
  await third.stop()
})

test('a server that stops in order leaves its runs to the next one', async () => {
  let first = true
  const there = await Upstream.open((response, seen, socket) => {
    const react = first ? drips : json({ fine: true })
    first = false
    react(response, seen, socket)
  })
  const server = await serve()
  await deploy(server, 'calling', { seconds: 30, states: { load: call(there.url, 'done'), done: succeed('answer') } })
  const id = await start(server, 'calling')
  await until('the call has arrived', () => there.seen.length === 1)
  const begun = performance.now()
  expect((await server.stop()).code).toBe(0)
  expect(performance.now() - begun).toBeLessThan(plusLag(10_000))
  await until('it is hung up on', () => there.seen[0]?.hungUpAt ?? null)
  const again = await serve({ data: server.data })
  expect(await ended(again, id)).toMatchObject({ phase: 'SUCCEEDED', output: { body: { fine: true } } })
  expect(new Set(there.seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
  await again.stop()
})

test(
  'round after round of kill -9 under load: every run that was answered for ends once, and right',
  { timeout: 120_000 },
  async () => {
    const there = await Upstream.open(json({ fine: true }))
    let server = await serve()
    await deploy(server, 'quick', {
      seconds: 60,
      states: {
        load: call(`${there.url}/\${context.n}`, 'rest'),
        rest: { type: 'timer', timer: { duration: 'PT0.2S' }, next: 'again' },
        again: call(`${there.url}/\${context.n}/again`, 'done'),
        done: succeed('answer'),
      },
    })
    const ids: string[] = []
    for (let round = 0; round < 4; round += 1) {
      const starting = async (n: number): Promise<void> => {
        for (let more = 0; ; more += 1) {
          const reply = await server.post('/api/v1/journeys/quick/start', {
            n: `${String(round)}-${String(n)}-${String(more)}`,
          })
          if (reply.status === 202) ids.push(reply.body.journeyId as string)
        }
      }
      const callers = Promise.allSettled([0, 1, 2].map(starting))
      const enough = ids.length + 30
      await until('enough were started', () => ids.length >= enough)
      await server.kill()
      await callers
      server = await serve({ data: server.data })
    }
    expect(ids.length).toBeGreaterThanOrEqual(120)
    for (const id of ids)
      expect(await ended(server, id, 30_000)).toMatchObject({ phase: 'SUCCEEDED', output: { ok: true } })
    // An ending is reported once: those of all runs together are as many as runs that ended.
    const told = await endings(server)
    for (const id of ids) expect(told.filter((subject) => subject === id)).toHaveLength(1)
    await server.stop()
  },
)

async function endings(server: Awaited<ReturnType<typeof serve>>): Promise<string[]> {
  const subjects: string[] = []
  for (let after = ''; ;) {
    const { body } = await server.get(
      `/ojs/v1/events?types=journey.completed,journey.failed,journey.timeout&limit=1000${after}`,
    )
    const events = body.events as { id: string; subject: string }[]
    subjects.push(...events.map(({ subject }) => subject))
    const last = events.at(-1)
    if (last === undefined || events.length < 1000) return subjects
    after = `&after=${encodeURIComponent(last.id)}`
  }
}
