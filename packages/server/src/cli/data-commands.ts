/** Commands that work on the data or the settings of a server, without one. */
import { mkdtempSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { checkFile } from './check.ts'
import { backupFile, isTaken } from './backup.ts'
import { runExport, type ExportOptions } from './export.ts'
import { grouped } from './frame/progress.ts'
import type { Call, Command } from './frame/command.ts'
import { confirmed, YES } from './frame/confirm.ts'
import { EXIT } from './frame/exit.ts'
import { runImport } from './import.ts'
import { migrate } from './migrate.ts'
import { placeOf } from '../open-store.ts'
import { printSettings, SettingsError, type Loaded, type Settings } from '../settings.ts'
import { VERSION } from '../version.ts'

/** For commands that have no log. */
function loaded({ settings, terminal }: Call): Loaded {
  const found = settings()
  for (const warning of found.warnings) terminal.note?.(`curfew: warning: ${warning}`)
  return found
}

/** From a copy of the file beside it, which is removed again. */
async function exportCopy(settings: Settings, asked: Omit<ExportOptions, 'settings'>): Promise<void> {
  const place = placeOf(settings)
  if (place.kind !== 'file')
    throw new SettingsError('--live is for SQLite data files. For PostgreSQL, stop the servers, or use --force.')
  const folder = mkdtempSync(join(dirname(place.file), '.export-'))
  try {
    const data = { ...settings, data: folder, database: null }
    backupFile(settings, join(folder, basename(place.file)))
    await runExport({ ...asked, settings: data })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
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
      const mayReplace = isTaken(values, file)
      if (mayReplace && !(await confirmed(call.flags, call.terminal, `Replace ${file}`))) return EXIT.refused
      const { from, bytes } = backupFile(values, file, { mayReplace })
      call.terminal.note?.(`Copied ${from} to ${file}: ${grouped(bytes)} bytes, read through, sound and on disk.`)
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
