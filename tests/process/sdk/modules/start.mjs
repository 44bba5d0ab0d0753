// Starts a worker for each module and isolation that was asked for, and writes down how the start ended.
import { Worker } from '@curfew/sdk'

const { url, cases } = JSON.parse(process.env.CASES)
const log = { debug() {}, info() {}, warn() {}, error() {} }

const outcomes = await Promise.all(
  cases.map(async ({ isolation, module, exportName }, index) => {
    const worker = new Worker({ url, log, queues: [`modules-${index}`] })
    worker.handle('test.job', { isolation, module: new URL(module, import.meta.url), exportName })
    try {
      await worker.start()
    } catch (error) {
      return { started: false, message: error.message }
    }
    await worker.stop()
    return { started: true, message: '' }
  }),
)
process.stdout.write(`${JSON.stringify(outcomes)}\n`)
process.exit(0)
