/**
 * What happens to a job next, step by step. Nothing is worked out here a second time: the first clock that ends
 * (`clocksOf`) says when, and `expire`, which also decides for the wake loop, says what follows. The job it leaves is then
 * looked at in the same way. So no step is announced that the server would not take.
 *
 * Chance has a part in it, because backoffs have jitter. Each step is taken twice, with the shortest and with the longest
 * backoff, and the list ends where the two disagree.
 */
import { iso, millis, type Instant, type Millis, type Random } from '../../time/clock.ts'
import { isDue } from '../../time/sums.ts'
import { ROW_ALONE, type Liveness } from '../liveness.ts'
import { isTerminal, type Job, type JobState } from '../job.ts'
import { expire } from '../lifecycle/expire.ts'
import { start } from '../lifecycle/start.ts'
import type { Moment } from '../lifecycle/transition.ts'
import { DEFAULT_LIMITS } from '../limits.ts'
import { clocksOf, type ClockKind, type JobClock, type NamedLimit } from './clocks.ts'

/**
 * What is taken for granted about the workers.
 *
 * `silence`: no signal arrives at all, neither a result nor a sign of life nor a fetch.
 * `living`: workers fetch at once and give signs of life, but no attempt ends before it is ended.
 */
export type Assumption = 'silence' | 'living'

/** What follows. `retry_or_discard`: whether another attempt fits into the total depends on the jitter of its backoff. */
export type Consequence = 'available' | 'grace' | 'retry' | 'retry_or_discard' | 'discard' | 'cancel' | 'attempt'

export interface Foreseen extends NamedLimit {
  /** The clock that ends; `start`: a worker takes the job. */
  readonly kind: ClockKind | 'start'
  readonly at: Instant
  /** Later than `at` where that depends on the jitter of a backoff. */
  readonly latestAt: Instant
  readonly then: Consequence
  /** The state afterwards; of `retry_or_discard` the one with the shortest backoff. */
  readonly to: JobState
  /** The attempt that runs, or the last one that did. */
  readonly attempt: number
}

export interface Foresight {
  readonly steps: readonly Foreseen[]
  /**
   * Why there are no more: the job is over, it waits for a signal, the jitter decides what follows, or there are more
   * steps than were asked for.
   */
  readonly ends: 'over' | 'waiting' | 'jitter' | 'more'
}

export interface ForeseeOptions {
  readonly assume?: Assumption
  readonly most?: number
  /** The job is kept from being handed out: no start is taken for granted. */
  readonly isHeld?: boolean
  /** One future instead of all that the jitter of backoffs allows. */
  readonly chance?: Random
}

export const MAX_FORESEEN_STEPS = 5

export function foresee(
  job: Job,
  life: Liveness,
  now: Instant,
  { assume = 'silence', most = MAX_FORESEEN_STEPS, isHeld = false, chance }: ForeseeOptions = {},
): Foresight {
  const steps: Foreseen[] = []
  const world = { life: assume === 'silence' ? life : ROW_ALONE, mayStart: assume === 'living' && !isHeld, from: life }
  const vouchedFor = assume === 'silence' ? job : vouched(job, now)
  let [soonest, latest]: [Future, Future] = [
    { job: vouchedFor, now },
    { job: vouchedFor, now },
  ]
  for (;;) {
    const first = stepFrom(soonest, world, chance ?? SHORTEST)
    const other = stepFrom(latest, world, chance ?? LONGEST)
    if (first === null) return { steps, ends: isTerminal(soonest.job.state) ? 'over' : 'waiting' }
    if (other === null || first.kind !== other.kind) return { steps, ends: 'jitter' }
    if (steps.length === most) return { steps, ends: 'more' }
    const isSure = first.after.job.state === other.after.job.state
    steps.push({
      kind: first.kind,
      ...commonOf(first.limit, other.limit),
      at: first.at,
      latestAt: other.at,
      then: isSure ? consequenceOf(first) : 'retry_or_discard',
      to: first.after.job.state,
      attempt: first.after.job.attempt,
    })
    if (!isSure) return { steps, ends: 'jitter' }
    ;[soonest, latest] = [first.after, other.after]
  }
}

/** A length that depends on chance is not told. */
function commonOf({ limitMs, ...limit }: NamedLimit, other: NamedLimit): NamedLimit {
  return limitMs === undefined || limitMs !== other.limitMs ? limit : { ...limit, limitMs }
}

const SHORTEST: Random = () => 0
const LONGEST: Random = () => 1 - Number.EPSILON

interface Future {
  readonly job: Job
  readonly now: Instant
}

interface World {
  readonly life: Liveness
  readonly mayStart: boolean
  /** Where the limits of the handler are known from. */
  readonly from: Liveness
}

interface Taken {
  readonly kind: Foreseen['kind']
  readonly limit: NamedLimit
  readonly at: Instant
  readonly after: Future
}

function stepFrom({ job, now }: Future, world: World, random: Random): Taken | null {
  const [clock] = clocksOf(job, world.life, now)
  if (world.mayStart && job.state === 'available' && !isDue(clock?.until ?? null, now)) return started(job, now, world)
  if (clock === undefined) return null
  const at = clock.until > now ? clock.until : now
  return {
    kind: clock.kind,
    limit: limitOf(clock),
    at: clock.until,
    after: { job: decided(job, clock, world, at, random), now: at },
  }
}

function limitOf({ limit, limitMs, source, asked }: JobClock): NamedLimit {
  return { limit, ...(limitMs === undefined ? {} : { limitMs }), source, ...(asked === undefined ? {} : { asked }) }
}

function decided(job: Job, { kind }: JobClock, { life }: World, at: Instant, random: Random): Job {
  // The handler is asked to stop by its worker: the row does not change.
  if (kind === 'soft_deadline') return job
  return expire(job, life, momentAt(at, random))?.job ?? job
}

/** What is kept of a job, and when this server came up, changes nothing of what happens to it. */
const momentAt = (now: Instant, random: Random): Moment => ({
  now,
  upAt: now,
  random,
  limits: DEFAULT_LIMITS,
  retention: { completedMs: NONE, cancelledMs: NONE, discardedMs: NONE, deadLetterMs: NONE },
})
const NONE = millis(0)

function started(job: Job, now: Instant, { from }: World): Taken {
  const handlers = from.worker?.handlers ?? {}
  const handler = Object.hasOwn(handlers, job.type) ? (handlers[job.type] ?? null) : null
  const claim = { workerId: null, known: true, handler, fetchVisibilityMs: null }
  const running = start(job, claim, momentAt(now, SHORTEST)).job
  const after = { job: vouched(running, now), now }
  return { kind: 'start', limit: { limit: 'fetch', source: 'worker' }, at: now, after }
}

const FOREVER_MS: Millis = millis(1e13)

/** Without the clocks that signs of life renew. */
function vouched(job: Job, now: Instant): Job {
  const { hold } = job
  if (hold === null) return job
  return { ...job, hold: { ...hold, heartbeat: null, visibleFrom: now, visibleMs: FOREVER_MS } }
}

const CONSEQUENCES: Readonly<Record<JobState, Consequence>> = {
  scheduled: 'available',
  pending: 'available',
  available: 'available',
  active: 'attempt',
  completed: 'discard',
  retryable: 'retry',
  cancelled: 'cancel',
  discarded: 'discard',
}

const consequenceOf = ({ kind, after }: Taken): Consequence =>
  kind === 'soft_deadline' ? 'grace' : CONSEQUENCES[after.job.state]

// ---- On the wire ----

export interface ForeseenView {
  readonly kind: Foreseen['kind']
  readonly at: string
  /** At the latest, where the jitter of a backoff decides. */
  readonly latest_at?: string
  /** The limit by its name on the wire. */
  readonly limit: string
  /** Absent where the limit is an instant. */
  readonly limit_ms?: number
  readonly source: string
  readonly then: Consequence
  readonly state: JobState
  readonly attempt: number
}

export function foreseenView({
  kind,
  at,
  latestAt,
  limit,
  limitMs,
  source,
  then,
  to,
  attempt,
}: Foreseen): ForeseenView {
  return {
    kind,
    at: iso(at),
    ...(latestAt === at ? {} : { latest_at: iso(latestAt) }),
    limit,
    ...(limitMs === undefined ? {} : { limit_ms: limitMs }),
    source,
    then,
    state: to,
    attempt,
  }
}
