/** The files that the documents about the code name are there, and commands do not reach the whole engine by their imports. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { isDoc, isSource, isTest, vagueWords } from '../scripts/figures.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const FOLDERS: Readonly<Record<string, string>> = {
  core: 'packages/core/src',
  sdk: 'packages/sdk/src',
  ...Object.fromEntries(['engine', 'http', 'store', 'net'].map((name) => [name, `packages/server/src/${name}`])),
}
const MENTION = /`(core|sdk|engine|http|store|net)\/([\w./-]+\.ts)`/g

function named(file: string): string[] {
  const text = readFileSync(`${root}/${file}`, 'utf8')
  return [...text.matchAll(MENTION)].map(([, folder = '', path = '']) => `${FOLDERS[folder] ?? ''}/${path}`)
}

test.each(['ARCHITECTURE.md', 'docs/internals.md'])('every file that %s names is there', (file) => {
  const files = named(file)
  expect(files.length).toBeGreaterThan(5)
  expect(files.filter((path) => !existsSync(`${root}/${path}`))).toEqual([])
})

test('the paths of an enqueue, an ack, an expiry and a call of a journey can be followed from file to file', () => {
  const [, ack = '', time = '', call = ''] = readFileSync(`${root}/ARCHITECTURE.md`, 'utf8').split('\n## The path of ')
  for (const path of [ack, time, call]) expect(path.match(MENTION)?.length ?? 0).toBeGreaterThanOrEqual(5)
})

const RELATIVE_IMPORT = /^(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'/gm

/**
 * How many files of the server a reader may have to open: the file itself, and every file of `packages/server/src` that it
 * reaches over any number of relative imports. Imports of types count too: a reader follows them as any other.
 */
function reachedFrom(file: string): string[] {
  const reached = new Set<string>()
  const open = [resolve(root, 'packages/server/src', file)]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    for (const [, to = ''] of readFileSync(path, 'utf8').matchAll(RELATIVE_IMPORT))
      open.push(resolve(dirname(path), to))
  }
  return [...reached]
}

test.each(['engine/jobs/reports.ts', 'engine/jobs/cancel.ts', 'engine/jobs/patch.ts'])(
  'the commands in %s reach fewer than 20 files by imports',
  (file) => {
    const reached = reachedFrom(file)
    expect(reached.some((path) => path.endsWith('/engine/kernel/command.ts'))).toBe(true)
    expect(reached.length, reached.join('\n')).toBeLessThan(20)
  },
)

test('commands do not import the engine that puts all features together', () => {
  expect(reachedFrom('engine/engine.ts').length).toBeGreaterThan(60)
  for (const file of ['engine/jobs/enqueue.ts', 'engine/jobs/fetch.ts', 'engine/journeys/runs.ts'])
    expect(reachedFrom(file).filter((path) => path.endsWith('/engine/engine.ts'))).toEqual([])
})

/** Every relative import that is followed at the start; one of types is not, and `await import()` only when it is reached. */
const LOADED_IMPORT = /^(?:import|export)\s(?!type\s)[^'"]*?from\s+'([^']+)'/gm

function loadedBy(file: string): Set<string> {
  const loaded = new Set<string>()
  const open = [resolve(root, 'packages/server/src', file)]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (loaded.has(path)) continue
    loaded.add(path)
    if (!path.endsWith('.ts')) continue
    for (const [, to = ''] of readFileSync(path, 'utf8').matchAll(LOADED_IMPORT))
      open.push(to.startsWith('.') ? resolve(dirname(path), to) : to)
  }
  return loaded
}

test('a command that only calls a server starts without the server, a store, a log or expressions', () => {
  const loaded = [...loadedBy('cli/main.ts')].map((path) => path.replace(`${root}packages/server/src/`, ''))
  expect(loaded).toContain('cli/operate/jobs.ts')
  const packages = [
    'pino',
    'pino-pretty',
    'pg',
    'undici',
    'jsonata',
    'prom-client',
    're2js',
    'croner',
    'better-sqlite3',
  ]
  const heavy = new RegExp(`^(server|open-store)\\.ts$|^(store|http|expressions|net)/|^(${packages.join('|')})$`)
  expect(loaded.filter((path) => heavy.test(path))).toEqual([])
  expect([...loadedBy('cli/serve-process.ts')].some((path) => path.endsWith('/src/server.ts'))).toBe(true)
})

test.runIf(existsSync(`${root}/.git`))(
  'source, tests and docs name their subject: none of the vague words that npm run figures counts',
  () => {
    const files = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0')
    const read = files.filter(
      (path) => (isSource(path) || isTest(path) || isDoc(path)) && existsSync(`${root}/${path}`),
    )
    expect(read.length).toBeGreaterThan(500)
    const found = read.map((path) => `${path}: ${vagueWords(readFileSync(`${root}/${path}`, 'utf8')).join(', ')}`)
    expect(found.filter((line) => !line.endsWith(': '))).toEqual([])
  },
)
