import { describe, expect, test } from 'vitest'
import { instant, type Instant, type Outage } from '@curfew/core'
import type { Life } from '../../store/store.ts'
import { ServerLiveness } from './server-liveness.ts'

const at = (second: number): Instant => instant(second * 1_000)
const alive = (second: number | null, outages: readonly Outage[] = []): Life => ({
  aliveAt: second === null ? null : at(second),
  outages,
})

/** A server that has been at work since second 100. */
function atWork(shared = false, standsStill = false): ServerLiveness {
  const liveness = new ServerLiveness(shared, standsStill)
  liveness.kept(alive(100))
  return liveness
}

describe('one server on its data', () => {
  test('at its start, the time since the last sign of life is an outage, noted with the sign it gives', () => {
    const before = [{ from: at(1), to: at(2) }]
    const after = [...before, { from: at(10), to: at(100) }]
    expect(new ServerLiveness(false, false).judge(alive(10, before), at(100), false)).toEqual({
      outages: after,
      stamp: { outages: { before, after } },
    })
  })

  test('on new data there was none', () => {
    expect(new ServerLiveness(false, false).judge(alive(null), at(100), false)).toEqual({
      outages: [],
      stamp: { outages: null },
    })
  })

  test('while it watches something, more than ten seconds without a sign mean that it stood still', () => {
    expect(atWork().judge(alive(100), at(110), true).outages).toEqual([])
    expect(atWork().judge(alive(100), at(110.001), true).outages).toEqual([{ from: at(100), to: at(110.001) }])
    expect(atWork().judge(alive(100), at(200), false).outages).toEqual([])
  })

  test('whose clock is turned by hand never stood still', () => {
    expect(atWork(false, true).judge(alive(100), at(9_000), true).outages).toEqual([])
  })

  test('that could not store is not held against anybody, from its first failure on, until a commit', () => {
    const liveness = atWork()
    liveness.troubled(at(103))
    liveness.troubled(at(104))
    expect(liveness.judge(alive(100), at(105), true).outages).toEqual([{ from: at(103), to: at(105) }])
    expect(liveness.judge(alive(100), at(106), true).outages).toEqual([{ from: at(103), to: at(106) }])
    liveness.kept(alive(106))
    expect(liveness.judge(alive(106), at(106.5), true)).toEqual({ outages: [], stamp: null })
  })

  test('gives a sign once a second when something is written anyway, and never sleeps through four', () => {
    expect(atWork().judge(alive(100), at(100.999), true).stamp).toBeNull()
    expect(atWork().judge(alive(100), at(101), true).stamp).toEqual({ outages: null })
    expect(atWork().sleepMs(at(101))).toBe(3_000)
    expect(atWork().sleepMs(at(105))).toBe(0)
  })

  test('remembers a hundred outages', () => {
    const many = Array.from({ length: 100 }, (_, n) => ({ from: at(n), to: at(n + 0.5) }))
    const { outages } = new ServerLiveness(false, false).judge(alive(150, many), at(160), false)
    expect(outages).toEqual([...many.slice(1), { from: at(150), to: at(160) }])
  })
})

describe('many servers on shared data', () => {
  test('an outage is a time in which no server gave a sign, whichever starts, stood still or failed', () => {
    for (const liveness of [new ServerLiveness(true, false), atWork(true)]) {
      liveness.troubled(at(99))
      expect(liveness.judge(alive(100), at(104), true).outages).toEqual([])
      expect(liveness.judge(alive(100), at(104.001), false).outages).toEqual([{ from: at(100), to: at(104.001) }])
    }
  })

  test('each gives a sign every second', () => {
    expect(atWork(true).sleepMs(at(100.25))).toBe(750)
  })
})
