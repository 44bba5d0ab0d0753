/**
 * Rows to records, for both stores: the one place that says which column becomes which field. What differs between stores is
 * in their `Dialect`. A process has one store, so these calls have one target each and cost what a copy would
 * (ADR 0081 has the figures).
 */
import type { Hold, Instant, Job, Worker } from '@curfew/core'
import { cell, JOB_COLUMNS, placesOf, WORKER_COLUMNS } from './columns.ts'
import { ownerOf, parsed, progressOf, toBeat } from './records.ts'

/** A place in the table of shared texts, or the text itself. */
export type TextRef = number | string

export interface Dialect<Flag, Ref> {
  readonly isSet: (flag: Flag) => boolean
  readonly refOf: (column: Ref) => TextRef
  /** Identifiers of jobs and what they are found by, as they were sent. */
  readonly name: (column: string) => string
  readonly nameOrNull: (column: string | null) => string | null
  /** Names of workers, as they were sent. */
  readonly workerName: (column: string) => string
}

/** Where shared texts are looked up. */
export interface SharedTexts {
  value<Value extends object>(ref: TextRef): Value
}

/** `before`: so many columns of the store's own come first. */
export function jobReader<Flag, Ref>(
  { isSet, refOf, name, nameOrNull, workerName }: Dialect<Flag, Ref>,
  before: number,
): (row: readonly unknown[], body: string, texts: SharedTexts) => Job {
  const JOB = placesOf<Flag, Ref, typeof JOB_COLUMNS>(JOB_COLUMNS, before)
  return (row, body, texts) => {
    const hold = cell(row, JOB.hold)
    const owner = cell(row, JOB.owner)
    const { progress, log } = progressOf(cell(row, JOB.progress))
    const job: Job = {
      body,
      id: name(cell(row, JOB.id)),
      version: cell(row, JOB.version),
      state: cell(row, JOB.state),
      queue: name(cell(row, JOB.queue)),
      type: name(cell(row, JOB.type)),
      priority: cell(row, JOB.priority),
      seq: cell(row, JOB.seq),
      wakeAt: cell(row, JOB.wakeAt),
      deadLetter: isSet(cell(row, JOB.deadLetter)),
      attempt: cell(row, JOB.attempt),
      lease: cell(row, JOB.lease),
      interruptions: cell(row, JOB.interruptions),
      createdAt: cell(row, JOB.createdAt),
      anchorAt: cell(row, JOB.anchorAt),
      limitsSetAt: cell(row, JOB.limitsSetAt),
      scheduledAt: cell(row, JOB.scheduledAt),
      expiresAt: cell(row, JOB.expiresAt),
      enqueuedAt: cell(row, JOB.enqueuedAt),
      activatedAt: cell(row, JOB.activatedAt),
      startedAt: cell(row, JOB.startedAt),
      completedAt: cell(row, JOB.completedAt),
      cancelledAt: cell(row, JOB.cancelledAt),
      discardedAt: cell(row, JOB.discardedAt),
      reenqueuedAt: cell(row, JOB.reenqueuedAt),
      nextRetryAt: cell(row, JOB.nextRetryAt),
      retryDelayMs: cell(row, JOB.retryDelayMs),
      resultTtlMs: cell(row, JOB.resultTtlMs),
      purgeAt: cell(row, JOB.purgeAt),
      errorCount: cell(row, JOB.errorCount),
      checkpointSeq: cell(row, JOB.checkpointSeq),
      limits: texts.value(refOf(cell(row, JOB.limits))),
      retry: texts.value(refOf(cell(row, JOB.retry))),
      ceiling: parsed(cell(row, JOB.ceiling)),
      parent: parsed(cell(row, JOB.parent)),
      hold: hold === null ? null : toHold(hold, cell(row, JOB.workerId), texts, workerName),
      closedBy: parsed(cell(row, JOB.closedBy)),
      progress,
      traceId: parsed(cell(row, JOB.traceId)),
      cancelReason: parsed(cell(row, JOB.cancelReason)),
      error: cell(row, JOB.error),
      errors: cell(row, JOB.errors),
      result: cell(row, JOB.result),
      given: cell(row, JOB.given),
      life: cell(row, JOB.life),
      owner: owner === null ? null : ownerOf(name(owner), nameOrNull(cell(row, JOB.step))),
      uniqueKey: nameOrNull(cell(row, JOB.uniqueKey)),
      limitKey: nameOrNull(cell(row, JOB.limitKey)),
      tenant: nameOrNull(cell(row, JOB.tenant)),
    }
    return log === undefined ? job : { ...job, log }
  }
}

// ---- Reservations ----

/** A reservation is what it was granted under, which many have in common, and three clocks of its own. */
export type HoldTerms = Omit<Hold, 'workerId' | 'signAt' | 'visibleFrom' | 'visibleMs' | 'stack' | 'saved'>

export type FlatHold = readonly [
  terms: TextRef,
  signAt: Instant,
  visibleFrom: Instant,
  visibleMs: Hold['visibleMs'],
  // Only if there is one. An older server does not look at them.
  stack?: readonly string[] | null,
  saved?: number,
]

function toHold(
  text: string,
  workerId: string | null,
  texts: SharedTexts,
  workerName: (column: string) => string,
): Hold {
  const [ref, signAt, visibleFrom, visibleMs, stack, saved] = JSON.parse(text) as FlatHold
  const { known, timeout, grace, heartbeat, visibility, onTimeout } = texts.value<HoldTerms>(ref)
  return {
    workerId: workerId === null ? null : workerName(workerId),
    known,
    timeout,
    grace,
    heartbeat,
    visibility,
    onTimeout,
    signAt,
    visibleFrom,
    visibleMs,
    ...(stack === undefined || stack === null ? {} : { stack }),
    ...(saved === undefined ? {} : { saved }),
  }
}

// ---- Workers ----

export function workerReader<Flag, Ref>({
  isSet,
  refOf,
  workerName,
}: Dialect<Flag, Ref>): (row: readonly unknown[], texts: SharedTexts) => Worker {
  const WORKER = placesOf<Flag, Ref, typeof WORKER_COLUMNS>(WORKER_COLUMNS)
  return (row, texts) => {
    const beat = cell(row, WORKER.beat)
    return {
      id: workerName(cell(row, WORKER.id)),
      version: cell(row, WORKER.version),
      known: isSet(cell(row, WORKER.known)),
      lastSeenAt: cell(row, WORKER.lastSeenAt),
      wakeAt: cell(row, WORKER.wakeAt),
      diedAt: cell(row, WORKER.diedAt),
      createdAt: cell(row, WORKER.createdAt),
      lastBeatAt: cell(row, WORKER.lastBeatAt),
      state: cell(row, WORKER.state),
      draining: isSet(cell(row, WORKER.draining)),
      directive: cell(row, WORKER.directive),
      registered: isSet(cell(row, WORKER.registered)),
      activeJobs: cell(row, WORKER.activeJobs),
      beatSeq: cell(row, WORKER.beatSeq),
      pid: cell(row, WORKER.pid),
      concurrency: cell(row, WORKER.concurrency),
      hostname: parsed(cell(row, WORKER.hostname)),
      startedAt: parsed(cell(row, WORKER.startedAt)),
      queues: texts.value(refOf(cell(row, WORKER.queues))),
      labels: texts.value(refOf(cell(row, WORKER.labels))),
      handlers: texts.value(refOf(cell(row, WORKER.handlers))),
      beat: beat === null ? null : toBeat(beat),
    }
  }
}
