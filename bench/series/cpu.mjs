// Processor time of the server per job, this build and another in turns on servers of their own.
import { fetchAndAck, fill } from '../server/fetch-ack.mjs'
import { Pool } from '../lib/http-client.mjs'
import { HERE, startServer } from '../lib/processes.mjs'

/** Prints microseconds per job and the ratio: below one, this build is cheaper. */
export async function cpuAgainst(against, { rounds, jobs }) {
  const builds = []
  try {
    for (const root of [HERE, against]) builds.push({ server: await startServer({ root }), enqueue: [], process: [] })
    for (const { server } of builds) await round(server, 2_000)
    for (let n = 0; n < rounds; n += 1) {
      for (const build of n % 2 === 0 ? builds : [...builds].reverse()) {
        const figures = await round(build.server, jobs)
        build.enqueue.push(figures.enqueue)
        build.process.push(figures.process)
      }
    }
  } finally {
    for (const { server } of builds) await server.stop()
  }
  const [ours, others] = builds
  for (const name of ['enqueue', 'process']) {
    const ratios = ours[name].map((figure, n) => figure / others[name][n])
    console.log(
      `${name}: this build ${median(ours[name]).toFixed(1)} µs a job, the other ${median(others[name]).toFixed(1)} µs; ` +
        `median of ${rounds} ratios ${median(ratios).toFixed(3)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')})`,
    )
  }
}

async function round(server, jobs) {
  const pool = new Pool(server.port, 10)
  const before = server.cpuMs()
  await fill(pool, 'enqueued', jobs)
  const enqueue = ((server.cpuMs() - before) / jobs) * 1000
  pool.close()
  const began = server.cpuMs()
  await fetchAndAck({ port: server.port, jobs, count: 100, workers: 5 })
  // It fills the queue first: what that costs was just measured.
  const process = ((server.cpuMs() - began) / jobs) * 1000 - enqueue
  return { enqueue, process }
}

const median = (figures) => figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)]
