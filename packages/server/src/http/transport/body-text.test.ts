import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OjsError } from '@curfew/core'
import { BodyText } from './body-text.ts'

/** What the chunks come to. */
function read(chunks: readonly Buffer[]): string | null {
  const text = new BodyText()
  for (const chunk of chunks) text.add(chunk)
  const whole = text.end()
  return whole instanceof OjsError ? null : whole
}

const chunked = (bytes: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))

test('a text is the same however it is cut', () => {
  const unit = fc.constantFrom('a', '"', 'é', '€', '🙂', '\u0000')
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 40 }), fc.integer({ min: 1, max: 7 }), (text, size) => {
      expect(read(chunked(Buffer.from(text), size))).toBe(text)
    }),
  )
})

test('bytes that are not UTF-8 are refused however they are cut', () => {
  for (const size of [1, 2, 3, 9])
    for (const bytes of ['61e261', '6161e2', 'e28261', '61ff61', '61c3', '8061', 'e26182ac'])
      expect([bytes, size, read(chunked(Buffer.from(bytes, 'hex'), size))]).toEqual([bytes, size, null])
})
