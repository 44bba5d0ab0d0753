/** The way a plan goes through a graph (`journey/plan/plan.ts`): each branch on a clock of its own. */
import { LIMIT_FIELDS } from '../../wire/job/limits.ts'
import { millis, seconds, type Instant, type Millis } from '../../time/clock.ts'
import { after, elapsed, isDue } from '../../time/sums.ts'
import { budgetLeft, callEndsAt, restFits } from '../../time/budget.ts'
import { MAX_DURATION_MS, parseIsoDuration, parseMoment } from '../../time/durations.ts'
import { assumedFor, takesTime, type Assumptions } from './assumptions.ts'
import { DEFAULT_CALL_TIMEOUT_MS, delayBefore, failedResult, isRetryable } from '../call.ts'
import type { PlannedEnd, PlannedVisit } from './plan.ts'
import {
  stateTypeOf,
  type Definition,
  type Graph,
  type JobTask,
  type Parallel,
  type Resilience,
} from '../definition.ts'
import type { Choice, State, StateId, Subjourney, TimerState } from '../definition.ts'

/** A plan has no more visits than this. */
const MAX_VISITS = 500
const NO_TIME = millis(0)
const TIMED_OUT = failedResult('TIMEOUT', '')
const middling = (): number => 0.5
/** The end of a graph: when, and what was visited on the way to it. */
export interface Ended {
  readonly end: PlannedEnd
  readonly at: Instant
  readonly visits: readonly PlannedVisit[]
}

/** What one state came to: on to `next`, or the end of its graph. */
interface Step {
  readonly at: Instant
  readonly visits: readonly PlannedVisit[]
  readonly next?: StateId
  readonly end?: PlannedEnd
}

export class PlanWalk {
  readonly #definition: Definition
  readonly #assumptions: Assumptions
  readonly #startedAt: Instant
  readonly #deadlineAt: Instant
  readonly #made = new Map<string, number>()
  #visits = 0

  constructor(definition: Definition, assumptions: Assumptions, startedAt: Instant, budgetMs: Millis) {
    this.#definition = definition
    this.#assumptions = assumptions
    this.#startedAt = startedAt
    this.#deadlineAt = after(startedAt, budgetMs)
  }

  whole(): Ended {
    return this.#graph(this.#definition, '', this.#startedAt)
  }

  #graph(graph: Graph, prefix: string, from: Instant): Ended {
    const visits: PlannedVisit[] = []
    let [id, at] = [graph.start, from]
    for (;;) {
      const path = prefix === '' ? id : `${prefix}/${id}`
      const state = graph.states[id]
      if (state === undefined || this.#visits >= MAX_VISITS) return { end: this.#ending('Loop', path, at), at, visits }
      this.#visits += 1
      const step = this.#enter(state, path, at)
      visits.push(...step.visits)
      if (step.next === undefined) return { end: step.end ?? this.#ending('Loop', path, at), at: step.at, visits }
      ;[id, at] = [step.next, step.at]
    }
  }

  #enter(state: State, path: string, at: Instant): Step {
    const pass = { next: '', takesMs: takesTime(state) ? this.#takes(path) : NO_TIME, ownMs: null, onLimit: null }
    switch (state.type) {
      case 'succeed':
      case 'fail': {
        const error = state.type === 'fail' ? { code: state.errorCode, reason: state.reason } : null
        const end = this.#ending(error === null ? 'Success' : 'Fail', path, at, error)
        return { at, visits: [this.#visit(state, path, at, at)], end }
      }
      case 'choice':
        return this.#spend(state, path, at, { ...pass, next: this.#choose(path, state) })
      case 'httpCall':
        if (state.mode === 'notify') return this.#spend(state, path, at, { ...pass, next: state.next })
        return this.#spend(state, path, at, {
          ...pass,
          next: state.next,
          ownMs: state.timeoutMs ?? this.#definition.http.timeoutMs ?? DEFAULT_CALL_TIMEOUT_MS,
          resilience: state.resilience,
        })
      case 'job':
        return this.#spend(state, path, at, { ...pass, next: state.next, ownMs: jobLimitMs(state) })
      case 'wait':
      case 'webhook': {
        const { next, timeoutMs: ownMs, onTimeout: onLimit } = state
        return this.#spend(state, path, at, { ...pass, next, ownMs, onLimit })
      }
      case 'timer':
        return this.#spend(state, path, at, { ...pass, next: state.next, takesMs: this.#sleeps(state, path, at) })
      case 'transform':
      case 'schedule':
      case 'apiKeyCheck':
        return this.#spend(state, path, at, { ...pass, next: state.next })
      case 'parallel':
        return this.#fork(state, path, at)
      case 'subjourney':
        return this.#into(state, path, at)
    }
  }

  /** Within its own limit and the run's; a call that times out is made again where its policy says so. */
  #spend(state: State, path: string, from: Instant, spending: Spending): Step {
    const { takesMs, ownMs, next, onLimit, resilience = null } = spending
    let at = from
    for (let attempts = 1; ; attempts += 1) {
      const limitAt = callEndsAt(at, ownMs ?? MAX_DURATION_MS, this.#deadlineAt)
      const doneAt = takesMs === null ? null : after(at, takesMs)
      const visited = (to: Instant, endedBy?: PlannedVisit['endedBy']): readonly PlannedVisit[] => [
        this.#visit(state, path, from, to, { ownMs, attempts, endedBy }),
      ]
      // What would be over in the very instant of a limit is late.
      if (doneAt !== null && doneAt < limitAt) return { at: doneAt, visits: visited(doneAt), next }
      if (isDue(this.#deadlineAt, limitAt)) {
        const end = this.#ending('Timeout', path, this.#deadlineAt)
        return { at: this.#deadlineAt, visits: visited(this.#deadlineAt, 'deadline'), end }
      }
      const again = resilience !== null && attempts < resilience.maxAttempts && isRetryable(TIMED_OUT, resilience)
      const restMs = again ? delayBefore(attempts + 1, resilience, middling) : NO_TIME
      if (!again || !restFits(this.#deadlineAt, limitAt, restMs))
        return { at: limitAt, visits: visited(limitAt, 'own limit'), next: onLimit ?? next }
      at = after(limitAt, restMs)
    }
  }

  #fork(state: Parallel, path: string, from: Instant): Step {
    const branches = state.branches.map((branch) => this.#graph(branch, `${path}/${branch.name}`, from))
    const at = joinedAt(state.join, branches)
    const around = (to: Instant, endedBy?: PlannedVisit['endedBy']): PlannedVisit =>
      this.#visit(state, path, from, to, { endedBy })
    if (at !== null) {
      const joined = elapsed(this.#startedAt, at)
      const visits = branches.flatMap(({ visits: all, at: endedAt }) => (endedAt <= at ? all : cutAt(all, joined)))
      return { at, visits: [around(at), ...visits], next: state.next }
    }
    const open = branches.filter(({ end }) => end.kind === 'Timeout' || end.kind === 'Loop')
    const kind = open.every((branch) => branch.end.kind === 'Loop') ? 'Loop' : 'Timeout'
    const [only] = open
    const end = this.#ending(kind, open.length === 1 && only !== undefined ? only.end.path : path, this.#deadlineAt)
    const visits = branches.flatMap((branch) => branch.visits)
    return { at: this.#deadlineAt, visits: [around(this.#deadlineAt, 'deadline'), ...visits], end }
  }

  #into(state: Subjourney, path: string, from: Instant): Step {
    const graph = this.#definition.subjourneys[state.ref]
    if (graph === undefined) return { at: from, visits: [], end: this.#ending('Loop', path, from) }
    const { at, end, visits } = this.#graph(graph, path, from)
    const endedBy = end.kind === 'Timeout' ? 'deadline' : 'itself'
    const all = [this.#visit(state, path, from, at, { endedBy }), ...visits]
    if (end.kind === 'Fail' && state.onFailure === 'propagate')
      return { at, visits: all, end: this.#ending('Fail', path, at, end.error) }
    return end.kind === 'Success' || end.kind === 'Fail'
      ? { at, visits: all, next: state.next }
      : { at, visits: all, end }
  }

  #takes(path: string): Millis | null {
    const { takes } = this.#assumptions
    const taking = assumedFor(takes, path) ?? takes['*'] ?? NO_TIME
    return taking === 'forever' ? null : taking
  }

  #sleeps({ kind, due }: TimerState, path: string, at: Instant): Millis | null {
    const assumed = assumedFor(this.#assumptions.takes, path)
    if (assumed !== undefined) return assumed === 'forever' ? null : assumed
    if (typeof due !== 'string') return NO_TIME
    if (kind === 'duration') return parseIsoDuration(due) ?? NO_TIME
    const until = parseMoment(due, at, false)
    return until === null ? NO_TIME : elapsed(at, until.at)
  }

  #choose(path: string, { choices, default: otherwise }: Choice): StateId {
    const said = assumedFor(this.#assumptions.chooses, path)
    const made = this.#made.get(path) ?? 0
    this.#made.set(path, made + 1)
    return said?.[Math.min(made, said.length - 1)] ?? otherwise ?? choices[0]?.next ?? ''
  }

  #ending(kind: PlannedEnd['kind'], path: string, at: Instant, error: PlannedEnd['error'] = null): PlannedEnd {
    return { kind, path, afterMs: elapsed(this.#startedAt, at), error }
  }

  #visit(state: State, path: string, from: Instant, to: Instant, more: Visited = {}): PlannedVisit {
    const { ownMs = null, attempts = 1, endedBy = 'itself' } = more
    const remainingMs = budgetLeft(this.#deadlineAt, from)
    const effectiveMs = elapsed(from, callEndsAt(from, ownMs ?? MAX_DURATION_MS, this.#deadlineAt))
    return {
      path,
      type: stateTypeOf(state),
      startsAfterMs: elapsed(this.#startedAt, from),
      endsAfterMs: elapsed(this.#startedAt, to),
      ownLimitMs: ownMs,
      remainingMs,
      effectiveMs,
      limit: ownMs !== null && ownMs < remainingMs ? 'own' : 'run',
      attempts,
      endedBy,
    }
  }
}

/** How long a state takes (null: forever), what it may take, and where it goes afterwards. */
interface Spending {
  readonly takesMs: Millis | null
  readonly ownMs: Millis | null
  readonly next: StateId
  readonly onLimit: StateId | null
  readonly resilience?: Resilience | null
}

interface Visited {
  readonly ownMs?: Millis | null
  readonly attempts?: number
  readonly endedBy?: PlannedVisit['endedBy'] | undefined
}

/** When the branches are done with; null: never, in the time there is. */
function joinedAt({ strategy, errorPolicy }: Parallel['join'], branches: readonly Ended[]): Instant | null {
  const when = (wanted: (end: PlannedEnd) => boolean): Instant[] =>
    branches.filter(({ end }) => wanted(end)).map(({ at }) => at)
  const succeeded = when(({ kind }) => kind === 'Success')
  const failed = when(({ kind }) => kind === 'Fail')
  const first = (moments: readonly Instant[]): Instant | null =>
    moments.reduce<Instant | null>((least, at) => (least === null || at < least ? at : least), null)
  const all = [...succeeded, ...failed]
  const last =
    all.length < branches.length
      ? null
      : all.reduce<Instant | null>((most, at) => (most === null || at > most ? at : most), null)
  if (strategy === 'firstCompleted') return first(all)
  if (strategy === 'anyOf') return first(succeeded) ?? last
  return errorPolicy === 'failFast' ? (first(failed) ?? last) : last
}

/** Of a branch that lost: what it had begun by then. */
function cutAt(visits: readonly PlannedVisit[], afterMs: Millis): readonly PlannedVisit[] {
  return visits
    .filter(({ startsAfterMs }) => startsAfterMs < afterMs)
    .map((visit) =>
      visit.endsAfterMs <= afterMs ? visit : { ...visit, endsAfterMs: afterMs, endedBy: 'lost' as const },
    )
}

/** What ends an awaited job at the latest, whatever its attempts do. */
function jobLimitMs(state: JobTask): Millis | null {
  const total = state.request[LIMIT_FIELDS.total]
  return state.mode === 'await' && typeof total === 'number' ? seconds(total) : null
}
