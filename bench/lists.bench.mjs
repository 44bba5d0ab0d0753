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
import { NOTHING } from '../packages/server/dist/store/store.js'
import { openSqliteStore } from '../packages/server/dist/store/sqlite/store.js'
import { startDatabase } from './lib/postgres.mjs'
import { machine, markdown, row } from './lib/report.mjs'

const BATCH = 2_000
const ROUNDS = 7
const BEGAN = Date.UTC(2026, 0, 1)
const GAP_MS = 100
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
    await fill(store, jobs)
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

async function fill(store, count) {
  const random = core.seededRandom(1)
  for (let from = 0; from < count; from += BATCH) {
    const jobs = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => jobAt(from + n, random))
    await store.restore({ ...NOTHING, jobs }, from + BATCH < count)
  }
}

const LIMITS = core.settleAtEnqueue({ publish: {}, type: null, queue: null, server: core.DEFAULT_LIMITS })
const WEEK_MS = 7 * 24 * 60 * 60 * 1000

/** Of a hundred jobs one waits, one is held, one has failed, one was cancelled; the others are completed. */
function jobAt(n, random) {
  const now = core.instant(BEGAN + n * GAP_MS)
  const retention = { completedMs: WEEK_MS, cancelledMs: WEEK_MS, discardedMs: WEEK_MS, deadLetterMs: WEEK_MS }
  const moment = { now, upAt: now, random, limits: core.DEFAULT_LIMITS, retention }
  const later = { ...moment, now: core.instant(now + 50) }
  const tags = n % 100_000 === 9 ? ['rare', 'common'] : n % 10 === 0 ? ['common'] : []
  const { job: fresh } = core.admit(
    {
      id: core.uuidV7(now, random),
      type: `t${n % 20}`,
      queue: n === 0 ? 'rare' : `q${n % 10}`,
      priority: 0,
      retry: core.DEFAULT_RETRY,
      limits: LIMITS,
      ceiling: null,
      parent: null,
      owner: null,
      uniqueKey: null,
      limitKey: null,
      tenant: n % 20 === 0 ? 'acme' : null,
      scheduledAt: null,
      expiresAt: null,
      resultTtlMs: null,
      traceId: null,
      body: `"args":["a@example.com"]${tags.length === 0 ? '' : `,"tags":${JSON.stringify(tags)}`}`,
      given: '',
      pending: false,
    },
    moment,
  )
  const placed = { ...fresh, seq: n + 1, version: 1 }
  if (n % 100 === 1) return placed
  const claim = { workerId: `w${n % 50}`, handler: null, known: true, fetchVisibilityMs: null }
  const { job: held } = core.start(placed, claim, moment)
  if (n % 100 === 2) return held
  if (n % 100 === 3) {
    const type = n % 100_000 === 3 ? 'rare' : 'timeout'
    return core.fail(held, { type, message: 'too long', retryable: false }, later).job
  }
  if (n % 100 === 4) return core.cancel(held, later).job
  return core.complete(held, '{}', later).job
}
