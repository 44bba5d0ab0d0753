import { describe, expect, test } from 'vitest'
import { Client } from './client.ts'
import { ApiFailedError, DeadlineError, InputError, InvalidDefinitionError, JourneyFailedError } from '../errors.ts'
import { state } from '../journey/journey-states.ts'
import { journey } from '../journey/journey.ts'
import { ScriptedServer, turning, world, type Asked, type Line } from '../scripted.suite.ts'

const ID = '01890000-0000-7000-8000-00000000000a'
const head = { journeyId: ID, journeyName: 'quote' }
const running = { ...head, phase: 'RUNNING', currentState: 'approve', remainingMs: 5 }
const ended = {
  ...head,
  phase: 'SUCCEEDED',
  status: 'SUCCEEDED',
  output: { price: 5 },
  error: null,
  terminationKind: 'Success',
  terminatedAtState: 'done',
}
const late = {
  ...ended,
  phase: 'FAILED',
  status: 'LATE',
  output: null,
  error: { code: 'LATE', reason: 'no answer came' },
  terminationKind: 'Timeout',
  terminatedAtState: 'approve',
}
const quote = journey('quote', '1.0.0', { start: 'done', states: { done: state.succeed() } })

function open(script: readonly Line[] | ((asked: Asked, count: number) => Line)) {
  const { host, random } = world()
  const server = new ScriptedServer(script)
  return { host, server, client: new Client({ server, host, random }) }
}

describe('definitions', () => {
  test('a definition is deployed under its name, built or written by hand', async () => {
    const { server, client } = open([{ status: 201, body: { name: 'quote', version: '1.0.0', warnings: [] } }])
    await client.journeys.deploy(quote)
    await client.journeys.deploy(quote.toJSON())
    await client.journeys.deploy('quote', 'kind: Journey\n')
    expect(server.urls).toEqual(Array(3).fill('PUT /api/v1/definitions/quote'))
    expect(server.asked[0]?.body).toEqual(quote.toJSON())
    expect(server.asked[0]?.headers['content-type']).toBe('application/json')
    expect(server.asked[1]?.body).toEqual(quote.toJSON())
    expect(server.asked[2]).toMatchObject({ text: 'kind: Journey\n', headers: { 'content-type': 'application/yaml' } })
  })

  test('what is wrong with it is listed in the error', async () => {
    const errors = [{ code: 'GRAPH-1', path: '/spec/start', line: 3, column: 9, message: 'There is no state begin.' }]
    const problem = {
      title: 'Unprocessable',
      status: 422,
      detail: 'not right',
      code: 'invalid_definition',
      errors,
      warnings: [],
    }
    const { client } = open([{ status: 422, body: problem }])
    const error = await client.journeys.deploy(quote).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(InvalidDefinitionError)
    expect(error).toMatchObject({ name: 'InvalidDefinitionError', status: 422, errors, warnings: [] })
    expect(String(error)).toContain('GRAPH-1 at /spec/start: There is no state begin.')
  })

  test('validate asks without storing', async () => {
    const { server, client } = open([{ body: { errors: [], warnings: [] } }])
    expect(await client.journeys.validate('kind: Journey\n')).toEqual({ errors: [], warnings: [] })
    expect(server.urls).toEqual(['POST /api/v1/definitions:validate'])
  })
})

describe('start', () => {
  test('with a key is repeated when no answer comes, under the same key', async () => {
    const { host, server, client } = open(['dead', { status: 503, body: '' }, { status: 202, body: head }])
    const options = { idempotencyKey: 'order-7', headers: { 'X-Mine': 'yes' } }
    const started = await turning(host, client.journeys.start('quote', { a: 1 }, options))
    expect(started).toMatchObject({ phase: 'RUNNING', journeyId: ID })
    expect(server.asked.map(({ headers }) => [headers['idempotency-key'], headers['x-mine']])).toEqual(
      Array(3).fill(['order-7', 'yes']),
    )
  })

  test('with an id of the run names it in the body, and is repeated when no answer comes', async () => {
    const { host, server, client } = open(['dead', { status: 202, body: head }])
    await turning(host, client.journeys.start('quote', { a: 1 }, { id: ID }))
    await client.journeys.start('quote', undefined, { id: ID })
    expect(server.asked.map(({ text }) => JSON.parse(text) as unknown)).toEqual([
      { a: 1, x_journey_id: ID },
      { a: 1, x_journey_id: ID },
      { x_journey_id: ID },
    ])
    await expect(client.journeys.start('quote', [1], { id: ID })).rejects.toBeInstanceOf(InputError)
  })

  test('gives a run that goes on, at a step, or over already', async () => {
    const { server, client } = open([
      { status: 202, body: { ...head, statusUrl: '/x' } },
      { body: running },
      { body: ended },
    ])
    expect(await client.journeys.start('quote')).toEqual({ ...head, phase: 'RUNNING', status: null })
    expect(await client.journeys.start(quote, { sku: 'a' }, { version: '1.0.0' })).toMatchObject({ status: running })
    expect(await client.journeys.start(quote, {})).toEqual(ended)
    expect(server.urls.slice(0, 2)).toEqual([
      'POST /api/v1/journeys/quote/start',
      'POST /api/v1/journeys/quote/start?version=1.0.0',
    ])
    expect(server.asked.map(({ text }) => text)).toEqual(['{}', '{"sku":"a"}', '{}'])
  })

  test('is not said twice: a run may have begun', async () => {
    const { server, client } = open(['dead', { body: ended }])
    await expect(client.journeys.start('quote')).rejects.toMatchObject({ code: 'network' })
    expect(server.asked).toHaveLength(1)
  })

  test('a handler hands down its deadline', async () => {
    const { server, client } = open([{ body: ended }])
    await client.journeys.start('quote', {}, { parent: { jobId: ID }, inheritDeadline: true })
    const query = new URLSearchParams(server.asked[0]?.url.split('?')[1])
    expect(Object.fromEntries(query)).toEqual({ x_parent: JSON.stringify({ job_id: ID }), x_inherit_deadline: 'true' })
    await expect(client.journeys.start('quote', {}, { inheritDeadline: true })).rejects.toBeInstanceOf(InputError)
  })
})

describe('result', () => {
  test('asks until the run is over', async () => {
    const { host, server, client } = open((_, count) =>
      count < 4 ? { status: 409, body: { title: 'x' } } : { body: ended },
    )
    const outcome = await turning(host, client.journeys.result(ID))
    expect(outcome.output).toEqual({ price: 5 })
    expect(server.urls[0]).toBe(`GET /api/v1/journeys/${ID}/result?wait=true&timeout=30`)
    expect(server.asked).toHaveLength(4)
  })

  test('throws how it failed', async () => {
    const { client } = open([{ body: late }])
    const error = await client.journeys.result({ journeyId: ID }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(JourneyFailedError)
    expect(error).toMatchObject({
      code: 'LATE',
      reason: 'no answer came',
      terminationKind: 'Timeout',
      terminatedAtState: 'approve',
      journeyId: ID,
      outcome: late,
    })
    await expect(client.journeys.run('quote')).rejects.toBeInstanceOf(JourneyFailedError)
  })

  test('ends with its own timeout, and with the signal', async () => {
    const { host, client } = open([{ status: 409, body: { title: 'x' } }])
    await expect(turning(host, client.journeys.result(ID, { timeout: '5s' }))).rejects.toBeInstanceOf(DeadlineError)
    const gone = new AbortController()
    const waiting = client.journeys.result(ID, { signal: gone.signal })
    gone.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })
})

test('run gives the output, of a start that waited and of one that did not', async () => {
  const { client } = open(({ method }) => (method === 'GET' ? { body: ended } : { status: 202, body: head }))
  expect(await client.journeys.run('quote')).toEqual({ price: 5 })
  const { client: waited } = open([{ body: ended }])
  expect(await waited.journeys.run('quote')).toEqual({ price: 5 })
})

test('steps are submitted once, with what goes along; cancelling may be repeated', async () => {
  const { host, server, client } = open([{ body: running }, 'dead', { body: running }])
  await client.journeys.submit(ID, 'approve', { ok: true }, { headers: { 'X-User': 'ada' }, query: { via: 'mail' } })
  expect(server.asked[0]).toMatchObject({
    url: `/api/v1/journeys/${ID}/steps/approve?via=mail`,
    body: { ok: true },
    headers: { 'x-user': 'ada' },
  })
  await turning(host, client.journeys.cancel(ID))
  expect(server.urls.slice(1)).toEqual(Array(2).fill(`POST /api/v1/journeys/${ID}/steps/cancel`))
})

test('list goes on until there is no next page', async () => {
  const { server, client } = open([{ body: { items: [running], nextPageToken: 'p2' } }, { body: { items: [running] } }])
  const found: string[] = []
  for await (const { journeyId } of client.journeys.list({ journeyName: 'quote', phase: 'RUNNING' }))
    found.push(journeyId)
  expect(found).toEqual([ID, ID])
  expect(server.urls).toEqual([
    'GET /api/v1/journeys?journeyName=quote&phase=RUNNING',
    'GET /api/v1/journeys?journeyName=quote&phase=RUNNING&pageToken=p2',
  ])
})

test('an Api answers, or throws with whatever it answered', async () => {
  const { server, client } = open([{ body: { price: 5 } }, { status: 503, body: { mine: true } }])
  expect(await client.apis.call('price-quote', { sku: 'a' })).toEqual({ price: 5 })
  expect(server.urls).toEqual(['POST /api/v1/apis/price-quote'])
  const error = await client.apis.call('price-quote', {}).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ApiFailedError)
  expect(error).toMatchObject({ status: 503, body: { mine: true } })
  expect(server.asked).toHaveLength(2)
})
