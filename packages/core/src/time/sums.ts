/**
 * Sums on time: the only file that adds a length to an instant. Due means now >= deadline, everywhere (on a clock of whole
 * milliseconds).
 */
import { instant, millis, type Instant, type Millis } from './clock.ts'

/** The one addition. */
export function after(at: Instant, length: Millis): Instant {
  return instant(at + length)
}

/** The instant that lies so long before another. */
export function before(at: Instant, length: Millis): Instant {
  return instant(at - length)
}

/** The first instant after `now` of those that lie whole intervals after `startAt`. */
export function nextOnGrid(startAt: Instant, interval: Millis, now: Instant): Instant {
  const passed = Math.max(0, Math.floor((now - startAt) / interval) + 1)
  return instant(startAt + passed * interval)
}

/** The last instant, not after this one, of those that lie whole intervals after the epoch. */
export function floorTo(at: Instant, interval: Millis): Instant {
  return instant(at - (at % interval))
}

/** How far the second lies after the first; negative where it lies before it. */
export function timeBetween(from: Instant, to: Instant): Millis {
  return millis(to - from)
}

export function elapsed(since: Instant, now: Instant): Millis {
  return millis(Math.max(0, now - since))
}

export function isDue(deadlineAt: Instant | null, now: Instant): boolean {
  return deadlineAt !== null && now >= deadlineAt
}

export function earliest(...deadlines: readonly (Instant | null)[]): Instant | null {
  let first: Instant | null = null
  for (const at of deadlines) if (at !== null && (first === null || at < first)) first = at
  return first
}
