import { expect, test } from 'vitest'
import { refusal } from './frame/remote.ts'
import { momentsIn } from './frame/rows.ts'
import { listText, outcomeText, statusText, type OutcomeView, type StatusView } from './journey-text.ts'

const paper = { width: 80, colour: false }
const when = momentsIn(true, Date.UTC(2026, 0, 1))
const head = {
  journeyId: 'id-1',
  journeyName: 'leave',
  journeyVersion: '1.0.0',
  kind: 'Journey',
  startedAt: '2026-01-01T12:00:00.000Z',
  effectiveMaxDurationSec: 10,
  limitedBy: 'spec',
} as const
const status: StatusView = { ...head, phase: 'RUNNING', currentState: 'decide', remainingMs: 7_500 }
const outcome: OutcomeView = {
  ...head,
  phase: 'FAILED',
  endedAt: '2026-01-01T12:00:10.000Z',
  status: 'LATE',
  output: null,
  error: { code: 'LATE', reason: 'too late' },
  terminationKind: 'Timeout',
  terminatedAtState: 'decide',
}

test('a status shows where the run is, what is left, and what is open', () => {
  const links = { 'step:decide': {}, decide: {}, self: {} }
  expect(statusText({ ...status, _links: links }, paper, when).split('\n')).toEqual([
    'leave 1.0.0  id-1',
    'started 12:00:00',
    'RUNNING at decide',
    `${'█'.repeat(10)}${'░'.repeat(30)} 25 %`,
    '7.5 s left of 10 s (as its definition says)',
    'open: curfew journey submit id-1 decide --input …',
  ])
})

test('an outcome says how it ended, and how much of its time it took', () => {
  expect(outcomeText(outcome, paper, when).split('\n')).toEqual([
    'leave 1.0.0  id-1',
    'started 12:00:00, ended 12:00:10',
    'FAILED at decide (Timeout): LATE: too late',
    `${'█'.repeat(40)} 100 %`,
    '10 s of 10 s (as its definition says)',
  ])
})

test('a list says when each run began', () => {
  expect(listText([status, { ...status, phase: 'SUCCEEDED' }], paper, when).split('\n')).toEqual([
    'id    journey      phase      state   started',
    'id-1  leave 1.0.0  RUNNING    decide  12:00:00  7.5 s left',
    'id-1  leave 1.0.0  SUCCEEDED  decide  12:00:00',
  ])
})

test('what runs and servers say never speaks to the terminal', () => {
  const escape = '\u001b[2Jgone\u009b'
  const error = { code: 'X', reason: escape }
  const texts = [
    outcomeText({ ...outcome, error, output: { [escape]: escape } }, paper, when),
    statusText({ ...status, currentState: escape }, paper, when),
    listText([{ ...status, journeyName: escape }], paper, when),
    refusal({ status: 400, body: { detail: escape, errors: [{ pointer: escape, message: escape }] } }).message,
  ]
  for (const text of texts) {
    expect(text).toContain('gone')
    // eslint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u001b\u009b]/)
  }
})
