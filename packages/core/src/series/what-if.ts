/**
 * What another timeout would have done, from the lengths of attempts that are kept. A shorter one is known within the
 * width of a bucket, a tenth; a longer one is not, because an attempt that was ended has no length of its own.
 */
import { bucketStartMs } from './sketch.ts'

/** As a series answers: where a bucket ends in milliseconds, and how many lengths fell into it. */
export type Bucket = readonly [endMs: number, count: number]

export interface WhatIf {
  readonly total: number
  /** How many ran this long for certain, and how many may have. */
  readonly least: number
  readonly most: number
  /** False: the timeout in force is shorter, so it is unknown how long the attempts that it ended would have run. */
  readonly isKnown: boolean
}

/** `limitMs`: the timeout in force; null where none has ended an attempt. */
export function whatIf(buckets: readonly Bucket[], triedMs: number, limitMs: number | null): WhatIf {
  const countIf = (isMeant: (endMs: number) => boolean): number =>
    buckets.reduce((sum, [endMs, count]) => sum + (isMeant(endMs) ? count : 0), 0)
  return {
    total: countIf(() => true),
    least: countIf((endMs) => bucketStartMs(endMs) >= triedMs),
    most: countIf((endMs) => endMs > triedMs),
    isKnown: limitMs === null || triedMs <= limitMs,
  }
}
