/** Waits for a length of time, for an abort, or for a call of `end`, and leaves no timer and no listener behind. */
import type { Host } from '@curfew/core'

export interface Until {
  /** Ends the wait early. */
  readonly signals?: readonly AbortSignal[]
  /** Without it, only a signal or `end` ends the wait. */
  readonly ms?: number
  /** Is given a function that ends the wait. It may be called more than once. */
  readonly onStart?: (end: () => void) => void
}

export function until(host: Pick<Host, 'setTimer'>, { signals = [], ms, onStart }: Until): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      timer?.cancel()
      for (const signal of signals) signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = ms === undefined ? null : host.setTimer(ms, end)
    for (const signal of signals) signal.addEventListener('abort', end, { once: true })
    if (signals.some(({ aborted }) => aborted)) end()
    onStart?.(end)
  })
}
