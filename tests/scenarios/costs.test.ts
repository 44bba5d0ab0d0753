/**
 * What the paths of a server cost its store: statements, rows, bytes, commits, syncs and round trips, counted exactly.
 * Times differ from machine to machine and from run to run; these numbers change only when the code does.
 *
 * What was recorded is in tests/costs/sqlite.json and postgres.json. `npm run bench -- counts` prints the numbers of the
 * working tree, and with `--record` makes them the expected ones.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, inject, test } from 'vitest'
import { seededRandom } from '@curfew/core'
import type { Counted, Counts, Meter } from '../costs/meter.ts'
import { paths, type Path } from '../costs/paths.ts'
import { openPostgresMeter } from '../costs/postgres-meter.ts'
import { difference, markdown, renewed, type Expected } from '../costs/report.ts'
import { openSqliteMeter } from '../costs/sqlite-meter.ts'
import { TestServer } from '../harness.ts'
import { KEPT, tracked } from '../stores.ts'

const database = inject('database')
const kind = database === undefined ? 'sqlite' : 'postgres'
const record = fileURLToPath(new URL(`../costs/${kind}.json`, import.meta.url))
const expected = existsSync(record) ? (JSON.parse(readFileSync(record, 'utf8')) as Record<string, Expected>) : {}
/** Set by bench/counts.bench.mjs: whether to rewrite what is expected, and a folder that gets the numbers as a table. */
const isRecording = process.env['CURFEW_COUNTS_RECORD'] === '1'
const tables = process.env['CURFEW_COUNTS_TABLES']

const found: { name: string; jobs: number; counts: Counts }[] = []

function openMeter(): Promise<Meter> {
  return database === undefined ? openSqliteMeter(KEPT) : openPostgresMeter(database, KEPT)
}

async function costsOf(path: Path): Promise<Counted> {
  const meter = await openMeter()
  try {
    return await countedOn(meter, path)
  } finally {
    await meter.close()
  }
}

async function countedOn(meter: Meter, { prepare, run, verify }: Path): Promise<Counted> {
  const store = tracked(meter.store, { close: () => Promise.resolve() })
  const server = await TestServer.open({ store, random: seededRandom(7), stopwatch: () => () => 0 })
  try {
    await prepare(server)
    // Series are saved every ten seconds, however many jobs there were: that belongs to no path.
    server.engine.series.forget()
    await meter.start()
    await run(server)
    const counted = await meter.stop()
    await verify(server)
    return counted
  } finally {
    await server.close()
  }
}

test.each(paths())('$name: its costs are those that were recorded', async (path) => {
  const counted = await costsOf(path)
  found.push({ name: path.name, jobs: path.jobs, counts: counted.counts })
  if (isRecording) return
  const changed = difference(path, expected[path.name], counted)
  if (changed !== null) expect.fail(changed)
})

/** Those that were counted now, and the others as they were. */
function recorded(): Record<string, Expected> {
  const all = paths().map(({ name }): [string, Expected] => {
    const counts = found.find((one) => one.name === name)?.counts
    return [name, counts === undefined ? (expected[name] ?? {}) : renewed(expected[name], counts)]
  })
  return Object.fromEntries(all)
}

afterAll(() => {
  if (isRecording) writeFileSync(record, `${JSON.stringify(recorded(), null, 2)}\n`)
  if (tables !== undefined) writeFileSync(`${tables}/${kind}.md`, `${markdown(found)}\n`)
})
