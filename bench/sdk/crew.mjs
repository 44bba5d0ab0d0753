// Workers in processes of their own, and when their handlers began and were stopped, however they tell it.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, defineJob } from '@curfew/sdk'
import { startModule } from '../lib/processes.mjs'

const wait = defineJob('bench.wait')
/** A try that is lost on the way counts as time, and does not end the measurement. */
const retry = { maxAttempts: 1_000, initialInterval: '100ms' }

/** `settings`: concurrency and isolation. */
export async function startWorker(port, queue, settings) {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-bench-'))
  const file = join(folder, 'lines')
  const url = `http://127.0.0.1:${port}`
  const child = startModule(new URL('./worker.mjs', import.meta.url), {
    SETTINGS: JSON.stringify({ url, queue, file, ...settings }),
  })
  await child.said(({ what }) => what === 'ready')
  return {
    ...child,
    file,
    /** When this happened to the job. */
    async at(what, id) {
      if (settings.isolation !== 'process') return (await child.said((line) => line.what === what && line.id === id)).at
      for (;;) {
        const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
        const found = lines.map((line) => JSON.parse(line)).find((line) => line.what === what && line.id === id)
        if (found !== undefined) return found.at
        await pause(5)
      }
    },
    async stop() {
      await child.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function startClient(port) {
  const client = new Client({ url: `http://127.0.0.1:${port}` })
  return {
    /** Answers the ids. `file` is where handlers in processes write. */
    enqueue: (queue, count, file = '') =>
      Promise.all(
        Array.from(
          { length: count },
          async () => (await client.enqueue(wait, [file], { queue, timeout: '10m', retry })).id,
        ),
      ),
    cancel: (id) => client.cancel(id),
    stop: () => client.close(),
  }
}
