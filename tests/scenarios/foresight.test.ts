/** What will end in the next minutes, and jobs found by anything known of them: bounded, and honest about the bound. */
import { expect, test } from 'vitest'
import { ANY_JOB, instant, iso } from '@curfew/core'
import { forecast as foresee } from '../../packages/server/src/engine/series/forecast.ts'
import { searchJobs } from '../../packages/server/src/engine/series/search.ts'
import { at, TestServer, type Reply } from '../harness.ts'

// ---- Forecast ----

const forecast = (server: TestServer, query = ''): Promise<Reply> => server.get(`/api/v1/board/forecast?${query}`)

test('deadlines of the next minutes are counted in their minute, by kind and queue', async () => {
  const server = await TestServer.open()
  await server.start({ timeout: 90, grace_period: 0 })
  await server.enqueue({ queue: 'mail', enqueue_ttl: 150 })
  await server.enqueue({ queue: 'mail', expires_at: at(30_000) })
  await server.enqueue({ queue: 'mail', total_timeout: 600 })
  await server.enqueue({ queue: 'mail' })
  const { body } = await forecast(server, 'minutes=5')
  expect(body).toMatchObject({ total: 3, complete: true, from: at(0), to: at(300_000), looked_until: at(300_000) })
  expect((body['minutes'] as { deadlines: object }[]).map(({ deadlines }) => deadlines)).toEqual([
    { execution: 0, total: 0, enqueue_ttl: 0, expires_at: 1 },
    { execution: 1, total: 0, enqueue_ttl: 0, expires_at: 0 },
    { execution: 0, total: 0, enqueue_ttl: 1, expires_at: 0 },
    { execution: 0, total: 0, enqueue_ttl: 0, expires_at: 0 },
    { execution: 0, total: 0, enqueue_ttl: 0, expires_at: 0 },
  ])
  expect((body['next'] as Record<string, string>[]).map(({ kind, source, at: when }) => [kind, source, when])).toEqual([
    ['expires_at', 'publish', at(30_000)],
    ['execution', 'publish', at(90_000)],
    ['enqueue_ttl', 'publish', at(150_000)],
  ])
  const ofMail = (await forecast(server, 'minutes=5&queue=mail')).body
  expect(ofMail).toMatchObject({ total: 2, queues: [{ queue: 'mail', first_at: at(30_000) }] })
})

test('a deadline behind a stall clock that comes first is foreseen all the same', async () => {
  const server = await TestServer.open()
  await server.start({ timeout: 240, grace_period: 0, heartbeat_timeout: 20 })
  const { body } = await forecast(server, 'minutes=10')
  expect(body).toMatchObject({ total: 1, next: [{ kind: 'execution', at: at(240_000) }] })
})

test('many jobs with one deadline are counted once each, over several turns', async () => {
  const server = await TestServer.open()
  const jobs = Array.from({ length: 700 }, () => ({ type: 'test.job', args: [], enqueue_ttl: 60 }))
  await server.call('POST', '/ojs/v1/jobs/batch', { jobs })
  const { body } = await forecast(server)
  expect(body).toMatchObject({ total: 700, complete: true })
  expect(body['next']).toHaveLength(10)
})

test('what will be late at the observed pace is marked', async () => {
  const server = await TestServer.open()
  await server.enqueue({ enqueue_ttl: 60 })
  const { body } = await forecast(server)
  expect(body).toMatchObject({ at_risk: 1, queues: [{ queue: 'default', at_risk: 1 }] })
})

test('a forecast that ends at its bound says how far it looked', async () => {
  const server = await TestServer.open()
  const jobs = Array.from({ length: 600 }, (_, n) => ({ type: 'test.job', args: [], enqueue_ttl: 60 + n }))
  await server.call('POST', '/ojs/v1/jobs/batch', { jobs })
  const made = await foresee(server.engine, null, 15, 500)
  expect(made).toMatchObject({ isWhole: false, examined: 500, forecast: { total: 500 } })
  expect(iso(made.until)).toBe(at(60_000 + 499_000))
  expect(await foresee(server.engine, null, 15)).toMatchObject({ isWhole: true, forecast: { total: 600 } })
})

test.each(['minutes=0', 'minutes=61', 'minutes=1.5', 'minutes=NaN', 'queue=Q', 'horizon=5'])(
  'a forecast refuses ?%s',
  async (query) => {
    const server = await TestServer.open()
    expect((await forecast(server, query)).status).toBe(400)
  },
)

// ---- Search ----

const search = (server: TestServer, query = ''): Promise<Reply> => server.get(`/api/v1/board/jobs?${query}`)
const found = ({ body }: Reply): string[] => body.items.map(({ id }) => id)

test('jobs are found by the beginning of their id', async () => {
  const server = await TestServer.open()
  const ids = ['01', '02', '03'].map((n) => `${n}90a1b2-0000-7000-8000-000000000000`)
  for (const id of ids) await server.enqueue({ id })
  const first = await search(server, 'id_prefix=02')
  expect(found(first)).toEqual([ids[1]])
  expect(first.body).toMatchObject({ complete: true, looked_back_to: null, next_cursor: null })
  expect(found(await search(server, `id_prefix=${ids[2]!}`))).toEqual([ids[2]])
  expect(found(await search(server, 'id_prefix=04'))).toEqual([])
})

test('jobs are found by the source of the limit that ended them, and by its kind', async () => {
  const server = await TestServer.open()
  await server.call('PUT', '/api/v1/job-types/typed', { timeout: 5, grace_period: 0 })
  const published = await server.start({ timeout: 5, grace_period: 0, retry: { max_attempts: 1 } })
  const typed = await server.start({ type: 'typed', retry: { max_attempts: 1 } })
  await server.enqueue()
  await server.advance(60_000)
  expect(found(await search(server, 'source=publish'))).toEqual([published.id])
  expect(found(await search(server, 'source=type&state=discarded'))).toEqual([typed.id])
  expect(found(await search(server, 'timeout_kind=execution&source=publish&limit=1'))).toEqual([published.id])
  const [row] = (await search(server, 'source=type')).body.items
  expect(row).toMatchObject({
    state: 'discarded',
    error: { type: 'timeout', timeout_kind: 'execution', limit_ms: 5_000, source: 'type' },
    limits: { timeout_ms: 5_000, timeout_source: 'type' },
  })
})

test('pages follow each other without a gap, whatever is compared', async () => {
  const server = await TestServer.open()
  const made: string[] = []
  for (let n = 0; n < 7; n += 1) {
    const { id } = await server.start({ timeout: 5, grace_period: 0, retry: { max_attempts: 1 } })
    made.unshift(id)
    await server.enqueue({ queue: 'other' })
    await server.advance(60_000)
  }
  for (const filter of [
    'source=publish',
    'timeout_kind=execution',
    'error_type=timeout',
    `source=publish&created_after=${at(-1)}`,
  ]) {
    const pages: string[] = []
    let cursor = ''
    for (;;) {
      const reply = await search(server, `${filter}&limit=2&cursor=${cursor}`)
      pages.push(...found(reply))
      if (reply.body['complete'] === true) break
      expect(reply.body['looked_back_to']).toMatch(/^2026-/)
      cursor = String(reply.body['next_cursor'])
    }
    expect(pages, filter).toEqual(made)
  }
})

test('a search among many that finds little says how far it looked, and goes on from there', async () => {
  const server = await TestServer.open()
  const rare = await server.enqueue({ type: 'rare' })
  await server.advance(1_000)
  const jobs = Array.from({ length: 1_500 }, () => ({ type: 'usual', args: [] }))
  await server.call('POST', '/ojs/v1/jobs/batch', { jobs: jobs.slice(0, 750) })
  await server.advance(1_000)
  await server.call('POST', '/ojs/v1/jobs/batch', { jobs: jobs.slice(750) })
  const asked = { filter: { ...ANY_JOB, type: 'rare' }, idPrefix: '', source: null }
  const first = await searchJobs(server.engine, asked, null, 50, 1_000)
  expect(first).toMatchObject({ jobs: [], examined: 1_000 })
  expect(iso(first.until ?? instant(0))).toBe(at(1_000))
  const second = await searchJobs(server.engine, asked, first.next, 50, 1_000)
  expect(second).toMatchObject({ jobs: [{ id: rare }], next: null, until: null })
})

test.each([
  'id_prefix=XYZ',
  'id_prefix=',
  'id_prefix=%27%20OR%201%3D1',
  'id_prefix=0190a1b2-0000-7000-8000-0000000000000',
  'state=open',
  'source=',
  'limit=0',
  'cursor=zzz',
  'cursor=0190a1b2-0000-7000-8000-000000000000&id_prefix=00',
  'meta=%7B%7D',
  'q=x',
])('a search refuses ?%s', async (query) => {
  const server = await TestServer.open()
  expect((await search(server, query)).status).toBe(400)
})
