// One version of an application's worker. SIGTERM lets it finish what it has; `run` ends the process with 0.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from '@curfew/sdk'

const { CURFEW_URL: url = 'http://127.0.0.1:8080', VERSION, DONE } = process.env

const worker = new Worker({ url, queues: ['deploy'], concurrency: 5, labels: [VERSION] })
worker.handle('deploy.work', { timeout: '10s' }, async (ctx, [number]) => {
  await pause(20 + (number % 7) * 20, undefined, { signal: ctx.signal })
  appendFileSync(DONE, `${number} ${VERSION}\n`)
})
void worker.start().then(() => process.send?.({ ready: worker.id }))
await worker.run()
