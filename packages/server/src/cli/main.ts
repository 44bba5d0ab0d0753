#!/usr/bin/env node
/** The command. The one place that reads argv and the environment. */
import { createInterface } from 'node:readline/promises'
import { EXIT } from './frame/exit.ts'
import type { Terminal } from './frame/flags.ts'
import { interruptible, Stopped, type Interrupt } from './frame/interrupt.ts'
import { runCurfew } from './run.ts'
import { SettingsError } from '../settings.ts'

function terminal(): Terminal {
  const { stdin, stdout, stderr, env } = process
  let interrupt: Interrupt | null = null
  // Of a pipe it is undefined.
  const isTerminal = Boolean(stdout.isTTY)
  return {
    env,
    width: stdout.columns ?? 100,
    isTerminal,
    colour: isTerminal && (env['NO_COLOR'] ?? '') === '',
    write: (text) => void stdout.write(`${text}\n`),
    note: (text) => void stderr.write(`${text}\n`),
    ...(stdin.isTTY && stdout.isTTY ? { ask } : {}),
    get signal() {
      return (interrupt ??= interruptible()).signal
    },
  }
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

function explain(error: unknown): string {
  const code = (error as { code?: string } | null)?.code
  if (code === 'EADDRINUSE') return 'The port is in use. Choose another with --port, or --port 0 for any free port.'
  if (code === 'EACCES') return 'Permission denied for that port or directory.'
  if (code === 'ENOENT') return `${(error as { path?: string }).path ?? 'A file'} does not exist.`
  return error instanceof Error ? error.message : String(error)
}

// A reader such as head may have seen enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.fine)
  throw error
})

runCurfew(process.argv.slice(2), terminal()).then(
  (code) => {
    process.exitCode = code
  },
  (error: unknown) => {
    process.stderr.write(`curfew: ${explain(error)}\n`)
    process.exitCode =
      error instanceof SettingsError ? EXIT.usage : error instanceof Stopped ? EXIT.interrupted : EXIT.refused
  },
)
