/** The guard relies on the inside of one version of JSONata. These tests say on what. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { ENTRY, EXIT, FUNCTIONS, NATIVES, parse, type Frame } from './natives.ts'

const require = createRequire(import.meta.url)
const source = readFileSync(require.resolve('jsonata'), 'utf8')

describe('the pinned JSONata', () => {
  test('is the one that was read', () => {
    const { version } = JSON.parse(readFileSync(require.resolve('jsonata/package.json'), 'utf8')) as { version: string }
    expect(version).toBe('2.2.2')
  })

  test('has the functions we know, and no other', () => {
    const bound = [...source.matchAll(/(?:staticFrame|environment)\.bind\('(\w+)', defineFunction/g)].map(
      ([, name]) => name,
    )
    expect([...FUNCTIONS].sort()).toEqual(bound.sort())
    for (const name of FUNCTIONS) expect(NATIVES.get(name)).toMatchObject({ implementation: expect.any(Function) })
  })

  test('enters the first node before it awaits anything, and then each other', async () => {
    const seen: string[] = []
    const probe = parse('1 + a')
    probe.assign(ENTRY, (node: { type: string }) => seen.push(`in ${node.type}`))
    probe.assign(EXIT, (node: { type: string }) => seen.push(`out ${node.type}`))
    const evaluated = probe.evaluate({ a: 1 })
    expect(seen).toEqual(['in binary'])
    await evaluated
    expect(seen).toEqual([
      'in binary',
      'in number',
      'out number',
      'in path',
      'in name',
      'out name',
      'out path',
      'out binary',
    ])
  })

  test('asks the outermost frame for everything that is furnished', async () => {
    const asked: string[] = []
    const probe = parse('[a.b, [1..3], $match("a", /a/), $append([1], [2])]')
    probe.assign(ENTRY, (_node: unknown, _input: unknown, { base }: Frame) => {
      const { createSequence, RegexEngine } = base
      base.createSequence = (...first) => (asked.push('sequence'), createSequence(...first))
      base.options = Object.defineProperty({ sequence: 10 }, 'sequence', { get: () => (asked.push('limit'), 10) })
      base.RegexEngine = class extends (RegexEngine as RegExpConstructor) {
        constructor(of: RegExp) {
          asked.push('regex')
          super(of)
        }
      }
    })
    await probe.evaluate({ a: { b: 1 } })
    expect(new Set(asked)).toEqual(new Set(['sequence', 'limit', 'regex']))
  })

  test('reads symbols only under names that no expression can write', () => {
    const symbols = [...source.matchAll(/Symbol\.for\('([^']+)'\)/g)].map(([, name]) => name)
    expect(new Set(symbols)).toEqual(
      new Set(['jsonata.__evaluate_entry', 'jsonata.__evaluate_exit', 'jsonata.__createFrame_push']),
    )
  })
})
