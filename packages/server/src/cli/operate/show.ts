/** What the operating commands share: options of lists, and how lists and single things are printed. */
import type { Call, Options } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { Remote } from '../frame/remote.ts'
import { momentsIn, rowsText, type Moments, type Row } from '../frame/rows.ts'

export const LIST: Options = {
  output: { short: 'o', choices: ['table', 'ids', 'json'], help: 'ids: one per line, for other commands [table]' },
  ...ONE,
}

export const LIMIT: Options = { limit: { value: 'N', help: 'at most so many [50]' } }
export const CURSOR: Options = { cursor: { value: 'CURSOR', help: 'go on where an earlier list ended' } }

/** From when to when. */
export const windowFrom = (byDefault: string): Options => ({
  from: { value: 'TIME', help: `a time, or a length before now [${byDefault}]` },
  to: { value: 'TIME', help: 'a time, or a length before now [now]' },
})

/** `--limit` and `--cursor` as a query has them. */
export const pageOf = ({ flags }: Call): { readonly limit: number; readonly cursor: string | undefined } => ({
  limit: wholeOf(flags, 'limit', 50),
  cursor: flags.text('cursor'),
})

export const serverOf = ({ flags, terminal }: Call): Remote => new Remote(flags, terminal)
export const momentsOf = ({ flags }: Call): Moments => momentsIn(flags.has('utc'))
export const nameOf = ({ flags }: Call, index = 0): string => encodeURIComponent(flags.names[index] ?? '')

export interface Listed<T> {
  /** What `--json` prints. */
  readonly answer: unknown
  readonly items: readonly T[]
  readonly id: (item: T) => string
  readonly head: Row
  readonly row: (item: T) => Row
  /** Said instead of an empty table. */
  readonly none: string
  /** Said below the table. */
  readonly foot?: string | null
}

export function showList<T>({ flags, terminal }: Call, listed: Listed<T>): number {
  const { answer, items, id, head, row, none, foot } = listed
  const form = flags.has('json') ? 'json' : (flags.text('output') ?? 'table')
  if (form === 'json') terminal.write(JSON.stringify(answer, null, 2))
  else if (form === 'ids') {
    if (items.length > 0) terminal.write(items.map(id).join('\n'))
  } else {
    terminal.write(items.length === 0 ? none : rowsText([head, ...items.map(row)], terminal))
    if (foot !== null && foot !== undefined) terminal.write(foot)
  }
  return EXIT.fine
}

export function showOne({ flags, terminal }: Call, answer: unknown, text: string): number {
  terminal.write(flags.has('json') ? JSON.stringify(answer, null, 2) : text)
  return EXIT.fine
}
