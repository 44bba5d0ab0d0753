/** Which jobs a bulk action means: what they have in common (OJS bulk operations §6.1, admin API §8, dead letter §6.2). */
import { badField } from './errors.ts'
import type { Instant } from './clock.ts'
import { parseMoment } from './durations.ts'
import { JOB_STATES, type Job, type JobState } from './job.ts'
import { membersOf } from './json-text.ts'
import { anyObject, either, list, object, oneOf, text, whole, type Fields, type Shape } from './shape.ts'
import { canonical } from './unique.ts'

export interface BulkFilter {
  readonly queue: string | null
  readonly type: string | null
  readonly states: readonly JobState[]
  readonly priority: number | null
  readonly errorType: string | null
  /** JSON texts by key: all of them must be in the metadata of a job. */
  readonly meta: Readonly<Record<string, string>>
  readonly deadOnly: boolean
  /** Both exclusive. */
  readonly enqueued: Between
  readonly created: Between
  readonly discarded: Between
}

interface Between {
  readonly after: Instant | null
  readonly before: Instant | null
}

const moment: Shape<Instant> = {
  json: { type: 'string', format: 'date-time' },
  read(value, at) {
    // Relative moments mean nothing here: the jobs are in the past.
    const read = typeof value === 'string' && !value.startsWith('+') ? parseMoment(value, 0 as Instant, false) : null
    if (read === null) throw badField(at, `${at} must be an RFC 3339 timestamp with a zone ("2030-01-01T00:00:00Z").`)
    return read.at
  },
}

const COMMON = {
  queue: text({ min: 1 }),
  type: text({ min: 1 }),
  priority: whole(-100, 100),
  error_type: text({ min: 1 }),
  meta: anyObject(),
  enqueued_before: moment,
  enqueued_after: moment,
  since: moment,
  until: moment,
} as const

const state = oneOf(...JOB_STATES)
const states = either(list(state, 1), state, (value) => Array.isArray(value))

export const BULK_FILTER_SHAPE = object({ ...COMMON, state: states }, { unknown: 'refuse' })
/** Dead letters are all in one state; `since` and `until` speak of when they became what they are. */
export const DEAD_LETTER_FILTER_SHAPE = object(COMMON, { unknown: 'refuse' })

export function readBulkFilter(value: unknown, byDefault: readonly JobState[], at = 'filter'): BulkFilter {
  const read = BULK_FILTER_SHAPE.read(value, at)
  const named = read.state === undefined ? byDefault : typeof read.state === 'string' ? [read.state] : read.state
  return {
    ...common(read),
    states: [...new Set(named)],
    created: { after: read.since ?? null, before: read.until ?? null },
  }
}

export function readDeadLetterFilter(value: unknown, at = 'filter'): BulkFilter {
  const read = DEAD_LETTER_FILTER_SHAPE.read(value, at)
  return {
    ...common(read),
    states: ['discarded'],
    deadOnly: true,
    discarded: { after: read.since ?? null, before: read.until ?? null },
  }
}

type Read = ReturnType<typeof DEAD_LETTER_FILTER_SHAPE.read>

function common(read: Read): Omit<BulkFilter, 'states'> {
  return {
    queue: read.queue ?? null,
    type: read.type ?? null,
    priority: read.priority ?? null,
    errorType: read.error_type ?? null,
    meta: textsOf(read.meta ?? {}),
    deadOnly: false,
    enqueued: { after: read.enqueued_after ?? null, before: read.enqueued_before ?? null },
    created: ANY_TIME,
    discarded: ANY_TIME,
  }
}

const ANY_TIME: Between = { after: null, before: null }

const textsOf = (fields: Fields): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, canonical(JSON.stringify(value))]))

export function matches(filter: BulkFilter, job: Job): boolean {
  return (
    filter.states.includes(job.state) &&
    (filter.queue === null || job.queue === filter.queue) &&
    (filter.type === null || job.type === filter.type) &&
    (filter.priority === null || job.priority === filter.priority) &&
    (!filter.deadOnly || job.deadLetter) &&
    isBetween(job.enqueuedAt, filter.enqueued) &&
    isBetween(job.createdAt, filter.created) &&
    isBetween(job.discardedAt, filter.discarded) &&
    hasError(job, filter.errorType) &&
    hasMeta(job, filter.meta)
  )
}

/** What never happened lies at no time. */
function isBetween(at: Instant | null, { after, before }: Between): boolean {
  if (after === null && before === null) return true
  return at !== null && (after === null || at > after) && (before === null || at < before)
}

function hasError({ error }: Job, type: string | null): boolean {
  if (type === null) return true
  return error !== null && (JSON.parse(error) as { type?: unknown }).type === type
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
