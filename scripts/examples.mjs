// npm run examples: installs each web framework into its own folder under examples/web, and holds the same conversation with
// each: enqueue, read, and a SIGTERM while a job runs. Then it runs the tests of examples/vitest. Nothing of it is a dependency of
// this repository. It prints a line for each example, and goes on when one fails.
//
//   npm run examples -- fastify express
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

const web = join(root, 'examples', 'web')

/** How each is run; `url` is the address of a Curfew server. */
const EXAMPLES = {
  'node-http': (url) => converseWith(start([join(web, 'node-http.mjs')], { CURFEW_URL: url, PORT: '0' })),
  fastify: framework('fastify', 'fastify'),
  express: framework('express', 'express'),
  nest: framework('nest', '@nestjs/core'),
  next: runNext,
  vitest: runVitest,
}

const asked = process.argv.slice(2)
const unknown = asked.find((name) => !(name in EXAMPLES))
if (unknown !== undefined) {
  console.error(`There is no example ${unknown}: ${Object.keys(EXAMPLES).join(', ')}.`)
  process.exit(2)
}

await setupOrExit('run')
const code = await build()
if (code !== 0) process.exit(code)
const { Client } = await import('@curfew/sdk')
const { converse } = await import('../examples/web/conversation.mjs')

const running = new Set()
const data = mkdtempSync(join(tmpdir(), 'curfew-examples-'))
const server = start([join(root, 'packages/server/dist/cli/main.js'), 'serve', '--data', data, '--port', '0'], {})
const failed = []
let client
try {
  const url = await server.listening
  client = new Client({ url })
  for (const name of asked.length === 0 ? Object.keys(EXAMPLES) : asked) {
    const began = performance.now()
    try {
      const what = await EXAMPLES[name](url)
      console.log(`${name}: fine${what === undefined ? '' : ` (${what})`}, ${seconds(began)} s`)
    } catch (error) {
      failed.push(name)
      console.error(`${name}: FAILED: ${error.stack}`)
    } finally {
      for (const app of [...running]) if (app !== server) app.child.kill('SIGKILL')
    }
  }
} finally {
  await client?.close()
  await server.terminate()
  rmSync(data, { recursive: true, force: true })
}
console.log(failed.length === 0 ? 'All examples ran.' : `Failed: ${failed.join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1

function framework(folder, packageName) {
  return async (url) => {
    const version = install(folder, packageName)
    await converseWith(start([join(web, folder, 'main.mjs')], { CURFEW_URL: url, PORT: '0' }))
    return `${packageName} ${version}`
  }
}

async function converseWith(app) {
  await converse(await app.listening, { client, terminate: app.terminate })
}

/** Next.js serves the routes; the worker is a process of its own, which gets the SIGTERM. */
async function runNext(url) {
  const version = install('next', 'next')
  const cwd = join(web, 'next')
  const next = join(cwd, 'node_modules', 'next', 'dist', 'bin', 'next')
  const env = { ...process.env, CURFEW_URL: url, NEXT_TELEMETRY_DISABLED: '1' }
  const built = spawnSync(process.execPath, [next, 'build'], { cwd, env, encoding: 'utf8' })
  if (built.status !== 0) throw new Error(`next build failed:\n${built.stdout}${built.stderr}`)
  const port = String(await freePort())
  const app = start([next, 'start', '--hostname', '127.0.0.1', '--port', port], env, { cwd, ready: /Ready in/ })
  const worker = start([join(web, 'worker.mjs')], { CURFEW_URL: url }, { ready: null })
  await app.listening
  await converse(`http://127.0.0.1:${port}/api`, { client, terminate: worker.terminate })
  await app.terminate()
  return `next ${version}`
}

function runVitest() {
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  if (!existsSync(vitest)) return 'left out: vitest comes with npm run setup'
  const args = [vitest, 'run', '--root', join(root, 'examples', 'vitest')]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${stdout}${stderr}`)
  return undefined
}

/** Returns the version of the package. */
function install(folder, packageName) {
  const cwd = join(web, folder)
  const manifest = join(cwd, 'node_modules', packageName, 'package.json')
  if (!existsSync(manifest)) {
    const args = ['install', '--no-package-lock', '--no-audit', '--no-fund', '--loglevel=error']
    const { status } = spawnSync('npm', args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
    if (status !== 0) throw new Error(`npm install failed in examples/web/${folder}`)
  }
  return JSON.parse(readFileSync(manifest, 'utf8')).version
}

/** A program that says when it is ready; `listening on <address>` unless `ready` says otherwise. */
function start(args, env, { cwd = root, ready = /listening on (\S+)\n/ } = {}) {
  const stdio = ['ignore', 'pipe', 'inherit']
  const child = spawn(process.execPath, args, { cwd, env: { ...process.env, ...env }, stdio })
  const exited = new Promise((resolve) => child.once('exit', (status) => resolve(status)))
  const listening = new Promise((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      said += chunk
      const found = ready?.exec(said)
      if (found) resolve(found[1])
    })
    void exited.then((status) => reject(new Error(`it ended with ${status} before it was ready:\n${said}`)))
  })
  listening.catch(() => {})
  const terminate = () => {
    child.kill('SIGTERM')
    return exited
  }
  const app = { child, listening, terminate }
  running.add(app)
  void exited.then(() => running.delete(app))
  return app
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}

function seconds(began) {
  return ((performance.now() - began) / 1000).toFixed(1)
}
