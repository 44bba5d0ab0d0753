// A chain with a group inside: count the sales of each region at once, then add them up. And the same under a budget it
// cannot keep: the workflow ends in time, and the handler that is still running is stopped with it.
import { setTimeout as pause } from 'node:timers/promises'
import { chain, Client, defineJob, entry, group, Worker, WorkflowFailedError } from '@curfew/sdk'

const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
const SALES = { north: [1, 2], south: [5], west: [2, 2] }

const count = defineJob('sales.count', { queue: 'sales' })
const report = defineJob('sales.report', { queue: 'sales' })
const slow = defineJob('sales.slow', { queue: 'sales' })

const worker = new Worker({ url, queues: ['sales'] })
worker.handle(count, (_, [region]) => ({ region, sum: SALES[region].reduce((a, b) => a + b) }))
worker.handle(report, (ctx) => {
  // What came before this step: of a group, an array.
  const [regions] = ctx.parentResults
  const total = regions.reduce((all, { sum }) => all + sum, 0)
  return `${regions.map(({ region, sum }) => `${region} ${sum}`).join(', ')}: ${total} in all`
})
let stopped = ''
worker.handle(slow, async (ctx) => {
  try {
    await pause(60_000, null, { signal: ctx.signal })
  } catch {
    stopped = ctx.signal.reason.code
    throw ctx.signal.reason
  }
})
await worker.start()

const client = new Client({ url })
const regions = Object.keys(SALES).map((region) => entry(count, [region]))
const sales = await client.workflows.create(chain([group(regions), entry(report, [])], { name: 'sales' }))
const done = await client.workflows.wait(sales, { timeout: '30s' })
console.log(done.steps.at(-1).result)

const late = await client.workflows.create(chain([entry(slow, []), entry(report, [])]), { workflowTimeout: '500ms' })
try {
  await client.workflows.wait(late, { timeout: '30s' })
} catch (error) {
  if (!(error instanceof WorkflowFailedError)) throw error
  while (stopped === '') await pause(10)
  console.log(
    `${error.state}: ${error.code} after ${error.error.elapsed_seconds} s; the slow step was stopped: ${stopped}`,
  )
}

await worker.stop()
await client.close()
