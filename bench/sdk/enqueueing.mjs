// How many jobs a second does one client enqueue?
import { compare, sdkOf } from '../lib/against.mjs'
import { HERE, startLoad, startServer } from '../lib/processes.mjs'
import { atLeast, row } from '../lib/report.mjs'

export const name = 'Enqueues of one client'
const question =
  'Enqueues by one client: one after the other; 50 at a time, which travel together; and in bulks of 1 000 (enqueueMany). ' +
  'Rounds alternate.'

export async function run({ quick, against }) {
  const [rounds, jobs] = quick ? [2, 500] : [7, 3_000]
  if (against !== null) return beside(against, rounds, jobs)
  const server = await startServer()
  const load = startLoad()
  const seen = { alone: [], together: [], many: [], ratio: [] }
  try {
    const once = (way, count) => load.run(import.meta.url, 'enqueue', { port: server.port, way, jobs: count })
    for (const way of ['alone', 'together', 'many']) await once(way, jobs / 5) // warm up
    for (let round = 0; round < rounds; round += 1) {
      for (const way of ['alone', 'together', 'many'])
        seen[way].push(await once(way, way === 'alone' ? jobs / 3 : jobs))
      seen.ratio.push(seen.together.at(-1) / seen.alone.at(-1))
    }
  } finally {
    await Promise.all([server, load].map((one) => one.stop()))
  }
  return {
    name,
    question,
    rows: [
      row('one after the other', 'jobs/s', seen.alone),
      row('50 at a time', 'jobs/s', seen.together),
      row('in bulks of 1 000', 'jobs/s', seen.many),
      row('ratio of the second to the first', '', seen.ratio, atLeast(5)),
    ],
    notes: ['Each enqueue is on the disk before it is answered.'],
  }
}

async function beside(against, rounds, jobs) {
  const ways = [
    { label: 'one after the other', way: 'alone', jobs: Math.ceil(jobs / 3) },
    { label: '50 at a time', way: 'together', jobs },
    { label: 'in bulks of 1 000', way: 'many', jobs },
  ]
  const once = ({ load, port, sdk }, { way, jobs: count }) =>
    load.run(import.meta.url, 'enqueue', { port, sdk, way, jobs: count })
  return { name, question, rows: await compare({ against, rounds, ways, once }) }
}

export async function enqueue({ port, way, jobs, sdk = sdkOf(HERE) }) {
  const { Client, defineJob } = await import(sdk)
  const nothing = defineJob('bench.nothing')
  const client = new Client({ url: `http://127.0.0.1:${port}` })
  const width = { alone: 1, together: 50, many: 1_000 }[way]
  const began = performance.now()
  for (let made = 0; made < jobs; made += width) {
    const inputs = Array.from({ length: Math.min(width, jobs - made) }, () => [])
    if (way === 'many') await client.enqueueMany(nothing, inputs)
    else await Promise.all(inputs.map((input) => client.enqueue(nothing, input)))
  }
  const took = performance.now() - began
  await client.close()
  return jobs / (took / 1000)
}
