/**
 * Calls that wait for a run. A wait ends with what it waits for, when the caller hangs up (the run goes on), when the
 * server stops, and after its own timeout if it has one; the caller then reads the run as it is.
 */
import type { Engine } from '../../engine/engine.ts'
import { endingIn } from '../../engine/metrics/journey-meters.ts'
import type { Call } from '../api/route.ts'

/** Resolves when the condition holds, or when waiting is pointless. */
export async function wait(
  { engine, request }: Pick<Call, 'engine' | 'request'>,
  until: (signal: AbortSignal) => Promise<unknown>,
  timeoutMs: number | null = null,
): Promise<void> {
  const over = new AbortController()
  const stop = (): void => {
    over.abort()
  }
  const stopped = new Promise<void>((resolve) => {
    over.signal.addEventListener('abort', () => {
      resolve()
    })
  })
  const timer = timeoutMs === null ? null : engine.host.setTimer(timeoutMs, stop)
  for (const signal of [request.signal, engine.closing]) {
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
  }
  const reached = until(over.signal).catch((error: unknown) => {
    // The wait may be over already; then the result is dropped.
    if (!over.signal.aborted) throw error
  })
  try {
    await Promise.race([reached, stopped])
  } finally {
    timer?.cancel()
    for (const signal of [request.signal, engine.closing]) signal.removeEventListener('abort', stop)
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
    signal.addEventListener('abort', finish, { once: true })
    isOver().then((over) => {
      if (over || signal.aborted) finish()
    }, reject)
  })
}
