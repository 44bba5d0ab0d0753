// npm start: set up, build, serve. What follows `--` goes to `curfew serve`:
//
//   npm start -- --port 9000
//
// The server runs in this process, so signals, exit codes and kill -9 reach it directly. One exception: npm sends SIGTERM
// to the shell between npm and this process, and many shells exit without passing it on. So the end of the parent process
// counts as a SIGTERM.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

const began = performance.now()
await setupOrExit('run')

console.log('Building: about 10 seconds the first time, about 1 second when nothing changed.')
const buildCode = await build()
if (buildCode !== 0) process.exit(buildCode)

if (process.env.npm_lifecycle_event === 'start') endWithParent()
greetWhenListening()
process.chdir(root) // the data is in ./.curfew unless --data says otherwise
const main = join(root, 'packages', 'server', 'dist', 'cli', 'main.js')
process.argv = [process.execPath, main, 'serve', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)

/** The server prints `listening on <address>` once it accepts requests; the address may be one the system chose. */
function greetWhenListening() {
  const write = process.stdout.write
  process.stdout.write = function (chunk, ...rest) {
    const flushed = write.call(this, chunk, ...rest)
    const address = /^listening on (\S+)/.exec(String(chunk))?.[1]
    if (address) {
      process.stdout.write = write
      console.log(greeting(address))
    }
    return flushed
  }
}

function greeting(address) {
  return `
Ready ${((performance.now() - began) / 1000).toFixed(1)} s after npm start. The board is at ${address}/

Enqueue a job from another terminal:

  curl -sS ${address}/ojs/v1/jobs -H 'Content-Type: application/json' \\
    -d '{"type": "email.send", "args": ["ada@example.com"], "options": {"timeout_ms": 30000}}'

Ctrl-C stops it.
`
}

function endWithParent() {
  const parent = process.ppid
  let signalled = false
  for (const [signal, number] of Object.entries({ SIGINT: 2, SIGTERM: 15 })) {
    process.on(signal, () => {
      signalled = true
      const serverListens = process.listenerCount(signal) > 1
      if (!serverListens) process.exit(128 + number)
    })
  }
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    if (!signalled) process.kill(process.pid, 'SIGTERM')
  }, 250)
  watch.unref()
}
