// npm run bench -- sizes [--against DIR]
//
// What does an install weigh, and what does a browser load first? The packages as npm would pack them, what they bring along
// from others, and the files of the board. `--against DIR` puts another checkout that was built beside this one, such as
// one from before the board. Nothing is timed, so it may run beside other work. Recorded in bench/results when compared.
import { Buffer } from 'node:buffer'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HERE } from './lib/processes.mjs'

const RECORD = fileURLToPath(new URL('results/sizes-latest.md', import.meta.url))
const PACKAGES = [
  ['curfew', 'packages/server'],
  ['@curfew/core', 'packages/core'],
  ['@curfew/sdk', 'packages/sdk'],
]

export function run(args) {
  const place = args.indexOf('--against')
  const roots = place < 0 ? [HERE] : [args[place + 1] ?? '', HERE]
  const all = roots.map(sizesOf)
  const text = report(roots.map(commitOf), all)
  console.log(text)
  if (place >= 0) writeFileSync(RECORD, text)
}

/** Rows of a name and bytes; null: there is none. */
function sizesOf(root) {
  const packed = PACKAGES.map(([name, folder]) => [name, packOf(join(root, folder))])
  const rows = packed.map(([name, { size, unpackedSize }]) => [`${name}, packed / installed`, [size, unpackedSize]])
  const others = dependenciesOf(root)
  rows.push([`${String(others.size)} packages of others, installed`, [sum([...others].map((path) => bytesIn(path)))]])
  const board = boardOf(root)
  rows.push(['first load of the board, compressed', board && [board.first]])
  rows.push(['the whole board, compressed / installed', board && [board.all, board.installed]])
  return rows
}

function packOf(folder) {
  const { stdout, status, stderr } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`npm pack in ${folder}: ${stderr}`)
  return JSON.parse(stdout)[0]
}

/** Folders of everything that an install of the server brings along, on Node with SQLite built in. */
function dependenciesOf(root) {
  const found = new Set()
  const look = (folder, names) => {
    for (const name of names) {
      const path = [folder, root].map((at) => join(at, 'node_modules', name)).find((at) => existsSync(at))
      if (path === undefined || name.startsWith('@curfew/') || found.has(path)) continue
      found.add(path)
      look(path, namesIn(path))
    }
  }
  for (const [, folder] of PACKAGES) look(join(root, folder), namesIn(join(root, folder)))
  return found
}

const namesIn = (folder) =>
  Object.keys(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).dependencies ?? {})

function bytesIn(folder) {
  return sum(
    readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath ?? entry.path, entry.name)).size),
  )
}

/** What is sent for the first page: the shell, its script and its style. */
function boardOf(root) {
  const built = join(root, 'packages/server/dist/board')
  if (!existsSync(built)) return null
  const shell = readFileSync(join(built, 'index.html'), 'utf8')
  const first = [...shell.matchAll(/board\/([\w.-]+\.(?:js|css))/g)].map(([, name]) => name)
  const sizeOf = (name) => statSync(join(built, 'board', `${name}.gz`)).size
  const names = readdirSync(join(built, 'board')).filter((name) => !name.endsWith('.gz'))
  return {
    first: Buffer.byteLength(shell) + sum(first.map(sizeOf)),
    all: Buffer.byteLength(shell) + sum(names.map(sizeOf)),
    installed: bytesIn(built),
  }
}

function commitOf(root) {
  const { stdout } = spawnSync('git', ['log', '-1', '--format=%h'], { cwd: root, encoding: 'utf8' })
  return stdout.trim()
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
const kilobytes = (bytes) => (bytes / 1000).toFixed(0)

function report(commits, all) {
  const cell = (sizes) => (sizes === null ? '–' : sizes.map(kilobytes).join(' / '))
  // The number of packages may differ, so rows are matched by their place.
  const lines = all
    .at(-1)
    .map(([name], place) => `| ${name} | ${all.map((rows) => cell(rows[place][1])).join(' | ')} |`)
  return [
    '# What an install weighs, and what a browser loads first',
    '',
    'In kB (1 000 bytes), of packages as `npm pack` makes them. Packages of others without better-sqlite3, which Node 22.16 and newer do',
    `not need.${all.length > 1 ? ' The first column is the commit before the board.' : ''}`,
    '',
    `| | ${commits.join(' | ')} |`,
    `|---|${all.map(() => '--:|').join('')}`,
    ...lines,
    '',
  ].join('\n')
}
