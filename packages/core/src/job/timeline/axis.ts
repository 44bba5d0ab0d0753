/** How far the axis of a timeline reaches, and what lies beyond it. */
import { instant, type Instant, millis } from '../../time/clock.ts'
import { after } from '../../time/sums.ts'
import type { JobClock } from './clocks.ts'
import type { Drawn, Lane } from './timeline-model.ts'

const endOf = ({ spans, marks }: Drawn): number => Math.max(...spans.map(({ to }) => to), ...marks.map(({ at }) => at))

export const startOf = ({ spans, marks }: Drawn): number =>
  Math.min(...spans.map(({ from }) => from), ...marks.map(({ at }) => at))

// ---- The axis ----

const FAR = 4

const SHORTEST_AXIS_MS = millis(1_000)

/**
 * What is past, the present and the nearest clock are always shown; a limit up to four times as far as all before it, and
 * none beyond the total, where every other clock is cut off. The present of a job that is over is its end (`shown`).
 */
export function axisEnd(lanes: readonly Drawn[], clocks: readonly JobClock[], from: Instant, shown: Instant): Instant {
  const instants = lanes.flatMap(({ spans, marks }) => [...spans.map(({ to }) => to), ...marks.map(({ at }) => at)])
  const past = lanes.flatMap(({ spans, marks }) => [
    ...spans.filter(({ isFuture }) => !isFuture).map(({ to }) => to),
    ...marks.filter(({ isFuture }) => !isFuture).map(({ at }) => at),
  ])
  let end = Math.max(shown, after(from, SHORTEST_AXIS_MS), ...past, clocks[0]?.until ?? shown)
  const total = clocks.find(({ kind }) => kind === 'total')?.until ?? Infinity
  for (const at of instants.filter((other) => other > end && other <= total).sort((a, b) => a - b)) {
    if (at - from > FAR * (end - from)) break
    end = at
  }
  return instant(end)
}

/** Cuts a lane at the end of the axis; null where nothing of it is left. */
export function withinAxis(lane: Drawn, end: Instant): Lane | null {
  const spans = lane.spans
    .filter(({ from }) => from < end || from === lane.spans[0]?.from)
    .map((span) => (span.to > end ? { ...span, to: end } : span))
    .filter(({ from, to }) => from <= to)
  const marks = lane.marks.filter(({ at }) => at <= end)
  const edges = lane.marks.filter(({ at }) => at > end)
  if (spans.length + marks.length === 0) return null
  const kept = { ...lane, spans, marks }
  return { ...kept, from: instant(startOf(kept)), to: instant(endOf(kept)), edges }
}
