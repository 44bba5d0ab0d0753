/**
 * One question about series, answered from the tallies of many slots and servers: tallies come in any order, are grouped
 * and added up, and the answer has one point per slot. The number of groups is bounded; what finds no room is `other`.
 */
import { iso, type Instant } from '../time/clock.ts'
import { elapsed } from '../time/sums.ts'
import type { Fields } from '../wire/shape.ts'
import type { PackedCell, PackedTally } from './packed.ts'
import { bucketEndMs, meanMs, roundedMs, SketchSum, type PackedSketch } from './sketch.ts'
import { SERIES_OUTCOMES, type Resolution } from './tally.ts'

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

interface Point {
  n: number
  readonly lengths: PackedSketch[]
}

/** So many points of an answer are worked out at once. */
const POINTS_A_TURN = 2_000

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
    return Math.max(1, Math.ceil(elapsed(from, to) / resolution.stepMs))
  }

  add(from: Instant, tally: PackedTally): void {
    const { from: first, only, resolution } = this.#asked
    const place = Math.floor(elapsed(first, from) / resolution.stepMs)
    if (from < first || place >= this.slots) return
    for (const cell of tally) {
      if (only.queue !== undefined && (cell.isFolded || cell.queue !== only.queue)) continue
      if (only.type !== undefined && (cell.isFolded || cell.type !== only.type)) continue
      this.#addCell(place, cell)
    }
  }

  /** The answer, in pieces: it is worked out point by point. */
  *answer(): Generator<void, Fields> {
    const { metric, by, resolution, from, to } = this.#asked
    const groups: Fields[] = []
    const [all, one] = [new SketchSum(), new SketchSum()]
    let points = 0
    for (const [name, found] of this.#groups) {
      points += this.slots
      if (points > POINTS_A_TURN) {
        points = this.slots
        yield
      }
      groups.push(this.#group(name, found, all, one))
    }
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

  #addCell(place: number, cell: PackedCell): void {
    const { metric, only } = this.#asked
    switch (metric) {
      case 'throughput':
        for (const outcome of SERIES_OUTCOMES) {
          const n = cell.counts[outcome]
          if (n !== undefined && isMeant(only.outcome, outcome)) this.#add(place, cell, { outcome }, n, null)
        }
        return
      case 'waits':
        if (cell.waits.n > 0) this.#add(place, cell, {}, cell.waits.n, cell.waits)
        return
      case 'durations':
        for (const outcome of ['completed', 'cut'] as const) {
          const lengths = cell[outcome]
          if (lengths.n > 0 && isMeant(only.outcome, outcome)) this.#add(place, cell, { outcome }, lengths.n, lengths)
        }
        return
      case 'timeouts':
      case 'overshoot':
        for (const timeout of cell.timeouts) {
          if (!isMeant(only.kind, timeout.kind) || !isMeant(only.source, timeout.source)) continue
          if (metric === 'timeouts') this.#add(place, cell, timeout, timeout.n, null)
          else if (timeout.overshoot.n > 0) this.#add(place, cell, timeout, timeout.overshoot.n, timeout.overshoot)
        }
    }
  }

  #add(place: number, cell: PackedCell, names: Names, n: number, lengths: PackedSketch | null): void {
    const asked = this.#nameOf(cell, names)
    const hasRoom = this.#groups.has(asked) || this.#groups.size < this.#maxGroups
    const name = hasRoom ? asked : OTHER
    let points = this.#groups.get(name)
    if (points === undefined) this.#groups.set(name, (points = new Map<number, Point>()))
    let point = points.get(place)
    if (point === undefined) points.set(place, (point = { n: 0, lengths: [] }))
    point.n += n
    if (lengths !== null) point.lengths.push(lengths)
  }

  #nameOf(cell: PackedCell, names: Names): string | null | typeof OTHER {
    const { by } = this.#asked
    if (by === null) return 'all'
    if (by === 'queue' || by === 'type') return cell.isFolded ? OTHER : cell[by]
    return names[by] ?? null
  }

  #group(
    name: string | null | typeof OTHER,
    points: ReadonlyMap<number, Point>,
    all: SketchSum,
    one: SketchSum,
  ): Fields {
    const places = Array.from({ length: this.slots }, (_, place) => points.get(place) ?? null)
    const counts = places.map((point) => point?.n ?? 0)
    const total = counts.reduce((sum, n) => sum + n, 0)
    const head = { name: name === OTHER ? null : name, other: name === OTHER, total, points: counts }
    if (this.#asked.metric === 'throughput' || this.#asked.metric === 'timeouts') return head
    all.clear()
    const byPlace = places.map((point) => {
      if (point === null) return NONE
      one.clear()
      for (const lengths of point.lengths) {
        one.add(lengths)
        all.add(lengths)
      }
      return one.quantilesMs(SHARES)
    })
    const [p50, p95, p99] = all.quantilesMs(SHARES)
    return {
      ...head,
      mean_ms: meanMs(all),
      p50_ms: p50 ?? null,
      p95_ms: p95 ?? null,
      p99_ms: p99 ?? null,
      p50_points: byPlace.map(([value]) => value ?? null),
      p95_points: byPlace.map(([, value]) => value ?? null),
      p99_points: byPlace.map(([, , value]) => value ?? null),
      buckets: all.buckets().map(([bucket, count]) => [roundedMs(bucketEndMs(bucket)), count]),
    }
  }
}

/** By what one count can be grouped besides queue and type. */
type Names = Readonly<Partial<Record<'outcome' | 'kind' | 'source', string>>>

const isMeant = (asked: string | undefined, name: string): boolean => asked === undefined || asked === name
