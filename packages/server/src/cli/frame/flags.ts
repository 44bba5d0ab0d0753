/** What a command sees of its command line and of the world: options, where it writes, and whether a person is there. */
import { parseDuration, type Millis, type RunLimits } from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import type { Paper } from '../journey-chart.ts'
import type { Options } from './command.ts'

/** What a command has of the world. */
export interface Terminal extends Paper {
  readonly env: Readonly<Record<string, string | undefined>>
  write(text: string): void
  /** False where the output goes to a file or another program: then no line is cut. */
  readonly isTerminal?: boolean
  /** For people, beside the output: stderr. */
  readonly note?: (text: string) => void
  /** Asks a person; absent where none is there. */
  readonly ask?: (question: string) => Promise<string>
  /** Aborted by Ctrl-C; a command that does not look at it is ended by Ctrl-C. */
  readonly signal?: AbortSignal
}

export interface Flags {
  readonly names: readonly string[]
  text(flag: string): string | undefined
  texts(flag: string): readonly string[]
  has(flag: string): boolean
}

/** Options of the commands that call a server: which one, and how to print the answer. */
export const SERVER_OPTIONS: Options = {
  url: { value: 'URL', help: 'address of the server (CURFEW_URL) [http://127.0.0.1:8080]' },
  token: { value: 'TOKEN', help: 'token of the server (CURFEW_TOKEN)' },
  json: { help: 'print JSON for programs' },
}

/** The same, where times are printed. */
export const ONE: Options = { ...SERVER_OPTIONS, utc: { help: 'times in UTC instead of local time' } }

/** The limits of the server a definition is meant for. */
const LIMIT_OPTIONS: Options = {
  'run-default': { value: 'LENGTH', help: 'limit of a run whose definition names none [1d]' },
  'run-cap': { value: 'LENGTH', help: 'longest limit of a run [7d]' },
}

/** How a file with a definition is read: for which limits, and where else the files are that it names. */
export const FILE_OPTIONS: Options = {
  root: { value: 'DIR', help: 'another folder with the files that openApiRef names' },
  ...LIMIT_OPTIONS,
}

export function limitsOf(flags: Flags): RunLimits {
  return {
    defaultMs: lengthOf(flags.text('run-default') ?? '1d', '--run-default'),
    capMs: lengthOf(flags.text('run-cap') ?? '7d', '--run-cap'),
  }
}

export function lengthOf(text: string, of: string): Millis {
  const ms = parseDuration(text)
  if (ms === null)
    throw new SettingsError(`${of} must be a length such as 250ms, 30s or 1h30m, not ${JSON.stringify(text)}.`)
  return ms
}

/** A whole number from `least` on. */
export function wholeOf(flags: Flags, flag: string, byDefault: number, least = 1): number {
  const text = flags.text(flag)
  if (text === undefined) return byDefault
  const value = Number(text)
  if (!/^-?\d{1,9}$/.test(text) || value < least)
    throw new SettingsError(`--${flag} must be a whole number from ${String(least)} on, not ${JSON.stringify(text)}.`)
  return value
}
