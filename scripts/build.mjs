// Compiles core, then the server and the SDK. tsc -b looks at what changed; when nothing did, this takes about a second.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from './setup.mjs'

/** Answers tsc's exit code; its errors go to the terminal. */
export function build() {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  return (
    spawnSync(process.execPath, [tsc, '-b', 'packages/server', 'packages/sdk'], { cwd: root, stdio: 'inherit' })
      .status ?? 1
  )
}
