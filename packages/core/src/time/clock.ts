/**
 * Time, as every room of the house speaks of it.
 *
 * An Instant is a point on the engine's clock (whole milliseconds since the Unix epoch); a Millis is a length. They are
 * branded, so that adding a length to an instant does not type check outside `sums.ts`, where all such sums live.
 *
 * The engine clock is the wall clock as it stood at the start plus monotonic time since. A step of the wall clock
 * therefore moves nothing that is in flight; the difference is measured and shown (`clockOffsetMs`).
 */

declare const instantBrand: unique symbol
declare const millisBrand: unique symbol

/** A point in time: whole milliseconds since the Unix epoch on the engine clock. */
export type Instant = number & { readonly [instantBrand]: true }

/** A length of time in milliseconds. */
export type Millis = number & { readonly [millisBrand]: true }

export const instant = (msSinceEpoch: number): Instant => Math.floor(msSinceEpoch) as Instant
export const millis = (ms: number): Millis => ms as Millis
export const seconds = (s: number): Millis => (s * 1000) as Millis
export const minutes = (m: number): Millis => seconds(m * 60)
export const hours = (h: number): Millis => minutes(h * 60)
export const days = (d: number): Millis => hours(d * 24)

/** RFC 3339, UTC, millisecond precision: how the server writes an instant. */
export function iso(at: Instant): string {
  // The instants of one transaction are few, and each is written many times: their texts are worth remembering.
  const slot = at & (REMEMBERED - 1)
  if (written.at[slot] !== at) {
    written.text[slot] = new Date(at).toISOString()
    written.at[slot] = at
  }
  return written.text[slot] ?? ''
}

/** A power of two. Instants less than this many milliseconds apart do not displace one another. */
const REMEMBERED = 128
const written = { at: new Array<number>(REMEMBERED).fill(NaN), text: new Array<string>(REMEMBERED).fill('') }

export interface Clock {
  now(): Instant
}

export interface Timer {
  cancel(): void
}

/** Whether a timer is housekeeping only, as things stand when it is asked. */
export type IsIdle = () => boolean

export const ALWAYS_IDLE: IsIdle = () => true
export const NEVER_IDLE: IsIdle = () => false

/** What the machine offers: two clocks, timers, and "after what arrived in this turn". The one port for time. */
export interface Host {
  wallMs(): number
  monotonicMs(): number
  /**
   * Calls `fire` once, after at least `ms`. A timer that is idle is housekeeping only: a clock that is turned by hand may
   * fire it late, at an instant before which nothing else happens.
   */
  setTimer(ms: number, fire: () => void, isIdle?: IsIdle): Timer
  /** Calls `run` once everything that has already arrived in this turn has been read. */
  defer(run: () => void): void
}

/** Begins to measure: what it gives tells, whenever it is asked, how many milliseconds of work there were since. */
export type Stopwatch = () => () => number

export const stopwatchOf =
  (host: Pick<Host, 'monotonicMs'>): Stopwatch =>
  () => {
    const begunMs = host.monotonicMs()
    return () => host.monotonicMs() - begunMs
  }

/** Chance comes in from outside too: a number in [0, 1). */
export type Random = () => number

/**
 * Wall time at the start plus monotonic time since. `notBefore` is the last instant the stored data speaks of: after a
 * restart with the wall clock set back, time goes on from there instead of running twice.
 */
export function clockFrom(host: Host, notBefore: Instant = instant(0)): Clock {
  const startedWall = Math.max(host.wallMs(), notBefore)
  const startedMonotonic = host.monotonicMs()
  return { now: () => instant(startedWall + (host.monotonicMs() - startedMonotonic)) }
}

/** How far the wall clock has moved away from the engine clock (positive: the wall is ahead). */
export function clockOffsetMs(host: Host, clock: Clock): Millis {
  return millis(Math.round(host.wallMs() - clock.now()))
}
