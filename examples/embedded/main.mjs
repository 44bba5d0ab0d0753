// Server, client and worker in one process, without a socket: for an application that wants jobs and no service to run.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openServer } from 'curfew'
import { Client, defineJob, Worker } from '@curfew/sdk'

const data = mkdtempSync(join(tmpdir(), 'curfew-embedded-')) // an application would keep it
const server = await openServer({ data })

const square = defineJob('math.square', { limits: { timeout: '1s' } })
const worker = new Worker({ server })
worker.handle(square, (_ctx, [n]) => n * n)
await worker.start()

const client = new Client({ server })
const jobs = await Promise.all([1, 2, 3, 4].map((n) => client.enqueue(square, [n])))
const results = await Promise.all(jobs.map((job) => client.waitForResult(job)))
console.log(results.join(' '))

await worker.stop()
await client.close()
await server.close()
rmSync(data, { recursive: true })
