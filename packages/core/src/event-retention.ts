/** How much of the event log is kept. The newest event always is: it tells the numbering where to go on. */
import type { Instant, Millis } from './time/clock.ts'
import { before } from './time/sums.ts'

export interface EventRetention {
  readonly maxAgeMs: Millis
  readonly maxCount: number
}

/** Events from before this are too old, beside the newest one. */
export function eventsKeptSince({ maxAgeMs }: EventRetention, newestAt: Instant): Instant {
  return before(newestAt, maxAgeMs)
}

/** How many events one save may remove: a little more than it adds, so that the log shrinks without a long delete. */
export function maxPruned(added: number): number {
  return 2 * added + 16
}
