// What the README and the examples of the JavaScript SDK show, against the server at OJS_URL. A line of JSON for each.
import { readFileSync } from 'node:fs'
import * as ojs from '@openjobspec/sdk'

const url = process.env.OJS_URL
const { OJSClient, OJSWorker, chain, group, batch } = ojs
const client = new OJSClient({ url })
const QUEUE = 'sdk-js'
const FAST = { maxAttempts: 3, initialInterval: 'PT0.1S', jitter: false }

async function step(name, run) {
  let line
  try {
    await Promise.race([run(), late(20_000)])
    line = { step: name, ok: true }
  } catch (error) {
    line = { step: name, ok: false, error: String(error?.message ?? error) }
  }
  console.log(JSON.stringify(line))
}

async function late(ms) {
  await new Promise((resolve) => setTimeout(resolve, ms).unref())
  throw new Error(`not done after ${ms} ms`)
}

function must(truth, what) {
  if (!truth) throw new Error(`not so: ${what}`)
}

async function until(look, holds) {
  for (;;) {
    const found = await look()
    if (holds(found)) return found
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const jobIn = (id, state) =>
  until(
    () => client.getJob(id),
    (job) => job.state === state,
  )
const workflowIn = (id, state) =>
  until(
    () => client.getWorkflow(id),
    (workflow) => workflow.state === state,
  )

async function refusal(run, code) {
  const error = await run().then(
    () => null,
    (thrown) => thrown,
  )
  must(error !== null, `refused with ${code}`)
  must(error.code === code, `the code ${code}, not ${error.code}: ${error.message}`)
  return error
}

// A worker for all steps that need one.
const worker = new OJSWorker({ url, queues: [QUEUE], pollInterval: 50, heartbeatInterval: 500, handleSignals: false })
const seen = []
worker.use('log', async (ctx, next) => {
  seen.push(ctx.job.type)
  return next()
})
worker.register('sdk.echo', async (ctx) => ({ echo: ctx.job.args[0] ?? null }))
worker.register('sdk.flaky', async (ctx) => {
  if (ctx.attempt === 1) throw new Error('not yet')
  return { attempt: ctx.attempt }
})
worker.register('sdk.fails', async () => {
  throw new Error('never')
})
worker.register('sdk.progress', async (ctx) => {
  await ojs.reportProgress(worker.transport, ctx.job.id, 50, 'half')
  return { done: true }
})
worker.registerDurable('sdk.durable', async (ctx, durable) => {
  const rolled = await durable.sideEffect('roll', async () => `attempt ${ctx.attempt}`)
  await durable.checkpoint(1, { rolled })
  if (ctx.attempt === 1) throw new Error('crash')
  await durable.complete()
  return { rolled }
})

const { version } = JSON.parse(readFileSync('node_modules/@openjobspec/sdk/package.json', 'utf8'))
console.log(JSON.stringify({ sdk: `@openjobspec/sdk ${version}` }))

await step('enqueue', async () => {
  const job = await client.enqueue(
    'sdk.later',
    { id: 42 },
    {
      queue: 'sdk-js-later',
      delay: '5m',
      priority: 5,
      timeout: 30_000,
      retry: {
        maxAttempts: 5,
        initialInterval: 'PT2S',
        nonRetryableErrors: ['validation.*'],
        onExhaustion: 'dead_letter',
      },
      tags: ['monthly'],
      meta: { trace: 't' },
    },
  )
  must(job.state === 'scheduled' && job.queue === 'sdk-js-later' && job.priority === 5, JSON.stringify(job))
})
await step('batch', async () => {
  const jobs = await client.enqueueBatch([1, 2, 3].map((n) => ({ type: 'sdk.later', args: { n } })))
  must(jobs.length === 3 && jobs.every(({ id }) => id), 'three jobs with ids')
})
await step('get and cancel', async () => {
  const { id } = await client.enqueue('sdk.later', { to: 'a' })
  const job = await client.getJob(id)
  must(job.id === id && job.args[0].to === 'a', JSON.stringify(job))
  must((await client.cancelJob(id)).state === 'cancelled', 'cancelled')
})
await step('not found', () => refusal(() => client.getJob('01a1e000-0000-7000-8000-000000000000'), 'not_found'))
await step('unique', async () => {
  const push = () => client.enqueue('sdk.unique', { id: 1 }, { unique: { key: ['id'], period: 'PT1H' } })
  const { id } = await push()
  must((await refusal(push, 'duplicate')).existingJobId === id, 'the id of the first')
})
await worker.start()
await step('worker', async () => {
  const { id } = await client.enqueue('sdk.echo', { word: 'hello' }, { queue: QUEUE })
  must((await jobIn(id, 'completed')).result.echo.word === 'hello', 'the result')
  must(seen.includes('sdk.echo'), 'the middleware saw it')
})
await step('retry', async () => {
  const { id } = await client.enqueue('sdk.flaky', {}, { queue: QUEUE, retry: FAST })
  must((await jobIn(id, 'completed')).attempt === 2, 'completed by the second attempt')
})
await step('dead letter', async () => {
  const retry = { maxAttempts: 1, onExhaustion: 'dead_letter' }
  const dead = async () => {
    const { id } = await client.enqueue('sdk.fails', {}, { queue: QUEUE, retry })
    await jobIn(id, 'discarded')
    must(
      (await client.queues.listDeadLetter()).some((job) => job.id === id),
      'it is in the list',
    )
    return id
  }
  const id = await dead()
  await client.queues.retryDeadLetter(id)
  await jobIn(id, 'discarded')
  await client.queues.discardDeadLetter(await dead())
})
const options = { queue: QUEUE }
await step('workflow chain', async () => {
  const { id } = await client.workflow(
    chain(
      { type: 'sdk.echo', args: { n: 1 }, options },
      group({ type: 'sdk.echo', args: { n: 2 }, options }, { type: 'sdk.echo', args: { n: 3 }, options }),
    ),
  )
  const { metadata } = await workflowIn(id, 'completed')
  must(metadata.completed_count === metadata.job_count, JSON.stringify(metadata))
})
await step('workflow group', async () => {
  const { id } = await client.workflow(
    group({ type: 'sdk.echo', args: [1], options }, { type: 'sdk.echo', args: [2], options }),
  )
  await workflowIn(id, 'completed')
})
await step('workflow batch', async () => {
  const callbacks = {
    on_complete: { type: 'sdk.echo', args: { done: true }, options },
    on_failure: { type: 'sdk.echo', args: {}, options },
  }
  const { id } = await client.workflow(batch([{ type: 'sdk.echo', args: [1], options }], callbacks))
  await workflowIn(id, 'completed')
})
await step('workflow cancel', async () => {
  const { id } = await client.workflow(chain({ type: 'sdk.never', args: [], options: { queue: 'sdk-js-idle' } }))
  await client.cancelWorkflow(id)
  must((await client.getWorkflow(id)).state === 'cancelled', 'cancelled')
})
await step('cron', async () => {
  const entry = await client.cron.register({
    name: 'sdk-js',
    cron: '0 9 * * *',
    timezone: 'Europe/Vienna',
    type: 'sdk.report',
    args: ['daily'],
    options: { queue: 'sdk-js-later' },
  })
  must(entry.name === 'sdk-js' && entry.next_run_at, JSON.stringify(entry))
  must(
    (await client.cron.list()).cron_jobs.some(({ name }) => name === 'sdk-js'),
    'it is in the list',
  )
  await client.cron.unregister('sdk-js')
})
await step('queues', async () => {
  must(
    (await client.queues.list()).some(({ name }) => name === QUEUE),
    'it is in the list',
  )
  await client.queues.pause('sdk-js-later')
  await client.queues.resume('sdk-js-later')
})
await step('queue stats', async () => {
  const stats = await client.queues.stats('sdk-js-later')
  must(stats.name === 'sdk-js-later' && stats.scheduled === 1, JSON.stringify(stats))
})
await step('health', async () => must((await client.health()).status === 'ok', 'ok'))
await step('manifest', async () => must((await client.manifest()).implementation?.name, 'a name'))
await step('schemas', async () => {
  const schema = { uri: 'urn:sdk-js:mail', type: 'sdk.mail', version: '1.0.0', schema: { type: 'array' } }
  await client.schemas.register(schema)
  must(
    (await client.schemas.list()).schemas.some(({ uri }) => uri === schema.uri),
    'it is in the list',
  )
  must((await client.schemas.get(schema.uri)).uri === schema.uri, 'it is found')
  await client.schemas.delete(schema.uri)
})
await step('progress', async () => {
  const { id } = await client.enqueue('sdk.progress', {}, { queue: QUEUE })
  must((await jobIn(id, 'completed')).progress >= 0.5, 'the progress is shown')
})
await step('durable', async () => {
  const { id } = await client.enqueue('sdk.durable', {}, { queue: QUEUE, retry: FAST })
  must((await jobIn(id, 'completed')).result.rolled === 'attempt 1', 'the second attempt got what the first had saved')
})
await step('events', async () => {
  const { id } = await client.enqueue('sdk.later', {}, { queue: 'sdk-js-idle' })
  const heard = new Promise((resolve) => {
    ojs.subscribe({ url, channel: `job:${id}` }, (event) => event.type === 'job.cancelled' && resolve(event))
  })
  await new Promise((resolve) => setTimeout(resolve, 300))
  await client.cancelJob(id)
  await heard
})
await worker.stop()
process.exit(0)
