// npm test: everything CI runs. Each part runs even when an earlier one failed, so one run shows everything to fix.
//
//   npm test                            set-up, format, lint, types, build, then the tests of all projects
//   npm test -- --project unit retry    only vitest, with these arguments
//
// The last line is always `N passed, N failed`, counting tests.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setupBrowser } from './browser.mjs'
import { build } from './build.mjs'
import { LOOPBACK_ONLY, loopbackOnly } from './loopback.mjs'
import { setupNode24 } from './node24.mjs'
import { root, setupOrExit } from './setup.mjs'
import { sideBySide, TYPES } from './side-by-side.mjs'

const vitestArgs = process.argv.slice(2)
const everything = vitestArgs.length === 0
const failures = []
let counted = { passed: 0, failed: 0 }

await setupOrExit()
if (everything) {
  // They read the same files and do not depend on each other.
  const failed = await sideBySide(
    ['Lint (eslint)', [['eslint/bin/eslint.js', '.', '--max-warnings', '0']]],
    ['Format (prettier)', [['prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.']]],
    ['Types (tsc)', TYPES],
  )
  failures.push(...failed)
}
if (everything || runsProcessTests(vitestArgs)) {
  setupBrowser()
  setupNode24()
  await part('Build (tsc -b, vite)', build)
}
await part('Tests (vitest)', runVitest)

if (failures.length > 0) console.log(`\nFailed: ${failures.join(', ')}`)
console.log(`${counted.passed} passed, ${counted.failed} failed`)
process.exit(failures.length > 0 ? 1 : 0)

async function part(name, run) {
  console.log(`\n— ${name}`)
  const began = performance.now()
  const code = await run()
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`  ${code === 0 ? 'ok' : 'FAILED'}, ${seconds} s`)
  if (code !== 0) failures.push(name)
}

function tool(script, ...args) {
  const path = join(root, 'node_modules', ...script.split('/'))
  return spawnSync(process.execPath, [path, ...args], { cwd: root, stdio: 'inherit' }).status ?? 1
}

/** The process tests start the server from dist, so a stale build would test yesterday's code. */
function runsProcessTests(args) {
  const projects = args.flatMap((arg, i) => {
    if (arg === '--project') return [args[i + 1]]
    return arg.startsWith('--project=') ? [arg.slice('--project='.length)] : []
  })
  return projects.length === 0 || ['process', 'clocks', 'commands'].some((name) => projects.includes(name))
}

function runVitest() {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-test-'))
  const report = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  try {
    const code = vitest('run', ...reporters, ...vitestArgs)
    counted = count(report)
    return code
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs in a network namespace with loopback only, where the machine has them: no test can reach another machine. */
function vitest(...args) {
  const script = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const within = loopbackOnly()
  if (within === null) {
    console.log('  No network namespace here (Linux with unshare and ip has them): the tests run on the open network.')
    return tool('vitest/vitest.mjs', ...args)
  }
  const [program, ...before] = within
  const env = { ...process.env, [LOOPBACK_ONLY]: '1' }
  return (
    spawnSync(program, [...before, process.execPath, script, ...args], { cwd: root, stdio: 'inherit', env }).status ?? 1
  )
}

/** A file that could not even be loaded has no tests to count: it counts as one failure. */
function count(report) {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
    const unloaded = testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0)
    return { passed: numPassedTests, failed: numFailedTests + unloaded.length }
  } catch {
    return { passed: 0, failed: 1 } // vitest ended without a report
  }
}
