/** Signs of life: progress, checkpoints and what a beat leaves behind; and the record of a life. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  aJob,
  activeJob,
  at,
  beating,
  dataOf,
  later,
  livenessOf,
  moment,
  ms,
  NOON,
  typesOf,
} from '../../builders.suite.ts'
import { instant } from '../../time/clock.ts'
import { executionAt, totalAt } from '../deadlines.ts'
import { ROW_ALONE, stallAt, visibilityAt } from '../liveness.ts'
import { JOB_STATES, type Job } from '../job.ts'
import { KEPT_ENTRIES, type LifeEntry } from '../life.ts'
import { appendLife, beginLife, readLife } from '../../wire/job/life.ts'
import { absorbBeat, complete, reportProgress, signOfLife, wokenInTime, type ProgressReport } from './report.ts'
import type { Step } from './transition.ts'

const now = at('12:00:05')

describe('a sign of life', () => {
  const job = activeJob({ heartbeatMs: 10_000, visibilityMs: 20_000, totalMs: 60_000 })

  test('resets the stall clock and the reservation, and nothing else', () => {
    const spoken = signOfLife(job, now)
    expect([stallAt(spoken, ROW_ALONE), visibilityAt(spoken, ROW_ALONE)]).toEqual([at('12:00:15'), at('12:00:25')])
    expect([executionAt(spoken), totalAt(spoken), spoken.startedAt]).toEqual([
      executionAt(job),
      totalAt(job),
      job.startedAt,
    ])
  })

  test('costs no index change: the earlier wakeAt stays and will find the renewed clock', () => {
    expect(signOfLife(job, now).wakeAt).toBe(job.wakeAt)
  })

  test('arms the row sooner where a beat had asked for a longer reservation than the job has', () => {
    const extended = absorbBeat(
      activeJob({ known: false, visibilityMs: 1_000 }),
      beating(at('12:00:00.500'), { visibilityMs: ms(9_000) }),
    )
    const rearmed = { ...extended, wakeAt: visibilityAt(extended, ROW_ALONE) }
    expect(rearmed.wakeAt).toBe(at('12:00:09.500'))
    expect(signOfLife(rearmed, now).wakeAt).toBe(at('12:00:06'))
  })

  test('means nothing for a job without a reservation', () => {
    const waiting = aJob()
    expect(signOfLife(waiting, now)).toBe(waiting)
  })
})

describe('a beat that asks for a shorter reservation', () => {
  const job = activeJob({ known: false })
  const short = livenessOf(beating(now, { visibilityMs: ms(2_000) }))

  test('wakes the row in time for it', () => {
    expect(job.wakeAt).toBeGreaterThan(at('12:00:07'))
    expect(wokenInTime(job, short).wakeAt).toBe(at('12:00:07'))
  })

  test('never puts off what is armed already', () => {
    const soon = { ...job, wakeAt: at('12:00:06') }
    expect(wokenInTime(soon, short)).toEqual(soon)
  })
})

describe('a job its worker no longer lists', () => {
  const job = activeJob({ heartbeatMs: 10_000, visibilityMs: 20_000 })

  test('keeps what the last beat that listed it had said', () => {
    const kept = absorbBeat(job, beating(now, { visibilityMs: ms(3_000) }))
    expect(kept.hold).toMatchObject({ signAt: now, visibleFrom: now, visibleMs: 3_000 })
    expect([stallAt(kept, ROW_ALONE), visibilityAt(kept, ROW_ALONE)]).toEqual([at('12:00:15'), at('12:00:08')])
    expect(kept.wakeAt).toBe(at('12:00:08'))
  })

  test('is unchanged where the beat did not speak of it', () => {
    expect(absorbBeat(job, beating(now, { jobs: [] }))).toEqual(job)
    expect(absorbBeat(aJob(), beating(now))).toEqual(aJob())
  })
})

describe('progress', () => {
  const report = (job: Job, value: number | null, when = now, more: Partial<ProgressReport> = {}): Step =>
    reportProgress(job, { value, message: null, data: null, ...more }, when)

  test.each([
    [-0.5, 0],
    [0, 0],
    [0.25, 0.25],
    [1, 1],
    [7, 1],
  ])('of %d is taken as %d, never refused', (sent, kept) => {
    expect(report(activeJob(), sent).job.progress?.value).toBe(kept)
  })

  test('never goes back, but message and data are replaced', () => {
    const first = report(activeJob(), 0.6, now, { message: 'a', data: '1' }).job
    const second = report(first, 0.4, later(now, 1), { message: 'b', data: '2' }).job
    expect(second.progress).toMatchObject({ value: 0.6, message: 'b', data: '2', updatedAt: later(now, 1) })
  })

  test('without a number keeps the number, without a message keeps the message', () => {
    const first = report(activeJob(), 0.6, now, { message: 'a', data: '1' }).job
    expect(report(first, null).job.progress).toMatchObject({ value: 0.6, message: 'a', data: '1' })
    expect(report(activeJob(), null, now, { message: 'only' }).job.progress).toMatchObject({
      value: null,
      message: 'only',
    })
  })

  test('is a sign of life', () => {
    const job = report(activeJob({ heartbeatMs: 10_000, visibilityMs: 20_000 }), 0.1).job
    expect([stallAt(job, ROW_ALONE), visibilityAt(job, ROW_ALONE)]).toEqual([at('12:00:15'), at('12:00:25')])
  })

  test('emits at most one event a second, but every report is kept', () => {
    const first = report(activeJob(), 0.1)
    const second = report(first.job, 0.2, later(now, 999))
    const third = report(second.job, 0.3, later(now, 1000))
    expect([first, second, third].map(typesOf)).toEqual([['job.progress'], [], ['job.progress']])
    expect(second.job.progress?.value).toBe(0.2)
    expect(dataOf(third, 'job.progress')).toMatchObject({
      worker_id: 'w1',
      attempt: 1,
      progress_percent: 30,
      progress_message: null,
    })
  })

  test('stays between 0 and 1 and only ever grows, whatever is reported', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.double({ noNaN: true })), { minLength: 1 }), (values) => {
        let job = activeJob()
        let before = 0
        for (const [index, value] of values.entries()) {
          job = report(job, value, later(now, index)).job
          const kept = job.progress?.value ?? 0
          expect(kept).toBeGreaterThanOrEqual(before)
          expect(kept).toBeLessThanOrEqual(1)
          before = kept
        }
        expect(complete(job, null, moment(later(now, 9999))).job.progress?.value).toBe(1)
      }),
    )
  })
})

describe('the recorded life', () => {
  const entry = (index: number): LifeEntry => ({
    at: instant(NOON + index),
    to: index % 2 === 0 ? 'available' : 'active',
    attempt: index,
  })

  test.each([1, 300])('is bounded: the beginning and the latest entries stay (worker names of %d)', (length) => {
    const wide = (index: number): LifeEntry => ({ ...entry(index), worker: 'w'.repeat(length) })
    let life = ''
    for (let index = 0; index < 600; index += 1) life = appendLife(life, wide(index))
    const [first, ...rest] = readLife({ ...aJob(), life })
    expect(first).toEqual(wide(0))
    expect(rest).toEqual(Array.from({ length: rest.length }, (_, index) => wide(600 - rest.length + index)))
    expect(rest.length).toBeGreaterThanOrEqual(KEPT_ENTRIES - 1)
    expect(life.length < 20_000 || rest.length === KEPT_ENTRIES - 1).toBe(true)
  })

  test.each(JOB_STATES)('begins with an entry like any other: %s', (to) => {
    expect(beginLife(NOON, to)).toBe(appendLife('', { at: NOON, to }))
  })

  test('of an ordinary job is kept whole', () => {
    let life = ''
    for (let index = 0; index < 100; index += 1) life = appendLife(life, entry(index))
    expect(readLife({ ...aJob(), life })).toEqual(Array.from({ length: 100 }, (_, index) => entry(index)))
  })

  test('marks where the handler was asked to stop, when the attempt lived beyond that', () => {
    const job = activeJob({ timeoutMs: 4_000, graceMs: 5_000 })
    expect(readLife(complete(job, null, moment(now)).job).at(-1)).toEqual({
      at: now,
      to: 'completed',
      soft: at('12:00:04'),
    })
    expect(readLife(complete(job, null, moment(at('12:00:04'))).job).at(-1)).toEqual({
      at: at('12:00:04'),
      to: 'completed',
    })
  })

  test('tells the terms of each attempt', () => {
    const job = activeJob({ timeoutMs: 4_000, claimedAt: now, known: false })
    expect(readLife(job)).toEqual([
      { at: NOON, to: 'available' },
      { at: now, to: 'active', attempt: 1, worker: 'w1', timeout: [4_000, 'publish'], grace: [0, 'default'] },
    ])
  })
})
