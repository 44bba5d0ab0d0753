/** Jobs to be decided about: by id, to be claimed, due, held, owned, unique. */
import { statement } from './statement.ts'

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

export const LOCK_JOB_VERSIONS = statement(
  'lock_job_versions',
  `
-- Locks the jobs with these ids, and finds what tells whether a row is the one that is remembered.
SELECT j.id, j.version, j.seq, j.created_at
FROM jobs j
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
