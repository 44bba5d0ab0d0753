import { FakeClock, type Timer } from '@curfew/core'
import { expect, test } from 'vitest'
import { timerAt } from './timer-at.ts'

/** Its timers reach no further than a second. */
class WeakClock extends FakeClock {
  override setTimer(ms: number, fire: () => void): Timer {
    return super.setTimer(Math.min(ms, 1_000), fire)
  }
}

test('fires at its instant even when the machine fires early or cannot reach that far', () => {
  const clock = new WeakClock(0)
  const fired: number[] = []
  timerAt(clock, 2_500.5, () => fired.push(clock.monotonicMs()))
  clock.advance(2_500)
  expect(fired).toEqual([])
  clock.advance(1)
  expect(fired).toEqual([2_500.5])
})

test('fires no more once it is cancelled, also after it was set again', () => {
  const clock = new WeakClock(0)
  const fired: number[] = []
  const timer = timerAt(clock, 2_500, () => fired.push(clock.monotonicMs()))
  clock.advance(1_500)
  timer.cancel()
  clock.advance(5_000)
  expect(fired).toEqual([])
  expect(clock.nextTimerAt()).toBeNull()
})
