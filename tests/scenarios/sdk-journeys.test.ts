/** Journeys with the SDK, against the whole server in one process: what an application sees. */
import { afterEach, expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import {
  api,
  Client,
  DeadlineError,
  defineJob,
  InvalidDefinitionError,
  journey,
  JourneyFailedError,
  jsonata,
  schema,
  state,
  Worker,
  type JourneyOutcome,
} from '@curfew/sdk'
import { idle, TestServer } from '../harness.ts'

let server: TestServer

async function open(): Promise<Client> {
  server = await TestServer.open()
  return new Client({ server, host: server.clock, random: seededRandom(11) })
}

afterEach(async () => {
  await server.close()
})

const approval = journey('approval', '1.0.0', {
  tags: ['people'],
  execution: { maxDuration: '30s', onTimeout: { errorCode: 'NO_ANSWER', reason: 'no answer came' } },
  input: schema<{ amount: number }>({
    type: 'object',
    required: ['amount'],
    properties: { amount: { type: 'number' } },
  }),
  output: schema<{ approved: boolean }>({ type: 'object' }),
  start: 'size',
  states: {
    size: state.choice([{ when: jsonata`context.amount < ${100}`, next: 'small' }], 'decide'),
    small: state.transform({ mapper: jsonata`{ "approved": true }`, resultVar: 'decision', next: 'end' }),
    decide: state.wait({
      input: schema({ type: 'object', required: ['approved'], properties: { approved: { type: 'boolean' } } }),
      next: 'keep',
    }),
    keep: state.transform({ mapper: jsonata`context.payload`, resultVar: 'decision', next: 'end' }),
    end: state.succeed('decision'),
  },
})

test('from the definition to the output', async () => {
  const client = await open()
  expect(await client.journeys.deploy(approval)).toMatchObject({
    name: 'approval',
    version: '1.0.0',
    kind: 'Journey',
    effectiveMaxDurationSec: 30,
    warnings: [],
  })
  expect(await client.journeys.definition('approval')).toMatchObject({
    definition: approval.toJSON(),
    versions: ['1.0.0'],
  })
  expect(await client.journeys.run(approval, { amount: 5 })).toEqual({ approved: true })

  const large = await client.journeys.start(approval, { amount: 500 })
  expect(large).toMatchObject({ phase: 'RUNNING', status: { currentState: 'decide', remainingMs: 30_000 } })
  await expect(client.journeys.submit(large, 'decide', { approved: 1 })).rejects.toMatchObject({ status: 400 })
  await expect(client.journeys.submit(large, 'other', {})).rejects.toMatchObject({ status: 409 })
  const waiting = client.journeys.result(large)
  await server.advance(5_000)
  expect(await client.journeys.submit(large, 'decide', { approved: false })).toMatchObject({ phase: 'SUCCEEDED' })
  await server.advance(0)
  expect(await waiting).toMatchObject({ phase: 'SUCCEEDED', output: { approved: false } })
  expect((await client.journeys.explain(large)).states.map(({ state: path }) => path)).toContain('decide')
})

test('a run that is out of time throws, and says where it was', async () => {
  const client = await open()
  await client.journeys.deploy(approval)
  const run = await client.journeys.start(approval, { amount: 500 })
  const waiting = client.journeys.result(run)
  waiting.catch(() => {})
  await server.advance(30_000)
  const error = await waiting.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(JourneyFailedError)
  expect(error).toMatchObject({
    code: 'NO_ANSWER',
    reason: 'no answer came',
    terminationKind: 'Timeout',
    terminatedAtState: 'decide',
  })
  // What is over stays as it ended.
  expect((await client.journeys.cancel(run)).phase).toBe('FAILED')
  await expect(client.journeys.result(run)).rejects.toMatchObject({ terminationKind: 'Timeout' })
})

test('waiting for a result ends with its own timeout, and the run goes on', async () => {
  const client = await open()
  await client.journeys.deploy(approval)
  const run = await client.journeys.start(approval, { amount: 500 })
  const waiting = client.journeys.result(run, { timeout: '3s' })
  waiting.catch(() => {})
  await server.advance(3_000)
  await expect(waiting).rejects.toBeInstanceOf(DeadlineError)
  expect((await client.journeys.status(run)).phase).toBe('RUNNING')
  expect((await client.journeys.cancel(run)).phase).toBe('FAILED')
  await expect(client.journeys.result(run)).rejects.toMatchObject({
    code: 'JOURNEY_CANCELLED',
    terminationKind: 'Cancel',
  })
})

test('a definition that is not right is refused with all that is wrong, and stays away', async () => {
  const client = await open()
  const wrong = { ...approval.toJSON(), spec: { start: 'begin', states: { end: { type: 'succeed', outputVr: 'x' } } } }
  const error = await client.journeys.deploy(wrong).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(InvalidDefinitionError)
  const { errors } = error as InvalidDefinitionError
  expect(errors.map(({ code, path }) => [code, path]).sort()).toEqual([
    ['GRAPH-1', '/spec/start'],
    ['SHAPE-1', '/spec/states/end/outputVr'],
  ])
  expect(await client.journeys.validate(wrong)).toMatchObject({ errors })
  await expect(client.journeys.definition('approval')).rejects.toMatchObject({ code: 'not_found', status: 404 })
})

test('a handler starts a run that ends no later than its own job', async () => {
  const client = await open()
  await client.journeys.deploy(approval)
  const outer = defineJob<[]>('outer.job', { queue: 'outer' })
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, queues: ['outer'] })
  let id = ''
  worker.handle(outer, async (ctx) => {
    const run = await client.journeys.start(approval, { amount: 500 }, { parent: ctx, inheritDeadline: true })
    id = run.journeyId
  })
  await worker.start()
  await client.enqueue(outer, [], { totalTimeout: '10s' })
  await server.advance(1_000)
  await idle()
  expect(await client.journeys.status(id)).toMatchObject({ limitedBy: 'parent', effectiveMaxDurationSec: 10 })
})

test('lists runs by what they are, page by page', async () => {
  const client = await open()
  await client.journeys.deploy(approval)
  const ids: string[] = []
  for (let n = 0; n < 55; n += 1) {
    ids.unshift((await client.journeys.start(approval, { amount: n === 0 ? 5 : 500 })).journeyId)
    await server.advance(1)
  }
  const found = async (filter: Parameters<Client['journeys']['list']>[0]): Promise<string[]> => {
    const list: string[] = []
    for await (const { journeyId } of client.journeys.list(filter)) list.push(journeyId)
    return list
  }
  expect(await found({ phase: 'RUNNING', journeyName: 'approval', tag: 'people' })).toEqual(ids.slice(0, -1))
  expect(await found({ phase: 'SUCCEEDED' })).toEqual(ids.slice(-1))
  expect(await found({ tag: 'machines' })).toEqual([])
})

test('an older version is started by its name, and versions do not change', async () => {
  const client = await open()
  await client.journeys.deploy(approval)
  const second = { ...approval.toJSON(), metadata: { ...approval.toJSON().metadata, version: '2.0.0', tags: [] } }
  await client.journeys.deploy(second)
  const versionOf = async (version?: string): Promise<unknown> => {
    const started = await client.journeys.start(approval, { amount: 5 }, version === undefined ? {} : { version })
    return (started as JourneyOutcome).journeyVersion
  }
  expect([await versionOf(), await versionOf('1.0.0')]).toEqual(['2.0.0', '1.0.0'])
  const changed = { ...second, spec: { start: 'end', states: { end: { type: 'succeed' } } } }
  await expect(client.journeys.deploy(changed)).rejects.toMatchObject({ status: 409 })
})

test('an Api answers, and fails with its own status and code', async () => {
  const client = await open()
  const double = api('double', '1.0.0', {
    input: schema<{ n: number }>({ type: 'object', required: ['n'] }),
    output: schema<number>({ type: 'number' }),
    http: { apiResponses: { rules: [{ when: { phase: 'FAILED', errorType: 'TOO_LARGE' }, status: 422 }] } },
    start: 'look',
    states: {
      look: state.choice([{ when: jsonata`context.n > 100`, next: 'large' }], 'double'),
      double: state.transform({ mapper: jsonata`context.n * 2`, resultVar: 'answer', next: 'done' }),
      done: state.succeed('answer'),
      large: state.fail('TOO_LARGE', '${context.n} is too large'),
    },
  })
  await client.journeys.deploy(double)
  expect(await client.apis.call(double, { n: 21 })).toBe(42)
  await expect(client.apis.call(double, { n: 101 })).rejects.toMatchObject({
    name: 'ApiFailedError',
    status: 422,
    code: 'TOO_LARGE',
    body: { reason: '101 is too large' },
  })
})
