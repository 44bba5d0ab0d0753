import { describe, expect, test } from 'vitest'
import { instant, MAX_LOG_CHARACTERS, MAX_LOG_LINES } from '@curfew/core'
import { AttemptLog, JobLogs, logLine, type LogLines } from './job-log.ts'

const AT = instant(1_000)
const HOLD = { jobId: 'a', attempt: 1, lease: 7 }
const lines = (from: number, ...messages: string[]): LogLines => ({
  from,
  lines: messages.map((message) => logLine(AT, message)),
})
const numbered = (log: AttemptLog): (string | number)[] => {
  const unsent = log.unsent()
  return unsent === null ? [] : [unsent.from, ...unsent.lines.map(({ message }) => message)]
}

describe('a line', () => {
  test('has fields as JSON, with errors as their text', () => {
    const fields = { at: new Date(0), err: new TypeError('no'), left: undefined, list: [1, { a: null }] }
    expect(logLine(AT, 'sent', fields)).toEqual({
      at: AT,
      message: 'sent',
      fields: { at: '1970-01-01T00:00:00.000Z', err: 'TypeError: no', list: [1, { a: null }] },
    })
  })

  test('does not fail for fields that are not JSON: it says that it was cut', () => {
    const circle: Record<string, unknown> = {}
    circle['self'] = circle
    for (const fields of [circle, { n: 1n }, { toJSON: () => 'text' }, { run: () => 1 }])
      expect(logLine(AT, 'sent', fields)).toMatchObject({ message: 'sent', isCut: true })
    expect(logLine(AT, 'sent', null as never)).toMatchObject({ message: 'sent', isCut: true })
    expect(logLine(AT, 5 as never).message).toBe('5')
  })
})

describe('what an attempt has logged', () => {
  test('is kept until it is stored', () => {
    const log = new AttemptLog()
    log.add(lines(0, 'a', 'b', 'c'))
    log.stored(2)
    expect(numbered(log)).toEqual([2, 'c'])
    log.stored(1)
    log.stored(3)
    expect([numbered(log), log.next, log.length]).toEqual([[], 3, 0])
    log.add(lines(3, 'd'))
    expect(numbered(log)).toEqual([3, 'd'])
  })

  test('is bounded: the newest lines are kept, and the number of the first tells how many are gone', () => {
    const log = new AttemptLog()
    for (let n = 0; n < MAX_LOG_LINES + 5; n += 1) log.add(lines(n, String(n)))
    expect(numbered(log).slice(0, 2)).toEqual([5, '5'])
    const long = new AttemptLog()
    for (let n = 0; n < 50; n += 1) long.add(lines(n, 'x'.repeat(1_000)))
    expect(long.length).toBeLessThanOrEqual(MAX_LOG_CHARACTERS)
    expect([long.next, long.unsent()?.from]).toEqual([50, 50 - (long.unsent()?.lines.length ?? 0)])
  })

  test('goes on with a gap where an isolate had to leave lines out', () => {
    const log = new AttemptLog()
    log.add(lines(0, 'a'))
    log.add(lines(9, 'j'))
    expect(numbered(log)).toEqual([9, 'j'])
  })
})

describe('the logs of a worker', () => {
  function stage() {
    const told: unknown[] = []
    const logs = new JobLogs({
      logged: (key, { from }) => void told.push(['logged', key, from]),
      stored: (key, before) => void told.push(['stored', key, before]),
    })
    logs.isKept = true
    return { logs, told }
  }

  test('go along with the calls of their attempt, until one of these was answered', () => {
    const { logs, told } = stage()
    logs.add(HOLD, [logLine(AT, 'a')], 0)
    const { x_log: carried } = logs.takeAlong(HOLD)
    logs.add(HOLD, [logLine(AT, 'b')], 0)
    expect(carried).toMatchObject({ from: 0, lines: [{ message: 'a' }] })
    logs.arrived(HOLD, carried)
    expect(logs.takeAlong(HOLD)).toMatchObject({ x_log: { from: 1, lines: [{ message: 'b' }] } })
    expect(logs.takeAlong({ ...HOLD, lease: 8 })).toEqual({})
    expect(told).toEqual([
      ['logged', 'a#7', 0],
      ['logged', 'a#7', 1],
      ['stored', 'a#7', 1],
    ])
    logs.beaten('a#7', 2)
    expect(logs.takeAlong(HOLD)).toEqual({})
  })

  test('tell only how many lines there were where there is no room for them', () => {
    const { logs } = stage()
    logs.add(HOLD, [logLine(AT, 'a'), logLine(AT, 'b')], 0)
    expect(logs.takeAlong(HOLD, 10)).toEqual({ x_log: { from: 2, lines: [] } })
  })

  test('are forgotten with their attempt, and not kept at all for a server that does not store them', () => {
    const { logs, told } = stage()
    logs.add(HOLD, [logLine(AT, 'a')], 0)
    logs.forget('a#7')
    expect(logs.takeAlong(HOLD)).toEqual({})
    logs.isKept = false
    logs.add(HOLD, [logLine(AT, 'b')], 0)
    expect([logs.takeAlong(HOLD), told.length]).toEqual([{}, 1])
  })
})
