/** Lists as people read them: aligned columns, cut to the width of the terminal; and times. */
import { lengthInWords } from '@curfew/core'
import { inkOn, type Paper } from '../journey-chart.ts'
import { clean } from './clean.ts'

export type Row = readonly string[]

/**
 * Lines that are too long for a terminal get short ids behind their first column, which is for copying, and are cut if that
 * is not enough; without paper, or in a pipe, nothing is left out.
 */
export function rowsText(rows: readonly Row[], paper?: Paper & { readonly isTerminal?: boolean }): string {
  const table = rows.map((row) => row.map((cell) => clean(cell).replaceAll(/\s+/g, ' ')))
  const width = paper === undefined || paper.isTerminal === false ? Infinity : paper.width
  const isTooWide = (lines: readonly string[]): boolean => lines.some((line) => line.length > width)
  const whole = aligned(table)
  const lines = isTooWide(whole) ? aligned(table.map(withShortIds)) : whole
  const cut = lines.map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line))
  if (paper?.colour !== true) return cut.join('\n')
  const ink = inkOn(paper)
  return [ink.faint(cut[0] ?? ''), ...cut.slice(1)].join('\n')
}

function aligned(table: readonly Row[]): string[] {
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

const ID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

const withShortIds = (row: Row): Row => row.map((cell, column) => (column > 0 && ID.test(cell) ? shortId(cell) : cell))

/** `01a1…0f25`. */
export const shortId = (id: string): string => `${id.slice(0, 4)}…${id.slice(-4)}`

/** A name and its value per line. */
export function fieldsText(fields: readonly (readonly [string, string | null | undefined])[]): string {
  const shown = fields.filter((field): field is readonly [string, string] => (field[1] ?? '') !== '')
  const width = Math.max(0, ...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${clean(value)}`).join('\n')
}

/** `2026-11-18T10:08:59.394`: on the clock of this machine, or in UTC. */
export function wallText(ms: number, isUtc: boolean): string {
  const shown = isUtc ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000
  return new Date(shown).toISOString().slice(0, 23)
}

export type Moments = (time: string | null | undefined) => string

/** Times as `--utc` asks for: the time of day, with its date where that is not today. */
export function momentsIn(isUtc: boolean, nowMs = Date.now()): Moments {
  const today = wallText(nowMs, isUtc).slice(0, 10)
  return (time) => {
    if (time === null || time === undefined) return '–'
    const ms = Date.parse(time)
    if (Number.isNaN(ms)) return time
    const text = wallText(ms, isUtc)
    const clock = text.slice(11, 19)
    return text.startsWith(today) ? clock : `${text.slice(0, 10)} ${clock}`
  }
}

/** The instants in a text that the server wrote, as `--utc` asks for. What it quotes of others is left as it is. */
export function withMoments(text: string, isUtc: boolean): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (found) =>
    found.startsWith('"') ? found : wallText(Date.parse(found), isUtc).replace('T', ' '),
  )
}

export const lengthText = (ms: number | null | undefined): string =>
  ms === null || ms === undefined ? '–' : lengthInWords(Math.round(ms))

export const countText = (count: number, what: string): string => `${String(count)} ${what}${count === 1 ? '' : 's'}`
