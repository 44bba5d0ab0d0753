/** What is said of an isolate that died by itself: what happened, and what to do. */
import type { Gone, IsolateKind } from './isolate.ts'
import type { ErrorData } from '../attempt/facts.ts'

/** How V8 ends a process that has no memory left; a native module may end it so too. */
const ABORTS: readonly string[] = ['SIGABRT', 'SIGTRAP', 'SIGILL']

export function deathOf(kind: IsolateKind, gone: Gone, crash: ErrorData | null): ErrorData {
  const place = kind.isolation === 'thread' ? 'thread' : 'process'
  const limit =
    kind.memoryMb === null ? 'the default limit of Node' : `its limit of ${String(kind.memoryMb)} MB (memoryMb)`
  const roomier = 'Raise memoryMb, or let the handler hold less at a time.'
  switch (gone.how) {
    case 'unstarted':
      return isolateError(
        'isolate_not_started',
        `The handler's ${place} could not be started: ${gone.error.message}`,
        gone.error,
      )
    case 'error':
      if (gone.error.code === 'ERR_WORKER_OUT_OF_MEMORY')
        return isolateError(
          'out_of_memory',
          `The handler's ${place} ran out of memory: it reached ${limit}. ${roomier}`,
        )
      return uncaught(place, gone.error)
    case 'exit':
      if (crash !== null) return uncaught(place, crash)
      return isolateError(
        'isolate_exited',
        `The handler's ${place} ended with exit code ${String(gone.code)} before the handler did: something called ` +
          `process.exit(). Return or throw instead.`,
      )
    case 'signal':
      if (ABORTS.includes(gone.signal))
        return isolateError(
          'out_of_memory',
          `The handler's ${place} was ended by ${gone.signal}, most likely out of memory: it reached ${limit}. ${roomier}`,
        )
      if (gone.signal === 'SIGKILL')
        return isolateError(
          'isolate_killed',
          `The handler's ${place} was killed from outside (SIGKILL), by an operator or by a system short of memory.`,
        )
      return isolateError(
        'isolate_crashed',
        `The handler's ${place} was ended by ${gone.signal}, from a native module or from outside.`,
      )
    case 'switch':
    case 'stuck':
      return isolateError('isolate_killed', `The handler's ${place} was ended by force.`)
  }
}

function uncaught(place: string, error: ErrorData): ErrorData {
  return isolateError(
    'uncaught_error',
    `An error outside the handler's own promise ended its ${place}: ${error.name}: ${error.message}. Await every ` +
      `promise, and listen for 'error' events.`,
    error,
  )
}

function isolateError(code: string, message: string, cause?: ErrorData): ErrorData {
  return { name: 'IsolateError', code, message, ...(cause?.stack === undefined ? {} : { stack: cause.stack }) }
}
