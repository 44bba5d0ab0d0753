/** The states a run entered and when it left them: the last so many, for whoever wants to know where the time went. */
import type { Instant, Millis } from './clock.ts'
import { pathOf, type Frame, type Visit } from './journey-run.ts'

const LONGEST_TRAIL = 200

export function entered(trail: readonly Visit[], frame: Frame, now: Instant, limitMs: Millis | null): Visit[] {
  return [
    ...trail,
    { path: pathOf(frame), type: frame.type ?? '', visit: frame.visit, from: now, to: null, limitMs, note: null },
  ]
}

export function left(trail: readonly Visit[], frame: Frame, now: Instant, note: string | null = null): Visit[] {
  return trail.map((visit) =>
    visit.visit === frame.visit && visit.to === null ? { ...visit, to: now, note: note ?? visit.note } : visit,
  )
}

/** Only the last ones are kept; those that are still open always are. */
export function trimmed(trail: readonly Visit[], omitted: number): { trail: readonly Visit[]; omitted: number } {
  let excess = trail.length - LONGEST_TRAIL
  if (excess <= 0) return { trail, omitted }
  const kept = trail.filter(({ to }) => to === null || excess-- <= 0)
  return { trail: kept, omitted: omitted + trail.length - kept.length }
}

/** A branch was given up: whatever it was doing ends here. */
export function lost(trail: readonly Visit[], branch: Frame, now: Instant): Visit[] {
  const prefix = `${branch.path}/`
  return trail.map((visit) =>
    visit.to === null && visit.path.startsWith(prefix) ? { ...visit, to: now, note: 'lost' } : visit,
  )
}
