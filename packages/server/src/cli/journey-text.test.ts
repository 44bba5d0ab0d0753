import { expect, test } from 'vitest'
import { refusal } from './frame/remote.ts'
import { listText, outcomeText, statusText, type OutcomeView, type StatusView } from './journey-text.ts'

const paper = { width: 80, colour: false }
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
  expect(statusText({ ...status, _links: links }, paper).split('\n')).toEqual([
    'leave 1.0.0  id-1',
    'RUNNING at decide',
    `${'█'.repeat(10)}${'░'.repeat(30)} 25 %`,
    '7.5 s left of 10 s (as its definition says)',
    'open: curfew journey submit id-1 decide --input …',
  ])
})

test('an outcome says how it ended, and how much of its time it took', () => {
  expect(outcomeText(outcome, paper).split('\n')).toEqual([
    'leave 1.0.0  id-1',
    'FAILED at decide (Timeout): LATE: too late',
    `${'█'.repeat(40)} 100 %`,
    '10 s of 10 s (as its definition says)',
  ])
})

test('what runs and servers say never speaks to the terminal', () => {
  const escape = '\u001b[2Jgone\u009b'
  const error = { code: 'X', reason: escape }
  const texts = [
    outcomeText({ ...outcome, error, output: { [escape]: escape } }, paper),
    statusText({ ...status, currentState: escape }, paper),
    listText([{ ...status, journeyName: escape }], paper),
    refusal({ status: 400, body: { detail: escape, errors: [{ pointer: escape, message: escape }] } }).message,
  ]
  for (const text of texts) {
    expect(text).toContain('gone')
    // eslint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u001b\u009b]/)
  }
})
