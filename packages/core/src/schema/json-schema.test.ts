import { describe, expect, test } from 'vitest'
import { schemaProblem } from './json-schema.ts'

/** So many levels of `not`. */
const nested = (levels: number): unknown => (levels === 0 ? {} : { not: nested(levels - 1) })

describe('a schema that can be registered', () => {
  test.each([
    [true],
    [{}],
    [{ $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'array' }],
    [{ type: ['array', 'null'], minItems: 1, uniqueItems: true }],
    [{ prefixItems: [{ type: 'string', format: 'email' }, false], items: false }],
    [{ items: [{ type: 'string' }] }],
    [{ $defs: { a: { type: 'string' } }, items: { $ref: '#/$defs/a' } }],
    [{ $defs: { 'a/b~c': true }, items: { $ref: '#/$defs/a~1b~0c' } }],
    [{ properties: { child: { $ref: '#' } } }],
    [{ allOf: [{ $ref: '#/allOf/1' }, { type: 'string' }] }],
    [{ patternProperties: { '^x-': {} }, additionalProperties: false }],
    [{ const: { $ref: 'https://elsewhere.example/' }, enum: [{ type: 7 }] }],
    [{ 'x-note': { type: 7 }, description: 'unknown keywords mean nothing' }],
    [nested(32)],
  ])('%j', (schema) => {
    expect(schemaProblem(schema)).toBeNull()
  })
})

describe('a schema that cannot', () => {
  test.each([
    [null, 'schema must be an object'],
    [[], 'schema must be an object'],
    ['{}', 'schema must be an object'],
    [{ $schema: 'http://json-schema.org/draft-07/schema#' }, '$schema must be'],
    [{ type: 'text' }, '/type must be one of'],
    [{ properties: { a: { type: 'text' } } }, '/properties/a/type must be one of'],
    [{ properties: [] }, '/properties must be an object'],
    [{ properties: { a: 'string' } }, '/properties/a must be a schema'],
    [{ prefixItems: {} }, '/prefixItems must be a list'],
    [{ anyOf: [{}, 7] }, '/anyOf/1 must be a schema'],
    [{ required: 'a' }, '/required must be a list of strings'],
    [{ minLength: -1 }, '/minLength must be a whole number'],
    [{ multipleOf: 0 }, '/multipleOf must be a number above 0'],
    [{ pattern: '(' }, '/pattern must be a regular expression'],
    [{ pattern: 'a'.repeat(513) }, '/pattern must not be longer'],
    [{ patternProperties: { '(': {} } }, '/patternProperties/( must be a regular expression'],
    [{ $ref: 'https://elsewhere.example/schema.json' }, '/$ref must point into the schema itself'],
    [{ $ref: 'file:///etc/passwd' }, '/$ref must point into the schema itself'],
    [{ $ref: '#anchor' }, '/$ref must point into the schema itself'],
    [{ $ref: '#/$defs/unknown' }, '/$ref points to nothing'],
    [{ $ref: '#/constructor' }, '/$ref points to nothing'],
    [{ $dynamicRef: '#node' }, '/$dynamicRef is not supported'],
    [{ properties: { a: { $id: 'https://elsewhere.example/' } } }, '/properties/a/$id is supported only at the top'],
    [{ not: { const: 1, enum: 7 } }, '/not/enum must be a list'],
    [nested(33), 'nested deeper than 32'],
    [{ anyOf: Array.from({ length: 2_000 }, () => ({})) }, 'more than 2000 subschemas'],
    [{ description: 'x'.repeat(70_000) }, 'larger than 65536 bytes'],
  ])('%.80j: %s', (schema, problem) => {
    expect(schemaProblem(schema)).toContain(problem)
  })
})
