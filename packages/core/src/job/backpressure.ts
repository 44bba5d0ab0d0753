/**
 * Backpressure (OJS backpressure): how deep a queue may become, and what happens to the job that would make it deeper.
 *
 *   reject        it is refused (429); the default
 *   block         its request waits for room for as long as it said, and is refused then
 *   drop_oldest   the oldest job that is available makes room for it: discarded, never run
 *
 * The depth of a queue is the number of its jobs that are not over yet, whatever they are waiting for.
 */
import { badPolicy, OjsError } from '../errors.ts'
import type { JobState } from './job.ts'
import { object, oneOf, policy, whole, type Shape } from '../wire/shape.ts'

const STRATEGIES = ['reject', 'block', 'drop_oldest'] as const
export type Strategy = (typeof STRATEGIES)[number]

export interface Bound {
  readonly maxDepth: number
  readonly strategy: Strategy
  /** The depth from which on a queue is under pressure. */
  readonly warnAt: number
}

const WARN_BY_DEFAULT = 0.8

const fraction: Shape<number> = {
  json: { type: 'number', minimum: 0, maximum: 1 },
  read(value, at) {
    if (typeof value !== 'number' || !(value >= 0 && value <= 1))
      throw badPolicy(at, `${at} must be a number between 0 and 1.`)
    return value
  },
}

/** Only none can be promised: nobody counts the bytes of a queue. */
const noSize: Shape<number> = {
  json: { type: 'integer', enum: [0] },
  read(value, at) {
    if (value === 0) return 0
    throw badPolicy(
      at,
      `${at} is not supported by this server: a queue is bounded by the number of its jobs (max_depth). One job is at most 10 MiB.`,
    )
  },
}

export const BACKPRESSURE_SHAPE = policy(
  object(
    {
      max_depth: whole(0, 1_000_000_000),
      max_size_bytes: noSize,
      strategy: oneOf(...STRATEGIES),
      warning_threshold: fraction,
    },
    { unknown: 'refuse' },
  ),
)

/** Null: as deep as it likes. */
export function readBound(value: unknown, at = 'backpressure'): Bound | null {
  if (value === undefined || value === null) return null
  const read = BACKPRESSURE_SHAPE.read(value, at)
  const maxDepth = read.max_depth ?? 0
  if (maxDepth === 0) return null
  const warnAt = Math.max(1, Math.ceil(maxDepth * (read.warning_threshold ?? WARN_BY_DEFAULT)))
  return { maxDepth, strategy: read.strategy ?? 'reject', warnAt }
}

export function depthOf(counts: Readonly<Record<JobState, number>>): number {
  return counts.scheduled + counts.available + counts.pending + counts.active + counts.retryable
}

/** How many jobs stand in the way of one more; none, if there is room. */
export function excess({ maxDepth }: Bound, depth: number): number {
  return Math.max(0, depth + 1 - maxDepth)
}

/** One more job took the queue over the line from which it is under pressure. */
export function isCrossed({ warnAt }: Bound, depthBefore: number): boolean {
  return depthBefore < warnAt && depthBefore + 1 >= warnAt
}

/** What those who enqueue are told; null while there is no pressure. */
export interface Pressure {
  readonly depth: number
  readonly bound: number
}

export function pressureOf(bound: Bound | null, depth: number): Pressure | null {
  return bound === null || depth < bound.warnAt ? null : { depth, bound: bound.maxDepth }
}

export function queueFull(queue: string, { maxDepth, strategy }: Bound, depth: number): OjsError {
  return new OjsError('QUEUE_FULL', `The queue "${queue}" has reached its bound of ${String(maxDepth)} jobs.`, {
    details: { queue, depth, bound: maxDepth, strategy },
  })
}
