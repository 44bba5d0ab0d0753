/** Workflows with the SDK, against the whole server in one process: what an application sees. */
import { expect, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import {
  batch,
  chain,
  Client,
  dag,
  DeadlineError,
  defineJob,
  entry,
  group,
  InputError,
  RequestError,
  UnsupportedError,
  Worker,
  WorkflowFailedError,
  type InProcessServer,
  type WorkflowView,
} from '@curfew/sdk'
import { at, idle, TestServer } from '../harness.ts'

const extract = defineJob<[url: string]>('data.extract', { queue: 'etl', limits: { timeout: '1m' } })
const shape = defineJob<[format: string]>('data.shape', { queue: 'etl' })
const load = defineJob('data.load', { queue: 'etl', retry: { maxAttempts: 1 } })

type Handler = InProcessServer['handler']

async function open(around: (handler: Handler) => Handler = (handler) => handler) {
  const server = await TestServer.open()
  const client = new Client({
    server: { handler: around((request) => server.handler(request)) },
    host: server.clock,
    random: seededRandom(11),
  })
  return { server, client }
}

async function work(server: TestServer, prepare: (worker: Worker) => void): Promise<void> {
  const worker = new Worker({ server, host: server.clock, random: () => 0.5, queues: ['etl'] })
  prepare(worker)
  await worker.start()
  await idle()
}

const etl = chain([entry(extract, ['a.csv']), group([entry(shape, ['csv']), entry(shape, ['pdf'])]), entry(load, [])], {
  name: 'etl',
})

test('a workflow runs to its end through a worker, whose handlers see what came before them', async () => {
  const { server, client } = await open()
  const seen: unknown[] = []
  await work(server, (worker) => {
    worker.handle(extract, (_, [url]) => ({ url }))
    worker.handle(shape, (context, [format]) => [format, context.parentResults])
    worker.handle(load, (context) => {
      seen.push(context.workflowId, context.parentResults)
      return 'loaded'
    })
  })
  const begun = await client.workflows.create(etl, { workflowTimeout: '10m', meta: { team: 'x' } })
  expect(begun).toMatchObject({
    name: 'etl',
    state: 'running',
    jobs_total: 4,
    x_deadline: at(600_000),
    meta: { team: 'x' },
  })
  const over = client.workflows.wait(begun, { timeout: '1h' })
  await server.advance(1_000)
  const done = await over
  const raw = { url: 'a.csv' }
  const shaped = [
    ['csv', [raw]],
    ['pdf', [raw]],
  ]
  expect(seen).toEqual([begun.id, [raw, shaped]])
  expect(done).toMatchObject({ state: 'completed', steps: [{}, { steps: [{}, {}] }, { result: 'loaded' }] })
  expect(await client.workflows.progress(begun)).toMatchObject({ progress: 1, jobs_completed: 4 })
  expect(await client.workflows.get(begun.id)).toEqual(done)
})

test('a batch, a DAG, and options of the job and of the step, as they go onto the wire', async () => {
  const { server, client } = await open()
  const tree = dag({
    a: entry(extract, ['a'], { timeout: '5s', tags: ['x'] }),
    b: {
      after: ['a'],
      run: batch([entry(shape, ['csv'])], { onFailure: entry(load, []), onComplete: entry(load, []) }),
    },
  })
  const begun = await client.workflows.create(tree)
  expect(begun).toMatchObject({
    type: 'dag',
    steps: [{ id: 'a' }, { id: 'b', type: 'batch', depends_on: ['a'], callbacks: { on_complete: {}, on_failure: {} } }],
  })
  const { jobs } = (await server.fetch({ queues: ['etl'] })).body
  expect(jobs).toMatchObject([{ type: 'data.extract', args: ['a'], tags: ['x'], x_limits: { timeout_ms: 5_000 } }])
})

test('waiting for one that fails, is cancelled, or takes too long', async () => {
  const { server, client } = await open()
  const begin = (): Promise<WorkflowView> => client.workflows.create(chain([entry(load, [])]))
  const failed = await begin()
  const { job } = (await server.fetch({ queues: ['etl'] })).body
  await server.nack(job.id, { type: 'disk_full', message: 'no room' })
  const error = await client.workflows.wait(failed).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(WorkflowFailedError)
  expect(error).toMatchObject({ code: 'step_failed', state: 'failed', workflowId: failed.id })

  const cancelled = await begin()
  expect(await client.workflows.cancel(cancelled)).toMatchObject({ state: 'cancelled', steps_cancelled: 1 })
  await expect(client.workflows.wait(cancelled)).rejects.toMatchObject({ code: 'cancelled', error: null })
  await expect(client.workflows.cancel(cancelled)).rejects.toMatchObject({ code: 'conflict' })

  const slow = await begin()
  const waiting = client.workflows.wait(slow, { timeout: '5s' })
  waiting.catch(() => {})
  await server.advance(5_000)
  await expect(waiting).rejects.toBeInstanceOf(DeadlineError)

  const late = await client.workflows.create(chain([entry(load, [])]), { workflowTimeout: '1s' })
  await server.advance(1_000)
  await expect(client.workflows.wait(late)).rejects.toMatchObject({ code: 'workflow_timeout' })
})

test('lists them, newest first and by state', async () => {
  const { server, client } = await open()
  const ids: string[] = []
  for (let n = 0; n < 3; n += 1) {
    ids.unshift((await client.workflows.create(chain([entry(load, [])]))).id)
    await server.advance(1)
  }
  await client.workflows.cancel(ids[0] ?? '')
  const found: string[] = []
  for await (const { id } of client.workflows.list({ state: 'running' })) found.push(id)
  expect(found).toEqual(ids.slice(1))
})

test('a call whose answer got lost is repeated, and begins nothing twice', async () => {
  let lost = 0
  const { server, client } = await open((handler) => async (request) => {
    const answer = await handler(request)
    if (request.method === 'POST' && lost === 0) {
      lost += 1
      throw new Error('the line went dead')
    }
    return answer
  })
  const begun = client.workflows.create(etl)
  await server.advance(10_000)
  expect((await begun).state).toBe('running')
  expect((await server.get('/ojs/v1/workflows')).body['workflows']).toHaveLength(1)
})

test('what is wrong is said before it is sent, or by the server with its place', async () => {
  const { client } = await open()
  const step = entry(load, [], { parent: { jobId: 'x' } })
  await expect(client.workflows.create(chain([step]))).rejects.toBeInstanceOf(InputError)
  await expect(client.workflows.create(etl, { inheritDeadline: true })).rejects.toBeInstanceOf(InputError)
  await expect(client.workflows.create(chain([]))).rejects.toBeInstanceOf(RequestError)
  const wrong = chain([entry(load, []), group([entry(shape, ['csv'], { queue: 'Not A Queue' })])])
  await expect(client.workflows.create(wrong)).rejects.toMatchObject({
    code: 'invalid_request',
    details: { field: 'steps[1].jobs[0].queue' },
  })
})

test('a job may have a workflow as its parent', async () => {
  const { client } = await open()
  const { id } = await client.workflows.create(chain([entry(load, [])]), { workflowTimeout: '1m' })
  const job = await client.enqueue(load, [], { parent: { workflowId: id }, inheritDeadline: true })
  expect(job.x_limits).toMatchObject({ total_ms: 60_000, sources: { total: 'parent' } })
})

test('a server that does not know workflow_timeout is not sent one', async () => {
  const { client } = await open((handler) => async (request) => {
    const answer = await handler(request)
    if (!request.url.includes('manifest') || typeof answer.body !== 'string') return answer
    return { ...answer, body: answer.body.replace('urn:curfew:ext:workflows', 'urn:other') }
  })
  await expect(client.workflows.create(etl, { workflowTimeout: '1m' })).rejects.toBeInstanceOf(UnsupportedError)
  expect((await client.workflows.create(etl)).state).toBe('running')
})
