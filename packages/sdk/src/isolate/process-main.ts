/**
 * Where a process isolate begins. Its watcher, a thread, is there before any line of the handler's module: whatever the
 * handler does, the watcher can see where it is stuck, and ends the process group when the worker no longer can.
 */
import { Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { errorData } from '../attempt/error-data.ts'
import { nodeHost } from '../host.ts'
import { hostHandler } from './host-handler.ts'
import { readLines } from './lines.ts'
import { loadHandler } from './load-handler.ts'
import { FD, type FromIsolate, type ToIsolate } from './messages.ts'

const [module = '', exportName = ''] = process.argv.slice(2)

const toWorker = new Socket({ fd: FD.fromHandler, readable: false, writable: true })
// The worker is gone, and the watcher is about to end us.
toWorker.on('error', () => {})
const send = (message: FromIsolate): void => {
  toWorker.write(`${JSON.stringify(message)}\n`)
}

// Before a kill the whole group gets a SIGTERM. It is meant for what the handler has started; the handler itself has
// its signal, and keeps its time.
process.on('SIGTERM', () => {})
// Whether this ends the process is up to Node and to the handler's own listeners.
process.on('uncaughtExceptionMonitor', (error) => {
  send({ t: 'crash', error: errorData(error) })
})

const watcher = new Worker(new URL('./watcher.js', import.meta.url))
watcher.on('exit', () => {
  throw new Error('The watcher of this process is gone: nothing would end it in time.')
})
await new Promise((resolve) => watcher.once('message', resolve))
watcher.unref()

const hear = hostHandler({
  host: nodeHost,
  send,
  loaded: loadHandler(module, exportName),
  isClean: () => !process.getActiveResourcesInfo().includes('ProcessWrap'),
  end: () => {
    process.exit(0)
  },
})

readLines(new Socket({ fd: FD.toHandler, readable: true, writable: false }), (line) => {
  hear(withInstants(JSON.parse(line) as ToIsolate))
})

/** JSON has no Infinity: an instant that never comes arrives as null. */
function withInstants(message: ToIsolate): ToIsolate {
  if (message.t === 'abort') {
    const { killAt } = message as { killAt: number | null }
    return { ...message, killAt: killAt ?? Infinity }
  }
  if (message.t !== 'run') return message
  const { softAt, hardAt } = message.facts as { softAt: number | null; hardAt: number | null }
  return { ...message, facts: { ...message.facts, softAt: softAt ?? Infinity, hardAt: hardAt ?? Infinity } }
}
