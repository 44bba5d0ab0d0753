// npm test: everything CI runs. Each part runs even when an earlier one failed, so one run shows all there is to mend.
//
//   npm test                            set-up, format, lint, types, build, then the tests of all projects
//   npm test -- --project unit retry    only vitest, with these arguments
//
// The last line is always `N passed, N failed`, counting tests.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setupBrowser } from './browser.mjs'
import { build } from './build.mjs'
import { LOOPBACK_ONLY, loopbackOnly } from './loopback.mjs'
import { root, setupOrExit } from './setup.mjs'

const vitestArgs = process.argv.slice(2)
const everything = vitestArgs.length === 0
const failures = []
/** Core alone, without the types of Node; then everything, tests included. The same as `npm run typecheck`. */
const TYPES = [
  ['typescript/bin/tsc', '-p', 'packages/core', '--noEmit', '--composite', 'false', '--incremental', 'false'],
  ['typescript/bin/tsc', '-p', 'tsconfig.tests.json'],
]
let counted = { passed: 0, failed: 0 }

await setupOrExit()
if (everything) {
  // They look at the same files and at nothing of each other, so they do it side by side.
  await sideBySide(
    ['Lint (eslint)', [['eslint/bin/eslint.js', '.', '--max-warnings', '0']]],
    ['Format (prettier)', [['prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.']]],
    ['Types (tsc)', TYPES],
  )
}
if (everything || runsProcessTests(vitestArgs)) {
  setupBrowser()
  part('Build (tsc -b)', build)
}
part('Tests (vitest)', runVitest)

if (failures.length > 0) console.log(`\nFailed: ${failures.join(', ')}`)
console.log(`${counted.passed} passed, ${counted.failed} failed`)
process.exit(failures.length > 0 ? 1 : 0)

function part(name, run) {
  console.log(`\n— ${name}`)
  const began = performance.now()
  const code = run()
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(`  ${code === 0 ? 'ok' : 'FAILED'}, ${seconds} s`)
  if (code !== 0) failures.push(name)
}

function tool(script, ...args) {
  const path = join(root, 'node_modules', ...script.split('/'))
  return spawnSync(process.execPath, [path, ...args], { cwd: root, stdio: 'inherit' }).status ?? 1
}

/** Parts that run at the same time; each is told of when it is over, with all it said. */
async function sideBySide(...parts) {
  console.log(`\n— ${parts.map(([name]) => name).join(', ')}: side by side`)
  await Promise.all(
    parts.map(async ([name, tools]) => {
      const began = performance.now()
      let [code, said] = [0, '']
      for (const [script, ...args] of tools) {
        const ended = await quietTool(script, ...args)
        code ||= ended.code
        said += ended.said
      }
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      process.stdout.write(said)
      console.log(`  ${name}: ${code === 0 ? 'ok' : 'FAILED'}, ${seconds} s`)
      if (code !== 0) failures.push(name)
    }),
  )
}

function quietTool(script, ...args) {
  const path = join(root, 'node_modules', ...script.split('/'))
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [path, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
    child.on('error', (error) => resolve({ code: 1, said: `${said}${error.message}\n` }))
    child.on('close', (code) => resolve({ code: code ?? 1, said }))
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

/** Nothing that a test does can leave this machine, where the machine can make sure of that. */
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
