/** Nothing is ended or removed unless `--yes` or a person at the terminal says so. */
import { SettingsError } from '../../settings.ts'
import type { Options } from './command.ts'
import type { Flags, Terminal } from './flags.ts'

export const YES: Options = { yes: { short: 'y', help: 'do it without asking' } }

/** `what`: "Cancel 3 jobs". Answers whether to go on; where no person is there, refuses. */
export async function confirmed(flags: Flags, terminal: Terminal, what: string): Promise<boolean> {
  if (flags.has('yes')) return true
  if (terminal.ask === undefined) throw new SettingsError(`${what}? Nothing was done. Repeat the command with --yes.`)
  const said = await terminal.ask(`${what}? [y/N] `)
  if (/^y(es)?$/i.test(said.trim())) return true
  terminal.note?.('Nothing was done.')
  return false
}
