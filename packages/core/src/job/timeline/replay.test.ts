import { expect, test } from 'vitest'
import { activeJob, later, left, moment, NOON } from '../../builders.suite.ts'
import { expire } from '../lifecycle/expire.ts'
import { ROW_ALONE } from '../liveness.ts'
import { asOf } from './replay.ts'
import { timeline } from './timeline.ts'

test('a replay shows what had happened by then as past, and everything after it as to come', () => {
  const running = activeJob({ timeoutMs: 3_000, graceMs: 1_000, retry: { maxAttempts: 1 } })
  const ended = later(NOON, 4_000)
  const job = left(expire(running, ROW_ALONE, moment(ended)))
  const whole = timeline({ job, life: ROW_ALONE, signs: null, checkpointAt: null, queue: null, isHeld: false }, ended)
  const shown = (ms: number): unknown => {
    const [life] = asOf(whole, later(NOON, ms)).lanes
    return life?.spans
      .filter(({ from, to }) => to > from)
      .map(({ kind, from, to, isFuture }) => [kind, from - NOON, to - NOON, isFuture])
  }
  expect(shown(1_000)).toEqual([
    ['attempt', 0, 1_000, false],
    ['attempt', 1_000, 3_000, true],
    ['grace', 3_000, 4_000, true],
  ])
  expect(shown(3_500)).toEqual([
    ['attempt', 0, 3_000, false],
    ['grace', 3_000, 3_500, false],
    ['grace', 3_500, 4_000, true],
  ])
  const early = asOf(whole, later(NOON, 1_000))
  expect([early.now - NOON, early.sentence]).toEqual([1_000, 'At this moment: an attempt runs.'])
  expect(asOf(whole, later(NOON, 3_500)).sentence).toBe('At this moment: the handler was asked to stop.')
  const ends = early.lanes.flatMap(({ marks }) => marks).filter(({ kind }) => kind === 'ended')
  expect(ends.length).toBeGreaterThan(0)
  expect(ends.every(({ isFuture }) => isFuture)).toBe(true)
})
