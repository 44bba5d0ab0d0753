// npm run chaos: builds what is missing and runs the command (chaos/src/main.ts) in a network namespace of its own, so that
// nothing it starts can be reached from, or reach, another machine.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { build } from './build.mjs'
import { loopbackOnly } from './loopback.mjs'
import { root, setupOrExit } from './setup.mjs'

await setupOrExit()
if ((await build()) !== 0) process.exit(1)
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const compiled = spawnSync(process.execPath, [tsc, '-p', 'chaos/tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (compiled.status !== 0) process.exit(1)

const main = join(root, 'chaos', 'dist', 'chaos', 'src', 'main.js')
const [program, ...before] = loopbackOnly() ?? []
const words = [...before, process.execPath, main, ...process.argv.slice(2)]
const [first, ...rest] = program === undefined ? words : [program, ...words]
process.exit(spawnSync(first, rest, { cwd: root, stdio: 'inherit' }).status ?? 1)
