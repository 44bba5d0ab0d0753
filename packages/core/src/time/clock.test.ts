import { expect, test } from 'vitest'
import { clockFrom, clockOffsetMs, instant, iso, type Instant } from './clock.ts'
import { FakeClock } from './fake-clock.ts'
import { seededRandom } from '../seeded-random.ts'

test('a step of the wall clock moves nothing that is in flight, but is measured', () => {
  const host = new FakeClock(1_000)
  const clock = clockFrom(host)
  host.stepWall(60_000)
  host.advance(5)
  expect(clock.now()).toBe(1_005)
  expect(clockOffsetMs(host, clock)).toBe(60_000)
})

test('after a restart with the wall clock set back, time goes on from the last stored instant', () => {
  const clock = clockFrom(new FakeClock(1_000), instant(9_000))
  expect(clock.now()).toBe(9_000)
})

test('the clock shows whole milliseconds', () => {
  expect(clockFrom(new FakeClock(1_000.9)).now()).toBe(1_000)
})

test('an instant is written in UTC with milliseconds', () => {
  expect(iso(instant(Date.UTC(2026, 0, 2, 3, 4, 5)))).toBe('2026-01-02T03:04:05.000Z')
})

test('the fake clock fires timers at their own instants, in order, those that are set on the way included', () => {
  const clock = new FakeClock(0)
  const fired: [string, Instant][] = []
  clock.setTimer(20, () => fired.push(['late', clock.now()]))
  clock.setTimer(10, () => {
    fired.push(['early', clock.now()])
    clock.setTimer(5, () => fired.push(['between', clock.now()]))
  })
  const cancelled = clock.setTimer(15, () => fired.push(['never', clock.now()]))
  cancelled.cancel()
  expect(clock.nextTimerAt()).toBe(10)
  clock.advance(19)
  expect(fired).toEqual([
    ['early', 10],
    ['between', 15],
  ])
  clock.advance(1)
  expect(fired.at(-1)).toEqual(['late', 20])
  expect(clock.nextTimerAt()).toBeNull()
})

test('the fake clock can leap over idle timers, which then fire one by one at the instant it leapt to', () => {
  const clock = new FakeClock(0)
  const fired: [string, Instant][] = []
  const note = (name: string) => () => fired.push([name, clock.now()])
  let isIdle = true
  clock.setTimer(20, note('second'), () => isIdle)
  clock.setTimer(10, note('first'), () => true)
  clock.setTimer(90, note('busy'))
  expect([clock.nextTimerAt(), clock.nextBusyTimerAt()]).toEqual([10, 90])
  isIdle = false
  expect(clock.nextBusyTimerAt()).toBe(20)
  clock.leapTo(instant(80))
  expect([clock.now(), fired]).toEqual([80, []])
  expect([clock.fireNext(), clock.fireNext(), clock.fireNext()]).toEqual([true, true, false])
  expect(fired).toEqual([
    ['first', 80],
    ['second', 80],
  ])
  clock.leapTo(instant(50))
  expect([clock.now(), clock.nextBusyTimerAt()]).toEqual([80, 90])
})

test('a timer of the fake clock between two milliseconds is expected at the later one', () => {
  const clock = new FakeClock(0)
  clock.setTimer(1.5, () => {})
  clock.advance(clock.nextTimerAt() ?? 0)
  expect(clock.nextTimerAt()).toBeNull()
})

test('the same seed gives the same chance, always in [0, 1)', () => {
  const [one, two, other] = [seededRandom(7), seededRandom(7), seededRandom(8)]
  const first = Array.from({ length: 100 }, one)
  expect(Array.from({ length: 100 }, two)).toEqual(first)
  expect(Array.from({ length: 100 }, other)).not.toEqual(first)
  expect(first.every((chance) => chance >= 0 && chance < 1)).toBe(true)
})

test('an instant is written as itself, whichever instants were written before it', () => {
  const start = Date.UTC(2026, 0, 2, 3, 4, 5)
  const steps = [0, 1, 127, 128, 129, 256, 0, 128, 2 ** 32, 0, -start, -start - 128, -start - 1, 0]
  for (const step of steps) expect(iso(instant(start + step))).toBe(new Date(start + step).toISOString())
})

test('a value that is not an instant is refused, also after an instant was written', () => {
  expect(iso(instant(0))).toBe('1970-01-01T00:00:00.000Z')
  expect(() => iso(instant(NaN))).toThrow('Invalid time value')
  expect(() => iso(instant(8.64e15 + 1))).toThrow('Invalid time value')
  expect(() => iso(instant(8.64e15 + 1))).toThrow('Invalid time value')
  expect(iso(instant(0))).toBe('1970-01-01T00:00:00.000Z')
})
