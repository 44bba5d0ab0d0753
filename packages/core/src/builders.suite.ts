/**
 * Builders for tests: valid jobs in every state, workers and their beats, and moments to decide in. A test names only
 * what matters to it. Everything is made by the rules themselves, so no builder can describe a job that cannot exist.
 */
import { days, instant, millis, type Instant, type Millis, type Random } from './time/clock.ts'
import type { Liveness, Outage } from './job/liveness.ts'
import type { NewEvent } from './events.ts'
import { eventData } from './wire/events.ts'
import type { Failure } from './wire/job/failure.ts'
import type { Ceiling, Job, Parent } from './job/job.ts'
import { admit } from './job/lifecycle/admit.ts'
import { cancel } from './job/lifecycle/change.ts'
import { complete, fail } from './job/lifecycle/report.ts'
import { start } from './job/lifecycle/start.ts'
import type { Moment, Retention, Transition } from './job/lifecycle/transition.ts'
import {
  DEFAULT_LIMITS,
  type AskedLimits,
  type Caps,
  type Limits,
  type LimitSettings,
  type TimeoutMode,
} from './job/limits.ts'
import { settleAtEnqueue } from './job/settle.ts'
import { DEFAULT_RETRY, type RetryPolicy } from './job/retry.ts'
import type { Beat, Worker } from './job/worker.ts'

/** `at('12:00')`, `at('12:00:01.500')`: an instant of the day on which all tests play. */
export function at(clock: string): Instant {
  const [hour, minute, second = '0'] = clock.split(':')
  return instant(Date.UTC(2026, 0, 1, Number(hour), Number(minute)) + Math.round(Number(second) * 1000))
}

export const NOON = at('12:00')
export const later = (from: Instant, ms: number): Instant => instant(from + ms)

/** With this chance a jittered backoff is exactly the unjittered one. */
export const noJitter: Random = () => 0.5

export const RETENTION: Retention = {
  completedMs: days(7),
  cancelledMs: days(8),
  discardedMs: days(30),
  deadLetterMs: days(180),
}

export function moment(now: Instant, changes: Partial<Moment> = {}): Moment {
  return { now, upAt: instant(0), random: noJitter, limits: DEFAULT_LIMITS, retention: RETENTION, ...changes }
}

export function settingsWith(caps: Caps, defaults: Partial<LimitSettings['defaults']> = {}): LimitSettings {
  return { ...DEFAULT_LIMITS, defaults: { ...DEFAULT_LIMITS.defaults, ...defaults }, caps }
}

/** Limits as a publisher asked for them, everything else left to the server. */
export function published(publish: AskedLimits, settings: LimitSettings = DEFAULT_LIMITS): Limits {
  return settleAtEnqueue({ publish, type: null, queue: null, server: settings })
}

export interface JobTraits {
  readonly id?: string
  readonly queue?: string
  readonly priority?: number
  readonly createdAt?: Instant
  readonly timeoutMs?: number
  readonly graceMs?: number
  readonly heartbeatMs?: number
  readonly visibilityMs?: number
  readonly totalMs?: number
  readonly ttlMs?: number
  readonly onTimeout?: TimeoutMode
  readonly limits?: Limits
  readonly retry?: Partial<RetryPolicy>
  readonly ceiling?: Ceiling
  readonly parent?: Parent
  readonly scheduledAt?: Instant
  readonly expiresAt?: Instant
  readonly resultTtlMs?: number
  readonly pending?: boolean
  readonly traceId?: string
  readonly body?: string
  readonly given?: string
}

export interface ClaimTraits {
  readonly claimedAt?: Instant
  readonly workerId?: string | null
  readonly known?: boolean
  readonly handler?: AskedLimits
  readonly fetchVisibilityMs?: number
}

export function asked(traits: JobTraits): AskedLimits {
  const length = (name: string, ms: number | undefined): object => (ms === undefined ? {} : { [name]: millis(ms) })
  return {
    ...length('timeout', traits.timeoutMs),
    ...length('grace', traits.graceMs),
    ...length('heartbeat', traits.heartbeatMs),
    ...length('visibility', traits.visibilityMs),
    ...length('total', traits.totalMs),
    ...length('ttl', traits.ttlMs),
    ...(traits.onTimeout === undefined ? {} : { onTimeout: traits.onTimeout }),
  }
}

export const JOB_ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'

/** Created at noon unless told otherwise; available, or scheduled or pending when the traits say so. */
export function aJob(traits: JobTraits = {}): Job {
  return admitted(traits).job
}

export function admitted(traits: JobTraits = {}): ReturnType<typeof admit> {
  return admit(
    {
      id: traits.id ?? JOB_ID,
      type: 'email.send',
      queue: traits.queue ?? 'default',
      priority: traits.priority ?? 0,
      retry: { ...DEFAULT_RETRY, ...traits.retry },
      limits: traits.limits ?? published(asked(traits)),
      ceiling: traits.ceiling ?? null,
      parent: traits.parent ?? null,
      owner: null,
      uniqueKey: null,
      limitKey: null,
      tenant: null,
      scheduledAt: traits.scheduledAt ?? null,
      expiresAt: traits.expiresAt ?? null,
      resultTtlMs: traits.resultTtlMs === undefined ? null : millis(traits.resultTtlMs),
      traceId: traits.traceId ?? null,
      body: traits.body ?? '"args":[],"meta":{}',
      given: traits.given ?? '',
      pending: traits.pending ?? false,
    },
    moment(traits.createdAt ?? NOON),
  )
}

/** Claims the job, by the registered worker `w1` unless told otherwise. */
export function claimed(job: Job, claim: ClaimTraits & { readonly settings?: LimitSettings } = {}): Job {
  const step = start(
    job,
    {
      workerId: claim.workerId === undefined ? 'w1' : claim.workerId,
      known: claim.known ?? true,
      handler: claim.handler ?? null,
      fetchVisibilityMs: claim.fetchVisibilityMs === undefined ? null : millis(claim.fetchVisibilityMs),
    },
    moment(claim.claimedAt ?? job.enqueuedAt ?? job.createdAt, { limits: claim.settings ?? DEFAULT_LIMITS }),
  )
  return step.job
}

export function activeJob(traits: JobTraits & ClaimTraits = {}): Job {
  return claimed(aJob(traits), traits)
}

export const boom = { type: 'boom', message: 'It broke.' }

/** Failed once, a second after its claim. */
export function retryableJob(traits: JobTraits & ClaimTraits = {}): Job {
  const job = activeJob(traits)
  return fail(job, boom, moment(later(job.startedAt ?? NOON, 1000))).job
}

export function completedJob(traits: JobTraits & ClaimTraits = {}): Job {
  const job = activeJob(traits)
  return complete(job, null, moment(later(job.startedAt ?? NOON, 1000))).job
}

export function cancelledJob(traits: JobTraits = {}): Job {
  const job = aJob(traits)
  return cancel(job, moment(later(job.createdAt, 1000)), { reason: 'request' }).job
}

/** Failed in its only attempt. */
export function discardedJob(traits: JobTraits & ClaimTraits = {}): Job {
  return retryableJob({ ...traits, retry: { ...traits.retry, maxAttempts: 1 } })
}

export function aWorker(changes: Partial<Worker> = {}): Worker {
  return {
    id: 'w1',
    hostname: 'host',
    pid: 1,
    queues: ['default'],
    concurrency: 10,
    labels: [],
    startedAt: null,
    state: 'running',
    draining: false,
    directive: 'continue',
    registered: true,
    known: true,
    createdAt: NOON,
    lastSeenAt: NOON,
    lastBeatAt: null,
    activeJobs: 0,
    beat: null,
    beatSeq: null,
    handlers: {},
    diedAt: null,
    wakeAt: null,
    version: 1,
    ...changes,
  }
}

export function aBeat(beatAt: Instant, changes: Partial<Omit<Beat, 'jobs'>> & { jobs?: readonly string[] } = {}): Beat {
  return {
    at: beatAt,
    proofs: null,
    leases: {},
    visibilityMs: null,
    ...changes,
    jobs: new Set(changes.jobs ?? [JOB_ID]),
  }
}

/** The worker `w1` after a beat that listed the job. */
export function beating(beatAt: Instant, changes: Parameters<typeof aBeat>[1] = {}): Worker {
  return aWorker({ lastSeenAt: beatAt, lastBeatAt: beatAt, beat: aBeat(beatAt, changes) })
}

export function livenessOf(worker: Worker | null, outages: readonly Outage[] = []): Liveness {
  return { worker, outages, workerTimeoutMs: millis(30_000) }
}

export const typesOf = (step: { readonly events: readonly NewEvent[] } | null): string[] =>
  (step?.events ?? []).map(({ type }) => type)

/** The data of the first event of this type, as its reader will see it. */
export function dataOf(step: { readonly events: readonly NewEvent[] } | null, type: string): Record<string, unknown> {
  const event = step?.events.find((candidate) => candidate.type === type)
  return event === undefined ? {} : (JSON.parse(eventData(event)) as Record<string, unknown>)
}

export const errorOf = (job: Job | null): Failure => JSON.parse(job?.error ?? 'null') as Failure
export const errorsOf = (job: Job | null): Failure[] => JSON.parse(`[${job?.errors ?? ''}]`) as Failure[]

/** The job after a transition that must have left one. */
export function left(step: Transition | null): Job {
  if (step?.job === null || step === null) throw new Error('no job is left')
  return step.job
}

export const ms = (length: number): Millis => millis(length)

/** The end of some work at once, without a pause. */
export function drained<Made>(work: Generator<void, Made>): Made {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}
