import { describe, expect, test } from 'vitest'
import { compileSchema } from './json-schema.ts'

const said = (schema: unknown, args: unknown) => {
  const verdict = compileSchema(schema)(args)
  return verdict.kind === 'invalid'
    ? verdict.mistakes.map(({ pointer, keyword }) => `${pointer} ${keyword}`)
    : verdict.kind
}

describe('arguments', () => {
  test.each([
    [{ type: 'array' }, [], 'valid'],
    [false, [], [' false']],
    [{ minItems: 1 }, [], [' minItems']],
    [{ prefixItems: [{ type: 'string' }] }, [7], ['/0 type']],
    [{ items: [{ type: 'string' }] }, [7], ['/0 type']],
    [{ items: { properties: { 'a/b': { type: 'integer' } } } }, [{ 'a/b': 'x' }], ['/0/a~1b type']],
    [{ items: { required: ['to'] } }, [{}], ['/0 required']],
    [{ $defs: { t: { type: 'string' } }, items: { $ref: '#/$defs/t' } }, ['a', 1], ['/1 type']],
    [{ items: { format: 'email' } }, ['nobody'], ['/0 format']],
    [
      { items: { properties: { child: { $ref: '#/items' } }, additionalProperties: false } },
      [{ child: { x: 1 } }],
      ['/0/child/x false', '/0/child additionalProperties'],
    ],
  ])('with the schema %j, %j: %j', (schema, args, expected) => {
    const found = said(schema, args)
    if (Array.isArray(expected)) expect(new Set(found)).toEqual(new Set(expected))
    else expect(found).toBe(expected)
  })

  test('are not changed by being looked at, and neither is the schema', () => {
    const schema = Object.freeze({ items: Object.freeze({ default: 7, type: 'object' }) })
    const args = Object.freeze([Object.freeze({})])
    expect(said(schema, args)).toBe('valid')
    expect(JSON.stringify(schema)).toBe('{"items":{"default":7,"type":"object"}}')
  })

  test('named like what every object has are only names', () => {
    expect(said({ items: { required: ['constructor'] } }, [{}])).toEqual(['/0 required'])
    expect(
      said({ items: { properties: { ['__proto__']: { type: 'string' } } } }, JSON.parse('[{"__proto__":1}]')),
    ).not.toBe('undecided')
  })
})

describe('a schema that asks for too much work is stopped', () => {
  const doubling = (steps: number) => ({
    $defs: Object.fromEntries(
      Array.from({ length: steps + 1 }, (_, step) => [
        `s${String(step)}`,
        step === steps
          ? {}
          : { allOf: [{ $ref: `#/$defs/s${String(step + 1)}` }, { $ref: `#/$defs/s${String(step + 1)}` }] },
      ]),
    ),
    $ref: '#/$defs/s0',
  })
  test.each([
    ['a pattern that backtracks', { items: { pattern: '^(a+)+$' } }, [`${'a'.repeat(40)}!`]],
    ['another', { items: { pattern: '^(([a-z])+.)+[A-Z]([a-z])+$' } }, ['a'.repeat(60)]],
    ['references that double at each step', doubling(40), []],
    ['a circle', { $ref: '#' }, []],
    ['a bigger circle', { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }, []],
  ])('%s', (_, schema, args) => {
    const begun = performance.now()
    expect(said(schema, args)).toBe('undecided')
    expect(performance.now() - begun).toBeLessThan(1_000)
    // And does not stand in the way of the next one.
    expect(said({ type: 'array' }, [])).toBe('valid')
  })
})

describe('while the machine stands still', () => {
  /** Arguments at which every look, or only the first, takes long and nothing of the processor. */
  function standing(isStanding: (look: number) => boolean) {
    const seen = { looks: 0 }
    const args = [
      {
        get to() {
          seen.looks += 1
          if (isStanding(seen.looks)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_000)
          return 'ada'
        },
      },
    ]
    const check = compileSchema({ items: { properties: { to: { type: 'string' } } } }, () => 0)
    return { verdict: check(args), seen }
  }

  test('arguments are looked at again', () => {
    const { verdict, seen } = standing((look) => look === 1)
    expect(verdict).toEqual({ kind: 'valid' })
    expect(seen.looks).toBeGreaterThan(1)
  })

  test('but not for ever', () => {
    const { verdict, seen } = standing(() => true)
    expect(verdict.kind).toBe('undecided')
    expect(seen.looks).toBeLessThan(10)
  })
})
