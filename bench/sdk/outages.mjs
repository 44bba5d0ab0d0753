// How long after its server is back does a worker deliver its first report?
import { connect, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, defineJob, Worker } from '@curfew/sdk'
import { startLoad, startServer } from '../lib/processes.mjs'
import { atMost, percentiles } from '../lib/report.mjs'
import { now } from './handler.mjs'

export const name = 'The first report after an outage'
const question =
  'Ten workers whose server refuses connections for a while, during which a job of each ends: from the first connection ' +
  'that would be taken until the report arrives.'

export async function run({ quick }) {
  const [workers, outageMs] = quick ? [10, 4_000] : [10, 14_000]
  const server = await startServer()
  const load = startLoad()
  try {
    const found = await load.run(import.meta.url, 'outage', { port: server.port, workers, outageMs })
    const notes = [`One outage of ${outageMs / 1000} s.`]
    return { name, question, rows: percentiles('until the first report', 'ms', found, atMost(2_500)), notes }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
}

export async function outage({ port, workers: count, outageMs }) {
  const job = defineJob('bench.outage')
  const client = new Client({ url: `http://127.0.0.1:${port}` })
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const gates = await Promise.all(Array.from({ length: count }, () => openGate(port)))
  const workers = gates.map(({ url }, n) => new Worker({ url, log, queues: [`outages-${n}`] }))
  const begun = workers.map(
    (worker) => new Promise((resolve) => worker.handle(job, () => (resolve(), pause(outageMs / 3)))),
  )
  await Promise.all(workers.map((worker) => worker.start()))
  await Promise.all(workers.map((_, n) => client.enqueue(job, [], { queue: `outages-${n}` })))
  await Promise.all(begun)
  await Promise.all(gates.map((gate) => gate.close()))
  await pause(outageMs)
  const found = await Promise.all(
    gates.map(async (gate) => {
      const reported = gate.passes('"acks"')
      await gate.open()
      const backAt = now()
      return (await reported) - backAt
    }),
  )
  await Promise.all(workers.map((worker) => worker.stop()))
  await Promise.all(gates.map((gate) => gate.close()))
  await client.close()
  return found
}

/** Passes connections on, always from the same port, while it is open. */
async function openGate(target) {
  let [server, port] = [null, 0]
  let listeners = []
  const sockets = new Set()
  const keep = (socket, other) => {
    sockets.add(socket)
    socket.on('error', () => other().destroy())
    socket.on('close', () => {
      sockets.delete(socket)
      other().destroy()
    })
  }
  const gate = {
    async open() {
      server = createServer((socket) => {
        const onward = connect(target, '127.0.0.1')
        keep(socket, () => onward)
        keep(onward, () => socket)
        onward.pipe(socket)
        socket.on('data', (chunk) => {
          const text = chunk.toString('latin1')
          listeners = listeners.filter(({ part, heard }) => !text.includes(part) || heard(now()))
          onward.write(chunk)
        })
        socket.on('end', () => onward.end())
      })
      await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
      port = server.address().port
      gate.url = `http://127.0.0.1:${port}`
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
    /** When bytes with this part pass next. */
    passes: (part) => new Promise((resolve) => listeners.push({ part, heard: resolve })),
    url: '',
  }
  await gate.open()
  return gate
}
