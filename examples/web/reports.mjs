// What every framework here serves: a route that enqueues a report, a route that reads it, and the worker that builds it.
// Nothing in this file knows a framework.
import { setTimeout as pause } from 'node:timers/promises'
import { defineJob, RequestError, Worker } from '@curfew/sdk'

export const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
export const token = process.env.CURFEW_TOKEN

// A report may take a minute, and five with its retries: by then it is there, or has failed.
export const report = defineJob('report.build', { queue: 'reports', limits: { timeout: '1m', totalTimeout: '5m' } })

/** POST /reports {"name": "q3", "ms": 10} */
export async function createReport(client, body) {
  const { name, ms = 0 } = body ?? {}
  if (typeof name !== 'string') return { status: 400, body: { error: 'name is missing' } }
  const job = await client.enqueue(report, [name, ms])
  return { status: 202, body: { id: job.id } }
}

/** GET /reports/:id waits up to two seconds for the report. */
export async function readReport(client, id) {
  try {
    return { status: 200, body: await client.waitForResult(id, { timeout: '2s' }) }
  } catch (error) {
    if (error instanceof RequestError && error.status === 404) return { status: 404, body: { error: 'no such report' } }
    if (error.code === 'deadline') return { status: 202, body: { id } } // not done yet
    return { status: 500, body: { error: error.message } }
  }
}

/** The worker beside the web server. In production it is usually a process of its own: `await makeWorker().run()`. */
export function makeWorker() {
  const worker = new Worker({ url, token, queues: ['reports'], drain: '20s' })
  worker.handle(report, async (ctx, [name, ms]) => {
    await pause(ms, undefined, { signal: ctx.signal })
    return { name, pages: name.length }
  })
  worker.on('failed', ({ jobId, error }) => console.error(`report ${jobId} failed: ${error.message}`))
  return worker
}
