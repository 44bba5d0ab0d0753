// How many jobs a second can workers take and finish?
import { compare } from '../lib/against.mjs'
import { Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { row } from '../lib/report.mjs'

export const name = 'Fetch and acknowledge'
const question =
  'Jobs taken and finished a second over HTTP, every step on disk: workers fetch 10 (or 100) at a time and acknowledge ' +
  'each job in a request of its own, 100 connections in all.'

const CONNECTIONS = 100

const WAYS = [
  { label: 'fetch 10, acks one by one', count: 10, workers: 10 },
  { label: 'fetch 100, acks one by one', count: 100, workers: 5 },
]

export async function run({ quick, against }) {
  const [rounds, jobs] = quick ? [2, 2_000] : [7, 10_000]
  if (against !== null) return beside(against, rounds, jobs)
  const server = await startServer()
  const load = startLoad()
  const seen = WAYS.map(() => [])
  const call = (args) => load.run(import.meta.url, 'fetchAndAck', { port: server.port, ...args })
  try {
    await call({ jobs: 2_000, count: 10, workers: 10 }) // warm up
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, { count, workers }] of WAYS.entries()) seen[index].push(await call({ jobs, count, workers }))
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  return {
    name,
    question,
    rows: WAYS.map(({ label }, index) => row(label, 'jobs/s', seen[index])),
  }
}

/** The two builds in turn, on servers of their own. */
async function beside(against, rounds, jobs) {
  const once = ({ port, load }, { count, workers }) =>
    load.run(import.meta.url, 'fetchAndAck', { port, jobs, count, workers })
  return { name, question, rows: await compare({ against, rounds, ways: WAYS, once }) }
}

/** Fills the queue, then empties it; answers the rate of emptying. */
export async function fetchAndAck({ port, jobs, count, workers }) {
  const pool = new Pool(port, CONNECTIONS)
  await fill(pool, 'work', jobs)
  let left = jobs
  const began = performance.now()
  const work = async (worker) => {
    const worker_id = `w${worker}`
    const ask = requestBytes('POST', '/ojs/v1/workers/fetch', { queues: ['work'], count, worker_id })
    while (left > 0) {
      const { body } = await pool.request(ask)
      const taken = JSON.parse(body.toString()).jobs
      if (taken.length === 0) return
      left -= taken.length
      await Promise.all(
        taken.map(async ({ id, x_lease }) => {
          const ack = requestBytes('POST', '/ojs/v1/workers/ack', {
            job_id: id,
            worker_id,
            x_lease,
            result: { ok: true },
          })
          const { status, body: answer } = await pool.request(ack)
          if (status !== 200) throw new Error(`an ack answered ${status}: ${answer.toString()}`)
        }),
      )
    }
  }
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
  const elapsedMs = performance.now() - began
  pool.close()
  return (jobs / elapsedMs) * 1000
}

/** So many jobs into a queue, a thousand a request, two requests at a time. */
export async function fill(pool, queue, jobs, more = () => ({})) {
  let made = 0
  const filler = async () => {
    while (made < jobs) {
      const size = Math.min(1_000, jobs - made)
      const first = made
      made += size
      const batch = Array.from({ length: size }, (_, n) => ({
        type: 'bench.job',
        args: [first + n, 'some text'],
        queue,
        ...more(first + n),
      }))
      await pool.json('POST', '/ojs/v1/jobs/batch', { jobs: batch }, 201)
    }
  }
  await Promise.all([filler(), filler()])
}
