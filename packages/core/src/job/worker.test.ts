import { describe, expect, test } from 'vitest'
import { aWorker } from '../builders.suite.ts'
import { instant, seconds } from '../time/clock.ts'
import { desiredState, DIRECTIVES, directiveAfter, isGhost, shownDirective, WORKER_STATES } from './worker.ts'

describe('the state a worker should be in', () => {
  test.each([
    ['continue', ['running', 'quiet', 'terminate']],
    ['resume', ['running', 'running', 'terminate']],
    ['quiet', ['quiet', 'quiet', 'terminate']],
    ['terminate', ['terminate', 'terminate', 'terminate']],
    ['left', ['terminate', 'terminate', 'terminate']],
  ] as const)('after %s follows from what it reports', (directive, expected) => {
    expect(WORKER_STATES.map((reported) => desiredState(directive, reported))).toEqual(expected)
  })

  test('a resume is over when the worker has reported running, and is shown as continue', () => {
    expect(WORKER_STATES.map((reported) => directiveAfter('resume', reported))).toEqual([
      'continue',
      'resume',
      'resume',
    ])
    expect(shownDirective('resume')).toBe('continue')
    for (const directive of DIRECTIVES.filter((word) => word !== 'resume')) {
      expect(directiveAfter(directive, 'running')).toBe(directive)
      expect(shownDirective(directive)).toBe(directive)
    }
  })
})

describe('a call of a worker that has left', () => {
  const timeout = seconds(30)
  const left = aWorker({ directive: 'left', diedAt: instant(0), beatSeq: 5 })

  test('is late by its number, whenever it comes', () => {
    expect([4, 5, 6].map((seq) => isGhost(left, seq, timeout, instant(1_000_000)))).toEqual([true, true, false])
  })

  test('is late by its time where a number is missing', () => {
    const late = (worker: typeof left, seq: number | null): boolean[] =>
      [29_999, 30_000].map((ms) => isGhost(worker, seq, timeout, instant(ms)))
    expect(late(left, null)).toEqual([true, false])
    expect(late({ ...left, beatSeq: null }, 4)).toEqual([true, false])
  })

  test('is not late when the worker died, or lives', () => {
    for (const directive of ['continue', 'quiet', 'terminate'] as const) {
      expect(isGhost({ ...left, directive }, 1, timeout, instant(1))).toBe(false)
      expect(isGhost({ ...left, directive, diedAt: null }, 1, timeout, instant(1))).toBe(false)
    }
  })
})
