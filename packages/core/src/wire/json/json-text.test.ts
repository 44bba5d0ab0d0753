import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MAX_JSON_DEPTH, depthExceeds, elementsOf, membersOf, textOfMember } from './json-text.ts'

/** Any JSON value, with strings of every kind: quotes, backslashes, NUL, lone surrogates, `__proto__`. */
const string = fc.string({
  unit: fc.oneof(
    fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '\0', '\ud800', '\udc00'),
    fc.string({ maxLength: 1 }),
  ),
})
const { value: json } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    string,
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('value'), { maxLength: 4 }),
  object: fc.dictionary(fc.oneof(string, fc.constantFrom('__proto__', 'constructor', '')), tie('value'), {
    maxKeys: 4,
  }),
}))
const indent = fc.constantFrom(undefined, 1, '\t', '\r\n ')

/** What `depthExceeds` must agree with. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)

describe('cutting an object into its members', () => {
  test('the pieces of any object are the pieces JSON.parse finds', () => {
    fc.assert(
      fc.property(fc.dictionary(string, json), indent, (object, space) => {
        const members = membersOf(JSON.stringify(object, null, space))
        expect([...members.keys()]).toEqual(Object.keys(JSON.parse(JSON.stringify(object)) as object))
        for (const [key, member] of members) {
          expect(JSON.parse(member.value)).toEqual(JSON.parse(JSON.stringify(object[key])))
          expect(JSON.parse(member.rawKey)).toBe(key)
        }
      }),
    )
  })

  test('a member put back as it was written gives the same object', () => {
    fc.assert(
      fc.property(fc.dictionary(string, json), (object) => {
        const members = [...membersOf(JSON.stringify(object)).values()]
        const again = `{${members.map(({ rawKey, value }) => `${rawKey}:${value}`).join(',')}}`
        expect(again).toBe(JSON.stringify(object))
      }),
    )
  })

  test.each(['12345678901234567890', '1.0', '1e400', '-0', '0.1000', '1E+2'])(
    'the number %s stays as it was written',
    (number) => {
      expect(membersOf(`{"a" : ${number} ,"b":[${number}]}`).get('a')?.value).toBe(number)
      expect(elementsOf(`[${number}, ${number}]`)).toEqual([number, number])
    },
  )

  test('an escaped key is the key it means, and keeps how it was written', () => {
    const member = membersOf(String.raw`{"stat\u0065":1,"a\"}b":{"x":2}}`)
    expect(member.get('state')).toMatchObject({ rawKey: String.raw`"stat\u0065"`, value: '1' })
    expect(member.get('a"}b')?.value).toBe('{"x":2}')
  })

  test('brackets and quotes inside strings end nothing', () => {
    const members = membersOf(String.raw`{"a":"]}\"},{","b":["}","\\"],"c":3}`)
    expect([...members.values()].map(({ value }) => value)).toEqual([
      String.raw`"]}\"},{"`,
      String.raw`["}","\\"]`,
      '3',
    ])
  })

  test('of a repeated key the last counts, as in JSON.parse', () => {
    expect(membersOf('{"a":1,"b":2,"a":3}').get('a')?.value).toBe('3')
  })

  test('an empty object has no members', () => {
    expect(membersOf(' { } ').size).toBe(0)
  })

  test('the value is found where it begins', () => {
    const text = '{ "a" : [1] }'
    expect(text.slice(membersOf(text).get('a')?.from)).toBe('[1] }')
  })
})

describe('cutting an array into its entries', () => {
  test('the pieces of any array are the pieces JSON.parse finds', () => {
    fc.assert(
      fc.property(fc.array(json), indent, (list, space) => {
        const elements = elementsOf(JSON.stringify(list, null, space))
        expect(elements.map((text) => JSON.parse(text) as unknown)).toEqual(JSON.parse(JSON.stringify(list)))
      }),
    )
  })

  test('an empty array has no entries', () => {
    expect(elementsOf('[ ]')).toEqual([])
  })
})

describe('how deep a body is nested', () => {
  test('the body itself is level 1, and level 64 is the last that is taken', () => {
    expect(depthExceeds(nested(MAX_JSON_DEPTH), MAX_JSON_DEPTH)).toBe(false)
    expect(depthExceeds(nested(MAX_JSON_DEPTH + 1), MAX_JSON_DEPTH)).toBe(true)
    expect(MAX_JSON_DEPTH).toBe(64)
  })

  test('brackets in strings do not count, brackets side by side do not add up', () => {
    expect(depthExceeds(JSON.stringify(['['.repeat(100), '\\"[[[']), 1)).toBe(false)
    expect(depthExceeds('[[],[],[],{}]', 2)).toBe(false)
  })

  test('the depth of any value is the depth a reader would count', () => {
    fc.assert(
      fc.property(json, (value) => {
        const depth = depthOf(JSON.parse(JSON.stringify(value)))
        expect(depthExceeds(JSON.stringify(value), depth)).toBe(false)
        if (depth > 0) expect(depthExceeds(JSON.stringify(value), depth - 1)).toBe(true)
      }),
    )
  })

  test('text that is not JSON is measured without running away', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('[', '"', '\\', '}', 'x') }),
        (text) => typeof depthExceeds(text, 3) === 'boolean',
      ),
    )
  })
})

describe('one member by its name', () => {
  test('is the one that membersOf finds', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(string, json), { maxLength: 6 }),
        fc.integer({ min: 0, max: 2 }),
        (entries, space) => {
          const pad = ' '.repeat(space)
          const text = `{${entries.map(([key, value]) => `${pad}${JSON.stringify(key)}${pad}:${JSON.stringify(value)}`).join(',')}${pad}}`
          const members = membersOf(text)
          for (const name of ['', 'absent', ...members.keys()])
            expect(textOfMember(text, name)).toBe(members.get(name)?.value)
        },
      ),
    )
  })

  test('also when its name is written with escapes, and the last counts', () => {
    expect(textOfMember('{"result":1,"r\\u0065sult":2,"results":3}', 'result')).toBe('2')
  })

  test('membersOf stops where more are written than wanted', () => {
    expect(membersOf('{"a":1,"a":2,"b":3}', 3)?.size).toBe(2)
    expect(membersOf('{"a":1,"a":2,"b":3}', 2)).toBeNull()
  })
})

test.each([0, 63, 64, 65, 1_000])('white space of %i signs stands between the pieces', (length) => {
  const gap = ' \n'.repeat(length).slice(0, length)
  const text = `${gap}{${gap}"a"${gap}:${gap}[1,${gap}{${gap}}${gap}]${gap},${gap}"b":${gap}2${gap}}${gap}`
  const members = membersOf(text)
  expect([...members.keys()]).toEqual(['a', 'b'])
  expect(members.get('b')?.value).toBe('2')
  expect(elementsOf(members.get('a')?.value ?? '')).toEqual(['1', `{${gap}}`])
  expect(textOfMember(text, 'b')).toBe('2')
  expect(membersOf(gap).size).toBe(0)
})
