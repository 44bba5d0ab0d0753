// npm run bench -- series [number of jobs] [--against DIR]
//
// Do the series say what the event log says? Runs jobs of every ending (100 000, if no number is given) through two servers
// on one PostgreSQL, restarts one of them halfway, and compares every count of the series, at each resolution and from
// each server, with a count of the log. Ends with exit code 1 when they differ. `--against DIR` measures instead what an
// enqueue and a job cost in processor time, in turns with another checkout that was built.
import { isDeepStrictEqual } from 'node:util'
import { cpuAgainst } from './series/cpu.mjs'
import { fromLog, fromSeries, play } from './series/endings.mjs'
import { startDatabase } from './lib/postgres.mjs'
import { startServer } from './lib/processes.mjs'

export async function run(args) {
  const place = args.indexOf('--against')
  if (place >= 0) return cpuAgainst(args[place + 1] ?? '', { rounds: 9, jobs: 20_000 })
  const jobs = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 100_000)
  const database = await startDatabase()
  const servers = []
  try {
    for (let n = 0; n < 2; n += 1) servers.push(await startServer({ database: database.urlOf('series') }))
    const call = async (server, method, path, body) => {
      const sent =
        body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
      for (;;) {
        const reply = await fetch(`http://127.0.0.1:${servers[server].port}${path}`, { method, ...sent })
        // The database may be slow to answer on a busy machine; nothing was done then.
        if (reply.status !== 503) return reply.json()
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
    }
    const began = performance.now()
    const made = await play({
      jobs,
      call,
      async halfway() {
        await servers[1].end()
        await servers[1].launch()
      },
    })
    console.log(`${jobs} jobs in ${((performance.now() - began) / 1000).toFixed(0)} s:`, made)
    // Each server saves within ten seconds what it has counted.
    await new Promise((resolve) => setTimeout(resolve, 12_000))
    const logged = await fromLog(call)
    console.log('the log:', JSON.stringify(logged))
    let differing = 0
    for (const server of [0, 1]) {
      for (const step of ['1m', '10m', '3h']) {
        const { created, counted } = await fromSeries(call, server, step)
        const isEqual = created === jobs && isDeepStrictEqual(counted, logged)
        if (!isEqual) differing += 1
        console.log(
          `series ${step} from server ${server}: ${isEqual ? 'equal' : `DIFFERENT ${JSON.stringify({ created, counted })}`}`,
        )
      }
    }
    process.exitCode = differing === 0 ? 0 : 1
  } finally {
    for (const server of servers) await server.stop()
    await database.stop()
  }
}
