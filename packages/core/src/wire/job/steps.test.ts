import { expect, test } from 'vitest'
import { instant } from '../../time/clock.ts'
import type { StoredStep } from '../../job/step.ts'
import { readStepDocument, stepSpansIn, writeStepDocument } from './steps.ts'

const charge: StoredStep = {
  name: 'charge',
  position: 0,
  isOrdered: true,
  attempt: 1,
  from: instant(1_000),
  to: instant(2_000),
  isSleep: false,
  result: { id: 7 },
}
const { result: _none, ...silent } = charge
const sleep: StoredStep = { ...silent, name: 'rest', position: 1, isOrdered: false, isSleep: true }

test('steps and a checkpoint come back as they were stored, through JSON', () => {
  const document = { steps: [charge, sleep], state: [1, null] }
  const text = JSON.stringify(writeStepDocument(document))
  expect(readStepDocument(JSON.parse(text))).toEqual(document)
  expect(stepSpansIn(text)).toMatchObject([
    { name: 'charge', from: 1_000, to: 2_000 },
    { name: 'rest', isSleep: true },
  ])
  expect(JSON.stringify(stepSpansIn(text))).not.toContain('7')
})

test.each([null, 7, 'text', [[1]], { page: 1 }, { $curfew_steps: 'no list' }])(
  'a checkpoint without steps is the state itself: %j',
  (state) => {
    expect(readStepDocument(state)).toEqual({ steps: [], state })
    expect(writeStepDocument({ steps: [], state })).toEqual(state)
    expect(stepSpansIn(JSON.stringify(state))).toEqual([])
  },
)

test('what is not a step is left out', () => {
  const saved = { $curfew_steps: [null, { name: 'a' }, { ...JSON.parse(JSON.stringify(charge)), from: 'never' }] }
  expect(readStepDocument(saved)).toEqual({ steps: [], state: null })
})
