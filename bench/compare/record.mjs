// The record of a run: JSON with every round, Markdown to read, and the picture.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { picture } from './picture.mjs'
import { bars, tableLines, verdictLines } from './text.mjs'
import { verdicts } from './verdicts.mjs'

const file = (path) => fileURLToPath(new URL(path, import.meta.url))
const JSON_FILE = file('../results/compare-latest.json')
const MARKDOWN_FILE = file('../results/compare-latest.md')
const PICTURE_FILE = file('../../docs/images/compare.svg')

/** Rows that were taken now replace those of the same name in an older record; ratios never reach across rows. */
export function merged(older, { tables, ...run }, order) {
  const fresh = new Set(tables.map(({ row }) => row))
  const kept = (older?.tables ?? []).filter(({ row }) => !fresh.has(row) && order.includes(row))
  const all = [...tables, ...kept].sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row))
  return { ...run, tables: all, floors: verdicts(all) }
}

export function markdown({ machine, versions, rounds, quick, tables, floors, skipped }) {
  const { date, node, cores, cpu, system, load } = machine
  const peers = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  const lines = [
    '# Curfew beside its peers',
    '',
    `Taken ${date.slice(0, 10)} on ${cores} × ${cpu}, ${system}, Node ${node}, with ${peers.join(', ')}.`,
    `The median of up to ${rounds} rounds with the lowest and the highest; the rounds of all contenders of a row are taken in`,
    'turn. A ratio is the median of the ratios of the rounds. Compare within a table: the machine is shared.',
    'How each contender is set up: [bench/compare/README.md](../compare/README.md).',
  ]
  if (quick) lines.push('', '**A quick look: few, short rounds. These are no figures to quote.**')
  if (load > cores / 2)
    lines.push('', `**Other programs kept the machine busy (load ${load.toFixed(1)} on ${cores} cores).**`)
  for (const table of tables) {
    lines.push('', `## ${table.title}`, '', bars(tableLines(table)))
    if (table.note !== undefined) lines.push('', table.note)
  }
  lines.push('', '## Floors', '', bars(verdictLines(floors)))
  if (skipped.length > 0) lines.push('', '## Left out', '')
  for (const { row, contender, reason } of skipped)
    lines.push(`- ${contender}${row === undefined ? '' : `, ${row}`}: ${reason}`)
  return `${lines.join('\n')}\n`
}

/** Writes all three. */
export function save(run, order) {
  const older = existsSync(JSON_FILE) ? JSON.parse(readFileSync(JSON_FILE, 'utf8')) : null
  const record = merged(older, run, order)
  mkdirSync(dirname(JSON_FILE), { recursive: true })
  writeFileSync(JSON_FILE, `${JSON.stringify(record, null, 1)}\n`)
  writeFileSync(MARKDOWN_FILE, markdown(record))
  draw()
}

/** The picture, from the record. */
export function draw() {
  mkdirSync(dirname(PICTURE_FILE), { recursive: true })
  writeFileSync(PICTURE_FILE, picture(JSON.parse(readFileSync(JSON_FILE, 'utf8'))))
}
