/**
 * What was counted in a stretch of time, by queue and type: plain data that can be saved as it is. Tallies are merged by
 * addition, which is commutative and associative: whatever servers counted apart is one tally in the end. Merging never
 * folds names together, since then the order would matter; the bound on names is kept where things are counted (`fold`).
 */
import { docKind, type DocKind } from '../doc.ts'
import { days, hours, instant, minutes, type Instant, type Millis } from '../time/clock.ts'
import { floorTo } from '../time/sums.ts'
import { addSketch, emptySketch, type Sketch } from './sketch.ts'

/** What is counted of jobs. All but `created` and `late` count events of the log. */
export const SERIES_OUTCOMES = [
  'created',
  'started',
  'completed',
  'failed',
  'retried',
  'interrupted',
  'cancelled',
  'discarded',
  'expired',
  /** Reports that were refused because the attempt was over; they belong to no queue. */
  'late',
] as const
export type SeriesOutcome = (typeof SERIES_OUTCOMES)[number]

/** Which limit ran out. The last four are of runs and workflows, which belong to no queue. */
export const SERIES_KINDS = [
  'execution',
  'total',
  'enqueue_ttl',
  'expires_at',
  'stalled',
  'worker_death',
  'visibility',
  'workflow',
  'run',
  'wait',
  'timer',
] as const
export type SeriesKind = (typeof SERIES_KINDS)[number]

/** Of one queue and type. */
export interface Cell {
  readonly counts: Partial<Record<SeriesOutcome, number>>
  /** By kind and source (`execution publish`): how often, and how late it was decided where that is known. */
  readonly timeouts: Record<string, TimeoutTally>
  /** Time between becoming available and being handed out. */
  readonly waits: Sketch
  /** How long attempts ran that completed their job. */
  readonly completed: Sketch
  /** How long attempts ran that ended in any other way. */
  readonly cut: Sketch
}

export interface TimeoutTally {
  n: number
  readonly overshoot: Sketch
}

/** By queue and type (`media video.encode`). */
export type Tally = Record<string, Cell>

/** Everything that has no name of its own. No queue has this name. */
export const FOLDED = '* *'
/** What belongs to no queue. */
export const UNQUEUED = ' '
/** So many pairs of queue and type have cells of their own. */
export const MAX_PAIRS = 200

export const pairKey = (queue: string, type: string): string => `${queue} ${type}`

export function pairOf(key: string): { readonly queue: string; readonly type: string } {
  const space = key.indexOf(' ')
  return { queue: key.slice(0, space), type: key.slice(space + 1) }
}

export const timeoutKey = (kind: SeriesKind, source: string): string => `${kind} ${source}`

export function timeoutOf(key: string): { readonly kind: string; readonly source: string } {
  const { queue: kind, type: source } = pairOf(key)
  return { kind, source }
}

export const emptyCell = (): Cell => ({
  counts: {},
  timeouts: {},
  waits: emptySketch(),
  completed: emptySketch(),
  cut: emptySketch(),
})

/** Changes `into`. */
export function addCell(into: Cell, from: Cell): void {
  for (const outcome of SERIES_OUTCOMES) {
    const count = from.counts[outcome]
    if (count !== undefined) into.counts[outcome] = (into.counts[outcome] ?? 0) + count
  }
  for (const [key, { n, overshoot }] of Object.entries(from.timeouts)) {
    const known = (into.timeouts[key] ??= { n: 0, overshoot: emptySketch() })
    known.n += n
    addSketch(known.overshoot, overshoot)
  }
  addSketch(into.waits, from.waits)
  addSketch(into.completed, from.completed)
  addSketch(into.cut, from.cut)
}

/** Of two tallies a third. */
export function mergeTallies(one: Tally, other: Tally): Tally {
  const merged: Tally = {}
  for (const tally of [one, other])
    for (const [key, cell] of Object.entries(tally)) addCell((merged[key] ??= emptyCell()), cell)
  return merged
}

/**
 * Adds to a tally that has no more than `max` pairs: names that find no room are counted together. First, not largest:
 * a name that has begun in a slot stays in it.
 */
export function fold(into: Tally, from: Tally, max = MAX_PAIRS): void {
  let named = Object.keys(into).length - (FOLDED in into ? 1 : 0)
  for (const [key, cell] of Object.entries(from)) {
    const isNew = key !== FOLDED && into[key] === undefined
    const place = isNew && named >= max ? FOLDED : key
    if (isNew && place === key) named += 1
    addCell((into[place] ??= emptyCell()), cell)
  }
}

// ---- Slots ----

/** How fine a series is, and for how long it is kept. */
export interface Resolution {
  readonly name: '1m' | '10m' | '3h'
  readonly stepMs: Millis
  readonly keptMs: Millis
  readonly kind: DocKind<Slot>
}

/** One server's tally of one stretch of time. Nothing wakes it: servers that do not know the kind must not meet it. */
export interface Slot {
  readonly from: Instant
  readonly tally: Tally
}

const resolution = (name: Resolution['name'], stepMs: Millis, keptMs: Millis): Resolution => ({
  name,
  stepMs,
  keptMs,
  kind: docKind<Slot>(`series-${name}`),
})

export const RESOLUTIONS: readonly Resolution[] = [
  resolution('1m', minutes(1), hours(3)),
  resolution('10m', minutes(10), days(3)),
  resolution('3h', hours(3), days(90)),
]

export const slotAt = (at: Instant, { stepMs }: Pick<Resolution, 'stepMs'>): Instant => floorTo(at, stepMs)

/** Ids of a resolution sort by time. */
export const slotId = (from: Instant, server: string): string => `${slotPrefix(from)}${server}`
export const slotPrefix = (from: Instant): string => `${String(from).padStart(15, '0')}/`

export function slotOf(id: string): { readonly from: Instant; readonly server: string } {
  const slash = id.indexOf('/')
  return { from: instant(Number(id.slice(0, slash))), server: id.slice(slash + 1) }
}
