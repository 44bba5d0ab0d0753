import { describe, expect, test } from 'vitest'
import { at } from '../../builders.suite.ts'
import type { StepSpan } from '../step.ts'
import { stepLanes } from './step-lanes.ts'

const step = (name: string, from: string, to: string, isSleep = false): StepSpan => ({
  name,
  attempt: 1,
  from: at(from),
  to: at(to),
  isSleep,
})

describe('the lanes of steps', () => {
  test('hold one after the other; what ran side by side lies below', () => {
    const steps = [
      step('a', '12:00:00', '12:00:10'),
      step('b', '12:00:05', '12:00:20'),
      step('c', '12:00:10', '12:00:12'),
    ]
    const lanes = stepLanes(steps, at('12:01:00'))
    expect(lanes.map(({ name, spans }) => [name, ...spans.map((span) => span.name)])).toEqual([
      ['steps', 'a', 'c'],
      ['steps 2', 'b'],
    ])
  })

  test('cut a sleep that is not over at the present', () => {
    const [lane] = stepLanes([step('rest', '12:00:00', '14:00:00', true)], at('13:00:00'))
    expect(lane?.spans).toMatchObject([
      { kind: 'sleep', name: 'rest', to: at('13:00:00'), isFuture: false },
      { kind: 'sleep', name: 'rest', from: at('13:00:00'), to: at('14:00:00'), isFuture: true },
    ])
  })

  test('are bounded: the last sixty steps, four at a time', () => {
    const many = Array.from({ length: 100 }, (_, index) => step(`s${String(index)}`, '12:00:00', '12:00:10'))
    expect(stepLanes(many, at('12:01:00')).map(({ spans }) => spans.length)).toEqual([1, 1, 1, 1])
    expect(stepLanes([], at('12:01:00'))).toEqual([])
  })
})
