/** What a worker tells the server of an attempt that is over, and how an ending becomes such a report. */
import { elapsed, instant, isDue, iso, millis, type Instant, type Millis } from '@curfew/core'
import type { Ending, ErrorData, Stop } from './facts.ts'
import type { Terms } from './terms.ts'

/** Proof of which attempt a report speaks for. */
export interface Hold {
  readonly jobId: string
  readonly attempt: number
  readonly lease: number | null
}

/** Names an attempt among all of a worker's. */
export function keyOf({ jobId, attempt, lease }: Hold): string {
  return `${jobId}#${String(lease ?? attempt)}`
}

export interface WireError {
  readonly type: string
  readonly code?: string
  readonly message: string
  readonly retryable?: boolean
  readonly x_retry_at?: string
  readonly details?: unknown
  readonly backtrace?: readonly string[]
  readonly timeout_kind?: string
  readonly limit_seconds?: number
  readonly elapsed_seconds?: number
}

export type Report =
  | { readonly kind: 'ack'; readonly hold: Hold; readonly result: unknown }
  | {
      readonly kind: 'nack'
      readonly hold: Hold
      readonly error: WireError
      readonly requeue: boolean
      /** Of a hand-back: the job is not handed out before, on the server's clock. */
      readonly notBefore?: Instant
    }

/** An abandoned attempt: its handler did not stop in time and cannot be killed. */
export type AnyEnding = Ending | { readonly kind: 'abandoned' }

/**
 * Null: the job is over or belongs to another attempt, so there is nothing to report. `bufferedMs`: how long it waited in the
 * worker before its handler began.
 */
export function reportOf(
  hold: Hold,
  terms: Terms,
  stop: Stop | null,
  ending: AnyEnding,
  now: Instant,
  bufferedMs = millis(0),
): Report | null {
  if (stop?.why === 'cancelled') return null
  if (ending.kind === 'returned') {
    if (isDue(terms.hardAt, now)) return null
    // One that may be lost is reported as well: whether the lease still holds is for the server to say.
    return { kind: 'ack', hold, result: ending.result }
  }
  if (ending.kind === 'slept') {
    if (isDue(terms.hardAt, now)) return null
    const notBefore = instant(ending.until)
    const message = `The job sleeps in "${ending.name}" until ${iso(notBefore)}.`
    return { kind: 'nack', hold, requeue: true, notBefore, error: { type: 'sleep', code: 'sleep', message } }
  }
  if (stop?.why === 'lost') return lostReport(hold, ending)
  if (stop?.why === 'deadline') {
    // Whatever it throws after its deadline, it is a timeout.
    return { kind: 'nack', hold, requeue: false, error: timeoutError(stop, terms, ending, now, bufferedMs) }
  }
  if (stop?.why === 'shutdown') {
    // It may still be running here: handed back, it would run twice. The server ends it at its deadline.
    if (ending.kind === 'abandoned') return null
    const message = 'The worker shut down before the job was done.'
    return { kind: 'nack', hold, requeue: true, error: { type: 'shutdown', code: 'shutdown', message } }
  }
  if (ending.kind === 'abandoned' || ending.kind === 'killed' || ending.kind === 'not_begun') return null
  return { kind: 'nack', hold, requeue: false, error: wireError(ending.error) }
}

/**
 * The server may still count on this attempt. Once its handler has stopped for certain the job is handed back; one that
 * might still be running is left to the server's own clocks.
 */
function lostReport(hold: Hold, ending: AnyEnding): Report | null {
  if (ending.kind === 'abandoned') return null
  const message = 'The worker lost contact with the server and stopped the job.'
  return { kind: 'nack', hold, requeue: true, error: { type: 'lost_lease', code: 'lost_lease', message } }
}

function timeoutError(
  stop: Stop & { why: 'deadline' },
  terms: Terms,
  ending: AnyEnding,
  now: Instant,
  bufferedMs: Millis,
): WireError {
  const elapsedMs = elapsed(terms.startedAt, now)
  const thrown = ending.kind === 'threw' || ending.kind === 'died' ? ending.error : null
  const stack = 'stack' in ending ? ending.stack : (thrown?.stack?.split('\n') ?? null)
  const startMs = 'startMs' in ending ? ending.startMs : undefined
  return {
    type: stop.kind === 'total' ? 'total_timeout' : stop.kind === 'stalled' ? 'stalled' : 'timeout',
    code: 'timeout',
    message: `Timed out after ${String(stop.limitMs / 1000)}s (${HOW[ending.kind]}).`,
    timeout_kind: stop.kind,
    limit_seconds: stop.limitMs / 1000,
    elapsed_seconds: Math.floor(elapsedMs / 1000),
    details: {
      ended: ending.kind,
      source: stop.source,
      // The time of the attempt that the handler did not have.
      ...(startMs === undefined ? {} : { isolate_start_ms: startMs }),
      ...(bufferedMs < 1 ? {} : { buffered_ms: Math.floor(bufferedMs) }),
      ...(thrown === null ? {} : { thrown: { name: thrown.name, message: thrown.message } }),
    },
    ...(stack === null ? {} : { backtrace: stack }),
  }
}

const HOW: Readonly<Record<AnyEnding['kind'], string>> = {
  returned: 'its result came too late',
  threw: 'the handler stopped by itself',
  slept: 'the handler had fallen asleep',
  died: 'its isolate ended',
  killed: 'the handler was killed',
  not_begun: 'the isolate was still starting; the handler had not begun',
  abandoned: 'the handler did not stop, and runs in the worker itself: it cannot be killed',
}

/** Longer names are refused by the server. */
const MAX_NAME = 255

export function wireError(error: ErrorData): WireError {
  const own = error.name === 'Error' || error.name === '' ? 'handler_error' : error.name.slice(0, MAX_NAME)
  return {
    type: own,
    code: (error.code ?? own).slice(0, MAX_NAME),
    message: error.message,
    // What a refused request says of itself says nothing of the job.
    ...(error.retryable === undefined || error.name === 'RequestError' ? {} : { retryable: error.retryable }),
    ...(error.retryAt === undefined ? {} : { x_retry_at: error.retryAt }),
    ...(error.details === undefined ? {} : { details: error.details }),
    ...(error.stack === undefined ? {} : { backtrace: error.stack.split('\n').slice(1, 51) }),
  }
}
