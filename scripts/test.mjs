// npm test: everything CI runs. Each part runs even when an earlier one failed, so one run shows everything to fix.
//
//   npm test                            set-up, format, lint, types, build, then the tests of all projects
//   npm test -- --project unit retry    only vitest, with these arguments
//
// The last line is always `N passed, N failed`, counting tests.
import { spawn } from 'node:child_process'
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
// They read the same files and do not depend on each other, nor on the tests: they run beside them, and take the processor
// only while the tests leave it.
const beside = everything
  ? sideBySide(
      ['Lint (eslint)', [['eslint/bin/eslint.js', '.', '--max-warnings', '0']]],
      ['Format (prettier)', [['prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.']]],
      ['Types (tsc)', TYPES],
    )
  : Promise.resolve([])
if (everything || runsProcessTests(vitestArgs)) {
  setupBrowser()
  setupNode24()
  await part('Build (tsc -b, vite)', build)
}
await part('Tests (vitest)', runVitest)
failures.push(...(await beside))

if (failures.length > 0) console.log(`\nFailed: ${failures.join(', ')}`)
console.log(`${counted.passed} passed, ${counted.failed} failed`)
process.exit(failures.length > 0 ? 1 : 0)

async function part(name, work) {
  console.log(`\n— ${name}`)
  const began = performance.now()
  const code = await work()
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`  ${code === 0 ? 'ok' : 'FAILED'}, ${seconds} s`)
  if (code !== 0) failures.push(name)
}

/** Answers the exit code; what the program prints goes to the terminal. */
function run(program, args, env = process.env) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: root, stdio: 'inherit', env })
    child.on('error', () => resolve(1))
    child.on('close', (code) => resolve(code ?? 1))
  })
}

/** The process tests start the server from dist, so a stale build would test yesterday's code. */
function runsProcessTests(args) {
  const projects = args.flatMap((arg, i) => {
    if (arg === '--project') return [args[i + 1]]
    return arg.startsWith('--project=') ? [arg.slice('--project='.length)] : []
  })
  return projects.length === 0 || ['process', 'clocks', 'commands'].some((name) => projects.includes(name))
}

async function runVitest() {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-test-'))
  const report = join(folder, 'report.json')
  const times = join(root, 'scripts', 'test-times.mjs')
  const reporters = ['--reporter=default', `--reporter=${times}`, '--reporter=json', `--outputFile.json=${report}`]
  try {
    const code = await vitest('run', ...reporters, ...vitestArgs)
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
    return run(process.execPath, [script, ...args])
  }
  const [program, ...before] = within
  const env = { ...process.env, [LOOPBACK_ONLY]: '1' }
  return run(program, [...before, process.execPath, script, ...args], env)
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
