// Does a member of a group cost more when the group is large?
import { Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { atMost, row } from '../lib/report.mjs'
import { fill } from '../server/fetch-ack.mjs'

export const name = 'Members of a group'
const question =
  'What one member costs over HTTP, every step on disk: groups of 100, 1 000 and 10 000 jobs are begun, and one worker ' +
  'finishes and takes 100 jobs with each exchange until all are over. Every round goes through as many members of each ' +
  'size; the same number of jobs without a workflow, enqueued 1 000 a request, is beside it.'

const SIZES = [100, 1_000, 10_000]
const BY = 100

export async function run({ quick }) {
  const [rounds, members] = quick ? [2, 10_000] : [7, 20_000]
  const server = await startServer()
  const load = startLoad()
  const call = (name, args) => load.run(import.meta.url, name, { port: server.port, members, ...args })
  const begun = new Map(SIZES.map((size) => [size, []]))
  const done = new Map(SIZES.map((size) => [size, []]))
  const [plain, beginRatio, doneRatio] = [[], [], []]
  try {
    await call('groups', { size: 1_000 }) // warm up
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? SIZES : [...SIZES].reverse()
      for (const size of order) {
        const { beginUs, doneUs } = await call('groups', { size })
        begun.get(size).push(beginUs)
        done.get(size).push(doneUs)
      }
      beginRatio.push(begun.get(10_000).at(-1) / begun.get(100).at(-1))
      doneRatio.push(done.get(10_000).at(-1) / done.get(100).at(-1))
      plain.push(await call('jobs', {}))
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  const count = (number) => String(number).replace(/(?=000$)/, ' ')
  return {
    name,
    question,
    rows: [
      ...SIZES.map((size) => row(`group of ${count(size)}: begin, a member`, 'µs', begun.get(size))),
      row('ratio 10 000 : 100, begin', '', beginRatio, atMost(1.5)),
      ...SIZES.map((size) => row(`group of ${count(size)}: take and finish, a member`, 'µs', done.get(size))),
      row('ratio 10 000 : 100, take and finish', '', doneRatio, atMost(1.5)),
      row('a job without a workflow: take and finish', 'µs', plain),
    ],
  }
}

/** So many members in groups of one size; answers what a member cost, in microseconds. */
export async function groups({ port, members, size }) {
  const pool = new Pool(port, 4)
  const queue = `groups-${size}`
  const jobs = Array.from({ length: size }, (_, n) => ({
    type: 'bench.job',
    args: [n, 'some text'],
    options: { queue },
  }))
  const ask = requestBytes('POST', '/ojs/v1/workflows', { type: 'group', jobs })
  let beginMs = 0
  const ids = []
  for (let left = members; left > 0; left -= size) {
    const began = performance.now()
    const { status, body } = await pool.request(ask)
    beginMs += performance.now() - began
    if (status !== 201) throw new Error(`a workflow answered ${status}: ${body.toString().slice(0, 500)}`)
    ids.push(JSON.parse(body.toString()).workflow.id)
  }
  const doneMs = await work(pool, queue, members)
  for (const id of ids) await expectOver(pool, id)
  pool.close()
  return { beginUs: (beginMs * 1000) / members, doneUs: (doneMs * 1000) / members }
}

/** The same number of jobs without a workflow. */
export async function jobs({ port, members }) {
  const pool = new Pool(port, 4)
  await fill(pool, 'plain', members)
  const doneMs = await work(pool, 'plain', members)
  pool.close()
  return (doneMs * 1000) / members
}

/** Takes and finishes so many jobs of a queue, in batches; answers how long it took. */
export async function work(pool, queue, jobs, by = BY) {
  let [left, acks] = [jobs, []]
  const began = performance.now()
  while (left > 0) {
    const ask = { worker_id: 'w', acks, fetch: { queues: [queue], count: by } }
    const { status, body } = await pool.request(requestBytes('POST', '/ojs/v1/workers/exchange', ask))
    const answer = JSON.parse(body.toString())
    if (status !== 200) throw new Error(`an exchange answered ${status}: ${body.toString().slice(0, 500)}`)
    left -= acks.length
    acks = answer.jobs.map(({ id, x_lease }) => ({ job_id: id, x_lease, result: { ok: true } }))
    if (acks.length === 0 && left > 0) throw new Error(`${left} jobs are missing in ${queue}`)
  }
  return performance.now() - began
}

export async function expectOver(pool, id) {
  const { body } = await pool.request(requestBytes('GET', `/ojs/v1/workflows/${id}/progress`))
  const { state } = JSON.parse(body.toString())
  if (state !== 'completed') throw new Error(`workflow ${id} is ${state}`)
}
