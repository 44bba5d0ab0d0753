/** What docs/expressions.md says is so. */
import { readFileSync } from 'node:fs'
import { clockFrom } from '@curfew/core'
import { describe, expect, test } from 'vitest'
import { EXPRESSION_ERRORS } from '../engine/expressions.ts'
import { nodeHost } from '../host.ts'
import { InProcessExpressions } from './in-process.ts'

const page = readFileSync(new URL('../../../../docs/expressions.md', import.meta.url), 'utf8')
const limits = { maxEvalMs: 5_000 }
const expressions = new InProcessExpressions({ host: nodeHost, clock: clockFrom(nodeHost), random: () => 0.5 }, limits)

const document = {
  payload: {
    items: [
      { sku: 'a', price: 1, kind: 'x' },
      { sku: 'b', price: 5, kind: 'y' },
    ],
    lists: [[1, 2], [3]],
    a: { p: 1 },
    b: { q: 2 },
    name: 'n,m',
  },
}
const evaluate = (text: string) => expressions.evaluate('jsonata', text, document, { budgetMs: 60_000 })

describe('the table for readers who know DataWeave', () => {
  const table = page.split('Coming from DataWeave:')[1]?.split('Coming from jq')[0] ?? ''
  const rows = [...table.matchAll(/^\| `(.+?)` \| (.+) \|$/gm)].map(([, from = '', to = '']) => ({ from, to }))
  const expected: Readonly<Record<string, unknown>> = {
    'payload.items map (i) -> i.price': [1, 5],
    'payload.items map { id: $.sku }': [{ id: 'a' }, { id: 'b' }],
    'payload.items filter ($.price > 3)': document.payload.items[1],
    'payload.items groupBy $.kind': { x: document.payload.items[0], y: document.payload.items[1] },
    'payload.items orderBy $.price': document.payload.items,
    'payload.items reduce ((i, sum = 0) -> sum + i.price)': 6,
    'payload.a ++ payload.b': { p: 1, q: 2 },
    'payload.x default "none"': 'none',
    'if (a) b else c': null,
    'upper(payload.name)': 'N,M',
    'payload.name splitBy ","': ['n', 'm'],
    'now()': expect.stringMatching(/^20.*Z$/),
    'sizeOf(payload.items)': 2,
    'flatten(payload.lists)': [1, 2, 3],
  }

  test('has a row for each that is checked', () => {
    expect(rows.map(({ from }) => from).sort()).toEqual(Object.keys(expected).sort())
  })

  for (const { from, to } of rows) {
    test(from, async () => {
      for (const [, text = ''] of to.matchAll(/`([^`]+)`/g)) expect(await evaluate(text)).toEqual(expected[from])
    })
  }
})

test('the errors are those there are', () => {
  const codes = [...page.matchAll(/^\| `(JN_\w+)` \|/gm)].map(([, code]) => code)
  expect(codes.sort()).toEqual([...EXPRESSION_ERRORS].sort())
})

describe('the surprises', () => {
  test.each([
    ['payload.items[price > 3]', { sku: 'b', price: 5, kind: 'y' }],
    ['payload.items[price > 3][]', [{ sku: 'b', price: 5, kind: 'y' }]],
    ['$exists(null)', true],
    ['null ?? 5', null],
    ['null ?: 5', 5],
    ['0 ?: 5', 5],
    ['payload.lists[0]', [1, 2]],
    ['payload.items.sku[0]', ['a', 'b']],
    ['(payload.items.sku)[0]', 'a'],
  ])('%s', async (text, value) => {
    expect(await evaluate(text)).toEqual(value)
  })
})
