/**
 * Every statement, whole, ready to paste into psql (with the search path set to the schema). None asks for the time to
 * decide, adds to an instant, or chooses a state. Lists of rows come as one array per column, so that each kind of
 * change is one statement, however many rows it has.
 *
 * What is found by name is locked in the order of the ids; what is found by its order skips what others have locked. The
 * statements of a transaction are planned once, and never by a scan of a table (`connection.ts`; a test looks at the
 * plans).
 *
 * Trap: `j.*` is read by position, and a column that a later version adds comes last, where nobody looks.
 */
import type { Statement } from './wire.ts'

const statement = (name: string, text: string): Statement => ({ name, text })

export const BEGIN = statement('begin', 'BEGIN')
export const COMMIT = statement('commit', 'COMMIT')
export const BE_PATIENT = statement(
  'be_patient',
  `
-- Lets this transaction be silent for so long before the database ends it.
SELECT set_config('idle_in_transaction_session_timeout', $1, true)`,
)
export const ROLLBACK = statement('rollback', 'ROLLBACK')

export const LOOK = statement(
  'look',
  `
-- Sees the signs of life and when workers, jobs and documents want to be woken; the queues and the types of these names.
SELECT 'life', outages, NULL, NULL, NULL, alive_at,
  (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
FROM life
WHERE only_one
UNION ALL
SELECT 'queue', name, config, NULL, NULL, version, created_at, paused_at, draining_at
FROM queues
WHERE name = ANY ($1::text[])
UNION ALL
SELECT 'type', type, asked, caps, sent, updated_at, NULL, NULL, NULL
FROM types
WHERE type = ANY ($2::text[])`,
)

// ---- Jobs ----

export const LOCK_JOBS = statement(
  'lock_jobs',
  `
-- Finds and locks the jobs with these ids.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id = ANY ($1::text[])
ORDER BY j.id
FOR UPDATE OF j`,
)

export const SEE_JOBS = statement(
  'see_jobs',
  `
-- Finds the jobs with these ids. Locks nothing.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id = ANY ($1::text[])`,
)

export const LOCK_CLAIMABLE = statement(
  'lock_claimable',
  `
-- Finds and locks the available jobs of a queue in the order in which they are handed out. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'available' AND j.queue = $1
ORDER BY j.priority DESC, j.seq
LIMIT $2
FOR UPDATE OF j SKIP LOCKED`,
)

export const LOCK_CLAIMABLE_WITHOUT = statement(
  'lock_claimable_without',
  `
-- Finds and locks the available jobs of a queue in the order in which they are handed out, but for those that wait for
-- one of these limiters. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'available' AND j.queue = $1
  AND (j.limit_key IS NULL OR j.limit_key <> ALL ($3::text[]))
ORDER BY j.priority DESC, j.seq
LIMIT $2
FOR UPDATE OF j SKIP LOCKED`,
)

export const LOCK_CLAIMABLE_OF_TENANT = statement(
  'lock_claimable_of_tenant',
  `
-- Finds and locks the available jobs of a tenant in a queue in the order in which they are handed out, but for those that
-- wait for one of these limiters. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'available' AND j.queue = $1
  AND j.tenant IS NOT NULL AND j.tenant = $4
  AND (j.limit_key IS NULL OR j.limit_key <> ALL ($3::text[]))
ORDER BY j.priority DESC, j.seq
LIMIT $2
FOR UPDATE OF j SKIP LOCKED`,
)

export const LOCK_BY_DEADLINE = statement(
  'lock_by_deadline',
  `
-- Finds and locks the available jobs of a queue, but for those that wait for one of these limiters: by priority, those
-- with a deadline before those without, by deadline, by sequence. Skips what others hold, and locks a few more than it
-- gives. When there are enough with a deadline, those without matter only above the lowest priority among them: so the
-- search for them never passes more with a deadline than were found.
WITH dated AS MATERIALIZED (
  SELECT j.*
  FROM jobs j
  WHERE j.state = 'available' AND j.queue = $1 AND j.wake_at IS NOT NULL
    AND (j.limit_key IS NULL OR j.limit_key <> ALL ($3::text[]))
  ORDER BY j.priority DESC, j.wake_at, j.seq
  LIMIT $2
  FOR UPDATE OF j SKIP LOCKED
), undated AS MATERIALIZED (
  SELECT j.*
  FROM jobs j
  WHERE j.state = 'available' AND j.queue = $1 AND j.wake_at IS NULL
    AND (j.limit_key IS NULL OR j.limit_key <> ALL ($3::text[]))
    AND j.priority > (SELECT CASE WHEN count(*) < $2 THEN -2147483649 ELSE min(priority) END FROM dated)
  ORDER BY j.priority DESC, j.seq
  LIMIT $2
  FOR UPDATE OF j SKIP LOCKED
)
SELECT b.body, j.*
FROM (SELECT * FROM dated UNION ALL SELECT * FROM undated) j JOIN bodies b ON b.id = j.id
ORDER BY j.priority DESC, j.wake_at, j.seq
LIMIT $2`,
)

export const LOCK_BY_DEADLINE_OF_TENANT = statement(
  'lock_by_deadline_of_tenant',
  `
-- Finds and locks the available jobs of a tenant in a queue, but for those that wait for one of these limiters: by
-- priority, those with a deadline before those without, by deadline, by sequence. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'available' AND j.queue = $1
  AND j.tenant IS NOT NULL AND j.tenant = $4
  AND (j.limit_key IS NULL OR j.limit_key <> ALL ($3::text[]))
ORDER BY j.priority DESC, j.wake_at, j.seq
LIMIT $2
FOR UPDATE OF j SKIP LOCKED`,
)

export const LOCK_OLDEST_AVAILABLE = statement(
  'lock_oldest_available',
  `
-- Finds and locks the available jobs of a queue that have waited longest, oldest first: from each priority there is, the
-- first so many. Skips what others hold, and locks more than it gives if there are many priorities.
WITH RECURSIVE bands AS (
  (SELECT priority FROM jobs WHERE state = 'available' AND queue = $1 ORDER BY priority DESC LIMIT 1)
  UNION ALL
  SELECT (
    SELECT j.priority
    FROM jobs j
    WHERE j.state = 'available' AND j.queue = $1 AND j.priority < above.priority
    ORDER BY j.priority DESC
    LIMIT 1
  )
  FROM bands above
  WHERE above.priority IS NOT NULL
)
SELECT b.body, j.*
FROM bands
CROSS JOIN LATERAL (
  SELECT *
  FROM jobs
  WHERE state = 'available' AND queue = $1 AND priority = bands.priority
  ORDER BY seq
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) j
JOIN bodies b ON b.id = j.id
WHERE bands.priority IS NOT NULL
ORDER BY j.seq
LIMIT $2`,
)

export const LOCK_OWNED = statement(
  'lock_owned',
  `
-- Finds and locks the jobs of an owner, by id.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.owner IS NOT NULL AND j.owner = $1
ORDER BY j.id
LIMIT $2
FOR UPDATE OF j`,
)

export const LOCK_OWNED_OPEN = statement(
  'lock_owned_open',
  `
-- Finds and locks the jobs of an owner that are not over, by id.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.owner IS NOT NULL AND j.owner = $1 AND j.state <> ALL ('{completed,cancelled,discarded}')
ORDER BY j.id
LIMIT $2
FOR UPDATE OF j`,
)

export const OWNED_AFTER = statement(
  'owned_after',
  `
-- Finds the jobs of an owner whose id is above this one, by id.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.owner IS NOT NULL AND j.owner = $1 AND j.id > $2
ORDER BY j.id
LIMIT $3`,
)

export const LAST_OWNED = statement(
  'last_owned',
  `
-- Finds the jobs of an owner with the highest ids, highest first.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.owner IS NOT NULL AND j.owner = $1
ORDER BY j.id DESC
LIMIT $2`,
)

export const LOCK_UNIQUE = statement(
  'lock_unique',
  `
-- Finds and locks the jobs with this fingerprint in one of these states, newest first.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.unique_key IS NOT NULL AND j.unique_key = $1 AND j.state = ANY ($2::text[])
ORDER BY j.created_at DESC, j.id DESC
LIMIT $3
FOR UPDATE OF j`,
)

export const COUNT_LIMITED = statement(
  'count_limited',
  `
-- Counts the jobs of these limiters in this state. (Were the state said here, the index of all active jobs would do too.)
SELECT limit_key, count(*)
FROM jobs
WHERE limit_key IS NOT NULL AND limit_key = ANY ($1::text[]) AND state = $2
GROUP BY limit_key`,
)

export const COUNT_WAITING_AND_LIMITED = statement(
  'count_waiting_and_limited',
  `
-- Counts the available and the active jobs of a limiter.
SELECT count(*) FILTER (WHERE state = 'available'), count(*) FILTER (WHERE state = 'active')
FROM jobs
WHERE limit_key IS NOT NULL AND limit_key = $1 AND state IN ('available', 'active')`,
)

export const LIST_DEADLINED = statement(
  'list_deadlined',
  `
-- Finds the available jobs of a queue that have a deadline, by priority, deadline and sequence.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'available' AND j.queue = $1 AND j.wake_at IS NOT NULL
ORDER BY j.priority DESC, j.wake_at, j.seq
LIMIT $2`,
)

export const LOCK_HELD_BY = statement(
  'lock_held_by',
  `
-- Finds and locks the active jobs whose reservation names this worker.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.state = 'active' AND j.worker_id = $1
ORDER BY j.id
FOR UPDATE OF j`,
)

export const SEE_HELD_BY = statement(
  'see_held_by',
  `
-- Finds the ids of the active jobs whose reservation names this worker.
SELECT id
FROM jobs
WHERE state = 'active' AND worker_id = $1
ORDER BY id`,
)

export const LOCK_DUE_JOBS = statement(
  'lock_due_jobs',
  `
-- Finds and locks the jobs to which something must happen by this instant, earliest first. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.wake_at IS NOT NULL AND j.wake_at <= $1
ORDER BY j.wake_at
LIMIT $2
FOR UPDATE OF j SKIP LOCKED`,
)

export const LOCK_DEAD_LETTERS_BEYOND = statement(
  'lock_dead_letters_beyond',
  `
-- Finds and locks the oldest members of the dead-letter list beyond the newest $1 (of which $3 are not counted yet), at
-- most $2. Skips what others hold.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.dead_letter
ORDER BY j.discarded_at, j.id
LIMIT greatest(0, least($2::bigint,
  (SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE state = 'dead_letter') + $3::bigint - $1::bigint))
FOR UPDATE OF j SKIP LOCKED`,
)

export const INSERT_JOBS = statement(
  'insert_jobs',
  `
-- Adds jobs as they begin, with their bodies: nobody has claimed them, nothing has happened to them. A place of -1 is
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

export const LIST_DEAD_LETTERS = statement(
  'list_dead_letters',
  `
-- Finds the members of the dead-letter list by queue, type and tenant (null: any), newest first.
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.dead_letter
  AND ($1::text IS NULL OR j.queue = $1)
  AND ($2::text IS NULL OR j.type = $2)
  AND ($3::text IS NULL OR j.tenant = $3)
ORDER BY j.discarded_at DESC, j.id DESC
LIMIT $4 OFFSET $5`,
)

export const COUNT_DEAD_LETTERS_AMONG = statement(
  'count_dead_letters_among',
  `
-- Counts the members of the dead-letter list by queue, type and tenant (null: any). Reads all of them.
SELECT count(*)
FROM jobs
WHERE dead_letter
  AND ($1::text IS NULL OR queue = $1)
  AND ($2::text IS NULL OR type = $2)
  AND ($3::text IS NULL OR tenant = $3)`,
)

export const TENANT_COUNTS = statement(
  'tenant_counts',
  `
-- Finds how many jobs a tenant has, by state.
SELECT state, count(*)
FROM jobs
WHERE tenant IS NOT NULL AND tenant = $1
GROUP BY state`,
)

export const OUTPACED = statement(
  'outpaced',
  `
-- Finds which of the first available jobs of a queue have a deadline below a line that rises with their place.
SELECT id, ahead
FROM (
  SELECT id, wake_at, row_number() OVER (ORDER BY priority DESC, seq) - 1 AS ahead
  FROM (
    SELECT id, priority, seq, wake_at
    FROM jobs
    WHERE state = 'available' AND queue = $1
    ORDER BY priority DESC, seq
    LIMIT $4
  ) first
) placed
WHERE wake_at IS NOT NULL AND wake_at < $2::bigint + (ahead + 1) * $3::double precision
ORDER BY ahead
LIMIT $5`,
)

export const OUTPACED_BY_DEADLINE = statement(
  'outpaced_by_deadline',
  `
-- The same where those with a deadline come before those without, the nearest first.
SELECT id, ahead
FROM (
  SELECT id, wake_at, row_number() OVER (ORDER BY priority DESC, wake_at NULLS LAST, seq) - 1 AS ahead
  FROM (
    SELECT id, priority, seq, wake_at
    FROM jobs
    WHERE state = 'available' AND queue = $1
    ORDER BY priority DESC, seq
    LIMIT $4
  ) first
) placed
WHERE wake_at IS NOT NULL AND wake_at < $2::bigint + (ahead + 1) * $3::double precision
ORDER BY ahead
LIMIT $5`,
)

export const ROWS_AHEAD = statement(
  'rows_ahead',
  `
-- Counts the available jobs of a queue before one of them: of higher priority, and of its own the earlier ones, those of
-- them without a deadline, and those with a nearer deadline. Each count reads so many entries of its index at most.
WITH earlier AS (
  SELECT wake_at
  FROM jobs
  WHERE state = 'available' AND queue = $1 AND priority = $2 AND seq < $3
  LIMIT $5
)
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM jobs WHERE state = 'available' AND queue = $1 AND priority > $2 LIMIT $5
  ) above),
  (SELECT count(*) FROM earlier),
  (SELECT count(*) FROM earlier WHERE wake_at IS NULL),
  (SELECT count(*) FROM (
    SELECT 1
    FROM jobs
    WHERE state = 'available' AND wake_at IS NOT NULL AND queue = $1 AND priority = $2
      AND (wake_at, seq) < ($4::bigint, $3::bigint)
    LIMIT $5
  ) nearer)`,
)

export const OUTWAITED = statement(
  'outwaited',
  `
-- Finds which of the jobs that are woken first are woken before the moment they wait for.
SELECT b.body, j.*
FROM (
  SELECT *
  FROM jobs
  WHERE wake_at IS NOT NULL
  ORDER BY wake_at
  LIMIT $2
) j JOIN bodies b ON b.id = j.id
WHERE ($1::text IS NULL OR j.queue = $1)
  AND ((j.state = 'scheduled' AND j.wake_at < j.scheduled_at) OR (j.state = 'retryable' AND j.wake_at < j.next_retry_at))
ORDER BY j.wake_at
LIMIT $3`,
)

const WAKING = `
  FROM jobs
  WHERE wake_at IS NOT NULL AND wake_at >= $1 AND wake_at <= $2
  ORDER BY wake_at
  LIMIT $4 OFFSET $3`

export const WAKES = statement(
  'wakes',
  `
-- Finds when the jobs are woken that are woken first in a stretch of time.
SELECT wake_at ${WAKING}`,
)

export const WAKING_JOBS = statement(
  'waking_jobs',
  `
-- Finds which of them are not over, without their bodies.
SELECT '' AS body, j.*
FROM (
  SELECT * ${WAKING}
) j
WHERE j.state <> 'completed' AND j.state <> 'cancelled' AND j.state <> 'discarded'
ORDER BY j.wake_at`,
)

export const JOBS_AFTER = statement(
  'jobs_after',
  `
-- Finds every job whose id is above this one, by id. (Said of both tables, lest one is read from its beginning.)
SELECT b.body, j.*
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.id > $1 AND b.id > $1
ORDER BY j.id
LIMIT $2`,
)

export const LIST_ACTIVE_JOBS = statement(
  'list_active_jobs',
  `
-- Finds active jobs, without their bodies.
SELECT '' AS body, j.*
FROM jobs j
WHERE j.state = 'active'
LIMIT $1`,
)

export const NEXT_WAKE = statement(
  'next_wake',
  `
-- Finds the nearest instant at which something must happen to a job, a worker or a document.
SELECT least(
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
)`,
)

export const NEXT_WORK = statement(
  'next_work',
  `
-- Finds the nearest instant at which something must happen to a job or a document.
SELECT least(
  (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
  (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
)`,
)

// ---- Counts and tombstones ----

export const ADD_TO_COUNTS = statement(
  'add_to_counts',
  `
-- Adds to (or takes from) the numbers of jobs of queues in states, in one slot. Always in the same order.
INSERT INTO counts (state, queue, slot, n)
SELECT a.state, a.queue, $1::smallint, a.n
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS a (state, queue, n)
ORDER BY a.state COLLATE "C", a.queue COLLATE "C"
ON CONFLICT (state, queue, slot) DO UPDATE SET n = counts.n + excluded.n`,
)

export const COUNT_AND_LOCK_LOG = statement(
  'count_and_lock_log',
  `
-- Adds to (or takes from) the numbers of jobs of queues in states, in one slot, always in the same order. When that is
-- done, waits for the right to append to the log, which lasts until the transaction has ended.
WITH counted AS (
  INSERT INTO counts (state, queue, slot, n)
  SELECT a.state, a.queue, $1::smallint, a.n
  FROM unnest($2::text[], $3::text[], $4::bigint[]) AS a (state, queue, n)
  ORDER BY a.state COLLATE "C", a.queue COLLATE "C"
  ON CONFLICT (state, queue, slot) DO UPDATE SET n = counts.n + excluded.n
  RETURNING n
), done AS MATERIALIZED (
  SELECT count(*) AS rows FROM counted
)
SELECT pg_advisory_xact_lock($5::bigint) FROM done WHERE rows >= 0`,
)

export const ALL_COUNTS = statement(
  'all_counts',
  `
-- Finds the numbers of jobs by queue and state, dead letters apart.
SELECT queue, state, sum(n)::bigint
FROM counts
WHERE state <> 'dead_letter'
GROUP BY queue, state`,
)

export const COUNTS_OF = statement(
  'counts_of',
  `
-- Finds the numbers of jobs of these queues in these states.
SELECT queue, state, sum(n)::bigint
FROM counts
WHERE state = ANY ($2::text[]) AND queue = ANY ($1::text[])
GROUP BY queue, state`,
)

export const TOTALS = statement(
  'totals',
  `
-- Sums the numbers of jobs by state, dead letters apart.
SELECT state, sum(n)::bigint
FROM counts
WHERE state <> 'dead_letter'
GROUP BY state`,
)

export const DEAD_LETTER_COUNTS = statement(
  'dead_letter_counts',
  `
-- Finds how many dead letters each queue has.
SELECT queue, sum(n)::bigint
FROM counts
WHERE state = 'dead_letter'
GROUP BY queue
HAVING sum(n) > 0
ORDER BY queue`,
)

export const COUNT_DEAD_LETTERS = statement(
  'count_dead_letters',
  `
-- Sums the numbers of dead letters by queue (null: any).
SELECT coalesce(sum(n), 0)::bigint
FROM counts
WHERE state = 'dead_letter'
  AND ($1::text IS NULL OR queue = $1)`,
)

export const FIND_TOMBSTONE = statement(
  'find_tombstone',
  `
-- Finds whether a removed job of this id is remembered.
SELECT 1 FROM tombstones WHERE id = $1 LIMIT 1`,
)

export const TOMBSTONES_AFTER = statement(
  'tombstones_after',
  `
-- Finds the removed jobs that are remembered after this place, oldest first.
SELECT place, id FROM tombstones WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const RESTORE_TOMBSTONES = statement(
  'restore_tombstones',
  `
-- Remembers removed jobs, in this order.
INSERT INTO tombstones (id)
SELECT n.id FROM unnest($1::text[]) WITH ORDINALITY AS n (id, place) ORDER BY n.place`,
)

// ---- Checkpoints ----

export const FIND_CHECKPOINTS = statement(
  'find_checkpoints',
  `
-- Finds the checkpoints of these jobs.
SELECT * FROM checkpoints WHERE job_id = ANY ($1::text[])`,
)

export const CHECKPOINTS_AFTER = statement(
  'checkpoints_after',
  `
-- Finds the checkpoints of jobs whose id is above this one, by id.
SELECT * FROM checkpoints WHERE job_id > $1 ORDER BY job_id LIMIT $2`,
)

export const RESTORE_CHECKPOINTS = statement(
  'restore_checkpoints',
  `
-- Adds checkpoints.
INSERT INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])`,
)

export const PUT_CHECKPOINTS = statement(
  'put_checkpoints',
  `
-- Adds or replaces checkpoints.
INSERT INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
ON CONFLICT (job_id) DO UPDATE SET
  sequence = excluded.sequence, state = excluded.state, step_index = excluded.step_index,
  metadata = excluded.metadata, created_at = excluded.created_at`,
)

export const DELETE_CHECKPOINTS = statement(
  'delete_checkpoints',
  `
-- Removes the checkpoints of these jobs.
DELETE FROM checkpoints WHERE job_id = ANY ($1::text[])`,
)

// ---- Workers ----

export const LOCK_WORKERS = statement(
  'lock_workers',
  `
-- Finds and locks the workers with these ids.
SELECT w.* FROM workers w WHERE w.id = ANY ($1::text[]) ORDER BY w.id FOR UPDATE OF w`,
)

export const SEE_WORKERS = statement(
  'see_workers',
  `
-- Finds the workers with these ids. Locks nothing.
SELECT w.* FROM workers w WHERE w.id = ANY ($1::text[])`,
)

export const LOCK_DUE_WORKERS = statement(
  'lock_due_workers',
  `
-- Finds and locks the workers to which something must happen by this instant, earliest first. Skips what others hold.
SELECT w.*
FROM workers w
WHERE w.wake_at IS NOT NULL AND w.wake_at <= $1
ORDER BY w.wake_at
LIMIT $2
FOR UPDATE OF w SKIP LOCKED`,
)

export const INSERT_WORKERS = statement(
  'insert_workers',
  `
-- Adds workers in their first version.
INSERT INTO workers (
  id, known, last_seen_at, wake_at, died_at, created_at, last_beat_at, state, draining, directive, registered,
  active_jobs, beat_seq, pid, concurrency, hostname, started_at, queues, labels, handlers, beat, version
)
SELECT n.*, 1
FROM unnest(
  $1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
  $9::boolean[], $10::text[], $11::boolean[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[],
  $17::text[], $18::text[], $19::text[], $20::text[], $21::text[]
) AS n`,
)

export const RESTORE_WORKERS = statement(
  'restore_workers',
  `
-- Adds workers in the versions they have.
INSERT INTO workers (
  id, known, last_seen_at, wake_at, died_at, created_at, last_beat_at, state, draining, directive, registered,
  active_jobs, beat_seq, pid, concurrency, hostname, started_at, queues, labels, handlers, beat, version
)
SELECT *
FROM unnest(
  $1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
  $9::boolean[], $10::text[], $11::boolean[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[],
  $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::bigint[]
)`,
)

export const UPDATE_WORKERS = statement(
  'update_workers',
  `
-- Rewrites workers that are still in the version that was read.
WITH moved AS (
  UPDATE workers w SET
    known = n.known, last_seen_at = n.last_seen_at, wake_at = n.wake_at, died_at = n.died_at, created_at = n.created_at,
    last_beat_at = n.last_beat_at, state = n.state, draining = n.draining, directive = n.directive,
    registered = n.registered, active_jobs = n.active_jobs, beat_seq = n.beat_seq, pid = n.pid,
    concurrency = n.concurrency, hostname = n.hostname, started_at = n.started_at, queues = n.queues,
    labels = n.labels, handlers = n.handlers, beat = n.beat,
    version = w.version + 1
  FROM unnest(
    $1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
    $9::boolean[], $10::text[], $11::boolean[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
    $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::bigint[]
  ) AS n (
    id, known, last_seen_at, wake_at, died_at, created_at, last_beat_at, state, draining, directive, registered,
    active_jobs, beat_seq, pid, concurrency, hostname, started_at, queues, labels, handlers, beat, version
  )
  WHERE w.id = n.id AND w.version = n.version
  RETURNING w.id
)
SELECT expect_all('worker', $1::text[], array_agg(id)) FROM moved`,
)

export const DELETE_WORKERS = statement(
  'delete_workers',
  `
-- Removes workers that are still in the version that was read, with what they had yet to hear.
WITH gone AS (
  DELETE FROM workers w
  USING unnest($1::text[], $2::bigint[]) AS n (id, version)
  WHERE w.id = n.id AND w.version = n.version
  RETURNING w.id
), notices_gone AS (
  DELETE FROM notices o USING gone WHERE o.worker_id = gone.id
)
SELECT expect_all('worker', $1::text[], array_agg(id)) FROM gone`,
)

export const LIST_WORKERS = statement(
  'list_workers',
  `
-- Finds all workers.
SELECT w.* FROM workers w ORDER BY w.id`,
)

export const WORKERS_PAGE = statement(
  'workers_page',
  `
-- Finds some of the workers that are not dead, by id.
SELECT w.* FROM workers w WHERE w.died_at IS NULL ORDER BY w.id LIMIT $1 OFFSET $2`,
)

export const WORKER_TOTALS = statement(
  'worker_totals',
  `
-- Counts the workers that are not dead by state, and those of them that are known and silent since.
SELECT state, count(*), count(*) FILTER (WHERE known AND last_seen_at < $1)
FROM workers
WHERE died_at IS NULL
GROUP BY state`,
)

export const FIND_NOTICES = statement(
  'find_notices',
  `
-- Finds what workers shall hear: of each the newest $2, oldest first.
SELECT n.worker_id, n.job_id, n.lease, n.reason, n.at
FROM unnest($1::text[]) WITH ORDINALITY AS w (id, place)
CROSS JOIN LATERAL (SELECT * FROM notices WHERE worker_id = w.id ORDER BY place DESC LIMIT $2) AS n
ORDER BY w.place, n.place`,
)

export const NOTICES_AFTER = statement(
  'notices_after',
  `
-- Finds what workers shall hear after this place, oldest first.
SELECT worker_id, job_id, lease, reason, at, place
FROM notices
WHERE place > $1
ORDER BY place
LIMIT $2`,
)

export const INSERT_NOTICES = statement(
  'insert_notices',
  `
-- Adds what workers shall hear, in this order.
INSERT INTO notices (worker_id, job_id, lease, reason, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])`,
)

export const DELETE_NOTICES = statement(
  'delete_notices',
  `
-- Removes what workers need not hear any more; without a job, all that was kept for the worker.
DELETE FROM notices n
USING unnest($1::text[], $2::text[], $3::bigint[]) AS told (worker_id, job_id, lease)
WHERE n.worker_id = told.worker_id
  AND (told.job_id IS NULL OR (n.job_id = told.job_id AND n.lease = told.lease))`,
)

// ---- Documents ----

export const LOCK_DOCS = statement(
  'lock_docs',
  `
-- Finds and locks the documents of these names.
SELECT d.*
FROM unnest($1::text[], $2::text[]) AS n (kind, id) JOIN docs d ON d.kind = n.kind AND d.id = n.id
ORDER BY d.kind, d.id
FOR UPDATE OF d`,
)

export const SEE_DOCS = statement(
  'see_docs',
  `
-- Finds the documents of these names. Locks nothing.
SELECT d.*
FROM unnest($1::text[], $2::text[]) AS n (kind, id) JOIN docs d ON d.kind = n.kind AND d.id = n.id`,
)

export const LOCK_DUE_DOCS = statement(
  'lock_due_docs',
  `
-- Finds and locks the documents to which something must happen by this instant, earliest first. Skips what others hold.
SELECT d.*
FROM docs d
WHERE d.wake_at IS NOT NULL AND d.wake_at <= $1
ORDER BY d.wake_at
LIMIT $2
FOR UPDATE OF d SKIP LOCKED`,
)

export const DOCS_FROM = statement(
  'docs_from',
  `
-- Finds the documents of a kind from this id on, by id. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id >= $2 ORDER BY d.id LIMIT $3`,
)

export const DOCS_BETWEEN = statement(
  'docs_between',
  `
-- Finds the documents of a kind from one id on and below another, by id. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id >= $2 AND d.id < $4 ORDER BY d.id LIMIT $3`,
)

export const LAST_DOCS = statement(
  'last_docs',
  `
-- Finds the documents of a kind, highest id first. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 ORDER BY d.id DESC LIMIT $2`,
)

export const DOCS_BELOW = statement(
  'docs_below',
  `
-- Finds the documents of a kind below this id, highest first. Locks nothing.
SELECT d.* FROM docs d WHERE d.kind = $1 AND d.id < $2 ORDER BY d.id DESC LIMIT $3`,
)

export const DOCS_AFTER = statement(
  'docs_after',
  `
-- Finds every document after this one, by kind and id.
SELECT d.* FROM docs d WHERE (d.kind, d.id) > ($1, $2) ORDER BY d.kind, d.id LIMIT $3`,
)

export const INSERT_DOCS = statement(
  'insert_docs',
  `
-- Adds documents in their first version.
INSERT INTO docs (kind, id, wake_at, body, version)
SELECT n.*, 1 FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS n`,
)

export const RESTORE_DOCS = statement(
  'restore_docs',
  `
-- Adds documents in the versions they have.
INSERT INTO docs (kind, id, wake_at, body, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])`,
)

export const UPDATE_DOCS = statement(
  'update_docs',
  `
-- Rewrites documents that are still in the version that was read.
WITH moved AS (
  UPDATE docs d SET wake_at = n.wake_at, body = n.body, version = d.version + 1
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) AS n (kind, id, wake_at, body, version)
  WHERE d.kind = n.kind AND d.id = n.id AND d.version = n.version
  RETURNING d.kind || ', ' || d.id AS name
), asked AS (
  SELECT array_agg(n.kind || ', ' || n.id) AS names FROM unnest($1::text[], $2::text[]) AS n (kind, id)
)
SELECT expect_all('doc', (SELECT names FROM asked), array_agg(name)) FROM moved`,
)

export const DELETE_DOCS = statement(
  'delete_docs',
  `
-- Removes documents that are still in the version that was read.
WITH gone AS (
  DELETE FROM docs d
  USING unnest($1::text[], $2::text[], $3::bigint[]) AS n (kind, id, version)
  WHERE d.kind = n.kind AND d.id = n.id AND d.version = n.version
  RETURNING d.kind || ', ' || d.id AS name
), asked AS (
  SELECT array_agg(n.kind || ', ' || n.id) AS names FROM unnest($1::text[], $2::text[]) AS n (kind, id)
)
SELECT expect_all('doc', (SELECT names FROM asked), array_agg(name)) FROM gone`,
)

// ---- Names ----

export const LOCK_NAMES = statement(
  'lock_names',
  `
-- Waits for the right to these names (as numbers), one after the other; it lasts until the transaction has ended.
SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number`,
)

export const SHARE_NAMES = statement(
  'share_names',
  `
-- Waits until nobody has the right to all names, and keeps others from it until the transaction has ended.
SELECT pg_advisory_xact_lock_shared($1::bigint)`,
)

// ---- Queues and types ----

export const FIND_QUEUES = statement(
  'find_queues',
  `
-- Finds the queues with these names.
SELECT q.* FROM queues q WHERE q.name = ANY ($1::text[])`,
)

export const LIST_QUEUES = statement(
  'list_queues',
  `
-- Finds all queues.
SELECT q.* FROM queues q ORDER BY q.name`,
)

export const QUEUES_PAGE = statement(
  'queues_page',
  `
-- Finds some of the queues, by name.
SELECT q.* FROM queues q ORDER BY q.name LIMIT $1 OFFSET $2`,
)

export const FIRST_QUEUES = statement(
  'first_queues',
  `
-- Finds the queues that came first.
SELECT q.* FROM queues q ORDER BY q.created_at, q.name LIMIT $1`,
)

export const QUEUE_TOTALS = statement(
  'queue_totals',
  `
-- Counts the queues, and those that are paused.
SELECT count(*), count(paused_at) FROM queues`,
)

export const INSERT_QUEUES = statement(
  'insert_queues',
  `
-- Adds queues in their first version, but for those that are there already.
INSERT INTO queues (name, created_at, paused_at, draining_at, config, version)
SELECT n.*, 1
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
  AS n (name, created_at, paused_at, draining_at, config)
ORDER BY n.name COLLATE "C"
ON CONFLICT (name) DO NOTHING`,
)

export const RESTORE_QUEUES = statement(
  'restore_queues',
  `
-- Adds queues in the versions they have.
INSERT INTO queues (name, created_at, paused_at, draining_at, config, version)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])`,
)

export const UPDATE_QUEUES = statement(
  'update_queues',
  `
-- Rewrites queues that are still in the version that was read.
WITH moved AS (
  UPDATE queues q SET
    created_at = n.created_at, paused_at = n.paused_at, draining_at = n.draining_at, config = n.config,
    version = q.version + 1
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
    AS n (name, created_at, paused_at, draining_at, config, version)
  WHERE q.name = n.name AND q.version = n.version
  RETURNING q.name
)
SELECT expect_all('queue', $1::text[], array_agg(name)) FROM moved`,
)

export const LIST_TYPES = statement(
  'list_types',
  `
-- Finds the policies of all types.
SELECT t.* FROM types t ORDER BY t.type`,
)

export const PUT_TYPES = statement(
  'put_types',
  `
-- Adds or replaces the policies of types.
INSERT INTO types (type, asked, caps, sent, updated_at)
SELECT *
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS n (type, asked, caps, sent, updated_at)
ORDER BY n.type COLLATE "C"
ON CONFLICT (type) DO UPDATE SET
  asked = excluded.asked, caps = excluded.caps, sent = excluded.sent, updated_at = excluded.updated_at`,
)

export const RESTORE_TYPES = statement(
  'restore_types',
  `
-- Adds the policies of types.
INSERT INTO types (type, asked, caps, sent, updated_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])`,
)

export const DELETE_TYPES = statement(
  'delete_types',
  `
-- Removes the policies of types.
DELETE FROM types WHERE type = ANY ($1::text[])`,
)

// ---- Events ----

export const LOCK_LOG = statement(
  'lock_log',
  `
-- Waits for the right to append to the log, which lasts until the transaction has ended.
SELECT pg_advisory_xact_lock($1::bigint)`,
)

export const APPEND_EVENTS = statement(
  'append_events',
  `
-- Appends events to the log, which must be locked, after leaving out $7 places; notifies other servers of the commit, with
-- the place of the last event at the end; and finds the nearest instant at which something must happen.
WITH added AS (
  INSERT INTO events (sequence, type, at, subject, queue, job_type, data)
  SELECT
    (SELECT coalesce(max(sequence), 0) FROM events) + $7::bigint + n.place,
    n.type, n.at, n.subject, n.queue, n.job_type, n.data
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
    WITH ORDINALITY AS n (type, at, subject, queue, job_type, data, place)
  RETURNING sequence
), last AS MATERIALIZED (
  SELECT max(sequence) AS place FROM added
)
SELECT
  place,
  least(
    (SELECT wake_at FROM jobs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM workers WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM docs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1)
  ),
  pg_notify($8, $9::text || place::text || $10::text)
FROM last`,
)

export const RESTORE_EVENTS = statement(
  'restore_events',
  `
-- Adds events to the log, which must be locked, at the places they have.
INSERT INTO events (type, at, subject, queue, job_type, data, sequence)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])`,
)

export const PRUNE_EVENTS = statement(
  'prune_events',
  `
-- Removes the oldest events, at most $2: those that are too many beside $3 in all when $4 more are added, and those from
-- before $5. Never the newest. If somebody else is about it, nothing.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock($1::bigint) AS is_mine
), oldest AS MATERIALIZED (
  SELECT sequence, at FROM events ORDER BY sequence LIMIT $2
), kept AS (
  SELECT min(sequence) AS first
  FROM oldest
  WHERE sequence > (SELECT max(sequence) FROM events) + $4::bigint - $3::bigint AND at >= $5::bigint
)
DELETE FROM events
WHERE (SELECT is_mine FROM turn)
  AND sequence < (SELECT max(sequence) FROM events)
  AND sequence < coalesce((SELECT first FROM kept), (SELECT max(sequence) + 1 FROM oldest))`,
)

export const FIRST_EVENT = statement(
  'first_event',
  `
-- Finds the oldest event: its place and its instant.
SELECT sequence, at FROM events ORDER BY sequence LIMIT 1`,
)

export const EVENT_BOUNDS = statement(
  'event_bounds',
  `
-- Finds the places of the oldest and of the newest event.
SELECT
  (SELECT sequence FROM events ORDER BY sequence LIMIT 1),
  (SELECT sequence FROM events ORDER BY sequence DESC LIMIT 1)`,
)

export const FIND_EVENT = statement(
  'find_event',
  `
-- Finds the event at this place of the log.
SELECT e.* FROM events e WHERE e.sequence = $1`,
)

export const FIND_EVENTS_AFTER = statement(
  'find_events_after',
  `
-- Finds the events after this place of the log, oldest first.
SELECT e.* FROM events e WHERE e.sequence > $1 ORDER BY e.sequence LIMIT $2`,
)

// ---- News ----

export const NOTIFY = statement(
  'notify',
  `
-- Tells those who listen, when the transaction is committed.
SELECT pg_notify($1, $2)`,
)

// ---- Shared texts ----

export const ALL_TEXTS = statement(
  'all_texts',
  `
-- Finds texts that rows have in common.
SELECT place, text FROM texts LIMIT $1`,
)

export const FIND_TEXTS = statement(
  'find_texts',
  `
-- Finds the texts at these places.
SELECT place, text FROM texts WHERE place = ANY ($1::bigint[])`,
)

export const INSERT_TEXTS = statement(
  'insert_texts',
  `
-- Adds texts that rows have in common, where nobody has yet.
INSERT INTO texts (place, text)
SELECT n.place, n.text
FROM unnest($1::bigint[], $2::text[]) AS n (place, text)
ORDER BY n.place
ON CONFLICT (place) DO NOTHING`,
)

// ---- The inbox ----

export const LOCK_INBOX = statement(
  'lock_inbox',
  `
-- Finds and locks what lies in the inbox, oldest first; bodies of at most $2 bytes with it. Skips what others hold.
SELECT id, CASE WHEN octet_length(body) <= $2 THEN body END
FROM inbox
ORDER BY place
LIMIT $1
FOR UPDATE SKIP LOCKED`,
)

export const DELETE_FROM_INBOX = statement(
  'delete_from_inbox',
  `
-- Removes what was admitted, or was there already.
DELETE FROM inbox WHERE id = ANY ($1::text[])`,
)

export const REFUSE_FROM_INBOX = statement(
  'refuse_from_inbox',
  `
-- Lays what was refused aside, each with the reason.
WITH refused AS (
  DELETE FROM inbox i
  USING unnest($1::text[], $2::text[], $3::bigint[]) AS r (id, error, refused_at)
  WHERE i.id = r.id
  RETURNING i.id, i.body, r.error, r.refused_at
)
INSERT INTO inbox_refused (id, body, error, refused_at) SELECT id, body, error, refused_at FROM refused`,
)

export const PRUNE_REFUSED = statement(
  'prune_refused',
  `
-- Removes what was refused, but the newest $1.
DELETE FROM inbox_refused WHERE place <= (SELECT max(place) FROM inbox_refused) - $1::bigint`,
)

export const INBOX_AFTER = statement(
  'inbox_after',
  `
-- Finds what lies in the inbox, oldest first.
SELECT id, body, place FROM inbox WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const REFUSED_AFTER = statement(
  'refused_after',
  `
-- Finds what was refused, oldest first.
SELECT id, body, error, refused_at, place FROM inbox_refused WHERE place > $1 ORDER BY place LIMIT $2`,
)

export const RESTORE_INBOX = statement(
  'restore_inbox',
  `
-- Adds to the inbox, in the order of the list.
INSERT INTO inbox (id, body)
SELECT id, body FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i (id, body, n) ORDER BY n`,
)

export const RESTORE_REFUSED = statement(
  'restore_refused',
  `
-- Adds what was refused, in the order of the list.
INSERT INTO inbox_refused (id, body, error, refused_at)
SELECT id, body, error, refused_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS r (id, body, error, refused_at, n)
ORDER BY n`,
)

// ---- The servers' life, and the database itself ----

export const FIND_LIFE = statement(
  'find_life',
  `
-- Finds when a server last stood by this data, and the times in which none did.
SELECT alive_at, outages FROM life`,
)

export const PUT_ALIVE = statement(
  'put_alive',
  `
-- Leaves a sign of life, unless there is a later one.
UPDATE life SET alive_at = $1::bigint WHERE alive_at IS NULL OR alive_at < $1::bigint`,
)

export const PUT_OUTAGES = statement(
  'put_outages',
  `
-- Rewrites the list of outages, if it is still what was seen.
WITH moved AS (
  UPDATE life SET outages = $2 WHERE outages = $1 RETURNING 'outages' AS id
)
SELECT expect_all('the list of', ARRAY['outages'], array_agg(id)) FROM moved`,
)

export const RESTORE_LIFE = statement(
  'restore_life',
  `
-- Rewrites when a server last stood by this data, and the times in which none did.
UPDATE life SET alive_at = $1::bigint, outages = $2`,
)

export const PUT_HALF_RESTORED = statement(
  'put_half_restored',
  `
-- Remembers whether more has to come until this is all there is.
UPDATE life SET half_restored = $1`,
)

export const IS_HALF_RESTORED = statement(
  'is_half_restored',
  `
-- Finds whether this is only a part of what a restore brings.
SELECT half_restored FROM life`,
)

export const SIZES = statement(
  'sizes',
  `
-- Counts the rows of every kind. Jobs are counted already.
SELECT
  (SELECT count(*) FROM queues), (SELECT count(*) FROM types), (SELECT count(*) FROM workers),
  (SELECT count(*) FROM notices), (SELECT coalesce(sum(n), 0)::bigint FROM counts WHERE state <> 'dead_letter'),
  (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM docs), (SELECT count(*) FROM tombstones),
  (SELECT count(*) FROM events),
  (SELECT count(*) FROM inbox), (SELECT count(*) FROM inbox_refused)`,
)

export const WHO_IS_THERE = statement(
  'who_is_there',
  `
-- Finds the version of PostgreSQL, and whether it may be written to.
SELECT current_setting('server_version'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`,
)

export const CLOCK = statement(
  'clock',
  `
-- Asks for the time, to measure clocks by. Nothing is decided by it here.
SELECT extract(epoch FROM clock_timestamp())::double precision * 1000`,
)

/** Removes everything, for the test bench and for an import that failed. Places go on, and shared texts stay: other servers may know them. */
export const RESET_TABLES = statement(
  'reset_tables',
  `
-- Empties all tables.
TRUNCATE
  jobs, bodies, job_tags, counts, tombstones, checkpoints, docs, workers, notices, queues, types, events, inbox, inbox_refused`,
)

export const RESET_LIFE = statement(
  'reset_life',
  `
-- Forgets all signs of life.
UPDATE life SET alive_at = NULL, outages = '[]', half_restored = false`,
)
