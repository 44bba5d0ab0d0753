/**
 * Backpressure (OJS backpressure): how deep a queue may become, and what happens to the job that would make it deeper.
 *
 *   reject        it is refused (429); the default
 *   block         its request waits for room for as long as it said, and is refused then
 *   drop_oldest   the oldest job that is available makes room for it: discarded, never run
 *
 * The depth of a queue is the number of its jobs that are not over yet, whatever they are waiting for.
 */
import { OjsError } from '../errors.ts'
import type { JobState } from './job.ts'

export const STRATEGIES = ['reject', 'block', 'drop_oldest'] as const
export type Strategy = (typeof STRATEGIES)[number]

export interface Bound {
  readonly maxDepth: number
  readonly strategy: Strategy
  /** The depth from which on a queue is under pressure. */
  readonly warnAt: number
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

/** Reported to clients that enqueue; null while there is no pressure. */
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
