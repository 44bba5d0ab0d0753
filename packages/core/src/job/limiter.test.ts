import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { at, later, NOON } from '../builders.suite.ts'
import { millis, seconds, type Instant } from '../time/clock.ts'
import {
  allowance,
  forgetAt,
  newLimiter,
  NO_TERMS,
  sameTerms,
  spacingOf,
  startsWithin,
  withStarts,
  withTerms,
  type Limiter,
  type LimiterTerms,
  type Rate,
} from './limiter.ts'

const rate = (limit: number, periodMs: number): Rate => ({ limit, periodMs: millis(periodMs) })
const limiter = (terms: Partial<LimiterTerms>): Limiter => newLimiter({ ...NO_TERMS, ...terms }, NOON)

describe('a rate', () => {
  test('lets so many start at once and no more until the oldest has left the window', () => {
    let spent = limiter({ rate: rate(3, 60_000) })
    expect(allowance(spent, 0, NOON)).toEqual({ starts: 3, opensAt: null, isFull: false })
    spent = withStarts(spent, 1, NOON)
    spent = withStarts(spent, 2, at('12:00:10'))
    expect(allowance(spent, 3, at('12:00:10'))).toEqual({ starts: 0, opensAt: at('12:01:00'), isFull: false })
    expect(allowance(spent, 0, at('12:00:59.999')).starts).toBe(0)
    expect(allowance(spent, 0, at('12:01:00'))).toEqual({ starts: 1, opensAt: null, isFull: false })
    expect(allowance(spent, 0, at('12:01:10')).starts).toBe(3)
  })

  test('does not begin anew at the turn of a minute', () => {
    const spent = withStarts(limiter({ rate: rate(10, 60_000) }), 10, at('12:00:59'))
    expect(allowance(spent, 0, at('12:01:01'))).toMatchObject({ starts: 0, opensAt: at('12:01:59') })
  })

  test('that was lowered waits until enough starts have left the window', () => {
    const busy = withStarts(withStarts(limiter({ rate: rate(5, 60_000) }), 3, NOON), 2, at('12:00:30'))
    const lowered = withTerms(busy, { ...NO_TERMS, rate: rate(2, 60_000) }, at('12:00:40'))
    expect(allowance(lowered, 0, at('12:00:40'))).toMatchObject({ starts: 0, opensAt: at('12:01:30') })
    expect(allowance(lowered, 0, at('12:01:00')).starts).toBe(0)
    expect(allowance(lowered, 0, at('12:01:30')).starts).toBe(2)
  })

  test('forgets what no longer counts', () => {
    let busy = limiter({ rate: rate(5, 1_000) })
    for (let second = 0; second < 100; second += 1) busy = withStarts(busy, 1, later(NOON, second * 1_000))
    expect(busy.starts).toEqual([0, 1])
  })

  test('is not fooled by a clock that is a little behind', () => {
    const spent = withStarts(limiter({ rate: rate(2, 1_000) }), 1, at('12:00:00.005'))
    const both = withStarts(spent, 1, at('12:00:00.003'))
    expect(allowance(both, 0, at('12:00:01.004'))).toMatchObject({ starts: 0, opensAt: at('12:00:01.005') })
  })
})

describe('a throttle', () => {
  test('spaces starts evenly: one, then a pause', () => {
    const spent = withStarts(limiter({ throttle: rate(10, 1_000) }), 1, NOON)
    expect(allowance(limiter({ throttle: rate(10, 1_000) }), 0, NOON).starts).toBe(1)
    expect(allowance(spent, 0, at('12:00:00.099'))).toMatchObject({ starts: 0, opensAt: at('12:00:00.100') })
    expect(allowance(spent, 0, at('12:00:00.100')).starts).toBe(1)
  })

  test('rounds the pause up, and lets several start in a millisecond when it must', () => {
    expect(spacingOf(rate(3, 1_000))).toEqual(rate(1, 334))
    expect(spacingOf(rate(2_500, 1_000))).toEqual(rate(2, 1))
    expect(spacingOf(rate(1, 60_000))).toEqual(rate(1, 60_000))
  })

  test('and a rate must both agree: the later of the two openings counts', () => {
    const both = withStarts(limiter({ rate: rate(1, 60_000), throttle: rate(1, 1_000) }), 1, NOON)
    expect(allowance(both, 0, at('12:00:00.500'))).toMatchObject({ starts: 0, opensAt: at('12:01:00') })
    const paced = withStarts(limiter({ rate: rate(9, 60_000), throttle: rate(1, 1_000) }), 1, NOON)
    expect(allowance(paced, 0, at('12:00:00.500'))).toMatchObject({ starts: 0, opensAt: at('12:00:01') })
  })
})

describe('concurrency', () => {
  test('is what is left of it', () => {
    const four = limiter({ concurrency: 4 })
    expect(allowance(four, 1, NOON)).toEqual({ starts: 3, opensAt: null, isFull: false })
    expect(allowance(four, 4, NOON)).toEqual({ starts: 0, opensAt: null, isFull: true })
    expect(allowance(four, 9, NOON)).toEqual({ starts: 0, opensAt: null, isFull: true })
  })

  test('of nothing lets nothing start', () => {
    expect(allowance(limiter({ concurrency: 0 }), 0, NOON)).toEqual({ starts: 0, opensAt: null, isFull: true })
  })

  test('alone has no starts to remember', () => {
    const four = limiter({ concurrency: 4 })
    expect(withStarts(four, 1, at('12:10'))).toBe(four)
    expect(withStarts(four, 1, at('13:00'))).toEqual({ ...four, from: at('13:00'), usedAt: at('13:00') })
    expect(withStarts({ ...four, spentAt: NOON }, 1, at('12:01')).spentAt).toBeNull()
  })
})

test('without terms nothing is limited', () => {
  expect(allowance(limiter({}), 1_000_000, NOON)).toEqual({ starts: Infinity, opensAt: null, isFull: false })
})

test('a limiter is looked at again after a day without use, or its longest period', () => {
  expect(forgetAt(limiter({ rate: rate(1, 1_000) }))).toBe(later(NOON, 86_400_000))
  expect(forgetAt(limiter({ rate: rate(1, 200_000_000) }))).toBe(later(NOON, 200_000_000))
})

test('terms are the same when every limit is', () => {
  const terms = { concurrency: 1, rate: rate(1, 2), throttle: null }
  expect(sameTerms(terms, { ...terms, rate: rate(1, 2) })).toBe(true)
  expect(sameTerms(terms, { ...terms, rate: rate(1, 3) })).toBe(false)
  expect(sameTerms(terms, { ...terms, throttle: rate(1, 2) })).toBe(false)
  expect(sameTerms(terms, { ...terms, concurrency: null })).toBe(false)
})

// ---- What holds whatever is asked, and when ----

const asks = fc.array(fc.record({ gapMs: fc.nat({ max: 400 }), count: fc.integer({ min: 1, max: 7 }) }), {
  maxLength: 120,
})
const rates = fc.record({
  limit: fc.integer({ min: 1, max: 12 }),
  periodMs: fc.integer({ min: 1, max: 1_000 }).map(millis),
})

/** Asks one after the other; every start with its instant. */
function run(
  terms: LimiterTerms,
  asked: readonly { gapMs: number; count: number }[],
  look: (
    limiter: Limiter,
    now: Instant,
    wanted: number,
    granted: number,
    startedAt: readonly Instant[],
  ) => void = () => {},
): Instant[] {
  let current = newLimiter(terms, NOON)
  let now = NOON
  const startedAt: Instant[] = []
  for (const { gapMs, count } of asked) {
    now = later(now, gapMs)
    const granted = Math.min(count, allowance(current, 0, now).starts)
    look(current, now, count, granted, startedAt)
    if (granted === 0) continue
    current = withStarts(current, granted, now)
    for (let index = 0; index < granted; index += 1) startedAt.push(now)
  }
  return startedAt
}

const within = (startedAt: readonly Instant[], since: number, until: number): number =>
  startedAt.filter((start) => start > since && start <= until).length

test('never more than the limit start in any stretch as long as the period', () => {
  fc.assert(
    fc.property(rates, asks, ({ limit, periodMs }, asked) => {
      const startedAt = run({ ...NO_TERMS, rate: { limit, periodMs } }, asked)
      for (const end of startedAt) expect(within(startedAt, end - periodMs, end)).toBeLessThanOrEqual(limit)
    }),
  )
})

test('nothing is refused that would fit, and it fits at the instant that was named', () => {
  fc.assert(
    fc.property(rates, asks, ({ limit, periodMs }, asked) => {
      run({ ...NO_TERMS, rate: { limit, periodMs } }, asked, (current, now, wanted, granted, startedAt) => {
        const free = limit - within(startedAt, now - periodMs, now)
        expect(granted).toBe(Math.min(wanted, free))
        const { opensAt } = allowance(current, 0, now)
        expect(opensAt === null).toBe(free > 0)
        if (opensAt === null) return
        expect(opensAt).toBeGreaterThan(now)
        expect(allowance(current, 0, opensAt).starts).toBeGreaterThan(0)
        expect(allowance(current, 0, later(opensAt, -1)).starts).toBe(0)
      })
    }),
  )
})

test('a throttle never lets two start closer than its pause', () => {
  fc.assert(
    fc.property(rates, asks, (throttle, asked) => {
      fc.pre(throttle.limit <= throttle.periodMs)
      const startedAt = run({ ...NO_TERMS, throttle }, asked)
      const gaps = startedAt.slice(1).map((start, index) => start - (startedAt[index] ?? 0))
      for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(throttle.periodMs / throttle.limit)
    }),
  )
})

test('very high limits are kept in bounded space, and a start counts less than 1/500 of the period too long', () => {
  const [limit, periodMs] = [2_000, 20_000]
  let current = newLimiter({ ...NO_TERMS, rate: rate(limit, periodMs) }, NOON)
  const startedAt: Instant[] = []
  let [tooLate, widest] = [0, 0]
  for (let now = NOON; now < later(NOON, 45_000); now = later(now, 7)) {
    const leaving = startedAt[startedAt.length - limit]
    const fits = leaving === undefined || now >= leaving + periodMs
    if (allowance(current, 0, now).starts === 0) {
      if (fits) tooLate = Math.max(tooLate, now - ((leaving ?? NOON) + periodMs))
      continue
    }
    expect(fits).toBe(true)
    current = withStarts(current, 1, now)
    startedAt.push(now)
    widest = Math.max(widest, current.starts.length)
  }
  expect(startedAt.length).toBeGreaterThan(2 * limit)
  expect(tooLate).toBeLessThan(periodMs / 500)
  expect(widest).toBeLessThanOrEqual(2 * 1_024)
  expect(startsWithin(current, seconds(1), later(NOON, 400_000))).toBe(0)
})
