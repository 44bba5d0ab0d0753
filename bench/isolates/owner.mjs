// Holds isolates in a thread that runs nothing else, as a worker does, and measures there.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isMainThread, parentPort, setEnvironmentData, Worker, workerData } from 'node:worker_threads'
import { nodeHost } from '../../packages/sdk/dist/host.js'
import { Isolates } from '../../packages/sdk/dist/isolate/isolates.js'

const now = () => nodeHost.monotonicMs()
const log = { debug() {}, info() {}, warn: console.error, error: console.error }
/** Kills come with every length of notice that a handler has after its signal; this one is short. */
const NOTICE_MS = 150

/** Runs one of the functions below in a thread of its own. */
export function inOwner(name, args) {
  return new Promise((resolve, reject) => {
    const owner = new Worker(new URL(import.meta.url), { workerData: { name, args } })
    owner.once('message', resolve)
    owner.once('error', reject)
  })
}

export class Owner {
  #ended = new Map()
  #called = new Map()
  #keys = 0

  constructor(most = 1) {
    this.isolates = new Isolates({
      host: nodeHost,
      most,
      log,
      onCall: (key, id) => {
        this.isolates.reply(key, id, { ok: true, value: null })
        this.#called.get(key)?.()
      },
      onStack() {},
      onEnded: (key, ending) => {
        this.#ended.get(key)?.(ending)
        this.#ended.delete(key)
        this.#called.delete(key)
      },
    })
  }

  /** `called`: its first call was heard. `ended`: how it ended. */
  run(isolation, exportName, args = []) {
    const key = `task-${(this.#keys += 1)}`
    const called = new Promise((resolve) => this.#called.set(key, resolve))
    const ended = new Promise((resolve) => this.#ended.set(key, resolve))
    const softAt = now() + 600_000
    this.isolates.run({
      key,
      isolation,
      module: new URL('./handlers.mjs', import.meta.url).href,
      exportName,
      memoryMb: null,
      serverEndsAt: Infinity,
      facts: {
        jobId: key,
        type: 'bench.job',
        queue: 'default',
        attempt: 1,
        maxAttempts: null,
        args,
        meta: {},
        lastCheckpoint: null,
        softAt,
        softStop: { why: 'deadline', kind: 'execution', limitMs: 600_000, source: 'bench' },
        hardAt: softAt,
      },
    })
    return { key, called, ended }
  }
}

const measurements = {
  /** For each kill: how late the last mark, the told end, and a bare timer for the same instant were. */
  async kills({ isolation, count }) {
    const folder = mkdtempSync(join(tmpdir(), 'curfew-bench-'))
    const path = join(folder, 'mark')
    const memory = new BigUint64Array(new SharedArrayBuffer(8))
    setEnvironmentData('marks', memory.buffer)
    const owner = new Owner()
    const figures = { last: [], told: [], timer: [], stacks: 0 }
    for (let n = 0; n < count; n += 1) {
      writeFileSync(path, new Uint8Array(8))
      const { key, called, ended } =
        isolation === 'thread' ? owner.run('thread', 'markMemory') : owner.run('process', 'markFile', [path])
      await called
      const killAt = now() + NOTICE_MS
      const fired = new Promise((resolve) => setTimeout(() => resolve(now()), Math.ceil(killAt - now())))
      owner.isolates.stop(key, { why: 'cancelled' }, killAt)
      const { stack } = await ended
      const told = now()
      const mark = isolation === 'thread' ? memory[0] : new BigUint64Array(new Uint8Array(readFileSync(path)).buffer)[0]
      figures.last.push(Number(mark) / 1e6 - killAt)
      figures.told.push(told - killAt)
      figures.timer.push((await fired) - killAt)
      if (stack?.some((frame) => frame.includes('Forever'))) figures.stacks += 1
    }
    await owner.isolates.close()
    rmSync(folder, { recursive: true })
    return figures
  },

  /** ms from `run` to the told end of a first attempt in a new isolate, and µs an attempt in a warm one. */
  async attempts({ isolation, cold, warm, rounds }) {
    const starts = []
    for (let n = 0; n < cold; n += 1) {
      const owner = new Owner()
      const began = now()
      await owner.run(isolation, 'empty').ended
      starts.push(now() - began)
      await owner.isolates.close()
    }
    const owner = new Owner()
    await owner.run(isolation, 'empty').ended
    const costs = []
    for (let round = 0; round < rounds; round += 1) {
      const began = now()
      for (let n = 0; n < warm; n += 1) await owner.run(isolation, 'empty').ended
      costs.push(((now() - began) / warm) * 1_000)
    }
    await owner.isolates.close()
    return { starts, costs }
  },
}

if (!isMainThread && workerData?.name in measurements)
  parentPort.postMessage(await measurements[workerData.name](workerData.args))
