/**
 * What routes answer, as JSON Schema: the members that are always there, and the forms of those that often are. Answers
 * may grow new members; clients must ignore those they do not know. `tests/scenarios/contract.test.ts` holds every answer
 * it gets against these.
 */
import { CLOCK_KINDS, ERROR_CODES, JOB_STATES, ROLES, WORKFLOW_STATES, type JsonSchema } from '@curfew/core'

export interface Described {
  /** Of every success, as JSON; null: an answer without a body, or one that is not JSON. */
  readonly body: JsonSchema | null
  /** Instead of JSON, or (with a body) besides. */
  readonly media?: string
  /** Statuses whose body is not the one every success or every refusal has. */
  readonly others?: Readonly<Record<number, JsonSchema | null>>
  /** A definition may choose any status. */
  readonly anyStatus?: boolean
}

type Members = Readonly<Record<string, JsonSchema>>

const TEXT: JsonSchema = { type: 'string' }
const FLAG: JsonSchema = { type: 'boolean' }
const COUNT: JsonSchema = { type: 'integer', minimum: 0 }
const NUMBER: JsonSchema = { type: 'number' }
const OBJECT: JsonSchema = { type: 'object' }
const ANY: JsonSchema = {}
const TIME: JsonSchema = { type: 'string', format: 'date-time' }
const TRUE: JsonSchema = { const: true }

const nullable = ({ type, ...rest }: JsonSchema): JsonSchema => ({ type: [type, 'null'], ...rest })
const listOf = (items: JsonSchema): JsonSchema => ({ type: 'array', items })
const mapOf = (values: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties: values })

function members(always: Members, sometimes: Members = {}): JsonSchema {
  return { type: 'object', properties: { ...always, ...sometimes }, required: Object.keys(always) }
}

/** Said once in the description, and referred to by name. */
function resource(title: string, always: Members, sometimes: Members = {}): JsonSchema {
  return { title, ...members(always, sometimes) }
}

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

const STATE: JsonSchema = { type: 'string', enum: JOB_STATES }
const LIMITS = resource('Limits', { timeout_ms: COUNT, on_timeout: TEXT, sources: mapOf(TEXT) }, {})
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
const FAILURE = resource(
  'JobError',
  { type: TEXT, message: TEXT },
  { code: TEXT, retryable: FLAG, attempt: COUNT, occurred_at: TIME, details: ANY, ...LIMIT_FACTS },
)
const ENDING = resource(
  'Ending',
  { attempt: COUNT, type: TEXT },
  { ...LIMIT_FACTS, handed_back: TRUE, predicted: TRUE, no_retry: TEXT, cause: ANY, cancelled_by: TEXT },
)
const HELD_BY = members(
  { kind: { type: 'string', enum: ['paused_queue', 'queue_limit', 'key_limit'] }, name: TEXT },
  { until: TIME, awaits_end: TRUE, on_limit: { type: 'string', enum: ['drop', 'reschedule'] } },
)
const NEXT_STEP = resource(
  'NextStep',
  { kind: { type: 'string', enum: [...CLOCK_KINDS] }, at: TIME, limit: TEXT, source: TEXT, then: TEXT },
  { latest_at: TIME, limit_ms: COUNT, state: STATE, attempt: COUNT },
)
const CLOCK = resource(
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
const JOB = resource(
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
  },
)
const ONE_JOB = members({ job: JOB })
/** As `core/wire/board-job.ts` writes it: instants and lengths in milliseconds, members named as in the record. */
const BOARD_JOB = resource('JobRecord', {
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
const PAGINATION = resource(
  'Pagination',
  { total: COUNT, limit: COUNT, offset: COUNT, has_more: FLAG, page: COUNT, per_page: COUNT },
  { next_cursor: TEXT },
)
const CURSOR_PAGINATION = members({ limit: COUNT, has_more: FLAG }, { next_cursor: TEXT })
const page = (key: string, items: JsonSchema): JsonSchema => members({ [key]: listOf(items), pagination: PAGINATION })

/** What of a request has no effect, or works against itself. */
const WARNED = { x_warnings: listOf(TEXT) } as const
/** A job that was enqueued: whole, or by `Prefer: return=minimal` what the caller cannot know. */
const ENQUEUED: JsonSchema = {
  anyOf: [JOB, resource('JobReceipt', { id: TEXT, state: STATE }, { deduplicated: TRUE, ...WARNED })],
}
const ITEM = members(
  { index: COUNT, status: { enum: ['created', 'existing', 'failed'] } },
  { job: ENQUEUED, error: OBJECT },
)
const BULK = resource('BulkResult', { total: COUNT, succeeded: COUNT, failed: COUNT, items: listOf(ITEM) }, WARNED)
const ACTED = resource(
  'BulkActionResult',
  { total_matched: COUNT, skipped: COUNT, items: listOf(members({ index: COUNT, job_id: TEXT, status: TEXT })) },
  { cancelled: COUNT, retried: COUNT, deleted: COUNT, x_items_omitted: COUNT },
)
const ADMIN_ACTED = resource('BulkSummary', {
  action: TEXT,
  matched: COUNT,
  succeeded: COUNT,
  failed: COUNT,
  errors: listOf(members({ job_id: TEXT, code: TEXT, error: TEXT })),
})
const CLOSED = members({ id: TEXT, job_id: TEXT, state: STATE, job: JOB }, { already: TRUE })
const PROGRESS = members({
  job_id: TEXT,
  state: STATE,
  progress: nullable(NUMBER),
  message: nullable(TEXT),
  data: ANY,
  updated_at: nullable(TIME),
})
const CHECKPOINT = members({ state: ANY, sequence: COUNT, created_at: TIME }, { step_index: COUNT, metadata: OBJECT })

// ---- Workers and queues ----

const WORKER_VIEW: Members = {
  worker_id: TEXT,
  state: TEXT,
  directive: TEXT,
  queues: { type: ['array', 'null'] },
  active_jobs: COUNT,
  active_job_ids: listOf(TEXT),
  last_heartbeat_at: nullable(TIME),
  last_seen_at: TIME,
  registered: FLAG,
}
const WORKER = resource('Worker', WORKER_VIEW)
const BEAT = members({
  state: TEXT,
  directive: TEXT,
  acknowledged: TRUE,
  server_time: TIME,
  jobs_extended: listOf(TEXT),
  x_cancel_jobs: listOf(members({ job_id: TEXT, reason: TEXT }, { x_lease: COUNT })),
})
const REPORTED = listOf(members({ job_id: TEXT, ok: FLAG }, { state: TEXT, status: COUNT, error: OBJECT }))
const QUEUE_STATUS: JsonSchema = { enum: ['active', 'paused', 'draining'] }
const COUNTS = resource('Counts', Object.fromEntries(JOB_STATES.map((state) => [state, COUNT])))
const QUEUE = resource(
  'Queue',
  { name: TEXT, status: QUEUE_STATUS, state: QUEUE_STATUS, paused: FLAG, counts: COUNTS },
  { created_at: TIME, paused_at: TIME, draining_at: TIME, drained: FLAG },
)
const QUEUE_CHANGED = members({ queue: members({ name: TEXT, paused: FLAG, status: QUEUE_STATUS }), name: TEXT })
const LIMITER = members({ concurrency: { type: ['object', 'null'] }, active: COUNT, waiting: COUNT, window: OBJECT })
const POOL = resource('Pool', { name: TEXT, strategy: TEXT, queues: listOf(TEXT), created_at: TIME, updated_at: TIME })

// ---- Cron, workflows, webhooks, schemas, events ----

const CRON = resource(
  'Cron',
  { name: TEXT, expression: TEXT, timezone: TEXT, overlap_policy: TEXT, enabled: FLAG, type: TEXT, queue: TEXT },
  { next_run_at: nullable(TIME), last_run_at: nullable(TIME), run_count: COUNT, job_template: OBJECT },
)
const ONE_CRON = members({ cron: CRON, cron_job: CRON }, { job: JOB, waiting: TRUE, deleted: TRUE })
const WORKFLOW_HEAD: Members = { id: TEXT, type: TEXT, state: { type: 'string', enum: WORKFLOW_STATES } }
const WORKFLOW = resource('Workflow', WORKFLOW_HEAD)
const ONE_WORKFLOW = members({ workflow: WORKFLOW, ...WORKFLOW_HEAD })
const SUBSCRIPTION_VIEW: Members = { id: TEXT, url: TEXT, events: listOf(TEXT), active: FLAG, timeout: NUMBER }
const SUBSCRIPTION = resource('Subscription', SUBSCRIPTION_VIEW, { secret: TEXT, created_at: TIME, updated_at: TIME })
const ONE_SUBSCRIPTION = members({ subscription: SUBSCRIPTION, ...SUBSCRIPTION_VIEW })
const DELIVERY = resource('Delivery', {
  id: TEXT,
  subscription_id: TEXT,
  event_id: TEXT,
  event_type: TEXT,
  status: TEXT,
  attempts: COUNT,
  created_at: TIME,
})
const SCHEMA_HEAD: Members = {
  uri: TEXT,
  type: TEXT,
  job_type: TEXT,
  version: { type: ['string', 'integer'] },
  created_at: TIME,
}
const SCHEMA = resource('Schema', SCHEMA_HEAD, { schema: ANY })
const SCHEMA_VERSIONS = members({ type: TEXT, versions: listOf(members({ ...SCHEMA_HEAD, is_latest: FLAG })) })
const SCHEMA_DELETED = members({ deleted: TRUE, ...SCHEMA_HEAD })
const EVENT = resource('Event', {
  specversion: TEXT,
  id: TEXT,
  type: TEXT,
  source: TEXT,
  time: TIME,
  subject: TEXT,
  data: OBJECT,
})

// ---- Definitions and runs ----

const DEFINITION_HEAD: Members = { name: TEXT, version: TEXT, kind: TEXT, effectiveMaxDurationSec: NUMBER }
const RUN_HEAD: Members = { journeyId: TEXT, journeyName: TEXT, journeyVersion: TEXT, kind: TEXT, phase: TEXT }
const RUN_TIMES: Members = { startedAt: TIME, deadlineAt: TIME, effectiveMaxDurationSec: NUMBER, limitedBy: TEXT }
const RUN = resource(
  'Run',
  { ...RUN_HEAD, currentState: TEXT, updatedAt: TIME, ...RUN_TIMES, remainingMs: NUMBER, tags: listOf(TEXT) },
  { endedAt: TIME, attributes: mapOf(TEXT), _links: OBJECT },
)
const OUTCOME = resource(
  'Outcome',
  { ...RUN_HEAD, status: TEXT, output: ANY, error: { type: ['object', 'null'] }, terminationKind: TEXT, ...RUN_TIMES },
  { endedAt: TIME, outcomeId: TEXT },
)
const OUTCOME_OR_RUN: JsonSchema = { anyOf: [OUTCOME, RUN] }
const POLICY = resource('JobTypePolicy', { type: TEXT, updated_at: TIME })

const HEALTH = resource(
  'Health',
  { status: { enum: ['ok', 'degraded'] }, server_version: TEXT, server_time: TIME, backend: OBJECT },
  { queues: OBJECT, workers: OBJECT },
)
const READY = members({ status: { enum: ['ready', 'not_ready'] } })
const WORKER_HEALTH = members({ worker_id: TEXT, state: TEXT, healthy: FLAG, active_jobs: COUNT })

const json = (body: JsonSchema, others: Readonly<Record<number, JsonSchema>> = {}): Described => ({ body, others })
const stream = (body: JsonSchema | null = null): Described => ({ body, media: 'text/event-stream' })
const DRY_RUN = resource('DryRun', {
  dry_run: TRUE,
  action: TEXT,
  matched: COUNT,
  would_act_on: COUNT,
  by_state: mapOf(COUNT),
  by_queue: mapOf(COUNT),
  job_ids: listOf(TEXT),
})
const ACTED_ON = json({ anyOf: [ACTED, DRY_RUN] }, { 422: { anyOf: [ACTED, ERROR] } })
const ADMIN_ACTED_ON = json({ anyOf: [ADMIN_ACTED, DRY_RUN] })
const SCHEDULE = resource(
  'Schedule',
  {
    scheduleId: TEXT,
    journeyName: TEXT,
    journeyVersion: TEXT,
    start: TEXT,
    intervalMs: COUNT,
    maxRuns: COUNT,
    runsEnded: COUNT,
  },
  { nextAt: TIME, runId: TEXT, subjectId: TEXT },
)
const STARTED = members({ journeyId: TEXT, journeyName: TEXT, statusUrl: TEXT }, { _links: OBJECT })
const DELETED = (key: string): Described => json(members({ deleted: TRUE, [key]: TEXT }))
const DIRECTED = json(members({ worker_id: TEXT, directive: TEXT, state: TEXT }))
const DEAD_LETTER_STATS = json(members({ total: COUNT, by_queue: mapOf(COUNT) }))

// ---- Access ----

const ROLE_LIST = listOf({ type: 'string', enum: ROLES })
const SESSION = resource('Session', {
  authenticated: FLAG,
  token_required: FLAG,
  name: nullable(TEXT),
  roles: ROLE_LIST,
  via: { enum: ['bearer', 'session', 'open', null] },
  expires_at: nullable(TIME),
})
const TOKEN_FIELDS: Members = {
  name: TEXT,
  roles: ROLE_LIST,
  state: { type: 'string', enum: ['valid', 'revoked'] },
  prefix: nullable(TEXT),
  valid_secrets: COUNT,
  old_secret_until: nullable(TIME),
  created_at: TIME,
  created_by: nullable(TEXT),
  rotated_at: nullable(TIME),
  revoked_at: nullable(TIME),
  last_used_at: nullable(TIME),
}
const TOKEN = resource('Token', TOKEN_FIELDS)
const ISSUED_TOKEN = resource('IssuedToken', { ...TOKEN_FIELDS, token: TEXT })
const OPERATOR_ACTION = resource('OperatorAction', {
  id: TEXT,
  time: TIME,
  token: TEXT,
  via: { type: 'string', enum: ['bearer', 'session'] },
  action: TEXT,
  method: TEXT,
  path: TEXT,
  object: mapOf(TEXT),
  request_id: TEXT,
})

const ANNOTATION = resource('Annotation', { id: TEXT, time: TIME, text: TEXT, by: TEXT })

/** By the method and path of a route (not of its aliases). */
const SERIES_GROUP = resource(
  'SeriesGroup',
  { name: nullable(TEXT), other: FLAG, total: COUNT, points: listOf(COUNT) },
  {
    mean_ms: nullable(NUMBER),
    p50_ms: nullable(NUMBER),
    p95_ms: nullable(NUMBER),
    p99_ms: nullable(NUMBER),
    p50_points: listOf(nullable(NUMBER)),
    p95_points: listOf(nullable(NUMBER)),
    p99_points: listOf(nullable(NUMBER)),
    buckets: listOf(listOf(NUMBER)),
  },
)

const FOUND_JOB = resource('FoundJob', {
  id: TEXT,
  type: TEXT,
  queue: TEXT,
  state: STATE,
  priority: { type: 'integer' },
  attempt: COUNT,
  max_attempts: COUNT,
  created_at: TIME,
  scheduled_at: nullable(TIME),
  started_at: nullable(TIME),
  next_retry_at: nullable(TIME),
  ended_at: nullable(TIME),
  worker_id: nullable(TEXT),
  error: nullable(OBJECT),
  limits: OBJECT,
  deadlines: OBJECT,
  ends: nullable(OBJECT),
})

export const ANSWERS: Readonly<Record<string, Described>> = {
  'GET /openapi.json': { body: OBJECT, media: 'application/json' },
  'GET /ojs/manifest': json(members({ specversion: TEXT, implementation: OBJECT, conformance_level: COUNT })),
  'GET /ojs/v1/health': json(HEALTH, { 503: HEALTH }),
  'GET /ready': json(READY, { 503: READY }),
  'GET /metrics': { body: null, media: 'text/plain' },

  'POST /ojs/v1/jobs': json(members({ job: JOB }, { deduplicated: TRUE })),
  'POST /ojs/v1/jobs/batch': json(members({ jobs: listOf(ENQUEUED), count: COUNT }, WARNED)),
  'POST /ojs/v1/jobs/plan': json(
    members({ limits: LIMITS, wins: listOf(OBJECT), attempts: listOf(OBJECT), warnings: listOf(TEXT) }),
  ),
  'GET /ojs/v1/jobs': json(page('jobs', JOB)),
  'GET /ojs/v1/jobs/:id': json(ONE_JOB),
  'PATCH /ojs/v1/jobs/:id': json(ONE_JOB),
  'DELETE /ojs/v1/jobs/:id': json(ONE_JOB),
  'POST /ojs/v1/jobs/:id/activate': json(ONE_JOB),
  'GET /ojs/v1/jobs/:id/explain': json(
    members({
      job_id: TEXT,
      state: STATE,
      limits: LIMITS,
      spans: listOf(OBJECT),
      endings: listOf(ENDING),
      next: { anyOf: [NEXT_STEP, { type: 'null' }] },
      next_steps: listOf(NEXT_STEP),
      clocks: listOf(CLOCK),
      held_by: nullable(HELD_BY),
      text: TEXT,
    }),
  ),
  'GET /api/v1/board/jobs/:id': json(BOARD_JOB),
  'GET /ojs/v1/jobs/:id/retries': json(
    members({
      job_id: TEXT,
      state: STATE,
      attempt: COUNT,
      max_attempts: COUNT,
      policy: OBJECT,
      retries: listOf(OBJECT),
    }),
  ),
  'GET /ojs/v1/jobs/:id/result': json(members({ job_id: TEXT, state: STATE }, { result: ANY, error: FAILURE })),
  'POST /ojs/v1/jobs/bulk': json(BULK, { 422: { anyOf: [BULK, ERROR] } }),
  'POST /ojs/v1/jobs/bulk/cancel': ACTED_ON,
  'POST /ojs/v1/jobs/bulk/retry': ACTED_ON,
  'POST /ojs/v1/jobs/bulk/delete': ACTED_ON,
  'POST /ojs/v1/admin/jobs/bulk/cancel': ADMIN_ACTED_ON,
  'POST /ojs/v1/admin/jobs/bulk/retry': ADMIN_ACTED_ON,
  'POST /ojs/v1/admin/jobs/bulk/delete': ADMIN_ACTED_ON,
  'POST /ojs/v1/dead-letter/retry': ADMIN_ACTED_ON,
  'DELETE /ojs/v1/dead-letter': ADMIN_ACTED_ON,
  'GET /ojs/v1/dead-letter': json(page('jobs', JOB)),
  'GET /ojs/v1/dead-letter/stats': DEAD_LETTER_STATS,
  'GET /ojs/v1/dead-letter/:id': json(ONE_JOB),
  'POST /ojs/v1/dead-letter/:id/retry': json(ONE_JOB),
  'DELETE /ojs/v1/dead-letter/:id': DELETED('job_id'),
  'GET /ojs/v1/admin/dead-letter': json(page('items', JOB)),
  'GET /ojs/v1/admin/dead-letter/stats': DEAD_LETTER_STATS,
  'GET /ojs/v1/admin/dead-letter/:id': json(JOB),
  'DELETE /ojs/v1/admin/dead-letter/:id': { body: null },

  'POST /ojs/v1/workers/register': json(members({ ok: TRUE, worker_id: TEXT, server_time: TIME })),
  'POST /ojs/v1/workers/deregister': json(members({ ok: TRUE, deregistered: TRUE, worker_id: TEXT })),
  'DELETE /ojs/v1/workers/:id': json(members({ ok: TRUE, deregistered: TRUE, worker_id: TEXT })),
  'GET /ojs/v1/workers': json(page('workers', WORKER)),
  'GET /ojs/v1/workers/:id': json(members({ worker: WORKER, ...WORKER_VIEW })),
  'GET /ojs/v1/workers/:id/health': json(WORKER_HEALTH, { 503: WORKER_HEALTH }),
  'POST /ojs/v1/workers/fetch': json(
    members({ jobs: listOf(JOB), server_time: TIME, x_waited_ms: COUNT }, { job: JOB }),
  ),
  'POST /ojs/v1/workers/ack': json(CLOSED),
  'POST /ojs/v1/jobs/:id/ack': json(CLOSED),
  'POST /ojs/v1/workers/nack': json(CLOSED),
  'POST /ojs/v1/jobs/:id/nack': json(CLOSED),
  'POST /ojs/v1/workers/heartbeat': json(BEAT),
  'POST /ojs/v1/workers/exchange': json(
    members(
      { checkpoints: REPORTED, acks: REPORTED, nacks: REPORTED, server_time: TIME, x_waited_ms: COUNT },
      { beat: BEAT, orders: OBJECT, jobs: listOf(JOB) },
    ),
  ),
  'PUT /ojs/v1/jobs/:id/progress': json(PROGRESS),
  'POST /ojs/v1/workers/progress': json(PROGRESS),
  'GET /ojs/v1/jobs/:id/progress': json(PROGRESS),
  'PUT /ojs/v1/jobs/:id/checkpoint': json(
    members({ job_id: TEXT, sequence: COUNT, created_at: TIME, checkpoint: CHECKPOINT }),
  ),
  'GET /ojs/v1/jobs/:id/checkpoint': json(
    members({ job_id: TEXT, state: ANY, sequence: COUNT, created_at: TIME, checkpoint: CHECKPOINT }),
  ),
  'DELETE /ojs/v1/jobs/:id/checkpoint': DELETED('job_id'),
  'GET /ojs/v1/checkpoints/:id/resume': json(members({ has_checkpoint: FLAG }, { checkpoint: CHECKPOINT })),

  'GET /ojs/v1/queues': json(page('queues', QUEUE)),
  'GET /ojs/v1/queues/:name': json(members({ queue: QUEUE })),
  'GET /ojs/v1/queues/:name/stats': json(members({ name: TEXT, status: QUEUE_STATUS, stats: OBJECT })),
  'POST /ojs/v1/queues/:name/pause': json(QUEUE_CHANGED),
  'POST /ojs/v1/queues/:name/drain': json(QUEUE_CHANGED),
  'POST /ojs/v1/queues/:name/resume': json(QUEUE_CHANGED),
  'GET /ojs/v1/rate-limits': json(members({ items: listOf(LIMITER), pagination: CURSOR_PAGINATION })),
  'GET /ojs/v1/rate-limits/:key': json(LIMITER),
  'GET /ojs/v1/admin/queues/:name/rate-limit': json(LIMITER),
  'PUT /ojs/v1/admin/queues/:name/rate-limit': json(members({ queue: TEXT })),

  'POST /ojs/v1/cron': json(ONE_CRON),
  'GET /ojs/v1/cron': json(members({ crons: listOf(CRON), cron_jobs: listOf(CRON), pagination: PAGINATION })),
  'GET /ojs/v1/cron/:name': json(ONE_CRON),
  'PATCH /ojs/v1/cron/:name': json(ONE_CRON),
  'DELETE /ojs/v1/cron/:name': json(ONE_CRON),
  'POST /ojs/v1/cron/:name/trigger': json(ONE_CRON),
  'POST /ojs/v1/cron/:name/pause': json(ONE_CRON),
  'POST /ojs/v1/cron/:name/resume': json(ONE_CRON),
  'GET /ojs/v1/cron/:name/history': json(members({ name: TEXT, executions: listOf(OBJECT) })),
  'GET /ojs/v1/cron/:name/next': json(members({ name: TEXT, timezone: TEXT, next_run_times: listOf(TIME) })),

  'POST /ojs/v1/workflows': json(ONE_WORKFLOW),
  'GET /ojs/v1/workflows': json(members({ workflows: listOf(WORKFLOW), pagination: CURSOR_PAGINATION })),
  'GET /ojs/v1/workflows/:id': json(ONE_WORKFLOW),
  'DELETE /ojs/v1/workflows/:id': json(ONE_WORKFLOW),
  'GET /ojs/v1/workflows/:id/progress': json(members({ workflow_id: TEXT, state: TEXT, progress: NUMBER })),

  'GET /ojs/v1/events': stream(members({ events: listOf(EVENT), cursor: nullable(TEXT), has_more: FLAG })),
  'GET /ojs/v1/events/stream': stream(),
  'GET /ojs/v1/jobs/:id/events': stream(),
  'GET /ojs/v1/queues/:name/events': stream(),
  'GET /ojs/v1/jobs/:id/progress/stream': stream(),

  'POST /ojs/v1/webhooks/subscriptions': json(ONE_SUBSCRIPTION),
  'GET /ojs/v1/webhooks/subscriptions': json(page('subscriptions', SUBSCRIPTION)),
  'GET /ojs/v1/webhooks/subscriptions/:id': json(ONE_SUBSCRIPTION),
  'PATCH /ojs/v1/webhooks/subscriptions/:id': json(ONE_SUBSCRIPTION),
  'DELETE /ojs/v1/webhooks/subscriptions/:id': DELETED('id'),
  'POST /ojs/v1/webhooks/subscriptions/:id/rotate-secret': json(ONE_SUBSCRIPTION),
  'POST /ojs/v1/webhooks/subscriptions/:id/test': json(members({ success: FLAG, response_time_ms: NUMBER })),
  'GET /ojs/v1/webhooks/subscriptions/:id/deliveries': json(page('deliveries', DELIVERY)),
  'GET /ojs/v1/webhooks/deliveries': json(page('deliveries', DELIVERY)),
  'GET /ojs/v1/webhooks/deliveries/:id': json(members({ delivery: DELIVERY })),
  'POST /ojs/v1/webhooks/deliveries/:id/retry': json(members({ delivery: DELIVERY })),

  'POST /ojs/v1/schemas': json(members({ schema: SCHEMA })),
  'GET /ojs/v1/schemas': json(page('schemas', SCHEMA)),
  'GET /ojs/v1/schemas/:name': json(members({ schema: SCHEMA })),
  'DELETE /ojs/v1/schemas/:name': json(SCHEMA_DELETED),
  'GET /ojs/v1/schemas/:name/versions': json(SCHEMA_VERSIONS),
  'DELETE /ojs/v1/schemas/:name/:version': json(SCHEMA_DELETED),
  'GET /ojs/v1/admin/schemas': json(page('items', SCHEMA)),
  'GET /ojs/v1/admin/schemas/:type': json(SCHEMA),
  'GET /ojs/v1/admin/schemas/:type/versions': json(SCHEMA_VERSIONS),
  'PUT /ojs/v1/admin/schemas/:type/:version': json(SCHEMA),
  'GET /ojs/v1/admin/schemas/:type/:version': json(SCHEMA),
  'DELETE /ojs/v1/admin/schemas/:type/:version': json(SCHEMA_DELETED),

  'GET /ojs/v1/admin/pools': json(page('items', POOL)),
  'GET /ojs/v1/admin/pools/:name': json(members({ pool: POOL })),
  'PUT /ojs/v1/admin/pools/:name': json(members({ pool: POOL })),
  'DELETE /ojs/v1/admin/pools/:name': DELETED('name'),
  'GET /ojs/v1/admin/scheduling/stats': json(members({ queues: listOf(OBJECT), window: TEXT })),
  'GET /ojs/v1/admin/stats': json(members({ queues: COUNT, workers: COUNT, jobs: COUNTS, uptime_seconds: NUMBER })),
  'GET /ojs/v1/admin/queues': json(page('items', QUEUE)),
  'GET /ojs/v1/admin/queues/:name': json(members({ name: TEXT, status: QUEUE_STATUS, counts: COUNTS, config: OBJECT })),
  'POST /ojs/v1/admin/queues/:name/pause': json(QUEUE_CHANGED),
  'POST /ojs/v1/admin/queues/:name/resume': json(QUEUE_CHANGED),
  'PUT /ojs/v1/admin/queues/:name/config': json(members({ name: TEXT, queue: TEXT, config: OBJECT })),
  'GET /ojs/v1/admin/jobs': json(page('items', JOB)),
  'GET /ojs/v1/admin/jobs/:id': json(JOB),
  'POST /ojs/v1/admin/jobs/:id/retry': json(ONE_JOB),
  'POST /ojs/v1/admin/jobs/:id/cancel': json(ONE_JOB),
  'GET /ojs/v1/admin/workers': json(members({ items: listOf(WORKER), summary: OBJECT, pagination: PAGINATION })),
  'POST /ojs/v1/admin/workers/:id/quiet': DIRECTED,
  'POST /ojs/v1/admin/workers/:id/terminate': DIRECTED,
  'POST /ojs/v1/admin/workers/:id/resume': DIRECTED,
  'DELETE /ojs/v1/admin/workers/:id': DELETED('worker_id'),
  'POST /ojs/v1/admin/reset': json(members({ reset: TRUE })),
  'POST /ojs/v1/admin/clock': json(members({ now: TIME })),
  'GET /ojs/v1/admin/at-risk': json(members({ items: listOf(OBJECT), queues: listOf(OBJECT), computed_at: TIME })),
  'GET /api/v1/board/series': json(
    members(
      {
        metric: TEXT,
        by: nullable(TEXT),
        step: TEXT,
        step_ms: COUNT,
        from: TIME,
        to: TIME,
        groups: listOf(SERIES_GROUP),
        servers: COUNT,
        examined: COUNT,
        complete: FLAG,
        saved_every_ms: COUNT,
        computed_at: TIME,
      },
      { looked_until: TIME },
    ),
  ),
  'GET /api/v1/board/pulse': stream(),
  'GET /api/v1/board/forecast': json(
    members({
      from: TIME,
      to: TIME,
      step_ms: COUNT,
      total: COUNT,
      at_risk: COUNT,
      minutes: listOf(members({ deadlines: mapOf(COUNT), at_risk: COUNT })),
      queues: listOf(
        members({
          queue: nullable(TEXT),
          other: FLAG,
          deadlines: mapOf(COUNT),
          at_risk: COUNT,
          first_at: nullable(TIME),
        }),
      ),
      next: listOf(
        members({ job_id: TEXT, type: TEXT, queue: TEXT, state: STATE, kind: TEXT, source: TEXT, at: TIME }),
      ),
      examined: COUNT,
      looked_until: TIME,
      complete: FLAG,
      computed_at: TIME,
    }),
  ),
  'GET /api/v1/board/jobs': json(
    members({
      items: listOf(FOUND_JOB),
      total: nullable(COUNT),
      total_exact: FLAG,
      examined: COUNT,
      looked_back_to: nullable(TIME),
      complete: FLAG,
      next_cursor: nullable(TEXT),
    }),
  ),
  'GET /ojs/v1/admin/tenants/:id/stats': json(members({ tenant_id: TEXT, total_jobs: COUNT, jobs: COUNTS })),

  'PUT /api/v1/job-types/:type': json(POLICY),
  'GET /api/v1/job-types/:type': json(POLICY),
  'GET /api/v1/job-types': json(members({ items: listOf(POLICY) })),
  'DELETE /api/v1/job-types/:type': DELETED('type'),
  'PUT /api/v1/definitions/:name': json(members({ ...DEFINITION_HEAD, warnings: listOf(OBJECT) })),
  'GET /api/v1/definitions/:name': json(
    members({ ...DEFINITION_HEAD, inForce: TEXT, versions: listOf(TEXT), deployedAt: TIME, definition: ANY }),
  ),
  'GET /api/v1/definitions': json(
    members({ items: listOf(members({ name: TEXT, version: TEXT, kind: TEXT })), nextPageToken: nullable(TEXT) }),
  ),
  'POST /api/v1/definitions:validate': json(members({ valid: FLAG, errors: listOf(OBJECT), warnings: listOf(OBJECT) })),
  'POST /api/v1/journeys/:id/start': json({ anyOf: [OUTCOME_OR_RUN, STARTED] }, { 202: STARTED }),
  'GET /api/v1/journeys': json(members({ items: listOf(RUN), nextPageToken: nullable(TEXT) })),
  'GET /api/v1/journeys/:id': json(RUN),
  'GET /api/v1/journeys/:id/result': json(OUTCOME),
  'POST /api/v1/journeys/:id/steps/:stepId': json(RUN),
  'POST /api/v1/journeys/:id/steps/cancel': json(RUN),
  'GET /api/v1/journeys/:id/explain': json(
    members({ journeyId: TEXT, phase: TEXT, budget: OBJECT, states: listOf(OBJECT), text: TEXT }),
  ),
  'GET /api/v1/journeys/:id/history': json(
    members(
      { journeyId: TEXT, phase: TEXT, context: OBJECT, steps: listOf(OBJECT), omitted: COUNT },
      { input: OBJECT },
    ),
  ),
  'GET /api/v1/schedules': json(members({ items: listOf(SCHEDULE), nextPageToken: nullable(TEXT) })),
  'GET /api/v1/schedules/:id': json(SCHEDULE),
  'DELETE /api/v1/schedules/:id': json(SCHEDULE),
  'GET /api/v1/session': json(SESSION),
  'POST /api/v1/session': json(SESSION),
  'DELETE /api/v1/session': { body: null },
  'GET /api/v1/tokens': json(members({ items: listOf(TOKEN) })),
  'POST /api/v1/tokens': json(ISSUED_TOKEN),
  'POST /api/v1/tokens/:name/rotate': json(ISSUED_TOKEN),
  'DELETE /api/v1/tokens/:name': json(TOKEN),
  'GET /api/v1/audit': json(members({ items: listOf(OPERATOR_ACTION), next_cursor: nullable(TEXT) })),
  'GET /api/v1/annotations': json(members({ items: listOf(ANNOTATION), next_cursor: nullable(TEXT) })),
  'POST /api/v1/annotations': json(ANNOTATION),
  'GET /journeys/:id': { body: null, media: 'text/html', others: { 404: null } },
  'POST /api/v1/apis/*path': { body: ANY, anyStatus: true },
}
