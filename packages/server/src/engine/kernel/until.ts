/** Waits for a length of time, for an abort or for an event, and leaves no timer and no listener behind. */
import type { Host } from '@curfew/core'

export interface Until {
  /** End the wait early. */
  readonly signals?: readonly AbortSignal[]
  /** Without it, only a signal or an event ends the wait. */
  readonly ms?: number
  /** Begins to listen for the event that calls `end`; returns how to stop listening. */
  readonly listen?: (end: () => void) => () => void
}

export function until(host: Pick<Host, 'setTimer'>, { signals = [], ms, listen }: Until): Promise<void> {
  if (isAnyAborted(signals)) return Promise.resolve()
  return new Promise((resolve) => {
    let isOver = false
    let unlisten = (): void => {}
    const end = (): void => {
      if (isOver) return
      isOver = true
      timer?.cancel()
      unhook()
      unlisten()
      resolve()
    }
    const timer = ms === undefined ? null : host.setTimer(ms, end)
    const unhook = onAbort(signals, end)
    unlisten = listen?.(end) ?? unlisten
    if (isOver) unlisten()
  })
}

/** Calls `act` when one of the signals is aborted from now on; returns how to stop listening. */
export function onAbort(signals: readonly AbortSignal[], act: () => void): () => void {
  for (const signal of signals) signal.addEventListener('abort', act, { once: true })
  return () => {
    for (const signal of signals) signal.removeEventListener('abort', act)
  }
}

export function isAnyAborted(signals: readonly AbortSignal[]): boolean {
  return signals.some(({ aborted }) => aborted)
}

/** The outcome of the work, unless the signal is aborted first: the work goes on, and what becomes of it is dropped. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(new Error('aborted'))
    }
    const unhook = onAbort([signal], abort)
    work.then(resolve, reject).finally(unhook)
    if (signal.aborted) abort()
  })
}
