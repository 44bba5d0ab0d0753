import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ExpressionError } from '../engine/expressions.ts'
import { Meter } from './meter.ts'
import { plainResult } from './plain.ts'

const meter = () => new Meter({ monotonicMs: () => 0, deadlineMs: 1, latestMs: 1, budgetMs: 1 })

test('a result may have exactly as many bytes as was agreed', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const bytes = Buffer.byteLength(JSON.stringify(value))
      const within = (maxOutputBytes: number) => plainResult(value, meter(), { maxEvalMs: 1, maxOutputBytes })
      expect(JSON.stringify(within(bytes))).toBe(JSON.stringify(value))
      expect(() => within(bytes - 1)).toThrow(ExpressionError)
    }),
  )
})

test('minus zero becomes zero, as it does when it is stored', () => {
  const limits = { maxEvalMs: 1, maxOutputBytes: 1_000 }
  expect(plainResult(-0, meter(), limits)).toBe(0)
  expect(plainResult({ list: [-0] }, meter(), limits)).toStrictEqual({ list: [0] })
})
