import { describe, expect, test } from 'vitest'
import { instant, millis } from '@curfew/core'
import type { Stop } from './facts.ts'
import { reportOf, type AnyEnding, type Report } from './report.ts'
import type { Terms } from './terms.ts'

const HOLD = { jobId: 'a', attempt: 2, lease: 7 }
const DEADLINE: Stop & { why: 'deadline' } = { why: 'deadline', kind: 'execution', limitMs: 1_500, source: 'handler' }
const TERMS: Terms = {
  startedAt: instant(0),
  softAt: instant(1_500),
  softStop: DEADLINE,
  hardAt: instant(2_000),
  killAt: instant(1_900),
  graceMs: millis(500),
  stallMs: null,
  visibilityMs: null,
}
const RETURNED: AnyEnding = { kind: 'returned', result: 'r' }
const THREW: AnyEnding = {
  kind: 'threw',
  error: { name: 'TypeError', message: 'no', stack: 'TypeError: no\n    at x (y:1:1)' },
}
const KILLED: AnyEnding = { kind: 'killed', stop: DEADLINE, stack: ['at spin (spin.ts:4:3)'] }
const ABANDONED: AnyEnding = { kind: 'abandoned' }

const report = (stop: Stop | null, ending: AnyEnding, now = 1_600): Report | null =>
  reportOf(HOLD, TERMS, stop, ending, instant(now))

describe('how an ending is reported', () => {
  test('a result is a success, within the grace too', () => {
    expect(report(null, RETURNED, 100)).toEqual({ kind: 'ack', hold: HOLD, result: 'r' })
    expect(report(DEADLINE, RETURNED, 1_999)).toMatchObject({ kind: 'ack' })
    expect(report({ why: 'shutdown' }, RETURNED, 100)).toMatchObject({ kind: 'ack' })
  })

  test('a result in the very millisecond of the hard deadline is late, and dropped', () => {
    expect(report(DEADLINE, RETURNED, 2_000)).toBeNull()
  })

  test('a thrown error keeps its name, its message and where it came from', () => {
    expect(report(null, THREW)).toMatchObject({
      kind: 'nack',
      requeue: false,
      error: { type: 'TypeError', message: 'no', backtrace: ['    at x (y:1:1)'] },
    })
  })

  test.each([
    ['thrown', THREW],
    ['killed', KILLED],
    ['abandoned', ABANDONED],
  ])('after the deadline it is a timeout: %s', (_how, ending) => {
    expect(report(DEADLINE, ending)).toMatchObject({
      kind: 'nack',
      requeue: false,
      error: { type: 'timeout', timeout_kind: 'execution', limit_seconds: 1.5, elapsed_seconds: 1 },
    })
  })

  test('a killed handler is reported with the place where it was stuck', () => {
    expect(report(DEADLINE, KILLED)).toMatchObject({ error: { backtrace: ['at spin (spin.ts:4:3)'] } })
  })

  test('an isolate that was still starting at the deadline is reported as that, and not as a handler that was killed', () => {
    const ending: AnyEnding = { kind: 'not_begun', stop: DEADLINE, stack: ['at load (m.ts:1:1)'], startMs: 1_600 }
    expect(report(DEADLINE, ending)).toMatchObject({
      requeue: false,
      error: {
        type: 'timeout',
        message: 'Timed out after 1.5s (the isolate was still starting; the handler had not begun).',
        details: { ended: 'not_begun', isolate_start_ms: 1_600 },
        backtrace: ['at load (m.ts:1:1)'],
      },
    })
    expect(report({ why: 'shutdown' }, ending)).toMatchObject({ requeue: true })
    expect(report({ why: 'lost' }, ending)).toMatchObject({ requeue: true })
    expect(report({ why: 'cancelled' }, ending)).toBeNull()
  })

  test.each([
    ['killed', KILLED],
    ['threw', THREW],
    ['died', { ...THREW, kind: 'died' }],
  ] as [string, AnyEnding][])('a timeout tells how long the isolate took to start: %s', (_kind, ending) => {
    const started = { ...ending, startMs: 240 } as AnyEnding
    expect(report(DEADLINE, started)).toMatchObject({ error: { details: { isolate_start_ms: 240 } } })
    expect(report(DEADLINE, ending)).not.toHaveProperty('error.details.isolate_start_ms')
  })

  test('what a shutdown cut off is handed back once it has stopped for certain', () => {
    expect(report({ why: 'shutdown' }, ABANDONED)).toBeNull()
    for (const ending of [THREW, KILLED])
      expect(report({ why: 'shutdown' }, ending)).toMatchObject({ requeue: true, error: { type: 'shutdown' } })
  })

  test('whether the result of a lost attempt still counts is for the server to say', () => {
    expect(report({ why: 'lost' }, RETURNED, 100)).toMatchObject({ kind: 'ack' })
  })

  test('of a cancelled job nothing is reported', () => {
    for (const ending of [RETURNED, THREW, KILLED, ABANDONED]) expect(report({ why: 'cancelled' }, ending)).toBeNull()
  })

  test('a lost job is handed back only when its handler has stopped for certain', () => {
    expect(report({ why: 'lost' }, THREW)).toMatchObject({ requeue: true, error: { type: 'lost_lease' } })
    expect(report({ why: 'lost' }, KILLED)).toMatchObject({ requeue: true })
    expect(report({ why: 'lost' }, ABANDONED)).toBeNull()
  })
})
