// A worker as an application would write it: run by the tests in a process of its own, and told by signals.
import { Worker } from '@curfew/sdk'
import { busy } from './sleeper.mjs'

const { URL: url, CONCURRENCY = '10', DRAIN = '25s', ISOLATION = 'inline', TIMEOUT = '1m', GRACE = '1s' } = process.env
const module = new globalThis.URL('./sleeper.mjs', import.meta.url)
const limits = { timeout: TIMEOUT, gracePeriod: GRACE }
const say = (fields, message) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`)

const worker = new Worker({
  url,
  concurrency: Number(CONCURRENCY),
  drain: DRAIN,
  log: { debug: say, info: say, warn: say, error: say },
})
worker.handle('test.sleep', { ...limits, module, isolation: ISOLATION })
worker.handle('test.busy', { ...limits, module, exportName: 'busy', isolation: ISOLATION })
// Nothing has to be loaded: it blocks the turn in which its job arrives.
worker.handle('test.block', limits, (context, args) => busy(context, args))
worker.start().then(() => process.stdout.write(`ready ${worker.id}\n`))
await worker.run()
process.stdout.write('ended\n')
