/**
 * Records to values, for both stores: what a statement writes, in the order in which both stores' statements name it. Lists
 * that the stores order differently are in their own `rows.ts`.
 */
import { errorKeys, type Job, type Worker } from '@curfew/core'
import { beatText, json, ownerText } from './records.ts'
import type { TextRef } from './row-reader.ts'

/** How a store writes what it holds in its own way. */
export interface WriteDialect<Flag> {
  readonly flag: (value: boolean) => Flag
  /** Identifiers of jobs and what they are found by. */
  readonly name: (text: string) => string
  /** Names that workers send and the server does not check: types of errors. */
  readonly exact: (text: string) => string
}

/** Where texts get their places. */
export interface TextPlaces {
  ref(value: object): TextRef
}

/** What may change of a job besides what a claim, a result or a sign of life changes. */
export function otherValuesWith<Flag>({
  flag,
  name,
  exact,
}: WriteDialect<Flag>): (job: Job, texts: TextPlaces) => unknown[] {
  return (job, texts) => {
    const { type, kind } = errorKeys(job)
    const { owner } = job
    return [
      job.priority,
      flag(job.deadLetter),
      job.interruptions,
      job.anchorAt,
      job.limitsSetAt,
      job.scheduledAt,
      job.expiresAt,
      job.activatedAt,
      job.cancelledAt,
      job.discardedAt,
      job.reenqueuedAt,
      job.nextRetryAt,
      job.retryDelayMs,
      job.resultTtlMs,
      job.errorCount,
      job.checkpointSeq,
      texts.ref(job.limits),
      texts.ref(job.retry),
      json(job.ceiling),
      json(job.cancelReason),
      job.error,
      job.errors,
      job.given,
      owner === null ? null : name(ownerText(owner)),
      owner === null || owner.step === null ? null : name(owner.step),
      type === null ? null : exact(type),
      kind,
    ]
  }
}

/** All of a worker but its id and version. */
export function workerValuesWith<Flag>({
  flag,
}: Pick<WriteDialect<Flag>, 'flag'>): (worker: Worker, texts: TextPlaces) => unknown[] {
  return (worker, texts) => [
    flag(worker.known),
    worker.lastSeenAt,
    worker.wakeAt,
    worker.diedAt,
    worker.createdAt,
    worker.lastBeatAt,
    worker.state,
    flag(worker.draining),
    worker.directive,
    flag(worker.registered),
    worker.activeJobs,
    worker.beatSeq,
    worker.pid,
    worker.concurrency,
    json(worker.hostname),
    json(worker.startedAt),
    texts.ref(worker.queues),
    texts.ref(worker.labels),
    texts.ref(worker.handlers),
    worker.beat === null ? null : beatText(worker.beat),
  ]
}
