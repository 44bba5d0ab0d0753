/** What a job's future looks like if workers fetch and live, as spans: waiting, attempts, grace and backoff. */
import type { Instant } from '../../time/clock.ts'
import type { Liveness } from '../liveness.ts'
import type { Job } from '../job.ts'
import { foresee, type Foreseen } from './foresee.ts'
import type { SpanKind } from './spans.ts'
import type { Mark, TimelineSpan } from './timeline-model.ts'

export interface ForeseenAttempt {
  readonly attempt: number
  readonly spans: readonly TimelineSpan[]
  readonly marks: readonly Mark[]
}

/** Enough for the attempt that runs and the two after it. */
const MAX_STEPS = 12

export function foreseenAttempts(
  job: Job,
  life: Liveness,
  now: Instant,
  isHeld: boolean,
): { readonly spans: readonly TimelineSpan[]; readonly attempts: readonly ForeseenAttempt[] } {
  const { steps } = foresee(job, life, now, { assume: 'living', most: MAX_STEPS, isHeld })
  const spans: TimelineSpan[] = []
  let kind = kindNow(job, steps[0])
  let from = now
  let attempt = job.attempt
  for (const step of steps) {
    const to = step.at > from ? step.at : from
    if (kind !== null && to > from)
      spans.push({
        kind,
        from,
        to,
        isFuture: true,
        ...(kind === 'attempt' || kind === 'grace' ? { attempt } : {}),
        ...(step.latestAt > to ? { latestTo: step.latestAt } : {}),
      })
    ;[kind, from, attempt] = [kindAfter(step), to, step.attempt]
  }
  return { spans, attempts: attemptsIn(job, steps, spans) }
}

/** Null where nothing is drawn: the job is over, or the wait has no end that is known. */
function kindNow(job: Job, first: Foreseen | undefined): SpanKind | null {
  if (first === undefined) return null
  if (job.state === 'active')
    return first.kind === 'soft_deadline' || first.limit !== 'grace_period' ? 'attempt' : 'grace'
  return job.state === 'retryable' && job.retryDelayMs !== null ? 'backoff' : 'waiting'
}

function kindAfter({ then }: Foreseen): SpanKind | null {
  switch (then) {
    case 'attempt':
      return 'attempt'
    case 'grace':
      return 'grace'
    case 'retry':
      return 'backoff'
    case 'available':
      return 'waiting'
    default:
      return null
  }
}

/** The attempts that have not begun, each with its limits. */
function attemptsIn(job: Job, steps: readonly Foreseen[], spans: readonly TimelineSpan[]): ForeseenAttempt[] {
  const isRunning = job.hold !== null
  const numbers = new Set(steps.filter(({ kind }) => kind === 'start').map(({ attempt }) => attempt))
  return [...numbers].map((attempt) => ({
    attempt,
    spans: spans.filter((span) => span.attempt === attempt),
    marks: steps
      .filter((step) => step.attempt === attempt && LIMITS.has(step.kind) && !(isRunning && attempt === job.attempt))
      .map((step) => ({
        kind: step.kind === 'start' ? 'started' : step.kind,
        at: step.at,
        isFuture: true,
        ...(step.kind === 'start' ? {} : { limit: limitOf(step) }),
      })),
  }))
}

const LIMITS: ReadonlySet<Foreseen['kind']> = new Set(['start', 'soft_deadline', 'hard_deadline'])

const limitOf = ({ limit, limitMs, source }: Foreseen): NonNullable<Mark['limit']> => ({
  limit,
  ...(limitMs === undefined ? {} : { limitMs }),
  source,
})
