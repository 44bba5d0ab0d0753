/** Workers, and notices to them. */
import { statement } from './statement.ts'

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
