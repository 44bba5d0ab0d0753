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

/** When something ends that began then, on a monotonic clock, in milliseconds. It is not rounded: nothing ends early. */
export function endsAfter(begunMs: number, lengthMs: number): number {
  return begunMs + lengthMs
}

/** What is left until an end on a monotonic clock, in milliseconds; 0 when it has come. */
export function leftUntil(endMs: number, nowMs: number): number {
  return Math.max(0, endMs - nowMs)
}

/** What is left until then; nothing when it has come. */
export function remaining(untilAt: Instant, now: Instant): Millis {
  return millis(Math.max(0, untilAt - now))
}

export function isDue(deadlineAt: Instant | null, now: Instant): boolean {
  return deadlineAt !== null && now >= deadlineAt
}

/** The instant itself, or the bound that it is beyond. */
export function clamped(at: Instant, from: Instant, to: Instant): Instant {
  return instant(Math.min(Math.max(at, from), to))
}

export function earliest(...deadlines: readonly (Instant | null)[]): Instant | null {
  let first: Instant | null = null
  for (const at of deadlines) if (at !== null && (first === null || at < first)) first = at
  return first
}
