/** Workers, and notices to them. */

export const FIND_WORKER = `
-- Finds the worker with this id.
SELECT * FROM workers WHERE id = ?`

export const FIND_DUE_WORKERS = `
-- Finds the workers to which something must happen by this instant, earliest first.
SELECT *
FROM workers INDEXED BY workers_wake
WHERE wake_at IS NOT NULL AND wake_at <= ?
ORDER BY wake_at
LIMIT +?`

export const INSERT_WORKER = `
-- Adds a worker in this version.
INSERT INTO workers (
  known, last_seen_at, wake_at, died_at, created_at, last_beat_at, state, draining, directive, registered, active_jobs,
  beat_seq, pid, concurrency, hostname, started_at, queues, labels, handlers, beat,
  id, version
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?
)`

export const UPDATE_WORKER = `
-- Rewrites the worker with this id, if it is still in the version that was read.
UPDATE workers SET
  known = ?, last_seen_at = ?, wake_at = ?, died_at = ?, created_at = ?, last_beat_at = ?, state = ?, draining = ?, directive = ?, registered = ?, active_jobs = ?,
  beat_seq = ?, pid = ?, concurrency = ?, hostname = ?, started_at = ?, queues = ?, labels = ?, handlers = ?, beat = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const DELETE_WORKER = `
-- Removes the worker with this id, if it is still in the version that was read.
DELETE FROM workers WHERE id = ? AND version = ?`

export const LIST_WORKERS = `
-- Finds all workers.
SELECT * FROM workers ORDER BY id`

export const WORKERS_PAGE = `
-- Finds some of the workers that are not dead, by id.
SELECT * FROM workers WHERE died_at IS NULL ORDER BY id LIMIT +@limit OFFSET +@offset`

export const WORKER_TOTALS = `
-- Counts the workers that are not dead by state, and those of them that are known and silent since.
SELECT state, count(*), count(*) FILTER (WHERE known AND last_seen_at < ?)
FROM workers
WHERE died_at IS NULL
GROUP BY state`

export const NEXT_WORKER_WAKE = `
-- Finds the nearest instant at which something must happen to a worker.
SELECT wake_at
FROM workers INDEXED BY workers_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`

export const FIND_NOTICES = `
-- Finds what a worker is to be told, newest first.
SELECT worker_id, job_id, lease, reason, at
FROM notices INDEXED BY notices_worker
WHERE worker_id = ?
ORDER BY place DESC
LIMIT +?`

export const NOTICES_AFTER = `
-- Finds what workers are to be told after this place, oldest first.
SELECT worker_id, job_id, lease, reason, at, place
FROM notices
WHERE place > ?
ORDER BY place
LIMIT +?`

export const INSERT_NOTICE = `
-- Adds something that a worker is to be told.
INSERT INTO notices (worker_id, job_id, lease, reason, at) VALUES (?, ?, ?, ?, ?)`

export const DELETE_NOTICE = `
-- Removes what a worker was told of an attempt.
DELETE FROM notices WHERE worker_id = ? AND job_id = ? AND lease = ?`

export const DELETE_NOTICES = `
-- Removes all that a worker was to be told.
DELETE FROM notices WHERE worker_id = ?`
