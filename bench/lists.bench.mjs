// npm run bench -- lists [--postgres] [number of jobs]
//
// What does a page of jobs cost when there are many? Puts jobs straight into a store (a million, if no number is given),
// nearly all of them completed and one in a hundred with an error, and asks for the first page and the total of each filter.
// With --postgres in a PostgreSQL of its own instead of a file. A few minutes, nearly all of it to fill the store.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as core from '../packages/core/dist/index.js'
import { nodeHost, systemRandom } from '../packages/server/dist/host.js'
import { openPostgresStore } from '../packages/server/dist/store/postgres/store.js'
import { openSqliteStore } from '../packages/server/dist/store/sqlite/store.js'
import { startDatabase } from './lib/postgres.mjs'
import { fill, GAP_MS } from './lib/many-jobs.mjs'
import { machine, markdown, row } from './lib/report.mjs'

const ROUNDS = 7
const BEGAN = Date.UTC(2026, 0, 1)
const events = { maxAgeMs: 60_000, maxCount: 1_000 }

export async function run(args) {
  const onPostgres = args.includes('--postgres')
  const jobs = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 1_000_000)
  const folder = mkdtempSync(join(tmpdir(), 'curfew-bench-lists-'))
  const database = onPostgres ? await startDatabase() : null
  try {
    const store =
      database === null
        ? await openSqliteStore({ file: join(folder, 'curfew.db'), durability: 'normal', events })
        : await openPostgresStore({ url: database.urlOf('lists'), events, host: nodeHost, random: systemRandom() })
    const began = performance.now()
    await fill(store, jobs, { began: BEGAN })
    await database?.sql('lists', 'ANALYZE')
    const filled = (performance.now() - began) / 1000
    const rows = []
    for (const [name, filter] of filtersFor(jobs)) rows.push(await timed(store, name, { ...core.ANY_JOB, ...filter }))
    await store.close()
    console.log(
      markdown({
        title: `Lists of ${jobs} jobs, ${onPostgres ? 'PostgreSQL' : 'SQLite'}`,
        machine: machine(),
        taken: (performance.now() - began) / 1000,
        scenarios: [
          {
            name: 'First page of 50, and the total',
            question: `Filled in ${filled.toFixed(0)} s. Each filter is asked for ${ROUNDS} times.`,
            rows: rows.flat(),
          },
        ],
      }),
    )
  } finally {
    await database?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function timed(store, name, filter) {
  const [pages, totals] = [[], []]
  let shown = ''
  for (let round = 0; round < ROUNDS; round += 1) {
    const began = performance.now()
    const { jobs, next } = await store.jobs(filter, null, { limit: 50, offset: 0 })
    const listed = performance.now()
    const { total, isExact } = await store.countJobs(filter)
    pages.push(listed - began)
    totals.push(performance.now() - listed)
    shown = `${jobs.length} of ${isExact ? '' : 'at least '}${total}${next !== null && jobs.length < 50 ? ', goes on' : ''}`
  }
  return [row(`${name}: page (${shown})`, 'ms', pages), row(`${name}: total`, 'ms', totals)]
}

function filtersFor(jobs) {
  const at = (part) => core.instant(BEGAN + part * jobs * GAP_MS)
  const between = (from, to) => ({ after: from === null ? null : at(from), before: to === null ? null : at(to) })
  return [
    ['all', {}],
    ['queue', { queue: 'q3' }],
    ['queue of the oldest job alone', { queue: 'rare' }],
    ['type', { type: 't3' }],
    ['state completed', { states: ['completed'] }],
    ['state discarded', { states: ['discarded'] }],
    ['state available', { states: ['available'] }],
    ['tenant', { tenant: 'acme' }],
    ['error_type', { errorType: 'timeout' }],
    ['error_type, few', { errorType: 'rare' }],
    ['error_type, queue and state', { errorType: 'timeout', queue: 'q3', states: ['discarded'] }],
    ['timeout_kind', { timeoutKind: 'execution' }],
    ['tag, few', { tag: 'rare' }],
    ['tag, many', { tag: 'common' }],
    ['worker', { worker: 'w7' }],
    ['worker, queue and state', { worker: 'w7', queue: 'q3', states: ['completed'] }],
    ['created in the middle', { created: between(0.5, 0.501) }],
    ['created before the middle', { created: between(null, 0.5) }],
    ['created before the middle, error_type', { created: between(null, 0.5), errorType: 'timeout' }],
    ['ended in the middle', { ended: between(0.5, 0.501) }],
    ['ended before the middle, queue and state', { ended: between(null, 0.5), queue: 'q3', states: ['completed'] }],
    ['ended in the last tenth, error_type', { ended: between(0.9, null), errorType: 'timeout' }],
  ]
}
