/** Ctrl-C for commands that must leave a clear state: the first asks them to stop, the second does not ask. */

export class Stopped extends Error {
  constructor(message = 'Stopped.') {
    super(message)
  }
}

export interface Interrupt {
  readonly signal: AbortSignal
  /** Signals end the process again. */
  readonly release: () => void
}

export function interruptible(): Interrupt {
  const controller = new AbortController()
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(130)
    controller.abort(new Stopped())
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop)
      process.off('SIGTERM', stop)
    },
  }
}
