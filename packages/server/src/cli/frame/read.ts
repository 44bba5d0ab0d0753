/** From the words of a command line to a command of the table and its options. */
import { didYouMean, nearestName, vocabulary } from '@curfew/core'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { loadSettings, SettingsError, type Loaded } from '../../settings.ts'
import { arity, optionsOf, usageOf, type Call, type Command, type Table } from './command.ts'
import type { Flags, Terminal } from './flags.ts'

export type Found =
  | { readonly kind: 'command'; readonly command: Command; readonly rest: readonly string[] }
  /** Only the first word of several commands. */
  | { readonly kind: 'group'; readonly name: string }

export function findCommand(table: Table, args: readonly string[]): Found {
  const [first = '', second] = args
  const single = table.commands.find(({ name }) => name === first)
  if (single !== undefined) return { kind: 'command', command: single, rest: args.slice(1) }
  const group = table.groups.find(({ name }) => name === first)
  if (group === undefined) throw unknown(first, firstWords(table), '')
  if (second === undefined || second === 'help' || second.startsWith('-')) return { kind: 'group', name: first }
  const command = table.commands.find(({ name }) => name === `${first} ${second}`)
  if (command === undefined) throw unknown(second, secondWords(table, first), `${first} `)
  return { kind: 'command', command, rest: args.slice(2) }
}

export const firstWords = ({ commands }: Table): string[] => [
  ...new Set(commands.map(({ name }) => name.split(' ')[0] ?? '')),
]

export const secondWords = ({ commands }: Table, group: string): string[] =>
  commands.flatMap(({ name }) => (name.startsWith(`${group} `) ? [name.slice(group.length + 1)] : []))

function unknown(word: string, known: readonly string[], before: string): SettingsError {
  const nearest = nearestOf(word, known)
  const meant = nearest === null ? '' : ` ${didYouMean(`curfew ${before}${nearest}`)}`
  return new SettingsError(
    `Unknown command ${JSON.stringify(before + word)}.${meant} See curfew ${before === '' ? '' : before}--help.`,
  )
}

/** Names are compared in snake_case. */
function nearestOf(word: string, known: readonly string[]): string | null {
  const snake = (name: string): string => name.replace(/^-+/, '').replaceAll('-', '_').toLowerCase()
  const nearest = nearestName(snake(word), vocabulary(known.map(snake)))
  return known.find((name) => snake(name) === nearest) ?? null
}

export function readCall(command: Command, args: readonly string[], terminal: Terminal): Call {
  if (command.settings === true) return readWithSettings(command, args, terminal)
  const { values, positionals } = parsed(command, args)
  refuseNames(command, positionals)
  return {
    flags: flagsOf(command, positionals, values),
    terminal,
    settings: () => {
      throw new Error(`curfew ${command.name} takes no settings`)
    },
  }
}

type Values = Readonly<Record<string, unknown>>

function flagsOf(command: Command, names: readonly string[], values: Values): Flags {
  for (const [name, { choices }] of optionsOf(command)) {
    const given = values[name]
    if (choices !== undefined && typeof given === 'string' && !choices.includes(given))
      throw new SettingsError(`--${name} must be one of ${choices.join(', ')}, not ${JSON.stringify(given)}.`)
  }
  return {
    names,
    text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
    texts: (flag) => (Array.isArray(values[flag]) ? values[flag].map(String) : []),
    has: (flag) => values[flag] === true,
  }
}

function refuseNames(command: Command, names: readonly string[]): void {
  const { names: wanted, least, most } = arity(command)
  if (names.length >= least && names.length <= most) return
  const missing = names.length < least ? wanted[names.length] : undefined
  const said = missing === undefined ? `Unexpected argument ${JSON.stringify(names.at(-1))}` : `${missing} is missing`
  throw new SettingsError(`${said}. Usage: ${usageOf(command)}`)
}

type ParseOptions = NonNullable<ParseArgsConfig['options']>

function parsed(command: Command, args: readonly string[]) {
  const options: ParseOptions = Object.fromEntries(
    optionsOf(command).map(([name, { value, choices, short, many }]) => [
      name,
      {
        type: value === undefined && choices === undefined ? ('boolean' as const) : ('string' as const),
        ...(short === undefined ? {} : { short }),
        ...(many === undefined ? {} : { multiple: true }),
      },
    ]),
  )
  try {
    return parseArgs({ args: withLengths(args, options), options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new SettingsError(parseError(command, error))
  }
}

/** `--from -1h` is one option with its value, which parseArgs calls ambiguous; no option begins with a digit. */
function withLengths(args: readonly string[], options: ParseOptions): string[] {
  const joined: string[] = []
  for (const arg of args) {
    const last = joined.at(-1) ?? ''
    const takesValue = last.startsWith('--') && options[last.slice(2)]?.type === 'string'
    if (takesValue && /^-\d/.test(arg)) joined.splice(-1, 1, `${last}=${arg}`)
    else joined.push(arg)
  }
  return joined
}

/** What parseArgs says, with the option that was most likely meant. */
function parseError(command: Command, error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const [, name] = /^Unknown option '(-[^']*)'/.exec(message) ?? []
  // "Unknown option '--x'. To specify a positional argument …": its first sentence.
  if (name === undefined) return `${message.split(/\. |\n/)[0] ?? ''}. Usage: ${usageOf(command)}`
  return unknownOption(command, name)
}

function unknownOption(command: Command, name: string): string {
  const word = command.words?.find((one) => name === `--${one}`)
  if (word !== undefined) return `Unknown option '${name}'. Write ${word}:VALUE. Usage: ${usageOf(command)}`
  const known = optionsOf(command).map(([option]) => option)
  const nearest = name.startsWith('--') ? nearestOf(name, known) : null
  const meant = nearest === null ? '' : ` ${didYouMean(`--${nearest}`)}`
  return `Unknown option '${name}'.${meant} Usage: ${usageOf(command)}`
}

/** Its own options are taken out, the rest is for the settings, which have their own reader. */
function readWithSettings(command: Command, args: readonly string[], terminal: Terminal): Call {
  const values: Record<string, unknown> = {}
  const rest: string[] = []
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] ?? ''
    const [name = '', ...inline] = arg.startsWith('--') ? arg.slice(2).split('=') : [longOf(command, arg)]
    const option = command.options?.[name]
    if (option === undefined) rest.push(arg)
    else if (option.value === undefined) values[name] = true
    else if (inline.length > 0) values[name] = inline.join('=')
    else {
      const value = args[index + 1]
      if (value === undefined || value.startsWith('--')) throw new SettingsError(`--${name} needs a value.`)
      values[name] = value
      index += 1
    }
  }
  const { most } = arity(command)
  const loaded: Loaded = loadSettings(rest, terminal.env, { names: most, command: command.name })
  refuseNames(command, loaded.names)
  return { flags: flagsOf(command, loaded.names, values), terminal, settings: () => loaded }
}

/** `-y` is `yes`. */
const longOf = (command: Command, arg: string): string =>
  optionsOf(command).find(([, { short }]) => short !== undefined && arg === `-${short}`)?.[0] ?? ''
