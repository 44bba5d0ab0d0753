import { Worker } from '@curfew/sdk'

const { url, id, isolation } = JSON.parse(process.env.STEPS)
const module = new URL('./handler.mjs', import.meta.url)
const worker = new Worker({ url, id, concurrency: 1, queues: ['steps'] })
worker.handle('steps.work', { timeout: '30s', gracePeriod: '1s', isolation, module })
await worker.start()
process.stdout.write('ready\n')
