/**
 * The events of a run: that it started, and, exactly once, how it ended. Of what it worked on they hold only the status,
 * which is a word, and a reason, as its author wrote it.
 */
import { iso } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'
import type { EventType, NewEvent } from '../events.ts'
import {
  currentState,
  type End,
  type LimitedBy,
  type Run,
  type RunError,
  type RunKind,
  type TerminationKind,
} from '../journey/run/run.ts'
import { businessStatus } from '../journey/view/view.ts'

const ENDINGS: Readonly<Record<TerminationKind, EventType>> = {
  Success: 'journey.completed',
  Fail: 'journey.failed',
  RuntimeError: 'journey.failed',
  Timeout: 'journey.timeout',
  Cancel: 'journey.cancelled',
}

export function journeyStarted(run: Run): NewEvent {
  const { deadlineAt, limitedBy, compensates } = run
  return journeyEvent('journey.started', run, run.startedAt, {
    deadline: iso(deadlineAt),
    limited_by: limitedBy,
    ...(compensates === null ? {} : { compensates: compensates.id }),
  })
}

/** What `journeyEnded` tells, as it is read back from the log. */
export interface JourneyEnding {
  readonly journey_id: string
  readonly journey_name: string
  readonly journey_version: string
  readonly kind: RunKind
  readonly phase: End['phase']
  readonly status: string
  readonly termination_kind: TerminationKind
  readonly terminated_at_state: string
  readonly at_state_type: string
  readonly error?: RunError
  readonly deadline: string
  readonly limited_by: LimitedBy
  readonly duration_ms: number
  readonly margin_ms: number
  /** Of a timeout: the limit that ended it, in the words that events of jobs use. */
  readonly source?: LimitedBy
  readonly limit_ms?: number
  readonly elapsed_ms?: number
  readonly overshoot_ms?: number
  readonly late_ms?: number
  readonly downtime_ms?: number
}

/** A status is a word; what is longer is cut. */
const MAX_STATUS_LENGTH = 128

/** Of a run that is over. */
export function journeyEnded(run: Run): NewEvent {
  const { end, endedAt, startedAt, deadlineAt, limitedBy, overshootMs, lateMs, downtimeMs } = run
  if (end === null || endedAt === null) throw new Error(`run ${run.id} is not over`)
  const data: Omit<JourneyEnding, `journey_${string}` | 'kind'> = {
    phase: end.phase,
    status: businessStatus(end).slice(0, MAX_STATUS_LENGTH),
    termination_kind: end.terminationKind,
    terminated_at_state: end.terminatedAtState,
    at_state_type: endedInType(run, end),
    ...(end.error === null ? {} : { error: end.error }),
    deadline: iso(deadlineAt),
    limited_by: limitedBy,
    duration_ms: elapsed(startedAt, endedAt),
    margin_ms: elapsed(endedAt, deadlineAt),
    ...(end.terminationKind === 'Timeout'
      ? { source: limitedBy, limit_ms: elapsed(startedAt, deadlineAt), elapsed_ms: elapsed(startedAt, endedAt) }
      : {}),
    ...(overshootMs === null ? {} : { overshoot_ms: overshootMs }),
    ...(lateMs === undefined ? {} : { late_ms: lateMs }),
    ...(downtimeMs === undefined ? {} : { downtime_ms: downtimeMs }),
  }
  return journeyEvent(ENDINGS[end.terminationKind], run, endedAt, { ...data })
}

export function journeyEvent(
  type: EventType,
  { id, name, version, kind }: Pick<Run, 'id' | 'name' | 'version' | 'kind'>,
  at: NewEvent['at'],
  data: Readonly<Record<string, unknown>>,
): NewEvent {
  const common = { journey_id: id, journey_name: name, journey_version: version, kind }
  return { type, at, subject: id, queue: null, jobType: null, data: { ...common, ...data } }
}

/** The type of the state in which a run ended, as authors know it; `none` if it had entered none yet. */
function endedInType({ trail, root }: Run, { terminatedAtState }: End): string {
  const visit = trail.findLast(({ path }) => path === terminatedAtState)
  return visit?.type ?? currentState(root).type ?? 'none'
}
