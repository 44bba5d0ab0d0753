import { expect, test } from 'vitest'
import type { Definition, State } from '../definition.ts'
import { aDefinition, aFrame, aRun, aVisit, openStep } from './runs.suite.ts'
import { stateAt, stepShown } from './steps.ts'

const done: State = { type: 'succeed', outputVar: null }
const waiting = (outputVar: string): State => ({
  type: 'wait',
  input: true,
  response: { outputVar, schema: null },
  timeoutMs: null,
  onTimeout: null,
  next: 'done',
})
const join = { strategy: 'allOf', errorPolicy: 'collectAll', mapper: null, resultVar: null } as const
const definition: Definition = aDefinition({
  states: {
    approve: waiting('hint'),
    fanout: {
      type: 'parallel',
      branches: [{ name: 'kyc', start: 'approve', states: { approve: waiting('inner'), done } }],
      join,
      next: 'ship',
    },
    ship: {
      type: 'subjourney',
      ref: 'shipping',
      input: null,
      resultVar: null,
      resultKind: 'output',
      onFailure: 'propagate',
      next: 'done',
    },
    done,
  },
  subjourneys: { shipping: { start: 'book', states: { book: waiting('booking'), done } } },
  compensation: { start: 'undo', states: { undo: done }, alsoFor: [] },
})

test.each([
  ['approve', 'hint'],
  ['fanout/kyc/approve', 'inner'],
  ['ship/book', 'booking'],
])('finds the state at %s', (path, outputVar) => {
  expect(stateAt(definition, 'Journey', path)).toMatchObject({ response: { outputVar } })
})

test.each(['', 'unknown', 'approve/x', 'fanout/kyc', 'fanout/other/approve', 'ship/unknown', 'undo', 'toString'])(
  'finds nothing at "%s"',
  (path) => {
    expect(stateAt(definition, 'Journey', path)).toBeNull()
  },
)

test('the states of a compensation are its own', () => {
  expect(stateAt(definition, 'Compensation', 'undo')).toEqual(done)
  expect(stateAt(definition, 'Compensation', 'approve')).toBeNull()
})

test('shows what the step that was submitted asks for, from the data around it', () => {
  const inner = { ...aFrame('done', 'succeed', openStep, 'fanout/kyc'), context: { inner: { a: 1 } } }
  const root = { ...aFrame('fanout', 'parallel', { kind: 'forked', frames: { kyc: inner } }), context: { hint: {} } }
  const trail = [
    aVisit('approve', 'wait', 0, 1),
    aVisit('fanout', 'parallel', 1, null),
    aVisit('fanout/kyc/approve', 'wait', 1, 2),
  ]
  expect(stepShown(definition, aRun({ root, trail }), 'approve')).toEqual({
    response: { outputVar: 'inner', schema: null },
    context: { inner: { a: 1 } },
  })
  // The branch is over: what is left is the context around it.
  expect(stepShown(definition, aRun({ root: { ...root, rest: openStep }, trail }), 'approve').context).toEqual({
    hint: {},
  })
  expect(stepShown(definition, aRun({ trail: [] }), 'approve').response).toBeNull()
})
