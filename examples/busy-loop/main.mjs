// A handler that never yields cannot be asked to stop. In a thread or a process of its own it is killed at its deadline,
// and the failure says where it was stuck.
import { Client, defineJob, JobFailedError, Worker } from '@curfew/sdk'

const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
const module = new URL('./spin.ts', import.meta.url)
const limits = { timeout: '4s', gracePeriod: '3s', onTimeout: 'discard' }

const worker = new Worker({ url, queues: ['busy'] })
const client = new Client({ url })
for (const isolation of ['thread', 'process']) {
  worker.handle(`busy.${isolation}`, { module, exportName: 'spinForever', isolation, ...limits })
}
await worker.start()

for (const isolation of ['thread', 'process']) {
  const began = performance.now()
  const job = await client.enqueue(defineJob(`busy.${isolation}`), [], { queue: 'busy' })
  try {
    await client.waitForResult(job, { timeout: '10s' })
  } catch (error) {
    if (!(error instanceof JobFailedError)) throw error
    const where = error.error?.backtrace?.find((line) => line.includes('spinForever'))
    console.log(`${isolation}: ${error.code} after ${Math.round(performance.now() - began)} ms, stuck ${where?.trim()}`)
  }
}

await worker.stop()
await client.close()
