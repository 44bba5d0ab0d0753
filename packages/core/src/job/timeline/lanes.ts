/** The lanes of a timeline: the whole life, attempts, signs of life, the reservation. */
import type { Instant } from '../../time/clock.ts'
import { earliest, elapsed } from '../../time/sums.ts'
import { isTerminal } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import type { ClockKind, JobClock } from './clocks.ts'
import { type ForeseenAttempt, foreseenAttempts } from './foreseen-attempts.ts'
import { ahead, cutAtNow, endingText, inOrder, limitMark, type Past, pastSpans, struckLimits } from './marks.ts'
import { attemptBounds, type LifeSpan } from './spans.ts'
import type { Drawn, Mark, Signs, TimelineInput, TimelineSpan } from './timeline-model.ts'

export function lifeLane(
  { job }: TimelineInput,
  { entries, spans, failures }: Past,
  clocks: readonly JobClock[],
  coming: Coming,
  now: Instant,
): Drawn {
  const lived = spans.flatMap(({ kind, from, to, attempt }) => pastSpans(kind, from, to ?? now, attempt, failures))
  const last = entries.at(-1)
  const marks: Mark[] = [{ kind: 'created', at: job.createdAt, isFuture: false }]
  for (const clock of clocks) if (!OF_ATTEMPT.has(clock.kind)) marks.push(limitMark(clock, now))
  if (isTerminal(job.state) && last !== undefined) {
    marks.push(...struckLimits(job, failures.get(last.at)))
    marks.push({ kind: 'ended', at: last.at, isFuture: false, text: endingText(job, last, failures.get(last.at)) })
  }
  return { kind: 'life', name: 'life', isForeseen: false, spans: [...lived, ...coming.spans], marks: inOrder(marks) }
}

type Coming = ReturnType<typeof foreseenAttempts>

/** Drawn in the lane of the attempt, or of its signs. */
const OF_ATTEMPT: ReadonlySet<ClockKind> = new Set([
  'soft_deadline',
  'hard_deadline',
  'heartbeat',
  'worker_death',
  'visibility',
])

interface PastAttempt {
  readonly entry: LifeEntry
  readonly end: LifeEntry | null
  readonly spans: readonly LifeSpan[]
}

/** Attempts by their starts: numbers repeat after a retry by hand. */
export function attemptsOf({ entries, spans }: Past): PastAttempt[] {
  const left = spans.filter(({ kind }) => kind === 'attempt' || kind === 'grace')
  return entries.flatMap((entry, index) => {
    if (entry.to !== 'active') return []
    const own = left.splice(0, left[1]?.kind === 'grace' ? 2 : 1)
    return [{ entry, end: entries[index + 1] ?? null, spans: own }]
  })
}

export function attemptLane(
  { job, signs }: TimelineInput,
  { entries, failures }: Past,
  tried: PastAttempt,
  clocks: readonly JobClock[],
  now: Instant,
): Drawn {
  const { entry, end } = tried
  const attempt = entry.attempt ?? 0
  const grace = tried.spans.find(({ kind }) => kind === 'grace')
  const past = tried.spans.flatMap(({ kind, from, to }) => pastSpans(kind, from, to ?? now, attempt, failures))
  const marks: Mark[] = [{ kind: 'started', at: entry.at, isFuture: false, text: entry.worker ?? 'an unnamed worker' }]
  if (grace !== undefined) marks.push(askedMark(entry, grace.from))
  if (end === null) {
    marks.push(...clocks.filter(({ kind }) => ATTEMPT_LIMITS.has(kind)).map((clock) => limitMark(clock, now)))
  } else {
    marks.push(...struckLimits(job, failures.get(end.at)))
    marks.push({ kind: 'ended', at: end.at, isFuture: false, text: endingText(job, end, failures.get(end.at)) })
    marks.push(...lateMarks(signs, end, nextStart(entries, end)))
  }
  return {
    kind: 'attempt',
    name: `try ${String(attempt)}`,
    attempt,
    worker: entry.worker ?? null,
    isForeseen: false,
    spans: [...past, ...(end === null ? restOf(attempt, grace !== undefined, clocks, now) : [])],
    marks: inOrder(marks),
  }
}

/** What is left of the attempt that runs, if it uses all of its time. */
function restOf(attempt: number, isInGrace: boolean, clocks: readonly JobClock[], now: Instant): TimelineSpan[] {
  const until = (of: ClockKind): Instant | null => clocks.find(({ kind }) => kind === of)?.until ?? null
  const [soft, end] = [until('soft_deadline'), earliest(until('hard_deadline'), until('total'))]
  const spans = [
    ...(soft === null ? [] : [ahead('attempt', now, soft, attempt)]),
    ...(end === null ? [] : [ahead(isInGrace || soft !== null ? 'grace' : 'attempt', soft ?? now, end, attempt)]),
  ]
  return spans.filter(({ from, to }) => to > from)
}

const ATTEMPT_LIMITS: ReadonlySet<ClockKind> = new Set(['soft_deadline', 'hard_deadline'])

function askedMark(entry: LifeEntry, at: Instant): Mark {
  const { timeout } = attemptBounds(entry)
  const limit =
    entry.cut !== undefined && elapsed(entry.at, at) < timeout.ms && timeout.clampedBy !== undefined
      ? { limit: timeout.clampedBy, source: timeout.clampSource ?? 'default' }
      : { limit: timeout.limit, limitMs: timeout.ms, source: timeout.source }
  return { kind: 'asked_to_stop', at, isFuture: false, limit }
}

/** Late results of an attempt come before the next one starts; later ones belong to no lane of their own. */
function lateMarks(signs: Signs | null, { at: endedAt }: LifeEntry, nextAt: Instant | null): Mark[] {
  return (signs?.late ?? [])
    .filter(({ at }) => at >= endedAt && (nextAt === null || at < nextAt))
    .map(({ at, verb, workerId }) => ({
      kind: 'late_result',
      at,
      isFuture: false,
      text: `${verb} by ${workerId ?? 'an unnamed worker'} refused`,
    }))
}

function nextStart(entries: readonly LifeEntry[], end: LifeEntry): Instant | null {
  return entries.slice(entries.indexOf(end)).find(({ to }) => to === 'active')?.at ?? null
}

export function comingLane({ attempt, spans, marks }: ForeseenAttempt): Drawn {
  return { kind: 'attempt', name: `try ${String(attempt)}`, attempt, isForeseen: true, spans, marks }
}

export function signsLane(
  { job, signs, checkpointAt }: TimelineInput,
  clocks: readonly JobClock[],
  now: Instant,
): Drawn[] {
  const { hold, startedAt, progress } = job
  if (hold === null || startedAt === null) return []
  const stall = clocks.find(({ kind }) => kind === 'heartbeat')
  const seen = (at: Instant | null | undefined): at is Instant =>
    at !== null && at !== undefined && at >= startedAt && at <= now
  const marks: Mark[] = []
  // The clock was last reset by a beat, unless by the start or by something else that is recorded.
  const told = [startedAt, progress?.updatedAt, checkpointAt]
  const lastBeat = stall === undefined || told.includes(stall.since) ? [] : [stall.since]
  for (const at of new Set([...(signs?.beats ?? []), ...lastBeat]))
    if (seen(at)) marks.push({ kind: 'beat', at, isFuture: false })
  if (seen(progress?.updatedAt)) marks.push({ kind: 'progress', at: progress.updatedAt, isFuture: false })
  if (seen(checkpointAt)) marks.push({ kind: 'checkpoint', at: checkpointAt, isFuture: false })
  if (stall === undefined) return marks.length === 0 ? [] : [{ ...SIGNS, spans: [], marks: inOrder(marks) }]
  marks.push(limitMark(stall, now))
  return [{ ...SIGNS, spans: cutAtNow('fuse', stall.since, stall.until, now), marks: inOrder(marks) }]
}

const SIGNS = { kind: 'signs', name: 'signs', isForeseen: false } as const

export function reservationLane(clocks: readonly JobClock[], now: Instant): Drawn[] {
  const [first] = clocks.filter(({ kind }) => kind !== 'soft_deadline')
  if (first?.kind !== 'visibility' && first?.kind !== 'worker_death') return []
  return [
    {
      kind: 'reservation',
      name: first.kind === 'visibility' ? 'reserved' : 'worker',
      isForeseen: false,
      spans: cutAtNow('reserved', first.since, first.until, now),
      marks: [limitMark(first, now)],
    },
  ]
}
