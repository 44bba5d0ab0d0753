// Compiles core, the server and the SDK, and bundles the board into the server. Both look at what changed; when nothing
// did, this takes about a second.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildBoard } from './build-board.mjs'
import { root } from './setup.mjs'

/** Answers 0, or the code of what failed; errors go to the terminal. */
export async function build() {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const args = [tsc, '-b', 'packages/server', 'packages/sdk']
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' })
  const compiled = await new Promise((resolve) => {
    child.on('error', () => resolve(1))
    child.on('close', (code) => resolve(code ?? 1))
  })
  if (compiled !== 0) return compiled
  for (const name of ['core', 'sdk', 'server']) removeStale(join(root, 'packages', name))
  return buildBoard()
}

/** The compiler leaves what it made of a source that was since renamed or removed; it would be packed and published. */
function removeStale(folder) {
  const [dist, src] = [join(folder, 'dist'), join(folder, 'src')]
  for (const path of readdirSync(dist, { recursive: true })) {
    const [, source] = /^(.*)\.(?:js|js\.map|d\.ts)$/.exec(path) ?? []
    if (source === undefined || path.startsWith(`board${sep}`)) continue
    if (!existsSync(join(src, `${source}.ts`))) rmSync(join(dist, path))
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(await build())
