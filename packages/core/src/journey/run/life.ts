/**
 * A run's beginning and its end, and what happens to it from outside: time passes, a step is submitted, a job ends, the
 * run is cancelled. None of it needs the definition: what is needed of that was written down when a frame came
 * to rest, so that it can be decided in the transaction of its cause. Taking the run on from there is `journey/run/walk.ts`.
 */
import { after, isDue } from '../../time/sums.ts'
import { totalAt } from '../../job/deadlines.ts'
import { latenessOf, overshootOf, type Lateness } from '../../job/lateness.ts'
import { runBudget, type RunLimits } from '../../time/budget.ts'
import { days, type Instant, type Millis } from '../../time/clock.ts'
import type { Definition, StateId } from '../definition.ts'
import { interpolateGently } from '../interpolation.ts'
import { changeFrames, moved, readyAt } from './frames.ts'
import {
  currentState,
  leaves,
  type Data,
  type End,
  type Frame,
  type Run,
  type RunError,
  type TerminationKind,
} from './run.ts'
import { leftAll, type Left } from './trail.ts'
import { keptInput, writtenBetween } from './written.ts'
import { isStoppedByTotal } from '../../wire/job/failure.ts'
import type { Job, Parent } from '../../job/job.ts'

/** How long a run that is over can still be asked for. */
export const RUN_KEPT_MS = days(7)

/** What of a definition a run begins with. */
export interface RunTemplate extends Pick<
  Definition,
  'name' | 'version' | 'kind' | 'tags' | 'execution' | 'cancellable' | 'start'
> {
  readonly compensation: { readonly start: StateId } | null
}

export interface NewRun {
  readonly id: string
  readonly definition: RunTemplate
  readonly context: Data
  readonly tags: readonly string[]
  readonly attributes: Readonly<Record<string, string>>
  readonly parent: Parent | null
  readonly inheritedAt: Instant | null
  /** When the clock began to run for it. */
  readonly startedAt: Instant
  readonly start?: Run['start']
}

export function beginRun(asked: NewRun, limits: RunLimits): Run {
  const { definition, startedAt } = asked
  const budget = runBudget(startedAt, definition.execution?.maxDurationMs ?? null, limits, asked.inheritedAt)
  return {
    id: asked.id,
    name: definition.name,
    version: definition.version,
    kind: definition.kind,
    phase: 'RUNNING',
    revision: 1,
    startedAt,
    updatedAt: startedAt,
    endedAt: null,
    ...budget,
    onTimeout: definition.execution?.onTimeout ?? {
      errorCode: 'JOURNEY_TIMEOUT',
      reason: `The run took longer than ${String(budget.limitMs / 1000)} s (${WORDS[budget.limitedBy]}).`,
    },
    cancellable: definition.cancellable,
    parent: asked.parent,
    start: asked.start ?? null,
    tags: asked.tags,
    attributes: asked.attributes,
    compensation: definition.compensation?.start ?? null,
    compensatedBy: null,
    compensates: null,
    visits: 0,
    root: readyAt('', definition.start, asked.context),
    end: null,
    input: keptInput(asked.context),
    trail: [],
    omitted: 0,
    overshootMs: null,
    purgeAt: null,
  }
}

const WORDS: Readonly<Record<Run['limitedBy'], string>> = {
  spec: 'spec.execution.maxDurationSec',
  'platform-default': 'the default for runs, limits.run.default',
  'platform-cap': 'the cap on runs, limits.run.cap',
  parent: 'the time its parent had left',
}

/** What cleans up after a run that is over: a run of its own, with a budget of its own. */
export function beginCompensation(over: Run, id: string, now: Instant, limits: RunLimits): Run {
  const budget = runBudget(now, null, limits, null)
  const { scheduleId: _, ...kept } = over
  return {
    ...kept,
    id,
    kind: 'Compensation',
    phase: 'RUNNING',
    revision: 1,
    startedAt: now,
    updatedAt: now,
    endedAt: null,
    ...budget,
    onTimeout: {
      errorCode: 'COMPENSATION_TIMEOUT',
      reason: `The compensation took longer than ${String(budget.limitMs / 1000)} s (${WORDS[budget.limitedBy]}).`,
    },
    parent: null,
    start: null,
    compensation: null,
    compensatedBy: null,
    compensates: over.end === null ? null : { id: over.id, end: over.end },
    visits: 0,
    root: readyAt('', over.compensation ?? '', over.root.context),
    end: null,
    input: keptInput(over.root.context),
    trail: [],
    omitted: 0,
    overshootMs: null,
    purgeAt: null,
  }
}

/** The run is changed: it counts on, and says when. */
export function changed(run: Run, now: Instant, change: Partial<Run>): Run {
  return { ...run, ...change, revision: run.revision + 1, updatedAt: now }
}

/** It ends, and stays as it ended. */
export function endRun(run: Run, end: End, now: Instant, late: Lateness | null = null): Run {
  return changed(run, now, {
    phase: end.phase,
    end,
    endedAt: now,
    ...(late ?? { overshootMs: null }),
    trail: run.trail.map((visit) => (visit.to === null ? { ...visit, to: now } : visit)),
    purgeAt: after(now, RUN_KEPT_MS),
  })
}

export function failure(
  at: string,
  terminationKind: Exclude<TerminationKind, 'Success'>,
  code: string,
  reason: string,
): End {
  const error: RunError = { code, reason }
  return { phase: 'FAILED', terminationKind, output: null, error, terminatedAtState: at }
}

export interface TimePassed {
  readonly run: Run
  /** Limits of steps that ran out, and how late that was noticed. */
  readonly ranOut: readonly { readonly kind: 'run' | 'wait' | 'timer'; readonly overshootMs: Millis }[]
}

/** What time does to a run; null if nothing is due. Its deadline goes before everything else: a tie is lost. */
export function expireRun(run: Run, now: Instant, upAt: Instant): TimePassed | null {
  if (run.phase !== 'RUNNING') return null
  if (isDue(run.deadlineAt, now)) {
    const { errorCode, reason } = run.onTimeout
    const late = latenessOf(run.deadlineAt, run.startedAt, upAt, [], now)
    const said = interpolateGently(reason, run.root.context)
    const end = failure(currentState(run.root).path, 'Timeout', errorCode, said)
    return { run: endRun(run, end, now, late), ranOut: [{ kind: 'run', overshootMs: late.overshootMs }] }
  }
  const ranOut: { kind: 'wait' | 'timer'; overshootMs: Millis }[] = []
  const left = new Map<number, Left>()
  const root = changeFrames(run.root, (frame) => {
    const { rest } = frame
    if (rest.kind === 'sleeping' && isDue(rest.until, now)) {
      ranOut.push({ kind: 'timer', overshootMs: overshootOf(rest.until, run.startedAt, upAt, now) })
      left.set(frame.visit, { note: null })
      return moved(frame, rest.next)
    }
    if (rest.kind === 'waiting' && rest.timeoutAt !== null && rest.onTimeout !== null && isDue(rest.timeoutAt, now)) {
      ranOut.push({ kind: 'wait', overshootMs: overshootOf(rest.timeoutAt, run.startedAt, upAt, now) })
      left.set(frame.visit, { note: 'timeout' })
      return moved(frame, rest.onTimeout)
    }
    return null
  })
  if (root === run.root) return null
  return { run: changed(run, now, { root, trail: leftAll(run.trail, left, now) }), ranOut }
}

/** The step that is open under this id. */
export function openStep(run: Run, stepId: StateId): Frame | null {
  if (run.phase !== 'RUNNING') return null
  return leaves(run.root).find(({ state, rest }) => state === stepId && rest.kind === 'waiting') ?? null
}

/** An open step was submitted to. `bound`: what else the request brings into the context. */
export function submitted(run: Run, step: Frame, payload: unknown, bound: Data, now: Instant): Run {
  const left = new Map<number, Left>()
  const root = changeFrames(run.root, (frame) => {
    if (frame.visit !== step.visit || frame.rest.kind !== 'waiting') return null
    const context = { ...frame.context, ...bound, payload }
    left.set(frame.visit, leftWriting(frame, context))
    return moved(frame, frame.rest.next, context)
  })
  return changed(run, now, { root, trail: leftAll(run.trail, left, now) })
}

function leftWriting({ context: before }: Frame, after: Data): Left {
  const wrote = writtenBetween(before, after)
  return { note: null, ...(wrote === undefined ? {} : { wrote }) }
}

/** Jobs have ended, by their ids; null if the run awaits none of them any more. One pass, however many there are. */
export function jobsEnded(run: Run, results: ReadonlyMap<string, Data>, now: Instant): Run | null {
  if (run.phase !== 'RUNNING') return null
  const left = new Map<number, Left>()
  const root = changeFrames(run.root, (frame) => {
    const { rest } = frame
    const result = rest.kind === 'job' ? results.get(rest.jobId) : undefined
    if (rest.kind !== 'job' || result === undefined) return null
    const context = rest.resultVar === null ? frame.context : { ...frame.context, [rest.resultVar]: result }
    left.set(frame.visit, leftWriting(frame, context))
    return moved(frame, rest.next, context)
  })
  return root === run.root ? null : changed(run, now, { root, trail: leftAll(run.trail, left, now) })
}

/** The job ended because its worker kept the run's deadline: then it is the run's time that is up, not the job's. */
export function isEndOfRun(run: Run, job: Job): boolean {
  const total = totalAt(job)
  return job.error !== null && isStoppedByTotal(job.error) && total !== null && total >= run.deadlineAt
}

export const CANCELLED = { code: 'JOURNEY_CANCELLED', reason: 'Cancelled by user' } as const

export function cancelledRun(run: Run, now: Instant): Run {
  const end = failure(currentState(run.root).path, 'Cancel', CANCELLED.code, CANCELLED.reason)
  return endRun(run, end, now)
}

/** The jobs that frames wait for. */
export function awaitedJobs(frame: Frame): readonly string[] {
  return leaves(frame).flatMap(({ rest }) => (rest.kind === 'job' ? [rest.jobId] : []))
}

/** Whether its end is to be followed by a compensation. Successes are asked for theirs while the run is walked. */
export function wantsCompensation({ phase, compensation, kind }: Run): boolean {
  return phase === 'FAILED' && compensation !== null && kind !== 'Compensation'
}
