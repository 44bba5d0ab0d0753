// Builds the board into packages/server/dist/board: hashed names, each file also compressed. Nothing is done when no
// source has changed since; that costs a few milliseconds, so `npm start` stays fast.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { root } from './setup.mjs'

const SOURCE = join(root, 'packages', 'board')
const OUT = join(root, 'packages', 'server', 'dist', 'board')
const STAMP = join(OUT, 'built-from.txt')

/** Answers 0, or 1 where it failed; errors go to the terminal. */
export async function buildBoard() {
  const stamp = stampOf()
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === stamp) return 0
  try {
    const { build } = await import('vite')
    await build(options())
    compress()
    writeFileSync(STAMP, stamp)
    return 0
  } catch (error) {
    console.error(error)
    return 1
  }
}

function options() {
  return {
    root: SOURCE,
    configFile: false,
    // Relative, so that the board works behind any prefix.
    base: './',
    logLevel: 'warn',
    resolve: { conditions: ['curfew-source', 'module', 'browser', 'import', 'default'] },
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir: OUT,
      emptyOutDir: true,
      assetsDir: 'board',
      target: 'es2023',
      // A preload helper would be one more script; the few chunks are small.
      modulePreload: false,
      cssCodeSplit: false,
      assetsInlineLimit: 0,
    },
  }
}

/** Each file gets a copy that is sent as it is to browsers that take it. */
function compress() {
  const dir = join(OUT, 'board')
  for (const name of readdirSync(dir)) {
    writeFileSync(join(dir, `${name}.gz`), gzipSync(readFileSync(join(dir, name)), { level: 9 }))
  }
}

/** Of everything the board is made from: names, and what is in them. */
function stampOf() {
  const hash = createHash('sha256')
  const places = [SOURCE, join(root, 'packages', 'core', 'src')].flatMap((place) => filesIn(place))
  for (const path of [...places, join(root, 'scripts', 'build-board.mjs'), join(root, 'package-lock.json')])
    hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

function filesIn(place) {
  return readdirSync(place)
    .filter((name) => name !== 'node_modules' && name !== 'dist' && !name.includes('.test.'))
    .sort()
    .map((name) => join(place, name))
    .flatMap((path) => (statSync(path).isDirectory() ? filesIn(path) : [path]))
}
