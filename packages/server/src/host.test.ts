import { describe, expect, test } from 'vitest'
import { nodeStopwatch } from './host.ts'

describe('the stopwatch of the machine', () => {
  test('counts work, and never more than went by', () => {
    const begunMs = performance.now()
    const workedMs = nodeStopwatch()
    while (workedMs() < 5) JSON.stringify({ a: 1 })
    expect(workedMs()).toBeLessThanOrEqual(performance.now() - begunMs)
  })

  test('does not count time in which nothing is done', () => {
    const workedMs = nodeStopwatch()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
    expect(workedMs()).toBeLessThan(150)
  })
})
