// npm run bench -- compare [--quick] [--rounds N] [--only ROW,…] [--contenders ID,…] [--curfew DIR] [--beside DIR]
//
// Where does Curfew stand beside its peers? The same work through each contender's own client library: Curfew on SQLite
// and on PostgreSQL, BullMQ, graphile-worker, pg-boss, and what the machine allows at best. How each is set up, and what
// a row measures, is written in bench/compare/README.md.
//
//   --quick           two short rounds and small growth, to see that everything works: no figures to quote
//   --rounds N        rounds of each row; five unless this says otherwise
//   --only ROW,…      some rows; an unknown name lists them
//   --contenders ID,… some contenders; an unknown name lists them
//   --curfew DIR      measures the build of another checkout instead of this one
//   --beside DIR      measures the build of another checkout too (other-sqlite, other-postgres)
//   --record          writes the rows that were taken into the record, beside the rows that are in it
//   --draw            only draws the picture from the record
//
// Some forty minutes. A full run is kept in bench/results/compare-latest.md and .json and drawn in docs/images/compare.svg.
import { startDatabase } from './lib/postgres.mjs'
import { machine } from './lib/report.mjs'
import { contendersOf } from './compare/contenders.mjs'
import { readOptions } from './compare/options.mjs'
import { installPeers, obstacle, versions } from './compare/peers.mjs'
import { draw, save } from './compare/record.mjs'
import { takeRow } from './compare/rounds.mjs'
import { ROWS } from './compare/rows.mjs'
import { padded, tableLines, verdictLines } from './compare/text.mjs'
import { verdicts } from './compare/verdicts.mjs'

export async function run(args) {
  const options = readOptions(args, ROWS, contendersOf)
  if (options.problem !== undefined) {
    console.error(options.problem)
    process.exitCode = 1
    return
  }
  if (options.draw) return draw()
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  const taken = machine()
  const skipped = []
  const contenders = withoutObstacles(options.contenders, skipped)
  const tables = await takeRows(options, contenders, skipped)
  const floors = verdicts(tables).filter(({ met }) => options.whole || met !== 'not measured')
  if (floors.length > 0) console.log(`\nFloors\n${padded(verdictLines(floors))}`)
  const { rounds, quick } = options
  const order = ROWS.map(({ id }) => id)
  if (options.record) save({ machine: taken, versions: versions(), rounds, quick, skipped, tables }, order)
}

/** A contender that cannot be installed is skipped, with the reason. */
function withoutObstacles(contenders, skipped) {
  const missing = contenders.some(({ kind }) => kind === 'peer') ? installPeers() : {}
  return contenders.filter((contender) => {
    const reason = obstacle(contender, missing)
    if (reason === null) return true
    skipped.push({ contender: contender.id, reason })
    console.error(`${contender.label} is skipped: ${reason}`)
    return false
  })
}

/** Row after row; one PostgreSQL serves all of them, and is started when the first row needs it. */
async function takeRows(options, contenders, skipped) {
  let database = null
  const stage = {
    ...options,
    postgres: () => (database ??= startDatabase()),
    say: (text) => console.error(`… ${text}`),
  }
  const tables = []
  try {
    for (const row of options.rows) {
      const { tables: more, failed } = await takeRow(row, contenders, stage)
      skipped.push(...failed)
      tables.push(...more)
      for (const table of more) console.log(`\n${table.title}\n${padded(tableLines(table))}`)
    }
  } finally {
    await (await database)?.stop()
  }
  return tables
}
