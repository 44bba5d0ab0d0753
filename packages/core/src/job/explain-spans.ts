/** The spans of a job's life as `explain` shows them: what it did from when to when, and which limit bounded it. */
import { iso } from '../time/clock.ts'
import { seconds } from './explain-words.ts'
import type { StepSpan } from './step.ts'
import type { LifeSpan, SpanBound } from './timeline/spans.ts'

export interface Span {
  /** `step` and `sleep` lie within attempts, or between them. */
  readonly kind: 'waiting' | 'attempt' | 'backoff' | 'grace' | 'step' | 'sleep'
  readonly from: string
  readonly to?: string
  readonly attempt?: number
  /** Of a durable step. */
  readonly name?: string
  /** The limit by name and length, as it was set. */
  readonly limit?: string
  readonly limit_ms?: number
  readonly source?: string
  /** How long the span may last, counted from its beginning. */
  readonly effective_ms?: number
  /** The limit that leaves less than `limit_ms`, and who set it. */
  readonly clamped_by?: string
  readonly clamp_source?: string
  readonly worker_id?: string | null
}

export function spanView({ kind, from, to, attempt, worker, bound }: LifeSpan): Span {
  return {
    kind,
    from: iso(from),
    ...(to === null ? {} : { to: iso(to) }),
    ...(attempt === undefined ? {} : { attempt }),
    ...(bound === null ? {} : boundView(bound)),
    ...(worker === undefined ? {} : { worker_id: worker }),
  }
}

type Bound = Pick<Span, 'limit' | 'limit_ms' | 'source' | 'effective_ms' | 'clamped_by' | 'clamp_source'>

const boundView = ({ limit, ms, source, effectiveMs, clampedBy, clampSource }: SpanBound): Bound => ({
  limit: `${limit} ${seconds(ms)}`,
  limit_ms: ms,
  source,
  effective_ms: effectiveMs,
  ...(clampedBy === undefined ? {} : { clamped_by: clampedBy }),
  ...(clampSource === undefined ? {} : { clamp_source: clampSource }),
})

export const stepSpanView = ({ name, attempt, from, to, isSleep }: StepSpan): Span => ({
  kind: isSleep ? 'sleep' : 'step',
  from: iso(from),
  to: iso(to),
  attempt,
  name,
})
