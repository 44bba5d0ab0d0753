/** How late the decision about a deadline was, and how much of that no server was at work. */
import { creditFor, type Outage } from './liveness.ts'
import { instant, millis, type Instant, type Millis } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'

/** How late a decision was, in three figures. */
export interface Lateness {
  /** What is charged to the decision: see `overshootOf`. */
  readonly overshootMs: Millis
  /** What really passed since the deadline, or since it was set. */
  readonly lateMs: Millis
  /** How much of that no server was at work. */
  readonly downtimeMs: Millis
}

export function latenessOf(
  deadlineAt: Instant,
  setAt: Instant,
  upAt: Instant,
  outages: readonly Outage[],
  now: Instant,
): Lateness {
  const since = instant(Math.max(deadlineAt, setAt))
  return {
    overshootMs: overshootOf(deadlineAt, setAt, upAt, now),
    lateMs: elapsed(since, now),
    downtimeMs: downtimeIn(since, upAt, outages, now),
  }
}

/**
 * A server that is up decides at the deadline, so one that was left undecided until this server came up was left by a
 * server that was down. Later outages are times in which this server stood still, or could not reach its store.
 */
function downtimeIn(since: Instant, upAt: Instant, outages: readonly Outage[], now: Instant): Millis {
  const startedUpAt = instant(Math.min(Math.max(since, upAt), now))
  const later = outages.filter(({ from, to }) => from >= upAt && from < now && to <= now)
  return millis(elapsed(since, startedUpAt) + creditFor(startedUpAt, later))
}

/** How late a decision was: not counted from before the deadline was set, nor from before the server was up. */
export function overshootOf(deadlineAt: Instant, setAt: Instant, upAt: Instant, now: Instant): Millis {
  return elapsed(instant(Math.max(deadlineAt, setAt, upAt)), now)
}
