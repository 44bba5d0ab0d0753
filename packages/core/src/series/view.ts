/**
 * One question about series, answered from the tallies of many slots and servers: tallies come in any order, are grouped
 * and added up, and the answer has one point per slot. The number of groups is bounded; what finds no room is `other`.
 */
import { iso, type Instant } from '../time/clock.ts'
import type { Fields } from '../wire/shape.ts'
import {
  addSketch,
  bucketEndMs,
  bucketsOf,
  emptySketch,
  meanMs,
  quantilesMs,
  roundedMs,
  type Sketch,
} from './sketch.ts'
import {
  FOLDED,
  pairOf,
  SERIES_OUTCOMES,
  timeoutOf,
  UNQUEUED,
  type Cell,
  type Resolution,
  type Tally,
} from './tally.ts'

/** What may be asked for, and by what each may be grouped. */
export const SERIES_METRICS = {
  throughput: ['outcome', 'queue', 'type'],
  waits: ['queue', 'type'],
  durations: ['outcome', 'queue', 'type'],
  timeouts: ['kind', 'source', 'queue', 'type'],
  overshoot: ['kind', 'source', 'queue', 'type'],
} as const
export type SeriesMetric = keyof typeof SERIES_METRICS
export type SeriesBy = (typeof SERIES_METRICS)[SeriesMetric][number]

export interface SeriesQuestion {
  readonly metric: SeriesMetric
  /** Null: everything in one group. */
  readonly by: SeriesBy | null
  /** Only what has all of these. */
  readonly only: Readonly<Partial<Record<SeriesBy, string>>>
  readonly resolution: Resolution
  /** The first slot, and the end of the last one. */
  readonly from: Instant
  readonly to: Instant
}

/** So many points of all groups together are kept while an answer is made. */
const MAX_POINTS = 20_000
const MAX_GROUPS = 200
const OTHER = Symbol('other')
const SHARES = [0.5, 0.95, 0.99] as const
const NONE = [null, null, null] as const

/** One thing that was counted, with everything it can be grouped by. */
interface Part {
  readonly names: Readonly<Partial<Record<SeriesBy, string | null>>>
  readonly isFolded: boolean
  readonly n: number
  readonly lengths: Sketch | null
}

interface Point {
  n: number
  readonly lengths: Sketch
}

export class SeriesView {
  readonly #asked: SeriesQuestion
  readonly #maxGroups: number
  readonly #groups = new Map<string | null | typeof OTHER, Map<number, Point>>()

  constructor(asked: SeriesQuestion) {
    this.#asked = asked
    this.#maxGroups = Math.max(10, Math.min(MAX_GROUPS, Math.floor(MAX_POINTS / this.slots)))
  }

  get slots(): number {
    const { from, to, resolution } = this.#asked
    return Math.max(1, Math.ceil((to - from) / resolution.stepMs))
  }

  add(from: Instant, tally: Tally): void {
    const { from: first, resolution } = this.#asked
    const place = Math.floor((from - first) / resolution.stepMs)
    if (place < 0 || place >= this.slots) return
    for (const [key, cell] of Object.entries(tally))
      for (const part of this.#partsOf(key, cell)) if (this.#isMeant(part)) this.#addPart(place, part)
  }

  answer(): Fields {
    const { metric, by, resolution, from, to } = this.#asked
    const groups = [...this.#groups].map(([name, points]) => this.#group(name, points))
    return {
      metric,
      by,
      step: resolution.name,
      step_ms: resolution.stepMs,
      from: iso(from),
      to: iso(to),
      groups: groups.sort((one, other) => Number(other['total']) - Number(one['total'])),
    }
  }

  #isMeant({ names, isFolded }: Part): boolean {
    return Object.entries(this.#asked.only).every(([name, value]) => {
      const isHidden = isFolded && (name === 'queue' || name === 'type')
      return !isHidden && names[name as SeriesBy] === value
    })
  }

  #addPart(place: number, { names, isFolded, n, lengths }: Part): void {
    const { by } = this.#asked
    const isHidden = isFolded && (by === 'queue' || by === 'type')
    const asked = by === null ? 'all' : isHidden ? OTHER : (names[by] ?? null)
    const hasRoom = this.#groups.has(asked) || this.#groups.size < this.#maxGroups
    const name = hasRoom ? asked : OTHER
    const points = this.#groups.get(name) ?? new Map<number, Point>()
    this.#groups.set(name, points)
    const point = points.get(place) ?? { n: 0, lengths: emptySketch() }
    points.set(place, point)
    point.n += n
    if (lengths !== null) addSketch(point.lengths, lengths)
  }

  #group(name: string | null | typeof OTHER, points: ReadonlyMap<number, Point>): Fields {
    const places = Array.from({ length: this.slots }, (_, place) => points.get(place) ?? null)
    const counts = places.map((point) => point?.n ?? 0)
    const total = counts.reduce((sum, n) => sum + n, 0)
    const head = { name: name === OTHER ? null : name, other: name === OTHER, total, points: counts }
    if (this.#asked.metric === 'throughput' || this.#asked.metric === 'timeouts') return head
    const all = emptySketch()
    for (const point of points.values()) addSketch(all, point.lengths)
    const [p50, p95, p99] = quantilesMs(all, SHARES)
    const byPlace = places.map((point) => (point === null ? NONE : quantilesMs(point.lengths, SHARES)))
    return {
      ...head,
      mean_ms: meanMs(all),
      p50_ms: p50 ?? null,
      p95_ms: p95 ?? null,
      p99_ms: p99 ?? null,
      p50_points: byPlace.map(([value]) => value ?? null),
      p95_points: byPlace.map(([, value]) => value ?? null),
      p99_points: byPlace.map(([, , value]) => value ?? null),
      buckets: bucketsOf(all).map(([bucket, count]) => [roundedMs(bucketEndMs(bucket)), count]),
    }
  }

  *#partsOf(key: string, cell: Cell): Generator<Part> {
    const isFolded = key === FOLDED
    const pair = isFolded || key === UNQUEUED ? { queue: null, type: null } : pairOf(key)
    switch (this.#asked.metric) {
      case 'throughput':
        for (const outcome of SERIES_OUTCOMES) {
          const n = cell.counts[outcome]
          if (n !== undefined) yield { names: { ...pair, outcome }, isFolded, n, lengths: null }
        }
        return
      case 'waits':
        if (cell.waits.n > 0) yield { names: pair, isFolded, n: cell.waits.n, lengths: cell.waits }
        return
      case 'durations':
        for (const outcome of ['completed', 'cut'] as const) {
          const lengths = cell[outcome]
          if (lengths.n > 0) yield { names: { ...pair, outcome }, isFolded, n: lengths.n, lengths }
        }
        return
      case 'timeouts':
      case 'overshoot':
        for (const [named, { n, overshoot }] of Object.entries(cell.timeouts)) {
          const isCount = this.#asked.metric === 'timeouts'
          const names = { ...pair, ...timeoutOf(named) }
          if (isCount || overshoot.n > 0)
            yield { names, isFolded, n: isCount ? n : overshoot.n, lengths: isCount ? null : overshoot }
        }
    }
  }
}
