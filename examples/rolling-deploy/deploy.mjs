// Old workers are quieted, new ones take over, the old ones are ended when they are done; jobs keep coming meanwhile.
// In the end every job has run exactly once.
import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, defineJob } from '@curfew/sdk'

const url = process.env.CURFEW_URL ?? 'http://127.0.0.1:8080'
const folder = mkdtempSync(join(tmpdir(), 'curfew-deploy-'))
const done = join(folder, 'done')
const work = defineJob('deploy.work')
const client = new Client({ url })

function startWorker(version) {
  const script = fileURLToPath(new URL('./worker.mjs', import.meta.url))
  const child = fork(script, { env: { ...process.env, CURFEW_URL: url, VERSION: version, DONE: done } })
  const exited = new Promise((resolve) => child.on('exit', (code) => resolve(code)))
  return new Promise((resolve) => child.once('message', ({ ready }) => resolve({ id: ready, exited })))
}

const jobs = []
let deployed = false
async function keepEnqueueing() {
  while (!deployed || jobs.length < 200) {
    jobs.push(
      ...(await Promise.all([0, 1, 2].map((n) => client.enqueue(work, [jobs.length + n], { queue: 'deploy' })))),
    )
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

const old = await Promise.all([startWorker('v1'), startWorker('v1')])
const enqueueing = keepEnqueueing()
await new Promise((resolve) => setTimeout(resolve, 700))

for (const { id } of old) await client.workers.quiet(id) // phase one: take nothing new
const fresh = await Promise.all([startWorker('v2'), startWorker('v2')])
for (const { id } of old) await client.workers.terminate(id) // phase two: finish, and leave
console.log(`the old workers left with ${(await Promise.all(old.map(({ exited }) => exited))).join(' and ')}`)
deployed = true

await enqueueing
for (const job of jobs) await client.waitForResult(job, { timeout: '30s' })
for (const { id } of fresh) await client.workers.terminate(id)
await Promise.all(fresh.map(({ exited }) => exited))

const lines = readFileSync(done, 'utf8').trim().split('\n')
const numbers = new Set(lines.map((line) => line.split(' ')[0]))
const versions = [...new Set(lines.map((line) => line.split(' ')[1]))].sort()
console.log(
  `${jobs.length - numbers.size} lost, ${lines.length - numbers.size} doubled; run by ${versions.join(' and ')}`,
)
rmSync(folder, { recursive: true })
await client.close()
