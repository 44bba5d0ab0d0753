/** A job that its worker hands back until a moment. */
import { describe, expect, test } from 'vitest'
import { activeJob, at, claimed, errorsOf, later, livenessOf, moment, typesOf } from '../../builders.suite.ts'
import type { OjsError } from '../../errors.ts'
import { readLife } from '../../wire/job/life.ts'
import { isSpent } from '../retry.ts'
import { expire } from './expire.ts'
import { snooze } from './report.ts'

const now = at('12:00:05')
const until = at('12:10:00')
const moved = moment(now)
const asleep = { type: 'sleep', message: 'cool-down' }

describe('a hand-back until a moment', () => {
  test('waits until then, is refunded and counted, and says why without being a failure', () => {
    const { job, ...step } = snooze(activeJob({ retry: { maxAttempts: 1 } }), asleep, until, '"a":1', moved)
    expect(job).toMatchObject({
      state: 'scheduled',
      scheduledAt: until,
      wakeAt: until,
      given: '"a":1',
      attempt: 1,
      interruptions: 1,
      hold: null,
      error: null,
      closedBy: { workerId: 'w1', attempt: 1, lease: 1 },
    })
    expect(isSpent(job)).toBe(false)
    expect(errorsOf(job)).toMatchObject([{ type: 'sleep', interrupted: true }])
    expect(readLife(job).at(-1)).toMatchObject({ to: 'scheduled', back: true, why: 'sleep' })
    expect(typesOf(step)).toEqual(['job.interrupted', 'job.scheduled'])
  })

  test('is available when the moment comes, not a millisecond before, and its next attempt is its first', () => {
    const { job } = snooze(activeJob({ retry: { maxAttempts: 1 } }), asleep, until, '', moved)
    const life = livenessOf(null)
    expect(expire(job, life, moment(later(until, -1)))).toBeNull()
    const ready = expire(job, life, moment(until))?.job
    expect(ready).toMatchObject({ state: 'available' })
    if (ready === null || ready === undefined) throw new Error('it is gone')
    expect(claimed(ready, { claimedAt: until })).toMatchObject({ attempt: 2, interruptions: 1 })
  })

  test('of a moment that has come is available at once', () => {
    expect(snooze(activeJob(), asleep, now, '', moved).job).toMatchObject({ state: 'available', interruptions: 1 })
  })

  test('does not stretch the total: that ends the job as it sleeps', () => {
    const { job } = snooze(activeJob({ totalMs: 601_000 }), asleep, until, '', moved)
    expect(job.wakeAt).toBe(until)
    const cut = { ...job, limits: activeJob({ totalMs: 300_000 }).limits }
    const ended = expire({ ...cut, wakeAt: at('12:05:00') }, livenessOf(null), moment(at('12:05:00')))?.job
    expect(ended).toMatchObject({ state: 'discarded' })
  })

  test.each([600_000, 300_000])('until a total deadline or after it is refused: %i ms', (totalMs) => {
    const refusal = (): unknown => snooze(activeJob({ totalMs }), asleep, until, '', moved)
    expect(refusal).toThrow(
      expect.objectContaining({
        code: 'validation_error',
        details: expect.objectContaining({ field: 'x_not_before' }),
      }) as OjsError,
    )
  })
})
