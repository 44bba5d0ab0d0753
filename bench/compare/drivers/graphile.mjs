// graphile-worker: one pool of workers in this process. `batching` takes the settings of its page on performance.
import { Logger, makeWorkerUtils, run } from 'graphile-worker'

const BATCHING = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
const logger = new Logger(() => () => {})

export async function open({ url, batching }) {
  const utils = await makeWorkerUtils({ connectionString: url, logger })
  await utils.migrate()
  return {
    enqueue: (argument) => utils.addJob('work', argument),
    enqueueMany: (inputs) => utils.addJobs(inputs.map((payload) => ({ identifier: 'work', payload }))),
    async work(concurrency, handle) {
      const runner = await run({
        noHandleSignals: true,
        taskList: { work: async () => handle() },
        preset: {
          worker: {
            connectionString: url,
            logger,
            concurrentJobs: concurrency,
            maxPoolSize: concurrency + 2,
            ...(batching ? BATCHING : {}),
          },
        },
      })
      return () => runner.stop()
    },
    close: () => utils.release(),
  }
}
