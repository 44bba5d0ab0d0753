/** `curfew incident`: deaths, pauses, timeouts and notes of a window of time, from the same model as the board. */
import {
  elapsed,
  incidentDetails,
  incidentMarkdown,
  instant,
  iso,
  readIncident,
  type EventAnswer,
  type Instant,
  type ReadIncident,
} from '@curfew/core'
import { SettingsError } from '../../settings.ts'
import type { Call, Command } from '../frame/command.ts'
import { EXIT } from '../frame/exit.ts'
import { ONE, wholeOf } from '../frame/flags.ts'
import { countText, rowsText } from '../frame/rows.ts'
import { momentOf, serverTime } from './filter.ts'
import { momentsOf, serverOf, windowFrom } from './show.ts'
import { spark } from './status.ts'

const MAX_SHOWN = 60

interface Window {
  readonly from: Instant
  readonly to: Instant
}

async function run(call: Call): Promise<number> {
  const { flags, terminal } = call
  const shown = wholeOf(flags, 'limit', MAX_SHOWN)
  const server = serverOf(call)
  const to = flags.text('to')
  const window = {
    from: await momentOf(server, flags.text('from') ?? '-1h', '--from'),
    to: to === undefined ? await serverTime(server) : await momentOf(server, to, '--to'),
  }
  if (window.to < window.from) throw new SettingsError('--to must not be before --from.')
  const found = await readIncident((path) => server.call('GET', path), window.from, window.to)
  const form = flags.has('json') ? 'json' : (flags.text('output') ?? 'table')
  if (form === 'json') terminal.write(JSON.stringify(answerOf(found, window), null, 2))
  else if (form === 'markdown') terminal.write(incidentMarkdown(found.events, shown))
  else terminal.write(incidentText(call, found, window, shown))
  return EXIT.fine
}

const answerOf = ({ events, kinds, isPart }: ReadIncident, { from, to }: Window) => ({
  from: iso(from),
  to: iso(to),
  complete: !isPart,
  kinds: kinds.map(({ type, count, firstAt, lastAt }) => ({ type, count, first_at: firstAt, last_at: lastAt })),
  events,
})

function incidentText(call: Call, { events, kinds, isPart }: ReadIncident, window: Window, shown: number): string {
  const when = momentsOf(call)
  const part = isPart ? ['The log is long: its newest part was not read.'] : []
  const span = `${when(iso(window.from))} to ${when(iso(window.to))}`
  if (events.length === 0)
    return [`${span}: no deaths, no pauses, no timeouts, no notes of operators.`, ...part].join('\n')
  const summary = kinds.map(({ type, count, firstAt, lastAt }) => [
    type,
    String(count),
    when(firstAt),
    when(lastAt),
    spark(pointsOf(events, type, window)),
  ])
  const rows = events
    .slice(0, shown)
    .map((event) => [when(event.time), event.type, event.subject, incidentDetails(event)])
  return [
    `${span}: ${countText(events.length, 'event')}`,
    '',
    rowsText([['WHAT', 'EVENTS', 'FIRST', 'LAST', 'OVER TIME'], ...summary], call.terminal),
    '',
    rowsText([['WHEN', 'WHAT', 'SUBJECT', 'DETAILS'], ...rows], call.terminal),
    ...(events.length > shown ? [`The newest ${String(shown)} of ${String(events.length)}. More: --limit`] : []),
    ...part,
  ].join('\n')
}

const COLUMNS = 30

/** How many in each of as many parts of the window. */
function pointsOf(events: readonly EventAnswer[], type: string, { from, to }: Window): number[] {
  const points = Array.from({ length: COLUMNS }, () => 0)
  for (const event of events) {
    if (event.type !== type) continue
    const share = elapsed(from, instant(Date.parse(event.time))) / Math.max(1, elapsed(from, to))
    const place = Math.min(COLUMNS - 1, Math.floor(share * COLUMNS))
    points[place] = (points[place] ?? 0) + 1
  }
  return points
}

export const INCIDENT: Command = {
  name: 'incident',
  summary: 'show what happened in a window of time: deaths, pauses, timeouts, notes of operators',
  more: ['Example: curfew incident --from 2026-11-18T02:00:00Z --to -1h -o markdown'],
  options: {
    ...windowFrom('-1h'),
    limit: { value: 'N', help: `list so many events at most, the newest [${String(MAX_SHOWN)}]` },
    output: {
      short: 'o',
      choices: ['table', 'markdown', 'json'],
      help: 'markdown: the events as a table for a report [table]',
    },
    ...ONE,
  },
  run,
}
