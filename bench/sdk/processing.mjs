// How many jobs a second does one worker get through?
import { compare, sdkOf } from '../lib/against.mjs'
import { HERE, startLoad, startServer } from '../lib/processes.mjs'
import { atLeast, row } from '../lib/report.mjs'

export const name = 'Jobs through one worker'
const question =
  'Jobs that do nothing, taken and finished by one worker with 100 slots: everything in one call (exchange), and a call ' +
  'for each report; rounds alternate.'

export async function run({ quick, against }) {
  const [rounds, jobs] = quick ? [2, 2_000] : [7, 10_000]
  if (against !== null) return beside(against, rounds, jobs)
  const server = await startServer()
  const load = startLoad()
  const seen = { together: [], apart: [], ratio: [] }
  try {
    const once = (exchange, count) => load.run(import.meta.url, 'work', { port: server.port, exchange, jobs: count })
    for (const exchange of [true, false]) await once(exchange, jobs / 10) // warm up
    for (let round = 0; round < rounds; round += 1) {
      for (const which of round % 2 === 0 ? ['together', 'apart'] : ['apart', 'together'])
        seen[which].push(await once(which === 'together', jobs))
      seen.ratio.push(seen.together.at(-1) / seen.apart.at(-1))
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  return {
    name,
    question,
    rows: [
      row('everything in one call', 'jobs/s', seen.together),
      row('a call for each report', 'jobs/s', seen.apart),
      row('ratio', '', seen.ratio, atLeast(2)),
    ],
    notes: ['Server and worker share the two cores of the machine.'],
  }
}

async function beside(against, rounds, jobs) {
  const ways = [
    { label: 'everything in one call', exchange: true },
    { label: 'a call for each report', exchange: false },
  ]
  const once = ({ load, port, sdk }, { exchange }) => load.run(import.meta.url, 'work', { port, sdk, exchange, jobs })
  return { name, question, rows: await compare({ against, rounds, ways, once }) }
}

/** Answers jobs a second, from the start of the worker to its last job. */
export async function work({ port, exchange, jobs, sdk = sdkOf(HERE) }) {
  const { Client, defineJob, Worker } = await import(sdk)
  const nothing = defineJob('bench.nothing')
  const url = `http://127.0.0.1:${port}`
  const client = new Client({ url })
  for (let made = 0; made < jobs; made += 1_000)
    await client.enqueueMany(
      nothing,
      Array.from({ length: Math.min(1_000, jobs - made) }, () => []),
    )
  const worker = new Worker({ url, exchange, concurrency: 100 })
  let left = jobs
  const done = new Promise((resolve) => {
    worker.handle(nothing, () => {
      left -= 1
      if (left === 0) resolve(performance.now())
    })
  })
  await worker.start()
  const began = performance.now()
  const endedAt = await done
  await worker.stop()
  await client.close()
  return jobs / ((endedAt - began) / 1000)
}
