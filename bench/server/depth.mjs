// Does taking jobs become slower when many are waiting?
import { Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { atLeast, row } from '../lib/report.mjs'
import { fill } from './fetch-ack.mjs'

export const name = 'Claims from a deep queue'
const question =
  'Jobs claimed a second, 10 a request on 4 connections, with 5 000 and with 500 000 jobs waiting in the queue; rounds ' +
  'alternate, and what was claimed is filled up again in between.'

export async function run({ quick }) {
  const [rounds, claims, shallow, deep] = quick ? [4, 500, 1_000, 20_000] : [11, 2_000, 5_000, 500_000]
  const [few, many] = [await startServer(), await startServer()]
  const load = startLoad()
  const call = (name, args) => load.run(import.meta.url, name, args)
  const seen = { few: [], many: [], ratio: [] }
  const filled = []
  try {
    await call('fillQueue', { port: few.port, jobs: shallow })
    filled.push(await call('fillQueue', { port: many.port, jobs: deep }))
    for (const { port } of [few, many]) await call('claim', { port, claims }) // warm up
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? ['few', 'many'] : ['many', 'few']
      for (const which of order) seen[which].push(await call('claim', { port: { few, many }[which].port, claims }))
      seen.ratio.push(seen.many.at(-1) / seen.few.at(-1))
    }
  } finally {
    await Promise.all([few, many, load].map((one) => one.stop()))
  }
  const count = (number) => String(number).replace(/(?=000$)/, ' ')
  return {
    name,
    question: question.replace('5 000', count(shallow)).replace('500 000', count(deep)),
    rows: [
      row(`${count(shallow)} waiting`, 'jobs/s', seen.few),
      row(`${count(deep)} waiting`, 'jobs/s', seen.many),
      row('ratio', '', seen.ratio, atLeast(0.8)),
      row('filling the deep queue, 1000 jobs a request', 'jobs/s', filled),
    ],
  }
}

export async function fillQueue({ port, jobs }) {
  const pool = new Pool(port, 2)
  const began = performance.now()
  await fill(pool, 'deep', jobs)
  pool.close()
  return (jobs / (performance.now() - began)) * 1000
}

/** Claims so many, at full speed; afterwards, untimed, finishes them and fills up again. Answers the rate of claiming. */
export async function claim({ port, claims }) {
  const pool = new Pool(port, 4)
  const ask = requestBytes('POST', '/ojs/v1/workers/fetch', { queues: ['deep'], count: 10, worker_id: 'w' })
  const taken = []
  const began = performance.now()
  const claimer = async () => {
    while (taken.length < claims) {
      const { body } = await pool.request(ask)
      taken.push(...JSON.parse(body.toString()).jobs)
    }
  }
  await Promise.all([claimer(), claimer(), claimer(), claimer()])
  const elapsedMs = performance.now() - began
  await Promise.all(taken.map(({ id }) => pool.json('POST', '/ojs/v1/workers/ack', { job_id: id })))
  await fill(pool, 'deep', taken.length)
  pool.close()
  return (taken.length / elapsedMs) * 1000
}
