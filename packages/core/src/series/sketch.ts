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

/** Where the bucket begins that ends here. */
export const bucketStartMs = (endMs: number): number => (endMs <= 1 ? 0 : endMs / GROWTH)

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

/** Null: there are no lengths. `share` is between 0 and 1. */
export function quantileMs(sketch: Sketch, share: number): number | null {
  const sum = new SketchSum()
  sum.add(packSketch(sketch))
  return sum.quantilesMs([share])[0] ?? null
}

export const meanMs = ({ n, sum }: Pick<Sketch, 'n' | 'sum'>): number | null => (n === 0 ? null : roundedMs(sum / n))

/** A tenth of a millisecond is finer than any bucket below a second needs. */
export const roundedMs = (ms: number): number => (ms >= 100 ? Math.round(ms) : Math.round(ms * 10) / 10)

// ---- Sketches that are only read ----

/** A sketch that is added up often: the counts of neighbouring buckets, from the first that holds something. */
export interface PackedSketch {
  readonly n: number
  readonly sum: number
  readonly first: number
  readonly counts: readonly number[]
}

export function packSketch({ n, sum, b }: Sketch): PackedSketch {
  const counts: number[] = []
  let first = 0
  // Names that are whole numbers are listed by size.
  for (const name in b) {
    const bucket = Number(name)
    if (counts.length === 0) first = bucket
    while (first + counts.length < bucket) counts.push(0)
    counts.push(b[name] ?? 0)
  }
  return { n, sum, first, counts }
}

/** Adds up sketches, in any order. */
export class SketchSum {
  n = 0
  sum = 0
  readonly #counts = new Float64Array(MAX_BUCKET + 1)
  #low = MAX_BUCKET + 1
  #high = -1

  add({ n, sum, first, counts }: PackedSketch): void {
    this.n += n
    this.sum += sum
    if (counts.length === 0) return
    for (let place = 0; place < counts.length; place += 1) {
      const bucket = first + place
      this.#counts[bucket] = (this.#counts[bucket] ?? 0) + (counts[place] ?? 0)
    }
    this.#low = Math.min(this.#low, first)
    this.#high = Math.max(this.#high, first + counts.length - 1)
  }

  clear(): void {
    this.n = 0
    this.sum = 0
    this.#counts.fill(0, this.#low, this.#high + 1)
    this.#low = MAX_BUCKET + 1
    this.#high = -1
  }

  /** For each of the ascending shares; null where there are no lengths. */
  quantilesMs(shares: readonly number[]): (number | null)[] {
    const found: (number | null)[] = []
    let seen = 0
    for (let bucket = this.#low; bucket <= this.#high && found.length < shares.length; bucket += 1) {
      seen += this.#counts[bucket] ?? 0
      for (let share = shares[found.length]; share !== undefined; share = shares[found.length]) {
        if (seen < Math.max(1, Math.ceil(share * this.n))) break
        found.push(roundedMs(bucketMiddleMs(bucket)))
      }
    }
    return shares.map((_, place) => found[place] ?? null)
  }

  /** The buckets that hold something, in their order. */
  buckets(): [bucket: number, count: number][] {
    const held: [number, number][] = []
    for (let bucket = this.#low; bucket <= this.#high; bucket += 1) {
      const count = this.#counts[bucket] ?? 0
      if (count > 0) held.push([bucket, count])
    }
    return held
  }
}
