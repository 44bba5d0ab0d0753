/** Lists of rows as parameters: they arrive as they were sent, whatever their elements are. */
import { expect, onTestFinished, test } from 'vitest'
import { openBench } from './bench.suite.ts'
import { addressOf, codeOf, connect } from './connection.ts'
import { columnsOf } from './rows.ts'
import { Wire } from './wire.ts'

const bench = await openBench()

async function openWire(): Promise<Wire> {
  const wire = new Wire(await connect(addressOf(bench.url, 'public'), 'work'), { syncs: 'each', answerMs: 0 })
  onTestFinished(() => {
    wire.drop()
  })
  return wire
}

const TYPED = {
  name: 'typed',
  text: `SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::integer[], $4::double precision[], $5::boolean[]) AS n (a, b, c, d, e)`,
}
/** The type follows from the other side, and is not named. */
const UNTYPED = { name: 'untyped', text: `SELECT $1 = '{"a\\"b",NULL,7}'::text[]` }

const ROWS = [
  ['{"a":"b\\c"}', -9_007_199_254_740_991, -2_147_483_648, -0.5, true],
  ['', 4_294_967_296, 2_147_483_647, 1e21, false],
  [null, null, null, null, null],
  ['häß€😀', -1, 0, 0, true],
  [7, 1_792_238_400_123, -1, Infinity, false],
  ['NULL', 0, 1, 2, null],
  ['x'.repeat(70_000), 9_007_199_254_740_991, 1, 2, true],
]

test('of every type, with nulls, quotes and texts of any length', async () => {
  const wire = await openWire()
  const { rows } = await wire.query(TYPED, columnsOf(ROWS, 5))
  expect(rows).toEqual(ROWS.map(([text, ...rest]) => [text === 7 ? '7' : text, ...rest]))
  expect((await wire.query(TYPED, columnsOf(ROWS.slice(0, 2), 5))).rows).toEqual(ROWS.slice(0, 2))
  expect((await wire.query(TYPED, columnsOf([], 5))).rows).toEqual([])
})

test('as text where the statement does not name their type', async () => {
  const wire = await openWire()
  const [list] = columnsOf([['a"b'], [null], [7]], 1)
  expect((await wire.query(UNTYPED, [list])).rows).toEqual([[true]])
})

test.each([
  ['a fraction among whole numbers', ['a', 1.5, 1, 1, true], '22P02'],
  ['a number that is too large', ['a', 1, 2 ** 31, 1, true], '22003'],
  ['a word among numbers', ['a', 'many', 1, 1, true], '22P02'],
])('%s is refused by the database, and the connection goes on', async (_, row, code) => {
  const wire = await openWire()
  const refused = wire.query(TYPED, columnsOf([...ROWS, row], 5)).then(
    () => null,
    (error: unknown) => codeOf(error),
  )
  expect(await refused).toBe(code)
  expect((await wire.query(TYPED, columnsOf([ROWS[0] ?? []], 5))).rows).toEqual([ROWS[0]])
})
