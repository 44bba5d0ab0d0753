/** Durable steps as lanes. Steps that ran side by side are drawn below each other. */
import { instant, type Instant } from '../../time/clock.ts'
import type { StepSpan } from '../step.ts'
import type { Drawn, TimelineSpan } from './timeline-model.ts'

/** The last steps are shown; of more that ran at a time the rest is left out. */
const SHOWN_STEPS = 60
const SHOWN_LANES = 4

/** `steps` in the order in which they began. */
export function stepLanes(steps: readonly StepSpan[], now: Instant): Drawn[] {
  const lanes: { spans: TimelineSpan[]; end: number }[] = []
  for (const step of steps.slice(-SHOWN_STEPS)) {
    let lane = lanes.find(({ end }) => end <= step.from)
    if (lane === undefined && lanes.length < SHOWN_LANES) lanes.push((lane = { spans: [], end: 0 }))
    if (lane === undefined) continue
    lane.spans.push(...spansOf(step, now))
    lane.end = Math.max(step.from, step.to)
  }
  return lanes.map(({ spans }, index) => ({
    kind: 'steps',
    name: index === 0 ? 'steps' : `steps ${String(index + 1)}`,
    isForeseen: false,
    spans,
    marks: [],
  }))
}

/** A sleep that is not over is cut in two at `now`. */
function spansOf({ name, attempt, from, to, isSleep }: StepSpan, now: Instant): TimelineSpan[] {
  const end = instant(Math.max(from, to))
  const span = { kind: isSleep ? ('sleep' as const) : ('step' as const), name, attempt }
  if (!isSleep || end <= now) return [{ ...span, from, to: end, isFuture: false }]
  const middle = instant(Math.max(from, now))
  return [
    { ...span, from, to: middle, isFuture: false },
    { ...span, from: middle, to: end, isFuture: true },
  ]
}
