// Node 24 for the smoke run of the tests (tests/process/node24.test.ts): this Node, one that is installed, or else one that
// is fetched from the package registry, where it is a package. Only tests need it, so `npm start` never comes here.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../node_modules/.cache/curfew-node24', import.meta.url))
const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
const fetched = join(cache, 'node_modules', name, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')

/** Null where there is none. `CURFEW_NODE24` names one that lies elsewhere. */
export function node24Path() {
  const named = process.env.CURFEW_NODE24
  return [...(named ? [named] : []), process.execPath, ...ofVersionManagers(), fetched].find(isNode24) ?? null
}

/** Fetches one where that is possible, and says so where it is not. */
export function setupNode24() {
  if (node24Path() !== null) return
  console.log('Fetching Node 24 from the package registry for its smoke run: about 120 MB. This happens once.')
  mkdirSync(cache, { recursive: true })
  const args = [
    'install',
    '--prefix',
    cache,
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ]
  const shell = process.platform === 'win32'
  spawnSync('npm', [...args, '--loglevel=error', `${name}@24`], { stdio: 'ignore', shell, timeout: 300_000 })
  if (node24Path() === null)
    console.log(
      'No Node 24 was found: its smoke run (tests/process/node24.test.ts) is skipped. Name one with CURFEW_NODE24.',
    )
}

function ofVersionManagers() {
  const folder = join(process.env.NVM_DIR ?? join(homedir(), '.nvm'), 'versions', 'node')
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((version) => version.startsWith('v24.'))
    .map((version) => join(folder, version, 'bin', 'node'))
}

function isNode24(path) {
  if (path === process.execPath) return process.versions.node.startsWith('24.')
  if (!existsSync(path)) return false
  return spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout?.startsWith('v24.') === true
}
