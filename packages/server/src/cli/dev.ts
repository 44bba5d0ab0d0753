/** `curfew dev`: a server in memory with its board, and a worker that starts again when its code changes. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { lengthInWords } from '@curfew/core'
import { until } from '../engine/kernel/until.ts'
import { nodeHost } from '../host.ts'
import { SettingsError } from '../settings.ts'
import { DevWorker } from './dev-worker.ts'
import { watchCode } from './dev-watch.ts'
import type { Call, Command } from './frame/command.ts'
import { EXIT } from './frame/exit.ts'
import { lengthOf, wholeOf } from './frame/flags.ts'
import { openInBrowser } from './operate/status.ts'

const PORT = 8080

async function runDev({ flags, terminal }: Call): Promise<number> {
  const file = flags.names[0] === undefined ? null : resolve(flags.names[0])
  if (file !== null && statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new SettingsError(`${file} is not a file. Name the file that starts your worker.`)
  const drainMs = lengthOf(flags.text('drain') ?? '10s', '--drain')
  const port = wholeOf(flags, 'port', PORT, 0)
  // From here on Ctrl-C asks, and does not end the process at once.
  const { signal } = terminal
  const { openServer } = await import('../server.ts')
  const server = await openServer({ data: ':memory:' })
  try {
    const { address } = await server.listen({ port })
    terminal.write(`${address}  server and board; everything is in memory and lost at the end`)
    const say = (text: string): void => {
      terminal.write(`curfew dev: ${text}`)
    }
    if (flags.has('open'))
      openInBrowser(`${address}/`, (why) => {
        say(`no browser was opened (${why}); the board is at ${address}/`)
      })
    const worker =
      file === null ? null : new DevWorker({ file, env: { ...terminal.env, CURFEW_URL: address }, drainMs, say })
    const watching =
      file === null
        ? null
        : watchCode(file, (name) => {
            say(`${name} changed`)
            worker?.start()
          })
    if (watching?.isPart === true) say(`only ${String(watching.folders)} folders are watched`)
    worker?.start()
    await ended(signal)
    watching?.close()
    if (worker !== null) say(`ending; the worker has ${lengthInWords(drainMs)} to finish its jobs`)
    await worker?.close()
    return EXIT.fine
  } finally {
    await server.close()
  }
}

/** By Ctrl-C, or by the end of the terminal: the worker is not in its session, so it would stay. */
const ended = (signal: AbortSignal | undefined): Promise<void> =>
  until(nodeHost, {
    signals: signal === undefined ? [] : [signal],
    listen: (end) => {
      process.once('SIGHUP', end)
      return () => {
        process.off('SIGHUP', end)
      }
    },
  })

export const DEV: Command = {
  name: 'dev',
  args: '[FILE]',
  summary: 'serve in memory with the board, and run a worker that starts again when its code changes',
  more: [
    'FILE is a program that starts a worker. It gets the address of the server as',
    'CURFEW_URL. When code in its folder changes (node_modules and hidden folders do',
    'not count), it gets SIGTERM, may finish its jobs, and is started again. Ctrl-C',
    'ends both.',
  ],
  options: {
    port: { value: 'N', help: `port of the server; 0: any free one [${String(PORT)}]` },
    open: { help: 'open the board in a browser' },
    drain: { value: 'LENGTH', help: 'how long the worker may take to end before it is killed [10s]' },
  },
  run: runDev,
}
