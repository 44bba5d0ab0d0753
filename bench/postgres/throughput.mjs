// What do one, two and three servers on one database carry together?
import { startDatabase } from '../lib/postgres.mjs'
import { startLoad } from '../lib/processes.mjs'
import { row } from '../lib/report.mjs'

export const name = 'One, two and three servers'
const question =
  'Single enqueues a second on 60 connections, and jobs a second that workers fetch by 10 and acknowledge one by one on ' +
  '100 connections, spread evenly over the servers. Database, servers and client share the machine.'

export async function run({ quick }) {
  const [rounds, forMs, jobs] = quick ? [2, 1_000, 1_000] : [5, 3_000, 5_000]
  const database = await startDatabase()
  const fleets = []
  for (const size of [1, 2, 3]) {
    const servers = []
    for (let n = 0; n < size; n += 1) servers.push(await database.serve(`fleet_${size}`))
    fleets.push({ size, servers, loads: servers.map(() => startLoad()), enqueues: [], works: [] })
  }
  const together = async ({ size, servers, loads }, file, call, args) => {
    const module = new URL(file, import.meta.url).href
    const answers = await Promise.all(
      loads.map((load, n) =>
        load.run(module, call, { port: servers[n].port, connections: Math.ceil(60 / size), ...args }),
      ),
    )
    return answers.reduce((sum, answer) => sum + (answer.perSecond ?? answer), 0)
  }
  const share = (size) => ({ jobs: Math.ceil(jobs / size), count: 10, workers: Math.ceil(10 / size) })
  try {
    for (const fleet of fleets) await together(fleet, '../server/enqueue.mjs', 'enqueue', { forMs: 1_000 }) // warm up
    for (let round = 0; round < rounds; round += 1) {
      for (const fleet of round % 2 === 0 ? fleets : [...fleets].reverse()) {
        fleet.enqueues.push(await together(fleet, '../server/enqueue.mjs', 'enqueue', { forMs }))
        fleet.works.push(await together(fleet, '../server/fetch-ack.mjs', 'fetchAndAck', share(fleet.size)))
      }
    }
  } finally {
    await Promise.all(fleets.flatMap(({ servers, loads }) => [...servers, ...loads].map((one) => one.stop())))
    await database.stop()
  }
  const servers = (size) => `${size} server${size === 1 ? '' : 's'}`
  return {
    name,
    question,
    rows: [
      ...fleets.map(({ size, enqueues }) => row(`enqueue, ${servers(size)}`, '/s', enqueues)),
      ...fleets.map(({ size, works }) => row(`fetch and ack, ${servers(size)}`, 'jobs/s', works)),
    ],
  }
}
