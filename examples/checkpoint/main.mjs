// An import of a hundred rows that has time for some forty in one attempt: it saves how far it came, is cut off by its
// deadline, and goes on from there in the next attempt.
import { setTimeout as pause } from 'node:timers/promises'
import { Client, defineJob, Worker } from '@curfew/sdk'

const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
const ROWS = 100

const importRows = defineJob('rows.import', {
  limits: { timeout: '500ms', gracePeriod: '1s' },
  retry: { maxAttempts: 10, initialInterval: '50ms', jitter: false },
})

const imported = new Map()
const worker = new Worker({ url, queues: ['import'] })
worker.handle(importRows, async (ctx) => {
  let row = ctx.lastCheckpoint?.row ?? 0
  console.log(`attempt ${ctx.attempt} begins with row ${row}`)
  for (; row < ROWS; row += 1) {
    // The signal is aborted at the deadline; what follows is clean-up, within the grace period.
    if (ctx.signal.aborted) {
      await ctx.checkpoint({ row })
      throw ctx.signal.reason
    }
    imported.set(row, (imported.get(row) ?? 0) + 1)
    await pause(12)
  }
  return row
})
await worker.start()

const client = new Client({ url })
const job = await client.enqueue(importRows, [], { queue: 'import' })
const rows = await client.waitForResult(job, { timeout: '30s' })
const twice = [...imported.values()].filter((times) => times > 1).length
console.log(`${rows} rows imported, ${twice} of them twice`)

await worker.stop()
await client.close()
