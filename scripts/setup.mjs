// Installs the dependencies if they are missing or out of date. Needs nothing but Node, so it runs in a fresh clone.
//
// There are two scopes. `run` is what building and serving need; `everything` adds what tests, lint and benchmarks need.
// A stamp inside node_modules records the scope, a hash of package-lock.json, and the Node that compiled the native parts.
// Where the stamp is missing or old, an installation that `npm install` made by hand is checked and adopted.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setupBrowser } from './browser.mjs'

export const root = fileURLToPath(new URL('..', import.meta.url))
const stampFile = join(root, 'node_modules', '.curfew-setup')
const nodeNeeded = [20, 19]

/** The packages that `npm start` builds and serves; their own dependencies are the scope `run`. */
const PACKAGES = ['@curfew/core', 'curfew', '@curfew/sdk', '@curfew/board']

/** What builds them. */
const BUILD_TOOLS = ['typescript', 'vite', 'preact', '@preact/signals'].map((name) => `node_modules/${name}`)

/** Returns true when it changed something. */
export async function setup(scope) {
  refuseOldNode()
  const stamps = Object.fromEntries(['run', 'everything'].map((name) => [name, stampOf(name)]))
  const found = existsSync(stampFile) ? readFileSync(stampFile, 'utf8') : ''
  if (found === stamps[scope] || found === stamps.everything) return false
  if (!installationIsCurrent(scope)) await install(scope)
  rmSync(stampFile, { force: true }) // node_modules may be a hard-linked copy of another clone's
  writeFileSync(stampFile, stamps[scope])
  return true
}

/** Whether the server uses the SQLite of this Node. The same rule as in packages/server/src/store/sqlite/driver.ts. */
function hasBuiltInSqlite() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return (major === 22 && minor >= 16) || major >= 24
}

function refuseOldNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  const [needMajor, needMinor] = nodeNeeded
  if (major > needMajor || (major === needMajor && minor >= needMinor)) return
  throw new SetupError(`Curfew needs Node ${nodeNeeded.join('.')} or newer; this is ${process.version}.`)
}

function stampOf(scope) {
  return createHash('sha256')
    .update(scope)
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(`${process.platform} ${process.arch} ${process.versions.modules}`)
    .digest('hex')
}

/** Compares what npm put into node_modules with what package-lock.json wants, and tries the native part if it is needed. */
function installationIsCurrent(scope) {
  const installedFile = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(installedFile)) return false
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const installed = JSON.parse(readFileSync(installedFile, 'utf8')).packages
  const same = Object.entries(installed).every(([path, { version }]) => wanted[path]?.version === version)
  const whole = Object.entries(wanted).every(
    ([path, entry]) =>
      !path.includes('node_modules/') ||
      entry.optional ||
      entry.peer ||
      (scope === 'run' && entry.dev && !BUILD_TOOLS.includes(path)) ||
      installed[path],
  )
  if (!same || !whole) return false
  if (scope === 'run' && hasBuiltInSqlite()) return true
  const open = "new (require('better-sqlite3'))(':memory:').close()"
  return spawnSync(process.execPath, ['-e', open], { cwd: root, stdio: 'ignore' }).status === 0
}

async function install(scope) {
  const compiles = scope === 'everything' || !hasBuiltInSqlite()
  console.log(
    compiles
      ? 'Installing dependencies with npm ci: about 20 seconds, or 1 to 2 minutes where better-sqlite3 has no ready-made\n' +
          'binary for this machine and is compiled from source. Node 22.16 and Node 24 need no better-sqlite3 to serve.'
      : 'Installing dependencies with npm ci: a few seconds.',
  )
  const began = performance.now()
  const { code, output } = await npmCi(scope)
  if (code !== 0) throw new SetupError(explain(output))
  if (compiles && !hasBuiltInSqlite() && !loads('better-sqlite3')) throw new SetupError(explain(`${output}\ngyp ERR!`))
  console.log(`Dependencies installed in ${Math.round((performance.now() - began) / 1000)} s.`)
}

/** better-sqlite3 is optional to npm, which therefore goes on without a word where it cannot be compiled. */
function loads(name) {
  return (
    spawnSync(process.execPath, ['-e', `require(${JSON.stringify(name)})`], { cwd: root, stdio: 'ignore' }).status === 0
  )
}

function npmCi(scope) {
  const args = ['ci', '--no-audit', '--no-fund', '--no-progress', '--loglevel=error']
  if (scope === 'run') args.push(...PACKAGES.map((name) => `--workspace=${name}`))
  // better-sqlite3, the only one with such a script, is not compiled where it is not used. (The bundler of the board has
  // its native part as an optional dependency, so these cannot be left out.)
  if (scope === 'run' && hasBuiltInSqlite()) args.push('--ignore-scripts')
  const npm = process.env.npm_execpath
  const viaNode = npm && /\.c?js$/.test(npm)
  const child = viaNode
    ? spawn(process.execPath, [npm, ...args], { cwd: root, env: npmEnv() })
    : spawn('npm', args, { cwd: root, env: npmEnv(), shell: process.platform === 'win32' })
  return new Promise((resolve) => {
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.on('error', (error) => resolve({ code: 1, output: `${output}\n${error.message}` }))
    child.on('close', (code) => resolve({ code, output }))
  })
}

function npmEnv() {
  const env = { ...process.env }
  // npm keeps its cache, and node-gyp its headers, under HOME.
  if (process.platform !== 'win32' && !env.HOME) {
    env.HOME = join(tmpdir(), 'curfew-home')
    mkdirSync(env.HOME, { recursive: true })
  }
  // Most installations of Node bring their headers along; with them node-gyp needs no download. Two names, because
  // npm before 11 reads the first and the next one will read only the second.
  const nodedir = dirname(dirname(realpathSync(process.execPath)))
  if (existsSync(join(nodedir, 'include', 'node', 'node.h'))) {
    env.npm_config_nodedir ??= nodedir
    env.npm_package_config_node_gyp_nodedir ??= nodedir
  }
  return env
}

function explain(output) {
  const end = output.trim().split('\n').slice(-25).join('\n')
  return `${end}\n\nnpm ci failed. ${likelyCause(output)}`
}

function likelyCause(output) {
  // Looked at first: without a compiler there is a failed download of the ready-made binary in the output as well.
  if (/not found: make|find Python|No Xcode|find Visual Studio|g\+\+: (command )?not found|gyp ERR!/.test(output)) {
    return (
      'better-sqlite3 could not be compiled: it needs Python 3, make and a C++20 compiler ' +
      '(Debian, Ubuntu: apt install build-essential python3; macOS: xcode-select --install).'
    )
  }
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network/i.test(output)) {
    return 'The package registry could not be reached: check the network, and HTTPS_PROXY if you are behind a proxy.'
  }
  if (/EACCES|EPERM|EROFS|ENOSPC/.test(output)) {
    return 'Files could not be written: check the owner and the free space of this folder and of the npm cache.'
  }
  return 'The lines above are the end of what it said.'
}

export class SetupError extends Error {}

/** For the scripts that begin with a set-up: an expected failure is a message, not a stack. */
export async function setupOrExit(scope = 'everything') {
  try {
    return await setup(scope)
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    console.error(error.message)
    process.exit(1)
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  if (!(await setupOrExit())) console.log('Set-up is current.')
  setupBrowser()
}
