/** A window of time as an operator looks at it afterwards: deaths, pauses, timeouts and notes, by kind and in their order. */

import { lengthInWords } from '../job/timeline/timeline-words.ts'

/** An event as the API answers it. */
export interface EventAnswer {
  readonly id: string
  readonly type: string
  readonly time: string
  readonly subject: string
  readonly data: Readonly<Record<string, unknown>>
}

/** What an operator noted, such as a deploy. */
export interface NoteAnswer {
  readonly id: string
  readonly time: string
  readonly text: string
  readonly by: string | null
}

/** What is worth a look afterwards; the rest of the log is everyday work. */
const TYPES: readonly string[] = [
  ...['worker.died', 'worker.quiet', 'worker.started', 'worker.stopped'],
  ...['queue.paused', 'queue.draining', 'queue.resumed', 'operator.action'],
  ...['job.timeout', 'job.total_timeout', 'job.ttl_expired', 'job.expired', 'job.stalled', 'journey.timeout'],
  ...['backpressure.rejected', 'backpressure.dropped', 'webhook.dead', 'workflow.failed'],
]
const MAX_CALLS = 20
const MAX_NOTES = 50
const NOTE = 'note'

export interface IncidentKind {
  readonly type: string
  readonly count: number
  readonly isBad: boolean
  readonly firstAt: string
  readonly lastAt: string
}

export interface Incident {
  /** Newest first. */
  readonly events: readonly EventAnswer[]
  readonly kinds: readonly IncidentKind[]
}

export interface ReadIncident extends Incident {
  /** The log was not read to its end. */
  readonly isPart: boolean
}

interface Page {
  readonly events: readonly EventAnswer[]
  readonly cursor: string | null
  readonly has_more: boolean
}

/** Asks a server by `get`. The log is read from its end back to the begin of the window. Bounded, and honest about it. */
export async function readIncident(
  get: (path: string) => Promise<unknown>,
  fromMs: number,
  toMs: number,
): Promise<ReadIncident> {
  const { items: notes } = (await get(`/api/v1/annotations?limit=${String(MAX_NOTES)}`)) as {
    items: readonly NoteAnswer[]
  }
  const events: EventAnswer[] = []
  const incident = (isPart: boolean): ReadIncident => {
    return { ...incidentOf([...events].reverse(), notes, fromMs, toMs), isPart }
  }
  let after = ''
  for (let calls = 0; calls < MAX_CALLS; calls += 1) {
    const page = (await get(`/ojs/v1/events?types=${TYPES.join(',')}&order=desc&limit=1000${after}`)) as Page
    const within = page.events.filter(({ time }) => Date.parse(time) >= fromMs)
    events.push(...within)
    const isPast = within.length < page.events.length
    if (isPast || !page.has_more || page.cursor === null) return incident(false)
    after = `&after=${encodeURIComponent(page.cursor)}`
  }
  return incident(true)
}

/** What lies within the window. Times are milliseconds since the epoch. */
export function incidentOf(
  log: readonly EventAnswer[],
  notes: readonly NoteAnswer[],
  fromMs: number,
  toMs: number,
): Incident {
  const isWithin = ({ time }: { readonly time: string }): boolean =>
    Date.parse(time) >= fromMs && Date.parse(time) <= toMs
  const events = [...log, ...notes.map(eventOf)]
    .filter(isWithin)
    // The log has the order of what happened in the same millisecond.
    .map((event, place) => ({ event, place, at: Date.parse(event.time) }))
    .sort((one, other) => other.at - one.at || other.place - one.place)
    .map(({ event }) => event)
  const types = [...new Set(events.map(({ type }) => type))].sort()
  return { events, kinds: types.map((type) => kindOf(type, events)) }
}

const eventOf = ({ id, time, text, by }: NoteAnswer): EventAnswer => ({
  id,
  time,
  type: NOTE,
  subject: by ?? 'operator',
  data: { text },
})

function kindOf(type: string, events: readonly EventAnswer[]): IncidentKind {
  const own = events.filter((event) => event.type === type)
  return {
    type,
    count: own.length,
    isBad: /timeout|died|stalled|expired|failed|dead/.test(type),
    firstAt: own.at(-1)?.time ?? '',
    lastAt: own[0]?.time ?? '',
  }
}

const DETAILS = ['text', 'job_type', 'queue', 'timeout_kind', 'limit_ms', 'source', 'overshoot_ms', 'action', 'token']

/** What an event says besides its subject, in a few words. */
export function incidentDetails({ data }: EventAnswer): string {
  return DETAILS.flatMap((name) => {
    const value = data[name]
    if (typeof value !== 'string' && typeof value !== 'number') return []
    if (name === 'text') return [String(value)]
    const [words, shown] =
      typeof value === 'number' && name.endsWith('_ms')
        ? [name.slice(0, -'_ms'.length), lengthInWords(value)]
        : [name, String(value)]
    return [`${words.replaceAll('_', ' ')} ${shown}`]
  }).join(', ')
}

/** The newest `most` of them as a table, the oldest first. */
export const incidentMarkdown = (events: readonly EventAnswer[], most: number): string =>
  [
    '| when | what | subject | details |',
    '|---|---|---|---|',
    ...events
      .slice(0, most)
      .reverse()
      .map((event) => `| ${event.time} | ${event.type} | ${cell(event.subject)} | ${cell(incidentDetails(event))} |`),
  ].join('\n')

/** Text in a cell of a Markdown table. */
const cell = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
