/** Jobs that are only looked at: lists, the next wake. */
import { WHOLE_JOB } from './find-jobs.ts'

export const LIST_DEAD_LETTERS = `
-- Finds the members of the dead-letter list by queue, type and tenant (null: any), newest first.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_dead_letter
WHERE j.dead_letter = 1
  AND (@queue IS NULL OR j.queue = @queue)
  AND (@type IS NULL OR j.type = @type)
  AND (@tenant IS NULL OR j.tenant = @tenant)
ORDER BY j.discarded_at DESC, j.place DESC
LIMIT +@limit OFFSET +@offset`

export const COUNT_DEAD_LETTERS_AMONG = `
-- Counts the members of the dead-letter list by queue, type and tenant (null: any). Reads all of them.
SELECT count(*)
FROM jobs INDEXED BY jobs_dead_letter
WHERE dead_letter = 1
  AND (@queue IS NULL OR queue = @queue)
  AND (@type IS NULL OR type = @type)
  AND (@tenant IS NULL OR tenant = @tenant)`

export const JOBS_AFTER = `
-- Finds every job whose id is above this one, by id.
SELECT ${WHOLE_JOB}
FROM jobs j INDEXED BY jobs_id
WHERE j.id > ?
ORDER BY j.id
LIMIT +?`

export const LIST_ACTIVE_JOBS = `
-- Finds active jobs, without the bodies that lie aside.
SELECT '' AS aside, j.*
FROM jobs j INDEXED BY jobs_held
WHERE j.state = 'active'
LIMIT +?`

export const NEXT_JOB_WAKE = `
-- Finds the nearest instant at which something must happen to a job.
SELECT wake_at
FROM jobs INDEXED BY jobs_wake
WHERE wake_at IS NOT NULL
ORDER BY wake_at
LIMIT 1`
