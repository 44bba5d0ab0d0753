/** What the operating commands share: options of lists, how lists and single things are printed, limits on the command line. */
import { SettingsError } from '../../settings.ts'
import type { Call, Options } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { lengthOf, SERVER_OPTIONS, UTC, type Flags } from '../frame/flags.ts'
import { Remote } from '../frame/remote.ts'
import { momentsIn, rowsText, type Row } from '../frame/rows.ts'

export const ONE: Options = { ...SERVER_OPTIONS, ...UTC }

export const LIST: Options = {
  output: { short: 'o', choices: ['table', 'ids', 'json'], help: 'ids: one per line, for other commands [table]' },
  ...ONE,
}

export const LIMIT: Options = { limit: { value: 'N', help: 'at most so many [50]' } }

export const serverOf = ({ flags, terminal }: Call): Remote => new Remote(flags, terminal)
export const momentsOf = ({ flags }: Call): ReturnType<typeof momentsIn> => momentsIn(flags.has('utc'))
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

/** Limits by their names on the wire. */
const LIMIT_HELP = {
  timeout: 'one attempt',
  'total-timeout': 'the whole life of a job',
  'enqueue-ttl': 'waiting before the first start',
  'grace-period': 'from the soft signal to the end of an attempt',
  'heartbeat-timeout': 'silence after which an attempt is stalled',
  'visibility-timeout': 'reservation without a sign of life',
} as const

export const LIMITS: Options = {
  ...Object.fromEntries(Object.entries(LIMIT_HELP).map(([name, help]) => [name, { value: 'LENGTH', help }])),
  'on-timeout': { choices: ['retry', 'discard'], help: 'what an execution timeout does' },
}

/** The limits that were given, in milliseconds; `none` removes one where that is allowed. */
export function limitsIn(flags: Flags, { prefix = '', mayRemove = false } = {}): Record<string, unknown> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(LIMIT_HELP)) {
    const text = flags.text(name)
    if (text === undefined) continue
    const field = `${prefix}${name.replaceAll('-', '_')}`
    if (text === 'none' && mayRemove) {
      found[field] = null
      found[`${field}_ms`] = null
    } else found[`${field}_ms`] = lengthOf(text, `--${name}`)
  }
  const mode = flags.text('on-timeout')
  if (mode !== undefined) found[`${prefix}x_on_timeout`] = mode
  return found
}

export function refuseNothing(fields: object, command: string): void {
  if (Object.keys(fields).length === 0)
    throw new SettingsError(`Name at least one thing to set. See curfew ${command} --help.`)
}
