// BullMQ: one queue, one worker with `concurrency`, finished jobs removed. Queue and worker have connections of their own.
import { Queue, Worker } from 'bullmq'

export async function open({ port, queue: name }) {
  const connection = { host: '127.0.0.1', port }
  const queue = new Queue(name, { connection })
  await queue.waitUntilReady()
  return {
    enqueue: (argument) => queue.add('work', argument),
    enqueueMany: (inputs) => queue.addBulk(inputs.map((data) => ({ name: 'work', data }))),
    async work(concurrency, handle) {
      const worker = new Worker(name, async () => handle(), {
        connection,
        concurrency,
        removeOnComplete: { count: 0 },
        removeOnFail: { count: 0 },
      })
      worker.on('error', (error) => console.error(error))
      await worker.waitUntilReady()
      return () => worker.close()
    },
    close: () => queue.close(),
  }
}
