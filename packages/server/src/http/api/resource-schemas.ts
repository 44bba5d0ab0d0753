/** Workers, queues, cron entries, workflows, definitions, tokens and other resources as answers show them, as JSON Schema. */
import { JOB_STATES, type JsonSchema, ROLES, WORKFLOW_STATES } from '@curfew/core'
import { ACTED, ADMIN_ACTED, ERROR, JOB, STATE } from './job-schemas.ts'
import {
  ANY,
  COUNT,
  type Described,
  FLAG,
  json,
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

// ---- Workers and queues ----

export const WORKER_VIEW: Members = {
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

export const WORKER = resource('Worker', WORKER_VIEW)

export const BEAT = members({
  state: TEXT,
  directive: TEXT,
  acknowledged: TRUE,
  server_time: TIME,
  jobs_extended: listOf(TEXT),
  x_cancel_jobs: listOf(members({ job_id: TEXT, reason: TEXT }, { x_lease: COUNT })),
})

export const REPORTED = listOf(members({ job_id: TEXT, ok: FLAG }, { state: TEXT, status: COUNT, error: OBJECT }))
export const QUEUE_STATUS: JsonSchema = { enum: ['active', 'paused', 'draining'] }
export const COUNTS = resource('Counts', Object.fromEntries(JOB_STATES.map((state) => [state, COUNT])))

export const QUEUE = resource(
  'Queue',
  { name: TEXT, status: QUEUE_STATUS, state: QUEUE_STATUS, paused: FLAG, counts: COUNTS },
  { created_at: TIME, paused_at: TIME, draining_at: TIME, drained: FLAG },
)

export const QUEUE_CHANGED = members({ queue: members({ name: TEXT, paused: FLAG, status: QUEUE_STATUS }), name: TEXT })
export const LIMITER = members({
  concurrency: { type: ['object', 'null'] },
  active: COUNT,
  waiting: COUNT,
  window: OBJECT,
})
export const POOL = resource('Pool', {
  name: TEXT,
  strategy: TEXT,
  queues: listOf(TEXT),
  created_at: TIME,
  updated_at: TIME,
})

// ---- Cron, workflows, webhooks, schemas, events ----

export const CRON = resource(
  'Cron',
  { name: TEXT, expression: TEXT, timezone: TEXT, overlap_policy: TEXT, enabled: FLAG, type: TEXT, queue: TEXT },
  { next_run_at: nullable(TIME), last_run_at: nullable(TIME), run_count: COUNT, job_template: OBJECT },
)

export const ONE_CRON = members({ cron: CRON, cron_job: CRON }, { job: JOB, waiting: TRUE, deleted: TRUE })
const WORKFLOW_HEAD: Members = { id: TEXT, type: TEXT, state: { type: 'string', enum: WORKFLOW_STATES } }
export const WORKFLOW = resource('Workflow', WORKFLOW_HEAD)
export const ONE_WORKFLOW = members({ workflow: WORKFLOW, ...WORKFLOW_HEAD })
const SUBSCRIPTION_VIEW: Members = { id: TEXT, url: TEXT, events: listOf(TEXT), active: FLAG, timeout: NUMBER }
export const SUBSCRIPTION = resource('Subscription', SUBSCRIPTION_VIEW, {
  secret: TEXT,
  created_at: TIME,
  updated_at: TIME,
})
export const ONE_SUBSCRIPTION = members({ subscription: SUBSCRIPTION, ...SUBSCRIPTION_VIEW })

export const DELIVERY = resource('Delivery', {
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

export const SCHEMA = resource('Schema', SCHEMA_HEAD, { schema: ANY })
export const SCHEMA_VERSIONS = members({ type: TEXT, versions: listOf(members({ ...SCHEMA_HEAD, is_latest: FLAG })) })
export const SCHEMA_DELETED = members({ deleted: TRUE, ...SCHEMA_HEAD })

export const EVENT = resource('Event', {
  specversion: TEXT,
  id: TEXT,
  type: TEXT,
  source: TEXT,
  time: TIME,
  subject: TEXT,
  data: OBJECT,
})

// ---- Definitions and runs ----

export const DEFINITION_HEAD: Members = { name: TEXT, version: TEXT, kind: TEXT, effectiveMaxDurationSec: NUMBER }

const RUN_HEAD: Members = { journeyId: TEXT, journeyName: TEXT, journeyVersion: TEXT, kind: TEXT, phase: TEXT }
const RUN_TIMES: Members = { startedAt: TIME, deadlineAt: TIME, effectiveMaxDurationSec: NUMBER, limitedBy: TEXT }

export const RUN = resource(
  'Run',
  { ...RUN_HEAD, currentState: TEXT, updatedAt: TIME, ...RUN_TIMES, remainingMs: NUMBER, tags: listOf(TEXT) },
  { endedAt: TIME, attributes: mapOf(TEXT), _links: OBJECT },
)

export const OUTCOME = resource(
  'Outcome',
  { ...RUN_HEAD, status: TEXT, output: ANY, error: { type: ['object', 'null'] }, terminationKind: TEXT, ...RUN_TIMES },
  { endedAt: TIME, outcomeId: TEXT },
)

export const OUTCOME_OR_RUN: JsonSchema = { anyOf: [OUTCOME, RUN] }
export const POLICY = resource('JobTypePolicy', { type: TEXT, updated_at: TIME })

export const HEALTH = resource(
  'Health',
  { status: { enum: ['ok', 'degraded'] }, server_version: TEXT, server_time: TIME, backend: OBJECT },
  { queues: OBJECT, workers: OBJECT },
)

export const READY = members({ status: { enum: ['ready', 'not_ready'] } })
export const WORKER_HEALTH = members({ worker_id: TEXT, state: TEXT, healthy: FLAG, active_jobs: COUNT })

const DRY_RUN = resource('DryRun', {
  dry_run: TRUE,
  action: TEXT,
  matched: COUNT,
  would_act_on: COUNT,
  by_state: mapOf(COUNT),
  by_queue: mapOf(COUNT),
  job_ids: listOf(TEXT),
})

export const ACTED_ON = json({ anyOf: [ACTED, DRY_RUN] }, { 422: { anyOf: [ACTED, ERROR] } })
export const ADMIN_ACTED_ON = json({ anyOf: [ADMIN_ACTED, DRY_RUN] })

export const SCHEDULE = resource(
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

export const STARTED = members({ journeyId: TEXT, journeyName: TEXT, statusUrl: TEXT }, { _links: OBJECT })
export const DELETED = (key: string): Described => json(members({ deleted: TRUE, [key]: TEXT }))
export const DIRECTED = json(members({ worker_id: TEXT, directive: TEXT, state: TEXT }))
export const DEAD_LETTER_STATS = json(members({ total: COUNT, by_queue: mapOf(COUNT) }))

// ---- Access ----

const ROLE_LIST = listOf({ type: 'string', enum: ROLES })

export const SESSION = resource('Session', {
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

export const TOKEN = resource('Token', TOKEN_FIELDS)
export const ISSUED_TOKEN = resource('IssuedToken', { ...TOKEN_FIELDS, token: TEXT })

export const OPERATOR_ACTION = resource('OperatorAction', {
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

export const ANNOTATION = resource('Annotation', { id: TEXT, time: TIME, text: TEXT, by: TEXT })

/** By the method and path of a route (not of its aliases). */
export const SERIES_GROUP = resource(
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

export const FOUND_JOB = resource('FoundJob', {
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
