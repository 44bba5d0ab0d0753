#!/usr/bin/env node
/** The command. The one place that reads argv and the environment and knows every room. */
import { pino, type Logger } from 'pino'
import pretty from 'pino-pretty'
import { checkFile } from './check.ts'
import { runExplain } from './explain.ts'
import { runExport } from './export.ts'
import { helpText } from './help.ts'
import { runImport } from './import.ts'
import { Stopped } from './interrupt.ts'
import { runJourney } from './journey.ts'
import type { Terminal } from './journey-flags.ts'
import { migrate } from './migrate.ts'
import { serve } from './serve.ts'
import { runToken } from './token.ts'
import { loadSettings, printSettings, SettingsError, type Loaded, type Settings, type Takes } from '../settings.ts'
import { VERSION as version } from '../version.ts'

function logger(settings: Settings): Logger {
  const options = { level: String(settings['log-level']), base: { pid: process.pid } }
  return process.stderr.isTTY
    ? pino(options, pretty({ destination: 2, colorize: true, ignore: 'pid', sync: true }))
    : pino(options, pino.destination({ dest: 2, sync: true }))
}

async function runServer(args: readonly string[]): Promise<void> {
  const { values, warnings } = loadSettings(args, process.env)
  const log = logger(values)
  for (const warning of warnings) log.warn({}, warning)
  // Node would print them as plain text among the lines of JSON.
  process.removeAllListeners('warning').on('warning', (warning) => {
    log.warn({ err: warning }, 'a warning of Node')
  })
  const serving = await serve(values, log)
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return
    stopping = true
    log.info({ signal }, 'stopping')
    // Whatever happens, the process is gone within five seconds.
    setTimeout(() => {
      log.error({}, 'still busy; leaving')
      process.exit(1)
    }, 4_800).unref()
    serving.stop().then(
      () => {
        log.info({}, 'stopped')
        process.exit(0)
      },
      (error: unknown) => {
        log.error({ err: error }, 'stopping failed')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.stdout.write(`listening on ${serving.address}\n`)
}

async function main(args: readonly string[]): Promise<void> {
  const [command, ...rest] = args
  if (command === '--version' || command === '-v') process.stdout.write(`${version}\n`)
  else if (command === 'journey') process.exitCode = await runJourney(rest, terminal())
  else if (command === 'explain') process.exitCode = await runExplain(rest, terminal())
  else if (command === 'token') process.exitCode = await runToken(rest, terminal())
  else if (command === undefined || command === 'help' || args.includes('--help') || args.includes('-h'))
    process.stdout.write(`${helpText(version)}\n`)
  else if (command === 'serve') await runServer(rest)
  else if (command === 'export') await runExport({ ...copying(rest, ['--force']), version })
  else if (command === 'import') await runImport(copying(rest, []))
  else if (command === 'migrate') await runMigrate(rest)
  else if (command === 'check') runCheck(rest)
  else if (command === 'config') process.stdout.write(`${printSettings(loaded(rest))}\n`)
  else throw new SettingsError(`Unknown command ${JSON.stringify(command)}. See curfew --help.`)
}

/** For commands that have no log. */
function loaded(args: readonly string[], takes?: Takes): Loaded {
  const found = loadSettings(args, process.env, takes)
  for (const warning of found.warnings) process.stderr.write(`curfew: warning: ${warning}\n`)
  return found
}

function terminal(): Terminal {
  const { stdout, env } = process
  return {
    env,
    width: stdout.columns ?? 100,
    colour: stdout.isTTY && (env['NO_COLOR'] ?? '') === '',
    write: (text) => void stdout.write(`${text}\n`),
  }
}

async function runMigrate(args: readonly string[]): Promise<void> {
  const { values, switches } = loaded(args, { switches: ['--contract'] })
  process.stdout.write(`${await migrate(values, switches.has('--contract'))}\n`)
}

function runCheck(args: readonly string[]): void {
  const { values, names } = loaded(args, { names: 1 })
  const { isSound, text } = checkFile(values, names[0])
  process.stdout.write(`${text}\n`)
  if (!isSound) process.exitCode = 1
}

function copying(args: readonly string[], known: string[]): { settings: Settings; file: string; force: boolean } {
  const { values, names, switches } = loaded(args, { names: 1, switches: known })
  return { settings: values, file: names[0] ?? '-', force: switches.has('--force') }
}

function explain(error: unknown): string {
  const code = (error as { code?: string } | null)?.code
  if (code === 'EADDRINUSE') return 'The port is in use. Choose another with --port, or --port 0 for any free port.'
  if (code === 'EACCES') return 'Permission denied for that port or directory.'
  if (code === 'ENOENT') return `${(error as { path?: string }).path ?? 'A file'} does not exist.`
  return error instanceof Error ? error.message : String(error)
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`curfew: ${explain(error)}\n`)
  process.exitCode = error instanceof SettingsError ? 2 : error instanceof Stopped ? 130 : 1
})
