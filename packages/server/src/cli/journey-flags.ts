/** Flags of the `journey` commands, and the world they see: where they write, and which server they ask. */
import { parseDuration, type Millis, type RunLimits } from '@curfew/core'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { SettingsError } from '../settings.ts'
import type { Paper } from './journey-chart.ts'

/** What a command has of the world. */
export interface Terminal extends Paper {
  readonly env: Readonly<Record<string, string | undefined>>
  write(text: string): void
}

export interface Flags {
  readonly names: readonly string[]
  text(flag: string): string | undefined
  texts(flag: string): readonly string[]
  has(flag: string): boolean
}

type Options = NonNullable<ParseArgsConfig['options']>

/** Flags of the commands that call a server: which one, and how to print the answer. */
export const SERVER_FLAGS: Options = {
  url: { type: 'string' },
  token: { type: 'string' },
  json: { type: 'boolean' },
}

/** The limits of the server a definition is meant for. */
export const LIMIT_FLAGS = { 'run-default': { type: 'string' }, 'run-cap': { type: 'string' } } as const

/** How a file with a definition is read: for which limits, and where else the files are that it names. */
export const FILE_FLAGS = { ...LIMIT_FLAGS, root: { type: 'string' } } as const

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

/** `names`: what must be said besides flags, each by its name in the usage; of the last, `FILE...`, there may be more. */
export function readFlags(args: readonly string[], options: Options, names: readonly string[], usage: string): Flags {
  const { values, positionals } = parsed(args, options, usage)
  const takesMore = names.at(-1)?.endsWith('...') === true
  if (takesMore ? positionals.length < names.length : positionals.length !== names.length) {
    const missing = names[positionals.length]
    throw new SettingsError(
      `${missing === undefined ? `Unexpected argument ${JSON.stringify(positionals.at(-1))}` : `${missing} is missing`}. Usage: ${usage}`,
    )
  }
  return {
    names: positionals,
    text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
    texts: (flag) => (Array.isArray(values[flag]) ? values[flag].map(String) : []),
    has: (flag) => values[flag] === true,
  }
}

function parsed(args: readonly string[], options: Options, usage: string) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    // "Unknown option '--x'. To specify a positional argument …": its first sentence.
    const [said] = (error instanceof Error ? error.message : String(error)).split('. ')
    throw new SettingsError(`${said ?? ''}. Usage: ${usage}`)
  }
}
