/** Jobs, their lists and refusals as answers show them, as JSON Schema: the members that are always there, and the forms of those that often are. */
import { CLOCK_KINDS, ERROR_CODES, JOB_STATES, type JsonSchema } from '@curfew/core'
import {
  ANY,
  COUNT,
  FLAG,
  listOf,
  mapOf,
  members,
  type Members,
  nullable,
  NUMBER,
  OBJECT,
  resource,
  TEXT,
  TIME,
  TRUE,
} from './schema-parts.ts'

// ---- Refusals ----

export const ERROR = resource('Error', {
  error: members(
    { code: { type: 'string', enum: ERROR_CODES }, message: TEXT, retryable: FLAG, request_id: TEXT },
    { type: TEXT, details: OBJECT, hint: TEXT, docs_url: TEXT },
  ),
})

/** RFC 9457; `details` of an error are members of their own. */
export const PROBLEM = resource(
  'Problem',
  { type: TEXT, title: TEXT, status: { type: 'integer', minimum: 400, maximum: 599 }, detail: TEXT, code: TEXT },
  { retryable: FLAG, hint: TEXT, request_id: TEXT, instance: TEXT, reason: TEXT },
)

// ---- Jobs ----

export const STATE: JsonSchema = { type: 'string', enum: JOB_STATES }

export const LIMITS = resource('Limits', { timeout_ms: COUNT, on_timeout: TEXT, sources: mapOf(TEXT) }, {})

/** The limit that ended an attempt, and how late that was decided. */
const LIMIT_FACTS: Members = {
  timeout_kind: TEXT,
  limit_seconds: NUMBER,
  limit_ms: COUNT,
  elapsed_seconds: NUMBER,
  elapsed_ms: COUNT,
  source: TEXT,
  soft_limit: TEXT,
  deadline: TIME,
  overshoot_ms: COUNT,
  late_ms: COUNT,
  downtime_ms: COUNT,
  excused_ms: COUNT,
  early_ms: COUNT,
}

export const FAILURE = resource(
  'JobError',
  { type: TEXT, message: TEXT },
  { code: TEXT, retryable: FLAG, attempt: COUNT, occurred_at: TIME, details: ANY, ...LIMIT_FACTS },
)

export const ENDING = resource(
  'Ending',
  { attempt: COUNT, type: TEXT },
  { ...LIMIT_FACTS, handed_back: TRUE, predicted: TRUE, no_retry: TEXT, cause: ANY, cancelled_by: TEXT },
)

export const HELD_BY = members(
  { kind: { type: 'string', enum: ['paused_queue', 'queue_limit', 'key_limit'] }, name: TEXT },
  { until: TIME, awaits_end: TRUE, on_limit: { type: 'string', enum: ['drop', 'reschedule'] } },
)

export const NEXT_STEP = resource(
  'NextStep',
  { kind: { type: 'string', enum: [...CLOCK_KINDS] }, at: TIME, limit: TEXT, source: TEXT, then: TEXT },
  { latest_at: TIME, limit_ms: COUNT, state: STATE, attempt: COUNT },
)

export const CLOCK = resource(
  'Clock',
  {
    kind: { type: 'string', enum: [...CLOCK_KINDS] },
    limit: TEXT,
    source: TEXT,
    since: TIME,
    until: TIME,
    renewable: FLAG,
  },
  { limit_ms: COUNT, asked_by: TEXT, credited_ms: COUNT, cut_by: TEXT },
)

export const LOG = resource('JobLog', {
  lines: listOf(members({ at: TIME, attempt: COUNT, message: TEXT }, { fields: OBJECT, cut: TRUE })),
  dropped: COUNT,
})

export const JOB = resource(
  'Job',
  {
    specversion: TEXT,
    id: TEXT,
    type: TEXT,
    queue: TEXT,
    args: { type: 'array' },
    meta: OBJECT,
    priority: { type: 'integer' },
    state: STATE,
    attempt: COUNT,
    max_attempts: COUNT,
    created_at: TIME,
    x_limits: LIMITS,
  },
  {
    enqueued_at: TIME,
    started_at: TIME,
    completed_at: TIME,
    cancelled_at: TIME,
    discarded_at: TIME,
    next_retry_at: TIME,
    worker_id: TEXT,
    error: FAILURE,
    errors: listOf(FAILURE),
    result: ANY,
    x_lease: COUNT,
    x_purge_at: TIME,
    x_log: LOG,
  },
)

export const ONE_JOB = members({ job: JOB })

/** As `core/wire/board-job.ts` writes it: instants and lengths in milliseconds, members named as in the record. */
export const BOARD_JOB = resource('JobRecord', {
  format: COUNT,
  now: COUNT,
  job: OBJECT,
  worker: nullable(OBJECT),
  workerTimeoutMs: COUNT,
  outages: listOf(members({ from: COUNT, to: COUNT })),
  signs: nullable(members({ since: COUNT, beats: listOf(COUNT), late: listOf(OBJECT) })),
  checkpointAt: nullable(COUNT),
  steps: listOf(members({ name: TEXT, attempt: COUNT, from: COUNT, to: COUNT, isSleep: FLAG })),
  queue: nullable(OBJECT),
  isHeld: FLAG,
  place: nullable(members({ ahead: COUNT, isExact: FLAG })),
  heldBy: nullable(HELD_BY),
})

export const PAGINATION = resource(
  'Pagination',
  { total: COUNT, limit: COUNT, offset: COUNT, has_more: FLAG, page: COUNT, per_page: COUNT },
  { next_cursor: TEXT },
)

export const CURSOR_PAGINATION = members({ limit: COUNT, has_more: FLAG }, { next_cursor: TEXT })
export const page = (key: string, items: JsonSchema): JsonSchema =>
  members({ [key]: listOf(items), pagination: PAGINATION })

/** What of a request has no effect, or works against itself. */
export const WARNED = { x_warnings: listOf(TEXT) } as const

/** A job that was enqueued: whole, or by `Prefer: return=minimal` what the caller cannot know. */
export const ENQUEUED: JsonSchema = {
  anyOf: [JOB, resource('JobReceipt', { id: TEXT, state: STATE }, { deduplicated: TRUE, ...WARNED })],
}

const ITEM = members(
  { index: COUNT, status: { enum: ['created', 'existing', 'failed'] } },
  { job: ENQUEUED, error: OBJECT },
)

export const BULK = resource(
  'BulkResult',
  { total: COUNT, succeeded: COUNT, failed: COUNT, items: listOf(ITEM) },
  WARNED,
)

export const ACTED = resource(
  'BulkActionResult',
  { total_matched: COUNT, skipped: COUNT, items: listOf(members({ index: COUNT, job_id: TEXT, status: TEXT })) },
  { cancelled: COUNT, retried: COUNT, deleted: COUNT, x_items_omitted: COUNT },
)

export const ADMIN_ACTED = resource('BulkSummary', {
  action: TEXT,
  matched: COUNT,
  succeeded: COUNT,
  failed: COUNT,
  errors: listOf(members({ job_id: TEXT, code: TEXT, error: TEXT })),
})

export const CLOSED = members({ id: TEXT, job_id: TEXT, state: STATE, job: JOB }, { already: TRUE })

export const PROGRESS = members({
  job_id: TEXT,
  state: STATE,
  progress: nullable(NUMBER),
  message: nullable(TEXT),
  data: ANY,
  updated_at: nullable(TIME),
})

export const CHECKPOINT = members(
  { state: ANY, sequence: COUNT, created_at: TIME },
  { step_index: COUNT, metadata: OBJECT },
)
