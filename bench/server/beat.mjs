// Does a heartbeat cost more when the server holds more jobs?
import { Connection, Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { atMost, row } from '../lib/report.mjs'
import { fill } from './fetch-ack.mjs'

export const name = 'Cost of a heartbeat'
const question =
  'One beat after another from one worker that lists the same 10 jobs, on a server that holds these 10 and on one that ' +
  'holds 10 000 active jobs; rounds alternate. Below it, apart: beats that list more jobs, which is work of its own.'

export async function run({ quick }) {
  const [rounds, beats, many] = quick ? [4, 160, 1_000] : [11, 300, 10_000]
  const [few, full] = [await startServer(), await startServer()]
  const load = startLoad()
  const call = (name, args) => load.run(import.meta.url, name, args)
  const seen = { few: [], full: [], ratio: [], 10: [], 100: [], 1000: [] }
  try {
    const ofFew = await call('hold', { port: few.port, others: 0 })
    const ofFull = await call('hold', { port: full.port, others: many - 10 })
    for (const [{ port }, ids] of [
      [few, ofFew],
      [full, ofFull],
    ])
      await call('beat', { port, ids, beats }) // warm up
    for (let round = 0; round < rounds; round += 1) {
      const order = [
        [few, ofFew, 'few'],
        [full, ofFull, 'full'],
      ]
      if (round % 2 === 1) order.reverse()
      for (const [{ port }, ids, which] of order) seen[which].push(await call('beat', { port, ids, beats }))
      seen.ratio.push(seen.full.at(-1) / seen.few.at(-1))
    }
    const thousand = await call('hold', { port: few.port, others: 0, own: 1_000, worker: 'wide' })
    for (let round = 0; round < Math.min(rounds, 7); round += 1) {
      for (const listed of [10, 100, 1000]) {
        const ids = thousand.slice(0, listed)
        seen[listed].push(await call('beat', { port: few.port, ids, beats: beats / 8, worker: 'wide' }))
      }
    }
  } finally {
    await Promise.all([few, full, load].map((one) => one.stop()))
  }
  return {
    name,
    question: question.replace('10 000', String(many).replace(/(?=000$)/, ' ')),
    rows: [
      row('10 active jobs on the server', 'ms', seen.few),
      row(`${many} active jobs on the server`, 'ms', seen.full),
      row('ratio', '', seen.ratio, atMost(1.5)),
      row('a beat that lists 10 jobs', 'ms', seen[10]),
      row('a beat that lists 100 jobs', 'ms', seen[100]),
      row('a beat that lists 1000 jobs', 'ms', seen[1000]),
    ],
    notes: ['The figure of a round is the median of its beats, each with its commit.'],
  }
}

const LONG = { timeout_ms: 3_600_000, heartbeat_timeout_ms: 3_600_000 }

/** A worker that holds its own jobs, and others who hold theirs. Answers the ids of its own. */
export async function hold({ port, others, own = 10, worker = 'beater' }) {
  const pool = new Pool(port, 4)
  const queue = `of-${worker}`
  await fill(pool, queue, own, () => ({ options: LONG }))
  const mine = await pool.json('POST', '/ojs/v1/workers/fetch', { queues: [queue], count: own, worker_id: worker })
  await fill(pool, 'others', others, () => ({ options: LONG }))
  for (let held = 0, other = 0; held < others; other += 1) {
    const asked = { queues: ['others'], count: 100, worker_id: `other-${other}` }
    held += (await pool.json('POST', '/ojs/v1/workers/fetch', asked)).jobs.length
  }
  pool.close()
  return mine.jobs.map(({ id }) => id)
}

/** So many beats, one after the other. Answers the median in ms. */
export async function beat({ port, ids, beats, worker = 'beater' }) {
  const connection = new Connection(port)
  const bytes = requestBytes('POST', '/ojs/v1/workers/heartbeat', {
    worker_id: worker,
    state: 'running',
    active_jobs: ids.length,
    active_job_ids: ids,
  })
  const took = []
  for (let n = 0; n < beats; n += 1) {
    const began = performance.now()
    const { status, body } = await connection.request(bytes)
    took.push(performance.now() - began)
    if (status !== 200) throw new Error(`a beat answered ${status}: ${body.toString()}`)
    if (n === 0 && JSON.parse(body.toString()).jobs_extended.length !== ids.length) throw new Error('not all are held')
  }
  connection.close()
  return took.sort((a, b) => a - b)[Math.floor(took.length / 2)]
}
