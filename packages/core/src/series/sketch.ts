/**
 * A sketch of many lengths: how many fell into each of a fixed row of buckets, each a tenth wider than the one before.
 * A quantile read from it is within 5 % of the true one. Sketches are merged by addition, so the order and the grouping
 * in which servers and slots are put together make no difference. Lengths are whole milliseconds: sums stay exact.
 */
export interface Sketch {
  /** How many lengths. */
  n: number
  /** Their sum in milliseconds. */
  sum: number
  /** How many by bucket: 0 is below 1 ms, k is from 1.1^(k-1) ms to below 1.1^k ms. */
  readonly b: Record<string, number>
}

const GROWTH = 1.1
const LOG_GROWTH = Math.log(GROWTH)
/** Everything above lies in the last bucket (more than 600 days). */
export const MAX_BUCKET = 260

export const emptySketch = (): Sketch => ({ n: 0, sum: 0, b: {} })

export function bucketOf(ms: number): number {
  if (ms < 1) return 0
  return Math.min(MAX_BUCKET, 1 + Math.floor(Math.log(ms) / LOG_GROWTH))
}

/** Where a bucket ends. */
export const bucketEndMs = (bucket: number): number => (bucket === 0 ? 1 : GROWTH ** bucket)

/** The length a bucket stands for: none in it is further away than 5 %. */
export const bucketMiddleMs = (bucket: number): number => (bucket === 0 ? 0 : (2 * GROWTH ** bucket) / (1 + GROWTH))

/** Changes the sketch. */
export function noteLength(sketch: Sketch, ms: number): void {
  const whole = Math.max(0, Math.round(ms))
  const bucket = bucketOf(whole)
  sketch.n += 1
  sketch.sum += whole
  sketch.b[bucket] = (sketch.b[bucket] ?? 0) + 1
}

/** Changes `into`. */
export function addSketch(into: Sketch, from: Sketch): void {
  into.n += from.n
  into.sum += from.sum
  for (const bucket in from.b) into.b[bucket] = (into.b[bucket] ?? 0) + (from.b[bucket] ?? 0)
}

/** The buckets that hold something, in their order: names that are whole numbers are always listed by size. */
export const bucketsOf = ({ b }: Sketch): [bucket: number, count: number][] =>
  Object.entries(b).map(([bucket, count]): [number, number] => [Number(bucket), count])

/** Null: there are no lengths. `share` is between 0 and 1. */
export const quantileMs = (sketch: Sketch, share: number): number | null => quantilesMs(sketch, [share])[0] ?? null

/** For each of the ascending shares, in one pass. */
export function quantilesMs({ n, b }: Sketch, shares: readonly number[]): (number | null)[] {
  const found: (number | null)[] = []
  let seen = 0
  for (const bucket in b) {
    seen += b[bucket] ?? 0
    for (let share = shares[found.length]; share !== undefined; share = shares[found.length]) {
      if (seen < Math.max(1, Math.ceil(share * n))) break
      found.push(roundedMs(bucketMiddleMs(Number(bucket))))
    }
    if (found.length === shares.length) return found
  }
  return shares.map((_, place) => found[place] ?? null)
}

export const meanMs = ({ n, sum }: Sketch): number | null => (n === 0 ? null : roundedMs(sum / n))

/** A tenth of a millisecond is finer than any bucket below a second needs. */
export const roundedMs = (ms: number): number => (ms >= 100 ? Math.round(ms) : Math.round(ms * 10) / 10)
