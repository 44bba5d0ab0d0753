/**
 * What a transition adds to a tally. Everything but waits and lengths of attempts is read from the events of the
 * transition, so that a tally says the same as the log. This runs for every change of every job: no text is parsed and
 * nothing is allocated but new cells.
 */
import type { NewEvent } from '../events.ts'
import type { Job } from '../job/job.ts'
import type { Transition } from '../job/lifecycle/transition.ts'
import type { Instant } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'
import { emptySketch, noteLength } from './sketch.ts'
import { timeoutKey, type Cell, type SeriesKind, type SeriesOutcome } from './tally.ts'

const OUTCOMES: Readonly<Partial<Record<NewEvent['type'], SeriesOutcome>>> = {
  'job.started': 'started',
  'job.completed': 'completed',
  'job.failed': 'failed',
  'job.retrying': 'retried',
  'job.interrupted': 'interrupted',
  'job.cancelled': 'cancelled',
  'job.discarded': 'discarded',
  'job.expired': 'expired',
}

/** `cell`: of the queue and type of the job. */
export function countTransition(cell: Cell, { before, job, events }: Transition, now: Instant): void {
  if (before === null) add(cell, 'created', 1)
  for (const event of events) {
    const outcome = OUTCOMES[event.type]
    if (outcome !== undefined) add(cell, outcome, 1)
    const kind = timeoutKindOf(event, events)
    if (kind !== null) countTimeout(cell, kind, event.data['source'], event.data['overshoot_ms'])
  }
  if (before !== null && job !== null) countLengths(cell, before, job, now)
}

export function add(cell: Cell, outcome: SeriesOutcome, count: number): void {
  cell.counts[outcome] = (cell.counts[outcome] ?? 0) + count
}

/** `overshootMs`: of no use where it is not a number, as of a timeout that was reported or foreseen. */
export function countTimeout(cell: Cell, kind: SeriesKind, source: unknown, overshootMs: unknown): void {
  const key = timeoutKey(kind, typeof source === 'string' ? source : 'default')
  const known = (cell.timeouts[key] ??= { n: 0, overshoot: emptySketch() })
  known.n += 1
  if (typeof overshootMs === 'number') noteLength(known.overshoot, overshootMs)
}

function countLengths(cell: Cell, before: Job, job: Job, now: Instant): void {
  if (before.state === 'available' && job.state === 'active')
    noteLength(cell.waits, elapsed(before.enqueuedAt ?? before.createdAt, now))
  if (before.state === 'active' && job.state !== 'active' && before.startedAt !== null)
    noteLength(job.state === 'completed' ? cell.completed : cell.cut, elapsed(before.startedAt, now))
}

/** Each limit that ran out once: a TTL has two events, and the second is about `expires_at` only where it stands alone. */
export function timeoutKindOf(
  { type, data }: { readonly type: string; readonly data: NewEvent['data'] },
  beside: readonly { readonly type: string }[],
): SeriesKind | null {
  switch (type) {
    case 'job.timeout':
      return 'execution'
    case 'job.total_timeout':
      return 'total'
    case 'job.ttl_expired':
      return 'enqueue_ttl'
    case 'job.expired':
      return beside.some((other) => other.type === 'job.ttl_expired') ? null : 'expires_at'
    case 'job.stalled':
      return CAUSES[String(data['cause'])] ?? 'stalled'
    case 'job.cancelled':
      return data['reason'] === 'workflow_timeout' && data['overshoot_ms'] !== undefined ? 'workflow' : null
    default:
      return null
  }
}

const CAUSES: Readonly<Record<string, SeriesKind>> = {
  heartbeat_timeout: 'stalled',
  worker_death: 'worker_death',
  visibility_timeout: 'visibility',
}
