/**
 * A run of a journey: one document that says all there is to know of it. Its owner alone changes it.
 *
 *   RUNNING ── succeed ─────────→ SUCCEEDED          a run ends once, and stays as it ended
 *           ── fail, a fault ───→ FAILED
 *           ── its deadline ────→ FAILED (Timeout)   whatever its states are doing
 *           ── cancelled ───────→ FAILED (Cancel)
 *
 * A run is in one state per frame. The first frame is the run's own; a parallel state has one for each branch, and a
 * subjourney one for what goes on inside. Frames rest: on time, on a submission, on a job, on a call, on frames of their
 * own. One that is `ready` is to be taken on, and one that is `calling` waits for a call; which server does that is
 * written down with it, so that another can do it when that one dies. Everything else needs no server: time, a job's
 * end or a submission takes it on.
 */
import type { Instant, Millis } from '../../time/clock.ts'
import { earliest } from '../../time/sums.ts'
import { docKind } from '../../doc.ts'
import type { KeyVerdicts } from '../api-key.ts'
import type { TimeoutEnding, JourneyKind, StateId } from '../definition.ts'
import type { RunStart } from './repeats.ts'
import { surveyOf } from './survey.ts'
import { isLong, RunText } from './text.ts'
import type { Parent } from '../../job/job.ts'

export const PHASES = ['RUNNING', 'SUCCEEDED', 'FAILED'] as const
export type Phase = (typeof PHASES)[number]

export type TerminationKind = 'Success' | 'Fail' | 'Timeout' | 'Cancel' | 'RuntimeError'

export type RunKind = JourneyKind | 'Compensation'

/** Who set the budget that counts. */
export type LimitedBy = 'spec' | 'platform-default' | 'platform-cap' | 'parent'

/** A JSON object. */
export type Data = Readonly<Record<string, unknown>>

export interface RunError {
  readonly code: string
  readonly reason: string
}

/** How a frame, and in the end the run, came to its end. */
export interface End {
  readonly phase: 'SUCCEEDED' | 'FAILED'
  readonly terminationKind: TerminationKind
  readonly output: unknown
  readonly error: RunError | null
  /** The path of the state in which it ended. */
  readonly terminatedAtState: string
}

export type Rest =
  /** `by`: the server that takes it on; null until that is known. */
  | { readonly kind: 'ready'; readonly by: string | null }
  | { readonly kind: 'calling'; readonly by: string }
  | {
      readonly kind: 'waiting'
      readonly timeoutAt: Instant | null
      readonly onTimeout: StateId | null
      readonly next: StateId
    }
  | { readonly kind: 'sleeping'; readonly until: Instant; readonly next: StateId }
  | { readonly kind: 'job'; readonly jobId: string; readonly resultVar: string | null; readonly next: StateId }
  | { readonly kind: 'forked'; readonly frames: Readonly<Record<string, Frame>> }
  | { readonly kind: 'inside'; readonly frame: Frame }
  | { readonly kind: 'over'; readonly end: End }

export interface Frame {
  /** Where its graph is: '' the run's own, `fanout/kyc` the branch kyc of the state fanout, `ship` what ship refers to. */
  readonly path: string
  readonly state: StateId
  /** The state's type as authors know it; null until the state has been entered. */
  readonly type: string | null
  /** The number of this entry into a state, counted through the whole run. */
  readonly visit: number
  readonly context: Data
  /** States entered since it last waited for anything; absent in runs of older servers. */
  readonly steps?: number
  readonly rest: Rest
}

/** A state that was entered: it shows where the time went. */
export interface Visit {
  readonly path: string
  readonly type: string
  readonly visit: number
  readonly from: Instant
  readonly to: Instant | null
  /** What it had to keep to, if it had a limit of its own. */
  readonly limitMs: Millis | null
  /** Why it was left, where that needs saying: `timeout`, `lost`, … */
  readonly note: string | null
  /** What it wrote into the context (journey/run/written.ts). */
  readonly wrote?: string
}

export interface Run {
  readonly id: string
  readonly name: string
  readonly version: string
  readonly kind: RunKind
  readonly phase: Phase
  /** Grows with every change: what was thought out for one is not applied to another. */
  readonly revision: number

  readonly startedAt: Instant
  readonly updatedAt: Instant
  readonly endedAt: Instant | null
  readonly deadlineAt: Instant
  readonly limitMs: Millis
  readonly limitedBy: LimitedBy
  /** What it says when its time is up; kept here, so that time alone can end it. */
  readonly onTimeout: TimeoutEnding
  readonly cancellable: boolean
  readonly parent: Parent | null
  /** Where its start can be repeated; absent in runs of older servers. */
  readonly start?: RunStart | null

  readonly tags: readonly string[]
  readonly attributes: Readonly<Record<string, string>>

  /** Where its compensation begins, if the definition has one. */
  readonly compensation: StateId | null
  readonly compensatedBy: string | null
  /** Of a compensation: the run it cleans up after, and how that ended. */
  readonly compensates: { readonly id: string; readonly end: End } | null

  /** Entries into states so far. */
  readonly visits: number
  readonly root: Frame
  readonly end: End | null
  /** The last states it entered, and how many more there were before. */
  readonly trail: readonly Visit[]
  readonly omitted: number
  /** How late its deadline was noticed, where that ended it. */
  readonly overshootMs: Millis | null
  /** What really passed after it, and how much of that no server was at work. Absent in runs of earlier versions. */
  readonly lateMs?: Millis
  readonly downtimeMs?: Millis
  readonly purgeAt: Instant | null
  /** With what it began (journey/run/written.ts). */
  readonly input?: string
  /** What came of the API keys in the request that it goes on with. */
  readonly keys?: KeyVerdicts
  /** The schedule that began it. */
  readonly scheduleId?: string
}

export const RUN = docKind<Run>(
  'run',
  (run) => (run.phase === 'RUNNING' ? earliest(run.deadlineAt, dueAt(run.root)) : run.purgeAt),
  { isLong, text: () => new RunText() },
)

/** When time takes a frame on. */
export const dueAt = (frame: Frame): Instant | null => surveyOf(frame).dueAt

/** A frame never changes, and a run may have thousands: they are looked for once. */
const knownLeaves = new WeakMap<Frame, readonly Frame[]>()

/** Every frame that is not made of others: where the run is. */
export function leaves(frame: Frame): readonly Frame[] {
  const known = knownLeaves.get(frame)
  if (known !== undefined) return known
  const found = framesIn(frame).filter(({ rest }) => rest.kind !== 'inside' && rest.kind !== 'forked')
  knownLeaves.set(frame, found)
  return found
}

/** A frame and all that it is made of. */
export function framesIn(frame: Frame, found: Frame[] = []): readonly Frame[] {
  found.push(frame)
  const { rest } = frame
  if (rest.kind === 'inside') framesIn(rest.frame, found)
  else if (rest.kind === 'forked') for (const branch of Object.values(rest.frames)) framesIn(branch, found)
  return found
}

export const pathOf = ({ path, state }: Pick<Frame, 'path' | 'state'>): string =>
  path === '' ? state : `${path}/${state}`

/** Where the run is, as one path: the outermost parallel state while more than one of its branches is open. */
export function currentState(frame: Frame): { readonly path: string; readonly type: string | null } {
  const { rest } = frame
  if (rest.kind === 'inside') return currentState(rest.frame)
  if (rest.kind === 'forked') {
    const open = Object.values(rest.frames).filter((branch) => branch.rest.kind !== 'over')
    const [only] = open
    if (open.length === 1 && only !== undefined) return currentState(only)
  }
  return { path: pathOf(frame), type: frame.type }
}

/** Frames that wait for a submission. */
export function openSteps(run: Run): readonly Frame[] {
  return run.phase === 'RUNNING' ? leaves(run.root).filter(({ rest }) => rest.kind === 'waiting') : []
}

/** The servers that have something to do for it. */
export function ownersOf({ phase, root }: Run): ReadonlySet<string> {
  return phase === 'RUNNING' ? surveyOf(root).owners : NO_OWNERS
}

const NO_OWNERS: ReadonlySet<string> = new Set()

/** A server is about to enter one of its states: until that is saved, the run does not show where it will rest. */
export function isEntering({ phase, root }: Run): boolean {
  if (phase !== 'RUNNING') return false
  const { ready, isUnclaimed } = surveyOf(root)
  return ready.size > 0 || isUnclaimed
}

/** Nothing is under way: it waits for time, for a job, or for a submission. */
export const isAtRest = ({ root }: Run): boolean => !surveyOf(root).isMoving
