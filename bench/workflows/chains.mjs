// What does one step of a chain cost, and does it cost more when the chain is long?
import { Pool, requestBytes } from '../lib/http-client.mjs'
import { startLoad, startServer } from '../lib/processes.mjs'
import { row } from '../lib/report.mjs'
import { expectOver, work } from './groups.mjs'

export const name = 'Steps of a chain'
const question =
  'What one step costs over HTTP, every step on disk: 100 chains of 10 and 10 of 100 steps side by side, one worker that ' +
  'finishes and takes what there is with each exchange. A later step carries the results of all before it.'

export async function run({ quick }) {
  const rounds = quick ? 2 : 7
  const server = await startServer()
  const load = startLoad()
  const [short, long, ratio] = [[], [], []]
  const call = (chains, steps) => load.run(import.meta.url, 'chains', { port: server.port, chains, steps })
  try {
    await call(100, 10) // warm up
    for (let round = 0; round < rounds; round += 1) {
      short.push(await call(100, 10))
      long.push(await call(10, 100))
      ratio.push(long.at(-1) / short.at(-1))
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  return {
    name,
    question,
    rows: [
      row('100 chains of 10, a step', 'µs', short),
      row('10 chains of 100, a step', 'µs', long),
      row('ratio (ten steps travel together instead of a hundred)', '', ratio),
    ],
  }
}

export async function chains({ port, chains, steps }) {
  const pool = new Pool(port, 4)
  const list = Array.from({ length: steps }, (_, n) => ({ type: 'bench.job', args: [n], options: { queue: 'chains' } }))
  const ask = requestBytes('POST', '/ojs/v1/workflows', { type: 'chain', steps: list })
  const ids = []
  for (let n = 0; n < chains; n += 1) {
    const { status, body } = await pool.request(ask)
    if (status !== 201) throw new Error(`a workflow answered ${status}: ${body.toString().slice(0, 500)}`)
    ids.push(JSON.parse(body.toString()).workflow.id)
  }
  const ms = await work(pool, 'chains', chains * steps)
  for (const id of ids) await expectOver(pool, id)
  pool.close()
  return (ms * 1000) / (chains * steps)
}
