// How long does a busy process isolate outlive a worker that was killed with -9?
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeHost } from '../../packages/sdk/dist/host.js'
import { quantile, row } from '../lib/report.mjs'
import { Owner } from './owner.mjs'

export const name = 'From kill -9 of the worker to the last instruction of its process isolate'

export async function run({ quick }) {
  const count = quick ? 5 : 50
  const last = []
  for (let n = 0; n < count; n += 1) last.push(await oneKill())
  last.sort((a, b) => a - b)
  return {
    name,
    question: `${count} times: a process that holds one busy process isolate is killed; its isolate must end without it.`,
    rows: [
      row('p50', 'ms', [quantile(last, 0.5)]),
      row('p99', 'ms', [quantile(last, 0.99)]),
      row('most', 'ms', [quantile(last, 1)]),
    ],
  }
}

async function oneKill() {
  const folder = mkdtempSync(join(tmpdir(), 'curfew-bench-'))
  const path = join(folder, 'mark')
  writeFileSync(path, new Uint8Array(8))
  const worker = spawn(process.execPath, [fileURLToPath(import.meta.url), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(worker.stdout, 'data')
  const killedAt = nodeHost.monotonicMs()
  worker.kill('SIGKILL')
  const mark = await settled(path)
  rmSync(folder, { recursive: true })
  return mark - killedAt
}

/** The last mark: when none newer has come for a while. */
async function settled(path) {
  for (let before = null; ;) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    const mark = Number(new BigUint64Array(new Uint8Array(readFileSync(path)).buffer)[0]) / 1e6
    if (mark === before) return mark
    before = mark
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { called } = new Owner().run('process', 'markFile', [process.argv[2]])
  await called
  process.stdout.write('running\n')
}
