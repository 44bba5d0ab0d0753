/** `curfew serve` as a process: its log, its signals, its end. */
import { pino, type Logger } from 'pino'
import pretty from 'pino-pretty'
import type { Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { serve } from './serve.ts'
import type { Loaded, Settings } from '../settings.ts'

function logger(settings: Settings): Logger {
  const options = { level: String(settings['log-level']), base: { pid: process.pid } }
  return process.stderr.isTTY
    ? pino(options, pretty({ destination: 2, colorize: true, ignore: 'pid', sync: true }))
    : pino(options, pino.destination({ dest: 2, sync: true }))
}

async function runServer({ values, warnings }: Loaded): Promise<void> {
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

export const SERVE: Command = {
  name: 'serve',
  summary: 'start the server',
  settings: true,
  async run({ settings }) {
    await runServer(settings())
    return EXIT.fine
  },
}
