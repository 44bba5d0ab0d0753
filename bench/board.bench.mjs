// npm run bench -- board [number of jobs] [--data DIR] [--root DIR]
//
// Is the board quick when there are many jobs? Puts jobs straight into a SQLite file (a million, if no number is given), with
// ninety days of series, and asks a real server for everything each page of the board asks for, while one reader listens to
// the pulse. Limits: 95 of 100 answers of each call within 150 ms, and the server's event loop is never held for longer
// than 50 ms. Ends with exit code 1 when a limit is missed. Some minutes, nearly all of it to fill the store: with --data
// the store is kept there, and the next run with the same folder begins with it. --root asks a server of another checkout
// that was built. What this checkout is measured at is recorded in bench/results.
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as core from '../packages/core/dist/index.js'
import { NOTHING } from '../packages/server/dist/store/store.js'
import { openSqliteStore } from '../packages/server/dist/store/sqlite/store.js'
import { Connection, requestBytes } from './lib/http-client.mjs'
import { fill, GAP_MS } from './lib/many-jobs.mjs'
import { HERE, startServer } from './lib/processes.mjs'
import { machine, quantile } from './lib/report.mjs'

const SAMPLES = 40
const RECORD = fileURLToPath(new URL('results/board-latest.md', import.meta.url))
const MAX_P95_MS = 150
const MAX_HELD_MS = 50
/** So many of the newest jobs are under way: their deadlines lie in the next half hour. */
const LIVE = 15_000
const PAIRS = 20

export async function run(args) {
  const jobs = Number(args.find((arg) => /^\d+$/.test(arg)) ?? 1_000_000)
  const place = args.indexOf('--data')
  const data = place < 0 ? mkdtempSync(join(tmpdir(), 'curfew-bench-board-')) : (args[place + 1] ?? '')
  const filling = performance.now()
  const ids = await filled(join(data, 'curfew.db'), jobs)
  console.log(`${jobs} jobs in ${((performance.now() - filling) / 1000).toFixed(0)} s`)
  const preload = new URL('lib/loop-delay.mjs', import.meta.url).href
  const root = args.includes('--root') ? args[args.indexOf('--root') + 1] : HERE
  const server = await startServer({ root, data, node: ['--import', preload], channel: true })
  try {
    await furnish(server.port)
    const pulse = await listen(server.port)
    const rows = []
    for (const [page, paths] of pagesOf(ids)) for (const path of paths) rows.push(await measured(server, page, path))
    pulse.close()
    rows.push(row('pulse, first frame', pulse.firstMs, 0, 0))
    const missed = rows.filter(({ p95, held }) => p95 > MAX_P95_MS || held > MAX_HELD_MS)
    const text = report(rows, missed, jobs)
    console.log(text)
    if (root === HERE) writeFileSync(RECORD, text)
    process.exitCode = missed.length === 0 ? 0 : 1
  } finally {
    // What was asked to be kept is not removed.
    await (place < 0 ? server.stop() : server.end())
  }
}

/** Answers the ids that pages are opened with. */
async function filled(file, jobs) {
  const events = { maxAgeMs: 60_000, maxCount: 1_000 }
  const isNew = !existsSync(file)
  mkdirSync(dirname(file), { recursive: true })
  const store = await openSqliteStore({ file, durability: 'normal', events })
  if (isNew) {
    const began = Date.now() - jobs * GAP_MS
    await fill(store, jobs, { began, live: Math.min(LIVE, Math.floor(jobs / 4)) })
    await fillSeries(store)
  }
  const only = { limit: 1, offset: 0 }
  const newest = async (filter) => (await store.jobs({ ...core.ANY_JOB, ...filter }, null, only)).jobs[0]?.id ?? ''
  const ids = { job: await newest({ states: ['completed'] }), held: await newest({ states: ['active'] }) }
  await store.close()
  return ids
}

/** What one server has counted in ninety days. */
async function fillSeries(store) {
  const now = core.instant(Date.now())
  for (const resolution of core.RESOLUTIONS) {
    const docs = []
    for (let at = core.slotAt(core.before(now, resolution.keptMs), resolution); at <= now; at += resolution.stepMs)
      docs.push({
        kind: resolution.kind.kind,
        id: core.slotId(core.instant(at), 'before'),
        version: 1,
        wakeAt: null,
        body: JSON.stringify({ from: at, tally: tallyOf() }),
      })
    await store.restore({ ...NOTHING, docs }, false)
  }
}

function tallyOf() {
  const tally = {}
  for (let n = 0; n < PAIRS; n += 1) {
    const cell = core.emptyCell()
    cell.counts.created = cell.counts.completed = 100
    for (let ms = 1; ms < 60_000; ms *= 1.3)
      for (const sketch of [cell.waits, cell.completed, cell.cut]) core.noteLength(sketch, ms)
    core.countTimeout(cell, 'execution', 'publish', 3)
    tally[core.pairKey(`q${n % 10}`, `t${n}`)] = cell
  }
  return tally
}

/** Each page, and what it asks for. */
function pagesOf({ job, held }) {
  const series = (query) => `/api/v1/board/series?${query}`
  const found = (query) => `/api/v1/board/jobs?limit=50${query}`
  return [
    [
      'now',
      [
        ...['/ojs/v1/admin/stats', '/ojs/v1/admin/at-risk?limit=20', '/ojs/v1/queues?limit=50'],
        ...['/ojs/v1/workers?limit=200', '/ojs/manifest', '/ojs/v1/health', '/api/v1/board/forecast?minutes=15'],
        ...[series('metric=timeouts&by=kind&from=-1h')],
      ],
    ],
    [
      'jobs',
      [
        ...['', '&type=t3', '&queue=q3', '&state=discarded', '&state=active', '&error_type=timeout'].map(found),
        ...['&timeout_kind=execution', '&tag=rare', '&worker=w7', '&source=publish', '&type=none'].map(found),
        found('&id_prefix=01a'),
        found(`&created_after=${new Date(Date.now() - 3_600_000).toISOString()}&type=t3`),
        '/ojs/v1/jobs?limit=50&queue=q3&state=discarded',
      ],
    ],
    [
      'job',
      [job, held].flatMap((id) => [`/ojs/v1/jobs/${id}`, `/api/v1/board/jobs/${id}`, `/ojs/v1/jobs/${id}/explain`]),
    ],
    [
      'timeouts',
      ['timeouts&by=kind', 'timeouts&by=source', 'timeouts&by=type', 'durations&by=type'].flatMap((metric) =>
        ['-1h', '-24h', '-7d'].map((from) => series(`metric=${metric}&from=${from}`)),
      ),
    ],
    ['queues', ['/ojs/v1/queues?limit=100', '/ojs/v1/admin/at-risk?limit=200']],
    ['queue', ['/ojs/v1/admin/queues/q3', '/ojs/v1/queues/q3/stats', '/ojs/v1/admin/at-risk?queue=q3&limit=20']],
    ['workers', ['/ojs/v1/admin/workers?limit=100', '/ojs/v1/jobs?worker=w7&state=active&limit=50']],
    ['dead letters', ['/ojs/v1/dead-letter?limit=50', '/ojs/v1/dead-letter/stats']],
    ['workflows', ['/ojs/v1/workflows?limit=50']],
    ['journeys', ['/api/v1/journeys']],
    ['cron', ['/ojs/v1/cron?limit=200']],
    ['types', ['/api/v1/job-types', series('metric=durations&by=type&type=t3&from=-24h')]],
    [
      'incident',
      ['', '&order=desc'].map((order) => `/ojs/v1/events?types=worker.died,job.timeout,job.stalled&limit=1000${order}`),
    ],
    ['settings', ['/api/v1/audit?limit=20', '/api/v1/session']],
  ]
}

async function measured(server, page, path) {
  const connection = new Connection(server.port)
  const bytes = requestBytes('GET', path)
  const took = []
  await server.tell('from here on')
  const cpuBefore = server.cpuMs()
  for (let n = 0; n < SAMPLES; n += 1) {
    const began = performance.now()
    const { status, body } = await connection.request(bytes)
    if (status !== 200) throw new Error(`GET ${path} answered ${status}: ${body.toString()}`)
    took.push(performance.now() - began)
  }
  const { ownMs } = await server.tell('until here')
  connection.close()
  return row(`${page}: ${path}`, took, ownMs, (server.cpuMs() - cpuBefore) / SAMPLES)
}

function row(name, took, held, cpu) {
  const sorted = took.toSorted((a, b) => a - b)
  return { name, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), cpu, held }
}

function report(rows, missed, jobs) {
  const { cpu, cores, node, load, date } = machine()
  const cell = (value) => value.toFixed(1)
  return [
    `# Calls of the board beside ${jobs} jobs`,
    '',
    `Taken ${date.slice(0, 16).replace('T', ' ')} UTC on ${cores} × ${cpu}, Node ${node}; load ${load.toFixed(1)}. ${SAMPLES} calls each, one after the`,
    'other, in milliseconds. "CPU" is processor time of the server for one call; "loop held", the longest time for which its event',
    'loop stood still, without the time for which other programs had the processor.',
    '',
    missed.length === 0
      ? `Held: every call p95 ≤ ${MAX_P95_MS} ms, event loop held ≤ ${MAX_HELD_MS} ms.`
      : `MISSED by ${missed.map(({ name }) => name).join(', ')}.`,
    '',
    '| p50 | p95 | CPU | loop held | call |',
    '|--:|--:|--:|--:|---|',
    ...rows.map(
      ({ name, p50, p95, cpu: each, held }) =>
        `| ${cell(p50)} | ${cell(p95)} | ${cell(each)} | ${cell(held)} | ${name} |`,
    ),
    '',
  ].join('\n')
}

/** Queues and a worker are made known; what was due when the server started is done when the counts stand still. */
async function furnish(port) {
  const connection = new Connection(port)
  for (let n = 0; n < 10; n += 1)
    await connection.request(requestBytes('POST', '/ojs/v1/jobs', { type: 't3', queue: `q${n}`, args: [] }))
  const worker = { worker_id: 'w7', hostname: 'h', pid: 1, queues: ['q3'], concurrency: 10, labels: [] }
  await connection.request(requestBytes('POST', '/ojs/v1/workers/register', worker))
  for (let before = ''; ;) {
    const { body } = await connection.request(requestBytes('GET', '/ojs/v1/admin/stats'))
    const counts = JSON.stringify(JSON.parse(body.toString()).jobs)
    if (counts === before) break
    before = counts
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  connection.close()
}

/** One reader of the pulse, as every open board is. */
function listen(port) {
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const request = get({ host: '127.0.0.1', port, path: '/api/v1/board/pulse' }, (response) => {
      let heard = ''
      response.setEncoding('utf8').on('data', (text) => {
        heard += text
        if (!heard.includes('event: pulse')) return
        resolve({ firstMs: [performance.now() - began], close: () => request.destroy() })
        heard = ''
      })
      response.on('error', () => {})
    })
    request.on('error', reject)
  })
}
