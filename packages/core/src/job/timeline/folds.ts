/** Stretches of the axis in which nothing happens, and the way from instants to places. */
import { instant, type Instant } from '../../time/clock.ts'
import type { Fold, Lane, Timeline } from './timeline-model.ts'

/** An empty wait longer than this share of the axis is folded. */
const FOLDED_SHARE = 0.4

/** Waits and backoffs of the whole life in which no lane has a mark. */
export function foldsOf(lanes: readonly Lane[], from: Instant, to: Instant): Fold[] {
  const whole = to - from
  const marks = lanes.flatMap((lane) => lane.marks.map(({ at }) => at))
  const edges = lanes.flatMap((lane) => lane.spans.flatMap((span) => [span.from, span.to]))
  const isEmpty = ({ from: begin, to: end }: Fold): boolean =>
    ![...marks, ...edges].some((at) => at > begin && at < end)
  const folds = lanes
    .filter(({ kind }) => kind === 'life')
    .flatMap(({ spans }) => spans)
    .filter(({ kind }) => kind === 'waiting' || kind === 'backoff')
    .map((span) => ({ from: span.from, to: span.to }))
    .filter((fold) => fold.to - fold.from > whole * FOLDED_SHARE && isEmpty(fold))
  const folded = folds.reduce((sum, fold) => sum + (fold.to - fold.from), 0)
  // An axis on which nothing but the wait is left says more when it is whole.
  return folded < whole ? folds : []
}

export interface Axis {
  /** Instants outside of the axis lie at its ends. */
  x(at: Instant): number
  at(x: number): Instant
}

/** Linear, but for folds, which are all of one width. */
export function axisOf(
  { from, to, folds }: Pick<Timeline, 'from' | 'to' | 'folds'>,
  width: number,
  foldWidth: number,
): Axis {
  const foldedMs = folds.reduce((sum, fold) => sum + (fold.to - fold.from), 0)
  const room = Math.max(0, width - foldWidth * folds.length)
  const perMs = room / Math.max(1, to - from - foldedMs)
  const pieces: { readonly from: number; readonly to: number; readonly x: number; readonly end: number }[] = []
  let [begun, x]: [number, number] = [from, 0]
  const add = (end: number, wide: number): void => {
    if (end > begun) pieces.push({ from: begun, to: end, x, end: x + wide })
    ;[begun, x] = [end, end > begun ? x + wide : x]
  }
  for (const fold of folds) {
    add(fold.from, (fold.from - begun) * perMs)
    add(fold.to, foldWidth)
  }
  add(to, (to - begun) * perMs)
  const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high)
  return {
    x: (at) => {
      const asked = clamp(at, from, to)
      const piece = pieces.find((candidate) => asked <= candidate.to)
      if (piece === undefined) return 0
      return piece.x + ((asked - piece.from) / (piece.to - piece.from)) * (piece.end - piece.x)
    },
    at: (place) => {
      const piece = pieces.find(({ end }) => place <= end) ?? pieces.at(-1)
      if (piece === undefined) return from
      const share = piece.end === piece.x ? 0 : clamp((place - piece.x) / (piece.end - piece.x), 0, 1)
      return instant(piece.from + share * (piece.to - piece.from))
    },
  }
}
