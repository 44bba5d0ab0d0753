// A worker in a process of its own, which tells its parent when it is ready and when handlers begin and are stopped.
// Handlers in processes cannot tell the parent; they write the same into a file.
import { Worker } from '@curfew/sdk'
import { watched } from './handler.mjs'

const { url, queue, concurrency, isolation } = JSON.parse(process.env.SETTINGS)
const log = { debug() {}, info() {}, warn() {}, error() {} }
const worker = new Worker({ url, log, queues: [queue], concurrency, drain: { ms: 0 } })
if (isolation === 'process')
  worker.handle('bench.wait', { isolation, module: new URL('./handler.mjs', import.meta.url), gracePeriod: '1s' })
else
  worker.handle('bench.wait', (context) =>
    watched(context, (what, at) => process.send({ what, id: context.jobId, at })),
  )
worker.start().then(() => process.send({ what: 'ready' }))
await worker.run()
process.disconnect()
