/** What a board shows of all jobs together: series of the past, and the pulse of now. */
import {
  after,
  badField,
  before,
  days,
  instant,
  iso,
  millis,
  oneOf,
  parseDuration,
  parseMoment,
  QUEUE_SHAPE,
  RESOLUTIONS,
  SERIES_KINDS,
  SERIES_METRICS,
  SERIES_OUTCOMES,
  SeriesView,
  slotAt,
  text,
  TIMESTAMP_SCHEMA,
  TYPE_SHAPE,
  type Instant,
  type JsonSchema,
  type Resolution,
  type SeriesBy,
  type SeriesMetric,
  type SeriesQuestion,
  type Shape,
} from '@curfew/core'
import { inPieces } from '../../engine/kernel/turns.ts'
import { collectSlots } from '../../engine/series/collect.ts'
import { SAVE_EVERY_MS } from '../../engine/series/keeper.ts'
import type { PulseFrame } from '../../engine/series/pulse.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import { queryOf, type Call, type Route } from '../api/route.ts'
import { sse } from './event-routes.ts'
import { frame } from './stream.ts'

// ---- Shapes ----

const MOMENT_SCHEMA: JsonSchema = {
  type: 'string',
  pattern: `^(?:-(?:\\d+(?:\\.\\d+)?(?:ms|s|m|h|d))+|-P.+|${String(TIMESTAMP_SCHEMA['pattern']).slice(1, -1)})$`,
  description: 'An RFC 3339 timestamp, or a length before now such as -15m or -24h',
  examples: ['-1h', '2030-01-01T00:00:00Z'],
}

/** An instant in the past, told from now or by the clock. */
type Asked = { readonly agoMs: number } | { readonly at: Instant }

const pastMoment: Shape<Asked> = {
  json: MOMENT_SCHEMA,
  read(value, at) {
    const written = typeof value === 'string' ? value : ''
    const agoMs = written.startsWith('-') ? parseDuration(written.slice(1)) : null
    if (agoMs !== null) return { agoMs }
    const named = written.startsWith('+') ? null : parseMoment(written, instant(0), false)
    if (named !== null) return { at: named.at }
    throw badField(at, `${at} must be a length before now ("-1h") or an RFC 3339 timestamp ("2030-01-01T00:00:00Z").`)
  },
}

export const resolved = (asked: Asked, now: Instant): Instant =>
  'at' in asked ? asked.at : before(now, millis(Math.min(asked.agoMs, now)))

const METRICS = Object.keys(SERIES_METRICS) as SeriesMetric[]
const GROUPS: readonly SeriesBy[] = ['outcome', 'queue', 'type', 'kind', 'source']

const SERIES_QUERY = {
  metric: oneOf(...METRICS),
  by: oneOf(...GROUPS),
  from: pastMoment,
  to: pastMoment,
  step: oneOf(...RESOLUTIONS.map(({ name }) => name)),
  queue: QUEUE_SHAPE,
  type: TYPE_SHAPE,
  outcome: oneOf(...SERIES_OUTCOMES, 'cut'),
  kind: oneOf(...SERIES_KINDS),
  source: text({ maxLength: 50 }),
} as const

// ---- Series ----

async function series(call: Call): Promise<Answer> {
  const now = call.engine.now()
  const asked = questionOf(call, now)
  const view = new SeriesView(asked)
  const { resolution, from, to } = asked
  const { documents, servers, isWhole, until } = await collectSlots(call.engine, resolution, from, to, (at, tally) => {
    view.add(at, tally)
  })
  const answer = await inPieces(call.engine.host, view.answer())
  return {
    media: JSON_MEDIA,
    body: JSON.stringify({
      ...answer,
      servers,
      examined: documents,
      complete: isWhole,
      ...(isWhole ? {} : { looked_until: iso(until) }),
      saved_every_ms: SAVE_EVERY_MS,
      computed_at: iso(now),
    }),
  }
}

function questionOf(call: Call, now: Instant): SeriesQuestion {
  const read = queryOf(call, SERIES_QUERY)
  const { metric = 'throughput' } = read
  const groups: readonly SeriesBy[] = SERIES_METRICS[metric]
  const by = read.by ?? (metric === 'throughput' && read.outcome === undefined ? 'outcome' : null)
  for (const name of GROUPS)
    if ((by === name || read[name] !== undefined) && !groups.includes(name))
      throw badField(by === name ? 'by' : name, `${metric} is not counted by ${name}; it is by ${groups.join(', ')}.`)
  const only: Partial<Record<SeriesBy, string>> = {}
  for (const name of GROUPS) if (read[name] !== undefined) only[name] = read[name]
  // Jobs that start and jobs that end are not to be added up.
  if (metric === 'throughput' && by !== 'outcome') only.outcome ??= 'completed'
  return { metric, by, only, ...rangeOf(read, now) }
}

type Range = Pick<SeriesQuestion, 'resolution' | 'from' | 'to'>

function rangeOf(
  { from: asked = { agoMs: 3_600_000 }, to: end, step }: { from?: Asked; to?: Asked; step?: Resolution['name'] },
  now: Instant,
): Range {
  const from = resolved(asked, now)
  const to = end === undefined ? now : resolved(end, now)
  if (from > now) throw badField('from', 'from must not lie in the future.')
  if (to < from) throw badField('to', 'to must not be before from.')
  if (to > after(now, days(1))) throw badField('to', 'to must not lie in the future.')
  const keeps = ({ keptMs, stepMs }: Resolution): boolean =>
    slotAt(from, { stepMs }) >= before(before(now, keptMs), stepMs)
  const resolution = RESOLUTIONS.find((each) => (step === undefined ? keeps(each) : each.name === step))
  if (resolution === undefined || !keeps(resolution)) {
    const kept = RESOLUTIONS.map(({ name, keptMs }) => `${name} for ${String(keptMs / 3_600_000)} hours`).join(', ')
    throw badField('from', `from is further back than the series is kept: ${kept}.`)
  }
  const first = slotAt(from, resolution)
  const last = instant(Math.min(to, now))
  return { resolution, from: first, to: after(slotAt(last, resolution), resolution.stepMs) }
}

// ---- Pulse ----

async function* pulseText(frames: AsyncIterable<PulseFrame>): AsyncIterable<string> {
  yield 'retry: 1000\n\n'
  for await (const { id, event, data } of frames) yield frame({ id: String(id), event, data })
}

export const SERIES_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/board/series',
    tag: 'board',
    summary: 'Throughput, waits, durations, timeouts or overshoot over time, of all servers together',
    query: SERIES_QUERY,
    handle: series,
  },
  {
    method: 'GET',
    path: '/api/v1/board/pulse',
    tag: 'board',
    summary: 'Counts, rates, lateness and workers once a second, as Server-Sent Events',
    handle: ({ engine, request }) => sse(pulseText(engine.pulse.frames(request.signal))),
  },
]
