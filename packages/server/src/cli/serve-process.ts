/** `curfew serve` as a process: its log, its signals, its end. */
import { pino, type Logger } from 'pino'
import { serve } from './serve.ts'
import type { Loaded, Settings } from '../settings.ts'

async function logger(settings: Settings): Promise<Logger> {
  const options = { level: String(settings['log-level']), base: { pid: process.pid } }
  if (!process.stderr.isTTY) return pino(options, pino.destination({ dest: 2, sync: true }))
  const { default: pretty } = await import('pino-pretty')
  return pino(options, pretty({ destination: 2, colorize: true, ignore: 'pid', sync: true }))
}

export async function runServer({ values, warnings }: Loaded): Promise<void> {
  const log = await logger(values)
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
