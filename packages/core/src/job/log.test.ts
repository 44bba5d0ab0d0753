import { describe, expect, test } from 'vitest'
import { activeJob, NOON } from '../builders.suite.ts'
import { instant, millis } from '../time/clock.ts'
import { after, before } from '../time/sums.ts'
import { logView, MAX_LOG_CHARACTERS, MAX_LOG_LINES, withLog, type LogBatch, type SentLine } from './log.ts'
import type { Job } from './job.ts'

const now = after(NOON, millis(60_000))
const line = (message: string, more: Partial<SentLine> = {}): SentLine => ({ at: null, message, ...more })
const batch = (from: number | null, ...messages: string[]): LogBatch => ({
  from,
  lines: messages.map((message) => line(message)),
})
const messages = ({ log }: Job): string[] | undefined => log?.lines.map(({ message }) => message)
const many = (count: number): string[] => Array.from({ length: count }, (_, index) => `line ${String(index)}`)

describe('the log of a job', () => {
  test('is not there until something is logged, and a job that did not log stays the same record', () => {
    const job = activeJob()
    expect(withLog(job, null, now)).toBe(job)
    expect(withLog(job, batch(0), now)).toBe(job)
    expect(job).not.toHaveProperty('log')
  })

  test('keeps a line once, however often it arrives', () => {
    const once = withLog(activeJob(), batch(0, 'a', 'b'), now)
    expect(withLog(once, batch(0, 'a', 'b'), now)).toBe(once)
    const twice = withLog(once, batch(1, 'b', 'c'), now)
    expect([messages(twice), twice.log?.dropped]).toEqual([['a', 'b', 'c'], 0])
  })

  test('counts lines that never arrived', () => {
    const first = withLog(activeJob(), batch(0, 'a'), now)
    const later = withLog(first, batch(5, 'f'), now)
    expect([messages(later), later.log?.dropped]).toEqual([['a', 'f'], 4])
    // A call without room for lines tells only how many there were.
    expect(withLog(later, batch(9), now).log).toMatchObject({ dropped: 7, next: 9 })
  })

  test('takes lines without a number as new', () => {
    const job = withLog(withLog(activeJob(), batch(null, 'a'), now), batch(null, 'a'), now)
    expect(messages(job)).toEqual(['a', 'a'])
  })

  test('goes on with the next attempt, whose lines are numbered anew', () => {
    const first = withLog(activeJob(), batch(0, 'a', 'b'), now)
    const next: Job = { ...first, lease: first.lease + 1, attempt: first.attempt + 1 }
    const second = withLog(next, batch(0, 'c'), now)
    expect(second.log?.lines.map(({ attempt, message }) => [message, attempt])).toEqual([
      ['a', first.attempt],
      ['b', first.attempt],
      ['c', next.attempt],
    ])
    expect(second.log?.dropped).toBe(0)
  })

  test('keeps the newest lines, and says how many older ones are gone', () => {
    const job = withLog(withLog(activeJob(), batch(0, ...many(80)), now), batch(80, ...many(80)), now)
    expect([job.log?.lines.length, job.log?.dropped]).toEqual([MAX_LOG_LINES, 60])
    expect(messages(job)?.at(-1)).toBe('line 79')
    const flood = withLog(activeJob(), batch(0, ...many(5_000)), now)
    expect([flood.log?.lines.length, flood.log?.dropped, flood.log?.next]).toEqual([MAX_LOG_LINES, 4_900, 5_000])
  })

  test('is bounded in total, and each line by itself: what is cut says so', () => {
    const long = '\u0001'.repeat(5_000)
    const fields = { long }
    const lines = Array.from({ length: 50 }, () => line(long, { fields }))
    const { log } = withLog(activeJob(), { from: 0, lines }, now)
    expect(JSON.stringify(log?.lines).length).toBeLessThanOrEqual(MAX_LOG_CHARACTERS + 100)
    expect(log?.lines.length).toBeGreaterThan(0)
    expect(
      log?.lines.every(({ message, fields: kept, isCut }) => message.length === 1_000 && kept === undefined && isCut),
    ).toBe(true)
    expect((log?.lines.length ?? 0) + (log?.dropped ?? 0)).toBe(50)
    const { log: short } = withLog(
      activeJob(),
      { from: 0, lines: [line('x'.repeat(1_000), { fields: { a: 1 } })] },
      now,
    )
    expect(short?.lines[0]).not.toHaveProperty('isCut')
    expect(short?.lines[0]?.fields).toEqual({ a: 1 })
  })

  test('a clock of a worker puts no line before its attempt or into the future', () => {
    const job = activeJob()
    const startedAt = job.startedAt ?? instant(0)
    const [early, late] = [before(startedAt, millis(9)), after(now, millis(9))]
    const lines = [line('early', { at: early }), line('late', { at: late }), line('none')]
    expect(withLog(job, { from: 0, lines }, now).log?.lines.map(({ at }) => at)).toEqual([startedAt, now, now])
  })

  test('is shown with times, attempts and the number of lines that are gone', () => {
    const { log } = withLog(activeJob(), { from: 2, lines: [line('a', { fields: { n: 1 }, isCut: true })] }, now)
    expect(log === undefined ? null : logView(log)).toEqual({
      lines: [{ at: new Date(now).toISOString(), attempt: 1, message: 'a', fields: { n: 1 }, cut: true }],
      dropped: 2,
    })
  })
})
