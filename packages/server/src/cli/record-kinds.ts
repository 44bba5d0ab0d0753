/**
 * The kinds of records in an export, and every field of each. The checks are typed by the records of the store, so that a
 * field that is added there does not compile until it is added here.
 */
import { DIRECTIVES, JOB_STATES, WORKER_STATES } from '@curfew/core'
import type {
  Beat,
  Checkpoint,
  Doc,
  Hold,
  Job,
  Limit,
  Limits,
  LimitSource,
  Notice,
  Outage,
  RetryPolicy,
} from '@curfew/core'
import type { AskedLimits, Caps, JobLog, KeptFor, StoredLine, TypePolicy, Worker } from '@curfew/core'
import type { InboxEntry, Life, Queue, Refusal, Sizes, StoredEvent } from '../store/store.ts'
import {
  anyValue,
  at,
  count,
  fields,
  flag,
  inArray,
  inObject,
  jobId,
  json,
  listOf,
  mapOf,
  ms,
  name,
  number,
  oneOf,
  orAbsent,
  orNull,
  passing,
  plain,
  string,
  whole,
  type Check,
} from './record-checks.ts'

export interface Header {
  readonly curfew: 'export'
  readonly format: number
  readonly version: string
  readonly exported_at: string
  readonly counts: Sizes
}

export interface End {
  readonly end: true
  readonly records: number
}

export type FlatBeat = Omit<Beat, 'jobs' | 'proofs'> & { jobs: readonly string[]; proofs: readonly string[] | null }
export type FlatWorker = Omit<Worker, 'beat'> & { beat: FlatBeat | null }
type FlatNotice = Notice & { workerId: string }

/** What stands in the file under each name. */
export interface Flat {
  queue: Queue
  type: TypePolicy
  worker: FlatWorker
  notice: FlatNotice
  job: Job
  checkpoint: Checkpoint
  doc: Doc
  tombstone: { id: string }
  event: StoredEvent
  inbox: InboxEntry
  refused: InboxEntry & Refusal
  life: Life
}
export type Kind = keyof Flat

const source = oneOf<LimitSource>(
  'publish',
  'handler',
  'type',
  'queue',
  'fetch',
  'default',
  'cap',
  'parent',
  'workflow',
)
const limit = fields<Limit>({ ms, source, asked: orAbsent(source), whole: orAbsent(ms) })
const mode = oneOf('retry', 'discard')
const onTimeout = fields<Limits['onTimeout']>({ mode, source })
const LENGTHS = {
  timeout: orAbsent(ms),
  total: orAbsent(ms),
  ttl: orAbsent(ms),
  grace: orAbsent(ms),
  heartbeat: orAbsent(ms),
  visibility: orAbsent(ms),
}
const caps = fields<Caps>(LENGTHS)
const kept = fields<KeptFor>({
  completedMs: orAbsent(ms),
  cancelledMs: orAbsent(ms),
  discardedMs: orAbsent(ms),
  deadLetterMs: orAbsent(ms),
})
const asked = fields<AskedLimits>({ ...LENGTHS, onTimeout: orAbsent(mode) })

/** Of each kind of record. */
export const CHECKS: { readonly [K in Kind]: Check<Flat[K]> } = {
  queue: fields<Queue>({
    name,
    version: count,
    createdAt: at,
    pausedAt: orNull(at),
    drainingAt: orNull(at),
    config: plain,
  }),
  type: fields<TypePolicy>({ type: name, asked, caps, sent: plain, updatedAt: at }),
  worker: fields<FlatWorker>({
    id: string,
    hostname: orNull(string),
    pid: orNull(number),
    queues: listOf(string),
    concurrency: orNull(number),
    labels: listOf(string),
    startedAt: orNull(string),
    state: oneOf(...WORKER_STATES),
    draining: flag,
    directive: oneOf(...DIRECTIVES),
    registered: flag,
    known: flag,
    createdAt: at,
    lastSeenAt: at,
    lastBeatAt: orNull(at),
    activeJobs: number,
    beat: orNull(
      fields<FlatBeat>({
        at,
        jobs: listOf(string),
        proofs: orNull(listOf(string)),
        leases: mapOf(number),
        visibilityMs: orNull(ms),
      }),
    ),
    beatSeq: orNull(number),
    handlers: mapOf(asked),
    diedAt: orNull(at),
    wakeAt: orNull(at),
    version: count,
  }),
  notice: fields<FlatNotice>({
    workerId: string,
    jobId,
    lease: count,
    reason: oneOf('timeout', 'cancelled', 'lost'),
    at,
  }),
  job: fields<Job>({
    id: jobId,
    type: name,
    queue: name,
    priority: whole(Number.MIN_SAFE_INTEGER),
    state: oneOf(...JOB_STATES),
    seq: count,
    attempt: count,
    lease: count,
    interruptions: count,
    retry: fields<RetryPolicy>({
      maxAttempts: count,
      initialMs: ms,
      coefficient: number,
      maxMs: ms,
      jitter: flag,
      nonRetryable: listOf(string),
      onExhaustion: oneOf('discard', 'dead_letter'),
      strategy: oneOf('constant', 'linear', 'exponential', 'polynomial'),
    }),
    limits: fields<Limits>({
      timeout: limit,
      grace: limit,
      heartbeat: limit,
      visibility: orNull(limit),
      total: orNull(limit),
      ttl: orNull(limit),
      onTimeout,
      caps,
      kept: orAbsent(kept),
    }),
    ceiling: orNull(fields<NonNullable<Job['ceiling']>>({ at, source: oneOf('parent', 'workflow') })),
    parent: orNull(fields<NonNullable<Job['parent']>>({ kind: oneOf('job', 'journey', 'workflow'), id: string })),
    owner: orAbsent(
      orNull(
        fields<NonNullable<Job['owner']>>({
          kind: oneOf('workflow', 'cron', 'journey'),
          id: string,
          step: orNull(string),
        }),
      ),
    ),
    uniqueKey: orAbsent(orNull(string)),
    limitKey: orAbsent(orNull(string)),
    tenant: orAbsent(orNull(string)),
    hold: orNull(
      fields<Hold>({
        workerId: orNull(string),
        known: flag,
        timeout: limit,
        grace: limit,
        heartbeat: orNull(limit),
        visibility: limit,
        onTimeout,
        signAt: at,
        visibleFrom: at,
        visibleMs: ms,
        stack: orAbsent(listOf(string)),
        saved: orAbsent(count),
      }),
    ),
    log: orAbsent(
      fields<JobLog>({
        lines: listOf(
          fields<StoredLine>({
            at,
            attempt: count,
            message: string,
            fields: orAbsent(mapOf(anyValue)),
            isCut: orAbsent(flag as Check<true>),
          }),
        ),
        dropped: count,
        lease: count,
        next: count,
      }),
    ),
    closedBy: orNull(fields<NonNullable<Job['closedBy']>>({ workerId: orNull(string), attempt: count, lease: count })),
    createdAt: at,
    anchorAt: at,
    limitsSetAt: at,
    scheduledAt: orNull(at),
    expiresAt: orNull(at),
    enqueuedAt: orNull(at),
    activatedAt: orNull(at),
    startedAt: orNull(at),
    completedAt: orNull(at),
    cancelledAt: orNull(at),
    discardedAt: orNull(at),
    reenqueuedAt: orNull(at),
    nextRetryAt: orNull(at),
    retryDelayMs: orNull(ms),
    resultTtlMs: orNull(ms),
    purgeAt: orNull(at),
    error: orNull(json),
    errors: inArray,
    errorCount: count,
    result: orNull(json),
    progress: orNull(
      fields<NonNullable<Job['progress']>>({
        value: orNull(number),
        message: orNull(string),
        data: orNull(json),
        updatedAt: at,
        toldAt: at,
      }),
    ),
    checkpointSeq: count,
    deadLetter: flag,
    cancelReason: orNull(string),
    traceId: orNull(string),
    body: inObject,
    given: inObject,
    life: inArray,
    wakeAt: orNull(at),
    version: count,
  }),
  checkpoint: fields<Checkpoint>({
    jobId,
    sequence: count,
    state: json,
    stepIndex: orNull(number),
    metadata: orNull(json),
    createdAt: at,
  }),
  doc: fields<Doc>({ kind: name, id: string, version: count, wakeAt: orNull(at), body: json }),
  tombstone: fields<{ id: string }>({ id: jobId }),
  event: fields<StoredEvent>({
    sequence: whole(1),
    type: name,
    at,
    subject: string,
    queue: orNull(name),
    jobType: orNull(name),
    data: json,
  }),
  inbox: fields<InboxEntry>({ id: string, body: string }),
  refused: fields<InboxEntry & Refusal>({ id: string, body: string, error: json, at }),
  life: fields<Life>({ aliveAt: orNull(at), outages: listOf(fields<Outage>({ from: at, to: at })) }),
}

export const END = fields<End>({ end: passing('true', (value) => value === true), records: count })

export const HEADER = fields<Header>({
  curfew: oneOf('export'),
  format: whole(1),
  version: string,
  exported_at: string,
  counts: fields<Sizes>({
    queues: count,
    types: count,
    workers: count,
    notices: count,
    jobs: count,
    checkpoints: count,
    docs: orAbsent(count),
    tombstones: count,
    events: count,
    inbox: orAbsent(count),
    refused: orAbsent(count),
  }),
})
