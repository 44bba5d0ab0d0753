// The picture of a record: one panel per kind of work, a bar per contender, the longest bar as wide as the panel. Where
// less is better, a bar beyond five times the next one is cut, so that the others can be read.
import { median } from './statistics.mjs'
import { number } from './text.mjs'

const SHOWN = ['enqueue-1', 'enqueue-50', 'bulk-1000', 'process-10', 'process-100', 'idle-p50']
const CLASSES = {
  'curfew-sqlite': 'sqlite',
  'curfew-postgres': 'postgres',
}

const [WIDTH, MARGIN, GAP] = [960, 24, 32]
const [TOP, TITLE, BAR, STEP] = [88, 26, 14, 21]
const PANEL = (WIDTH - 2 * MARGIN - GAP) / 2
const [NAME, VALUE] = [164, 62]
const LONGEST = PANEL - NAME - VALUE
const CUT = 5

const DURABLE =
  'AOF everysec may lose the last second of answered jobs when the power fails; all others have them on the disk.'

const STYLE = `
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e } .rule { stroke: #d1d9e0 }
  .sqlite { fill: #0b6e4f } .postgres { fill: #4fb286 } .peer { fill: #afb8c1 } .gap { fill: #ffffff }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
  .head { font-size: 20px; font-weight: 600 } .title { font-size: 13px; font-weight: 600 } .own { font-weight: 600 }
  .number { font-variant-numeric: tabular-nums }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .rule { stroke: #3d444d }
    .sqlite { fill: #3fd39b } .postgres { fill: #1f8a63 } .peer { fill: #656c76 } .gap { fill: #0d1117 }
  }`

/** SVG text. `tables` that are missing are left out, and so are contenders without a figure. */
export function picture({ tables, machine, versions }) {
  const panels = SHOWN.flatMap((id) => tables.find((table) => table.id === id && table.entries.length > 0) ?? [])
  const drawn = []
  let y = TOP
  for (let at = 0; at < panels.length; at += 2) {
    const pair = panels.slice(at, at + 2).map((table) => ({ table, bars: barsOf(table) }))
    pair.forEach((one, column) => drawn.push(panel(one, MARGIN + column * (PANEL + GAP), y)))
    y += TITLE + STEP * Math.max(...pair.map(({ bars }) => bars.length)) + 22
  }
  const height = y + 54
  const peers = [
    `BullMQ ${versions.bullmq}`,
    `Redis ${versions.redis}`,
    `graphile-worker ${versions['graphile-worker']}`,
    `pg-boss ${versions['pg-boss']}`,
  ]
  const told = `${machine.cores} × ${machine.cpu}, Node ${machine.node}; ${peers.join(', ')}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title">`,
    `<title id="title">Curfew beside BullMQ, graphile-worker and pg-boss</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="page" width="${WIDTH}" height="${height}" rx="8"/>`,
    text(MARGIN, 38, 'ink head', 'Curfew beside its peers'),
    text(MARGIN, 58, 'soft', 'Each through its own client library; medians of rounds taken in turn on one machine'),
    ...drawn,
    `<line class="rule" x1="${MARGIN}" x2="${WIDTH - MARGIN}" y1="${y - 4}" y2="${y - 4}"/>`,
    text(MARGIN, y + 18, 'soft', DURABLE),
    text(MARGIN, y + 36, 'soft', told),
    '</svg>',
    '',
  ].join('\n')
}

/** Label, figure and length (0 to 1) of each bar, in the order of the table. */
export function barsOf({ better, entries }) {
  const shown = entries.filter(({ kind }) => kind !== 'limit')
  const values = shown.map((entry) => median(entry.values))
  const [most, next = most] = [...values].sort((a, b) => b - a)
  const cut = better === 'lower' && most > CUT * next
  const scale = cut ? next * 1.25 : most
  return shown.map(({ contender, label }, place) => ({
    label,
    kind: CLASSES[contender] ?? 'peer',
    value: values[place],
    length: Math.min(1, values[place] / scale),
    cut: cut && values[place] === most,
  }))
}

function panel({ table: { title, unit, better }, bars }, x, y) {
  const hint = better === 'lower' ? `${unit}, less is better` : unit
  const lines = [
    `<text class="ink title" x="${x}" y="${y + 12}">${escaped(title)} <tspan class="soft" font-weight="400">${hint}</tspan></text>`,
  ]
  bars.forEach(({ label, kind, value, length, cut }, place) => {
    const top = y + TITLE + place * STEP
    const width = Math.max(2, Math.round(length * LONGEST))
    const own = kind === 'peer' ? '' : ' own'
    lines.push(text(x, top + 11, `ink${own}`, label))
    lines.push(`<rect class="${kind}" x="${x + NAME}" y="${top}" width="${width}" height="${BAR}" rx="2"/>`)
    if (cut) lines.push(`<path class="gap" d="M${x + NAME + width - 24} ${top + BAR}l6 -${BAR}h5l-6 ${BAR}z"/>`)
    lines.push(text(x + NAME + width + 6, top + 11, `ink number${own}`, number(value)))
  })
  return lines.join('\n')
}

const text = (x, y, classes, content) => `<text class="${classes}" x="${x}" y="${y}">${escaped(content)}</text>`

const escaped = (content) => content.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
