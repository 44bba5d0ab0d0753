/**
 * Which jobs are meant: one filter for lists and for bulk actions (OJS bulk operations §6.1, admin API §8, dead letter
 * §6.2). It is read from a JSON object or from the parameters of a query by the same shapes. `matches` says what it means;
 * a store only finds the candidates.
 */
import { QUEUE_SHAPE, TYPE_SHAPE } from '../wire/envelope.ts'
import { badField } from '../errors.ts'
import type { Instant } from '../time/clock.ts'
import { parseMoment, TIMESTAMP_SCHEMA } from '../time/durations.ts'
import { TIMEOUT_KINDS, type TimeoutKind } from './failures.ts'
import { isUuidV7 } from '../ids.ts'
import { JOB_STATES, type Job, type JobState } from './job.ts'
import { membersOf } from '../wire/json-text.ts'
import { readLife, type LifeEntry } from './life.ts'
import { anyObject, either, list, object, oneOf, text, whole, type Fields, type Shape } from '../wire/shape.ts'
import { canonical } from './unique.ts'

export interface JobFilter {
  readonly queue: string | null
  readonly type: string | null
  /** Empty: any. */
  readonly states: readonly JobState[]
  readonly tenant: string | null
  readonly priority: number | null
  /** Of the last error. */
  readonly errorType: string | null
  readonly timeoutKind: TimeoutKind | null
  /** One of the job's tags. */
  readonly tag: string | null
  /** The worker that holds the job, or made its last attempt. */
  readonly worker: string | null
  /** JSON texts by key: all of them must be in the metadata of a job. No store has an index of it. */
  readonly meta: Readonly<Record<string, string>>
  readonly deadOnly: boolean
  readonly enqueued: Between
  readonly created: Between
  readonly ended: Between
}

/** Both exclusive. */
export interface Between {
  readonly after: Instant | null
  readonly before: Instant | null
}

const ANY_TIME: Between = { after: null, before: null }

export const ANY_JOB: JobFilter = {
  queue: null,
  type: null,
  states: [],
  tenant: null,
  priority: null,
  errorType: null,
  timeoutKind: null,
  tag: null,
  worker: null,
  meta: {},
  deadOnly: false,
  enqueued: ANY_TIME,
  created: ANY_TIME,
  ended: ANY_TIME,
}

// ---- Reading ----

const moment: Shape<Instant> = {
  json: TIMESTAMP_SCHEMA,
  read(value, at) {
    // Relative moments mean nothing here: the jobs are in the past.
    const read = typeof value === 'string' && !value.startsWith('+') ? parseMoment(value, 0 as Instant, false) : null
    if (read === null) throw badField(at, `${at} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z").`)
    return read.at
  },
}

/** An empty text is refused where it is a filter: left out in silence, it would choose everything. */
const filled = (shape: Shape<string>): Shape<string> => ({
  json: { ...shape.json, minLength: 1 },
  read: (value, at) => shape.read(value, at),
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
  created_after: moment,
  created_before: moment,
  enqueued_after: moment,
  enqueued_before: moment,
  ended_after: moment,
  ended_before: moment,
  since: moment,
  until: moment,
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

/** Whether the filter names nothing by which jobs are told apart: then it means all of them. */
export function meansAll(filter: JobFilter): boolean {
  return (
    filter.states.length === 0 &&
    filter.queue === null &&
    filter.type === null &&
    filter.priority === null &&
    filter.errorType === null &&
    filter.timeoutKind === null &&
    filter.tag === null &&
    filter.worker === null &&
    !hasMetaFilter(filter) &&
    isAnyTime(filter.enqueued) &&
    isAnyTime(filter.created) &&
    isAnyTime(filter.ended)
  )
}

export const isAnyTime = ({ after, before }: Between): boolean => after === null && before === null
export const hasMetaFilter = ({ meta }: JobFilter): boolean => Object.keys(meta).length > 0

// ---- Meaning ----

export function matches(filter: JobFilter, job: Job): boolean {
  return (
    (filter.states.length === 0 || filter.states.includes(job.state)) &&
    (filter.queue === null || job.queue === filter.queue) &&
    (filter.type === null || job.type === filter.type) &&
    (filter.tenant === null || job.tenant === filter.tenant) &&
    (filter.priority === null || job.priority === filter.priority) &&
    (!filter.deadOnly || job.deadLetter) &&
    isBetween(job.enqueuedAt, filter.enqueued) &&
    isBetween(job.createdAt, filter.created) &&
    isBetween(endedAt(job), filter.ended) &&
    (filter.errorType === null || errorKeys(job).type === keyOf(filter.errorType)) &&
    (filter.timeoutKind === null || errorKeys(job).kind === filter.timeoutKind) &&
    (filter.worker === null || lastWorker(job) === filter.worker) &&
    (filter.tag === null || tagKeys(job).includes(keyOf(filter.tag))) &&
    hasMeta(job, filter.meta)
  )
}

/** What never happened lies at no time. */
function isBetween(at: Instant | null, between: Between): boolean {
  const { after, before } = between
  if (isAnyTime(between)) return true
  return at !== null && (after === null || at > after) && (before === null || at < before)
}

function hasMeta({ body }: Job, wanted: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(wanted)
  if (keys.length === 0) return true
  const meta = membersOf(membersOf(`{${body}}`).get('meta')?.value ?? '{}')
  return keys.every((key) => {
    const member = meta.get(key)
    return member !== undefined && canonical(member.value) === wanted[key]
  })
}

// ---- What jobs are found by ----

/** An index holds no longer texts: longer ones are told apart by their beginning. */
const MAX_KEY = 200

export const keyOf = (text: string): string => text.slice(0, MAX_KEY)

/** When it was completed, cancelled or discarded: at most one of them is set. */
export const endedAt = ({ completedAt, cancelledAt, discardedAt }: Job): Instant | null =>
  completedAt ?? cancelledAt ?? discardedAt

export interface ErrorKeys {
  readonly type: string | null
  readonly kind: TimeoutKind | null
}

export const NO_ERROR: ErrorKeys = { type: null, kind: null }

export function errorKeys({ error }: Pick<Job, 'error'>): ErrorKeys {
  if (error === null) return NO_ERROR
  const read = JSON.parse(error) as { type?: unknown; timeout_kind?: unknown } | null
  const [type, kind] = [read?.type, read?.timeout_kind]
  return {
    type: typeof type === 'string' ? keyOf(type) : null,
    kind: TIMEOUT_KINDS.find((known) => known === kind) ?? null,
  }
}

/** Each once. Most jobs have none, which is seen without reading what was sent. */
export function tagKeys({ body }: Pick<Job, 'body'>): readonly string[] {
  if (!body.includes('"tags"')) return NO_TAGS
  const value = membersOf(`{${body}}`).get('tags')?.value
  if (value === undefined) return NO_TAGS
  const tags = JSON.parse(value) as unknown
  if (!Array.isArray(tags)) return NO_TAGS
  return [...new Set(tags.filter((tag) => typeof tag === 'string').map(keyOf))]
}

const NO_TAGS: readonly string[] = []

/** Who holds it, or held it last; null: an attempt without a worker's id, or none at all. */
export function lastWorker(job: Pick<Job, 'hold' | 'closedBy' | 'lease' | 'life'>): string | null {
  if (job.hold !== null) return job.hold.workerId
  if (job.closedBy !== null) return job.closedBy.workerId
  if (job.lease === 0) return null
  const entries: readonly (LifeEntry | null)[] = readLife(job)
  return entries.findLast((entry) => entry?.to === 'active')?.worker ?? null
}

// ---- The order of a list ----

/**
 * Newest first: by id, unless the filter asks for times, and then by these. The order depends on the filter alone, so
 * that a cursor always fits.
 */
export type JobOrder = 'id' | 'created' | 'ended'

export function orderOf({ created, ended }: JobFilter): JobOrder {
  return !isAnyTime(ended) ? 'ended' : !isAnyTime(created) ? 'created' : 'id'
}

/** A place in a list: what is listed after this job. */
export interface JobCursor {
  readonly id: string
  /** Null in a list by id. */
  readonly at: Instant | null
}

export function placeIn(filter: JobFilter, job: Job): JobCursor {
  const order = orderOf(filter)
  return { id: job.id, at: order === 'id' ? null : order === 'created' ? job.createdAt : endedAt(job) }
}

export const cursorText = ({ id, at }: JobCursor): string => (at === null ? id : `${String(at)}.${id}`)

const TIMED = /^(\d{1,15})\.(.+)$/

export function cursorOf(text: string): JobCursor {
  const [, at, id] = TIMED.exec(text) ?? []
  return at === undefined || id === undefined ? { id: text, at: null } : { id, at: Number(at) as Instant }
}

/** Refuses a cursor of another list. */
export function readCursor(value: string, filter: JobFilter): string {
  const { id, at } = cursorOf(value)
  if (isUuidV7(id) && (at === null) === (orderOf(filter) === 'id')) return value
  throw badField('cursor', 'cursor must be a next_cursor from an earlier answer to the same filter.')
}
