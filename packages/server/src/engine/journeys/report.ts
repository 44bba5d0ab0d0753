/**
 * One line in the log, and one span, for every run that ended: names, ids, codes and lengths. What a run worked on, what
 * came in its headers, and reasons, in which an author may have put data, go into neither.
 */
import { before, millis, type Instant, type JourneyEnding } from '@curfew/core'
import type { StoredEvent } from '../../store/store.ts'
import type { Log } from '../kernel/context.ts'
import { endingIn } from '../metrics/journey-meters.ts'

/** A run that is over, for tracing (`tracing.ts`). */
export interface RunSpan {
  readonly name: string
  readonly startedAt: Instant
  readonly endedAt: Instant
  readonly attributes: Readonly<Record<string, string | number>>
  /** The code of the error, if it failed. */
  readonly errorCode: string | null
}

export type Trace = (span: RunSpan) => void

export function reportRun(event: Pick<StoredEvent, 'type' | 'data' | 'at'>, log: Log, trace: Trace): void {
  const ending = endingIn(event)
  if (ending === null) return
  log.info(lineOf(ending), `a run ended: ${ending.termination_kind}`)
  trace(spanOf(ending, event.at))
}

function lineOf(ending: JourneyEnding): Record<string, string | number> {
  return {
    journeyId: ending.journey_id,
    journeyName: ending.journey_name,
    journeyVersion: ending.journey_version,
    kind: ending.kind,
    phase: ending.phase,
    terminationKind: ending.termination_kind,
    terminatedAtState: ending.terminated_at_state,
    ...(ending.error === undefined ? {} : { errorCode: ending.error.code }),
    durationMs: ending.duration_ms,
    marginMs: ending.margin_ms,
    limitedBy: ending.limited_by,
    ...(ending.overshoot_ms === undefined ? {} : { overshootMs: ending.overshoot_ms }),
  }
}

function spanOf(ending: JourneyEnding, endedAt: Instant): RunSpan {
  const errorCode = ending.error?.code ?? null
  return {
    name: `${ending.journey_name} run`,
    startedAt: before(endedAt, millis(ending.duration_ms)),
    endedAt,
    attributes: {
      'journey.id': ending.journey_id,
      'journey.name': ending.journey_name,
      'journey.version': ending.journey_version,
      'journey.kind': ending.kind,
      'journey.phase': ending.phase,
      'journey.status': ending.status,
      'journey.termination_kind': ending.termination_kind,
      'journey.terminated_at_state': ending.terminated_at_state,
      ...(errorCode === null ? {} : { 'journey.error_code': errorCode }),
      'curfew.deadline': ending.deadline,
      'curfew.limited_by': ending.limited_by,
    },
    errorCode,
  }
}
