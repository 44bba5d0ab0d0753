/**
 * Foresight for journeys: where the time of a run would go, before anything runs. The caller assumes how long states take
 * and where choices go; the plan walks the graph on a clock of its own and says when each state starts and ends, which
 * limit is the nearer one, where the deadline strikes, and what it keeps from ever starting.
 *
 *   |-- load 1.2 s --|-- checks ----------------|            each state gets the smaller of its own limit and
 *                    |-- risk 4 s --------------|-- approve  what is left of the run: what is cut off by its own
 *                    |-- patience 5 s ----------| (lost)  |  goes on from there, what is cut off by the run's does not
 *
 * No expression is evaluated and no call is made: their results are assumed, like everything else.
 */
import type { Instant, Millis } from '../../time/clock.ts'
import type { RunLimits } from '../../time/budget.ts'
import { MAX_DURATION_MS } from '../../time/durations.ts'
import { placesIn, type Assumptions } from './assumptions.ts'
import { PlanWalk } from './plan-walk.ts'
import { beginRun } from '../run/life.ts'
import type { Definition } from '../definition.ts'
import type { LimitedBy } from '../run/run.ts'

export interface PlannedVisit {
  readonly path: string
  readonly type: string
  readonly startsAfterMs: Millis
  readonly endsAfterMs: Millis
  /** Its own limit (of a call: of each attempt), what is left of the run when it starts, and the smaller of the two. */
  readonly ownLimitMs: Millis | null
  readonly remainingMs: Millis
  readonly effectiveMs: Millis
  /** Which of the two that is: on a tie it is the run's. */
  readonly limit: 'own' | 'run'
  /** How often a call is made. */
  readonly attempts: number
  /** `lost`: another branch was faster. */
  readonly endedBy: 'itself' | 'own limit' | 'deadline' | 'lost'
}

export interface PlannedEnd {
  /** `Loop`: it goes round and round without time passing, and only its deadline would end it. */
  readonly kind: 'Success' | 'Fail' | 'Timeout' | 'Loop'
  readonly path: string
  readonly afterMs: Millis
  readonly error: { readonly code: string; readonly reason: string } | null
}

export interface JourneyPlan {
  readonly name: string
  readonly version: string
  readonly budgetMs: Millis
  readonly limitedBy: LimitedBy
  readonly visits: readonly PlannedVisit[]
  readonly end: PlannedEnd
  /** What would have come if there had been time, in that order. */
  readonly neverStarts: readonly string[]
  /** How long it would take without a deadline; null: nothing would end it. */
  readonly wouldTakeMs: Millis | null
  /** States that this way does not lead to. */
  readonly notOnTheWay: readonly string[]
}

const NO_CALLER = { id: '', context: {}, tags: [], attributes: {}, parent: null, inheritedAt: null }

/** `startedAt` is when the run would begin: timers that name an instant need it. */
export function planJourney(
  definition: Definition,
  limits: RunLimits,
  assumptions: Assumptions,
  startedAt: Instant,
): JourneyPlan {
  const run = beginRun({ ...NO_CALLER, definition, startedAt }, limits)
  const { visits, end } = new PlanWalk(definition, assumptions, startedAt, run.limitMs).whole()
  const free = new PlanWalk(definition, assumptions, startedAt, MAX_DURATION_MS).whole()
  const seen = new Set(visits.map(({ path }) => path))
  const wanted = new Set(free.visits.map(({ path }) => path))
  const { errorCode: code, reason } = run.onTimeout
  return {
    name: definition.name,
    version: definition.version,
    budgetMs: run.limitMs,
    limitedBy: run.limitedBy,
    visits,
    end: end.kind === 'Timeout' ? { ...end, error: { code, reason } } : end,
    neverStarts: [...wanted].filter((path) => !seen.has(path)),
    wouldTakeMs: free.end.kind === 'Success' || free.end.kind === 'Fail' ? free.end.afterMs : null,
    notOnTheWay: placesIn(definition).flatMap(({ path }) => (seen.has(path) || wanted.has(path) ? [] : [path])),
  }
}
