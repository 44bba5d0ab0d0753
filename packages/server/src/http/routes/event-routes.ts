/** Events: by poll, and as Server-Sent Events that can be resumed with Last-Event-ID. */
import { badField, eventId, OjsError, oneOf, renderEvent, sequenceOfEventId, text, type Job } from '@curfew/core'
import type { Engine } from '../../engine/engine.ts'
import { nextTurn } from '../../engine/kernel/turns.ts'
import type { LogPart, StoredEvent } from '../../store/store.ts'
import { arrayOf, objectOf, type Answer } from '../api/message.ts'
import { commaList, upTo } from '../api/query.ts'
import { param, queryOf, type Call, type Route } from '../api/route.ts'
import { findJob } from './job-routes.ts'
import { matches, type EventFilter } from '../shapes/event-view.ts'
import { EventStream, type Gap } from './stream.ts'

/** A poll looks at no more events than this; the cursor moves on and `has_more` says so. */
const MAX_SCANNED = 20_000
const CHUNK = 1_000

const FILTERS = { types: commaList(), queues: commaList(), job_types: commaList() } as const
/** For browsers, whose EventSource cannot send a header when it begins. */
const RESUME = { last_event_id: text() } as const
const POLL_QUERY = {
  ...FILTERS,
  ...RESUME,
  after: text(),
  limit: upTo(1, 1000),
  order: oneOf('asc', 'desc'),
} as const
const QUEUE_STREAM_QUERY = { types: commaList(), job_types: commaList(), queues: commaList(), ...RESUME } as const
const STREAM_QUERY = {
  channel: text({ pattern: /^(?:all|job:.+|queue:.+)$/, expected: 'job:<id>, queue:<name> or all' }),
  ...FILTERS,
  ...RESUME,
} as const

function filterOf(call: Call): EventFilter {
  const { types = [], queues = [], job_types: jobTypes = [] } = queryOf(call, FILTERS)
  return { types, queues, jobTypes, subject: null }
}

/** The place an event id names. Unknown ids are refused, pruned ones are gone. */
export async function placeOf(engine: Engine, id: string, field: string): Promise<number> {
  const place = sequenceOfEventId(id)
  const { first, last } = await engine.read((reads) => reads.eventBounds())
  if (place === null || place.sequence > last || place.sequence < 1) {
    throw badField(field, `${field} must be the id of an event of this server.`)
  }
  if (place.sequence < first)
    throw new OjsError('gone', 'The event has been pruned; start again without after.', { details: { field } })
  const event = await engine.read((reads) => reads.event(place.sequence))
  if (event?.at !== place.at) throw badField(field, `${field} must be the id of an event of this server.`)
  return place.sequence
}

async function poll(call: Call): Promise<Answer> {
  const { engine } = call
  const filter = filterOf(call)
  const { limit = 100, after = null, order = 'asc' } = queryOf(call, POLL_QUERY)
  const isForward = order === 'asc'
  const { first, last } = await engine.read((reads) => reads.eventBounds())
  const start = after === null ? (isForward ? first - 1 : last + 1) : await placeOf(engine, after, 'after')
  const found: StoredEvent[] = []
  let place = start
  for (let scanned = 0; found.length < limit && scanned < MAX_SCANNED; scanned += CHUNK) {
    if (isForward ? place >= last : place <= first) break
    if (scanned > 0) await nextTurn(engine.host)
    const part = isForward
      ? { above: place, below: Math.min(place + CHUNK, last) + 1 }
      : { above: Math.max(place - CHUNK, first) - 1, below: place }
    place = isForward ? part.below - 1 : part.above + 1
    for (const event of await eventsIn(engine, filter, part, isForward, limit - found.length)) {
      if (!matches(filter, event)) continue
      found.push(event)
      if (found.length < limit) continue
      place = event.sequence
      break
    }
  }
  const bounds = await engine.read((reads) => reads.eventBounds())
  const cursor = await cursorAt(engine, start, place)
  return {
    body: objectOf({
      events: arrayOf(found.map(renderEvent)),
      cursor: JSON.stringify(cursor ?? after),
      has_more: String(isForward ? place < bounds.last : place > bounds.first),
    }),
  }
}

/** What may fit of a part of the log. Only names of types without a wildcard are left to the store. */
function eventsIn(
  engine: Engine,
  { types, queues, jobTypes }: EventFilter,
  part: Pick<LogPart, 'above' | 'below'>,
  isForward: boolean,
  wanted: number,
): Promise<StoredEvent[]> {
  const isPlain = !types.some((type) => type.endsWith('*'))
  const limit = isPlain && queues.length === 0 && jobTypes.length === 0 ? wanted : CHUNK
  const order = isForward ? 'oldest' : 'newest'
  return engine.read((reads) => reads.eventsAmong({ ...part, types: isPlain ? types : [], limit, order }))
}

/** The id of the last event that was looked at on the way from one place to another; null: there was none. */
async function cursorAt(engine: Engine, start: number, place: number): Promise<string | null> {
  const passed =
    place > start
      ? ({ above: start, below: place + 1, order: 'newest' } as const)
      : ({ above: place - 1, below: start, order: 'oldest' } as const)
  const [event] = await engine.read((reads) => reads.eventsAmong({ ...passed, types: [], limit: 1 }))
  return event === undefined ? null : eventId(event.at, event.sequence)
}

/** One stream, of everything that fits; it ends with this job, where one is named. */
async function stream(call: Call, filter: EventFilter, endsWith: Job | null): Promise<Answer> {
  const asked = call.request.headers['last-event-id'] ?? queryOf(call, RESUME).last_event_id ?? ''
  const from = asked === '' ? null : await placeOrGap(call.engine, asked)
  return sse(new EventStream(call.engine, filter, endsWith?.id ?? null).frames(from, call.request.signal))
}

/** A reader that resumes from a pruned or unknown event gets a gap notice, then the oldest events that are kept. */
async function placeOrGap(engine: Engine, id: string): Promise<number | Gap> {
  try {
    return await placeOf(engine, id, 'Last-Event-ID')
  } catch (error) {
    if (error instanceof OjsError && error.code === 'gone') return 'events_pruned'
    if (error instanceof OjsError && error.code === 'invalid_request') return 'unknown_event_id'
    throw error
  }
}

export function sse(body: AsyncIterable<string>): Answer {
  return { media: 'text/event-stream', headers: { 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' }, body }
}

const ALL: EventFilter = { types: [], queues: [], jobTypes: [], subject: null }

async function jobStream(call: Call, id: string): Promise<Answer> {
  const { job } = await findJob({ ...call, params: { id } })
  return stream(call, { ...ALL, subject: id }, job)
}

async function progressStream(call: Call): Promise<Answer> {
  const { job } = await findJob(call)
  return sse(new EventStream(call.engine, { ...ALL, subject: job.id }, job.id).progress(job.id, call.request.signal))
}

export const EVENT_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/ojs/v1/events',
    tag: 'events',
    summary: 'Events, oldest first or (order=desc) newest first; with Accept: text/event-stream, as a stream',
    query: POLL_QUERY,
    answers: { 410: 'The event in after has been pruned' },
    handle: (call) =>
      (call.request.headers['accept'] ?? '').includes('text/event-stream')
        ? stream(call, filterOf(call), null)
        : poll(call),
  },
  {
    method: 'GET',
    path: '/ojs/v1/events/stream',
    tag: 'events',
    summary: 'Events as they happen; channel=job:<id>, queue:<name> or all',
    query: STREAM_QUERY,
    answers: { 404: 'The job does not exist' },
    handle: (call) => {
      const { channel = 'all' } = queryOf(call, STREAM_QUERY)
      if (channel.startsWith('job:')) return jobStream(call, channel.slice(4))
      if (channel.startsWith('queue:')) return stream(call, { ...filterOf(call), queues: [channel.slice(6)] }, null)
      return stream(call, filterOf(call), null)
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/events',
    tag: 'events',
    summary: 'Events of one job as they happen; ends with the job',
    query: RESUME,
    handle: (call) => jobStream(call, param(call, 'id')),
  },
  {
    method: 'GET',
    path: '/ojs/v1/queues/:name/events',
    tag: 'events',
    summary: 'Events of one queue as they happen',
    query: QUEUE_STREAM_QUERY,
    handle: (call) => stream(call, { ...filterOf(call), queues: [param(call, 'name')] }, null),
  },
  {
    method: 'GET',
    path: '/ojs/v1/jobs/:id/progress/stream',
    tag: 'progress',
    summary: 'Progress as it is reported; ends with the job',
    handle: progressStream,
  },
]
