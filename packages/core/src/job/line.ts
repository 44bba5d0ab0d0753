/**
 * The line of a queue: who is handed out when, seen from indexes alone. Jobs with a deadline are few among many that wait,
 * so the places of those few are looked up in the line, and only jobs that may be late are read whole.
 */
import { millis, type Instant, type Millis } from '../time/clock.ts'
import { after } from '../time/sums.ts'

/** Where an available job stands in its queue: higher priorities first, then lower sequences. */
export interface Spot {
  readonly priority: number
  readonly seq: number
}

export interface DatedSpot extends Spot {
  /** The nearest deadline of the job. */
  readonly wakeAt: Instant
}

export interface Placed<At extends Spot> {
  readonly spot: At
  /** So many are handed out before it. */
  readonly ahead: number
}

/**
 * The jobs with a deadline, each with the number of jobs ahead of it. `line`: the first of the queue, by priority and
 * sequence; `dated`: those with a deadline, by priority and then the nearest first. As they came (`fifo`), a job is left
 * out that is behind the end of `line`; `edf` hands out those with a deadline first, within a priority.
 */
export function placesOf<At extends DatedSpot>(
  line: readonly Spot[],
  dated: readonly At[],
  order: 'fifo' | 'edf',
): Placed<At>[] {
  const placed: Placed<At>[] = []
  if (order === 'fifo') {
    for (const spot of dated) {
      const ahead = countBefore(line, spot)
      if (line[ahead]?.seq === spot.seq && line[ahead].priority === spot.priority) placed.push({ spot, ahead })
    }
    return placed
  }
  let [priority, above, within] = [Infinity, 0, 0]
  for (const spot of dated) {
    if (spot.priority !== priority) {
      priority = spot.priority
      above = countBefore(line, { priority, seq: -Infinity })
      within = 0
    }
    placed.push({ spot, ahead: above + within })
    within += 1
  }
  return placed
}

/** How many of a line stand before this spot. */
function countBefore(line: readonly Spot[], { priority, seq }: Spot): number {
  let [low, high] = [0, line.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const spot = line[middle]
    const isBefore = spot !== undefined && (spot.priority > priority || (spot.priority === priority && spot.seq < seq))
    if (isBefore) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * Whether a job may be late at this pace: its deadline is not behind the start that is expected, if an attempt takes as
 * long as this. `gapMs`: from one start to the next; null: nothing starts.
 */
export function mayBeLate(
  { spot, ahead }: Placed<DatedSpot>,
  gapMs: number | null,
  takesMs: Millis,
  now: Instant,
): boolean {
  if (gapMs === null) return true
  return spot.wakeAt <= after(after(now, takesMs), millis(Math.ceil((ahead + 1) * gapMs)))
}
