/** `curfew journey validate`: judges definitions as a server of these limits would, without one. */
import { clean } from './frame/clean.ts'
import { EXIT } from './frame/exit.ts'
import { judgeFile, type Judged } from './journey-files.ts'
import type { Call } from './frame/command.ts'
import { limitsOf } from './frame/flags.ts'

const RED = '31'
const YELLOW = '33'
const BOLD = '1'
const DIM = '2'

export async function validate({ flags, terminal }: Call): Promise<number> {
  const limits = limitsOf(flags)
  const judged: Judged[] = []
  for (const file of flags.names) judged.push(await judgeFile(file, limits, flags.text('root')))
  if (flags.has('json')) terminal.write(jsonOf(judged))
  else for (const one of judged) terminal.write(shown(one, terminal.colour))
  return judged.some(({ errors }) => errors.length > 0) ? EXIT.refused : EXIT.fine
}

function jsonOf(judged: readonly Judged[]): string {
  const files = judged.map(({ file, definition, effectiveMaxDurationSec, errors, warnings }) => ({
    file,
    valid: errors.length === 0,
    ...(definition === null
      ? {}
      : { name: definition.name, version: definition.version, kind: definition.kind, effectiveMaxDurationSec }),
    errors,
    warnings,
  }))
  return JSON.stringify({ files }, null, 2)
}

/** Every diagnostic with its line and a mark below the place, then one line on the whole. */
export function shown(judged: Judged, isColoured: boolean): string {
  const { file, text, definition, errors, warnings } = judged
  const paint = (code: string, words: string): string => (isColoured ? `\u001b[${code}m${words}\u001b[0m` : words)
  const lines = text.split(/\r?\n/)
  const told = [
    ...errors.map((one) => ({ ...one, kind: paint(RED, 'error'), colour: RED })),
    ...warnings.map((one) => ({ ...one, kind: paint(YELLOW, 'warning'), colour: YELLOW })),
  ].sort((a, b) => a.line - b.line || a.column - b.column)
  const parts = told.map(({ code, line, column, message, kind, colour }) => {
    const number = String(line)
    const { piece, before } = pieceOf(lines[line - 1] ?? '', column)
    const margin = ' '.repeat(number.length)
    return [
      `${paint(BOLD, `${file}:${number}:${String(column)}`)} ${kind} ${code}: ${clean(message)}`,
      `${paint(DIM, ` ${number} |`)} ${piece}`,
      `${paint(DIM, ` ${margin} |`)} ${before}${paint(colour, '^')}`,
      '',
    ].join('\n')
  })
  const end =
    definition === null || errors.length > 0
      ? `${counted(errors.length, 'error')}, ${counted(warnings.length, 'warning')}`
      : `${definition.kind} ${definition.name} ${definition.version}, a run may take ${String(judged.effectiveMaxDurationSec)} s; ${counted(warnings.length, 'warning')}`
  return [...parts, `${file}: ${end}`].join('\n')
}

const counted = (count: number, what: string): string => `${String(count)} ${what}${count === 1 ? '' : 's'}`

const WIDEST = 140

/** As much of a line as fits, and what stands before the mark below it; a tab is as wide there as in the line. */
function pieceOf(line: string, column: number): { readonly piece: string; readonly before: string } {
  const from = column > WIDEST - 20 ? column - 60 : 0
  const piece = clean(line).slice(from, from + WIDEST)
  const before = piece.slice(0, column - 1 - from).replaceAll(/[^\t]/g, ' ')
  return { piece, before }
}
