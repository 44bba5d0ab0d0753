// Two servers on two schemas of one database that differ in what lies in them: how fast are jobs claimed from each?
import { startLoad } from '../lib/processes.mjs'
import { atLeast, row } from '../lib/report.mjs'

const question =
  'Jobs claimed a second, 10 a request on 4 connections; rounds alternate, and what was claimed is finished and filled ' +
  'up again in between.'

export async function compareClaims(database, { quick, few, many }, labels) {
  const [rounds, claims] = quick ? [4, 500] : [11, 2_000]
  const load = startLoad()
  const module = new URL('../server/depth.mjs', import.meta.url).href
  const call = (name, args) => load.run(module, name, args)
  const sides = [
    { schema: 'few', fill: few, seen: [] },
    { schema: 'many', fill: many, seen: [] },
  ]
  const ratio = []
  try {
    for (const side of sides) {
      side.server = await database.serve(side.schema)
      await call('fillQueue', { port: side.server.port, jobs: claims + 1_000 })
      await side.fill(side.schema)
      await call('claim', { port: side.server.port, claims }) // warm up
    }
    for (let round = 0; round < rounds; round += 1) {
      const order = round % 2 === 0 ? sides : [...sides].reverse()
      for (const side of order) side.seen.push(await call('claim', { port: side.server.port, claims }))
      ratio.push(sides[1].seen.at(-1) / sides[0].seen.at(-1))
    }
  } finally {
    await Promise.all([...sides.map(({ server }) => server?.stop()), load.stop()])
    await database.stop()
  }
  return {
    question,
    rows: [
      row(labels[0], 'jobs/s', sides[0].seen),
      row(labels[1], 'jobs/s', sides[1].seen),
      row('ratio', '', ratio, atLeast(0.8)),
    ],
  }
}
