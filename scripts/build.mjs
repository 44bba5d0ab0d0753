// Compiles core, the server and the SDK, and bundles the board into the server. Both look at what changed; when nothing
// did, this takes about a second.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildBoard } from './build-board.mjs'
import { root } from './setup.mjs'

/** Answers 0, or the code of what failed; errors go to the terminal. */
export async function build() {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const compiled =
    spawnSync(process.execPath, [tsc, '-b', 'packages/server', 'packages/sdk'], { cwd: root, stdio: 'inherit' })
      .status ?? 1
  return compiled === 0 ? buildBoard() : compiled
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(await build())
