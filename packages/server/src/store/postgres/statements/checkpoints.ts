/** Checkpoints of jobs. */
import { statement } from './statement.ts'

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
