/**
 * How reports go to the server and jobs come back: all in one call where the server offers it (`exchange`), one by one
 * elsewhere. Reports are safe to repeat: they name their lease, and the server tells a late one from a repeated one.
 */
import { instant, millis, type Host, type Instant, type Millis } from '@curfew/core'
import type { Connection } from './connection.ts'
import { NetworkError, RequestError } from './errors.ts'
import type { BeatAnswer } from './guard/protocol.ts'
import type { Hold, Report } from './report.ts'
import { monotonicNow, type Asked } from './terms.ts'
import type { HandedJob } from './wire.ts'

export interface Ask {
  readonly count: number
  readonly waitMs: number
}

export interface Trip {
  readonly reports: readonly Report[]
  readonly ask: Ask | null
  /** The body of a beat to take along, where the way allows it. */
  readonly beat: Record<string, unknown> | null
  /** Aborted when the worker has ended. */
  readonly signal: AbortSignal
}

/** `refused`: it changed nothing, and never will. `unsent`: try again. */
export type Delivery =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'unsent'; readonly error: unknown }

export interface Return {
  /** One for each report, in their order. */
  readonly deliveries: readonly Delivery[]
  readonly jobs: readonly HandedJob[]
  /** What the deadlines of the jobs are counted from. */
  readonly asked: Asked
  readonly beat: BeatAnswer | null
  /** Why no jobs could be asked for, though reports were delivered. */
  readonly failure: unknown
}

export interface Courier {
  /** A beat may go along. */
  readonly takesBeats: boolean
  readonly waits: boolean
  travel(trip: Trip): Promise<Return>
}

interface Route {
  readonly connection: Connection
  readonly host: Host
  readonly workerId: string
  readonly queues: readonly string[]
}

/** A poll may take its wait, and this much longer. */
const ANSWER_MS = 10_000

interface FetchAnswer {
  readonly jobs?: readonly HandedJob[]
  readonly x_waited_ms?: number
}

interface EntryAnswer {
  readonly ok: boolean
  readonly status?: number
  readonly error?: { readonly code?: string; readonly message?: string; readonly details?: Record<string, unknown> }
}

// ---- One call for everything ----

interface ExchangeAnswer extends FetchAnswer {
  readonly acks?: readonly EntryAnswer[]
  readonly nacks?: readonly EntryAnswer[]
  readonly beat?: BeatAnswer
}

export function exchangeCourier({ connection, host, workerId, queues }: Route): Courier {
  return {
    takesBeats: true,
    waits: true,
    async travel({ reports, ask, beat, signal }) {
      const acks = reports.filter(({ kind }) => kind === 'ack')
      const nacks = reports.filter(({ kind }) => kind === 'nack')
      const askedAt = monotonicNow(host)
      const answer = await connection.call<ExchangeAnswer>({
        method: 'POST',
        path: '/ojs/v1/workers/exchange',
        idempotent: false,
        signal,
        timeoutMs: (ask?.waitMs ?? 0) + ANSWER_MS,
        body: {
          worker_id: workerId,
          ...(acks.length === 0 ? {} : { acks: acks.map(bodyOf) }),
          ...(nacks.length === 0 ? {} : { nacks: nacks.map(bodyOf) }),
          ...(beat === null ? {} : { beat }),
          ...(ask === null ? {} : { fetch: { queues, count: ask.count, wait_ms: ask.waitMs } }),
        },
      })
      const answers = new Map<Report, EntryAnswer | undefined>()
      acks.forEach((report, index) => answers.set(report, answer.acks?.[index]))
      nacks.forEach((report, index) => answers.set(report, answer.nacks?.[index]))
      return {
        deliveries: reports.map((report) => entryDelivery(report.hold, workerId, answers.get(report))),
        ...comingBack(askedAt, answer),
        beat: answer.beat ?? null,
        failure: null,
      }
    },
  }
}

function entryDelivery(hold: Hold, workerId: string, entry: EntryAnswer | undefined): Delivery {
  if (entry === undefined) return { kind: 'unsent', error: new NetworkError('The answer leaves out a report.') }
  if (entry.ok) return { kind: 'done' }
  const { code = 'unknown', message = '', details = {} } = entry.error ?? {}
  if (isOwnDoing(hold, workerId, details)) return { kind: 'done' }
  if ((entry.status ?? 400) >= 500) return { kind: 'unsent', error: new NetworkError(message) }
  return { kind: 'refused', code, message }
}

// ---- One call for each ----

/** `waits`: the server holds an empty fetch open for a while. `names`: it takes `worker_id` and `attempt` as fences. */
export function singleCourier({ connection, host, workerId, queues }: Route, waits: boolean, fences: boolean): Courier {
  const deliver = async (report: Report, signal: AbortSignal): Promise<Delivery> => {
    try {
      await connection.call({
        method: 'POST',
        path: `/ojs/v1/workers/${report.kind}`,
        idempotent: true,
        signal,
        body: { ...bodyOf(report), ...(fences ? { worker_id: workerId } : {}) },
      })
      return { kind: 'done' }
    } catch (error) {
      if (!(error instanceof RequestError)) return { kind: 'unsent', error }
      if (isOwnDoing(report.hold, workerId, error.details)) return { kind: 'done' }
      if (error.status >= 500 || error.status === 429) return { kind: 'unsent', error }
      return { kind: 'refused', code: error.code, message: error.message }
    }
  }
  return {
    takesBeats: false,
    waits,
    async travel({ reports, ask, signal }) {
      const deliveries = await Promise.all(reports.map((report) => deliver(report, signal)))
      const askedAt = monotonicNow(host)
      const back = { deliveries, ...comingBack(askedAt, {}), beat: null, failure: null }
      if (ask === null) return back
      try {
        const answer = await connection.call<FetchAnswer>({
          method: 'POST',
          path: '/ojs/v1/workers/fetch',
          idempotent: false,
          signal,
          timeoutMs: ask.waitMs + ANSWER_MS,
          body: { worker_id: workerId, queues, count: ask.count, ...(waits ? { wait_ms: ask.waitMs } : {}) },
        })
        return { ...back, ...comingBack(askedAt, answer) }
      } catch (failure) {
        return { ...back, failure }
      }
    },
  }
}

function comingBack(
  askedAt: Instant,
  { jobs = [], x_waited_ms: waited = 0 }: FetchAnswer,
): {
  jobs: readonly HandedJob[]
  asked: { at: Instant; waitedMs: Millis }
} {
  return { jobs, asked: { at: instant(askedAt), waitedMs: millis(Math.max(0, waited)) } }
}

function bodyOf(report: Report): Record<string, unknown> {
  const { jobId, attempt, lease } = report.hold
  const fence = { job_id: jobId, ...(lease === null ? {} : { attempt, x_lease: lease }) }
  if (report.kind === 'ack') return { ...fence, ...(report.result === undefined ? {} : { result: report.result }) }
  return { ...fence, error: report.error, ...(report.requeue ? { requeue: true } : {}) }
}

/** Refused because it was done already, by this very report: the first answer was lost. */
function isOwnDoing(hold: Hold, workerId: string, details: Readonly<Record<string, unknown>>): boolean {
  const by = details['completed_by']
  if (typeof by !== 'object' || by === null || hold.lease === null) return false
  const { worker_id: worker, x_lease: lease } = by as Record<string, unknown>
  return worker === workerId && lease === hold.lease
}
