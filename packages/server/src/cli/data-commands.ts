/** Commands that work on the data or the settings of a server, without one. */
import { grouped } from './frame/progress.ts'
import type { Call, Command } from './frame/command.ts'
import { confirmed, YES } from './frame/confirm.ts'
import { EXIT } from './frame/exit.ts'
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
    summary: 'write all data as JSON lines; stop the server first, or use --live',
    options: {
      live: { help: 'of a SQLite file that a server uses: exports a copy of this moment' },
      force: { help: 'also while servers use the database; the copy may then not be consistent' },
    },
    settings: true,
    exits: [130],
    async run(call) {
      const { values, names } = loaded(call)
      const asked = { file: names[0] ?? '-', force: call.flags.has('force'), version: VERSION }
      const { exportCopy, runExport } = await import('./export.ts')
      if (call.flags.has('live')) await exportCopy(values, asked)
      else await runExport({ ...asked, settings: values })
      return EXIT.fine
    },
  },
  {
    name: 'backup',
    args: 'FILE',
    summary: 'copy a SQLite data file in one consistent moment, also while a server uses it',
    more: [
      'To restore: stop the server, put the copy as curfew.db into an empty directory, and',
      'start the server with --data of that directory.',
    ],
    options: YES,
    settings: true,
    async run(call) {
      const { values, names } = loaded(call)
      const [file = ''] = names
      const { backupFile, isTaken } = await import('./backup.ts')
      const mayReplace = isTaken(values, file)
      if (mayReplace && !(await confirmed(call.flags, call.terminal, `Replace ${file}`))) return EXIT.refused
      const { from, bytes } = backupFile(values, file, { mayReplace })
      call.terminal.note?.(`Copied ${from} to ${file}: ${grouped(bytes)} bytes, verified and on disk.`)
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
      const { runImport } = await import('./import.ts')
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
      const { values } = loaded(call)
      const { migrate } = await import('./migrate.ts')
      call.terminal.write(await migrate(values, call.flags.has('contract')))
      return EXIT.fine
    },
  },
  {
    name: 'check',
    args: '[FILE]',
    summary: 'look for damage in a data file; reads only, also while a server has it open',
    settings: true,
    async run(call) {
      const { values, names } = loaded(call)
      const { checkFile } = await import('./check.ts')
      const { isSound, text } = checkFile(values, names[0])
      call.terminal.write(text)
      return isSound ? EXIT.fine : EXIT.refused
    },
  },
]
