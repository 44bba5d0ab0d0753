/** Filters of jobs on the wire: from a JSON object, or from the parameters of a query, by the same shapes. */
import { badField } from '../../errors.ts'
import { isUuidV7 } from '../../ids.ts'
import { TIMEOUT_KINDS } from '../../job/failures.ts'
import { ANY_JOB, orderOf, type Between, type JobCursor, type JobFilter } from '../../job/job-filter.ts'
import { JOB_STATES } from '../../job/job.ts'
import { instant, type Instant } from '../../time/clock.ts'
import { parseMoment } from '../../time/durations.ts'
import { TIMESTAMP_SCHEMA } from '../time-schemas.ts'
import { canonical } from '../json/canonical.ts'
import { QUEUE_SHAPE, TYPE_SHAPE } from './job-shapes.ts'
import { anyObject, either, list, object, oneOf, text, whole, type Fields, type Shape } from '../shape.ts'

export const TIMESTAMP_SHAPE: Shape<Instant> = {
  json: TIMESTAMP_SCHEMA,
  read(value, at) {
    // Relative moments mean nothing here: what is meant is in the past.
    const read = typeof value === 'string' && !value.startsWith('+') ? parseMoment(value, 0 as Instant, false) : null
    if (read === null) throw badField(at, `${at} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z").`)
    return read.at
  },
}

/** An empty text is refused where it is a filter: left out in silence, it would choose everything. */
const filled = (shape: Shape<string>): Shape<string> => ({
  json: { ...shape.json, minLength: 1 },
  read: (value, at, refuse) => shape.read(value, at, refuse),
})

const COMMON = {
  queue: filled(QUEUE_SHAPE),
  type: filled(TYPE_SHAPE),
  priority: whole(-100, 100),
  error_type: text({ min: 1 }),
  timeout_kind: oneOf(...TIMEOUT_KINDS),
  tag: text({ min: 1 }),
  worker: text({ min: 1 }),
  meta: anyObject(),
  created_after: TIMESTAMP_SHAPE,
  created_before: TIMESTAMP_SHAPE,
  enqueued_after: TIMESTAMP_SHAPE,
  enqueued_before: TIMESTAMP_SHAPE,
  ended_after: TIMESTAMP_SHAPE,
  ended_before: TIMESTAMP_SHAPE,
  since: TIMESTAMP_SHAPE,
  until: TIMESTAMP_SHAPE,
} as const

const state = oneOf(...JOB_STATES)
const states = either(list(state, 1), state, (value) => Array.isArray(value))

export const JOB_FILTER_SHAPE = object({ ...COMMON, state: states }, { unknown: 'refuse' })
/** Dead letters are all in one state; `since` and `until` speak of when they became what they are. */
export const DEAD_LETTER_FILTER_SHAPE = object(COMMON, { unknown: 'refuse' })

const ANY_STATE = `(?:${JOB_STATES.join('|')})`
const SOME_STATES = new RegExp(`^${ANY_STATE}(?: *, *${ANY_STATE})*$`)

/** The same filter as parameters of a query: `state` may name several with commas, `meta` is a JSON object. */
export const JOB_QUERY_SHAPES = {
  ...COMMON,
  state: text({ min: 1, pattern: SOME_STATES, expected: `one of ${JOB_STATES.join(', ')}, or several with commas` }),
  meta: text({ min: 1, expected: 'a JSON object' }),
} as const
export const DEAD_LETTER_QUERY_SHAPES = { ...COMMON, meta: JOB_QUERY_SHAPES.meta } as const

export function readJobFilter(value: unknown, at = 'filter'): JobFilter {
  const read = JOB_FILTER_SHAPE.read(value, at)
  const named = read.state === undefined ? [] : typeof read.state === 'string' ? [read.state] : read.state
  return {
    ...common(read),
    states: [...new Set(named)],
    created: within(read.created_after, read.created_before, read.since, read.until),
  }
}

export function readDeadLetterFilter(value: unknown, at = 'filter'): JobFilter {
  const read = DEAD_LETTER_FILTER_SHAPE.read(value, at)
  return {
    ...common(read),
    states: ['discarded'],
    deadOnly: true,
    ended: within(read.ended_after, read.ended_before, read.since, read.until),
  }
}

/** `parameter`: the value of a parameter by its name; null: it was not sent. */
export function readJobQuery(parameter: (name: string) => string | null): JobFilter {
  return readJobFilter(fieldsOf(JOB_QUERY_SHAPES, parameter), '')
}

export function readDeadLetterQuery(parameter: (name: string) => string | null): JobFilter {
  return readDeadLetterFilter(fieldsOf(DEAD_LETTER_QUERY_SHAPES, parameter), '')
}

function fieldsOf(shapes: object, parameter: (name: string) => string | null): Fields {
  const fields: Record<string, unknown> = {}
  for (const name of Object.keys(shapes)) {
    const value = parameter(name)
    if (value !== null) fields[name] = valueOf(name, value)
  }
  return fields
}

function valueOf(name: string, value: string): unknown {
  switch (name) {
    case 'priority':
      return /^-?\d{1,9}$/.test(value) ? Number(value) : value
    case 'state':
      return value.includes(',') ? value.split(',').map((part) => part.trim()) : value
    case 'meta':
      return objectIn(value)
    default:
      return value
  }
}

function objectIn(value: string): unknown {
  try {
    return JSON.parse(value) as unknown
  } catch {
    throw badField('meta', 'meta must be a JSON object, such as {"customer":"42"}.')
  }
}

type Read = ReturnType<typeof DEAD_LETTER_FILTER_SHAPE.read>

function common(read: Read): JobFilter {
  return {
    ...ANY_JOB,
    queue: read.queue ?? null,
    type: read.type ?? null,
    priority: read.priority ?? null,
    errorType: read.error_type ?? null,
    timeoutKind: read.timeout_kind ?? null,
    tag: read.tag ?? null,
    worker: read.worker ?? null,
    meta: textsOf(read.meta ?? {}),
    enqueued: { after: read.enqueued_after ?? null, before: read.enqueued_before ?? null },
    created: { after: read.created_after ?? null, before: read.created_before ?? null },
    ended: { after: read.ended_after ?? null, before: read.ended_before ?? null },
  }
}

/** Two names for one bound: the narrower one counts. */
function within(after?: Instant, before?: Instant, since?: Instant, until?: Instant): Between {
  return {
    after: after === undefined || (since !== undefined && since > after) ? (since ?? null) : after,
    before: before === undefined || (until !== undefined && until < before) ? (until ?? null) : before,
  }
}

const textsOf = (fields: Fields): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, canonical(JSON.stringify(value))]))

export const cursorText = ({ id, at }: JobCursor): string => (at === null ? id : `${String(at)}.${id}`)

const TIMED = /^(\d{1,15})\.(.+)$/

export function cursorOf(text: string): JobCursor {
  const [, at, id] = TIMED.exec(text) ?? []
  return at === undefined || id === undefined ? { id: text, at: null } : { id, at: Number(at) as Instant }
}

/** How far back a list has come: the time by which it is ordered, or that of the id (UUIDv7). */
export function cursorTime(text: string): Instant {
  const { id, at } = cursorOf(text)
  return at ?? instant(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16))
}

/** Refuses a cursor of another list. */
export function readCursor(value: string, filter: JobFilter): string {
  const { id, at } = cursorOf(value)
  if (isUuidV7(id) && (at === null) === (orderOf(filter) === 'id')) return value
  throw badField('cursor', 'cursor must be a next_cursor from an earlier answer to the same filter.')
}
