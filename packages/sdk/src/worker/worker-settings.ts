/** What an application says about its worker, checked once. */
import { hostname } from 'node:os'
import { iso, millis, type Instant, type Millis } from '@curfew/core'
import type { ConnectOptions } from '../client/connection.ts'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'
import type { WorkerFacts } from '../guard/protocol.ts'
import type { AttemptLimits } from '../job/limits.ts'

export interface WorkerSettings {
  /** Read from left to right: the first has precedence. */
  readonly queues?: readonly string[]
  /** Jobs at the same time. */
  readonly concurrency?: number
  /**
   * The largest number of jobs to take beyond `concurrency`, so that no slot waits for the server. How many are taken
   * follows from how long handlers run and whether there is a backlog; handlers of more than 50 ms: none. 0: never any.
   * By default ten times the concurrency, at least 250 and at most 500; 0 with handlers in threads or processes.
   */
  readonly prefetch?: number
  readonly labels?: readonly string[]
  /** Limits for every handler that does not bring its own, field by field. */
  readonly defaults?: AttemptLimits
  /** How long running jobs are waited for when the worker stops. */
  readonly drain?: Duration
  /** False: one call for each report, even where the server takes them together. */
  readonly exchange?: boolean
  /** `inline`: handlers run in this thread whatever they ask for, as a test or a debugger may want it. */
  readonly isolation?: 'inline'
  /** The name the server knows this worker by; a new one by default. */
  readonly id?: string
}

export type WorkerOptions = ConnectOptions & WorkerSettings

const DRAIN_MS = millis(25_000)
const MAX_PREFETCH = 1_000

export interface CheckedSettings {
  readonly queues: readonly string[]
  readonly concurrency: number
  /** Null: the worker decides. */
  readonly prefetch: number | null
  readonly drainMs: Millis
}

export function checkSettings(options: WorkerSettings): CheckedSettings {
  const { queues = ['default'], concurrency = 10, prefetch = null, drain } = options
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw new InputError('concurrency must be a whole number from 1 on.', { field: 'concurrency' })
  if (prefetch !== null && !(Number.isInteger(prefetch) && prefetch >= 0 && prefetch <= MAX_PREFETCH))
    throw new InputError(`prefetch must be a whole number from 0 to ${String(MAX_PREFETCH)}.`, { field: 'prefetch' })
  if (queues.length === 0) throw new InputError('A worker needs at least one queue.', { field: 'queues' })
  return { queues, concurrency, prefetch, drainMs: drain === undefined ? DRAIN_MS : toMillis(drain, 'drain') }
}

/** Who the worker is, for its registration and every beat. */
export function workerFacts(
  id: string,
  { queues, concurrency }: CheckedSettings,
  labels: readonly string[] | undefined,
  startedAt: Instant,
): WorkerFacts {
  return {
    worker_id: id,
    hostname: hostname(),
    pid: process.pid,
    queues,
    concurrency,
    labels: labels ?? [],
    started_at: iso(startedAt),
  }
}
