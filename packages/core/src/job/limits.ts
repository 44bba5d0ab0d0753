/**
 * Limits: how long things may take, and who set them. settle.ts decides which value counts, wire/limits.ts reads them from
 * requests.
 */
import type { Retention } from './lifecycle/transition.ts'
import type { RunLimits } from '../time/budget.ts'
import { days, millis, minutes, seconds, type Millis } from '../time/clock.ts'

export type LimitSource = 'publish' | 'handler' | 'type' | 'queue' | 'fetch' | 'default' | 'cap' | 'parent' | 'workflow'

export interface Limit {
  readonly ms: Millis
  readonly source: LimitSource
  /** The source that a cap overruled: a cap lowers what was asked for, not its rank. */
  readonly asked?: LimitSource
  /** Of a timeout that a shorter total holds down: what it was before. */
  readonly whole?: Millis
}

/** Who asked for a limit, capped or not. */
export const askedSource = ({ source, asked }: Limit): LimitSource => asked ?? source

export type TimeoutMode = 'retry' | 'discard'

export interface OnTimeout {
  readonly mode: TimeoutMode
  readonly source: LimitSource
}

/** The lengths a job can be given, by our names. */
export const LIMIT_NAMES = ['timeout', 'total', 'ttl', 'grace', 'heartbeat', 'visibility'] as const
export type LimitName = (typeof LIMIT_NAMES)[number]

/** Lengths as they were asked for: at publish, in a type policy, in a queue's configuration, with a handler. */
export type AskedLimits = { readonly [name in LimitName]?: Millis } & { readonly onTimeout?: TimeoutMode }

export type Caps = { readonly [name in LimitName]?: Millis }

/** What was settled at enqueue. Grace, stall clock and visibility may still change with the worker that claims. */
export interface Limits {
  readonly timeout: Limit
  readonly grace: Limit
  readonly heartbeat: Limit
  /** Null: decided at the claim (fetch, or the default, which follows timeout and grace). */
  readonly visibility: Limit | null
  readonly total: Limit | null
  readonly ttl: Limit | null
  readonly onTimeout: OnTimeout
  /** Caps that held at enqueue, for the values a handler brings. */
  readonly caps: Caps
  /** How long the queue keeps its jobs when they are over, where it sets that. */
  readonly kept?: KeptFor
}

/** Lengths by ending. */
export type KeptFor = Partial<Retention>

/** The server's own defaults and caps. Every one is configurable. */
export interface LimitSettings {
  readonly defaults: {
    readonly timeout: Millis
    readonly grace: Millis
    readonly heartbeat: Millis
    readonly visibility: Millis
    readonly total: Millis | null
    readonly ttl: Millis | null
    readonly onTimeout: TimeoutMode
  }
  readonly caps: Caps
  /** How long runs of journeys may take. */
  readonly run: RunLimits
  /** Judge workers that never registered nor beat by the default stall clock as well (OJS timeouts §5.5, literally). */
  readonly judgeUnknownWorkers: boolean
}

export const DEFAULT_LIMITS: LimitSettings = {
  defaults: {
    timeout: minutes(30), // OJS timeouts §5.1
    grace: seconds(30), // §5.4
    heartbeat: seconds(60), // §5.5
    visibility: minutes(30), // OJS worker protocol §5.2
    total: null,
    ttl: null,
    onTimeout: 'retry',
  },
  caps: {},
  run: { defaultMs: days(1), capMs: days(7) },
  judgeUnknownWorkers: false,
}

export type SettledName = LimitName | 'onTimeout'

/** A heartbeat timeout leaves room for so many intervals: a beat may be late, and one or two may be lost. */
const BEATS_PER_TIMEOUT = 4

/**
 * What is wrong with a heartbeat timeout that is too short for the interval at which workers are asked to beat; null when
 * it is long enough. `subject` is the name of the value for the reader, `from` where it was set.
 */
export function shortHeartbeat(subject: string, ms: Millis, from: string, intervalMs: Millis): string | null {
  const leastMs = BEATS_PER_TIMEOUT * intervalMs
  if (ms >= leastMs) return null
  return (
    `${subject} is ${String(ms / 1000)} s (${from}), less than ${String(BEATS_PER_TIMEOUT)} heartbeat intervals of ${String(intervalMs / 1000)} s: ` +
    `workers that beat at that interval may be taken for stalled. Set it to at least ${String(leastMs / 1000)} s, or shorten workers.heartbeat-interval.`
  )
}

/** Where a limit was set, in words. */
export const SOURCE_IN_WORDS: Readonly<Record<LimitSource, string>> = {
  publish: 'set at enqueue',
  handler: "set by the worker's handler",
  type: 'set by the job type',
  queue: 'set by the queue',
  fetch: 'set by the fetch',
  default: 'the default of the server',
  cap: 'held down by a cap',
  parent: 'inherited from the parent',
  workflow: 'set by the workflow',
}

/** What holds for all jobs of a queue or a type, or of the whole server, must leave each of them time to do something. */
export const MIN_SHARED_LIMIT_MS = millis(100)
