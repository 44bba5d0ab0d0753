/** Valid records for tests. Everything begins at noon, and a test names only what matters to it. */
import {
  admit,
  days,
  DEFAULT_LIMITS,
  DEFAULT_RETRY,
  instant,
  seededRandom,
  settleAtEnqueue,
  start,
  uuidV7,
  type Checkpoint,
  type Doc,
  type Instant,
  type Job,
  type Moment,
  type NewEvent,
  type NewJob,
  type Notice,
  type Step,
  type TypePolicy,
  type Worker,
} from '@curfew/core'
import { NO_CHANGES, type Changes, type Claimable, type Queue, type Store } from './store.ts'
import type { StoredEvent, Transaction } from './store.ts'

const NOON = Date.UTC(2026, 0, 1, 12)
const random = seededRandom(2026)

/** So many milliseconds after noon. */
export const at = (ms: number): Instant => instant(NOON + ms)

export function momentAt(ms: number): Moment {
  return {
    now: at(ms),
    upAt: at(0),
    random,
    limits: DEFAULT_LIMITS,
    retention: { completedMs: days(7), cancelledMs: days(7), discardedMs: days(30), deadLetterMs: days(180) },
  }
}

export function newJob(given: Partial<NewJob> = {}): NewJob {
  return {
    id: uuidV7(at(0), random),
    type: 'email.send',
    queue: 'default',
    priority: 0,
    retry: DEFAULT_RETRY,
    limits: settleAtEnqueue({ publish: {}, type: null, queue: null, server: DEFAULT_LIMITS }),
    ceiling: null,
    parent: null,
    owner: null,
    uniqueKey: null,
    limitKey: null,
    tenant: null,
    scheduledAt: null,
    expiresAt: null,
    resultTtlMs: null,
    traceId: null,
    body: '"args":["a@example.com"]',
    given: '',
    pending: false,
    ...given,
  }
}

/** A job as it is admitted, so many milliseconds after noon. */
export const admitted = (given: Partial<NewJob> = {}, ms = 0): Step => admit(newJob(given), momentAt(ms))

/** An available job is claimed. */
export function claimed(job: Job, workerId: string | null = 'worker-1', ms = 1): Step {
  return start(job, { workerId, handler: null, known: workerId !== null, fetchVisibilityMs: null }, momentAt(ms))
}

export function aWorker(given: Partial<Worker> = {}): Worker {
  return {
    id: 'worker-1',
    hostname: 'host',
    pid: 1,
    queues: ['default'],
    concurrency: 10,
    labels: [],
    startedAt: '2026-01-01T12:00:00Z',
    state: 'running',
    draining: false,
    directive: 'continue',
    registered: true,
    known: true,
    createdAt: at(0),
    lastSeenAt: at(0),
    lastBeatAt: null,
    activeJobs: 0,
    beat: null,
    beatSeq: null,
    handlers: {},
    diedAt: null,
    wakeAt: at(30_000),
    version: 0,
    ...given,
  }
}

export function aQueue(given: Partial<Queue> = {}): Queue {
  return { name: 'default', version: 0, createdAt: at(0), pausedAt: null, drainingAt: null, config: {}, ...given }
}

export function aNotice(given: Partial<Notice> = {}): Notice {
  return { jobId: 'job-1', lease: 1, reason: 'timeout', at: at(0), ...given }
}

export function aTypePolicy(given: Partial<TypePolicy> = {}): TypePolicy {
  return { type: 'email.send', asked: {}, caps: {}, sent: {}, updatedAt: at(0), ...given }
}

export function aCheckpoint(jobId: string, given: Partial<Checkpoint> = {}): Checkpoint {
  return { jobId, sequence: 1, state: '{"frame":400}', stepIndex: null, metadata: null, createdAt: at(0), ...given }
}

export function aDoc(given: Partial<Doc> = {}): Doc {
  return { kind: 'cron', id: 'nightly', version: 1, wakeAt: null, body: '{"n":1}', ...given }
}

/** Asks for what is to be handed out, as most fetches do. */
export function claimable(queue = 'default', limit = 100, given: Partial<Claimable> = {}): Claimable {
  return { queue, limit, order: 'fifo', tenant: null, without: [], ...given }
}

export function anEvent(given: Partial<NewEvent> = {}): NewEvent {
  return {
    type: 'queue.paused',
    at: at(0),
    subject: 'default',
    queue: 'default',
    jobType: null,
    data: { queue: 'default' },
    ...given,
  }
}

export function changes(given: Partial<Changes> = {}): Changes {
  return { ...NO_CHANGES, ...given }
}

/** Runs a transaction that ends with an answer and saves nothing more. */
export async function within<T>(store: Store, work: (tx: Transaction) => Promise<T>): Promise<T> {
  return (await store.transaction(async (tx) => ({ value: await work(tx), changes: NO_CHANGES }))).value
}

/** Saves in a transaction of its own and gives the events. */
export async function saveIn(store: Store, what: Changes): Promise<readonly StoredEvent[]> {
  return (await store.transaction(() => Promise.resolve({ value: null, changes: what }))).events
}

/** What these steps change, with the events that tell of them. */
export function changesOf(
  ...steps: readonly { before: Job | null; job: Job | null; events: readonly NewEvent[] }[]
): Changes {
  return changes({
    jobs: steps.map(({ before, job }) => ({ before, after: job })),
    events: steps.flatMap(({ events }) => events),
  })
}
