/**
 * Limiters: how many jobs may start now, and when the next may. A limiter belongs to a key that jobs share, or to a
 * queue; it has terms and remembers the starts that still count.
 *
 *   concurrency   so many at once. The store counts who is active; nothing is kept here, so nothing can drift
 *   rate          so many starts in any stretch of time as long as the period, wherever it begins (a sliding window)
 *   throttle      the same with even spacing: one start, then a pause of period / limit
 *
 * A start at `s` counts until `s + period`: at that very instant the next may begin. Starts are kept exactly, as pairs of
 * a gap and a count, while there are no more than `MAX_PAIRS` of them in the window; beyond that, neighbours are laid
 * together at the later of their instants. So a limit is never exceeded, and with very high limits a start counts a
 * little longer than it must (by less than 1/500 of the period).
 */
import { days, hours, millis, type Instant, type Millis } from '../time/clock.ts'
import { after, isDue } from '../time/sums.ts'
import { docKind } from '../doc.ts'

export interface Rate {
  readonly limit: number
  readonly periodMs: Millis
}

export interface LimiterTerms {
  /** Null: unlimited. 0: nothing starts. */
  readonly concurrency: number | null
  readonly rate: Rate | null
  readonly throttle: Rate | null
}

export interface Limiter {
  readonly terms: LimiterTerms
  /** Where the gaps begin to count. */
  readonly from: Instant
  /** Gap, count, gap, count …: milliseconds since the start before it, and how many started there. Oldest first. */
  readonly starts: readonly number[]
  /** When it last let a job start, or got terms. */
  readonly usedAt: Instant
  /** Since when it has been turning jobs away. */
  readonly spentAt: Instant | null
}

/** A limiter that was not used for so long (or for its longest period) is removed, unless a job waits for it. */
const FORGET_UNUSED_AFTER_MS = days(1)
/** Where only the active are counted, use is written down this often. */
const REMEMBER_USE_EVERY_MS = hours(1)

export const LIMITER = docKind<Limiter>('limiter', forgetAt)

/** Keys and queues have names of their own; neither can be taken for the other. */
export const limiterOfKey = (key: string): string => `key/${key}`
export const limiterOfQueue = (queue: string): string => `queue/${queue}`

export const NO_TERMS: LimiterTerms = { concurrency: null, rate: null, throttle: null }

const MAX_PAIRS = 1_024

export function newLimiter(terms: LimiterTerms, now: Instant): Limiter {
  return { terms, from: now, starts: [], usedAt: now, spentAt: null }
}

export function forgetAt({ terms, usedAt }: Limiter): Instant {
  return after(usedAt, millis(Math.max(FORGET_UNUSED_AFTER_MS, longestMs(terms))))
}

export interface Allowance {
  /** How many may start now. Infinity when nothing limits. */
  readonly starts: number
  /** When a window lets the next one start, if a window turns it away now. */
  readonly opensAt: Instant | null
  /** As many are active as may be: the next starts when one of them ends. */
  readonly isFull: boolean
}

/** `active`: how many hold this limiter now. */
export function allowance({ terms, from, starts }: Limiter, active: number, now: Instant): Allowance {
  let free = Infinity
  let opensAt: Instant | null = null
  for (const rate of windowsOf(terms)) {
    const left = Math.max(0, rate.limit - countIn(from, starts, rate.periodMs, now))
    free = Math.min(free, left)
    // With several windows the last of them to open decides.
    if (left === 0) opensAt = latest(opensAt, openingOf(from, starts, rate, now))
  }
  const slots = terms.concurrency === null ? Infinity : Math.max(0, terms.concurrency - active)
  return { starts: Math.min(free, slots), opensAt, isFull: slots === 0 }
}

/** So many started now. The same limiter, if there is nothing to remember of it. */
export function withStarts(limiter: Limiter, count: number, now: Instant): Limiter {
  if (windowsOf(limiter.terms).length === 0) {
    const isFresh = limiter.spentAt === null && !isDue(after(limiter.usedAt, REMEMBER_USE_EVERY_MS), now)
    return isFresh ? limiter : { ...limiter, from: now, starts: [], usedAt: now, spentAt: null }
  }
  return { ...limiter, ...appended(limiter, count, now), usedAt: now, spentAt: null }
}

/** New terms judge what has started already, too. */
export function withTerms(limiter: Limiter, terms: LimiterTerms, now: Instant): Limiter {
  return { ...limiter, terms, usedAt: now }
}

export function sameTerms(a: LimiterTerms, b: LimiterTerms): boolean {
  return a.concurrency === b.concurrency && sameRate(a.rate, b.rate) && sameRate(a.throttle, b.throttle)
}

/** How many starts count within a period now. */
export function startsWithin({ from, starts }: Limiter, periodMs: Millis, now: Instant): number {
  return countIn(from, starts, periodMs, now)
}

/** Even spacing is a window with one start in it; instants have a resolution of one millisecond. */
export function spacingOf({ limit, periodMs }: Rate): Rate {
  return {
    limit: Math.max(1, Math.floor(limit / periodMs)),
    periodMs: millis(Math.max(1, Math.ceil(periodMs / limit))),
  }
}

function windowsOf({ rate, throttle }: LimiterTerms): Rate[] {
  return [...(rate === null ? [] : [rate]), ...(throttle === null ? [] : [spacingOf(throttle)])]
}

const longestMs = (terms: LimiterTerms): Millis =>
  millis(windowsOf(terms).reduce((longest, { periodMs }) => Math.max(longest, periodMs), 0))

const sameRate = (a: Rate | null, b: Rate | null): boolean => a?.limit === b?.limit && a?.periodMs === b?.periodMs

const latest = (a: Instant | null, b: Instant | null): Instant | null => (a === null ? b : b === null || a > b ? a : b)

// ---- The window ----
// Everything here is a length counted from `from`, and plain loops: a window may hold a thousand pairs, and is read with
// every claim.

/** How far the period reaches back: what started later than this still counts. Negative: all of it does. */
const horizon = (from: Instant, periodMs: Millis, now: Instant): number => now - from - periodMs

function countIn(from: Instant, starts: readonly number[], periodMs: Millis, now: Instant): number {
  const gone = horizon(from, periodMs, now)
  let [count, sinceFrom] = [0, 0]
  for (let index = 0; index < starts.length; index += 2) {
    sinceFrom += starts[index] ?? 0
    if (sinceFrom > gone) count += starts[index + 1] ?? 0
  }
  return count
}

/** When enough of what is in the window has left it for one more. */
function openingOf(from: Instant, starts: readonly number[], { limit, periodMs }: Rate, now: Instant): Instant | null {
  const gone = horizon(from, periodMs, now)
  let left = countIn(from, starts, periodMs, now)
  let sinceFrom = 0
  for (let index = 0; index < starts.length; index += 2) {
    sinceFrom += starts[index] ?? 0
    if (sinceFrom <= gone) continue
    left -= starts[index + 1] ?? 0
    if (left < limit) return after(after(from, millis(sinceFrom)), periodMs)
  }
  return null
}

/** What still counts for one window or the other, and the new starts. */
function appended({ terms, from, starts }: Limiter, count: number, now: Instant): Pick<Limiter, 'from' | 'starts'> {
  const gone = horizon(from, longestMs(terms), now)
  const kept: number[] = []
  let [first, last, sinceFrom] = [0, 0, 0]
  for (let index = 0; index < starts.length; index += 2) {
    sinceFrom += starts[index] ?? 0
    if (sinceFrom <= gone) continue
    if (kept.length === 0) first = sinceFrom
    kept.push(kept.length === 0 ? 0 : sinceFrom - last, starts[index + 1] ?? 0)
    last = sinceFrom
  }
  if (kept.length === 0) return { from: now, starts: [0, count] }
  // The clocks of two servers may differ by a little: a later start is never recorded as an earlier one.
  const gap = Math.max(0, now - from - last)
  if (gap === 0) kept[kept.length - 1] = (kept.at(-1) ?? 0) + count
  else kept.push(gap, count)
  const begin = after(from, millis(first))
  return { from: begin, starts: kept.length > 2 * MAX_PAIRS ? laidTogether(begin, kept, longestMs(terms)) : kept }
}

/** Neighbours become one pair, at the later of their instants. Who are neighbours does not depend on where it begins. */
function laidTogether(from: Instant, starts: readonly number[], longest: Millis): number[] {
  const width = Math.ceil(longest / (MAX_PAIRS / 2))
  const before = from % width
  const laid: number[] = []
  let [slot, last, sinceFrom] = [-1, 0, 0]
  for (let index = 0; index < starts.length; index += 2) {
    sinceFrom += starts[index] ?? 0
    const count = starts[index + 1] ?? 0
    const own = Math.floor((before + sinceFrom) / width)
    if (own === slot) {
      laid[laid.length - 2] = (laid.at(-2) ?? 0) + sinceFrom - last
      laid[laid.length - 1] = (laid.at(-1) ?? 0) + count
    } else laid.push(sinceFrom - last, count)
    slot = own
    last = sinceFrom
  }
  return laid
}
