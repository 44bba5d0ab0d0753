/** The short form of `npm run chaos`, on each store. SEED and CHAOS_MINUTES make it another one, or longer. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { runNode, temporaryDirectory, within } from '../process/server-process.ts'

const MINUTES = process.env['CHAOS_MINUTES'] ?? '0.4'
const SEED = process.env['SEED'] ?? '1'
const BOUND_MS = Number(MINUTES) * 60_000 + 150_000
const root = fileURLToPath(new URL('../..', import.meta.url))

beforeAll(() => {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  expect(
    spawnSync(process.execPath, [tsc, '-p', 'chaos/tsconfig.build.json'], { cwd: root, stdio: 'inherit' }).status,
  ).toBe(0)
})

test.each(['sqlite', 'postgres'])(
  'no promise is broken while servers, workers, links and the store fail (%s)',
  { timeout: BOUND_MS + 10_000 },
  async (store) => {
    const main = join(root, 'chaos', 'dist', 'chaos', 'src', 'main.js')
    const out = temporaryDirectory()
    const args = ['--store', store, '--minutes', MINUTES, '--seed', SEED, '--out', out]
    const command = runNode([main, ...args])
    const { code } = await within('the command ends', command.exited, BOUND_MS)
    console.log(command.output.stdout)
    expect(command.output.stdout).toContain('no violation of 14 promises')
    expect(command.output.stdout).toMatch(/kills: [1-9]/)
    expect(code, command.output.stderr).toBe(0)
  },
)
