/** Starts that are repeated: one run, however often and from wherever they are repeated. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { idle, TestServer, type Reply } from '../harness.ts'
import { call, deploy, PLAIN, runUrl, succeed, Upstream, wait } from '../journey-stage.ts'

let server: TestServer
let upstream: Upstream

beforeEach(async () => {
  upstream = new Upstream()
  server = await TestServer.open({ send: upstream.send })
})
afterEach(() => server.close())

const ASYNC = { lifecycle: { startMode: 'async' } }
const approval = { start: 'approve', states: { approve: wait(), done: succeed } }
const OWN = '0190b2c4-0000-7000-8000-0000000000aa'

function start(body: unknown, key: string | null, query = '', name = 'story'): Promise<Reply> {
  const headers = key === null ? PLAIN : { ...PLAIN, 'idempotency-key': key }
  return server.call('POST', `/api/v1/journeys/${name}/start${query}`, body, headers)
}

/** What does not change while the run goes on: its links tell what is open by now. */
function same({ body }: Reply): unknown {
  const { _links, ...rest } = body
  return rest
}

async function runs(): Promise<number> {
  const { body } = await server.get('/api/v1/journeys')
  return (body['items'] as unknown[]).length
}

describe('a start with an Idempotency-Key', () => {
  test('that is repeated gives the first run again', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const first = await start({ order: 7 }, 'k-1')
    const second = await start({ order: 7 }, 'k-1')
    expect([first.status, second.status]).toEqual([202, 200])
    expect(same(second)).toEqual(same(first))
    expect(second.headers['Location']).toBe(first.headers['Location'])
    expect([first.headers['Idempotency-Replayed'], second.headers['Idempotency-Replayed']]).toEqual([undefined, 'true'])
    expect(await runs()).toBe(1)
  })

  test('that comes twice at once gives one run', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const replies = await Promise.all(Array.from({ length: 5 }, () => start({ order: 7 }, 'k-1')))
    expect(new Set(replies.map(({ body }) => String(body['journeyId']))).size).toBe(1)
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 202])
    expect(await runs()).toBe(1)
  })

  test('that is repeated while the first caller waits is answered with it', async () => {
    await deploy(server, { start: 'ask', states: { ask: call(), done: succeed } })
    const both = [start({}, 'k-1'), start({}, 'k-1')]
    await idle()
    expect(upstream.calls).toHaveLength(1)
    await upstream.answer({ fine: true })
    const [first, second] = await Promise.all(both)
    expect([first?.status, second?.status]).toEqual([200, 200])
    expect(second?.body).toEqual(first?.body)
    expect(first?.body).toMatchObject({ phase: 'SUCCEEDED' })
  })

  test('that is repeated after the end is answered with the outcome', async () => {
    await deploy(server, { start: 'done', states: { done: succeed } })
    const first = await start({ order: 7 }, 'k-1')
    await server.advance(3_600_000)
    const second = await start({ order: 7 }, 'k-1')
    expect(second.body).toEqual(first.body)
  })

  test('is not judged again by what was deployed since', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const first = await start({ order: 7 }, 'k-1')
    const input = { schema: { type: 'object', required: ['other'] } }
    await deploy(server, { ...ASYNC, ...approval, input }, { version: '2.0.0' })
    const second = await start({ order: 7 }, 'k-1')
    expect([second.status, second.body['journeyId']]).toEqual([200, first.body['journeyId']])
  })

  test('does not mind the order of members in the body', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const first = await start({ a: 1, b: { c: 2, d: 3 } }, 'k-1')
    const second = await start({ b: { d: 3, c: 2 }, a: 1 }, 'k-1')
    expect(same(second)).toEqual(same(first))
  })

  test.each([
    ['other input', { order: 8 }, ''],
    ['another version', { order: 7 }, '?version=1.0.0'],
    ['an id of its own', { order: 7, x_journey_id: OWN }, ''],
  ])('and %s is refused, and names the key and the run', async (_, body, query) => {
    await deploy(server, { ...ASYNC, ...approval })
    const first = await start({ order: 7 }, 'k-1')
    const second = await start(body, 'k-1', query)
    expect(second.status).toBe(409)
    expect(second.body).toMatchObject({
      reason: 'idempotency_key_reused',
      idempotencyKey: 'k-1',
      journeyId: first.body['journeyId'],
    })
    expect(await runs()).toBe(1)
  })

  test('means another run for another key, and for another journey', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    await deploy(server, { ...ASYNC, ...approval }, { name: 'other' })
    const ids = [await start({}, 'k-1'), await start({}, 'k-2'), await start({}, 'k-1', '', 'other')].map(({ body }) =>
      String(body['journeyId']),
    )
    expect(new Set(ids).size).toBe(3)
  })

  test('stores nothing when it is refused: the key can be used again', async () => {
    const input = { schema: { type: 'object', required: ['order'] } }
    await deploy(server, { ...ASYNC, ...approval, input })
    expect((await start({}, 'k-1')).status).toBe(400)
    expect((await start({ order: 7 }, 'k-1')).status).toBe(202)
  })

  test('is kept as long as its run, and no longer', async () => {
    await deploy(server, { ...ASYNC, start: 'done', states: { done: succeed } })
    const first = await start({}, 'k-1')
    await idle()
    server.clock.advance(7 * 86_400_000 - 1)
    expect(same(await start({}, 'k-1'))).toEqual(same(first))
    server.clock.advance(1)
    const again = await start({}, 'k-1')
    expect(again.status).toBe(202)
    expect(again.body['journeyId']).not.toBe(first.body['journeyId'])
  })

  test.each([
    ['', 'nothing'],
    ['x'.repeat(256), 'too long'],
  ])('must be a key: %#', async (key) => {
    await deploy(server, { ...ASYNC, ...approval })
    const reply = await start({}, key)
    expect(reply.status).toBe(400)
    expect(reply.body).toMatchObject({ field: 'Idempotency-Key' })
  })
})

describe('a start with an id of its own', () => {
  test('begins a run with it, and the context does not have it', async () => {
    await deploy(server, { start: 'done', states: { done: succeed } })
    const reply = await start({ order: 7, x_journey_id: OWN }, null)
    expect(reply.body).toMatchObject({ journeyId: OWN, output: { order: 7 } })
    expect((await server.get(runUrl(OWN))).status).toBe(200)
  })

  test('that is repeated gives the first run again', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const first = await start({ order: 7, x_journey_id: OWN }, null)
    const second = await start({ order: 7, x_journey_id: OWN }, null)
    expect([first.status, second.status]).toEqual([202, 200])
    expect(same(second)).toEqual(same(first))
    expect(await runs()).toBe(1)
  })

  test.each([
    ['other input', { order: 8 }, 'story'],
    ['another journey', { order: 7 }, 'other'],
  ])('and %s is refused, and names the run', async (_, body, name) => {
    await deploy(server, { ...ASYNC, ...approval })
    await deploy(server, { ...ASYNC, ...approval }, { name: 'other' })
    await start({ order: 7, x_journey_id: OWN }, null)
    const second = await start({ ...body, x_journey_id: OWN }, null, '', name)
    expect(second.status).toBe(409)
    expect(second.body).toMatchObject({ reason: 'journey_exists', journeyId: OWN })
  })

  test('that another run has by chance is refused', async () => {
    await deploy(server, { ...ASYNC, ...approval })
    const id = (await start({}, null)).body['journeyId']
    expect((await start({ x_journey_id: id }, null)).status).toBe(409)
  })

  test.each(['abc', 7, OWN.toUpperCase(), '0190b2c4-0000-4000-8000-0000000000aa'])(
    'must be a UUIDv7: %s',
    async (id) => {
      await deploy(server, { ...ASYNC, ...approval })
      const reply = await start({ x_journey_id: id }, null)
      expect(reply.status).toBe(400)
      expect(reply.body).toMatchObject({ field: 'x_journey_id' })
    },
  )
})

describe('a call of an Api with an Idempotency-Key', () => {
  const quote = (body: unknown, key: string): Promise<Reply> =>
    server.call('POST', '/api/v1/apis/quote', body, { ...PLAIN, 'idempotency-key': key })

  test('that is repeated gives the same answer, and makes no call again', async () => {
    await deploy(
      server,
      { start: 'ask', states: { ask: call(), done: { type: 'succeed', outputVar: 'answer' } } },
      { kind: 'Api', name: 'quote' },
    )
    const first = quote({ sku: 1 }, 'k-1')
    await idle()
    await upstream.answer({ price: 7 })
    const second = await quote({ sku: 1 }, 'k-1')
    expect(second.body).toEqual((await first).body)
    expect(second.body).toMatchObject({ body: { price: 7 } })
    expect(upstream.calls).toHaveLength(1)
    expect((await quote({ sku: 2 }, 'k-1')).status).toBe(409)
  })
})
