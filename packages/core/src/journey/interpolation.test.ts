import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { interpolate, interpolateAll, placeholdersOf } from './interpolation.ts'
import { RunFault } from './faults.ts'
import type { Data } from './run/run.ts'

const fault = (run: () => unknown): { code: string; message: string } => {
  try {
    run()
  } catch (error) {
    if (error instanceof RunFault) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('no fault')
}

describe('what a placeholder stands for', () => {
  test.each<[string, Data, string]>([
    ['${context.name}', { name: 'Ada' }, 'Ada'],
    ['Hello ${context.a.b}, ${context.a.b}!', { a: { b: 'you' } }, 'Hello you, you!'],
    [
      '${context.n}|${context.yes}|${context.list}|${context.o}',
      { n: 1.5, yes: false, list: [1], o: { a: null } },
      '1.5|false|[1]|{"a":null}',
    ],
    ['${context.empty}', { empty: '' }, ''],
    ['no placeholder, $5 and {braces} and $ {context.a}', {}, 'no placeholder, $5 and {braces} and $ {context.a}'],
    ['${context.order-id}/${context.Straße}/${context.0}', { 'order-id': 1, Straße: 2, '0': 3 }, '1/2/3'],
  ])('%s', (text, context, made) => {
    expect(interpolate(text, context, 'text')).toBe(made)
  })

  test('a value is not looked at again', () => {
    expect(interpolate('${context.a}', { a: '${context.b}', b: 'no' }, 'text')).toBe('${context.b}')
  })

  test('__proto__ is a name like any other', () => {
    const context = JSON.parse('{"__proto__":{"a":"mine"}}') as Data
    expect(interpolate('${context.__proto__.a}', context, 'text')).toBe('mine')
    expect(fault(() => interpolate('${context.__proto__.toString}', {}, 'text')).code).toBe('RUNTIME_MISSING_VALUE')
    expect(fault(() => interpolate('${context.toString}', {}, 'text')).code).toBe('RUNTIME_MISSING_VALUE')
  })
})

describe('what is missing', () => {
  test.each<[string, Data]>([
    ['${context.a}', {}],
    ['${context.a}', { a: null }],
    ['${context.a.b}', { a: {} }],
    ['${context.a.b}', { a: 'text' }],
    ['${context.a.length}', { a: 'text' }],
    ['${context.list.0}', { list: ['x'] }],
    ['${context.list.length}', { list: ['x'] }],
  ])('%s in %j', (text, context) => {
    expect(fault(() => interpolate(text, context, 'text')).code).toBe('RUNTIME_MISSING_VALUE')
  })

  test('is named by its path, without data', () => {
    expect(fault(() => interpolate('${context.a.secret}', { a: 'hidden' }, 'text')).message).toBe(
      'there is no value for ${context.a.secret}',
    )
  })
})

describe('what is not a placeholder', () => {
  test.each([
    '${context}',
    '${context.}',
    '${context..a}',
    '${context.a[0]}',
    '${ context.a }',
    '${payload.a}',
    '${}',
    '${context.a + 1}',
    "${context.'a'}",
    'open ${context.a',
  ])('%s', (text) => {
    expect(placeholdersOf(text).errors).toHaveLength(1)
    expect(placeholdersOf(text).placeholders).toHaveLength(0)
  })

  test('all of a text are found, right and wrong ones', () => {
    const { placeholders, errors } = placeholdersOf('a ${context.b.c} ${nope} ${context.d}')
    expect(placeholders).toEqual([
      { path: ['b', 'c'], at: 2 },
      { path: ['d'], at: 25 },
    ])
    expect(errors).toEqual(['"${nope}" is not a placeholder; write ${context.name} or ${context.a.b}'])
  })
})

describe('places', () => {
  test('in a URL everything is encoded', () => {
    expect(interpolate('/a/${context.id}?q=${context.id}', { id: 'x/y?z=1&ä#' }, 'url')).toBe(
      '/a/x%2Fy%3Fz%3D1%26%C3%A4%23?q=x%2Fy%3Fz%3D1%26%C3%A4%23',
    )
    expect(fault(() => interpolate('${context.id}', { id: '\ud800' }, 'url')).code).toBe('RUNTIME_BAD_URL')
  })

  test.each(['a\r\nX-Evil: 1', 'a\n', '\0', '\t', '\x7f', '\x85', '€'])('a header cannot carry %j', (value) => {
    expect(fault(() => interpolate('Bearer ${context.t}', { t: value }, 'header')).code).toBe('RUNTIME_BAD_HEADER')
  })

  test('no text grows without end', () => {
    const context = { big: 'x'.repeat(100_000) }
    expect(fault(() => interpolate('${context.big}'.repeat(1_000), context, 'text')).code).toBe('RUNTIME_TOO_LARGE')
    expect(fault(() => interpolate('/${context.big}', context, 'url')).code).toBe('RUNTIME_TOO_LARGE')
    const many = Array.from({ length: 50 }, () => '${context.big}')
    expect(fault(() => interpolateAll(many, context, 1_000_000)).code).toBe('RUNTIME_TOO_LARGE')
  })
})

test('a literal body: every string is filled in, keys and other values stay', () => {
  const body = JSON.parse(
    '{"${context.a}":"${context.a}","n":1,"l":["${context.n}",null],"__proto__":{"x":"${context.a}"}}',
  ) as unknown
  expect(JSON.stringify(interpolateAll(body, { a: 'A', n: 7 }, 1_000))).toBe(
    '{"${context.a}":"A","n":1,"l":["7",null],"__proto__":{"x":"A"}}',
  )
})

describe('always', () => {
  const value = fc.jsonValue()
  test('a value put into a URL comes out again, and adds no character that means something there', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (id) => {
        const made = interpolate('/a/${context.id}/b', { id }, 'url')
        expect(made).toMatch(/^\/a\/[^/?#\\@:;&=+$,\s]*\/b$/)
        expect(decodeURIComponent(made.slice(3, -2))).toBe(id)
      }),
    )
  })
  test('whatever the value, there is a text or a fault, and never another error', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.dictionary(fc.string(), value),
        fc.constantFrom('text', 'url', 'header'),
        (text, context, place) => {
          const template = `${text}\${context.${Object.keys(context)[0] ?? 'a'}}`
          try {
            expect(typeof interpolate(template, context, place)).toBe('string')
          } catch (error) {
            expect(error).toBeInstanceOf(RunFault)
          }
        },
      ),
    )
  })
  test('a text without ${ is what it was', () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes('${')),
        (text) => {
          expect(interpolate(text, {}, 'text')).toBe(text)
        },
      ),
    )
  })
})
