// npm run conformance:sdks: the official SDKs of the Open Job Spec, unchanged, against a server of this checkout.
//
//   npm run conformance:sdks                          every language that is installed
//   npm run conformance:sdks -- --only python,go      those
//   npm run conformance:sdks -- --json sdks.json      and everything written down
//   npm run conformance:sdks -- --keep                leave the folders in which the SDKs were installed
//
// Each SDK is installed by the ordinary client of its language, from the registry that client is set up for, into a
// folder of its own. A small program of ours (tests/conformance/sdks) then does what the README and the examples of the
// SDK show, one step after another. Languages and packages that cannot be had are left out, with a line that says so.
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startServer } from '../bench/lib/processes.mjs'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

const HELP = `npm run conformance:sdks -- [--only LIST] [--json FILE] [--keep] [--verbose]

  --only LIST   only these languages, such as python,go
  --json FILE   write the result of every step into a file
  --keep        leave the folders in which the SDKs were installed
  --verbose     show what installers and programs say
`

const INSTALL_MS = 15 * 60_000
const RUN_MS = 5 * 60_000

/** `flags`: what the server needs for this SDK. `sdk`: the name and version of the package, if its program cannot tell. */
const LANGUAGES = {
  js: {
    title: 'JavaScript',
    needs: ['node', 'npm'],
    install: (folder) => {
      writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}')
      return [['npm', 'install', '--loglevel=error', '--no-audit', '--no-fund', '--ignore-scripts', '@openjobspec/sdk']]
    },
    run: ['node', 'driver.mjs'],
  },
  go: {
    title: 'Go',
    needs: ['go'],
    install: () => [
      ['go', 'mod', 'init', 'driver.example'],
      ['go', 'get', 'github.com/openjobspec/ojs-go-sdk@latest'],
      ['go', 'build', '-o', 'driver', '.'],
    ],
    run: ['./driver'],
  },
  python: {
    title: 'Python',
    needs: ['python3'],
    install: () => [
      ['python3', '-m', 'venv', '.venv'],
      // The package imports cryptography and does not name it among its dependencies.
      ['.venv/bin/pip', 'install', '--quiet', '--disable-pip-version-check', 'openjobspec', 'cryptography'],
    ],
    run: ['.venv/bin/python', 'driver.py'],
    // It reads an answer only if its content type has the words application/json in it.
    flags: ['--media-alias'],
  },
  rust: {
    title: 'Rust',
    needs: ['cargo'],
    install: () => [['cargo', 'build', '--quiet']],
    run: ['cargo', 'run', '--quiet'],
    sdk: (folder) => {
      const lock = readFileSync(join(folder, 'Cargo.lock'), 'utf8')
      return `ojs ${/name = "ojs"\nversion = "(.+)"/.exec(lock)?.[1] ?? '?'}`
    },
  },
  java: {
    title: 'Java',
    needs: ['java', 'mvn'],
    install: () => [['mvn', '--batch-mode', '--quiet', 'compile']],
    run: ['mvn', '--batch-mode', '--quiet', 'exec:java'],
  },
  ruby: {
    title: 'Ruby',
    needs: ['ruby', 'gem'],
    install: () => [['gem', 'install', '--quiet', '--no-document', '--install-dir', 'gems', 'ojs']],
    run: ['ruby', 'driver.rb'],
    env: (folder) => ({ GEM_PATH: join(folder, 'gems') }),
  },
}

/** Steps in which an SDK contradicts the specification. They are run and counted apart. */
const expected = JSON.parse(readFileSync(join(root, 'tests', 'conformance', 'sdks', 'expected-failures.json'), 'utf8'))

const options = readOptions(process.argv.slice(2))
await setupOrExit()
if ((await build()) !== 0) process.exit(2)

const results = []
for (const name of options.only) results.push(await tryLanguage(name, LANGUAGES[name]))
if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(written(results), null, 2)}\n`)
console.log(`\n${table(results)}\n`)
const count = (word) => results.flatMap(({ steps }) => steps).filter(({ status }) => status === word).length
for (const { title, skipped } of results) if (skipped !== null) console.log(`${title} was left out: ${skipped}`)
console.log(`${count('passed')} passed, ${count('failed')} failed (and ${count('expected')} as expected)`)
process.exitCode = results.every(({ steps }) => steps.length === 0) ? 2 : count('failed') > 0 ? 1 : 0

// ---- One language ----

async function tryLanguage(name, language) {
  const { title } = language
  const result = { name, title, sdk: null, steps: [], skipped: null }
  const missing = []
  for (const tool of language.needs) if (!(await isInstalled(tool))) missing.push(tool)
  if (missing.length > 0) return { ...result, skipped: `${missing.join(' and ')} is not installed` }
  const folder = mkdtempSync(join(tmpdir(), `curfew-sdk-${name}-`))
  try {
    cpSync(join(root, 'tests', 'conformance', 'sdks', name), folder, { recursive: true })
    console.log(`${title}: installing`)
    for (const command of language.install(folder)) {
      const { status, said } = await exec(command, folder, INSTALL_MS)
      if (status !== 0) return { ...result, skipped: `\`${command.join(' ')}\` failed: ${reasonIn(said)}` }
    }
    return await runDriver({ ...result, sdk: language.sdk?.(folder) ?? null }, language, folder)
  } finally {
    if (options.keep) console.log(`${title}: ${folder}`)
    else rmSync(folder, { recursive: true, force: true })
  }
}

async function runDriver(result, { title, run, flags = [], env = () => ({}) }, folder) {
  const server = await startServer({ flags })
  try {
    console.log(`${title}: running`)
    const url = `http://127.0.0.1:${server.port}`
    const { status, said, lines } = await exec(run, folder, RUN_MS, { OJS_URL: url, ...env(folder) })
    const steps = lines.filter(({ step }) => step !== undefined).map((line) => outcomeOf(result.name, line))
    const sdk = lines.find((line) => line.sdk !== undefined)?.sdk ?? result.sdk
    if (status !== 0) steps.push({ step: 'to the end', status: 'failed', reason: reasonIn(said) })
    for (const { step, status: end, reason } of steps)
      if (end === 'failed' || end === 'expected') console.log(`  ${step}: ${reason}`)
    return { ...result, sdk, steps }
  } finally {
    await server.stop()
  }
}

function outcomeOf(name, { step, ok, error, skipped }) {
  if (skipped !== undefined) return { step, status: 'skipped', reason: skipped }
  const known = expected.find((one) => one.language === name && one.step === step)
  if (ok === true)
    return { step, status: 'passed', reason: known === undefined ? null : 'though it was expected to fail' }
  if (known !== undefined) return { step, status: 'expected', reason: `${known.reason}: ${error}` }
  return { step, status: 'failed', reason: String(error) }
}

// ---- Processes ----

async function isInstalled(tool) {
  const { status } = await exec(['sh', '-c', `command -v ${tool}`], tmpdir(), 10_000)
  return status === 0
}

/** Its exit status, all it said, and the lines of standard output that are JSON objects. */
function exec([command, ...args], cwd, ms, env = {}) {
  const file = command.includes('/') && existsSync(join(cwd, command)) ? join(cwd, command) : command
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    let out = ''
    const timer = setTimeout(() => {
      said += `\nnot done after ${ms / 1000} s`
      child.kill('SIGKILL')
    }, ms)
    const hear = (text) => {
      said += text
      if (options.verbose) process.stderr.write(text)
    }
    child.stdout.setEncoding('utf8').on('data', (text) => {
      out += text
      hear(text)
    })
    child.stderr.setEncoding('utf8').on('data', hear)
    const end = (status) => {
      clearTimeout(timer)
      resolve({ status, said, lines: out.split('\n').flatMap(objectIn) })
    }
    child.on('error', (error) => {
      said += error.message
      end(-1)
    })
    child.on('close', (status) => end(status ?? -1))
  })
}

/** Maven puts colours before a line. */
function objectIn(line) {
  const start = line.indexOf('{')
  if (start < 0) return []
  try {
    return [JSON.parse(line.slice(start))]
  } catch {
    return []
  }
}

/** The line that says most about what went wrong: the first that speaks of an error, else the last. */
function reasonIn(said) {
  const lines = said.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
  const telling = lines.find((line) => /error|not found|could not|no matching|forbidden/i.test(line))
  return (telling ?? lines.at(-1) ?? 'it said nothing').slice(0, 300)
}

// ---- Report ----

function table(found) {
  const ran = found.filter(({ steps }) => steps.length > 0)
  if (ran.length === 0) return 'No SDK could be run.'
  const names = [...new Set(ran.flatMap(({ steps }) => steps.map(({ step }) => step)))]
  const sign = { passed: 'yes', failed: 'no', expected: 'no', skipped: '–' }
  const cell = ({ steps }, name) => sign[steps.find(({ step }) => step === name)?.status] ?? ''
  const head = `| | ${ran.map(({ title }) => title).join(' | ')} |`
  const rule = `|---|${ran.map(() => '---').join('|')}|`
  const versions = `| package | ${ran.map(({ sdk }) => sdk ?? '').join(' | ')} |`
  const rows = names.map((name) => `| ${name} | ${ran.map((one) => cell(one, name)).join(' | ')} |`)
  return [head, rule, versions, ...rows].join('\n')
}

function written(found) {
  return {
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    languages: found,
  }
}

// ---- Options ----

function readOptions(args) {
  const known = Object.keys(LANGUAGES)
  let given
  try {
    const flag = { type: 'boolean', default: false }
    const text = { type: 'string' }
    given = parseArgs({ args, options: { only: text, json: text, keep: flag, verbose: flag, help: flag } }).values
  } catch (error) {
    console.error(`${error.message}\n${HELP}`)
    process.exit(2)
  }
  if (given.help) {
    console.log(HELP)
    process.exit(0)
  }
  const only = given.only === undefined ? known : given.only.split(',').map((name) => name.trim())
  const unknown = only.find((name) => !known.includes(name))
  if (unknown !== undefined) {
    console.error(`--only ${unknown}: must be of ${known.join(', ')}`)
    process.exit(2)
  }
  return { ...given, only }
}
