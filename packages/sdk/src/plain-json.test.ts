import { describe, expect, test } from 'vitest'
import { InputError } from './errors.ts'
import { jsonText } from './plain-json.ts'

class Point {
  x = 1
  y = 2
}

describe('what JSON keeps as it is may travel', () => {
  test.each([
    [null, 'null'],
    ['a\u0000\ud800', '"a\\u0000\\ud800"'],
    [[1, -2.5, true, null, []], '[1,-2.5,true,null,[]]'],
    [{ a: { b: [{}] }, __proto__: null }, '{"a":{"b":[{}]}}'],
    [{ a: 1, b: undefined }, '{"a":1}'],
    [new Point(), '{"x":1,"y":2}'],
  ])('%j', (value, text) => {
    expect(jsonText(value, 'It')).toBe(text)
  })
})

const itself: { a: unknown[] } = { a: [] }
itself.a.push(itself)

describe('what JSON would change without a word is refused, with its path', () => {
  test.each([
    ['a hole in a list', [1, [undefined]], '/1/0'],
    ['a function', { a: { b: () => 1 } }, '/a/b'],
    ['a symbol', [Symbol('a')], '/0'],
    ['a bigint', [10n], '/0'],
    ['NaN', { a: [0, NaN] }, '/a/1'],
    ['infinity', -Infinity, '/'],
    ['a date', { at: new Date(0) }, '/at'],
    ['a map', [new Map()], '/0'],
    ['bytes', [new Uint8Array(1)], '/0'],
    ['a promise', [Promise.resolve(1)], '/0'],
    ['an error', [new Error('a')], '/0'],
    ['its own form of JSON', [{ toJSON: () => 1 }], '/0'],
    ['nothing at all', undefined, '/'],
  ])('%s', (_, value, path) => {
    let thrown: unknown
    try {
      jsonText(value, 'The input of a.b')
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(InputError)
    expect(thrown).toMatchObject({
      details: { path },
      message: expect.stringMatching(/^The input of a\.b cannot travel/),
    })
  })

  test('a value that contains itself', () => {
    expect(() => jsonText(itself, 'It')).toThrow(/contains itself/)
  })
})
