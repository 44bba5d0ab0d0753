/**
 * One job as the board and the terminal read it: the stored record with everything its clocks depend on, so that they can
 * ask the same rules as the server (`timeline`, `foresee`, `clocksOf`) at any instant, without another request.
 *
 * Instants are milliseconds since the epoch on the clock of the server, lengths are milliseconds, and members are named as
 * in the record. What is text in the record (`body`, `given`, `life`, `errors`, `error`, `result`) is text here too.
 */
import { instant, type Instant, type Millis } from '../time/clock.ts'
import type { Outage } from '../job/liveness.ts'
import type { HeldBy } from './job/held-by.ts'
import type { Job, Json } from '../job/job.ts'
import type { TimelineInput } from '../job/timeline/timeline-model.ts'
import type { Beat, Worker } from '../job/worker.ts'
import { OjsError } from '../errors.ts'

/** Grows when a reader of the form before would misread this one. */
export const BOARD_JOB_FORMAT = 1

/** Where an available job stands in its queue. */
export interface PlaceInQueue {
  /** How many jobs of its queue are handed out before it. */
  readonly ahead: number
  /** If not, there are at least so many. */
  readonly isExact: boolean
}

export interface BoardJob extends TimelineInput {
  /** The server's clock when it answered. */
  readonly now: Instant
  /** Null: the job does not stand in a queue. */
  readonly place: PlaceInQueue | null
  readonly heldBy: HeldBy | null
}

/** The worker's row as far as it concerns one job: a worker may hold thousands, and know as many handlers. */
type WorkerDocument = Omit<Worker, 'beat'> & { readonly beat: BeatDocument | null }
type BeatDocument = Omit<Beat, 'jobs' | 'proofs'> & {
  readonly jobs: readonly string[]
  readonly proofs: readonly string[] | null
}

interface Document extends Omit<BoardJob, 'life'> {
  readonly format: number
  readonly worker: WorkerDocument | null
  readonly workerTimeoutMs: Millis
  readonly outages: readonly Outage[]
}

export function writeBoardJob({ life, ...rest }: BoardJob): Json {
  const { worker, workerTimeoutMs, outages } = life
  const document: Document = {
    format: BOARD_JOB_FORMAT,
    ...rest,
    worker: worker === null ? null : concerning(worker, rest.job),
    workerTimeoutMs,
    outages,
  }
  return JSON.stringify(document)
}

function concerning(worker: Worker, { id, type }: Job): WorkerDocument {
  const { beat, handlers } = worker
  const only = (set: ReadonlySet<string>): string[] => (set.has(id) ? [id] : [])
  const handler = Object.hasOwn(handlers, type) ? handlers[type] : undefined
  const lease = beat?.leases[id]
  return {
    ...worker,
    handlers: handler === undefined ? {} : { [type]: handler },
    beat:
      beat === null
        ? null
        : {
            ...beat,
            jobs: only(beat.jobs),
            proofs: beat.proofs === null ? null : only(beat.proofs),
            leases: lease === undefined ? {} : { [id]: lease },
          },
  }
}

/** From parsed JSON. Refuses what is not such a document; the members themselves are the server's, and believed. */
export function readBoardJob(parsed: unknown): BoardJob {
  const document = (typeof parsed === 'object' ? parsed : null) as Partial<Document> | null
  if (document?.job === undefined || typeof document.format !== 'number')
    throw new OjsError('invalid_request', 'The answer is not the record of a job.', {
      hint: 'Check that the address is that of a Curfew server.',
    })
  if (document.format > BOARD_JOB_FORMAT)
    throw new OjsError(
      'invalid_request',
      `The server writes records of jobs in format ${String(document.format)}; this version reads ${String(BOARD_JOB_FORMAT)}.`,
      { hint: 'Use the version of the server.' },
    )
  const { worker, workerTimeoutMs, outages, format: _format, ...rest } = document as Document
  return {
    ...rest,
    life: { worker: worker === null ? null : { ...worker, beat: beatOf(worker.beat) }, workerTimeoutMs, outages },
  }
}

const beatOf = (beat: BeatDocument | null): Beat | null =>
  beat === null
    ? null
    : { ...beat, jobs: new Set(beat.jobs), proofs: beat.proofs === null ? null : new Set(beat.proofs) }

/** The clock of a server that answered `sinceMs` ago. */
export const serverNow = ({ now }: Pick<BoardJob, 'now'>, sinceMs: number): Instant => instant(now + sinceMs)
