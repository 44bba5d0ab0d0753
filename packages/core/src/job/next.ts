/**
 * What happens to a job next if no signal arrives: no result, no sign of life, no request. The first step of what is
 * foreseen (`timeline/foresee.ts`).
 */
import { iso, type Instant } from '../time/clock.ts'
import type { Job } from './job.ts'
import type { Liveness } from './liveness.ts'
import type { ClockKind } from './timeline/clocks.ts'
import { foresee, type Consequence, type Foreseen } from './timeline/foresee.ts'

export interface Next {
  readonly kind: ClockKind
  readonly at: string
  /** The limit by its name on the wire. */
  readonly limit: string
  /** Absent where the limit is an instant. */
  readonly limit_ms?: number
  readonly source: string
  readonly then: Consequence
}

/** Null when nothing is pending: the job has ended, or waits for a signal alone. */
export function nextFor(job: Job, life: Liveness, now: Instant): Next | null {
  const [first] = foresee(job, life, now, { most: 1 }).steps
  return first === undefined ? null : nextView(first)
}

export function nextView({ kind, at, limit, limitMs, source, then }: Foreseen): Next | null {
  // A job that no worker fetches does not start.
  if (kind === 'start') return null
  return { kind, at: iso(at), limit, ...(limitMs === undefined ? {} : { limit_ms: limitMs }), source, then }
}
