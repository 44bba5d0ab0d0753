// npm start: set up, build, serve. What follows `--` goes to `curfew serve`:
//
//   npm start -- --port 9000
//
// The server runs in this very process, so a signal, an exit code and a kill -9 need nobody to pass them on. One thing
// is left to do: npm hands a SIGTERM to the shell between itself and us, and many shells die of it without a word to
// their child. So when our parent is gone, we take it for a SIGTERM.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from './build.mjs'
import { root, setupOrExit } from './setup.mjs'

await setupOrExit()

console.log('Building: some 10 seconds the first time, about one when nothing changed.')
const buildCode = build()
if (buildCode !== 0) process.exit(buildCode)

if (process.env.npm_lifecycle_event === 'start') endWithParent()
greetWhenListening()
process.chdir(root) // the server keeps its data in ./.curfew unless told otherwise
const main = join(root, 'packages', 'server', 'dist', 'cli', 'main.js')
process.argv = [process.execPath, main, 'serve', ...process.argv.slice(2)]
await import(pathToFileURL(main).href)

/** The server says `listening on <address>` when it does; only then is it time to try it, and only then is it sure where. */
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
Give it a job from another terminal:

  curl -sS ${address}/ojs/v1/jobs -H 'Content-Type: application/json' \\
    -d '{"type": "email.send", "args": ["ada@example.com"], "options": {"timeout_ms": 30000}}'

Ctrl-C stops it.
`
}

function endWithParent() {
  const parent = process.ppid
  let told = false
  for (const [signal, number] of Object.entries({ SIGINT: 2, SIGTERM: 15 })) {
    process.on(signal, () => {
      told = true
      const serverListens = process.listenerCount(signal) > 1
      if (!serverListens) process.exit(128 + number)
    })
  }
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    if (!told) process.kill(process.pid, 'SIGTERM')
  }, 250)
  watch.unref()
}
