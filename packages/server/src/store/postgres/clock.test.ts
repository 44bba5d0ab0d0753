import { beforeEach, describe, expect, test } from 'vitest'
import { FakeClock } from '@curfew/core'
import { DatabaseClock, MOST_ERROR_MS, STALE_MS } from './clock.ts'

/** The database is 40 s ahead of this machine's wall clock, unless a test moves it. */
const AHEAD_MS = 40_000

let host: FakeClock
let clock: DatabaseClock
let aheadMs: number

beforeEach(() => {
  host = new FakeClock(1_000_000)
  clock = new DatabaseClock(host)
  aheadMs = AHEAD_MS
})

/** Asks the database: so long there, so long back. */
function sample(thereMs = 1, backMs = thereMs): void {
  const sentAt = host.monotonicMs()
  host.advance(thereMs)
  const databaseMs = host.monotonicMs() + aheadMs
  host.advance(backMs)
  clock.sample(sentAt, databaseMs, host.monotonicMs())
}

/** A server that asks every second. */
function run(seconds: number, thereMs = 1, backMs = thereMs): void {
  for (let n = 0; n < seconds; n++) {
    host.advance(1_000 - thereMs - backMs)
    sample(thereMs, backMs)
    clock.now()
  }
}

const database = (): number => host.monotonicMs() + aheadMs

describe('the time', () => {
  test("is the database's", () => {
    sample()
    host.advance(5_000)
    expect(clock.now()).toBe(database())
  })

  test('is taken from the middle of the way, and may be wrong by half of it', () => {
    sample(10, 30)
    expect(clock.now()).toBe(database() - 10)
    expect(clock.offset().errorMs).toBe(20)
  })

  test('goes by the best of the recent samples', () => {
    run(2, 100, 300)
    sample(2, 2)
    run(3, 100, 300)
    expect(clock.offset()).toEqual({ ms: -AHEAD_MS, errorMs: 3 })
  })

  test('begins with the best of the samples before the first decision, not with the first of them', () => {
    sample(10, 200)
    sample()
    sample(30, 10)
    expect(clock.now()).toBe(database())
    host.advance(2_000)
    expect(clock.now()).toBe(database())
  })

  test('goes by a worse one when the best has become old, because clocks drift apart', () => {
    sample(1)
    aheadMs += 30
    run(12, 10)
    expect(clock.offset().ms).toBe(-AHEAD_MS - 30)
  })

  test('tells how far the wall clock of this machine is off', () => {
    sample()
    expect(clock.offset().ms).toBe(-AHEAD_MS)
    host.stepWall(1_000)
    expect(clock.offset().ms).toBe(-AHEAD_MS + 1_000)
    expect(clock.now()).toBe(database())
  })

  test('is corrected little by little, and never goes back', () => {
    for (const stepMs of [200, -400]) {
      const started = new DatabaseClock(host)
      clock = started
      aheadMs = AHEAD_MS
      run(3)
      aheadMs += stepMs
      let last = clock.now()
      for (let n = 0; n < 200; n++) {
        if (n % 10 === 0) sample()
        host.advance(100)
        const now = clock.now()
        expect(now - last).toBeGreaterThanOrEqual(94)
        expect(now - last).toBeLessThanOrEqual(105)
        last = now
      }
      expect(Math.abs(last - database())).toBeLessThanOrEqual(1)
    }
  })
})

describe('the clock is not trusted', () => {
  test('before it was read', () => {
    expect(clock.distrust()).toContain('has not been read yet')
    sample()
    expect(clock.distrust()).toBeNull()
  })

  test('when it was not read for long', () => {
    sample()
    host.advance(STALE_MS)
    expect(clock.distrust()).toBeNull()
    host.advance(1)
    expect(clock.distrust()).toContain('has not been read for 15 s')
    sample()
    expect(clock.distrust()).toBeNull()
  })

  test('while it is only known roughly', () => {
    sample(MOST_ERROR_MS + 1)
    expect(clock.distrust()).toContain('only known to 501 ms')
    sample(MOST_ERROR_MS)
    expect(clock.distrust()).toBeNull()
  })

  test('by a sample that took too long, which says nothing', () => {
    sample()
    for (let n = 0; n < 8; n++) sample(1_000, 1_000)
    expect(clock.distrust()).toContain('has not been read for 16 s')
  })

  test('when it has jumped, until that is confirmed by five readings over five seconds', () => {
    for (const leapMs of [3_600_000, -3_600_000]) {
      clock = new DatabaseClock(host)
      aheadMs = AHEAD_MS
      run(3)
      aheadMs += leapMs
      for (let n = 0; n < 20; n++) sample()
      expect(clock.distrust()).toContain(`has jumped by ${String(leapMs)} ms`)
      run(4)
      expect(clock.distrust()).toContain('has jumped')
      run(1)
      expect(clock.distrust()).toBeNull()
    }
  })

  test('while it leaps to and fro', () => {
    run(3)
    for (let n = 0; n < 10; n++) {
      aheadMs = AHEAD_MS + (n % 2 === 0 ? 10_000 : 20_000)
      run(1)
      expect(clock.distrust()).toContain('has jumped')
    }
  })

  test('is trusted again when it comes back', () => {
    run(3)
    aheadMs += 5_000
    run(2)
    expect(clock.distrust()).not.toBeNull()
    aheadMs = AHEAD_MS
    run(1)
    expect(clock.distrust()).toBeNull()
    expect(clock.now()).toBe(database())
  })
})

describe('after a confirmed leap', () => {
  test('forward, time is there at once', () => {
    run(3)
    aheadMs += 60_000
    run(6)
    expect(clock.now()).toBe(database())
  })

  test('back, time stands still until the database has caught up', () => {
    run(3)
    const before = clock.now()
    aheadMs -= 60_000
    run(6)
    const stood = clock.now()
    expect(stood - before).toBeLessThanOrEqual(6_010)
    run(30)
    expect(clock.now()).toBe(stood)
    run(40)
    expect(clock.now()).toBe(database())
  })
})
