// How long after SIGTERM does the job of the leaving worker begin elsewhere?
import { startServer } from '../lib/processes.mjs'
import { percentiles } from '../lib/report.mjs'
import { startClient, startWorker } from './crew.mjs'
import { now } from './handler.mjs'

export const name = 'Handing over at SIGTERM'
const question =
  'From SIGTERM to the worker that runs a job until an idle worker begins it. The leaving one does not drain, and its ' +
  'handler stops at once.'

export async function run({ quick }) {
  const samples = quick ? 5 : 30
  const queue = 'handing-over'
  const server = await startServer()
  const client = startClient(server.port)
  const start = () => startWorker(server.port, queue, { concurrency: 2 })
  const workers = [await start()]
  const found = []
  try {
    const [id] = await client.enqueue(queue, 1)
    await workers[0].at('begin', id)
    while (found.length < samples) {
      const [leaving] = workers
      const taking = await start()
      workers.push(taking)
      const signalledAt = now()
      leaving.signal('SIGTERM')
      found.push((await taking.at('begin', id)) - signalledAt)
      await leaving.exited
      await leaving.stop()
      workers.shift()
    }
  } finally {
    await Promise.all([...workers, client].map((one) => one.stop()))
    await server.stop()
  }
  return { name, question, rows: percentiles('until it begins', 'ms', found), notes: [`Of ${samples} departures.`] }
}
