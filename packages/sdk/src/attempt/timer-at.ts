import { leftUntil, type Host, type Timer } from '@curfew/core'

/**
 * Fires when the monotonic clock has reached `at`, never before. A machine's timer may be a little early, and cannot
 * reach further than some weeks: so it is set again until the instant is there.
 */
export function timerAt(host: Host, at: number, fire: () => void): Timer {
  let timer: Timer | null = null
  const arm = (): void => {
    timer = host.setTimer(leftUntil(at, host.monotonicMs()), () => {
      if (host.monotonicMs() < at) arm()
      else fire()
    })
  }
  if (at !== Infinity) arm()
  return { cancel: () => timer?.cancel() }
}
