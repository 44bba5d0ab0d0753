/** One command of `curfew`: a row of the table (commands.ts) that parsing, help, completion and the documentation are made from. */
import type { Loaded } from '../../settings.ts'
import type { Exit } from './exit.ts'
import type { Flags, Terminal } from './flags.ts'

export interface Option {
  /** What it takes, as help shows it; left out: a switch. */
  readonly value?: string
  readonly short?: string
  /** May be given several times. */
  readonly many?: true
  /** The only values it takes. */
  readonly choices?: readonly string[]
  readonly help: string
}

export type Options = Readonly<Record<string, Option>>

export interface Call {
  readonly flags: Flags
  readonly terminal: Terminal
  /** Flags, environment and configuration file of a server; only for commands with `settings`. */
  readonly settings: () => Loaded
}

export interface Command {
  /** One word or two: `explain`, `jobs list`. */
  readonly name: string
  /** What it takes besides options: `ID`, `[FILE]`, `FILE...`. */
  readonly args?: string
  readonly summary: string
  /** Further lines of help. */
  readonly more?: readonly string[]
  readonly options?: Options
  /** The only words its argument can be, for completion. */
  readonly choices?: readonly string[]
  /** Words that go before a colon, as in `state:active`: written as an option they are refused with this form. */
  readonly words?: readonly string[]
  /** It also takes every flag of `curfew serve`. */
  readonly settings?: true
  /** Exit codes besides 0, 1 and 2. */
  readonly exits?: readonly Exit[]
  readonly run: (call: Call) => number | Promise<number>
}

/** Commands with the same first word. */
export interface Group {
  readonly name: string
  readonly summary: string
  readonly more?: readonly string[]
}

export interface Table {
  readonly groups: readonly Group[]
  readonly commands: readonly Command[]
  /** Headings of the overview, with the first words below each. */
  readonly sections: readonly (readonly [string, readonly string[]])[]
}

export const optionsOf = (command: Command): readonly (readonly [string, Option])[] =>
  Object.entries(command.options ?? {})

export function usageOf(command: Command): string {
  const args = command.args === undefined ? '' : ` ${command.args}`
  const flags = command.settings === true ? ' [flags of curfew serve]' : ''
  const options = optionsOf(command).length > 0 ? ' [options]' : ''
  return `curfew ${command.name}${args}${options}${flags}`
}

/** `--limit N`, `-o, --output ids|json|table`. */
export function optionText(name: string, { value, short, choices }: Option): string {
  const takes = choices?.join('|') ?? value
  return `${short === undefined ? '' : `-${short}, `}--${name}${takes === undefined ? '' : ` ${takes}`}`
}

/** How many names a command takes. */
export function arity({ args = '' }: Command): { readonly names: readonly string[]; least: number; most: number } {
  const names = args === '' ? [] : args.split(' ')
  return {
    names,
    least: names.filter((name) => !name.startsWith('[')).length,
    most: names.some((name) => name.includes('...')) ? Infinity : names.length,
  }
}
