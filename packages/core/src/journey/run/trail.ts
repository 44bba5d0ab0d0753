/** The states a run entered and when it left them: the last MAX_TRAIL of them, to show where the time went. */
import type { Instant, Millis } from '../../time/clock.ts'
import { withinAll } from './written.ts'
import { framesIn, pathOf, type Frame, type Visit } from './run.ts'

const MAX_TRAIL = 200

/** The trail while a run is walked. Each entry costs the same, however long the trail is. */
export class Trail {
  readonly #visits: Visit[]
  /** Where the visits are that are still open, by their number. */
  readonly #open = new Map<number, number>()

  constructor(trail: readonly Visit[]) {
    this.#visits = [...trail]
    for (const [index, { visit, to }] of this.#visits.entries()) if (to === null) this.#open.set(visit, index)
  }

  entered(frame: Frame, now: Instant, limitMs: Millis | null): void {
    const { visit } = frame
    this.#open.set(visit, this.#visits.length)
    this.#visits.push({ path: pathOf(frame), type: frame.type ?? '', visit, from: now, to: null, limitMs, note: null })
  }

  left({ visit }: Pick<Frame, 'visit'>, now: Instant, note: string | null = null, wrote?: string): void {
    const index = this.#open.get(visit)
    const open = index === undefined ? undefined : this.#visits[index]
    if (index === undefined || open === undefined) return
    this.#open.delete(visit)
    this.#visits[index] = leftWith(open, now, { note, ...(wrote === undefined ? {} : { wrote }) })
  }

  /** A branch was given up: whatever it was doing ends here. */
  lost(branch: Frame, now: Instant): void {
    for (const frame of framesIn(branch)) this.left(frame, now, 'lost')
  }

  /** Only the last ones are kept; those that are still open always are. */
  trimmed(omitted: number): { trail: readonly Visit[]; omitted: number } {
    let excess = this.#visits.length - MAX_TRAIL
    if (excess <= 0) return { trail: withinAll(this.#visits), omitted }
    const kept = this.#visits.filter(({ to }) => to === null || excess-- <= 0)
    return { trail: withinAll(kept), omitted: omitted + this.#visits.length - kept.length }
  }
}

/** What is to be said of a visit that is over. */
export interface Left {
  readonly note: string | null
  readonly wrote?: string
}

const leftWith = (visit: Visit, now: Instant, { note, wrote }: Left): Visit => ({
  ...visit,
  to: now,
  note: note ?? visit.note,
  ...(wrote === undefined ? {} : { wrote }),
})

/** The trail after these visits were left, each with what is to be noted of it. */
export function leftAll(trail: readonly Visit[], visits: ReadonlyMap<number, Left>, now: Instant): readonly Visit[] {
  if (visits.size === 0) return trail
  const after = trail.map((visit) => {
    const left = visit.to === null ? visits.get(visit.visit) : undefined
    return left === undefined ? visit : leftWith(visit, now, left)
  })
  return withinAll(after)
}
