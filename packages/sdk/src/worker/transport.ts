/**
 * How the calls of a worker travel: all in one request where the server offers it (`exchange`), one by one elsewhere.
 * Reports are safe to repeat: they name their lease, and the server tells a late one from a repeated one.
 */
import { setMaxListeners } from 'node:events'
import { instant, iso, millis, type Host, type Instant, type Millis } from '@curfew/core'
import type { Connection } from '../client/connection.ts'
import { RequestError } from '../errors.ts'
import type { LastCall, StopOrder, WorkerState } from '../guard/protocol.ts'
import { MAX_CALL_CHARACTERS, type JobLogs } from '../attempt/job-log.ts'
import type { Hold, Report } from '../attempt/report.ts'
import { monotonicNow } from '../attempt/terms.ts'
import type { HandedJob } from '../wire/jobs.ts'
import type { Call, CallAnswer, Delivery, Orders, ServerFeatures } from './inputs.ts'

export interface WorkerTransport {
  readonly features: ServerFeatures
  /** Rejects when nothing was answered. `signal` ends the call on this side. */
  carry(call: Call, signal: AbortSignal): Promise<CallAnswer>
  /** The same reports as plain calls, for a process that ends. */
  lastCalls(reports: readonly Report[]): readonly LastCall[]
}

interface Route {
  readonly connection: Connection
  readonly host: Host
  readonly workerId: string
  readonly queues: readonly string[]
  /** What the attempts have logged goes along with their reports. */
  readonly logs?: JobLogs
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
  readonly orders?: OrdersView
}

interface OrdersView {
  readonly state?: WorkerState
  readonly x_cancel_jobs?: readonly StopOrder[]
  readonly x_reregister?: boolean
}

/** `orders`: the server answers an open call with orders, too. */
export function exchangeTransport(
  { connection, host, workerId, queues, logs }: Route,
  orders: boolean,
): WorkerTransport {
  return {
    features: { orders, waits: true },
    async carry({ seq, reports, count, waitMs, listen }, signal) {
      const { acks, nacks } = bodiesOf(reports, logs)
      const askedAt = monotonicNow(host)
      const answer = await connection.call<ExchangeAnswer>({
        method: 'POST',
        path: '/ojs/v1/workers/exchange',
        idempotent: false,
        signal,
        timeoutMs: waitMs + ANSWER_MS,
        body: {
          worker_id: workerId,
          ...(orders ? { seq } : {}),
          ...(acks.length === 0 ? {} : { acks }),
          ...(nacks.length === 0 ? {} : { nacks }),
          ...(count === 0 && listen === null ? {} : { fetch: { queues, count, wait_ms: waitMs } }),
          ...(listen === null
            ? {}
            : {
                listen: {
                  state: listen.state,
                  seq,
                  heard: listen.heard.map(({ jobId, lease }) => ({ job_id: jobId, x_lease: lease })),
                },
              }),
        },
      })
      // Answers come in the order of the reports, acks and nacks apart.
      const next = { ack: 0, nack: 0 }
      const deliveries = reports.map(({ kind, hold }) => {
        const entries = kind === 'ack' ? answer.acks : answer.nacks
        return entryDelivery(hold, workerId, entries?.[next[kind]++])
      })
      return {
        deliveries,
        ...comingBack(askedAt, answer),
        orders: answer.orders === undefined ? null : ordersOf(answer.orders),
        failure: null,
      }
    },
    lastCalls(reports) {
      if (reports.length === 0) return []
      const body = { worker_id: workerId, ...bodiesOf(reports, logs) }
      return [{ path: '/ojs/v1/workers/exchange', body }]
    },
  }
}

/** What an answer orders: that to an open call, or that to a beat. */
export function ordersOf({ state, x_cancel_jobs: stops = [], x_reregister: isForgotten }: OrdersView): Orders {
  return { ...(state === undefined ? {} : { state }), stops, isForgotten: isForgotten === true }
}

const DONE: Delivery = { kind: 'done' }

function entryDelivery(hold: Hold, workerId: string, entry: EntryAnswer | undefined): Delivery {
  if (entry === undefined) return { kind: 'unsent', reason: 'The answer leaves out a report.' }
  if (entry.ok) return DONE
  const { code = 'unknown', message = '', details = {} } = entry.error ?? {}
  if (isOwnDoing(hold, workerId, details)) return { kind: 'done' }
  if ((entry.status ?? 400) >= 500) return { kind: 'unsent', reason: message }
  return { kind: 'refused', code, message }
}

// ---- One call for each ----

/** `waits`: the server holds an empty fetch open for a while. `fences`: it takes `worker_id` and `attempt` as fences. */
export function singleTransport(
  { connection, host, workerId, queues, logs }: Route,
  waits: boolean,
  fences: boolean,
): WorkerTransport {
  const deliver = async (report: Report, signal: AbortSignal): Promise<Delivery> => {
    try {
      await connection.call({
        method: 'POST',
        path: `/ojs/v1/workers/${report.kind}`,
        idempotent: true,
        signal,
        body: { ...bodyOf(report), ...logs?.takeAlong(report.hold), ...(fences ? { worker_id: workerId } : {}) },
      })
      return { kind: 'done' }
    } catch (error) {
      if (!(error instanceof RequestError)) return { kind: 'unsent', reason: reasonOf(error) }
      if (isOwnDoing(report.hold, workerId, error.details)) return { kind: 'done' }
      if (error.status >= 500 || error.status === 429) return { kind: 'unsent', reason: error.message }
      return { kind: 'refused', code: error.code, message: error.message }
    }
  }
  return {
    features: { orders: false, waits },
    async carry({ reports, count, waitMs }, signal) {
      // One listener for each report, not a leak.
      setMaxListeners(0, signal)
      const deliveries = await Promise.all(reports.map((report) => deliver(report, signal)))
      const [first] = deliveries
      // Nothing was answered: that is a failure of the call, and no contact with the server.
      if (first?.kind === 'unsent' && deliveries.every(({ kind }) => kind === 'unsent')) throw new Error(first.reason)
      const askedAt = monotonicNow(host)
      const back = { deliveries, ...comingBack(askedAt, {}), orders: null, failure: null }
      if (count === 0) return back
      try {
        const answer = await connection.call<FetchAnswer>({
          method: 'POST',
          path: '/ojs/v1/workers/fetch',
          idempotent: false,
          signal,
          timeoutMs: waitMs + ANSWER_MS,
          body: { worker_id: workerId, queues, count, ...(waits ? { wait_ms: waitMs } : {}) },
        })
        return { ...back, ...comingBack(askedAt, answer) }
      } catch (error) {
        if (reports.length === 0) throw error
        return { ...back, failure: reasonOf(error) }
      }
    },
    lastCalls: (reports) =>
      reports.map((report) => ({
        path: `/ojs/v1/workers/${report.kind}`,
        body: { ...bodyOf(report), ...logs?.takeAlong(report.hold), ...(fences ? { worker_id: workerId } : {}) },
      })),
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

type Bodies = Record<'acks' | 'nacks', Record<string, unknown>[]>

/** Each with what its attempt has logged, as long as there is room for that in one call. */
function bodiesOf(reports: readonly Report[], logs: JobLogs | undefined): Bodies {
  const bodies: Bodies = { acks: [], nacks: [] }
  let room = MAX_CALL_CHARACTERS
  for (const report of reports) {
    const { x_log: log } = logs?.takeAlong(report.hold, room) ?? {}
    if (log !== undefined) room -= JSON.stringify(log).length
    const body = bodyOf(report)
    bodies[report.kind === 'ack' ? 'acks' : 'nacks'].push(log === undefined ? body : { ...body, x_log: log })
  }
  return bodies
}

export function bodyOf(report: Report): Record<string, unknown> {
  const body = fenceOf(report.hold)
  if (report.kind === 'ack') {
    if (report.result !== undefined) body['result'] = report.result
    return body
  }
  body['error'] = report.error
  if (report.requeue) body['requeue'] = true
  if (report.notBefore !== undefined) body['x_not_before'] = iso(report.notBefore)
  return body
}

/** Of a job whose answer was lost only the lease is known. */
function fenceOf({ jobId, attempt, lease }: Hold): Record<string, unknown> {
  if (lease === null) return { job_id: jobId }
  return attempt > 0 ? { job_id: jobId, x_lease: lease, attempt } : { job_id: jobId, x_lease: lease }
}

/** Refused because it was done already, by this very report: the first answer was lost. */
function isOwnDoing(hold: Hold, workerId: string, details: Readonly<Record<string, unknown>>): boolean {
  const by = details['completed_by']
  if (typeof by !== 'object' || by === null || hold.lease === null) return false
  const { worker_id: worker, x_lease: lease } = by as Record<string, unknown>
  return worker === workerId && lease === hold.lease
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
