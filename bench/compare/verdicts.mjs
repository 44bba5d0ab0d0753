// The floors under Curfew's figures, and whether a run met them.
import { bestPeer, entryOf, median, ratio } from './statistics.mjs'

const beside = (label, figure, ours, theirs, floor) => ({ label, figure, ours, theirs, ...floor })
const alone = (label, figure, ours, floor) => ({ label, figure, ours, ...floor })
const atLeast = (value) => ({ atLeast: value })
const atMost = (value) => ({ atMost: value })

const SQLITE = 'curfew-sqlite'
const POSTGRES = 'curfew-postgres'
const STORES = [
  ['SQLite', SQLITE],
  ['PostgreSQL', POSTGRES],
]

export const FLOORS = [
  beside('SQLite, enqueue 1 ÷ BullMQ always', 'enqueue-1', SQLITE, 'bullmq-always', atLeast(0.9)),
  beside('SQLite, enqueue 50 ÷ BullMQ everysec', 'enqueue-50', SQLITE, 'bullmq-everysec', atLeast(1)),
  beside('SQLite, bulk ÷ best peer', 'bulk-1000', SQLITE, 'best peer', atLeast(0.8)),
  beside('SQLite, process 10 ÷ BullMQ everysec', 'process-10', SQLITE, 'bullmq-everysec', atLeast(1.2)),
  beside('SQLite, process 10 ÷ graphile-worker batching', 'process-10', SQLITE, 'graphile-batching', atLeast(0.7)),
  beside('SQLite, process 100 ÷ BullMQ everysec', 'process-100', SQLITE, 'bullmq-everysec', atLeast(1.2)),
  beside('SQLite, process 100 ÷ graphile-worker batching', 'process-100', SQLITE, 'graphile-batching', atLeast(0.8)),
  beside('SQLite, idle p50 ÷ BullMQ everysec', 'idle-p50', SQLITE, 'bullmq-everysec', atMost(1.2)),
  beside('PostgreSQL, enqueue 1 ÷ pg-boss', 'enqueue-1', POSTGRES, 'pg-boss', atLeast(0.7)),
  beside('PostgreSQL, enqueue 50 ÷ pg-boss', 'enqueue-50', POSTGRES, 'pg-boss', atLeast(4)),
  beside('PostgreSQL, bulk ÷ graphile-worker', 'bulk-1000', POSTGRES, 'graphile', atLeast(0.6)),
  beside(
    'PostgreSQL, process 10 ÷ graphile-worker batching',
    'process-10',
    POSTGRES,
    'graphile-batching',
    atLeast(0.3),
  ),
  beside(
    'PostgreSQL, process 100 ÷ graphile-worker batching',
    'process-100',
    POSTGRES,
    'graphile-batching',
    atLeast(0.4),
  ),
  beside('PostgreSQL, idle p50 ÷ graphile-worker', 'idle-p50', POSTGRES, 'graphile', atMost(1.2)),
  beside('SQLite, plain HTTP POST ÷ bare node:http', 'http-50', SQLITE, 'limit-http', atLeast(0.6)),
  ...STORES.flatMap(([name, id]) => [
    ...['enqueue', 'process'].flatMap((work) => [
      beside(`${name}, ${work}, most ÷ fewest waiting`, `growth-${work}`, `${id}/large`, `${id}/small`, atLeast(0.9)),
      beside(`${name}, ${work}, every limit ÷ none`, `limits-${work}`, `${id}/every`, `${id}/none`, atLeast(0.9)),
    ]),
    alone(`${name}, overshoot p99 idle (ms)`, 'overshoot-idle', id, atMost(5)),
    alone(`${name}, overshoot p99 under full load (ms)`, 'overshoot-load', id, atMost(25)),
    alone(`${name}, earliest decision (ms)`, 'overshoot-least', id, atLeast(0)),
  ]),
]

/** One line per floor: `met`, `missed`, or `not measured`. */
export function verdicts(tables, floors = FLOORS) {
  return floors.map(({ label, figure, ours, theirs, atLeast: least, atMost: most }) => {
    const table = tables.find(({ id }) => id === figure)
    const value = table === undefined ? null : figureOf(table, ours, theirs)
    const floor = least === undefined ? `≤ ${most}` : `≥ ${least}`
    const meets = least === undefined ? value <= most : value >= least
    return { label, value, floor, met: value === null ? 'not measured' : meets ? 'met' : 'missed' }
  })
}

/** A ratio, or the figure itself where there is nothing beside it. */
function figureOf(table, ours, theirs) {
  const own = entryOf(table, ours)
  if (theirs === undefined) return own === undefined ? null : median(own.values)
  return ratio(own, theirs === 'best peer' ? bestPeer(table) : entryOf(table, theirs))
}
