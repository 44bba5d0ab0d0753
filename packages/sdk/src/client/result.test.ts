import { describe, expect, test } from 'vitest'
import { Client } from './client.ts'
import { DeadlineError, JobFailedError, NetworkError } from '../errors.ts'
import { idle, refused, ScriptedServer, turning, world, type Asked, type Line } from '../scripted.suite.ts'

const ID = '01890000-0000-7000-8000-00000000000a'

function open(script: readonly Line[] | ((asked: Asked, count: number) => Line), retries = 1) {
  const { host, random } = world()
  const server = new ScriptedServer(script)
  return { host, server, client: new Client({ server, host, random, retries }) }
}

const done: Line = { body: { job_id: ID, state: 'completed', result: { ok: true } } }

test('the answer is held back by the server, in pieces, until the job is over', async () => {
  const { host, server, client } = open((_, count) =>
    count < 4 ? () => (host.advance(30_000), refused(408, 'request_timeout')) : done,
  )
  expect(await client.waitForResult(ID)).toEqual({ ok: true })
  expect(server.urls).toEqual(Array.from({ length: 4 }, () => `GET /ojs/v1/jobs/${ID}/result?wait=true&timeout=30`))
})

test('a piece is never longer than what is left, and the wait ends when the time is up', async () => {
  const { host, server, client } = open((_, count) =>
    count === 1 ? () => (host.advance(30_000), refused(408, 'request_timeout')) : 'silent',
  )
  const began = host.now()
  const outcome: unknown = await turning(host, client.waitForResult(ID, { timeout: '31500ms' })).catch(
    (e: unknown) => e,
  )
  expect(outcome).toBeInstanceOf(DeadlineError)
  expect(outcome).toMatchObject({ kind: 'budget', limitMs: 31_500, source: 'waitForResult' })
  expect(host.now() - began).toBe(31_500)
  expect(server.urls[1]).toMatch(/timeout=2$/)
  expect(host.nextTimerAt()).toBeNull()
})

test.each(['discarded', 'cancelled'] as const)(
  'a job that ended %s throws what the server says of it',
  async (state) => {
    const error = { type: 'timeout', message: 'Too slow.' }
    const { client } = open([{ body: { job_id: ID, state, error } }])
    const outcome: unknown = await client.waitForResult(ID).catch((e: unknown) => e)
    expect(outcome).toBeInstanceOf(JobFailedError)
    expect(outcome).toMatchObject({ code: 'timeout', jobId: ID, state, error })
  },
)

test('the caller’s signal ends the wait', async () => {
  const { host, server, client } = open(['silent'])
  const gaveUp = new AbortController()
  const outcome = client.waitForResult({ id: ID }, { signal: gaveUp.signal, timeout: '1m' })
  await idle()
  gaveUp.abort(new Error('enough'))
  await expect(outcome).rejects.toThrow('enough')
  expect(server.asked[0]?.signal.aborted).toBe(true)
  expect(host.nextTimerAt()).toBeNull()
})

describe('a server that cannot hold answers', () => {
  test('is asked for the job, more and more slowly', async () => {
    const asked: number[] = []
    const { host, server, client } = open(({ url }, count) => {
      asked.push(host.now())
      if (url.includes('/result')) return refused(404, 'not_found')
      return { body: { job: { id: ID, state: count < 8 ? 'active' : 'completed', result: 5 } } }
    })
    expect(await turning(host, client.waitForResult(ID))).toBe(5)
    expect(server.urls.filter((url) => url.includes('/result'))).toHaveLength(1)
    const waits = asked.slice(2).map((at, index) => at - (asked[index + 1] ?? 0))
    expect(waits).toEqual([250, 375, 562, 843, 1265, 1898])
  })

  test('that answers at once instead is not asked in a hurry', async () => {
    const { host, server, client } = open((_, count) => (count < 30 ? { body: { state: 'active' } } : done))
    const began = host.now()
    await turning(host, client.waitForResult(ID))
    expect(server.asked).toHaveLength(30)
    expect(host.now() - began).toBeGreaterThan(60_000)
  })

  test('a job that is not there is not there', async () => {
    const { client } = open([refused(404, 'not_found')])
    await expect(client.waitForResult(ID)).rejects.toMatchObject({ status: 404 })
  })
})

test('a result that was removed is gone', async () => {
  const { client } = open(({ url }) =>
    url.includes('/result') ? refused(410, 'gone') : { body: { job: { id: ID, state: 'completed' } } },
  )
  await expect(client.waitForResult(ID, { timeout: '1h' })).rejects.toMatchObject({ status: 410 })
})

describe('an outage', () => {
  const outage = (line: Line) => open((_, count) => (count < 12 ? line : done))

  test.each<Line>(['dead', refused(503, 'unavailable')])(
    'is outlasted when a timeout bounds the wait',
    async (line) => {
      const { host, client } = outage(line)
      expect(await turning(host, client.waitForResult(ID, { timeout: '1h' }))).toEqual({ ok: true })
    },
  )

  test('ends a wait without bounds', async () => {
    const { host, client } = outage('dead')
    await expect(turning(host, client.waitForResult(ID))).rejects.toBeInstanceOf(NetworkError)
  })
})
