/** The limiter a job starts under, as an application says it. */
import { formatIsoDuration } from '@curfew/core'
import { toMillis, type Duration } from '../durations.ts'
import { InputError } from '../errors.ts'

export interface Rate {
  readonly limit: number
  /** Within any stretch of time as long as this. */
  readonly period: Duration
}

/** Jobs with the same key share a limiter; the terms of the last enqueue that brings some are in force. */
export interface KeyedRateLimit {
  readonly key: string
  /** So many of them run at once. */
  readonly concurrency?: number
  /** So many of them start within a period. */
  readonly rate?: Rate
  /** As `rate`, but evenly spaced. */
  readonly throttle?: Rate
  /** What becomes of the job if it may not start when its turn comes: `wait` (the default), `reschedule` or `drop`. */
  readonly onLimit?: 'wait' | 'reschedule' | 'drop'
}

/** So many jobs of the queue start within any second. */
export interface QueueRateLimit {
  readonly maxPerSecond: number
}

/** How many jobs of a queue run at once, and start within a period, as an operator says it. */
export interface QueueLimit {
  readonly concurrency?: number
  readonly rate?: Rate
  /** As `rate`, but evenly spaced. */
  readonly throttle?: Rate
}

export type RateLimit = KeyedRateLimit | QueueRateLimit

const KEYED = ['key', 'concurrency', 'rate', 'throttle', 'onLimit']

export function rateLimitOnWire(limit: RateLimit): Record<string, unknown> {
  if ('maxPerSecond' in limit) {
    if (Object.keys(limit).length > 1)
      throw new InputError('maxPerSecond limits the queue; it goes with nothing else.', { field: 'rateLimit' })
    return { max_per_second: limit.maxPerSecond }
  }
  for (const name of Object.keys(limit)) {
    if (!KEYED.includes(name)) throw new InputError(`A rateLimit has no ${name}.`, { field: `rateLimit.${name}` })
  }
  return {
    key: limit.key,
    concurrency: limit.concurrency,
    rate: rateOnWire(limit.rate, 'rateLimit.rate'),
    throttle: rateOnWire(limit.throttle, 'rateLimit.throttle'),
    on_limit: limit.onLimit,
  }
}

export function queueLimitOnWire({ concurrency, rate, throttle }: QueueLimit): Record<string, unknown> {
  return {
    concurrency,
    rate: rateOnWire(rate, 'rateLimit.rate'),
    throttle: rateOnWire(throttle, 'rateLimit.throttle'),
  }
}

function rateOnWire(rate: Rate | undefined, name: string): Record<string, unknown> | undefined {
  if (rate === undefined) return undefined
  return { limit: rate.limit, period: formatIsoDuration(toMillis(rate.period, `${name}.period`)) }
}
