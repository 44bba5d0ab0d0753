/** Jobs that are written. */

export const INSERT_JOB = `
-- Adds a job as it begins: not claimed yet, with no history.
INSERT INTO jobs (
  id, version, state, queue, type, priority, seq, wake_at,
  created_at, anchor_at, limits_set_at, scheduled_at, expires_at, enqueued_at, result_ttl_ms,
  limits, retry, ceiling, parent, trace_id, given, life,
  owner, step, unique_key, limit_key, tenant, body,
  dead_letter, attempt, lease, interruptions, error_count, checkpoint_seq, errors
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?,
  0, 0, 0, 0, 0, 0, ''
)`

export const INSERT_BODY = `
-- Adds what the client sent with the job at this place, where that is large.
INSERT INTO bodies (place, body) VALUES (?, ?)`

export const UPDATE_JOB = `
-- Rewrites the job with this id, if it is still in the version that was read.
UPDATE jobs SET
  state = ?, seq = ?, wake_at = ?, worker_id = iif(?, ?, worker_id), attempt = ?, lease = ?, enqueued_at = ?, started_at = ?, completed_at = ?, purge_at = ?,
  hold = ?, closed_by = ?, progress = ?, result = ?, life = ?,
  priority = ?, dead_letter = ?, interruptions = ?, anchor_at = ?, limits_set_at = ?, scheduled_at = ?, expires_at = ?, activated_at = ?, cancelled_at = ?,
  discarded_at = ?, reenqueued_at = ?, next_retry_at = ?, retry_delay_ms = ?, result_ttl_ms = ?, error_count = ?, checkpoint_seq = ?, limits = ?, retry = ?,
  ceiling = ?, cancel_reason = ?, error = ?, errors = ?, given = ?, owner = ?, step = ?, error_type = ?, timeout_kind = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const MOVE_JOB = `
-- Rewrites what a claim, a result or a sign of life changes in the job with this id, if it is still in the version that was read.
UPDATE jobs SET
  state = ?, seq = ?, wake_at = ?, worker_id = iif(?, ?, worker_id), attempt = ?, lease = ?, enqueued_at = ?, started_at = ?, completed_at = ?, purge_at = ?,
  hold = ?, closed_by = ?, progress = ?, result = ?, life = ?,
  version = version + 1
WHERE id = ? AND version = ?`

export const DELETE_JOB = `
-- Removes the job with this id, if it is still in the version that was read, and tells its place.
DELETE FROM jobs WHERE id = ? AND version = ? RETURNING place`

export const DELETE_BODY = `
-- Removes what the client sent with the job at this place.
DELETE FROM bodies WHERE place = ?`

export const INSERT_TAG = `
-- Notes that the job at this place has a tag.
INSERT INTO tags (tag, id, place) VALUES (?, ?, ?)`

export const DELETE_TAG = `
-- Removes the note that a job has a tag.
DELETE FROM tags WHERE tag = ? AND id = ?`
