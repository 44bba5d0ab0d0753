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
  if (signals.some(({ aborted }) => aborted)) return Promise.resolve()
  return new Promise((resolve) => {
    let isOver = false
    let unlisten = (): void => {}
    const end = (): void => {
      if (isOver) return
      isOver = true
      timer?.cancel()
      for (const signal of signals) signal.removeEventListener('abort', end)
      unlisten()
      resolve()
    }
    const timer = ms === undefined ? null : host.setTimer(ms, end)
    for (const signal of signals) signal.addEventListener('abort', end, { once: true })
    unlisten = listen?.(end) ?? unlisten
    if (isOver) unlisten()
  })
}
