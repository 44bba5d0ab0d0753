/** Jobs that are written. */
import { statement } from './statement.ts'

export const INSERT_JOBS = statement(
  'insert_jobs',
  `
-- Adds jobs as they begin, with their bodies: not claimed, and nothing has happened to them. A place of -1 is
-- the tail; places are given in the order of the list.
WITH new AS MATERIALIZED (
  SELECT n.*, CASE WHEN n.seq = -1 THEN nextval('places') ELSE n.seq END AS place
  FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::double precision[],
    $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[],
    $24::text[], $25::text[], $26::text[], $27::text[], $28::text[]
  ) AS n (
    id, version, state, queue, type, priority, seq, wake_at,
    created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
    limits, retry, ceiling, parent, trace_id, given, life, body,
    owner, step, unique_key, limit_key, tenant
  )
), with_bodies AS (
  INSERT INTO bodies (id, body) SELECT id, body FROM new
)
INSERT INTO jobs (
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant,
  dead_letter, attempt, lease, interruptions, error_count, checkpoint_seq, errors
)
SELECT
  id, version, state, queue, type, priority, place, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant,
  false, 0, 0, 0, 0, 0, ''
FROM new`,
)

export const INSERT_ALIKE_JOBS = statement(
  'insert_alike_jobs',
  `
-- The same for jobs that have most in common, which is sent once; the parameters have the same places. (Taking apart
-- twenty-eight lists costs as much as inserting.)
WITH new AS MATERIALIZED (
  SELECT n.*, CASE WHEN $7::bigint = -1 THEN nextval('places') ELSE $7::bigint END AS place
  FROM unnest(
    $1::text[], $5::text[], $6::integer[], $20::text[], $21::text[], $23::text[], $26::text[]
  ) AS n (
    id, type, priority, trace_id, given, body, unique_key
  )
), with_bodies AS (
  INSERT INTO bodies (id, body) SELECT id, body FROM new
)
INSERT INTO jobs (
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant,
  dead_letter, attempt, lease, interruptions, error_count, checkpoint_seq, errors
)
SELECT
  id, $2::bigint, $3::text, $4::text, type, priority, place, $8::bigint,
  $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::double precision,
  $16::text, $17::text, $18::text, $19::text, trace_id, given, $22::text,
  $24::text, $25::text, unique_key, $27::text, $28::text,
  false, 0, 0, 0, 0, 0, ''
FROM new`,
)

export const RESTORE_JOBS = statement(
  'restore_jobs',
  `
-- Adds jobs as they are, with their bodies, at the places they have.
WITH new AS MATERIALIZED (
  SELECT *
  FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::double precision[],
    $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[],
    $24::text[], $25::text[], $26::text[], $27::text[], $28::text[],
    $29::text[], $30::boolean[], $31::bigint[], $32::bigint[], $33::bigint[], $34::bigint[], $35::bigint[],
    $36::bigint[], $37::bigint[], $38::bigint[], $39::bigint[], $40::bigint[], $41::double precision[], $42::bigint[],
    $43::bigint[], $44::bigint[], $45::text[], $46::text[], $47::text[], $48::text[], $49::text[], $50::text[],
    $51::text[], $52::text[], $53::text[]
  ) AS n (
    id, version, state, queue, type, priority, seq, wake_at,
    created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
    limits, retry, ceiling, parent, trace_id, given, life, body,
    owner, step, unique_key, limit_key, tenant,
    worker_id, dead_letter, attempt, lease, interruptions, activated_at, started_at,
    completed_at, cancelled_at, discarded_at, reenqueued_at, next_retry_at, retry_delay_ms, purge_at,
    error_count, checkpoint_seq, hold, closed_by, progress, cancel_reason, error, errors,
    result, error_type, timeout_kind
  )
), with_bodies AS (
  INSERT INTO bodies (id, body) SELECT id, body FROM new
)
INSERT INTO jobs (
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant,
  worker_id, dead_letter, attempt, lease, interruptions, activated_at, started_at,
  completed_at, cancelled_at, discarded_at, reenqueued_at, next_retry_at, retry_delay_ms, purge_at,
  error_count, checkpoint_seq, hold, closed_by, progress, cancel_reason, error, errors,
  result, error_type, timeout_kind
)
SELECT
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant,
  worker_id, dead_letter, attempt, lease, interruptions, activated_at, started_at,
  completed_at, cancelled_at, discarded_at, reenqueued_at, next_retry_at, retry_delay_ms, purge_at,
  error_count, checkpoint_seq, hold, closed_by, progress, cancel_reason, error, errors,
  result, error_type, timeout_kind
FROM new`,
)

export const PUSH_PLACES = statement(
  'push_places',
  `
-- Lets the tail begin after this place, if it does not yet. (Of a sequence that was never asked, the last is yet to come.)
SELECT setval('places', $1::bigint)
FROM places
WHERE last_value < $1::bigint OR (last_value = $1::bigint AND NOT is_called)`,
)

export const MOVE_JOBS = statement(
  'move_jobs',
  `
-- Rewrites what a claim, a result or a sign of life changes, in jobs that are still in the version that was read.
WITH new AS MATERIALIZED (
  SELECT n.*, CASE WHEN n.seq = -1 THEN nextval('places') ELSE n.seq END AS place
  FROM unnest(
    $1::text[], $2::bigint[],
    $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[]
  ) AS n (
    id, version,
    state, seq, wake_at, worker_id, attempt, lease, enqueued_at, started_at,
    completed_at, purge_at, hold, closed_by, progress, result, life
  )
), moved AS (
  UPDATE jobs j SET
    state = n.state, seq = n.place, wake_at = n.wake_at, worker_id = CASE WHEN n.hold IS NULL THEN j.worker_id ELSE n.worker_id END, attempt = n.attempt, lease = n.lease,
    enqueued_at = n.enqueued_at, started_at = n.started_at, completed_at = n.completed_at, purge_at = n.purge_at,
    hold = n.hold, closed_by = n.closed_by, progress = n.progress, result = n.result, life = n.life,
    version = j.version + 1
  FROM new n
  WHERE j.id = n.id AND j.version = n.version
  RETURNING j.id
)
SELECT expect_all('job', $1::text[], array_agg(id)) FROM moved`,
)

export const UPDATE_JOBS = statement(
  'update_jobs',
  `
-- Rewrites jobs that are still in the version that was read. Without a place they keep theirs.
WITH new AS MATERIALIZED (
  SELECT n.*, CASE WHEN n.seq = -1 THEN nextval('places') ELSE n.seq END AS place
  FROM unnest(
    $1::text[], $2::bigint[],
    $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
    $18::integer[], $19::boolean[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[],
    $25::bigint[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[], $30::double precision[],
    $31::double precision[], $32::bigint[], $33::bigint[],
    $34::text[], $35::text[], $36::text[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[], $42::text[],
    $43::text[], $44::text[]
  ) AS n (
    id, version,
    state, seq, wake_at, worker_id, attempt, lease, enqueued_at, started_at,
    completed_at, purge_at, hold, closed_by, progress, result, life,
    priority, dead_letter, interruptions, anchor_at, limits_set_at, scheduled_at, expires_at,
    activated_at, cancelled_at, discarded_at, reenqueued_at, next_retry_at, retry_delay_ms,
    result_ttl_ms, error_count, checkpoint_seq,
    limits, retry, ceiling, cancel_reason, error, errors, given, owner, step, error_type, timeout_kind
  )
), moved AS (
  UPDATE jobs j SET
    state = n.state, seq = coalesce(n.place, j.seq), wake_at = n.wake_at, worker_id = CASE WHEN n.hold IS NULL THEN j.worker_id ELSE n.worker_id END, attempt = n.attempt, lease = n.lease,
    enqueued_at = n.enqueued_at, started_at = n.started_at, completed_at = n.completed_at, purge_at = n.purge_at,
    hold = n.hold, closed_by = n.closed_by, progress = n.progress, result = n.result, life = n.life,
    priority = n.priority, dead_letter = n.dead_letter, interruptions = n.interruptions, anchor_at = n.anchor_at,
    limits_set_at = n.limits_set_at, scheduled_at = n.scheduled_at, expires_at = n.expires_at,
    activated_at = n.activated_at, cancelled_at = n.cancelled_at, discarded_at = n.discarded_at,
    reenqueued_at = n.reenqueued_at, next_retry_at = n.next_retry_at, retry_delay_ms = n.retry_delay_ms,
    result_ttl_ms = n.result_ttl_ms, error_count = n.error_count, checkpoint_seq = n.checkpoint_seq,
    limits = n.limits, retry = n.retry, ceiling = n.ceiling, cancel_reason = n.cancel_reason,
    error = n.error, errors = n.errors, given = n.given, owner = n.owner, step = n.step,
    error_type = n.error_type, timeout_kind = n.timeout_kind,
    version = j.version + 1
  FROM new n
  WHERE j.id = n.id AND j.version = n.version
  RETURNING j.id
)
SELECT expect_all('job', $1::text[], array_agg(id)) FROM moved`,
)

export const DELETE_JOBS = statement(
  'delete_jobs',
  `
-- Removes jobs that are still in the version that was read, with all that hangs on them, and remembers that they were.
WITH gone AS (
  DELETE FROM jobs j
  USING unnest($1::text[], $2::bigint[]) AS n (id, version)
  WHERE j.id = n.id AND j.version = n.version
  RETURNING j.id
), bodies_gone AS (
  DELETE FROM bodies b USING gone WHERE b.id = gone.id
), checkpoints_gone AS (
  DELETE FROM checkpoints c USING gone WHERE c.job_id = gone.id
), remembered AS (
  INSERT INTO tombstones (id) SELECT id FROM gone
)
SELECT expect_all('job', $1::text[], array_agg(id)) FROM gone`,
)

export const INSERT_TAGS = statement(
  'insert_tags',
  `
-- Notes the tags of jobs.
INSERT INTO job_tags (tag, id) SELECT * FROM unnest($1::text[], $2::text[])`,
)

export const DELETE_TAGS = statement(
  'delete_tags',
  `
-- Removes the notes of tags of jobs.
DELETE FROM job_tags t USING unnest($1::text[], $2::text[]) AS n (tag, id) WHERE t.tag = n.tag AND t.id = n.id`,
)

export const DELETE_TOMBSTONES = statement(
  'delete_tombstones',
  `
-- Forgets the oldest removed jobs beyond the newest $1, at most $2. Skips what others hold.
DELETE FROM tombstones
WHERE place IN (
  SELECT place
  FROM tombstones
  WHERE place <= (SELECT max(place) FROM tombstones) - $1::bigint
  ORDER BY place
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)`,
)
