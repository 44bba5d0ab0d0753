import fc from 'fast-check'
import { afterEach, describe, expect, it, test, vi } from 'vitest'
import { MAX_JSON_DEPTH } from './json-text.ts'
import { MAX_PIECE, MAX_VALUES, parseInPieces, parseStored } from './json-pieces.ts'

/** Drives the generator; answers the value and how many pieces of work it took. */
function read(text: string, maxValues?: number, maxPiece?: number): { value: unknown; pieces: number } {
  const work = parseInPieces(text, maxValues, maxPiece)
  for (let pieces = 1; ; pieces += 1) {
    const step = work.next()
    if (step.done === true) return { value: step.value, pieces }
  }
}

afterEach(() => {
  vi.restoreAllMocks()
})

const written = (value: unknown, space: number): string => JSON.stringify(value, null, space)

describe('JSON read in pieces', () => {
  it('gives the same value as JSON.parse', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.integer({ min: 0, max: 2 }),
        fc.integer({ min: 1, max: 40 }),
        (value, space, piece) => {
          const text = written(value, space)
          expect(read(text, MAX_VALUES, piece).value).toStrictEqual(JSON.parse(text))
        },
      ),
      { numRuns: 1_000 },
    )
  })

  it('refuses what JSON.parse refuses', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4 }),
        fc.nat(),
        fc.constantFrom('', ',', ']', '}', '[', '{', '"', ':', '\u0001', '1', '\\'),
        fc.integer({ min: 1, max: 20 }),
        (value, place, put, piece) => {
          const whole = written(value, 1)
          const at = place % (whole.length + 1)
          const text = whole.slice(0, at) + put + whole.slice(at + 1)
          let expected: unknown
          try {
            expected = JSON.parse(text)
          } catch {
            expect(() => read(text, MAX_VALUES, piece)).toThrow('not valid JSON')
            return
          }
          expect(read(text, MAX_VALUES, piece).value).toStrictEqual(expected)
        },
      ),
      { numRuns: 3_000 },
    )
  })

  it('keeps members named __proto__, repeated names and the order of names', () => {
    const text = `{"b":[${'1,'.repeat(20)}1],"__proto__":{"x":[1,2,3,4,5,6,7,8,9]},"a":1,"b":2,"7":1,"a":3}`
    const { value } = read(text, MAX_VALUES, 4)
    expect(value).toStrictEqual(JSON.parse(text))
    expect(Object.keys(value as object)).toEqual(Object.keys(JSON.parse(text) as object))
  })

  it('works through a long text in pieces of bounded length', () => {
    const text = `{"args":[${'1,'.repeat(40_000)}1],"names":{${Array.from({ length: 20_000 }, (_, n) => `"n${String(n)}":0`).join(',')}}}`
    const { value, pieces } = read(text)
    expect(value).toStrictEqual(JSON.parse(text))
    expect(pieces).toBeGreaterThanOrEqual(Math.floor(text.length / (2 * MAX_PIECE)))
  })

  it('refuses more values than allowed, and says how many there are', () => {
    const list = `[${'{},'.repeat(MAX_VALUES)}{}]`
    expect(() => read(list)).toThrow(`The body has ${String(MAX_VALUES + 2)} values; at most ${String(MAX_VALUES)}`)
    expect(read(list, MAX_VALUES + 2).value).toHaveLength(MAX_VALUES + 1)
  })

  it('refuses a long text that is not closed without parsing it', () => {
    expect(() => read(`[[${'{},'.repeat(200_000)}{}]`, 1_000_000)).toThrow('not valid JSON')
  })

  it('refuses what is nested too deeply', () => {
    const nested = '['.repeat(MAX_JSON_DEPTH + 1) + ']'.repeat(MAX_JSON_DEPTH + 1)
    expect(() => read(nested)).toThrow(`nested deeper than ${String(MAX_JSON_DEPTH)} levels`)
  })

  it.each([
    ['alone', (space: string) => space],
    ['before a value', (space: string) => `${space}[1,2]`],
    ['after a value', (space: string) => `{"a":1}${space}`],
    ['in an empty list', (space: string) => `[${space}]`],
    ['in an empty object', (space: string) => `{"a":{${space}}}`],
    ['between entries', (space: string) => `[1,${space}2,3${space},4]`],
    ['between members', (space: string) => `{"a":1,"b":2,${space}"c":3${space},"d":4}`],
    ['between a name and its value', (space: string) => `{"a":1,"b"${space}:2,"c":${space}3}`],
    ['in a list of a member', (space: string) => `{"a":[1,${space}2],"b":3}`],
  ])('passes long white space without giving it to JSON.parse: %s', (_, textWith) => {
    const text = textWith(' \n\t\r'.repeat(MAX_PIECE))
    const parse = vi.spyOn(JSON, 'parse')
    let value: unknown
    try {
      value = read(text).value
    } catch (error) {
      value = error
    }
    const lengths = parse.mock.calls.map(([piece]) => piece.length)
    parse.mockRestore()
    expect(Math.max(0, ...lengths)).toBeLessThan(100)
    if (text.trim() === '') expect(value).toMatchObject({ message: 'The body is not valid JSON.' })
    else expect(value).toStrictEqual(JSON.parse(text))
  })

  it('gives the same value as JSON.parse wherever white space stands', () => {
    const gap = fc.integer({ min: 0, max: 30 }).map((length) => ' '.repeat(length))
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4 }),
        fc.array(gap, { minLength: 1 }),
        fc.integer({ min: 1, max: 20 }),
        (value, gaps, piece) => {
          let place = 0
          const text = written(value, 1).replaceAll(/\n *|: /g, (found) => {
            place += 1
            return `${gaps[place % gaps.length] ?? ''}${found.trim()}${gaps[(7 * place) % gaps.length] ?? ''}`
          })
          expect(read(text, MAX_VALUES, piece).value).toStrictEqual(JSON.parse(text))
        },
      ),
    )
  })

  it('refuses a number that would take JSON.parse long', () => {
    const digits = '1'.repeat(MAX_PIECE + 1)
    expect(() => read(`{"a":[${digits}]}`)).toThrow(`a number of more than ${String(MAX_PIECE)} characters`)
    expect(read(`["${digits}"]`).value).toEqual([digits])
  })
})

describe('what we wrote ourselves', () => {
  const turnsOf = (text: string): { turns: number; value: unknown } => {
    const work = parseStored(text)
    for (let turns = 0; ; turns += 1) {
      const step = work.next()
      if (step.done === true) return { turns, value: step.value }
    }
  }

  test('is read in pieces, with more values than any body may have', () => {
    const text = JSON.stringify(Array.from({ length: 2 * MAX_VALUES }, (_, n) => n))
    const { turns, value } = turnsOf(text)
    expect(JSON.stringify(value) === text).toBe(true)
    expect(turns).toBeGreaterThanOrEqual(Math.floor(text.length / (2 * MAX_PIECE)))
  })

  test('is read although it is nested deeper than any body may be', () => {
    const text = `${'['.repeat(1_000)}"${'x'.repeat(2 * MAX_PIECE)}"${']'.repeat(1_000)}`
    expect(JSON.stringify(turnsOf(text).value)).toBe(text)
  })
})
