/** Where a thread isolate begins. The port is our own, so that a handler may use `parentPort` as it likes. */
import { setFlagsFromString } from 'node:v8'
import { workerData } from 'node:worker_threads'
import { afterEverySleep, nodeHost } from '../host.ts'
import { hostHandler } from './host-handler.ts'
import { loadHandler } from './load-handler.ts'
import type { ThreadData, ToIsolate } from './messages.ts'

// From V8 12 on (Node 22, 24) an optimisation may take the check for interrupts out of an endless loop around
// `new Array(n).fill(…)`; such a thread could not be terminated. A process is killed anyway. Where the flag is unknown
// V8 complains on stderr, so it is set only where it is known to be.
if (['12', '13', '14'].includes(process.versions.v8.split('.')[0] ?? ''))
  setFlagsFromString('--no-turboshaft-loop-unrolling')

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
