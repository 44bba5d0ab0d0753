/**
 * Calls that wait for a run. A wait ends with what it waits for, when the caller hangs up (the run goes on), when the
 * server stops, and after its own timeout if it has one; the caller then reads the run as it is.
 */
import type { Engine } from '../../engine/engine.ts'
import { isAnyAborted, onAbort, until } from '../../engine/kernel/until.ts'
import { endingIn } from '../../engine/metrics/journey-meters.ts'
import type { Call } from '../api/route.ts'

/** Resolves when the condition holds, or when waiting is pointless. */
export async function wait(
  { engine, request }: Pick<Call, 'engine' | 'request'>,
  condition: (signal: AbortSignal) => Promise<unknown>,
  timeoutMs: number | null = null,
): Promise<void> {
  const over = new AbortController()
  const stop = (): void => {
    over.abort()
  }
  const stopped = until(engine.host, { signals: [over.signal] })
  const timer = timeoutMs === null ? null : engine.host.setTimer(timeoutMs, stop)
  const signals = [request.signal, engine.closing]
  const unhook = onAbort(signals, stop)
  if (isAnyAborted(signals)) stop()
  const reached = condition(over.signal).catch((error: unknown) => {
    // The wait may be over already; then the result is dropped.
    if (!over.signal.aborted) throw error
  })
  try {
    await Promise.race([reached, stopped])
  } finally {
    timer?.cancel()
    unhook()
    over.abort()
  }
}

/** Resolves when an event says that the run is over. Also asks `isOver`: the run may have ended before we subscribed. */
export function untilEnded(
  engine: Engine,
  id: string,
  signal: AbortSignal,
  isOver: () => Promise<boolean>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      forget()
      resolve()
    }
    const forget = engine.listen(({ events }) => {
      if (events.some((event) => event.subject === id && endingIn(event) !== null)) finish()
    })
    onAbort([signal], finish)
    isOver().then((over) => {
      if (over || signal.aborted) finish()
    }, reject)
  })
}
