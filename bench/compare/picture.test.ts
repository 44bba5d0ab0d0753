/** The picture of a comparison, drawn from a record. */
import { expect, test } from 'vitest'
import { barsOf, picture } from './picture.mjs'

interface Bar {
  readonly label: string
  readonly length: number
  readonly cut: boolean
}
const drawnBars = (table: typeof rates) => barsOf(table) as Bar[]

const entry = (contender: string, kind: string, value: number) => ({
  contender,
  label: contender,
  kind,
  values: [value, value, value],
})

const rates = {
  id: 'enqueue-1',
  row: 'enqueue-1',
  title: 'Enqueue, 1 in flight',
  unit: 'jobs/s',
  better: 'higher',
  entries: [
    entry('curfew-sqlite', 'curfew', 500),
    entry('bullmq-everysec', 'peer', 9_000),
    entry('limit-http', 'limit', 20_000),
  ],
}
const times = {
  ...rates,
  id: 'idle-p50',
  unit: 'ms',
  better: 'lower',
  title: 'Idle <p50> & more',
  entries: [entry('curfew-sqlite', 'curfew', 2), entry('graphile', 'peer', 4), entry('pg-boss', 'peer', 250)],
}
const record = {
  machine: { cores: 2, cpu: 'Some CPU', node: 'v20.0.0' },
  versions: { bullmq: '1.0.0', redis: '7', 'graphile-worker': '0.1', 'pg-boss': '10' },
  tables: [rates, times],
}

test('the longest bar belongs to the fastest contender, also when that is a peer', () => {
  expect(drawnBars(rates).map(({ label, length, cut }) => [label, length.toFixed(3), cut])).toEqual([
    ['curfew-sqlite', '0.056', false],
    ['bullmq-everysec', '1.000', false],
  ])
})

test('a time far beyond the others is cut, and its figure is still there', () => {
  const bars = drawnBars(times)
  expect(bars.map(({ length }) => length)).toEqual([0.4, 0.8, 1])
  expect(bars.map(({ cut }) => cut)).toEqual([false, false, true])
  expect(picture(record)).toContain('>250</text>')
})

test('a row without figures has no panel', () => {
  const drawn = picture({ ...record, tables: [rates, { ...times, entries: [] }] })
  expect(drawn).toContain('Enqueue, 1 in flight')
  expect(drawn).not.toContain('Idle')
})

test('titles and labels are escaped, and every element is closed', () => {
  const drawn = picture(record)
  expect(drawn).toContain('Idle &lt;p50&gt; &amp; more')
  const opened = drawn.match(/<(svg|title|style|text|tspan)\b/g)?.length
  expect(drawn.match(/<\/(svg|title|style|text|tspan)>/g)).toHaveLength(opened ?? -1)
})

test('both colour schemes have a colour for each class', () => {
  const [light = '', dark = ''] = picture(record).split('@media (prefers-color-scheme: dark)')
  for (const name of ['page', 'ink', 'soft', 'rule', 'sqlite', 'postgres', 'peer', 'gap'])
    for (const scheme of [light, dark]) expect(scheme).toMatch(new RegExp(`\\.${name} \\{ (fill|stroke): #`))
})
