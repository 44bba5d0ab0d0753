import { describe, expect, test } from 'vitest'
import { ANY_JOB, lastWorker, matches, meansAll, type JobFilter } from './job-filter.ts'
import {
  cursorOf,
  cursorText,
  readCursor,
  readDeadLetterFilter,
  readJobFilter,
  readJobQuery,
} from '../wire/job/job-filter.ts'
import { errorKeys, tagKeys } from '../wire/job/job-keys.ts'
import { instant } from '../time/clock.ts'
import type { Job } from './job.ts'

const query = (text: string): JobFilter => {
  const parameters = new URLSearchParams(text)
  return readJobQuery((name) => parameters.get(name))
}

describe('a filter', () => {
  test('is read from a JSON object and from a query alike', () => {
    const both: [object, string][] = [
      [{}, ''],
      [{ error_type: 'timeout', timeout_kind: 'total' }, 'error_type=timeout&timeout_kind=total'],
      [{ tag: 'a', worker: 'w', queue: 'q', type: 't' }, 'tag=a&worker=w&queue=q&type=t'],
      [{ state: ['active', 'retryable'], priority: -5 }, 'state=active,retryable&priority=-5'],
      [{ state: 'active', meta: { a: [1, { b: null }] } }, 'state=active&meta={"a":[1,{"b":null}]}'],
      [
        { created_after: '2026-01-01T00:00:00Z', ended_before: '2026-01-02T00:00:00Z' },
        'created_after=2026-01-01T00:00:00Z&ended_before=2026-01-02T00:00:00Z',
      ],
      [
        { since: '2026-01-01T00:00:00Z', enqueued_after: '2026-01-02T00:00:00Z' },
        'since=2026-01-01T00:00:00Z&enqueued_after=2026-01-02T00:00:00Z',
      ],
    ]
    for (const [object, text] of both) expect(query(text)).toEqual(readJobFilter(object))
  })

  test('takes the narrower of two names for one bound', () => {
    const [early, late] = ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']
    const { created } = readJobFilter({ created_after: early, since: late, created_before: late, until: early })
    expect(created).toEqual({ after: Date.parse(late), before: Date.parse(early) })
    expect(readJobFilter({ created_after: late, since: early }).created.after).toBe(Date.parse(late))
    expect(readDeadLetterFilter({ since: early, ended_after: late }).ended.after).toBe(Date.parse(late))
    expect(readDeadLetterFilter({ created_before: late }).created.before).toBe(Date.parse(late))
  })

  test('means all jobs only if it names nothing', () => {
    expect(meansAll(readJobFilter({}))).toBe(true)
    const time = '2026-01-01T00:00:00Z'
    const named = {
      queue: 'a',
      type: 'a',
      state: 'active',
      priority: 0,
      error_type: 'a',
      timeout_kind: 'total',
      tag: 'a',
      worker: 'a',
      meta: { a: null },
      created_after: time,
      created_before: time,
      enqueued_after: time,
      enqueued_before: time,
      ended_after: time,
      ended_before: time,
      since: time,
      until: time,
    }
    for (const [name, value] of Object.entries(named))
      expect([name, meansAll(readJobFilter({ [name]: value }))]).toEqual([name, false])
  })
})

const job = (given: Partial<Job>): Job =>
  ({
    hold: null,
    closedBy: null,
    lease: 0,
    life: '',
    error: null,
    body: '',
    completedAt: null,
    cancelledAt: null,
    discardedAt: null,
    ...given,
  }) as Job

test('what ended at no time is at no time before or after', () => {
  const before = { ...ANY_JOB, ended: { after: null, before: instant(9) } }
  expect(matches(before, job({}))).toBe(false)
  expect(matches(before, job({ cancelledAt: instant(8) }))).toBe(true)
  expect(matches(before, job({ discardedAt: instant(9) }))).toBe(false)
})

test('the last worker is that of the reservation, of the last report, or of the last attempt', () => {
  const life =
    '{"at":1,"to":"active","worker":"a"},{"at":2,"to":"retryable"},{"at":3,"to":"active","worker":"b"},{"at":4,"to":"discarded"}'
  expect(lastWorker(job({ lease: 2, life }))).toBe('b')
  expect(lastWorker(job({ lease: 2, life, closedBy: { workerId: 'c', attempt: 1, lease: 2 } }))).toBe('c')
  expect(lastWorker(job({ lease: 0, life }))).toBeNull()
  expect(lastWorker(job({ lease: 1, life: '{"at":1,"to":"active","worker":null}' }))).toBeNull()
})

test('tags are those of the job, not of its arguments or metadata', () => {
  expect(tagKeys(job({ body: '"args":[{"tags":["x"]}],"meta":{"tags":["y"]}' }))).toEqual([])
  expect(tagKeys(job({ body: '"args":["\\"tags\\":[1]"],"tags":["a","b","a"]' }))).toEqual(['a', 'b'])
})

test('an error is known by its type and the limit it names', () => {
  expect(errorKeys(job({}))).toEqual({ type: null, kind: null })
  expect(errorKeys(job({ error: '{"type":"x","timeout_kind":"other"}' }))).toEqual({ type: 'x', kind: null })
  expect(errorKeys(job({ error: '{"type":"timeout","timeout_kind":"stalled"}' }))).toEqual({
    type: 'timeout',
    kind: 'stalled',
  })
})

test('a cursor fits only lists in its own order', () => {
  const id = '01890000-0000-7000-8000-000000000000'
  const timed = { ...ANY_JOB, created: { after: instant(0), before: null } }
  expect(cursorOf(cursorText({ id, at: null }))).toEqual({ id, at: null })
  expect(cursorOf(cursorText({ id, at: instant(5) }))).toEqual({ id, at: 5 })
  expect(readCursor(id, ANY_JOB)).toBe(id)
  expect(readCursor(`5.${id}`, timed)).toBe(`5.${id}`)
  for (const [cursor, filter] of [
    [`5.${id}`, ANY_JOB],
    [id, timed],
    ['5.nope', timed],
    ['', ANY_JOB],
  ] as const) {
    expect(() => readCursor(cursor, filter)).toThrow('cursor must be a next_cursor')
  }
})
