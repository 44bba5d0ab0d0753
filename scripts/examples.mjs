// npm run examples: installs each web framework into its own folder under examples/web, and holds the same conversation with
// each: enqueue, read, and a SIGTERM while a job runs. Nothing of it is a dependency of this repository.
//
//   npm run examples -- fastify express
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

const FRAMEWORKS = ['fastify', 'express', 'nest']
const asked = process.argv.slice(2)
const unknown = asked.find((name) => !FRAMEWORKS.includes(name))
if (unknown !== undefined) {
  console.error(`There is no example for ${unknown}: ${FRAMEWORKS.join(', ')}.`)
  process.exit(2)
}

await setupOrExit('run')
const code = await build()
if (code !== 0) process.exit(code)
const { Client } = await import('@curfew/sdk')
const { converse } = await import('../examples/web/conversation.mjs')

const data = mkdtempSync(join(tmpdir(), 'curfew-examples-'))
const server = start([join(root, 'packages/server/dist/cli/main.js'), 'serve', '--data', data, '--port', '0'], {})
let failures = 0
try {
  const url = await server.listening
  const client = new Client({ url })
  for (const name of asked.length === 0 ? FRAMEWORKS : asked) {
    const folder = join(root, 'examples/web', name)
    if (!existsSync(join(folder, 'node_modules'))) install(folder)
    const app = start([join(folder, 'main.mjs')], { CURFEW_URL: url, PORT: '0' })
    try {
      await converse(await app.listening, { client, terminate: app.terminate })
      console.log(`${name}: fine`)
    } catch (error) {
      failures += 1
      console.error(`${name}: ${error.stack}`)
      app.child.kill('SIGKILL')
    }
  }
  await client.close()
} finally {
  await server.terminate()
  rmSync(data, { recursive: true, force: true })
}
process.exitCode = failures === 0 ? 0 : 1

function install(folder) {
  const args = ['install', '--no-package-lock', '--no-audit', '--no-fund']
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status !== 0) throw new Error(`npm install failed in ${folder}`)
}

/** A program that says `listening on <address>` when it does. */
function start(args, env) {
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const listening = new Promise((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      said += chunk
      const address = /listening on (\S+)\n/.exec(said)?.[1]
      if (address !== undefined) resolve(address)
    })
    void exited.then((code) => reject(new Error(`it ended with ${code} before it listened`)))
  })
  listening.catch(() => {})
  const terminate = () => {
    child.kill('SIGTERM')
    return exited
  }
  return { child, listening, terminate }
}
