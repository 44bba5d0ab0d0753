/** A timeline as it was at an earlier moment of what it shows: nothing that came later has happened yet. */
import type { Instant } from '../../time/clock.ts'
import type { Lane, Mark, Timeline, TimelineSpan } from './timeline-model.ts'

export function asOf(model: Timeline, at: Instant): Timeline {
  const lanes = model.lanes.map((lane) => ({
    ...lane,
    spans: lane.spans.flatMap((span) => cutAt(span, at)),
    marks: lane.marks.map((mark): Mark => ({ ...mark, isFuture: mark.at > at })),
  }))
  return { ...model, now: at, lanes, sentence: `At this moment: ${activityIn(lanes)}.` }
}

function cutAt(span: TimelineSpan, at: Instant): TimelineSpan[] {
  if (span.to <= at) return [span]
  const rest = { ...span, from: span.from < at ? at : span.from, isFuture: true }
  return span.from < at ? [{ ...span, to: at }, rest] : [rest]
}

const WORDS: Readonly<Partial<Record<TimelineSpan['kind'], string>>> = {
  waiting: 'it waits for a worker',
  attempt: 'an attempt runs',
  grace: 'the handler was asked to stop',
  backoff: 'it waits for the next attempt',
  overshoot: 'its deadline has passed, and the server decides',
}

function activityIn([life]: readonly Lane[]): string {
  const current = life?.spans.filter(({ isFuture }) => !isFuture).at(-1)
  return (current === undefined ? undefined : WORDS[current.kind]) ?? 'it has just been made'
}
