import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Redaction } from './redact.ts'

const redaction = new Redaction(['password', 'Card'])

describe('values are blanked by the names of their members', () => {
  test.each([
    ['{"password":"x","a":1}', '{"password":"[redacted]","a":1}'],
    ['{"a":{"PassWord":{"b":[1,"}"]}},"c":2}', '{"a":{"PassWord":"[redacted]"},"c":2}'],
    ['{"card":12.50e1}', '{"card":"[redacted]"}'],
    [
      '{"card":null,"x":[{"card":[]},{"card":true}]}',
      '{"card":"[redacted]","x":[{"card":"[redacted]"},{"card":"[redacted]"}]}',
    ],
    ['{"passw\\u006frd" : "a\\"b" }', '{"passw\\u006frd" : "[redacted]" }'],
  ])('%s', (given, shown) => {
    expect(redaction.text(given)).toBe(shown)
  })

  test.each([
    '{"a":"password","passwords":1}',
    '["password","card"]',
    '{"n":1.0,"s":"\\u0041, \\"card\\":1"}',
    '"card"',
    '',
  ])('and nothing else is changed: %s', (given) => {
    expect(redaction.text(given)).toBe(given)
  })

  test('in a stream of events', () => {
    const text = 'retry: 1000\n\nid: 1\nevent: e\ndata: {"card":1}\n\nid: 2\ndata: {"a":[{"card":"x"}]}\n\n'
    expect(redaction.text(text)).toBe(
      'retry: 1000\n\nid: 1\nevent: e\ndata: {"card":"[redacted]"}\n\nid: 2\ndata: {"a":[{"card":"[redacted]"}]}\n\n',
    )
  })
})

test('wherever a text is cut into parts, the same comes out as of the whole, and it is what a parser would blank', () => {
  const blank = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(blank)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, held]) => [
        name,
        ['password', 'card'].includes(name.toLowerCase()) ? '[redacted]' : blank(held),
      ]),
    )
  }
  const key = fc.oneof(fc.constantFrom('password', 'CARD', 'a', 'card"', '\\'), fc.string({ maxLength: 4 }))
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(fc.string({ maxLength: 6 }), fc.integer(), fc.boolean(), fc.constant(null)),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(key, tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ),
  }))
  fc.assert(
    fc.property(value, fc.integer({ min: 1, max: 7 }), fc.boolean(), (made, size, isSpaced) => {
      const given = JSON.stringify(made, null, isSpaced ? 1 : 0)
      const whole = redaction.text(given)
      expect(JSON.parse(whole)).toEqual(blank(JSON.parse(given)))
      const parts = redaction.begin()
      let joined = ''
      for (let from = 0; from < given.length; from += size) joined += parts.next(given.slice(from, from + size))
      expect(joined).toBe(whole)
    }),
    { numRuns: 200 },
  )
})
