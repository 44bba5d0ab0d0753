// The figures take a second of the five; the job gets what is left. Then a job that is too slow: it ends with its run.
import { setTimeout as pause } from 'node:timers/promises'
import { JourneyFailedError, Worker } from '@curfew/sdk'
import { client, upstream, url } from '../lib.mjs'
import { render } from './journey.mjs'

const services = await upstream({ sales: { body: { total: 1200 }, afterMs: 1_000 } })
await client.journeys.deploy('report', services.definition(import.meta.url))

let takesMs = 0
let stopped
const worker = new Worker({ url, queues: ['reports'] })
worker.handle(render, async (ctx, [month, total]) => {
  console.log(`the job begins with ${Math.ceil(ctx.remaining() / 1000)} s left of 5`)
  try {
    await pause(takesMs, null, { signal: ctx.signal })
  } catch {
    stopped = ctx.signal.reason.code
    await pause(300) // puts away what is half done; the run does not wait for that
    throw ctx.signal.reason
  }
  return { month, title: `Sales in ${month}: ${total}` }
})
await worker.start()

const { title } = await client.journeys.run('report', { month: 'may' })
console.log(title)

takesMs = 60_000
try {
  await client.journeys.run('report', { month: 'june' })
} catch (error) {
  if (!(error instanceof JourneyFailedError)) throw error
  const { startedAt, endedAt } = error.outcome
  const seconds = ((Date.parse(endedAt) - Date.parse(startedAt)) / 1000).toFixed(1)
  while (stopped === undefined) await pause(10)
  console.log(`${error.code} at ${error.terminatedAtState} after ${seconds} s`)
  console.log(`the handler was stopped: ${stopped}`)
}

await worker.stop()
services.close()
await client.close()
