/** A bounded search for operators: each job in one line, and how far the search has looked. */
import {
  badField,
  endedAt,
  finalLimitOf,
  hardDeadlineAt,
  iso,
  JOB_QUERY_SHAPES,
  lastWorker,
  readCursor,
  readJobQuery,
  softDeadlineAt,
  text,
  totalAt,
  type Failure,
  type Fields,
  type Instant,
  type Job,
} from '@curfew/core'
import { countFound, searchJobs } from '../../engine/series/search.ts'
import { JSON_MEDIA, type Answer } from '../api/message.ts'
import { upTo } from '../api/query.ts'
import { queryOf, tenantOf, type Call, type Route } from '../api/route.ts'

const { meta: _meta, ...FILTERS } = JOB_QUERY_SHAPES

const QUERY = {
  ...FILTERS,
  id_prefix: text({ min: 1, pattern: /^[0-9a-f-]{1,36}$/, expected: 'the beginning of a job id, such as "01a1"' }),
  source: text({ min: 1, maxLength: 50 }),
  cursor: text(),
  limit: upTo(1, 200),
} as const

async function search(call: Call): Promise<Answer> {
  const read = queryOf(call, QUERY)
  const filter = { ...readJobQuery((name) => call.query.texts.get(name) ?? null), tenant: tenantOf(call) }
  const cursor = read.cursor === undefined ? null : readCursor(read.cursor, filter)
  const asked = { filter, idPrefix: read.id_prefix ?? '', source: read.source ?? null }
  if (cursor !== null && asked.idPrefix !== '' && !isBelow(cursor, asked.idPrefix))
    throw badField('cursor', 'cursor must be a next_cursor from an earlier answer to the same filter.')
  const found = await searchJobs(call.engine, asked, cursor, read.limit ?? 50)
  const { jobs, examined, until, next } = found
  const fit = await countFound(call.engine, asked, cursor, found)
  return {
    media: JSON_MEDIA,
    body: JSON.stringify({
      items: jobs.map(foundJob),
      total: fit?.total ?? null,
      total_exact: fit?.isExact ?? false,
      examined,
      looked_back_to: until === null ? null : iso(until),
      complete: next === null,
      next_cursor: next,
    }),
  }
}

/** A cursor above everything that begins like this was not given for it; by time, any may be. */
const isBelow = (cursor: string, prefix: string): boolean => cursor.includes('.') || cursor < `${prefix}g`

const isoOrNull = (at: Instant | null): string | null => (at === null ? null : iso(at))

const MAX_MESSAGE = 200

export function foundJob(job: Job): Fields {
  const { hold, limits } = job
  const timeout = hold?.timeout ?? limits.timeout
  const limit = finalLimitOf(job)
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: job.state,
    priority: job.priority,
    attempt: job.attempt,
    max_attempts: job.retry.maxAttempts,
    created_at: iso(job.createdAt),
    scheduled_at: isoOrNull(job.scheduledAt),
    started_at: isoOrNull(job.startedAt),
    next_retry_at: isoOrNull(job.nextRetryAt),
    ended_at: isoOrNull(endedAt(job)),
    worker_id: lastWorker(job),
    error: job.error === null ? null : briefError(JSON.parse(job.error) as Partial<Failure>),
    limits: {
      timeout_ms: timeout.ms,
      timeout_source: timeout.source,
      grace_ms: hold?.grace.ms ?? limits.grace.ms,
      total_ms: limits.total?.ms ?? null,
      total_source: limits.total?.source ?? null,
    },
    deadlines: {
      soft: isoOrNull(softDeadlineAt(job)),
      hard: isoOrNull(hardDeadlineAt(job)),
      total: isoOrNull(totalAt(job)),
    },
    ends: limit === null ? null : { kind: limit.kind, source: limit.source, at: iso(limit.at) },
  }
}

function briefError(error: Partial<Failure>): Fields {
  return {
    type: error.type ?? null,
    message: String(error.message ?? '').slice(0, MAX_MESSAGE),
    timeout_kind: error.timeout_kind ?? null,
    limit_ms: error.limit_ms ?? null,
    elapsed_ms: error.elapsed_ms ?? null,
    source: error.source ?? null,
    overshoot_ms: error.overshoot_ms ?? null,
  }
}

export const SEARCH_ROUTES: readonly Route[] = [
  {
    method: 'GET',
    path: '/api/v1/board/jobs',
    tag: 'board',
    summary: 'Find jobs by the beginning of an id, type, queue, state, error, limit source or time, newest first',
    query: QUERY,
    handle: search,
  },
]
