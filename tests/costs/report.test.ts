import { expect, test } from 'vitest'
import { difference, HOW_TO_RECORD, markdown, renewed } from './report.ts'

const PATH = { name: 'a path', jobs: 10 }

function counted(counts: Record<string, number>): Parameters<typeof difference>[2] {
  return { counts, statements: new Map([['SELECT 1', 2]]) }
}

test('counts that are as recorded differ in nothing', () => {
  expect(difference(PATH, { statements: 12, commits: 1 }, counted({ statements: 12, commits: 1 }))).toBeNull()
})

test('a count that changed is marked, beside the recorded one, with all others, the statements and what to do', () => {
  expect(difference(PATH, { statements: 1_200, commits: 1 }, counted({ statements: 1_250, commits: 1 }))).toBe(
    [
      'The costs of "a path" have changed (10 jobs).',
      '',
      '     count       expected  counted  change  per job',
      '  →  statements     1 200    1 250     +50      125',
      '     commits            1        1              0.1',
      '',
      'Statements that ran:',
      '  2×  SELECT 1',
      '',
      HOW_TO_RECORD,
    ].join('\n'),
  )
})

test('a count that fell is a change too: the record follows', () => {
  expect(difference(PATH, { commits: 3 }, counted({ commits: 2 }))).toContain('−1')
})

test('a path or a count that was never recorded, or is no longer counted, is a change', () => {
  expect(difference(PATH, undefined, counted({ commits: 2 }))).toMatch(/→ +commits +none +2/)
  expect(difference(PATH, { commits: 2 }, counted({ commits: 2, syncs: 1 }))).toMatch(/→ +syncs +none +1/)
  expect(difference(PATH, { commits: 2, syncs: 1 }, counted({ commits: 2 }))).toMatch(/→ +syncs +1 +none/)
})

test('a range holds its two ends and nothing beyond', () => {
  const expected = { commits: [2, 4] } as const
  expect(difference(PATH, expected, counted({ commits: 2 }))).toBeNull()
  expect(difference(PATH, expected, counted({ commits: 4 }))).toBeNull()
  expect(difference(PATH, expected, counted({ commits: 5 }))).toMatch(/→ +commits +2 to 4 +5 +\+1/)
  expect(difference(PATH, expected, counted({ commits: 1 }))).toMatch(/→ +commits +2 to 4 +1 +−1/)
})

test('a new record keeps a range that still holds, and forgets counts that are gone', () => {
  expect(renewed({ commits: [2, 4], syncs: [1, 2], parses: 1 }, { commits: 3, syncs: 5 })).toEqual({
    commits: [2, 4],
    syncs: 5,
  })
})

test('the table shows each path as a whole and for each job', () => {
  expect(markdown([{ name: 'a path', jobs: 8, counts: { statements: 1_000, commits: 1 } }])).toBe(
    [
      '| path | | statements | commits |',
      '|---|---|--:|--:|',
      '| a path | all | 1 000 | 1 |',
      '| | per job | 125 | 0.125 |',
    ].join('\n'),
  )
})
