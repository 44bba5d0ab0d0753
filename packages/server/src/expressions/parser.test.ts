import { afterEach, describe, expect, test } from 'vitest'
import { CompiledExpression } from './jsonata.ts'
import { Parser } from './parser.ts'

const nested = (operator: string, times: number): string => '('.repeat(times) + 'a' + ` ${operator} b)`.repeat(times)

describe('the parser of expressions', () => {
  const stringify = Object.getOwnPropertyDescriptor(JSON, 'stringify') as PropertyDescriptor
  afterEach(() => Object.defineProperty(JSON, 'stringify', stringify))

  test('leaves the JSON of the process alone', () => {
    Object.defineProperty(JSON, 'stringify', { ...stringify, writable: false })
    expect(() => new CompiledExpression('a ?: b ?? c')).not.toThrow()
    expect(() => new CompiledExpression(nested('??', 40))).toThrow('nested too deeply')
  })

  test.each(['?:', '??'])('refuses %s that would be copied too often, and parses the next text', (operator) => {
    const parser = new Parser<object>()
    expect(() => parser.parse(nested(operator, 40))).toThrow('The operators ?: and ?? are nested too deeply.')
    expect(parser.parse(nested(operator, 3))).toMatchObject({})
  })
})
