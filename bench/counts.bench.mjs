// npm run bench -- counts [--record] [sqlite|postgres]
//
// What does each path cost its store, in numbers that no machine changes: statements, rows, bytes, commits, syncs, round
// trips? Prints them for both stores and keeps them in bench/results/counts-latest.md. The same numbers are compared with
// the recorded ones by tests/scenarios/costs.test.ts; --record writes the record (tests/costs/*.json) anew.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../', import.meta.url))
const PROJECTS = { sqlite: 'unit', postgres: 'postgres' }
const TITLES = { sqlite: 'SQLite', postgres: 'PostgreSQL' }

export async function run(args) {
  const isRecording = args.includes('--record')
  const wanted = args.filter((arg) => arg !== '--record')
  const unknown = wanted.find((name) => !(name in PROJECTS))
  if (unknown !== undefined) {
    console.error(`Unknown store "${unknown}". Stores: ${Object.keys(PROJECTS).join(', ')}`)
    process.exitCode = 1
    return
  }
  const stores = wanted.length > 0 ? wanted : Object.keys(PROJECTS)
  const folder = mkdtempSync(join(tmpdir(), 'curfew-counts-'))
  try {
    const failed = count(stores, folder, isRecording)
    const text = stores.filter((name) => existsSync(join(folder, `${name}.md`))).map((name) => section(name, folder))
    console.log(`\n${text.join('\n')}`)
    if (isRecording && !failed) console.log('Recorded in tests/costs.')
    else if (failed) console.log('Some counts are not as recorded; see above.')
    if (text.length === Object.keys(PROJECTS).length) {
      writeFileSync(join(root, 'bench/results/counts-latest.md'), page(text))
      console.log('Kept in bench/results/counts-latest.md')
    }
    process.exitCode = failed ? 1 : 0
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Whether the tests failed. */
function count(stores, folder, isRecording) {
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
  const projects = stores.flatMap((name) => ['--project', PROJECTS[name]])
  const env = { ...process.env, CURFEW_COUNTS_TABLES: folder, ...(isRecording ? { CURFEW_COUNTS_RECORD: '1' } : {}) }
  const args = [vitest, 'run', ...projects, 'tests/scenarios/costs.test.ts']
  return spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' }).status !== 0
}

const section = (name, folder) => `## ${TITLES[name]}\n\n${readFileSync(join(folder, `${name}.md`), 'utf8')}`

function page(sections) {
  const { version } = JSON.parse(readFileSync(join(root, 'packages/server/package.json'), 'utf8'))
  const intro = `Version ${version}${commit()}.

Counted, not measured: the numbers are the same on every machine. What each count means is written in
tests/costs/sqlite-meter.ts and tests/costs/postgres-meter.ts.`
  return ['# What the paths of a server cost its store', '', intro, '', sections.join('\n')].join('\n')
}

/** The subject of the last commit to the packages, where there is one, and whether they have changed since. */
function commit() {
  const git = (...args) => spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  const { status, stdout } = git('log', '-1', '--format=%s', '--', 'packages')
  if (status !== 0) return ''
  const changed = git('status', '--porcelain', '--', 'packages').stdout !== ''
  return `, at the commit "${stdout.trim()}"${changed ? ' and changes after it' : ''}`
}
