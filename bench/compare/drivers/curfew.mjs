// Curfew through its SDK. `settings.sdk` names the built module, so that another checkout can be measured.
const log = { debug() {}, info() {}, warn() {}, error() {} }

/** `limits`: enqueue options that every job gets. */
export async function open({ sdk, port, queue, limits = {} }) {
  const { Client, defineJob, Worker } = await import(sdk)
  const job = defineJob('bench.compare')
  const url = `http://127.0.0.1:${port}`
  const client = new Client({ url })
  const options = { queue, ...limits }
  return {
    enqueue: (argument) => client.enqueue(job, [argument], options),
    enqueueMany: (inputs) =>
      client.enqueueMany(
        job,
        inputs.map((argument) => [argument]),
        options,
      ),
    async work(concurrency, handle) {
      const worker = new Worker({ url, log, queues: [queue], concurrency })
      worker.handle(job, async () => handle())
      await worker.start()
      return () => worker.stop()
    },
    close: () => client.close(),
  }
}
