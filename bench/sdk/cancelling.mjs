// How long after a cancel is the signal of a running handler aborted?
import { setTimeout as pause } from 'node:timers/promises'
import { startDatabase } from '../lib/postgres.mjs'
import { startServer } from '../lib/processes.mjs'
import { atMost, percentiles } from '../lib/report.mjs'
import { startClient, startWorker } from './crew.mjs'
import { now } from './handler.mjs'

export const name = 'From a cancel to the signal'
const question =
  'From sending the cancel until the signal of the running handler is aborted, one cancel every 20 ms: by a worker with ' +
  'free slots, by one without, with handlers in processes, and cancelled at another server on the same PostgreSQL.'

const APART_MS = 20

export async function run({ quick }) {
  const samples = quick ? 40 : 200
  const server = await startServer()
  const database = await startDatabase()
  const pair = []
  try {
    for (let n = 0; n < 2; n += 1) pair.push(await database.serve('cancelling'))
    const [here, there] = pair
    const at = { worker: server.port, client: server.port, samples, width: 20, freeSlots: 5 }
    const rows = []
    for (const [label, more] of [
      ['free slots', {}],
      ['no free slot', { freeSlots: 0 }],
      ['in processes', { isolation: 'process', width: 10 }],
      ['another server, PostgreSQL', { worker: here.port, client: there.port }],
    ])
      rows.push(...percentiles(label, 'ms', await delays({ ...at, ...more }), atMost(100)))
    return { name, question, rows, notes: [`Of ${samples} cancels each.`] }
  } finally {
    await Promise.all([server, ...pair].map((one) => one.stop()))
    await database.stop()
  }
}

async function delays({ worker: workerPort, client: clientPort, samples, width, freeSlots, isolation = 'inline' }) {
  const queue = `cancelling-${isolation}-${freeSlots}`
  const worker = await startWorker(workerPort, queue, { concurrency: width + freeSlots, isolation })
  const client = startClient(clientPort)
  const enqueue = () => client.enqueue(queue, width, worker.file)
  const found = []
  try {
    let next = await enqueue()
    while (found.length < samples) {
      const ids = next
      await Promise.all(ids.map((id) => worker.at('begin', id)))
      // A worker without a free slot has a job for every slot that a cancel frees.
      const waiting = freeSlots === 0 ? await enqueue() : null
      const cancelled = []
      for (const id of ids) {
        cancelled.push(delay(worker, client, id))
        await pause(APART_MS)
      }
      found.push(...(await Promise.all(cancelled)))
      next = waiting ?? (await enqueue())
    }
    return found
  } finally {
    await worker.stop()
    await client.stop()
  }
}

async function delay(worker, client, id) {
  const sentAt = now()
  await client.cancel(id)
  return (await worker.at('told', id)) - sentAt
}
