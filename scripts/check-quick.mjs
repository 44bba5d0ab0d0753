// npm run check:quick: format, lint and unit tests of what changed, and the types of everything. For use while working;
// `npm test` has the last word.
//
//   npm run check:quick               what differs from HEAD, and files that git does not know yet
//   npm run check:quick -- main       what differs from that commit or branch
//
// The unit tests of a source file are those beside it (foo.ts, foo.test.ts). A change that other files feel needs `npm test`.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root, setupOrExit } from './setup.mjs'
import { sideBySide, TYPES } from './side-by-side.mjs'

await setupOrExit()
const began = performance.now()
const changed = changedFiles(process.argv[2] ?? 'HEAD')
if (changed.length === 0) {
  console.log('Nothing changed.')
  process.exit(0)
}
const code = changed.filter((path) => /\.(ts|mjs|js)$/.test(path))
const tests = testsOf(changed)
console.log(`${changed.length} changed files, ${tests.length} unit test files.`)

const parts = [
  [
    'Format (prettier)',
    [['prettier/bin/prettier.cjs', '--check', '--ignore-unknown', '--log-level', 'warn', ...changed]],
  ],
]
if (code.length > 0) {
  parts.push(['Lint (eslint)', [['eslint/bin/eslint.js', '--max-warnings', '0', '--no-warn-ignored', ...code]]])
  parts.push(['Types (tsc)', TYPES])
}
const failures = await sideBySide(...parts)
if (tests.length > 0) {
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const { status } = spawnSync(process.execPath, [vitest, 'run', '--project', 'unit', ...tests], {
    cwd: root,
    stdio: 'inherit',
  })
  if (status !== 0) failures.push('Tests (vitest)')
}
const seconds = ((performance.now() - began) / 1000).toFixed(0)
console.log(failures.length === 0 ? `\nok, ${seconds} s` : `\nFailed: ${failures.join(', ')}; ${seconds} s`)
process.exit(failures.length === 0 ? 0 : 1)

function changedFiles(since) {
  const tracked = git('diff', '--name-only', '--diff-filter=d', since)
  const untracked = git('ls-files', '--others', '--exclude-standard')
  return [...new Set([...tracked, ...untracked])].filter((path) => existsSync(join(root, path)))
}

function git(...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  if (status === 0) return stdout.split('\n').filter((line) => line !== '')
  console.error(stderr.trim())
  process.exit(1)
}

/** Unit tests lie beside their file, in tests/*.test.ts and in tests/scenarios; the other projects need a build. */
function testsOf(paths) {
  const beside = paths.map((path) => path.replace(/(\.test)?\.ts$/, '.test.ts'))
  const isUnit = (path) => /^(packages|chaos|bench)\/|^tests\/(scenarios|costs|conformance)\/|^tests\/[^/]+$/.test(path)
  return [...new Set(beside)].filter(
    (path) => path.endsWith('.test.ts') && isUnit(path) && existsSync(join(root, path)),
  )
}
