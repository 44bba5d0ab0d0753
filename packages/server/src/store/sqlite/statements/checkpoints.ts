/** Checkpoints of jobs. */

export const FIND_CHECKPOINT = `
-- Finds a job's checkpoint.
SELECT * FROM checkpoints WHERE job_id = ?`

export const CHECKPOINTS_AFTER = `
-- Finds the checkpoints of jobs whose id is above this one, by id.
SELECT * FROM checkpoints WHERE job_id > ? ORDER BY job_id LIMIT +?`

export const PUT_CHECKPOINT = `
-- Adds or replaces a job's checkpoint.
INSERT OR REPLACE INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)`

export const RESTORE_CHECKPOINT = `
-- Adds a job's checkpoint.
INSERT INTO checkpoints (job_id, sequence, state, step_index, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)`

export const DELETE_CHECKPOINT = `
-- Removes a job's checkpoint.
DELETE FROM checkpoints WHERE job_id = ?`
