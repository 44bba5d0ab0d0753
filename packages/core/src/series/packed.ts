/**
 * A tally that is only read: names are split once, and sketches are rows of counts. A slot of the past never changes, so what
 * was packed once can be read again by every later question.
 */
import { packSketch, type PackedSketch } from './sketch.ts'
import { FOLDED, pairOf, timeoutOf, UNQUEUED, type Cell, type Tally } from './tally.ts'

export interface PackedCell {
  /** Null: it belongs to no queue, or to many that have no cell of their own. */
  readonly queue: string | null
  readonly type: string | null
  readonly isFolded: boolean
  readonly counts: Cell['counts']
  readonly timeouts: readonly PackedTimeout[]
  readonly waits: PackedSketch
  readonly completed: PackedSketch
  readonly cut: PackedSketch
}

export interface PackedTimeout {
  readonly kind: string
  readonly source: string
  readonly n: number
  readonly overshoot: PackedSketch
}

export type PackedTally = readonly PackedCell[]

export const packTally = (tally: Tally): PackedTally => Object.entries(tally).map(([key, cell]) => packCell(key, cell))

function packCell(key: string, { counts, timeouts, waits, completed, cut }: Cell): PackedCell {
  const isFolded = key === FOLDED
  return {
    ...(isFolded || key === UNQUEUED ? { queue: null, type: null } : pairOf(key)),
    isFolded,
    counts: { ...counts },
    timeouts: Object.entries(timeouts).map(([named, { n, overshoot }]) => ({
      ...timeoutOf(named),
      n,
      overshoot: packSketch(overshoot),
    })),
    waits: packSketch(waits),
    completed: packSketch(completed),
    cut: packSketch(cut),
  }
}

/** How many numbers it holds, about: what a bound on memory is counted in. */
export function packedSize(tally: PackedTally): number {
  let size = 0
  for (const { timeouts, waits, completed, cut } of tally) {
    size += 30 + waits.counts.length + completed.counts.length + cut.counts.length
    for (const { overshoot } of timeouts) size += 10 + overshoot.counts.length
  }
  return size
}
