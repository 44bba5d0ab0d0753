/** The process tests run what is in dist, so it is built before the first of them, however vitest was started. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export function setup(): void {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { status } = spawnSync(process.execPath, [tsc, '-b', 'packages/server', 'packages/sdk'], {
    cwd: root,
    stdio: 'inherit',
  })
  if (status !== 0) throw new Error('The server or the SDK does not compile.')
}
