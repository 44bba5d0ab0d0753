/** For how long nothing but housekeeping will happen by itself; the test kit advances its clock past such a time. */
import { earliest, elapsed, type Worker } from '@curfew/core'
import type { JobsContext } from './context.ts'

/**
 * Zero while a job is active, or available in a queue that a poll asks for. Otherwise until the next job or document is due,
 * or a worker without an open poll would be declared dead: an open poll is a sign of life. Infinity: nothing is to come.
 */
export function idleMs(context: JobsContext): Promise<number> {
  const { polls } = context
  return context.read(async (reads, now) => {
    for (const [queue, { active, available }] of await reads.counts())
      if (active > 0 || (available > 0 && polls.asksFor(queue))) return 0
    let next = await reads.nextWorkAt()
    for (const worker of await reads.workers()) {
      if (!polls.isOpen(worker.id)) next = earliest(next, worker.wakeAt)
      else if (!isInOrder(worker)) return 0
    }
    return next === null ? Infinity : Math.max(0, elapsed(now, next))
  })
}

/** The answer to its next beat is empty: neither to register again, nor to become quiet or to stop. */
function isInOrder({ registered, state, directive }: Worker): boolean {
  return registered && state === 'running' && directive === 'continue'
}
