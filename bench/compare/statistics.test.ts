/** The figures of a comparison: medians, ratios of rounds, tables, and the floors. */
import { expect, test } from 'vitest'
import { merged } from './record.mjs'
import { tablesOf } from './rounds.mjs'
import { bestPeer, ratio, spread } from './statistics.mjs'
import { bars, number, padded, tableLines } from './text.mjs'
import { verdicts } from './verdicts.mjs'

const entry = (contender: string, kind: string, values: number[]) => ({ contender, label: contender, kind, values })

const table = (id: string, entries: ReturnType<typeof entry>[], better = 'higher') => ({
  id,
  row: id,
  title: id,
  unit: better === 'higher' ? 'jobs/s' : 'ms',
  better,
  entries,
})

test('a spread is the median with the lowest and the highest round', () => {
  expect(spread([30, 10, 20])).toEqual({ median: 20, min: 10, max: 30 })
  expect(spread([10, 20]).median).toBe(15)
})

test('a ratio compares round with round, so a machine that slows down does not change it', () => {
  const [ours, theirs] = [entry('a', 'curfew', [100, 50, 10]), entry('b', 'peer', [200, 100, 20])]
  expect(ratio(ours, theirs)).toBe(0.5)
  expect(ratio(entry('a', 'curfew', [90, 10, 40]), entry('b', 'peer', [200, 20, 10]))).toBe(0.5)
})

test('a ratio with a side that was not measured gives no figure', () => {
  expect(ratio(undefined, entry('b', 'peer', [1]))).toBeNull()
  expect(ratio(entry('a', 'curfew', [1]), entry('b', 'peer', []))).toBeNull()
})

test('the best peer has the highest rate or the shortest time, and is never a limit or Curfew', () => {
  const entries = [
    entry('curfew-sqlite', 'curfew', [9]),
    entry('slow', 'peer', [2]),
    entry('fast', 'peer', [5]),
    entry('limit-http', 'limit', [90]),
  ]
  expect(bestPeer(table('bulk-1000', entries))?.contender).toBe('fast')
  expect(bestPeer(table('idle-p50', entries, 'lower'))?.contender).toBe('slow')
})

test('a contender without rounds does not appear in a table, and costs appear only where every round has them', () => {
  const row = { id: 'r', figures: [{ id: 'f', title: 'F', unit: 'jobs/s', better: 'higher' }] }
  const found = [
    { contender: 'a', label: 'A', kind: 'peer', rounds: [{ f: { value: 1, clientUs: 5, serverUs: null } }] },
    { contender: 'b', label: 'B', kind: 'peer', rounds: [] },
  ]
  expect(tablesOf(row, found)[0]?.entries).toEqual([
    { contender: 'a', label: 'A', kind: 'peer', values: [1], clientUs: [5] },
  ])
})

test('a table shows the ratio of Curfew to each other contender', () => {
  const lines = tableLines(
    table('enqueue-1', [
      entry('curfew-sqlite', 'curfew', [300, 500]),
      entry('curfew-postgres', 'curfew', [200, 200]),
      entry('pg-boss', 'peer', [400, 400]),
    ]),
  )
  expect(lines).toEqual([
    ['', 'median (jobs/s)', 'min – max', 'SQLite ÷ it', 'PostgreSQL ÷ it'],
    ['curfew-sqlite', '400', '300 – 500', '', '0.53'],
    ['curfew-postgres', '200', '200 – 200', '2.00', ''],
    ['pg-boss', '400', '400 – 400', '1.00', '0.50'],
  ])
})

test('variants of one contender are divided by its first one, not by that of another', () => {
  const variant = (contender: string, of: string, values: number[]) => ({ ...entry(contender, 'curfew', values), of })
  const lines = tableLines(
    table('growth-process', [
      variant('s/small', 's', [10]),
      variant('s/large', 's', [9]),
      variant('p/small', 'p', [4]),
      variant('p/large', 'p', [2]),
    ]),
  ) as string[][]
  expect(lines.map((line) => line.at(-1))).toEqual(['÷ its first', '', '0.90', '', '0.50'])
})

test('columns of figures are aligned to the right, and as Markdown they have bars', () => {
  const lines = [
    ['', 'n'],
    ['ab', '1'],
    ['c', '1 000'],
  ]
  expect(padded(lines)).toBe('        n\nab      1\nc   1 000')
  expect(bars(lines)).toBe('|  | n |\n| --- | --: |\n| ab | 1 |\n| c | 1 000 |')
})

test('numbers are short, and what is missing is a dash', () => {
  expect([0.8512, 12.34, 123.4, 1234567, null].map(number)).toEqual(['0.85', '12.3', '123', '1 234 567', '–'])
})

test('a floor is met at its value, missed below it, and not measured without both sides', () => {
  const floors = [
    { label: 'rate', figure: 'bulk-1000', ours: 'curfew-sqlite', theirs: 'best peer', atLeast: 0.8 },
    { label: 'too slow', figure: 'bulk-1000', ours: 'curfew-sqlite', theirs: 'pg-boss', atLeast: 0.9 },
    { label: 'late', figure: 'overshoot-idle', ours: 'curfew-sqlite', atMost: 5 },
    { label: 'absent', figure: 'bulk-1000', ours: 'curfew-sqlite', theirs: 'graphile', atLeast: 0.1 },
    { label: 'no table', figure: 'idle-p50', ours: 'curfew-sqlite', theirs: 'graphile', atMost: 1 },
  ]
  const tables = [
    table('bulk-1000', [entry('curfew-sqlite', 'curfew', [8]), entry('pg-boss', 'peer', [10])]),
    table('overshoot-idle', [entry('curfew-sqlite', 'curfew', [6])], 'lower'),
  ]
  const judged = verdicts(tables, floors) as { met: string; value: number | null }[]
  expect(judged.map(({ met, value }) => [met, value])).toEqual([
    ['met', 0.8],
    ['missed', 0.8],
    ['missed', 6],
    ['not measured', null],
    ['not measured', null],
  ])
})

test('rows that are taken again replace the recorded ones and leave the others', () => {
  const older = { tables: [table('enqueue-1', [entry('a', 'peer', [1])]), table('gone', [])] }
  const run = { machine: {}, versions: {}, rounds: 5, skipped: [], tables: [table('bulk-1000', [])] }
  const again = merged(older, run, ['enqueue-1', 'bulk-1000']) as { tables: ReturnType<typeof table>[] }
  expect(again.tables.map(({ id }) => id)).toEqual(['enqueue-1', 'bulk-1000'])
  const replaced = merged(again, { ...run, tables: [table('enqueue-1', [entry('b', 'peer', [2])])] }, [
    'enqueue-1',
  ]) as { tables: ReturnType<typeof table>[] }
  expect(replaced.tables.map(({ entries }) => entries[0]?.contender)).toEqual(['b'])
})
