import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Meter } from './meter.ts'
import { PatternRefused, patternStates } from './pattern.ts'
import { compilePattern, regexEngine } from './regex.ts'

const meter = () => new Meter({ monotonicMs: () => 0, deadlineMs: 1, latestMs: 1, budgetMs: 1 })

/** All matches, asked for as JSONata asks: by `lastIndex`, until an empty match or the end. */
function matches(regex: { lastIndex: number; exec(text: string): RegExpExecArray | unknown[] | null }, text: string) {
  const found: unknown[] = []
  regex.lastIndex = 0
  for (let match = regex.exec(text); match !== null; match = regex.exec(text)) {
    found.push([(match as RegExpExecArray).index, ...match])
    if (match[0] === '' || regex.lastIndex >= text.length) break
  }
  return found
}

const ours = (native: RegExp) => new (regexEngine(meter()))(native) as Parameters<typeof matches>[0]

describe('a regular expression', () => {
  const patterns = [
    ...[/a/g, /a+/g, /(a)(b)?/g, /a|b/g, /^a/g, /a$/g, /^/g, /$/g, /x*/g, /[a-c]+/g, /[^a]/g, /(?:ab)+/g, /(?<n>a)b/g],
    ...[
      /\bA/gi,
      /^b/gm,
      /a$/gm,
      /\d{2,3}/g,
      /\w+\s\w+/g,
      /a.c/g,
      /\./g,
      /[\].-]/g,
      /\//g,
      /\u0061/g,
      /\x62/g,
      /a{2}/g,
      /a??b/g,
    ],
    ...[/(a|ab)(c|bcd)/g, /😀a/g, /é/g, /(a*)(a*)/g, /\ta/g, /{/g, /a{,2}/g, /()/g, /[^]/g],
  ]

  test('finds what the native one finds', () => {
    const texts = fc.string({
      unit: fc.constantFrom('a', 'b', 'c', 'd', 'A', '1', '2', ' ', '\n', '.', '/', '{', 'é', '\t'),
    })
    fc.assert(
      fc.property(fc.constantFrom(...patterns), texts, (native, text) => {
        expect(matches(ours(native), text)).toEqual(matches(new RegExp(native.source, native.flags), text))
      }),
      { numRuns: 1_500 },
    )
  })

  test('begins at the given index, and sees what is before', () => {
    const regex = ours(/^a|\bb/g)
    regex.lastIndex = 2
    expect(regex.exec('ab b')).toMatchObject({ 0: 'b', index: 3 })
    expect(regex.lastIndex).toBe(4)
    regex.lastIndex = 9
    expect(regex.exec('ab')).toBeNull()
    expect(regex.lastIndex).toBe(0)
  })

  test('is applied to strings, and asks no object for its text', () => {
    const trap = { toString: () => expect.fail('it was asked') as string }
    for (const given of [trap, () => 1, null, undefined, ['a']])
      expect(() => ours(/a/g).exec(given as never)).toThrow(/only be applied to a string/)
    expect(ours(/2/g).exec(123 as never)).toMatchObject({ index: 1 })
  })

  test('refuses a text that is too long for it', () => {
    const text = 'a'.repeat(20_000)
    expect(ours(/a+$/g).exec(text)).not.toBeNull()
    expect(() => ours(/(a?){30}$/g).exec(text)).toThrow(
      expect.objectContaining({ code: 'JN_MAX_EVAL_TIME_EXCEEDED' }) as Error,
    )
  })
})

describe('a pattern is refused', () => {
  const refused: [RegExp, RegExp][] = [
    [/(a)\1/, /back-reference/],
    [/(?<n>a)\k<n>/, /back-reference/],
    [/a(?=b)/, /looks ahead/],
    [/a(?!b)/, /looks ahead/],
    [/(?<=a)b/, /looks ahead or behind/],
    [/(?<!a)b/, /looks ahead or behind/],
    [new RegExp('\\Qa\\E'), /unknown escape/],
    [/\pL/, /unknown escape/],
    [/[\b]/, /within brackets/],
    [/[[:alpha:]]/, /\[:/],
    [new RegExp('\\01'), /octal/],
    [/a{1000}/, /too large/],
    [/(a{30}){30}/, /too large/],
    [/((((a{9}){9}){9}){9})/, /too large/],
    [new RegExp('a'.repeat(1_001)), /longer than 1000/],
  ]
  for (const [pattern, why] of refused) {
    test(pattern.source.slice(0, 30), () => {
      expect(() => compilePattern(pattern)).toThrow(PatternRefused)
      expect(() => compilePattern(pattern)).toThrow(why)
    })
  }
})

test('the states of a pattern are never thought to be much fewer than they are', () => {
  const piece = fc.letrec<{ any: string }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom('a', '.', '[a-z]', '\\d', 'ab'),
      fc
        .tuple(tie('any'), fc.nat(6), fc.nat(6))
        .map(([of, least, more]) => `(?:${of}){${String(least)},${String(least + more)}}`),
      fc.tuple(tie('any'), fc.constantFrom('*', '+', '?')).map(([of, how]) => `(${of})${how}`),
      fc.tuple(tie('any'), tie('any')).map(([a, b]) => `${a}|${b}`),
      fc.tuple(tie('any'), tie('any')).map(([a, b]) => `${a}${b}`),
    ),
  })).any
  fc.assert(
    fc.property(piece, (source) => {
      let guessed: number
      try {
        guessed = patternStates(source)
      } catch {
        return
      }
      expect(compilePattern(new RegExp(source)).states).toBeLessThanOrEqual(4 * guessed + 20)
    }),
    { numRuns: 500 },
  )
})
