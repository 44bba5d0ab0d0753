/** From words to a command that runs, or to its help. */
import { TABLE } from './commands.ts'
import { EXIT } from './frame/exit.ts'
import type { Terminal } from './frame/flags.ts'
import { commandHelp, groupHelp, overview } from './frame/help.ts'
import { findCommand, readCall } from './frame/read.ts'
import { VERSION } from '../version.ts'

const HELP = new Set(['--help', '-h'])

/** Gives the exit code; what is refused is thrown. */
export async function runCurfew(args: readonly string[], terminal: Terminal): Promise<number> {
  const [first] = args
  if (first === '--version' || first === '-v') return told(terminal, VERSION)
  const words = first === 'help' ? args.slice(1) : args
  const asksHelp = first === 'help' || words.some((word) => HELP.has(word))
  const plain = words.filter((word) => !HELP.has(word))
  if (plain.length === 0 || (asksHelp && plain[0]?.startsWith('-') === true))
    return told(terminal, overview(TABLE, VERSION))
  const found = findCommand(TABLE, plain)
  if (found.kind === 'group') return told(terminal, groupHelp(TABLE, found.name))
  if (asksHelp) return told(terminal, commandHelp(found.command))
  return found.command.run(readCall(found.command, found.rest, terminal))
}

function told(terminal: Terminal, text: string): number {
  terminal.write(text)
  return EXIT.fine
}
