// pg-boss: one worker whose handler gets up to `concurrency` jobs at once (batchSize). It polls twice a second, which is
// the shortest interval it takes; after a full batch the handler asks for the next one at once (notifyWorker).
import PgBoss from 'pg-boss'

const POLL_MS = 500

export async function open({ url, queue }) {
  const boss = new PgBoss({ connectionString: url })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  await boss.createQueue(queue)
  return {
    pollMs: POLL_MS,
    enqueue: (argument) => boss.send(queue, argument),
    enqueueMany: (inputs) => boss.insert(inputs.map((data) => ({ name: queue, data }))),
    async work(concurrency, handle) {
      let id = null
      id = await boss.work(queue, { batchSize: concurrency, pollingIntervalSeconds: POLL_MS / 1000 }, async (jobs) => {
        for (let n = 0; n < jobs.length; n += 1) handle()
        if (jobs.length === concurrency && id !== null) boss.notifyWorker(id)
      })
      return () => boss.offWork({ id })
    },
    close: () => boss.stop({ graceful: true, wait: true }),
  }
}
