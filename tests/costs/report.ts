/** Compares what was counted with what was recorded, and says in a table what differs. */
import type { Counted, Counts } from './meter.ts'

/** What a path costs: exactly so much, or from … to where a count cannot be exact. */
export type Expected = Readonly<Record<string, number | readonly [from: number, to: number]>>

export const HOW_TO_RECORD = 'If the change is meant, record the new numbers: npm run bench -- counts --record'

/** Null if every count is as expected. */
export function difference(
  path: { readonly name: string; readonly jobs: number },
  expected: Expected | undefined,
  { counts, statements }: Counted,
): string | null {
  const names = [...new Set([...Object.keys(expected ?? {}), ...Object.keys(counts)])]
  if (names.every((name) => fits(expected?.[name], counts[name]))) return null
  const rows = names.map((name) => {
    const [wanted, found] = [expected?.[name], counts[name]]
    return [
      fits(wanted, found) ? '' : '→',
      name,
      shown(wanted),
      shown(found),
      change(wanted, found),
      found === undefined ? '' : each(found, path.jobs),
    ]
  })
  const table = columns([['', 'count', 'expected', 'counted', 'change', 'per job'], ...rows])
  const ran = [...statements].sort(([, a], [, b]) => b - a).map(([text, n]) => [`${String(n)}×`, text])
  return [
    `The costs of "${path.name}" have changed (${String(path.jobs)} jobs).`,
    '',
    table,
    '',
    'Statements that ran:',
    columns(ran, 'left'),
    '',
    HOW_TO_RECORD,
  ].join('\n')
}

/** What is expected after these were counted: a range that holds them stays a range. */
export function renewed(expected: Expected | undefined, counts: Counts): Expected {
  const entries = Object.entries(counts).map(([name, count]): [string, Expected[string]] => {
    const before = expected?.[name]
    return [name, before !== undefined && fits(before, count) ? before : count]
  })
  return Object.fromEntries(entries)
}

function fits(wanted: Expected[string] | undefined, found: number | undefined): boolean {
  if (wanted === undefined || found === undefined) return false
  return typeof wanted === 'number' ? wanted === found : found >= wanted[0] && found <= wanted[1]
}

function shown(value: Expected[string] | undefined): string {
  if (value === undefined) return 'none'
  return typeof value === 'number' ? grouped(value) : `${grouped(value[0])} to ${grouped(value[1])}`
}

function change(wanted: Expected[string] | undefined, found: number | undefined): string {
  if (wanted === undefined || found === undefined || fits(wanted, found)) return ''
  const nearest = typeof wanted === 'number' ? wanted : found < wanted[0] ? wanted[0] : wanted[1]
  return `${found > nearest ? '+' : '−'}${grouped(Math.abs(found - nearest))}`
}

/** Of each of so many jobs. */
export function each(total: number, jobs: number): string {
  const value = total / jobs
  return grouped(value >= 100 ? Math.round(value) : Number(value.toPrecision(3)))
}

/** 12345.5 as 12 345.5 */
function grouped(value: number): string {
  const [whole = '', ...rest] = String(value).split('.')
  return [whole.replace(/\B(?=(\d{3})+$)/g, ' '), ...rest].join('.')
}

/** Lines whose cells stand below each other; all but the first two columns to the right, if not told otherwise. */
function columns(rows: readonly (readonly string[])[], align: 'left' | 'right' = 'right'): string {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, index) =>
        align === 'right' && index > 1 ? cell.padStart(widths[index] ?? 0) : cell.padEnd(widths[index] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return rows.map((row) => `  ${line(row)}`).join('\n')
}

/** All paths of a store as a table in Markdown: each count for the whole path and, below it, for each job. */
export function markdown(
  all: readonly { readonly name: string; readonly jobs: number; readonly counts: Counts }[],
): string {
  const names = Object.keys(all[0]?.counts ?? {})
  const lines = [
    `| path | |${names.map((name) => ` ${name} |`).join('')}`,
    `|---|---|${names.map(() => '--:|').join('')}`,
  ]
  for (const { name, jobs, counts } of all) {
    lines.push(`| ${name} | all |${names.map((count) => ` ${grouped(counts[count] ?? 0)} |`).join('')}`)
    lines.push(`| | per job |${names.map((count) => ` ${each(counts[count] ?? 0, jobs)} |`).join('')}`)
  }
  return lines.join('\n')
}
