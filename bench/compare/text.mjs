// Tables as text: padded for a terminal, with bars for Markdown.
import { entryOf, median, ratio, spread } from './statistics.mjs'

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  const text = value.toFixed(digits)
  return digits === 0 ? text.replace(/\B(?=(\d{3})+$)/g, ' ') : text
}

/** The lines of one table, without and with the ratios of Curfew beside each contender. */
export function tableLines(table) {
  const sqlite = entryOf(table, 'curfew-sqlite')
  const postgres = entryOf(table, 'curfew-postgres')
  const costs = table.entries.some(({ clientUs }) => clientUs !== undefined)
  const head = ['', `median (${table.unit})`, 'min – max']
  if (sqlite !== undefined) head.push('SQLite ÷ it')
  if (postgres !== undefined) head.push('PostgreSQL ÷ it')
  const variants = table.entries.some(({ of }) => of !== undefined)
  if (variants) head.push('÷ its first')
  if (costs) head.push('server µs/job', 'client µs/job')
  const lines = table.entries.map((entry) => {
    const { median: middle, min, max } = spread(entry.values)
    const line = [entry.label, number(middle), `${number(min)} – ${number(max)}`]
    if (sqlite !== undefined) line.push(entry === sqlite ? '' : number(ratio(sqlite, entry)))
    if (postgres !== undefined) line.push(entry === postgres ? '' : number(ratio(postgres, entry)))
    const first = table.entries.find(({ of }) => of === entry.of)
    if (variants) line.push(entry === first ? '' : number(ratio(entry, first)))
    const cost = (values) => (values === undefined ? '' : number(median(values)))
    if (costs) line.push(cost(entry.serverUs), cost(entry.clientUs))
    return line
  })
  return [head, ...lines]
}

export function verdictLines(verdicts) {
  const head = ['', 'figure', 'floor', '']
  return [head, ...verdicts.map(({ label, value, floor, met }) => [label, number(value), floor, met])]
}

/** Columns for a terminal: the first to the left, figures to the right. */
export function padded(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export function bars(lines) {
  const [head, ...rest] = lines
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'))
  return [head, rule, ...rest].map((line) => `| ${line.join(' | ')} |`).join('\n')
}
