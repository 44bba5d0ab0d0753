// Define a job, enqueue it, run it, wait for its result.
import { Client, defineJob, Worker } from '@curfew/sdk'

const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'

// Both sides import this: what is enqueued is what the handler gets.
const greet = defineJob('hello.greet', { limits: { timeout: '5s' } })

const worker = new Worker({ url })
worker.handle(greet, async (ctx, [name]) => {
  console.log(`attempt ${ctx.attempt}, ${ctx.remaining()} ms left`)
  return `Hello, ${name}!`
})
await worker.start()

const client = new Client({ url })
const job = await client.enqueue(greet, ['Ada'])
console.log(await client.waitForResult(job, { timeout: '10s' }))

await worker.stop()
await client.close()
