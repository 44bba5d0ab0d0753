/** Where a thread isolate begins. The port is our own, so that a handler may use `parentPort` as it likes. */
import { workerData } from 'node:worker_threads'
import { afterEverySleep, nodeHost } from '../host.ts'
import { hostHandler } from './host-handler.ts'
import { loadHandler } from './load-handler.ts'
import type { ThreadData, ToIsolate } from './messages.ts'

const { port, module, exportName, leaseAt } = workerData as ThreadData

const hear = hostHandler({
  host: nodeHost,
  send: (message) => {
    port.postMessage(message)
  },
  loaded: loadHandler(module, exportName),
  isClean: () => true,
  end: () => {
    process.exit(0) // ends this thread only
  },
})

port.on('message', (message: ToIsolate) => {
  hear(message)
})

// Who stood still for longer than the lease (SIGSTOP, a suspended machine) may do nothing more.
afterEverySleep(() => {
  if (nodeHost.monotonicMs() >= (leaseAt[0] ?? Infinity)) process.exit(1)
})
