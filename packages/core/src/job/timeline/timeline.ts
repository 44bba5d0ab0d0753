/**
 * One job's time as a picture without pixels: lanes with spans and marks on the clock of the server. Board and terminal
 * draw this model; neither works out a deadline of its own. It is a function of `now`, so a page can let it run, or replay
 * it.
 *
 * Lanes: the whole life; the last attempts and the one that is foreseen; durable steps, in as many lanes as ran side by side;
 * signs of life; the reservation, when that is the clock which ends next. In a lane, spans come in their order and do not overlap; every mark lies inside its lane.
 *
 * What is past is taken from the recorded life, what is to come from `clocksOf` and `foresee`, on the assumption that
 * workers fetch and live. A limit that lies far beyond everything else becomes a flag at the edge (`edges`) and does not
 * stretch the axis; long empty waits are folded (`folds`, see `axis.ts`).
 */
import { instant, iso, millis, type Instant, type Millis } from '../../time/clock.ts'
import { after, before, earliest, elapsed } from '../../time/sums.ts'
import { effectiveTotal } from '../deadlines.ts'
import type { Liveness } from '../liveness.ts'
import type { Failure } from '../../wire/job/failure.ts'
import { isTerminal, type Job } from '../job.ts'
import type { LifeEntry } from '../life.ts'
import type { StepSpan } from '../step.ts'
import { readLife } from '../../wire/job/life.ts'
import { clocksOf, type ClockKind, type JobClock, type NamedLimit } from './clocks.ts'
import { foldsOf } from './folds.ts'
import { foresee, type Foresight } from './foresee.ts'
import { foreseenAttempts, type ForeseenAttempt } from './foreseen-attempts.ts'
import { attemptBounds, lifeSpans, type LifeSpan, type SpanKind } from './spans.ts'
import { stepLanes } from './step-lanes.ts'
import { headlineOf, sentenceOf } from './timeline-words.ts'

// ---- What it is made from ----

/** A report that came when its attempt was over; it was refused. */
export interface LateResult {
  readonly at: Instant
  readonly verb: string
  readonly workerId: string | null
}

/** What one server remembers of a job besides its record. It forgets that when it stops. */
export interface Signs {
  /** From where on the server would know. */
  readonly since: Instant
  readonly beats: readonly Instant[]
  readonly late: readonly LateResult[]
}

export interface QueueFacts {
  readonly name: string
  readonly pausedAt: Instant | null
  readonly drainingAt: Instant | null
}

export interface TimelineInput {
  readonly job: Job
  readonly life: Liveness
  readonly signs: Signs | null
  readonly checkpointAt: Instant | null
  /** The durable steps that are stored; absent in the answer of a server that does not tell them. */
  readonly steps?: readonly StepSpan[]
  readonly queue: QueueFacts | null
  /** The job is kept from being handed out. */
  readonly isHeld: boolean
}

// ---- What it gives ----

export interface TimelineSpan {
  /** `fuse`: from the last sign of life to the stall. `reserved`: until the reservation lapses. */
  readonly kind: SpanKind | 'overshoot' | 'fuse' | 'reserved' | 'step' | 'sleep'
  readonly from: Instant
  readonly to: Instant
  /** It has not come yet. A span that runs now is cut in two at `now`. */
  readonly isFuture: boolean
  readonly attempt?: number
  /** Of a durable step. */
  readonly name?: string
  /** The edge is not sharp: the jitter of a backoff may move it until then. */
  readonly latestTo?: Instant
  /** Of an overshoot: what is charged to the decision, and how much of it no server was at work. */
  readonly overshootMs?: Millis
  readonly downtimeMs?: Millis
}

export type MarkKind =
  ClockKind | 'created' | 'started' | 'asked_to_stop' | 'ended' | 'late_result' | 'beat' | 'progress' | 'checkpoint'

export interface Mark {
  readonly kind: MarkKind
  readonly at: Instant
  readonly isFuture: boolean
  /** Of a limit: its name, length and source. */
  readonly limit?: NamedLimit
  /** It could not strike, because this limit came first: drawn as a ghost. */
  readonly cutBy?: string
  /** How an attempt or the job ended, or what was reported too late. */
  readonly text?: string
  readonly attempt?: number
}

export interface Lane {
  readonly kind: 'life' | 'attempt' | 'steps' | 'signs' | 'reservation'
  readonly name: string
  readonly attempt?: number
  readonly worker?: string | null
  /** No worker has it yet. */
  readonly isForeseen: boolean
  readonly from: Instant
  readonly to: Instant
  readonly spans: readonly TimelineSpan[]
  readonly marks: readonly Mark[]
  /** Limits far beyond the axis, nearest first. */
  readonly edges: readonly Mark[]
}

/** A time that concerns all lanes. `away`: no server was listening. `paused`: the queue hands out nothing. */
export interface Band {
  readonly kind: 'away' | 'paused'
  readonly from: Instant
  readonly to: Instant
}

/** A stretch of the axis in which nothing happens: drawn short, with its length. */
export interface Fold {
  readonly from: Instant
  readonly to: Instant
}

export interface Timeline {
  readonly jobId: string
  readonly now: Instant
  readonly from: Instant
  readonly to: Instant
  readonly lanes: readonly Lane[]
  readonly bands: readonly Band[]
  readonly folds: readonly Fold[]
  readonly clocks: readonly JobClock[]
  /** What happens if no signal arrives. */
  readonly next: Foresight
  /** State, attempt and worker in a line. */
  readonly headline: string
  /** What comes next, with times from now. */
  readonly sentence: string
  /** Attempts that were left out because only the last ones are shown. */
  readonly hiddenAttempts: number
}

const SHOWN_ATTEMPTS = 5

export function timeline(input: TimelineInput, now: Instant): Timeline {
  const { job, life, isHeld } = input
  const clocks = clocksOf(job, life, now)
  const next = foresee(job, life, now)
  const coming = foreseenAttempts(job, life, now, isHeld)
  const past: Past = { entries: readLife(job), spans: lifeSpans(job, now), failures: failuresOf(job) }
  const attempts = attemptsOf(past)
  const drawn = [
    lifeLane(input, past, clocks, coming, now),
    ...attempts.slice(-SHOWN_ATTEMPTS).map((attempt) => attemptLane(input, past, attempt, clocks, now)),
    ...coming.attempts.slice(0, 1).map(comingLane),
    ...stepLanes(input.steps ?? [], now),
    ...signsLane(input, clocks, now),
    ...reservationLane(clocks, now),
  ]
  const from = instant(Math.min(now, ...drawn.map((lane) => startOf(lane))))
  const to = axisEnd(drawn, clocks, from, isTerminal(job.state) ? from : now)
  const lanes = drawn.map((lane) => withinAxis(lane, to)).filter((lane) => lane !== null)
  return {
    jobId: job.id,
    now,
    from,
    to,
    lanes,
    bands: bandsOf(input, from, instant(Math.min(to, now))),
    folds: foldsOf(lanes, from, to),
    clocks,
    next,
    headline: headlineOf(job),
    sentence: sentenceOf(job, next, clocks, now),
    hiddenAttempts: Math.max(0, attempts.length - SHOWN_ATTEMPTS),
  }
}

// ---- Lanes ----

/** A lane before it is laid on the axis. */
export type Drawn = Omit<Lane, 'from' | 'to' | 'edges'>

const endOf = ({ spans, marks }: Drawn): number => Math.max(...spans.map(({ to }) => to), ...marks.map(({ at }) => at))
const startOf = ({ spans, marks }: Drawn): number =>
  Math.min(...spans.map(({ from }) => from), ...marks.map(({ at }) => at))

/** The recorded life, read once. */
interface Past {
  readonly entries: readonly LifeEntry[]
  readonly spans: readonly LifeSpan[]
  readonly failures: Failures
}

function lifeLane(
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
function attemptsOf({ entries, spans }: Past): PastAttempt[] {
  const left = spans.filter(({ kind }) => kind === 'attempt' || kind === 'grace')
  return entries.flatMap((entry, index) => {
    if (entry.to !== 'active') return []
    const own = left.splice(0, left[1]?.kind === 'grace' ? 2 : 1)
    return [{ entry, end: entries[index + 1] ?? null, spans: own }]
  })
}

function attemptLane(
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

/** Late results of an attempt come before the next one starts; what comes later belongs to no lane of its own. */
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

function comingLane({ attempt, spans, marks }: ForeseenAttempt): Drawn {
  return { kind: 'attempt', name: `try ${String(attempt)}`, attempt, isForeseen: true, spans, marks }
}

function signsLane({ job, signs, checkpointAt }: TimelineInput, clocks: readonly JobClock[], now: Instant): Drawn[] {
  const { hold, startedAt, progress } = job
  if (hold === null || startedAt === null) return []
  const stall = clocks.find(({ kind }) => kind === 'heartbeat')
  const seen = (at: Instant | null | undefined): at is Instant =>
    at !== null && at !== undefined && at >= startedAt && at <= now
  const marks: Mark[] = []
  // The clock was last reset by a beat, unless by the start or by something else that is told.
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

function reservationLane(clocks: readonly JobClock[], now: Instant): Drawn[] {
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

// ---- Spans and marks ----

const ahead = (kind: TimelineSpan['kind'], from: Instant, to: Instant, attempt?: number): TimelineSpan => ({
  kind,
  from,
  to,
  isFuture: true,
  ...(attempt === undefined ? {} : { attempt }),
})

function cutAtNow(kind: TimelineSpan['kind'], from: Instant, to: Instant, now: Instant): TimelineSpan[] {
  const middle = instant(Math.min(Math.max(from, now), to))
  return [
    { kind, from, to: middle, isFuture: false },
    { kind, from: middle, to, isFuture: true },
  ].filter((span) => span.to > span.from)
}

/** A span that a limit ended is cut at the deadline: what comes after it is the overshoot. */
function pastSpans(
  kind: SpanKind,
  from: Instant,
  to: Instant,
  attempt: number | undefined,
  failures: Failures,
): TimelineSpan[] {
  const of = attempt === undefined ? {} : { attempt }
  const whole: TimelineSpan = { kind, from, to, isFuture: false, ...of }
  const failure = failures.get(to)?.find(({ deadline }) => deadline !== undefined)
  if (failure?.deadline === undefined) return [whole]
  const deadline = instant(Math.max(from, Date.parse(failure.deadline)))
  if (deadline >= to) return [whole]
  const late: TimelineSpan = {
    kind: 'overshoot',
    from: deadline,
    to,
    isFuture: false,
    ...of,
    overshootMs: millis(failure.overshoot_ms ?? elapsed(deadline, to)),
    downtimeMs: millis(failure.downtime_ms ?? 0),
  }
  return deadline > from ? [{ ...whole, to: deadline }, late] : [late]
}

/** What an ending by a limit tells. */
type Ended = Pick<
  Failure,
  'type' | 'timeout_kind' | 'limit_ms' | 'source' | 'deadline' | 'overshoot_ms' | 'downtime_ms'
>
type Failures = ReadonlyMap<number, readonly Ended[]>

/** The failures that are kept, by the instant at which they were decided; one instant may bring two. */
function failuresOf(job: Job): Failures {
  const failures = new Map<number, Ended[]>()
  const add = (at: number, failure: Ended): void => void failures.set(at, [...(failures.get(at) ?? []), failure])
  for (const failure of JSON.parse(`[${job.errors}]`) as Failure[]) add(Date.parse(failure.occurred_at), failure)
  // A workflow's deadline cancels, which is not a failure of the job.
  const last = readLife(job).at(-1)
  const total = effectiveTotal(job)
  if (last?.late !== undefined && total !== null)
    add(last.at, {
      type: 'workflow_timeout',
      limit_ms: total.ms,
      source: total.source,
      deadline: iso(before(last.at, last.late.lateMs)),
      overshoot_ms: last.late.overshootMs,
      downtime_ms: last.late.downtimeMs,
    })
  return failures
}

function limitMark(clock: JobClock, now: Instant): Mark {
  const { kind, until, limit, limitMs, source, asked, cutBy } = clock
  return {
    kind,
    at: until,
    isFuture: until > now,
    limit: { limit, ...(limitMs === undefined ? {} : { limitMs }), source, ...(asked === undefined ? {} : { asked }) },
    ...(cutBy === null ? {} : { cutBy }),
  }
}

const STRUCK: Readonly<Record<string, readonly [MarkKind, string]>> = {
  execution: ['hard_deadline', 'timeout'],
  total: ['total', 'total_timeout'],
  enqueue_ttl: ['ttl', 'enqueue_ttl'],
  stalled: ['heartbeat', 'heartbeat_timeout'],
  worker_death: ['worker_death', 'worker_timeout'],
  visibility_timeout: ['visibility', 'visibility_timeout'],
  expired: ['expires_at', 'expires_at'],
  workflow_timeout: ['total', 'workflow_timeout'],
}

/** The deadlines at which limits ended it. One that had passed before the job came is drawn at its beginning. */
function struckLimits(job: Job, failures: readonly Ended[] = []): Mark[] {
  return failures.flatMap((failure): Mark[] => {
    const struck = STRUCK[failure.timeout_kind ?? failure.type]
    if (failure.deadline === undefined || failure.source === undefined || struck === undefined) return []
    const [kind, limit] = struck
    const length = failure.limit_ms === undefined ? {} : { limitMs: millis(failure.limit_ms) }
    const at = instant(Math.max(job.createdAt, Date.parse(failure.deadline)))
    return [{ kind, at, isFuture: false, limit: { limit, ...length, source: failure.source } }]
  })
}

function endingText(job: Job, { to, why }: LifeEntry, failures: readonly Ended[] = []): string {
  if (to === 'completed') return 'completed'
  if (to === 'cancelled') return `cancelled (${why ?? job.cancelReason ?? 'no reason recorded'})`
  const what = failures.at(-1)?.type ?? why ?? to
  return isTerminal(to) ? `discarded (${what})` : what
}

const inOrder = (marks: readonly Mark[]): Mark[] => [...marks].sort((a, b) => a.at - b.at)

// ---- The axis ----

const FAR = 4
const SHORTEST_AXIS_MS = millis(1_000)

/**
 * What is past, the present and the nearest clock are always shown; a limit up to four times as far as all before it, and
 * none beyond the total, where every other clock is cut off. The present of a job that is over is its end (`shown`).
 */
function axisEnd(lanes: readonly Drawn[], clocks: readonly JobClock[], from: Instant, shown: Instant): Instant {
  const instants = lanes.flatMap(({ spans, marks }) => [...spans.map(({ to }) => to), ...marks.map(({ at }) => at)])
  const past = lanes.flatMap(({ spans, marks }) => [
    ...spans.filter(({ isFuture }) => !isFuture).map(({ to }) => to),
    ...marks.filter(({ isFuture }) => !isFuture).map(({ at }) => at),
  ])
  let end = Math.max(shown, after(from, SHORTEST_AXIS_MS), ...past, clocks[0]?.until ?? shown)
  const total = clocks.find(({ kind }) => kind === 'total')?.until ?? Infinity
  for (const at of instants.filter((other) => other > end && other <= total).sort((a, b) => a - b)) {
    if (at - from > FAR * (end - from)) break
    end = at
  }
  return instant(end)
}

/** Cuts a lane at the end of the axis; null where nothing of it is left. */
function withinAxis(lane: Drawn, end: Instant): Lane | null {
  const spans = lane.spans
    .filter(({ from }) => from < end || from === lane.spans[0]?.from)
    .map((span) => (span.to > end ? { ...span, to: end } : span))
    .filter(({ from, to }) => from <= to)
  const marks = lane.marks.filter(({ at }) => at <= end)
  const edges = lane.marks.filter(({ at }) => at > end)
  if (spans.length + marks.length === 0) return null
  const kept = { ...lane, spans, marks }
  return { ...kept, from: instant(startOf(kept)), to: instant(endOf(kept)), edges }
}

function bandsOf({ job, life, queue }: TimelineInput, from: Instant, now: Instant): Band[] {
  const bands: Band[] = life.outages
    .filter((outage) => outage.to > from && outage.from < now)
    .map((outage) => ({
      kind: 'away',
      from: instant(Math.max(from, outage.from)),
      to: instant(Math.min(now, outage.to)),
    }))
  const pausedAt = queue?.pausedAt ?? null
  if (pausedAt !== null && !isTerminal(job.state) && job.hold === null)
    bands.push({ kind: 'paused', from: instant(Math.max(from, pausedAt)), to: now })
  return bands.filter((band) => band.to > band.from)
}
