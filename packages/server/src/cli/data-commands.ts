/** Commands that work on the data or the settings of a server, without one. */
import { checkFile } from './check.ts'
import { runExport } from './export.ts'
import type { Call, Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { runImport } from './import.ts'
import { migrate } from './migrate.ts'
import { printSettings, type Loaded } from '../settings.ts'
import { VERSION } from '../version.ts'

/** For commands that have no log. */
function loaded({ settings, terminal }: Call): Loaded {
  const found = settings()
  for (const warning of found.warnings) terminal.note?.(`curfew: warning: ${warning}`)
  return found
}

export const DATA_COMMANDS: readonly Command[] = [
  {
    name: 'config',
    summary: 'print the effective configuration (secrets hidden) and where each value comes from',
    settings: true,
    run(call) {
      call.terminal.write(printSettings(loaded(call)))
      return EXIT.fine
    },
  },
  {
    name: 'export',
    args: '[FILE|-]',
    summary: 'write all data as JSON lines; stop the server first',
    options: { force: { help: 'also while servers use the database; the copy may then not be consistent' } },
    settings: true,
    exits: [130],
    async run(call) {
      const { values, names } = loaded(call)
      await runExport({ settings: values, file: names[0] ?? '-', force: call.flags.has('force'), version: VERSION })
      return EXIT.fine
    },
  },
  {
    name: 'import',
    args: '[FILE|-]',
    summary: 'load an export into an empty data file or database',
    settings: true,
    exits: [130],
    async run(call) {
      const { values, names } = loaded(call)
      await runImport({ settings: values, file: names[0] ?? '-' })
      return EXIT.fine
    },
  },
  {
    name: 'migrate',
    summary: 'migrate the data without starting the server',
    options: { contract: { help: 'also remove what only servers of older versions need' } },
    settings: true,
    async run(call) {
      call.terminal.write(await migrate(loaded(call).values, call.flags.has('contract')))
      return EXIT.fine
    },
  },
  {
    name: 'check',
    args: '[FILE]',
    summary: 'look for damage in a data file; reads only, also while a server has it open',
    settings: true,
    run(call) {
      const { values, names } = loaded(call)
      const { isSound, text } = checkFile(values, names[0])
      call.terminal.write(text)
      return isSound ? EXIT.fine : EXIT.refused
    },
  },
]
