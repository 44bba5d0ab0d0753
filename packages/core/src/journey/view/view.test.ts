import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seconds } from '../../time/clock.ts'
import { aFrame, anEnd, anEndedRun, aRun, later, openStep, ready, RUN_ID } from '../run/runs.suite.ts'
import {
  businessStatus,
  OUTCOME_MEMBERS,
  outcomeView,
  problemOf,
  project,
  startView,
  STATUS_MEMBERS,
  statusView,
} from './view.ts'
import type { Run } from '../run/run.ts'

const here = `/api/v1/journeys/${RUN_ID}`
const atStep = (id: string): Run => aRun({ root: aFrame(id, 'wait', openStep) })
const outcome = (run: Run, outcomeId: string | null = null, links = true) =>
  outcomeView(run, run.end ?? anEnd('Fail'), outcomeId, links)

describe('the status of a run', () => {
  test('says where it is, until when it may go on, who said so, and where to go next', () => {
    const run = aRun({ tags: ['orders'], attributes: { subjectId: 'u1' }, root: aFrame('approve', 'wait', openStep) })
    expect(statusView(run, later(12_500), true)).toEqual({
      journeyId: RUN_ID,
      journeyName: 'order-screening',
      journeyVersion: '1.0.0',
      kind: 'Journey',
      phase: 'RUNNING',
      currentState: 'approve',
      updatedAt: new Date(later(0)).toISOString(),
      startedAt: new Date(later(0)).toISOString(),
      deadlineAt: new Date(later(30_000)).toISOString(),
      remainingMs: 17_500,
      effectiveMaxDurationSec: 30,
      limitedBy: 'spec',
      tags: ['orders'],
      attributes: { subjectId: 'u1' },
      _links: {
        self: { href: here, method: 'GET' },
        result: { href: `${here}/result`, method: 'GET' },
        cancel: { href: `${here}/steps/cancel`, method: 'POST' },
        'step:approve': { href: `${here}/steps/approve`, method: 'POST' },
        approve: { href: `${here}/steps/approve`, method: 'POST' },
      },
    })
  })

  test('names every place while a parallel state has several branches open', () => {
    const frames = {
      kyc: aFrame('call', 'webhook', openStep, 'fanout/kyc'),
      risk: aFrame('score', 'task', ready, 'fanout/risk'),
      over: aFrame('done', 'succeed', { kind: 'over', end: anEnd('Success') }, 'fanout/over'),
    }
    const run = aRun({ root: aFrame('fanout', 'parallel', { kind: 'forked', frames }) })
    expect(statusView(run, later(0), true)).toMatchObject({
      currentState: 'fanout',
      activeStates: ['fanout/kyc/call', 'fanout/risk/score'],
      _links: { 'step:call': { href: `${here}/steps/call` } },
    })
  })

  test('has no time left once it is over, and nothing to cancel or to submit', () => {
    const status = statusView(anEndedRun('Success', 1_000), later(2_000), true)
    expect(status).toMatchObject({ phase: 'SUCCEEDED', currentState: 'finish', remainingMs: 0 })
    expect(Object.keys(status['_links'] as object)).toEqual(['self', 'result'])
  })

  test('never shows less than no time', () => {
    expect(statusView(aRun(), later(31_000), true)).toMatchObject({ remainingMs: 0 })
  })

  test('offers no cancel where the definition allows none, and no links where it turned them off', () => {
    const links = statusView({ ...atStep('approve'), cancellable: false }, later(0), true)['_links']
    expect(links).not.toHaveProperty('cancel')
    expect(statusView(aRun(), later(0), false)).not.toHaveProperty('_links')
    expect(startView(aRun(), false)).toEqual({ journeyId: RUN_ID, journeyName: 'order-screening', statusUrl: here })
  })

  test('a step named like a link of ours is found by its longer name', () => {
    const links = statusView(atStep('self'), later(0), true)['_links'] as Record<string, unknown>
    expect(links).toMatchObject({ self: { href: here }, 'step:self': { href: `${here}/steps/self` } })
  })

  test('a budget of parts of a second is shown as it is', () => {
    expect(statusView(aRun({ limitMs: seconds(1.5) }), later(0), true)).toMatchObject({ effectiveMaxDurationSec: 1.5 })
  })
})

describe('the outcome of a run', () => {
  test('says how and where it ended, with what, and against which deadline', () => {
    expect(outcome(anEndedRun('Timeout', 30_000), 'Slow')).toMatchObject({
      phase: 'FAILED',
      status: 'ORDER_TIMEOUT',
      output: null,
      error: { code: 'ORDER_TIMEOUT', reason: 'screening took longer than 30 s' },
      terminationKind: 'Timeout',
      terminatedAtState: 'finish',
      outcomeId: 'Slow',
      endedAt: new Date(later(30_000)).toISOString(),
      deadlineAt: new Date(later(30_000)).toISOString(),
      limitedBy: 'spec',
      _links: { self: { href: `${here}/result` } },
    })
    expect(outcome(anEndedRun('Success', 1))).not.toHaveProperty('outcomeId')
  })

  test('points from a run to its compensation, and back', () => {
    expect(outcome(anEndedRun('Timeout', 30_000, { compensatedBy: 'c1' }))).toMatchObject({
      compensatedBy: 'c1',
      _links: { compensatedBy: { href: '/api/v1/journeys/c1', method: 'GET' } },
    })
    const compensation = { kind: 'Compensation', compensates: { id: 'r1', end: anEnd('Timeout') } } as const
    expect(outcome(anEndedRun('Success', 1, compensation))).toMatchObject({
      kind: 'Compensation',
      compensates: 'r1',
      _links: { compensates: { href: '/api/v1/journeys/r1' } },
    })
  })

  test.each([
    [anEnd('Success', { output: { status: 'SHIPPED' } }), 'SHIPPED'],
    [anEnd('Success', { output: { status: 7 } }), 'SUCCEEDED'],
    [anEnd('Success', { output: { status: '' } }), 'SUCCEEDED'],
    [anEnd('Success', { output: ['status'] }), 'SUCCEEDED'],
    [anEnd('Success', { output: null }), 'SUCCEEDED'],
    [anEnd('Fail'), 'ORDER_NOT_FOUND'],
    [anEnd('Cancel'), 'JOURNEY_CANCELLED'],
  ])('has a status of its own: %#', (end, status) => {
    expect(businessStatus(end)).toBe(status)
  })
})

describe('what a definition shows of its data', () => {
  const shown = { outputVar: 'hint', schema: null }

  test('stands beside what every answer has', () => {
    expect(project({ phase: 'RUNNING' }, STATUS_MEMBERS, { hint: { price: 3 } }, shown)).toEqual({
      phase: 'RUNNING',
      price: 3,
    })
  })

  test.each([[{}], [{ hint: 'text' }], [{ hint: [1] }], [{ hint: null }]])(
    'is nothing where it is not an object: %j',
    (context) => {
      expect(project({ phase: 'RUNNING' }, STATUS_MEMBERS, context, shown)).toEqual({ phase: 'RUNNING' })
    },
  )

  test('never takes the place of a member of the answer, there or not', () => {
    const member = fc.constantFrom(...STATUS_MEMBERS, ...OUTCOME_MEMBERS)
    fc.assert(
      fc.property(fc.dictionary(fc.oneof(member, fc.string()), fc.jsonValue()), (hint) => {
        const status = statusView(aRun(), later(0), false)
        const answer = project(status, STATUS_MEMBERS, { hint }, shown)
        expect(answer).toMatchObject(status)
        for (const name of STATUS_MEMBERS) expect(answer[name]).toEqual(status[name])
      }),
    )
  })
})

test('every member of an answer is on the list of names that are taken', () => {
  const more = { compensatedBy: 'c', compensates: { id: 'r', end: anEnd('Fail') } }
  const names = (answer: object): string[] => Object.keys(answer)
  const frames = { a: aFrame('x', 'wait', openStep, 'f/a'), b: aFrame('y', 'wait', openStep, 'f/b') }
  const forked = aRun({ ...more, root: aFrame('f', 'parallel', { kind: 'forked', frames }) })
  expect(STATUS_MEMBERS).toEqual(expect.arrayContaining(names(statusView(forked, later(0), true))))
  expect(STATUS_MEMBERS).toEqual(expect.arrayContaining(names(statusView(anEndedRun('Fail', 1), later(1), true))))
  expect(OUTCOME_MEMBERS).toEqual(expect.arrayContaining(names(outcome(anEndedRun('Fail', 1, more), 'X'))))
})

test.each([
  ['Timeout', 504],
  ['Fail', 500],
  ['RuntimeError', 500],
  ['Cancel', 500],
] as const)('the problem of an Api run that ended by %s has status %i', (kind, status) => {
  const end = anEnd(kind)
  expect(problemOf(RUN_ID, end)).toEqual({
    type: end.error?.code,
    title: end.error?.reason,
    status,
    detail: expect.stringContaining('in state finish') as string,
    instance: here,
    code: end.error?.code,
    reason: end.error?.reason,
  })
})
