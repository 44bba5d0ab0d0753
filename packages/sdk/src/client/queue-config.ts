/** What a queue says for all of its jobs, as an operator writes it. What is left out stays as it is; `null` removes it. */
import { toMillis, type Duration } from '../durations.ts'
import { changesOnWire, type LimitChanges } from '../job/limits.ts'
import { queueLimitOnWire, type QueueLimit } from '../job/rate-limit.ts'

export interface QueueConfig {
  /** Limits for jobs that bring none. */
  readonly defaults?: LimitChanges
  /** How deep the queue may become. Replaced as a whole. */
  readonly backpressure?: {
    readonly maxDepth?: number
    readonly strategy?: 'reject' | 'block' | 'drop_oldest'
    /** From which part of the bound on the queue is under pressure: 0.8 unless it is given. */
    readonly warningThreshold?: number
  } | null
  /** How long finished jobs are kept. Replaced as a whole. */
  readonly retention?: {
    readonly completed?: Duration
    readonly cancelled?: Duration
    readonly discarded?: Duration
    readonly deadLetter?: Duration
  } | null
  /** `edf`: within a priority the nearest deadline first. */
  readonly order?: 'fifo' | 'edf' | null
  /** Replaced as a whole. */
  readonly rateLimit?: QueueLimit | null
}

export function configOnWire({
  defaults,
  backpressure,
  retention,
  order,
  rateLimit,
}: QueueConfig): Record<string, unknown> {
  const limits = Object.entries(changesOnWire(defaults ?? {})).map(([name, value]) => [`default_${name}`, value])
  return {
    ...(Object.fromEntries(limits) as Record<string, unknown>),
    order,
    backpressure: orNull(backpressure, ({ maxDepth, strategy, warningThreshold }) => ({
      max_depth: maxDepth,
      strategy,
      warning_threshold: warningThreshold,
    })),
    retention: orNull(retention, ({ completed, cancelled, discarded, deadLetter }) => ({
      completed: seconds(completed, 'completed'),
      cancelled: seconds(cancelled, 'cancelled'),
      discarded: seconds(discarded, 'discarded'),
      dead_letter: seconds(deadLetter, 'deadLetter'),
    })),
    rate_limit: orNull(rateLimit, queueLimitOnWire),
  }
}

function orNull<T>(value: T | null | undefined, write: (value: T) => unknown): unknown {
  return value === null || value === undefined ? value : write(value)
}

function seconds(duration: Duration | undefined, name: string): number | undefined {
  return duration === undefined ? undefined : Math.ceil(toMillis(duration, `retention.${name}`) / 1000)
}
