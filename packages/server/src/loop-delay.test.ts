import { FakeClock } from '@curfew/core'
import { expect, test } from 'vitest'
import { createHistogram } from 'node:perf_hooks'
import { LoopDelay } from './loop-delay.ts'

function watched(utilization: () => number) {
  const clock = new FakeClock()
  let timers = 0
  const late = { ms: 0 }
  const host = {
    monotonicMs: () => clock.monotonicMs() + late.ms,
    setTimer: (ms: number, fire: () => void) => {
      timers += 1
      return clock.setTimer(ms, fire)
    },
  }
  const delay = new LoopDelay(host, createHistogram(), utilization)
  return { clock, delay, late, timers: () => timers }
}

/** So that each timer fires at its own time. */
function pass(clock: FakeClock, ms: number): void {
  for (let left = ms; left > 0; left -= 10) clock.advance(10)
}

test('an idle event loop is woken about once a second, a busy one a hundred times', () => {
  const idle = watched(() => 0)
  pass(idle.clock, 60_000)
  expect(idle.timers()).toBeLessThan(70)
  const busy = watched(() => 0.5)
  pass(busy.clock, 1_000)
  expect(busy.timers()).toBeGreaterThan(95)
})

test('the delay is how much later than its time the timer fired', () => {
  const { clock, delay, late } = watched(() => 0.5)
  expect(delay.seconds(1)).toBe(0)
  late.ms = 250
  clock.advance(10)
  expect(delay.seconds(1)).toBeCloseTo(0.25, 2)
  delay.reset()
  pass(clock, 100)
  expect(delay.seconds(1)).toBeLessThan(0.001)
  delay.stop()
})
