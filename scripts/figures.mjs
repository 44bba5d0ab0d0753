// npm run figures: how the source is shaped. Lines per folder, the largest files, what a command reaches by its imports, and
// how often a text uses the vague words that CONTRIBUTING.md asks to avoid.
//
//   npm run figures               of HEAD
//   npm run figures -- v0.4.0     of HEAD, beside that commit, tag or branch
//
// Everything is read from git's objects: no file of the work tree is read or changed.
import { spawnSync } from 'node:child_process'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const LARGEST = 15

/** "is no X" counts where "is not an X" would say it: not "there is no", not "is no longer". */
const WORDS =
  /\b(?:somebody|nobody|whoever|those who|what comes|is told)\b|(?<!\bthere )\bis no (?!longer\b|more\b|less\b|fewer\b|\w+er\b)/gi

/** The commands whose imports are followed, each with the files it has been in. */
const COMMANDS = {
  ack: ['packages/server/src/engine/jobs/reports.ts', 'packages/server/src/engine/reports.ts'],
  cancel: ['packages/server/src/engine/jobs/cancel.ts', 'packages/server/src/engine/cancel.ts'],
  patch: ['packages/server/src/engine/jobs/patch.ts', 'packages/server/src/engine/patch.ts'],
}

export const isSource = (path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path) && !isTest(path)
export const isTest = (path) => /\.(test|test-d|suite)\.tsx?$/.test(path)
export const isDoc = (path) => /\.md$/.test(path) && !/^(bench\/results|examples|tests)\//.test(path)
const linesIn = (text) => text.split('\n').length - (text.endsWith('\n') ? 1 : 0)

// ---- One commit ----

/** Every source file and page of a commit, as a map from path to text. */
export function filesOf(commit) {
  const listed = git(['ls-tree', '-r', '-z', commit]).toString('utf8').split('\0')
  const entries = listed.flatMap((line) => {
    const [head = '', path = ''] = line.split('\t')
    return isSource(path) || isTest(path) || isDoc(path) ? [{ path, object: head.split(' ')[2] }] : []
  })
  const answer = git(['cat-file', '--batch'], entries.map(({ object }) => `${object}\n`).join(''))
  const files = new Map()
  let at = 0
  for (const { path } of entries) {
    const end = answer.indexOf(10, at)
    const size = Number(answer.toString('latin1', at, end).split(' ')[2])
    files.set(path, answer.toString('utf8', end + 1, end + 1 + size))
    at = end + 1 + size + 1
  }
  return files
}

export function figuresOf(files) {
  const source = [...files].filter(([path]) => isSource(path))
  const folders = new Map()
  for (const [path, text] of source) {
    const folder = path.split('/').slice(0, -1).slice(0, 5).join('/')
    const known = folders.get(folder) ?? { files: 0, lines: 0 }
    folders.set(folder, { files: known.files + 1, lines: known.lines + linesIn(text) })
  }
  const sizes = source.map(([path, text]) => ({ path, lines: linesIn(text) })).sort((a, b) => b.lines - a.lines)
  const tests = [...files].filter(([path]) => isTest(path))
  const docs = [...files].filter(([path]) => isDoc(path))
  return {
    folders,
    largest: sizes.slice(0, LARGEST),
    over400: sizes.filter(({ lines }) => lines > 400).length,
    total: { files: source.length, lines: sum(sizes.map(({ lines }) => lines)) },
    tests: { files: tests.length, lines: sum(tests.map(([, text]) => linesIn(text))) },
    reach: Object.fromEntries(Object.entries(COMMANDS).map(([name, paths]) => [name, reachOf(files, paths)])),
    words: { source: wordsIn(source), tests: wordsIn(tests), docs: wordsIn(docs) },
  }
}

/** How many files of the server a command needs at run time, itself included; null: the commit has no such command. */
export function reachOf(files, paths) {
  const first = paths.find((path) => files.has(path))
  if (first === undefined) return null
  const reached = new Set([first])
  for (const path of reached)
    for (const next of importsOf(files.get(path), path)) if (files.has(next)) reached.add(next)
  return reached.size
}

/** Relative imports that are there at run time: `import type` and imports of nothing but types are not. */
export function importsOf(text, path) {
  const found = text.matchAll(/^(?:import|export)\s+(?!type\b)(?:([^'";]*?)\s+from\s+)?'(\.[^']+)'/gm)
  return [...found].flatMap(([, names, target]) =>
    isOnlyTypes(names ?? '') ? [] : [posix.join(posix.dirname(path), target)],
  )
}

function isOnlyTypes(names) {
  const listed = /^\{([^}]*)\}$/
    .exec(names.trim())?.[1]
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean)
  return listed !== undefined && listed.length > 0 && listed.every((name) => name.startsWith('type '))
}

/** How often the texts have vague words; `files` are pairs of path and text. */
export function wordsIn(files) {
  return sum(files.map(([, text]) => vagueWords(text).length))
}

/**
 * The vague words of a text. A phrase may be broken over two lines of a comment.
 *
 * @param {string} text
 * @returns {string[]}
 */
export function vagueWords(text) {
  return text.replace(/\n\s*(?:\*|\/\/|--)?\s*/g, ' ').match(WORDS) ?? []
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)

function git(args, input) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, input, maxBuffer: 1 << 30 })
  if (status === 0) return stdout
  console.error(stderr.toString('utf8').trim())
  process.exit(1)
}

// ---- Printing ----

function print(commits) {
  const all = commits.map((commit) => figuresOf(filesOf(commit)))
  const row = (name, values) => console.log(`${name.padEnd(46)}${values.map((value) => value.padStart(22)).join('')}`)
  const each = (name, pick) =>
    row(
      name,
      all.map((figures) => pick(figures)),
    )
  const count = ({ files, lines }) => `${String(files)} files ${String(lines).padStart(6)}`
  row('', commits)
  console.log('\nFiles and lines, without tests')
  const names = new Set(all.flatMap(({ folders }) => [...folders.keys()]))
  for (const name of [...names].sort())
    each(name.replace(/^packages\//, ''), ({ folders }) => (folders.has(name) ? count(folders.get(name)) : '–'))
  each('all', ({ total }) => count(total))
  each('tests beside them and in tests/', ({ tests }) => count(tests))
  console.log('\nFiles that a command needs at run time')
  for (const name of Object.keys(COMMANDS)) each(name, ({ reach }) => String(reach[name] ?? '–'))
  console.log('\nVague words (somebody, nobody, whoever, those who, what comes, is told, is no …)')
  for (const part of ['source', 'tests', 'docs']) each(part, ({ words }) => String(words[part]))
  console.log('')
  each('Files with more than 400 lines', ({ over400 }) => String(over400))
  commits.forEach((commit, index) => {
    console.log(`\nLargest files of ${commit}`)
    for (const { path, lines } of all[index].largest) console.log(`${String(lines).padStart(6)}  ${path}`)
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) print(['HEAD', ...process.argv.slice(2, 3)])
