/**
 * Hindsight: where the time of a run went, state by state, against its budget; who set the budget; how it ended. And the
 * same once more in words. Besides, what it began with and what each state wrote, with secrets masked.
 */
import { iso, type Instant } from '../../time/clock.ts'
import { elapsed } from '../../time/sums.ts'
import { readableDuration } from '../../time/durations.ts'
import { lateness } from '../../job/explain-words.ts'
import { inputOf, masked, maskedText, wroteOf } from './history.ts'
import { nextForRun, runNextInWords, type RunNext } from './next.ts'
import type { Data, End, LimitedBy, Phase, Run, RunKind, TerminationKind, Visit } from '../run/run.ts'

/** One state that was entered. Lengths in milliseconds. */
export interface StateSpan {
  readonly state: string
  readonly type: string
  /** Which of the states that the run entered this is, from 1. */
  readonly visit: number
  readonly from: string
  /** Absent while the run is there. */
  readonly to?: string
  /** When it began, counted from the start of the run. */
  readonly startsAfterMs: number
  readonly durationMs: number
  /** Its part of the budget, from 0 to 1. */
  readonly share: number
  /** Its own limit, if it has one; of a call: of each attempt. */
  readonly limitMs?: number
  /** The smaller of its own limit and what the run had left when it was entered. */
  readonly effectiveMs?: number
  /** What left less than its own limit: the length of the whole run. */
  readonly clampedBy?: 'maxDurationSec'
  /** Why it was left, where that needs saying. */
  readonly note?: string
  /** Members of the context that it wrote, with secrets masked. */
  readonly wrote?: Data
}

export interface RunExplanation {
  readonly journeyId: string
  readonly journeyName: string
  readonly journeyVersion: string
  readonly kind: RunKind
  readonly phase: Phase
  readonly budget: {
    readonly startedAt: string
    readonly deadlineAt: string
    readonly limitMs: number
    readonly limitedBy: LimitedBy
    readonly spentMs: number
    readonly remainingMs: number
  }
  /** With what it began, with secrets masked. */
  readonly input?: Data
  readonly states: readonly StateSpan[]
  /** How many states were entered before the first of `states`, and are not kept. */
  readonly omitted: number
  readonly ending?: {
    readonly terminationKind: TerminationKind
    readonly terminatedAtState: string
    readonly endedAt: string
    readonly error?: { readonly code: string; readonly reason: string }
    /** What was left when it ended by itself. */
    readonly marginMs?: number
    /** How late its deadline was decided, where that ended it: what is charged to the decision. */
    readonly overshootMs?: number
    /** What really passed after the deadline, and how much of that no server was at work. */
    readonly lateMs?: number
    readonly downtimeMs?: number
  }
  /** What happens next if no signal arrives; null when the run has ended. */
  readonly next: RunNext | null
  readonly text: string
}

export function explainRun(run: Run, now: Instant): RunExplanation {
  const until = run.endedAt ?? now
  const { end, endedAt } = run
  const input = inputOf(run)
  const states = run.trail.map((visit) => spanOf(run, visit, until))
  return {
    journeyId: run.id,
    journeyName: run.name,
    journeyVersion: run.version,
    kind: run.kind,
    phase: run.phase,
    budget: {
      startedAt: iso(run.startedAt),
      deadlineAt: iso(run.deadlineAt),
      limitMs: run.limitMs,
      limitedBy: run.limitedBy,
      spentMs: elapsed(run.startedAt, until),
      remainingMs: end === null ? elapsed(now, run.deadlineAt) : 0,
    },
    ...(input === undefined ? {} : { input: masked(input) }),
    states,
    omitted: run.omitted,
    ...(end === null || endedAt === null ? {} : { ending: endingOf(run, end, endedAt) }),
    next: nextForRun(run),
    text: inWords(run, states, until),
  }
}

function spanOf(run: Run, visit: Visit, until: Instant): StateSpan {
  const { startedAt, limitMs, end } = run
  // A state the run never left was left when the run ended.
  const to = visit.to ?? (end === null ? null : until)
  const durationMs = elapsed(visit.from, to ?? until)
  return {
    state: visit.path,
    type: visit.type,
    visit: visit.visit,
    from: iso(visit.from),
    ...(to === null ? {} : { to: iso(to) }),
    startsAfterMs: elapsed(startedAt, visit.from),
    durationMs,
    share: limitMs === 0 ? 0 : Math.round((durationMs / limitMs) * 10_000) / 10_000,
    ...boundOf(run, visit),
    ...(visit.note === null ? {} : { note: visit.note }),
    ...wroteOf(visit),
  }
}

function boundOf(
  { deadlineAt }: Run,
  { limitMs, from }: Visit,
): Pick<StateSpan, 'limitMs' | 'effectiveMs' | 'clampedBy'> {
  if (limitMs === null) return {}
  const leftMs = elapsed(from, deadlineAt)
  return leftMs < limitMs
    ? { limitMs, effectiveMs: leftMs, clampedBy: 'maxDurationSec' }
    : { limitMs, effectiveMs: limitMs }
}

function endingOf(run: Run, end: End, endedAt: Instant): NonNullable<RunExplanation['ending']> {
  return {
    terminationKind: end.terminationKind,
    terminatedAtState: end.terminatedAtState,
    endedAt: iso(endedAt),
    ...(end.error === null ? {} : { error: { code: end.error.code, reason: maskedText(end.error.reason) } }),
    ...(end.terminationKind === 'Timeout' ? {} : { marginMs: elapsed(endedAt, run.deadlineAt) }),
    ...(run.overshootMs === null ? {} : { overshootMs: run.overshootMs }),
    ...(run.lateMs === undefined ? {} : { lateMs: run.lateMs }),
    ...(run.downtimeMs === undefined ? {} : { downtimeMs: run.downtimeMs }),
  }
}

/** Who set the budget, as one says it. */
export const LIMITED_BY: Readonly<Record<LimitedBy, string>> = {
  spec: 'as its definition says',
  'platform-default': "the server's default, as its definition sets none",
  'platform-cap': "the server's cap, less than its definition asks for",
  parent: 'the time its parent had left',
}

function inWords(run: Run, states: readonly StateSpan[], until: Instant): string {
  const lines = [
    `${iso(run.startedAt)}  started, may take ${readableDuration(run.limitMs)} (${LIMITED_BY[run.limitedBy]}), until ${iso(run.deadlineAt)}`,
  ]
  if (run.omitted > 0) lines.push(`${' '.repeat(24)}  … ${String(run.omitted)} states before these are not kept`)
  for (const span of states) lines.push(`${span.from}  ${sentence(span)}`)
  lines.push(...endWords(run, until), ...longest(run, states, until))
  return lines.join('\n')
}

function sentence(span: StateSpan): string {
  const { state, type, durationMs, share, effectiveMs, to, note } = span
  const clamp = clampInWords(span)
  // How long a timer takes is what it is, not what it may.
  const limit =
    effectiveMs === undefined || type === 'timer'
      ? ''
      : `, of at most ${readableDuration(effectiveMs)}${clamp === '' ? '' : `: ${clamp}`}`
  const took = to === undefined ? 'there for' : 'took'
  const why = note === undefined ? '' : ` (${note})`
  return `${state} (${type}) ${took} ${readableDuration(durationMs)}, ${percent(share)} of the budget${limit}${why}`
}

/** Why a state may take less than its own limit; empty: it may take all of it. */
export function clampInWords({ type, limitMs, clampedBy }: StateSpan): string {
  return limitMs === undefined || clampedBy === undefined || type === 'timer'
    ? ''
    : `shortened from ${readableDuration(limitMs)} by the deadline of the run`
}

function endWords(run: Run, until: Instant): string[] {
  const { end } = run
  if (end === null) {
    const next = nextForRun(run)
    return [
      `Running; ${readableDuration(elapsed(until, run.deadlineAt))} are left of ${readableDuration(run.limitMs)}${next === null ? '' : `; ${runNextInWords(next)}`}.`,
    ]
  }
  const at = `${iso(until)}  ended in ${end.terminatedAtState}`
  const error = end.error === null ? '' : `: ${errorInWords(end.error)}`
  if (end.terminationKind === 'Timeout') {
    const late = run.overshootMs === null ? '' : `, ${runLateness(run)}`
    return [`${at}${error}. Its ${readableDuration(run.limitMs)} were up${late}.`]
  }
  const left = `${readableDuration(elapsed(until, run.deadlineAt))} before the deadline`
  return [`${at}${error}. ${ENDED[end.terminationKind]} ${left}.`]
}

/** On one line, and without the dot at its end: the sentence has its own. */
function errorInWords({ code, reason }: NonNullable<End['error']>): string {
  const text = maskedText(reason).replace(/\s+/g, ' ').trim()
  return text === '' ? code : `${code}: ${text.endsWith('.') ? text.slice(0, -1) : text}`
}

/** How late the deadline of a run was decided; a time in which the server was down is not charged to the decision. */
export function runLateness(late: {
  readonly overshootMs?: number | null
  readonly lateMs?: number
  readonly downtimeMs?: number
}): string {
  return lateness({ ...late, overshootMs: late.overshootMs ?? undefined })
}

const ENDED: Readonly<Record<Exclude<TerminationKind, 'Timeout'>, string>> = {
  Success: 'It succeeded',
  Fail: 'It failed',
  Cancel: 'It was cancelled',
  RuntimeError: 'It ended',
}

/** Where most of the time went, unless that is obvious, or unknown because too few states are kept. */
function longest({ omitted, startedAt }: Run, states: readonly StateSpan[], until: Instant): string[] {
  if (omitted > 0) return []
  const byState = new Map<string, number>()
  for (const { state, type, durationMs } of states) {
    // What goes on inside these is counted for its own states.
    if (type === 'parallel' || type === 'subjourney') continue
    byState.set(state, (byState.get(state) ?? 0) + durationMs)
  }
  const counted = [...byState.values()].reduce((sum, ms) => sum + ms, 0)
  if (counted * 2 < elapsed(startedAt, until)) return []
  const [first] = [...byState].sort(([, a], [, b]) => b - a)
  if (first === undefined || byState.size < 2 || first[1] === 0) return []
  return [`Most of the time went into ${first[0]}: ${readableDuration(first[1])}.`]
}

const percent = (share: number): string => `${String(Math.round(share * 1000) / 10)} %`
