import { expect, test } from 'vitest'
import { journeyEnded, journeyStarted } from './journey-events.ts'
import { anEnd, anEndedRun, aRun, aVisit, later, RUN_ID } from '../journey/run/runs.suite.ts'

test('tells of a run that started until when it may go on, and who said so', () => {
  expect(journeyStarted(aRun())).toEqual({
    type: 'journey.started',
    at: later(0),
    subject: RUN_ID,
    queue: null,
    jobType: null,
    data: {
      journey_id: RUN_ID,
      journey_name: 'order-screening',
      journey_version: '1.0.0',
      kind: 'Journey',
      deadline: new Date(later(30_000)).toISOString(),
      limited_by: 'spec',
    },
  })
})

test('tells of a compensation what it cleans up after', () => {
  const run = aRun({ kind: 'Compensation', compensates: { id: 'the-other', end: anEnd('Timeout') } })
  expect(journeyStarted(run).data).toMatchObject({ kind: 'Compensation', compensates: 'the-other' })
})

test.each([
  ['Success', 'journey.completed'],
  ['Fail', 'journey.failed'],
  ['RuntimeError', 'journey.failed'],
  ['Timeout', 'journey.timeout'],
  ['Cancel', 'journey.cancelled'],
] as const)('an ending by %s emits %s', (kind, type) => {
  expect(journeyEnded(anEndedRun(kind, 1_000))).toMatchObject({ type, data: { termination_kind: kind } })
})

test('tells how, where and how late a run ended, but not what it worked on', () => {
  const end = anEnd('Timeout', { terminatedAtState: 'checks/risk/score', output: { secret: 1 } })
  const run = anEndedRun('Timeout', 30_004, {
    end,
    overshootMs: 4 as never,
    trail: [aVisit('checks/risk/score', 'task', 9, null)],
  })
  expect(journeyEnded(run)).toMatchObject({
    at: later(30_004),
    data: {
      phase: 'FAILED',
      status: 'ORDER_TIMEOUT',
      terminated_at_state: 'checks/risk/score',
      at_state_type: 'task',
      error: { code: 'ORDER_TIMEOUT' },
      duration_ms: 30_004,
      margin_ms: 0,
      overshoot_ms: 4,
    },
  })
  expect(JSON.stringify(journeyEnded(run))).not.toContain('secret')
})

test('says of a run that ended in time nothing of a delay', () => {
  expect(journeyEnded(anEndedRun('Success', 1_000)).data).not.toHaveProperty('overshoot_ms')
})
