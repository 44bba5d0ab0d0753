import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OjsError } from '../errors.ts'
import {
  anyList,
  anything,
  either,
  flag,
  list,
  mapOf,
  number,
  object,
  oneOf,
  policy,
  text,
  utf8Length,
  whole,
  type Shape,
} from './shape.ts'

function refusal(
  shape: Shape<unknown>,
  value: unknown,
  at = 'field',
): { code: string; field: unknown; message: string } {
  try {
    shape.read(value, at)
  } catch (error) {
    const { code, details, message } = error as OjsError
    return { code, field: details['field'], message }
  }
  throw new Error('not refused')
}

describe('400 or 422', () => {
  test('a wrong form is a 400 that names the field and what to send', () => {
    expect(refusal(whole(1, 5), 'x')).toEqual({
      code: 'invalid_request',
      field: 'field',
      message: 'field must be a whole number between 1 and 5.',
    })
  })

  test('under a policy the same refusal is a 422, and only there', () => {
    expect(refusal(policy(whole(1)), 0).code).toBe('validation_error')
    expect(refusal(whole(1), 0).code).toBe('invalid_request')
  })

  test('a policy inside an object makes only its own field a 422', () => {
    const shape = object({ timeout: policy(whole(1)), queue: text({ min: 1 }) })
    expect(refusal(shape, { timeout: 0, queue: '' }, '')).toMatchObject({ code: 'validation_error', field: 'timeout' })
    expect(refusal(shape, { timeout: 1, queue: '' }, '')).toMatchObject({ code: 'invalid_request', field: 'queue' })
  })

  test('a policy over an object covers every field in it, its unknown keys too', () => {
    const shape = policy(object({ a: list(whole(1)) }, { unknown: 'refuse' }))
    expect(refusal(shape, { a: [1, 0] })).toMatchObject({ code: 'validation_error', field: 'field.a[1]' })
    expect(refusal(shape, { b: 1 })).toMatchObject({ code: 'validation_error', field: 'field.b' })
  })
})

describe('single values', () => {
  test.each([
    ['whole', whole(0, 10), [0, 10, 1], [-1, 11, 1.5, NaN, Infinity, '1', true, null, [1]]],
    ['number', number(), [0, -1.5, 1e300], [NaN, Infinity, '1', null]],
    ['flag', flag(), [true, false], [0, 1, 'true', null]],
    ['oneOf', oneOf('a', 'b'), ['a', 'b'], ['c', 'A', '', null, 'toString']],
    ['text', text({ min: 1, maxLength: 4, pattern: /^[^x]*$/ }), ['a', 'äöü😀'], ['', 'x', 'äöü😀a', 1, null]],
    ['anyList', anyList(), [[], [1]], [{}, 'a', null, 1]],
  ] as [string, Shape<unknown>, unknown[], unknown[]][])(
    '%s takes what it should and nothing else',
    (_, shape, good, bad) => {
      for (const value of good) expect(shape.read(value, 'x')).toEqual(value)
      for (const value of bad) expect(refusal(shape, value).code).toBe('invalid_request')
    },
  )

  test('a text is measured in characters, as JSON Schema measures it', () => {
    const shape = text({ maxLength: 4 })
    expect(shape.read('😀😀😀ä', 'x')).toBe('😀😀😀ä')
    expect(refusal(shape, '😀😀😀äb').message).toBe('field must be at most 4 characters long.')
    expect(refusal(text({ min: 2 }), '😀').code).toBe('invalid_request')
  })

  test('a pattern with flags is a fault, because JSON Schema cannot say it', () => {
    expect(() => text({ pattern: /^a$/i })).toThrow('flags')
  })

  test('either chooses by the form of the value', () => {
    const shape = either(text({ pattern: /^P/ }), whole(1), (value) => typeof value === 'string')
    expect(shape.read('PT1S', 'x')).toBe('PT1S')
    expect(shape.read(3, 'x')).toBe(3)
    expect(refusal(shape, 'x').code).toBe('invalid_request')
  })
})

describe('lists', () => {
  test('an entry that is refused is named by its place', () => {
    expect(refusal(list(text()), ['a', 1]).field).toBe('field[1]')
  })

  test('too few and too many entries are refused', () => {
    expect(refusal(list(text(), 1), []).message).toContain('at least 1 entry')
    expect(refusal(list(text(), 0, 2), ['a', 'b', 'c']).message).toContain('at most 2')
    expect(list(text(), 1, 2).read(['a', 'b'], 'x')).toEqual(['a', 'b'])
  })
})

describe('objects', () => {
  const shape = object({ name: text(), count: whole(0) }, { required: ['name'] })

  test('null means not sent', () => {
    expect(shape.read({ name: 'a', count: null }, '')).toEqual({ name: 'a' })
    expect(refusal(shape, { name: null }, '').message).toBe('name is required.')
    expect(refusal(shape, {}, '').field).toBe('name')
  })

  test('unknown keys are ignored, or refused by name where the caller says so', () => {
    expect(shape.read({ name: 'a', other: 1 }, '')).toEqual({ name: 'a' })
    const strict = object({ name: text() }, { unknown: 'refuse' })
    expect(refusal(strict, { name: 'a', other: 1 }, 'at')).toMatchObject({ code: 'invalid_request', field: 'at.other' })
    expect(refusal(strict, JSON.parse('{"__proto__":1}'), '')).toMatchObject({ field: '__proto__' })
    expect(refusal(strict, { toString: 1 }, '')).toMatchObject({ field: 'toString' })
  })

  test.each([[[]], ['a'], [1], [null], [undefined], [true]])('%j is not an object', (value) => {
    expect(refusal(shape, value, '').message).toBe('The body must be an object.')
  })

  test('a field is never inherited from a prototype', () => {
    const bare = object({ toString: anything(), constructor: anything() })
    expect(Object.keys(bare.read({}, ''))).toEqual([])
  })
})

describe('maps', () => {
  test('__proto__ is a name like any other and poisons nothing', () => {
    const read = mapOf(whole(0)).read(JSON.parse('{"__proto__":1,"constructor":2,"a":3}'), 'leases')
    expect(Object.entries(read)).toEqual([
      ['__proto__', 1],
      ['constructor', 2],
      ['a', 3],
    ])
    expect(({} as Record<string, unknown>)['a']).toBeUndefined()
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
  })

  test('a null entry counts as absent, a bad one is named', () => {
    expect(mapOf(whole(0)).read({ a: null, b: 1 }, 'm')).toEqual({ b: 1 })
    expect(refusal(mapOf(whole(0)), { a: 'x' }, 'm').field).toBe('m.a')
  })
})

describe('what a shape says of itself', () => {
  test('the schema repeats the rules that are enforced', () => {
    expect(
      object({ a: policy(whole(1, 9)), b: list(oneOf('x')) }, { required: ['a'], unknown: 'refuse' }).json,
    ).toEqual({
      type: 'object',
      properties: {
        a: { type: 'integer', minimum: 1, maximum: 9 },
        b: { type: ['array', 'null'], items: { type: 'string', enum: ['x'] }, maxItems: 10_000 },
      },
      required: ['a'],
      additionalProperties: false,
    })
  })
})

test('the length in bytes is the one the socket will see, lone surrogates included', () => {
  const edges = [0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xffff]
  const unit = fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: 0xffff }))
  fc.assert(
    fc.property(fc.array(unit), (units) => {
      const value = String.fromCharCode(...units)
      expect(utf8Length(value)).toBe(Buffer.byteLength(value, 'utf8'))
    }),
    { numRuns: 500 },
  )
})
